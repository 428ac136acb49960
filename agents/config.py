"""Settings common to all agents. Only `AgentConfig.build` imports TensorFlow."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import random
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from seed_rl.settings import Count, NonNegative, Settings, UnitInterval, Within
from seed_rl.specs import ActionSpec, CannotAct, ContinuousSpec, DiscreteSpec, EnvSpec
from seed_rl.types import Metric

if TYPE_CHECKING:
    from seed_rl.agents.base import Agent

_LENDING = threading.RLock()


@dataclasses.dataclass(frozen=True)
class AgentConfig(Settings):
    """Settings of an agent, validated on construction."""

    agent_class: ClassVar[str]
    """Class of the agent as `module:Class`; imported by `build`, because it needs TensorFlow."""
    learns_from_replay: ClassVar[bool] = False
    """Whether batches are sampled from a replay (`Experiment.replay`) or come straight from acting."""
    actions: ClassVar[str] = ""
    """The only kind of actions that the agent supports, `discrete` or `continuous`; empty: any."""
    metrics: ClassVar[tuple[Metric, ...]] = ()
    """Rows of the metrics table: the metrics that the loss reports in addition to `loss/total`."""

    unroll_length: Count = 100
    """T, agent steps of new experience in each unroll."""
    discount: UnitInterval = 0.99
    """gamma, per agent step."""
    reward_scale: NonNegative = 1.0
    """Factor of the rewards in the loss, applied before clipping."""
    max_abs_reward: NonNegative = 0.0
    """Clip rewards in the loss to [-x, x]; 0: no clipping."""
    truncation_is_termination: bool = False
    """Treat an episode that ends at a time limit as terminated, with no value after it, as the original does. By
    default, targets bootstrap from the value of its last state."""

    def for_device(self) -> Self:
        """Return these settings with what depends on the learner's device. `TrunkConfig` chooses its number format."""
        return self

    def policy_spec(self, env_spec: EnvSpec) -> EnvSpec:
        """The part of the environments' spec that acting needs, by default all; training may need more."""
        return env_spec

    def check(self, env_spec: EnvSpec) -> None:
        """Raise CannotAct unless the agent supports the environments, without importing TensorFlow."""
        self.policy_spec(env_spec)
        kinds: dict[str, Any] = {"": ActionSpec, "discrete": DiscreteSpec, "continuous": ContinuousSpec}
        if not isinstance(env_spec.action, kinds[self.actions]):
            raise CannotAct(
                f"{type(self).__name__} needs {self.actions} actions, got {env_spec.action}; VTrace and PPO accept any"
            )

    def build(self, env_spec: EnvSpec, num_training_envs: int, seed: int) -> Agent:
        """Build the agent, by default an `agent_class` of these settings and the first two arguments.

        Ids below `num_training_envs`, which may be 0, belong to training environments, the others to evaluation.
        Keras's initializers draw the weights from `seed`; see `seeding`. Raises CannotAct if the agent does not support
        such environments.
        """
        if ":" not in getattr(self, "agent_class", ""):
            raise TypeError(f"{type(self).__name__} needs agent_class = 'module:Class', or its own method build")
        self.check(env_spec)
        module, _, name = self.agent_class.partition(":")
        make: Callable[..., Agent] = getattr(importlib.import_module(module), name)
        with seeding(seed):
            return make(self, env_spec, num_training_envs)


@contextlib.contextmanager
def seeding(seed: int) -> Iterator[None]:
    """Seed Python's global generator, and put back its state at the end; for one thread at a time.

    Keras's initializers and layers that were given no seed take it from there.
    """
    with _LENDING:
        before = random.getstate()
        random.seed(seed)
        try:
            yield
        finally:
            random.setstate(before)


@dataclasses.dataclass(frozen=True)
class TargetConfig(Settings):
    """Settings of agents with a target network, a frozen copy that tracks the weights."""

    target_update_period: Count = 1
    """Learner updates between two updates of the target network."""
    target_update_rate: Annotated[float, Within(1e-6, 1)] = 1.0
    """tau: fraction of the distance to the online weights that an update of the target network covers. 1: copies the
    weights; 0.005 with a period of 1: Polyak averaging."""
