"""The settings that define a run, as frozen dataclasses filled in by gin files."""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import gin

from seed_rl.agents.config import AgentConfig
from seed_rl.buffers.samplers import SAMPLERS
from seed_rl.envs.base import CannotBuild, EnvConfig, failure
from seed_rl.envs.elsewhere import probe_spec
from seed_rl.envs.registry import changed
from seed_rl.errors import UsageError
from seed_rl.experiment.optimizer import Optimizer
from seed_rl.foreign import JsonObject, json_object
from seed_rl.own_classes import OneOfOrOwn
from seed_rl.settings import Count, NonNegative, OneOf, Place, Settings, UnitInterval, Within
from seed_rl.system.files import explaining

if TYPE_CHECKING:
    from seed_rl.agents.base import Agent
    from seed_rl.specs import EnvSpec

_log = logging.getLogger(__name__)


class ConfigError(UsageError):
    """The configuration is invalid; the message is one line for its author."""


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Inference(Settings):
    """Settings of central inference: batching, and how far acting may run ahead of learning."""

    max_batch_size: Count = 64
    """Maximum number of environments per act step; a group of environments must fit."""
    max_wait_ms: NonNegative = 2.0
    """Maximum time an observation waits for a batch to fill, milliseconds; it waits only if others usually arrive."""
    stagger_unrolls: bool = True
    """Stagger the first unrolls of the environments, so that finished unrolls arrive evenly."""
    lease_timeout_s: NonNegative = 60.0
    """Time after which to free the environment ids of an actor that joined but opened no stream, seconds."""


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Actors(Settings):
    """Number of environments and their distribution over actor processes."""

    num_actors: Count = 1
    """Number of actor processes that `train` starts and a learner has room for."""
    groups_per_actor: Count = 2
    """Number of environment groups per actor: one steps while another waits for its actions."""
    envs_per_group: Count = 16
    """Number of environments per group, which one thread steps together; their observations form one message."""
    num_eval_envs: Annotated[int, Within(0)] = 0
    """Number of evaluation environments (those with the highest ids), whose data is not used for training and whose
    returns are reported as `eval/episode_return`. The weights with the best evaluation are kept in
    `checkpoints/best.npz`."""
    greedy_evaluation: bool = False
    """Take the greedy action in evaluation environments, whatever the agent. By default V-trace and PPO sample there,
    R2D2 and PQN explore with a small epsilon, and SAC is greedy."""
    eval_options: Annotated[str, JsonObject()] = "{}"
    """Settings of the suite for evaluation environments only, a JSON object such as `{"level": "b"}`, or for keyword
    arguments of an environment of Gymnasium `{"options": {"g": 9}}`. Groups then train or evaluate as a whole."""
    hang_timeout_s: Annotated[float, Within(0.1)] = 60.0
    """Time after which an environment's step counts as hanging, seconds (building: thirty times as long, a first
    reset: ten times). Its actor names the environment and starts again."""

    def __post_init__(self):
        super().__post_init__()
        if self.num_eval_envs >= self.num_envs:
            total = f"the number of environments ({self.num_envs})"
            raise ValueError(f"Actors.num_eval_envs ({self.num_eval_envs}) must be smaller than {total}")
        if self.eval_options != "{}" and (self.num_eval_envs % self.envs_per_group or not self.num_eval_envs):
            group = f"a multiple of Actors.envs_per_group ({self.envs_per_group}) with Actors.eval_options"
            raise ValueError(f"Actors.num_eval_envs must be {group}, got {self.num_eval_envs}")

    @property
    def num_envs(self) -> int:
        """Total number of environments."""
        return self.num_actors * self.groups_per_actor * self.envs_per_group

    @property
    def num_training_envs(self) -> int:
        """Number of training environments, which have the lowest ids."""
        return self.num_envs - self.num_eval_envs


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Replay(Settings):
    """Settings of the replay buffer, by default as in the published Atari runs."""

    capacity: Count = 100_000
    """Maximum number of sequences (unrolls); the oldest are evicted first."""
    min_size: Count = 5_000
    """Number of sequences in the replay before the first update."""
    ratio: Annotated[float, Within(1e-3)] = 0.75
    """Average number of times each sequence is sampled: an update takes batch_size / ratio new sequences. The ratio is
    exact because the faster of actors and learner waits for the other."""
    sampler: Annotated[str, OneOfOrOwn(*SAMPLERS)] = "prioritized"
    """Sampling scheme: `prioritized`, `uniform`, or `module:Class`, a subclass of `buffers.samplers.Sampler`."""
    priority_exponent: UnitInterval = 0.9
    """Exponent alpha: the prioritized sampler draws sequences with probability proportional to priority^alpha."""
    importance_exponent: UnitInterval = 0.6
    """Exponent beta: their losses are weighted by (size * probability)^-beta, divided by the batch's maximum."""
    placement: Annotated[str, OneOf("auto", "device", "host")] = "auto"
    """Memory that holds the replay: `device` (the accelerator), `host`, or `auto` (the device if the replay fits)."""
    snapshot: bool = False
    """Save the replay with each checkpoint, so that a resumed run keeps its data; otherwise it first refills the replay
    to `min_size`. Takes the size of the replay on disk, and twice that while writing."""

    def __post_init__(self):
        super().__post_init__()
        if self.min_size > self.capacity:
            raise ValueError(f"Replay.min_size ({self.min_size}) must not exceed Replay.capacity ({self.capacity})")


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Devices(Settings):
    """Devices of a learner process, by TensorFlow name (`GPU:0`, `TPU:3`, `CPU:0`).

    By default a single device does everything. Of several accelerators, the first ones act, and as many of the others
    train as divide the batch evenly (see `learner.device_split`).
    """

    training: tuple[str, ...] = ()
    """Training devices; each processes an equal part of every batch."""
    inference: tuple[str, ...] = ()
    """Inference devices. Each acts for an equal share of the environments and stores their unrolls for
    an equal share of the training devices."""
    logical_cpus: Count = 1
    """Number of logical devices (`CPU:0`, `CPU:1`, ...) into which to split the host, to try out several devices."""

    def __post_init__(self):
        super().__post_init__()
        for field, names in (("training", self.training), ("inference", self.inference)):
            if len(set(names)) < len(names):
                raise ValueError(f"Devices.{field} names a device twice: {', '.join(names)}")


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Logs(Settings):
    """What a run writes into its log directory, and how often."""

    metrics_interval_s: Annotated[float, Within(0.1)] = 10.0
    """Interval between lines of the log, seconds; metrics also have a row at each hundredth of the frames."""
    checkpoint_interval_s: Annotated[float, Within(0.1)] = 300.0
    """Interval between checkpoints, seconds; a run writes another one when it ends."""
    checkpoints_kept: Count = 5
    """Number of checkpoints to keep; older ones are removed."""
    keep_every_frames: Annotated[int, Within(0)] = 0
    """Interval between checkpoints that are never removed (`frames-<n>.npz`), environment frames; 0: none."""
    digest_updates: Count = 20
    """Interval between digests of all weights in the journal of a recorded run, learner updates."""
    wandb_project: Annotated[str, Place()] = ""
    """Weights & Biases project to which the run reports (needs the package `wandb`); empty: none."""


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Experiment(Settings):
    """The complete configuration of a run."""

    env: EnvConfig
    """Environments, such as `@Atari()`."""
    agent: AgentConfig
    """Agent, such as `@VTrace()`."""
    optimizer: Optimizer = dataclasses.field(default_factory=lambda: Optimizer())  # called late, so that gin sees it
    """Optimizer, learning-rate schedule and gradient clipping."""
    batch_size: Count = 32
    """Number of unrolls per learner update."""
    passes: Count = 1
    """Number of passes over a batch; more than one needs a loss that tolerates reuse, as clipped ratios do."""
    minibatches: Count = 1
    """Number of equal parts into which each pass randomly divides the batch, with an optimizer step for each."""
    total_frames: Count = 10_000_000
    """Length of the run, environment frames including action repeats."""
    actors: Actors = dataclasses.field(default_factory=lambda: Actors())  # called late, so that gin sees it
    """Number of environments and their distribution over actors."""
    inference: Inference = dataclasses.field(default_factory=lambda: Inference())  # called late, so that gin sees it
    """Central inference."""
    devices: Devices = dataclasses.field(default_factory=lambda: Devices())  # called late, so that gin sees it
    """Devices of the learner."""
    logs: Logs = dataclasses.field(default_factory=lambda: Logs())  # called late, so that gin sees it
    """Metrics and checkpoints."""
    replay: Replay | None = None
    """Replay buffer, `@Replay()`, for agents that learn from one; otherwise None."""
    league: Settings | None = None
    """Opponents in games of several players, such as past policies (`@League()`); None: the agent plays all."""
    init_from: Annotated[str, Place()] = ""
    """Log directory of a run or one of its checkpoints (`runs/pong/best`), whose weights a new run starts with."""
    seed: Annotated[int, Within(0, 2**31 - 1)] = 1
    """Seed of weights, environments, actions and replay samples."""

    def __post_init__(self):
        super().__post_init__()
        batch, parts, agent = self.batch_size, self.minibatches, type(self.agent).__name__
        if batch % parts:
            raise ValueError(f"Experiment.minibatches ({parts}) must divide Experiment.batch_size ({batch})")
        if self.agent.learns_from_replay and self.replay is None:
            raise ValueError(f"{agent} needs a replay: Experiment.replay must be @Replay(), got None")
        if self.replay is not None and not self.agent.learns_from_replay:
            raise ValueError(f"{agent} learns from fresh unrolls: Experiment.replay must be None, got @Replay()")
        if self.league is not None and self.env.players <= self.env.home_players:
            none = f"{self.env.title} has none: it must be None"
            raise ValueError(f"Experiment.league needs games with opponents, {none}")
        first, total = self.frames_before_update, self.total_frames
        if first >= total + (self.replay is None):
            taker = "filling the replay to Replay.min_size" if self.replay else "a batch (Experiment.batch_size)"
            text = f"{taker} takes {first:,} frames, and Experiment.total_frames is {total:,}"
            raise ValueError(f"the run would end before its first update: {text}")
        for name in ("envs_per_group", "num_eval_envs"):
            self.eval_env.check_rows(f"Actors.{name}", getattr(self.actors, name))  # with as many players as `env`
        group, most = self.actors.envs_per_group, self.inference.max_batch_size
        if group > most:
            why = f"must not exceed Inference.max_batch_size ({most}): a group acts in one batch"
            raise ValueError(f"Actors.envs_per_group ({group}) {why}")

    @functools.cached_property
    def eval_env(self) -> EnvConfig:
        """The environments that evaluate: `env`, changed by `Actors.eval_options`; raises ValueError."""
        with explaining(ValueError, "Actors.eval_options can't be used", CannotBuild):
            return changed(self.env, json_object(self.actors.eval_options))

    def env_spec(self) -> EnvSpec:
        """Return the specs of observations and actions, if necessary by `probe_spec`, or raise CannotBuild."""
        return _env_spec(self.env)

    def build_agent(self, for_evaluation: bool = False) -> Agent:
        """Build the agent for these environments; all are for evaluation, or some as in `actors`. Imports TensorFlow.

        Raises CannotAct if the agent doesn't support them, and CannotBuild as `env_spec` does.
        """
        training = 0 if for_evaluation else self.actors.num_training_envs
        return self.agent.for_device().build(self.env_spec(), training, self.seed)

    @property
    def frames_before_update(self) -> int:
        """Number of environment frames before the first update, at least."""
        unrolls = self.replay.min_size if self.replay else self.batch_size
        return unrolls * self.agent.unroll_length * self.env.action_repeat

    @property
    def score(self) -> str:
        """Metric by which to judge a run: the mean return in evaluation environments, or else in training."""
        return "eval/episode_return" if self.actors.num_eval_envs else "episode_return"

    @property
    def num_scored_envs(self) -> int:
        """Number of environments whose episodes are in the `score`."""
        return self.actors.num_eval_envs or self.actors.num_training_envs

    def to_json(self) -> dict[str, Any]:
        """Return all settings as JSON values by dotted name."""
        return dict(_flat(self))


@functools.cache
def _env_spec(env: EnvConfig) -> EnvSpec:
    try:
        return probe_spec(env)
    except (Exception, SystemExit) as error:  # environments may raise anything
        subject = f"{env.title} can't be created to read its spaces"
        _log.info("full error of the environment:", exc_info=error, extra={"in_full": True})  # in log files only
        raise CannotBuild(str(failure(subject, error))) from error


def _flat(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for field in dataclasses.fields(group):
        name, value = f"{prefix}{field.name}", getattr(group, field.name)
        if dataclasses.is_dataclass(value):
            yield f"{name}.kind", type(value).__name__
            yield from _flat(value, f"{name}.")
        else:
            yield name, list(value) if isinstance(value, tuple) else value
