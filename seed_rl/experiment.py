"""An experiment: every setting that defines a run, as frozen dataclasses that gin files fill in."""

from __future__ import annotations

import dataclasses
import logging
from typing import TYPE_CHECKING, Any

import gin

from seed_rl.agents.config import AgentConfig
from seed_rl.envs.base import CannotBuild, EnvConfig
from seed_rl.settings import check_at_least, check_one_of, check_range, check_types

if TYPE_CHECKING:
    from seed_rl.agents.base import Agent
    from seed_rl.specs import EnvSpec

_log = logging.getLogger(__name__)


class ConfigError(ValueError):
    """A configuration that can't be run; the message is one sentence for the person who wrote it."""


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Optimizer:
    """How gradients become updates."""

    name: str = "adam"
    """`adam` or `rmsprop`."""
    learning_rate: float = 3e-4
    """At the start of the run; see `schedule`."""
    schedule: str = "constant"
    """`constant`, or `linear`: decays to zero over the run's `total_frames`."""
    beta_1: float = 0.9
    """Adam only."""
    beta_2: float = 0.999
    """Adam only."""
    decay: float = 0.99
    """RMSProp only: of the moving average of squared gradients."""
    momentum: float = 0.0
    """RMSProp only."""
    epsilon: float = 1e-7
    """Added to the denominator: outside the root by Adam, inside by RMSProp (with 0.01 in IMPALA's Atari runs, whose
    losses are sums over the batch; here they are means, and gradients so much smaller)."""
    clip_norm: float = 0.0
    """Gradients are scaled down to this global norm; 0: never."""

    def __post_init__(self):
        check_types(self)
        check_one_of(self, ("adam", "rmsprop"), "name")
        check_one_of(self, ("constant", "linear"), "schedule")
        check_at_least(self, 0, "learning_rate", "epsilon", "clip_norm")
        check_range(self, 0, 0.999999, "beta_1", "beta_2", "decay", "momentum")


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Inference:
    """How observations are batched and how far acting may run ahead of learning."""

    max_batch_size: int = 64
    """Environments per act step at the most; a group of environments must fit."""
    max_wait_ms: float = 2.0
    """How long an observation may wait for others that usually come back within this time, milliseconds."""
    queue_batches: float = 1.0
    """Capacity of the queue of finished unrolls, learner batches; with a replay ratio above 1, of the new unrolls that
    an update takes."""
    stagger_unrolls: bool = True
    """Spread the starts of the environments' unrolls, so that finished ones arrive evenly."""
    lease_timeout_s: float = 60.0
    """Environment ids of an actor that joined but never opened its streams are free after this, seconds."""

    def __post_init__(self):
        check_types(self)
        check_at_least(self, 1, "max_batch_size")
        check_at_least(self, 0, "max_wait_ms", "lease_timeout_s")
        check_range(self, 1, 1000, "queue_batches")


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Actors:
    """The environments: how many, and how they are spread over actor processes."""

    num_actors: int = 1
    """Actor processes: `train` starts so many, a learner keeps room for so many."""
    groups_per_actor: int = 2
    """Environment groups per actor: one steps while another waits for its actions."""
    envs_per_group: int = 16
    """They are stepped together by a thread, and their observations are one message."""
    num_eval_envs: int = 0
    """The environments with the highest ids are for evaluation: nothing is learned from them, and their returns are
    reported apart, as `eval/episode_return`."""

    def __post_init__(self):
        check_types(self)
        check_at_least(self, 1, "num_actors", "groups_per_actor", "envs_per_group")
        check_at_least(self, 0, "num_eval_envs")
        if self.num_eval_envs >= self.num_envs:
            raise ValueError(
                f"Actors.num_eval_envs ({self.num_eval_envs}) must leave environments to learn from: there are "
                f"{self.num_envs} in all"
            )

    @property
    def num_envs(self) -> int:
        """Environments in all; the learner keeps room for so many."""
        return self.num_actors * self.groups_per_actor * self.envs_per_group

    @property
    def num_training_envs(self) -> int:
        """Environments that are learned from: those with the lowest ids."""
        return self.num_envs - self.num_eval_envs


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Replay:
    """The prioritized replay of an agent that learns from one. Defaults are those of the published Atari runs."""

    capacity: int = 100_000
    """Sequences (unrolls) kept; the oldest go first."""
    min_size: int = 5_000
    """Sequences there must be before anything is sampled."""
    ratio: float = 0.75
    """How often each sequence is sampled on average: each update inserts batch_size / ratio new ones. Kept exactly,
    whether actors are faster or slower than the learner: one waits for the other."""
    priority_exponent: float = 0.9
    """alpha: sequences are sampled with probabilities proportional to priority^alpha."""
    importance_exponent: float = 0.6
    """beta: their losses are weighted with (size * probability)^-beta, divided by the batch's maximum."""
    placement: str = "auto"
    """Where it is kept: `device` (of the learner), `host`, or `auto`: on the device if it fits."""
    snapshot: bool = False
    """Save the replay with each checkpoint, so that a resumed run continues with its data. Takes the size of what is
    stored on disk, twice while it is written; without it a resumed run first fills an empty replay to `min_size`."""

    def __post_init__(self):
        check_types(self)
        check_at_least(self, 1, "capacity", "min_size")
        check_range(self, 0, 1, "priority_exponent", "importance_exponent")
        check_at_least(self, 1e-3, "ratio")
        check_one_of(self, ("auto", "device", "host"), "placement")
        if self.min_size > self.capacity:
            raise ValueError(f"Replay.min_size ({self.min_size}) must not exceed Replay.capacity ({self.capacity})")


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Devices:
    """Which devices the learner computes on, by TensorFlow's names (`GPU:0`, `TPU:3`, `CPU:0`).

    By default a single device does everything; of several accelerators the first ones act, and as many of the others
    train as divide the batch evenly (`learner.split`).
    """

    training: tuple = ()
    """Those that train, each on an equal part of every batch."""
    inference: tuple = ()
    """Those that act, each for an equal part of the environments, and keep their unrolls. What one of them keeps goes
    to an equal part of those that train."""
    logical_cpus: int = 1
    """Splits the host into so many devices (`CPU:0`, `CPU:1`, ...), to try several without having them."""

    def __post_init__(self):
        check_types(self)
        check_at_least(self, 1, "logical_cpus")
        for field in ("training", "inference"):
            names = getattr(self, field)
            if not all(isinstance(name, str) for name in names):
                raise ValueError(f"Devices.{field} must be names of devices, got {names!r}")
            if len(set(names)) < len(names):
                raise ValueError(f"Devices.{field} names a device twice: {', '.join(names)}")


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Logs:
    """What a run leaves behind in its log directory, and how often."""

    metrics_interval_s: float = 10.0
    """Seconds between two rows of metrics."""
    checkpoint_interval_s: float = 300.0
    """Seconds between two checkpoints; the end of a run writes one besides."""
    checkpoints_kept: int = 5
    """The newest; older ones are removed."""
    wandb_project: str = ""
    """Project of Weights & Biases that the run reports to, besides its files (needs the extra `wandb`); empty: none."""

    def __post_init__(self):
        check_types(self)
        check_at_least(self, 0.1, "metrics_interval_s", "checkpoint_interval_s")
        check_at_least(self, 1, "checkpoints_kept")


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Experiment:
    """All of it."""

    env: EnvConfig
    """The environments, such as `@Atari()`."""
    agent: AgentConfig
    """The agent, such as `@VTrace()`."""
    optimizer: Optimizer = dataclasses.field(default_factory=lambda: Optimizer())  # called late, so that gin sees it
    """How its gradients become updates."""
    batch_size: int = 32
    """Unrolls per learner update."""
    total_frames: int = 10_000_000
    """Environment frames after which the run ends, action repeats included."""
    actors: Actors = dataclasses.field(default_factory=lambda: Actors())  # called late, so that gin sees it
    """How many environments, and where."""
    inference: Inference = dataclasses.field(default_factory=lambda: Inference())  # called late, so that gin sees it
    """How observations are batched."""
    devices: Devices = dataclasses.field(default_factory=lambda: Devices())  # called late, so that gin sees it
    """What the learner computes on."""
    logs: Logs = dataclasses.field(default_factory=lambda: Logs())  # called late, so that gin sees it
    """What the run leaves behind."""
    replay: Replay | None = None
    """For agents that learn from one: `@Replay()`."""
    seed: int = 1
    """Of weights, environments, actions and the replay's draws."""

    def __post_init__(self):
        check_types(self)
        for name, kind, example in (("env", EnvConfig, "@Atari()"), ("agent", AgentConfig, "@VTrace()")):
            if not isinstance(getattr(self, name), kind):
                raise ValueError(f"Experiment.{name} must be a config such as {example}, got {getattr(self, name)!r}")
        check_at_least(self, 1, "batch_size", "total_frames")
        check_range(self, 0, 2**31 - 1, "seed")
        if self.replay is not None and not isinstance(self.replay, Replay):
            raise ValueError(f"Experiment.replay must be @Replay() or None, got {self.replay!r}")
        agent = type(self.agent).__name__
        if self.agent.learns_from_replay and self.replay is None:
            raise ValueError(f"{agent} learns from a replay: Experiment.replay must be @Replay()")
        if self.replay is not None and not self.agent.learns_from_replay:
            raise ValueError(f"{agent} learns from each unroll once: Experiment.replay must be None")
        filling = 0 if self.replay is None else self.replay.min_size * self.agent.unroll_length * self.env.action_repeat
        if filling >= self.total_frames:
            raise ValueError(
                f"nothing would be learned: {filling:,} frames go into the replay before the first update "
                f"(Replay.min_size), and Experiment.total_frames is {self.total_frames:,}"
            )
        if self.actors.envs_per_group > self.inference.max_batch_size:
            raise ValueError(
                f"Actors.envs_per_group ({self.actors.envs_per_group}) must not exceed Inference.max_batch_size "
                f"({self.inference.max_batch_size}): a group acts in one batch"
            )

    @property
    def unrolls_per_update(self) -> float:
        """New unrolls that each update takes on average: those of a batch, or fewer if they are replayed."""
        return self.batch_size / (1.0 if self.replay is None else self.replay.ratio)

    def part(self, count: int) -> Experiment:
        """What each of `count` devices that act does of it: its share of batches and replay; all else is unchanged."""
        if count == 1:
            return self
        replay = self.replay
        if replay is not None:
            min_size = -(-replay.min_size // count)
            replay = dataclasses.replace(replay, capacity=max(min_size, replay.capacity // count), min_size=min_size)
        return dataclasses.replace(self, batch_size=self.batch_size // count, replay=replay)

    def env_spec(self) -> EnvSpec:
        """What the environments take and give.

        Raises:
          CannotBuild: one would have to be built for that, and it can't be here.
        """
        try:
            return self.env.spec()
        except CannotBuild:
            raise
        except Exception as error:  # environments raise all kinds
            _log.debug("an environment of suite %r failed", self.env.suite, exc_info=error)
            raise CannotBuild(
                f"an environment of suite {self.env.suite!r} can't be built to see what it is like: "
                f"{type(error).__name__}: {' '.join(str(error).split())} (--log_level=debug shows where)"
            ) from error

    def build_agent(self) -> Agent:
        """The agent for these environments; imports TensorFlow.

        Raises:
          CannotAct: not in such environments.
          CannotBuild: it can't be seen here what they are like.
        """
        return self.agent.build(self.env_spec(), self.actors.num_training_envs, self.seed)

    def to_json(self) -> dict[str, Any]:
        """Every setting by dotted name, as JSON values."""
        return dict(_flatten("", self))


def _flatten(prefix: str, value: Any) -> list[tuple[str, Any]]:
    if dataclasses.is_dataclass(value):
        pairs: list[tuple[str, Any]] = [] if not prefix else [(f"{prefix}kind", type(value).__name__)]
        for field in dataclasses.fields(value):
            child = getattr(value, field.name)
            name = f"{prefix}{field.name}"
            pairs += _flatten(f"{name}." if dataclasses.is_dataclass(child) else name, child)
        return pairs
    return [(prefix, list(value) if isinstance(value, tuple) else value)]
