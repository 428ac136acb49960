"""Runs that are recorded in a journal, or whose acting and learning alternate: both can be reproduced bit for bit."""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from seed_rl.buffers.slots import UnrollQueue
from seed_rl.experiment import ConfigError, Experiment, Logs
from seed_rl.extras.repeating import file
from seed_rl.extras.repeating.file import JournalError, Writer
from seed_rl.extras.repeating.orders import Order, Synchronous
from seed_rl.extras.repeating.segments import digest
from seed_rl.inference.batcher import Batcher
from seed_rl.inference.membership import Membership
from seed_rl.runs.run import Run
from seed_rl.settings import without_places
from seed_rl.specs import GroupLease
from seed_rl.system.files import explaining, reason
from seed_rl.system.machine import instructions, processor, uses_onednn, versions
from seed_rl.transport.streams import Request

if TYPE_CHECKING:
    from seed_rl.learner.progress import Counters
    from seed_rl.runs.assembly import Assembly

_log = logging.getLogger(__name__)

_ENVIRONMENT = (
    *("XLA_FLAGS", "TF_XLA_FLAGS", "TF_NUM_INTRAOP_THREADS", "NVIDIA_TF32_OVERRIDE"),
    *("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"),
)  # variables with which TensorFlow computes differently


def make_repeatable(run: Run, record: bool, synchronous: bool = False) -> None:
    """Let a run, before it is opened, be recorded in a journal of its log directory, be synchronous, or both."""
    if not run.experiment.env.repeatable:
        raise ConfigError(f"{run.experiment.env.title} does not repeat an episode for the same seed and actions")

    def change(assembly: Assembly) -> Assembly:
        from seed_rl.extras.repeating.ordered import with_order

        machine = deterministic(len(os.sched_getaffinity(0)))  # cores of this process
        order = Synchronous() if synchronous else None
        recorded = functools.partial(recorded_order, run.experiment, machine, order)
        return with_order(recorded if record or order is None else lambda _: order, assembly)

    run.is_alone = "a recorded or synchronous run"
    run.changes.append(change)


def recorded_order(experiment: Experiment, machine: Mapping[str, Any], order: Order | None, logdir: str) -> Recorded:
    """Record the order of a run on a `deterministic` machine in its directory, or raise a ConfigError."""
    settings = {**without_places(experiment).to_json(), "init_from": experiment.init_from}  # it may be bundled
    start = {"settings": settings, "versions": versions(), "machine": machine}
    with explaining(ConfigError, "the journal can't be continued", JournalError, OSError):
        journal = file.Writer(os.path.join(logdir, file.NAME))
    return Recorded(journal, start, experiment.logs, order)


def deterministic(threads: int) -> dict[str, Any]:
    """Make TensorFlow's computations repeatable for the rest of this process; return the machine that they depend on.

    Raise a ConfigError if TensorFlow was used before with another number of threads, in and between operations.
    """
    import tensorflow as tf

    from seed_rl.system import devices

    what = f"TensorFlow was used before with another number of threads than {threads}"
    with explaining(ConfigError, what, RuntimeError):
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(threads)
    tf.config.experimental.enable_op_determinism()
    accelerators = [tf.config.experimental.get_device_details(device) for device in devices.accelerators()]
    return {
        "processor": processor(),
        "instructions": instructions(),
        "onednn": uses_onednn(),
        "dtype": devices.native_dtype()[0],  # what `auto` stands for
        "threads": threads,
        "accelerators": [str(details.get("device_name", "TPU")) for details in accelerators],
        "environment": {name: os.environ[name] for name in _ENVIRONMENT if os.environ.get(name)},
    }


class Recorded(Order):
    """Records the order that another one gives. A journal that can't be written ends there, but the run continues."""

    def __init__(self, journal: Writer, start: Mapping[str, Any], logs: Logs, order: Order | None = None):
        """Record an `order` after the `start` of a process, JSON values."""
        self.whole_weights = order is None
        self._journal: Writer | None = journal
        self._start, self._order = start, order or Order()
        self._every = logs.digest_updates
        self._numbers: dict[int, int] = {}  # of groups, by their seed, which no other group has
        self._turns: dict[int, threading.Lock] = {}  # by device

    def begin(self, counters: Counters, variables: Mapping[str, Any]) -> None:
        updates = counters.learner_updates
        start = {**self._start, "updates": updates, "frames": counters.env_frames, "variables": [*variables]}
        self._write("run", json.dumps(start))
        self._digest(updates, variables)

    def membership(self, plain: Membership) -> Membership:
        return _RecordedLeases(plain, self)

    def joined(self, groups: Sequence[GroupLease]) -> None:
        """Note the groups of an actor that has joined."""
        for group in groups:
            self._numbers[group.seed] = len(self._numbers)
        self._write("join", json.dumps([[group.env_ids, group.seed] for group in groups]))

    def batcher(self, device: int, plain: Batcher, num_envs: int, queue: UnrollQueue) -> Batcher:
        self._turns[device] = threading.Lock()
        return self._order.batcher(device, plain, num_envs, queue)

    @contextlib.contextmanager
    def acting(self, device: int, requests: Sequence[Request]) -> Iterator[None]:
        with self._order.acting(device, requests), self._turns[device]:
            self._write("act", device, *(self._numbers[request.lease.seed] for request in requests))
            yield

    @contextlib.contextmanager
    def refreshing(self) -> Iterator[None]:
        with self._order.refreshing(), contextlib.ExitStack() as turns:
            for turn in self._turns.values():
                turns.enter_context(turn)
            self._write("weights")
            yield

    def learned(self, updates: int, variables: Mapping[str, Any]) -> None:
        if updates % self._every == 0:
            self._digest(updates, variables)

    def saving(self, updates: int, variables: Mapping[str, Any]) -> None:
        if updates % self._every:
            self._digest(updates, variables)
        self._tolerant(Writer.flush)

    def close(self) -> None:
        self._order.close()
        self._tolerant(Writer.close)
        self._journal = None

    def _digest(self, updates: int, variables: Mapping[str, Any]) -> None:
        self._write("digest", updates, digest(variable.numpy() for variable in variables.values()))

    def _write(self, *words: object) -> None:
        self._tolerant(Writer.write, " ".join(map(str, words)))

    def _tolerant(self, act: Callable[..., None], *arguments: str) -> None:
        try:
            if (journal := self._journal) is not None:
                act(journal, *arguments)
        except OSError as error:
            self._journal = None
            _log.error("the journal ends here, because it can't be written (%s); training continues", reason(error))


class _RecordedLeases(Membership):
    """Tells an order of each new lease."""

    def __init__(self, plain: Membership, order: Recorded):
        super().__init__(plain.num_envs, plain.seed, plain.timeout, num_devices=plain.num_devices)
        self._order = order

    def _choose(self, group_sizes: Sequence[int], actor: str) -> Sequence[GroupLease]:
        groups = super()._choose(group_sizes, actor)
        self._order.joined(groups)
        return groups
