"""The trunk of agents that see images, from their settings and the environments."""

from __future__ import annotations

from seed_rl.agents.config import CannotAct, ImageAgentConfig
from seed_rl.networks.torsos import ShallowTorso
from seed_rl.networks.trunk import Trunk
from seed_rl.specs import ArraySpec, DiscreteSpec, EnvSpec


def check_env_spec(config: ImageAgentConfig, env_spec: EnvSpec) -> tuple[int, int, int]:
    """The (height, width, channels) of one observation.

    Raises:
      CannotAct: observations are no images, too small for the torso, or actions are not discrete.
    """
    observation, action, name = env_spec.observation, env_spec.action, type(config).__name__
    if not isinstance(observation, ArraySpec) or observation.dtype != "uint8" or len(observation.shape) != 3:
        raise CannotAct(f"{name} takes uint8 images [height, width, channels], got {env_spec}")
    if not isinstance(action, DiscreteSpec):
        raise CannotAct(f"{name} acts in discrete action spaces, got {env_spec}")
    smallest = ShallowTorso.MIN_FRAME_SIZE
    if config.torso == "shallow" and min(observation.shape[:2]) < smallest:
        raise CannotAct(f"the shallow torso needs frames of at least {smallest} x {smallest}, got {env_spec}")
    height, width, channels = observation.shape
    return height, width, channels


def build_trunk(config: ImageAgentConfig, env_spec: EnvSpec, clip_reward_input: bool) -> Trunk:
    """The trunk for these environments.

    Args:
      config: its sizes.
      env_spec: passed by `check_env_spec`.
      clip_reward_input: see `Trunk`.
    """
    return Trunk(
        check_env_spec(config, env_spec),
        env_spec.action.n,
        torso=config.torso,
        hidden=config.hidden,
        lstm_units=config.lstm_units,
        previous_step_inputs=config.previous_step_inputs,
        clip_reward_input=clip_reward_input,
        frame_stack=config.frame_stack,
        kernel_initializer=config.kernel_initializer,
        dtype=config.dtype,
    )
