"""An experiment: every setting that defines a run, as frozen dataclasses that gin files fill in."""

from __future__ import annotations

import dataclasses
import functools
import logging
from typing import TYPE_CHECKING, Annotated, Any

import gin

from seed_rl.agents.config import AgentConfig
from seed_rl.buffers.samplers import SAMPLERS
from seed_rl.envs.base import CannotBuild, EnvConfig, failure
from seed_rl.envs.elsewhere import probed_spec
from seed_rl.experiment.optimizer import Optimizer
from seed_rl.settings import Count, NonNegative, OneOf, Settings, Share, Within

if TYPE_CHECKING:
    from seed_rl.agents.base import Agent
    from seed_rl.specs import EnvSpec

_log = logging.getLogger(__name__)


class ConfigError(ValueError):
    """An invalid configuration; the message is one sentence for its author."""


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Inference(Settings):
    """Batching of observations, and how far acting may run ahead of learning."""

    max_batch_size: Count = 64
    """Maximum number of environments per act step; a group of environments must fit."""
    max_wait_ms: NonNegative = 2.0
    """How long an observation may wait for others that usually arrive within this time, milliseconds."""
    queue_batches: Annotated[float, Within(1, 1000)] = 1.0
    """Capacity of the queue of finished unrolls, in learner batches; with a replay ratio above 1, in multiples of the
    new unrolls per update."""
    stagger_unrolls: bool = True
    """Spread the beginnings of the environments' unrolls, so that finished ones arrive evenly."""
    max_reward: NonNegative = 1e6
    """A larger absolute reward ends the stream of the actor that sends it: squared, it could overflow."""
    max_observation: NonNegative = 1e8
    """The same for each floating-point number of an observation."""
    lease_timeout_s: NonNegative = 60.0
    """The environment ids of an actor that joined but never opened its streams are freed after this, seconds."""


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Actors(Settings):
    """The number of environments, and how they are spread over actor processes."""

    num_actors: Count = 1
    """Actor processes: `train` starts this many, and a learner has room for this many."""
    groups_per_actor: Count = 2
    """Environment groups per actor: one steps while another waits for its actions."""
    envs_per_group: Count = 16
    """Environments stepped together by one thread; their observations form one message."""
    num_eval_envs: Annotated[int, Within(0)] = 0
    """The environments with the highest ids are for evaluation: they are not learned from, and their returns are
    reported separately, as `eval/episode_return`."""

    def __post_init__(self):
        super().__post_init__()
        if self.num_eval_envs >= self.num_envs:
            raise ValueError(
                f"Actors.num_eval_envs ({self.num_eval_envs}) must leave environments to learn from, of "
                f"{self.num_envs} in total"
            )

    @property
    def num_envs(self) -> int:
        """Environments in total."""
        return self.num_actors * self.groups_per_actor * self.envs_per_group

    @property
    def num_training_envs(self) -> int:
        """Environments that are learned from: those with the lowest ids."""
        return self.num_envs - self.num_eval_envs


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Replay(Settings):
    """The replay of an agent that learns from one, with the defaults of the published Atari runs."""

    capacity: Count = 100_000
    """Sequences (unrolls) kept; the oldest are evicted first."""
    min_size: Count = 5_000
    """Sequences in the replay before the first update."""
    ratio: Annotated[float, Within(1e-3)] = 0.75
    """How often each sequence is sampled on average: an update takes batch_size / ratio new ones. Exact, whether actors
    are faster or slower than the learner: one waits for the other."""
    sampler: Annotated[str, OneOf(*SAMPLERS)] = "prioritized"
    """`prioritized` or `uniform` (`buffers.samplers`)."""
    priority_exponent: Share = 0.9
    """alpha: the prioritized sampler draws sequences with probability proportional to priority^alpha."""
    importance_exponent: Share = 0.6
    """beta: it weights their losses with (size * probability)^-beta, divided by the batch's maximum."""
    placement: Annotated[str, OneOf("auto", "device", "host")] = "auto"
    """The memory that holds it: `device` (the accelerator), `host`, or `auto`: the device if it fits there."""
    snapshot: bool = False
    """Save the replay with each checkpoint, so that a resumed run continues with its data. Takes the size of the replay
    on disk, twice that while writing; without it a resumed run first fills an empty replay to `min_size`."""

    def __post_init__(self):
        super().__post_init__()
        if self.min_size > self.capacity:
            raise ValueError(f"Replay.min_size ({self.min_size}) must not exceed Replay.capacity ({self.capacity})")


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Devices(Settings):
    """The devices of a learner process, by TensorFlow's names (`GPU:0`, `TPU:3`, `CPU:0`).

    By default a single device does everything; of several accelerators the first ones act, and as many of the others
    train as divide the batch evenly (`learner.split`).
    """

    training: tuple = ()
    """Training devices, each with an equal part of every batch."""
    inference: tuple = ()
    """Inference devices, each acting for an equal share of the environments and holding their unrolls, from which an
    equal share of the training devices learns."""
    logical_cpus: Count = 1
    """Splits the host into this many devices (`CPU:0`, `CPU:1`, ...), to try several without having them."""

    def __post_init__(self):
        super().__post_init__()
        for field in ("training", "inference"):
            names = getattr(self, field)
            if not all(isinstance(name, str) for name in names):
                raise ValueError(f"Devices.{field} must be names of devices, got {names!r}")
            if len(set(names)) < len(names):
                raise ValueError(f"Devices.{field} names a device twice: {', '.join(names)}")


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Logs(Settings):
    """The files that a run writes into its log directory, and how often."""

    metrics_interval_s: Annotated[float, Within(0.1)] = 10.0
    """Seconds between two rows of metrics."""
    checkpoint_interval_s: Annotated[float, Within(0.1)] = 300.0
    """Seconds between two checkpoints; another one is written at the end of a run."""
    checkpoints_kept: Count = 5
    """The newest are kept; older ones are removed."""
    film_interval_min: NonNegative = 0.0
    """Minutes between two films of the newest checkpoint's policy, made by a process of low priority; 0: none."""
    wandb_project: str = ""
    """A project of Weights & Biases to which the run also reports (needs the extra `wandb`); empty: none."""
    milestones: tuple = ()
    """Returns that runs of this experiment have reached, each a tuple `(task, return, frames)` with the median of its
    seeds' environment frames: the display says when to expect them. A suite without tasks has the task ''."""

    def __post_init__(self):
        super().__post_init__()
        for milestone in self.milestones:
            match milestone:
                case (str(), int() | float(), int()):
                    continue
            raise ValueError(f"Logs.milestones has tuples ('task', return, frames), got {milestone!r}")


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Experiment(Settings):
    """The complete configuration of a run."""

    env: EnvConfig
    """The environments, such as `@Atari()`."""
    agent: AgentConfig
    """The agent, such as `@VTrace()`."""
    optimizer: Optimizer = dataclasses.field(default_factory=lambda: Optimizer())  # called late, so that gin sees it
    """How gradients become updates."""
    batch_size: Count = 32
    """Unrolls per learner update."""
    passes: Count = 1
    """Passes over a batch: an update is `passes` x `minibatches` optimizer steps. More than one reuses on-policy data;
    the loss must tolerate it, as clipped ratios and V-trace do."""
    minibatches: Count = 1
    """Equal parts of a batch, drawn anew for each pass, with an optimizer step each."""
    total_frames: Count = 10_000_000
    """Environment frames after which the run ends, action repeats included."""
    actors: Actors = dataclasses.field(default_factory=lambda: Actors())  # called late, so that gin sees it
    """The environments and their distribution over actors."""
    inference: Inference = dataclasses.field(default_factory=lambda: Inference())  # called late, so that gin sees it
    """Batching of observations."""
    devices: Devices = dataclasses.field(default_factory=lambda: Devices())  # called late, so that gin sees it
    """The devices of the learner."""
    logs: Logs = dataclasses.field(default_factory=lambda: Logs())  # called late, so that gin sees it
    """Metrics and checkpoints."""
    replay: Replay | None = None
    """For agents that learn from one: `@Replay()`."""
    seed: Annotated[int, Within(0, 2**31 - 1)] = 1
    """Seed of weights, environments, actions and the replay's draws."""

    def __post_init__(self):
        super().__post_init__()
        for name, kind, example in (("env", EnvConfig, "@Atari()"), ("agent", AgentConfig, "@VTrace()")):
            if not isinstance(getattr(self, name), kind):
                raise ValueError(f"Experiment.{name} must be a config such as {example}, got {getattr(self, name)!r}")
        if self.batch_size % self.minibatches:
            raise ValueError(
                f"Experiment.minibatches ({self.minibatches}) must divide Experiment.batch_size ({self.batch_size})"
            )
        if self.replay is not None and not isinstance(self.replay, Replay):
            raise ValueError(f"Experiment.replay must be @Replay() or None, got {self.replay!r}")
        agent = type(self.agent).__name__
        if self.agent.learns_from_replay and self.replay is None:
            raise ValueError(f"{agent} learns from a replay: Experiment.replay must be @Replay()")
        if self.replay is not None and not self.agent.learns_from_replay:
            raise ValueError(f"{agent} learns from fresh unrolls: Experiment.replay must be None")
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

    def env_spec(self) -> EnvSpec:
        """Observations and actions of the environments, of which one may be tried out (`envs.elsewhere.probed_spec`).

        Raises:
          CannotBuild: that takes making one, which fails here, or whose results are not what it declares.
        """
        return _env_spec(self.env)

    def build_agent(self) -> Agent:
        """The agent for these environments; imports TensorFlow.

        Raises:
          CannotAct: the agent does not support such environments.
          CannotBuild: see `env_spec`.
        """
        return self.agent.build(self.env_spec(), self.actors.num_training_envs, self.seed)

    def milestones(self) -> list[tuple[float, int]]:
        """The returns that a run of this length usually reaches, and the environment frames at which it does."""
        task = getattr(self.env, self.env.task_setting) if self.env.task_setting else ""
        known = [(value, frames) for name, value, frames in self.logs.milestones if name == task]
        return [(value, frames) for value, frames in known if frames <= self.total_frames]

    def to_json(self) -> dict[str, Any]:
        """Every setting by dotted name, as JSON values."""
        return dict(_flatten("", self))


@functools.cache
def _env_spec(env: EnvConfig) -> EnvSpec:
    try:
        return probed_spec(env)
    except (Exception, SystemExit) as error:  # environments raise all kinds
        subject = f"{env.title} can't be made to read its spaces"
        _log.info("the error of the environment in full:", exc_info=error, extra={"in_full": True})  # only in files
        raise CannotBuild(str(failure(subject, error))) from error


def _flatten(prefix: str, value: Any) -> list[tuple[str, Any]]:
    if dataclasses.is_dataclass(value):
        pairs: list[tuple[str, Any]] = [] if not prefix else [(f"{prefix}kind", type(value).__name__)]
        for field in dataclasses.fields(value):
            child = getattr(value, field.name)
            name = f"{prefix}{field.name}"
            pairs += _flatten(f"{name}." if dataclasses.is_dataclass(child) else name, child)
        return pairs
    return [(prefix, list(value) if isinstance(value, tuple) else value)]
