"""The trunk of an agent, from its settings and the environments."""

from __future__ import annotations

from seed_rl.agents.config import CannotAct, TrunkConfig
from seed_rl.networks.torsos import ShallowTorso, own_torso
from seed_rl.networks.trunk import Trunk, is_frame, is_planes, torso_of
from seed_rl.specs import EnvSpec


def build_trunk(config: TrunkConfig, env_spec: EnvSpec, clip_reward_input: bool) -> Trunk:
    """The trunk for these environments.

    Args:
      config: its sizes.
      env_spec: of the environments.
      clip_reward_input: see `Trunk`.

    Raises:
      CannotAct: the torso that is asked for does not fit the observations.
    """
    specs = [spec for _, spec in env_spec.observation_tensors()]
    pictures = [spec for spec in specs if is_frame(spec) or is_planes(spec)]
    if config.torso not in ("auto", "mlp") and not pictures:
        raise CannotAct(
            f"the {config.torso} torso takes pictures, uint8 [height, width, channels] or uint16 [height, width] of "
            f"bit planes, got {env_spec}; {type(config).__name__}.torso = 'mlp' takes anything"
        )
    if ":" in config.torso:
        try:
            own_torso(config.torso)
        except ValueError as error:
            raise CannotAct(str(error)) from error
    smallest = ShallowTorso.MIN_FRAME_SIZE
    for spec in pictures:
        if torso_of(spec, config.torso) == "shallow" and min(spec.shape[:2]) < smallest:
            raise CannotAct(f"the shallow torso needs frames of at least {smallest} x {smallest}, got {env_spec}")
    return Trunk(
        env_spec,
        torso=config.torso,
        hidden=config.hidden,
        mlp_layers=config.mlp_layers,
        channels=config.channels,
        residual_blocks=config.residual_blocks,
        lstm_units=config.lstm_units,
        previous_step_inputs=config.previous_step_inputs,
        clip_reward_input=clip_reward_input,
        frame_stack=config.frame_stack,
        kernel_initializer=config.kernel_initializer,
        dtype=config.dtype,
    )
