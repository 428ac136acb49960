"""The policy of a run: its agent with the weights of a checkpoint, acting on NumPy arrays."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from seed_rl.agents.base import Agent
from seed_rl.envs.base import EnvConfig
from seed_rl.experiment import Experiment, config_files, saved_config
from seed_rl.networks.config import TrunkConfig
from seed_rl.specs import EnvSpec
from seed_rl.system.files import StrPath
from seed_rl.system.host_memory import allocating_at_most
from seed_rl.transport.codec import StepCodec
from seed_rl.types import EnvOutput
from seed_rl.weights import checkpoints
from seed_rl.weights.policy_sources import opening

_TENSORFLOW_BYTES = 4 << 30  # memory allowed in addition to the weights when building an agent


class NoPolicy(checkpoints.CheckpointError):
    """The run has no usable policy; the message gives the reason in one line."""


class Policy:
    """Acts in B parallel environments and keeps their recurrent states and previous actions.

    ```python
    policy = load_policy("runs/pong")
    policy.reset(num_envs)
    for output in seed_rl.envs.vector.steps.outputs(env, policy.act, seed=1):
        ...
    ```
    """

    checkpoint: str = ""
    """Path of the checkpoint with the weights, if any."""
    env_frames: int = 0
    """Environment frames that the weights were trained on."""

    def __init__(self, agent: Agent, env_spec: EnvSpec, *, greedy: bool = False, seed: int = 0):
        """`agent` is built for evaluation environments; `seed`, 0 to 2^31 - 1, determines the sampled actions."""
        self.agent, self.env_spec, self.greedy, self._seed = agent, env_spec, greedy, seed
        self._act = tf.function(self.one_step, autograph=False)
        self.reset(1)

    def reset(self, num_envs: int) -> None:
        """Restart with B = `num_envs` environments, at least 1, and the same sequence of random numbers."""
        if num_envs < 1:
            raise ValueError(f"num_envs must be at least 1, got {num_envs}")
        action = self.env_spec.action.tensor
        self._calls, self._codec = 0, StepCodec(self.env_spec, num_envs)
        self._state: Any = self.agent.initial_state(num_envs)
        self._previous = tf.zeros([num_envs, *action.shape], action.dtype)

    def act(self, output: EnvOutput) -> np.ndarray:
        """Choose the next actions, [B, ...] as specified by `env_spec`.

        The output has reward float32 [B], done and last bool [B], and observation [B, ...]; any other array, or another
        B than that of `reset`, is a ValueError. Recurrent states are reset where `done`; `last` has no effect.
        """
        if not isinstance(output, EnvOutput):
            raise ValueError(f"act takes an EnvOutput, such as those of `outputs`, got {type(output).__name__}")
        if isinstance(observation := output.observation, Mapping):  # it may have what only training needs
            names = [name for name, _ in self.env_spec.observation_tensors() if name in observation]
            output = output._replace(observation={name: observation[name] for name in names})
        self._codec.tensors(output)
        self._calls = (self._calls + 1) % 2**31
        seed = tf.constant([self._seed, self._calls], tf.int32)
        tensors = tf.nest.map_structure(tf.convert_to_tensor, output)
        self._previous, self._state = self._act(self._previous, tensors, self._state, seed, self.greedy)
        return self._previous.numpy()

    def one_step(
        self, previous: tf.Tensor, output: EnvOutput, state: Any, seed: tf.Tensor, greedy: bool
    ) -> tuple[tf.Tensor, Any]:
        """Compute actions and states [B, ...], and keep none; `previous` are zero at first, `seed` int32 [2] is new."""
        env_ids = tf.range(tf.shape(output.done)[0])
        answer = self.agent.act(previous, output, state, env_ids, seed, greedy)
        return answer.action, answer.state


def experiment_of(logdir: str) -> Experiment:
    """Read a run's experiment; raises NoPolicy unless `logdir` is a log directory, ConfigError if it can't be used."""
    try:
        return saved_config.load_saved(logdir)
    except FileNotFoundError as error:
        raise NoPolicy(f"{logdir} is not the log directory of a run: {error.filename} is missing") from None


def env_of(experiment: Experiment, gin_params: Sequence[str] = ()) -> EnvConfig:
    """Return a run's evaluation environments, changed by gin bindings, or raise NoPolicy if its policy can't act."""
    env = config_files.change(experiment.eval_env, gin_params) if gin_params else experiment.eval_env
    if env != experiment.env:
        own, other = experiment.env_spec(), dataclasses.replace(experiment, env=env).env_spec()
        if other not in (own, experiment.agent.policy_spec(own)):
            changed = f"with {', '.join(gin_params or ['Actors.eval_options'])} they have {other}"
            raise NoPolicy(f"the policy acts in environments with {own}; {changed}")
    return env


def load_policy(
    logdir: StrPath, checkpoint: StrPath | None = None, greedy: bool = False, seed: int = 0, *, float32: bool = False
) -> Policy:
    """Load the policy of a run, which may be finished, killed or still running.

    Args:
      logdir: log directory of the run, or what a `PolicySource` knows: a bundle, the folder of a published policy, the
        name of a pretrained one, the URL of a run.
      checkpoint: `best`, or the name or path of a checkpoint; None: the newest readable one.
      greedy: whether to act without exploration; otherwise the policy acts as in the run's evaluation environments.
      seed: seed of sampled actions, 0 to 2^31 - 1.
      float32: whether to compute in float32 if the run trains in mixed precision.

    Raises:
      NoPolicy: there is no run, or its agent can't be built.
      ConfigError: the configuration of the run is no longer valid.
      CheckpointError: there is no checkpoint, or it is damaged or belongs to another agent.
      CannotBuild: the environments must be installed to determine their spec, and are not.
    """
    place, checkpoint = os.fspath(logdir), None if checkpoint is None else os.fspath(checkpoint)
    with opening(place, checkpoint) as found:
        experiment = experiment_of(found)
        if float32 and isinstance(experiment.agent, TrunkConfig):
            dtype: Any = {"dtype": "float32"}
            experiment = dataclasses.replace(experiment, agent=dataclasses.replace(experiment.agent, **dtype))
        agent, path, env_frames = restore_agent(experiment, found, checkpoint)
    greedy = greedy or experiment.actors.greedy_evaluation
    policy = Policy(agent, agent.env_spec, greedy=greedy, seed=seed)
    policy.checkpoint, policy.env_frames = path.replace(found, place, 1), env_frames
    return policy


def restore_agent(experiment: Experiment, logdir: str, checkpoint: str | None) -> tuple[Agent, str, int]:
    """Build a run's agent for evaluation environments, or raise as `load_policy`; also return path and `env_frames`."""
    path, arrays, state = checkpoints.chosen(logdir, checkpoint)
    nbytes = sum(array.nbytes for array in arrays.values())
    try:
        with allocating_at_most(4 * nbytes + _TENSORFLOW_BYTES):  # the configuration may not match the checkpoint
            agent = experiment.build_agent(for_evaluation=True)
    except (tf.errors.OpError, MemoryError, OverflowError, ValueError) as error:
        text = " ".join(str(error).split())[:200]
        raise NoPolicy(f"the agent of {logdir} can't be built: {type(error).__name__}: {text}") from error
    agent.env_spec = experiment.agent.policy_spec(agent.env_spec)  # all that acting needs
    return agent, path, assign(agent, path, arrays, state)


def assign(agent: Agent, path: str, arrays: Mapping[str, np.ndarray], state: Mapping[str, Any]) -> int:
    """Give an agent the weights of a checkpoint, or raise a CheckpointError; return `Policy.env_frames`."""
    env_frames = checkpoints.env_frames(state, path)
    weights = checkpoints.weights_in(arrays)
    checkpoints.assign(checkpoints.variables_for(agent, weights), weights, path)
    return env_frames
