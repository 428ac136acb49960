"""Executes a recorded run again."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import itertools
import logging
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from seed_rl.experiment import Experiment
from seed_rl.experiment.saved_config import modules_needed, rebuild
from seed_rl.extras.repeating import file, segments
from seed_rl.extras.repeating.file import JournalError
from seed_rl.extras.repeating.orders import Replayed
from seed_rl.extras.repeating.recording import deterministic
from seed_rl.extras.repeating.segments import Segment
from seed_rl.foreign import number as checked_number
from seed_rl.foreign import short_repr
from seed_rl.runs.fleet import ActorEnd, LocalActors
from seed_rl.runs.run import Run
from seed_rl.system.files import explaining
from seed_rl.system.machine import processor, versions
from seed_rl.system.native_output import load_tensorflow
from seed_rl.system.signals import StopIf, ctrl_c_asks
from seed_rl.weights import checkpoints

_log = logging.getLogger(__name__)


class Progress(NamedTuple):
    """How far a replay is."""

    begin: int  # numbers of updates: at its beginning, now, and at its end
    updates: int
    end: int
    checked: int  # digests that were compared and are equal
    row: dict[str, float]  # of metrics


def replay(
    logdir: str, directory: str, begin: str = "", until: int | None = None, init_from: str = ""
) -> Iterator[Progress]:
    """Execute a recorded run, and yield how far it is with each row of metrics.

    Raise `Differs` if it comes out differently, or a JournalError if it can't be replayed here.

    The empty `directory` becomes its log directory. It begins at the checkpoint `begin`, if one is given, and ends with
    one after `until` updates, by default all. `init_from` are weights that the run began with: those that a stranger's
    journal names are not looked up.
    """
    parts = todo(os.path.join(logdir, file.NAME), begin, until)
    if (named := parts[0].start["settings"].get("init_from")) and not (begin or init_from):
        raise JournalError(f"{logdir} began with the weights of {short_repr(named)}: give them as --init_from")
    end = parts[-1].end[0] if until is None else min(until, parts[-1].end[0])
    if begin:
        _copy(begin, directory)
    load_tensorflow()
    checked = 0
    for segment in parts:
        there = {"environment": {}, **segment.start["machine"]}
        here = deterministic(there["threads"])
        _check_equal({**there, "dtype": here["dtype"]}, here, logdir)  # `_experiment` computes in the recorded one
        order = Replayed(segment, until)
        for row in _rows(segment, order, _experiment(segment, init_from), directory):
            yield Progress(parts[0].begin, int(row["learner_updates"]), end, checked + order.checked, row)
        gc.collect()  # its learner, whose memory the next one needs
        checked += order.checked


def _rows(segment: Segment, order: Replayed, experiment: Experiment, directory: str) -> Iterator[dict[str, float]]:
    """Execute a segment in its order, save only at its end, and yield its rows of metrics."""
    from seed_rl.extras.repeating.ordered import with_order

    run = Run(experiment, directory, actors=lambda logs: _Actors(segment, order, experiment, logs), native_log=True)
    # A stranger's settings could fill the disk. The directory keeps them, because its run may be continued.
    saves = dataclasses.replace(experiment.logs, keep_every_frames=0, checkpoint_interval_s=1e9)
    run.changes.append(lambda assembly: with_order(lambda _: order, assembly, saves))
    with run, ctrl_c_asks() as asked:
        yield from run.train(StopIf(lambda: asked.is_set() or order.ended()))


def _copy(checkpoint: str, logdir: str) -> None:
    """Copy a checkpoint, with the replay and the directories that belong to it, into a log directory as its newest."""
    target, number = os.path.join(logdir, "checkpoints"), f"{updates_behind(checkpoint):012d}.npz"
    os.makedirs(target, exist_ok=True)
    shutil.copy(checkpoint, os.path.join(target, f"checkpoint-{number}"))
    directory = os.path.dirname(os.path.abspath(checkpoint))
    if os.path.exists(snapshot := os.path.join(directory, f"replay-{number}")):
        shutil.copy(snapshot, target)
    run, place = os.path.split(directory)
    for name in next(os.walk(run))[1] if place == "checkpoints" else ():  # such as the members of a league
        if name not in ("actors", "checkpoints"):
            shutil.copytree(os.path.join(run, name), os.path.join(logdir, name))


def updates_behind(checkpoint: str) -> int:
    """Return the number of updates before a checkpoint, or raise a CheckpointError."""
    counters = checkpoints.load(checkpoint)[1].get("counters")
    with explaining(checkpoints.CheckpointError, f"{checkpoint} is not usable", ValueError):
        return int(checked_number(counters, "learner_updates"))


def todo(path: str, begin: str, until: int | None) -> list[Segment]:
    """Return the parts of a journal to replay, after checking that they can be replayed here; see `replay`."""
    parts = segments.load(path)
    if begin:
        updates, begins = updates_behind(begin), [segment.begin for segment in parts]
        if updates not in begins:
            raise JournalError(f"no learner continued from {begin}: those of {path} began at updates {begins}")
        parts = parts[begins.index(updates) :]
    elif first := parts[0].begin:
        raise JournalError(f"{path} begins at update {first}: a replay needs the checkpoint from there (--from)")
    check_gaps(parts, path)
    # Nothing is left of a process that was killed before its first checkpoint.
    parts = [each for each in parts if each.end != (each.begin, each.start["frames"])]
    parts = [each for number, each in enumerate(parts) if number == 0 or until is None or each.begin < until]
    for segment in parts:
        _check(segment, path)
    return parts


def check_gaps(parts: Sequence[Segment], path: str) -> None:
    """Raise a JournalError if a run continued unrecorded between two parts of its journal."""
    for segment, following in itertools.pairwise(parts):
        if segment.digests.get(following.begin) != following.digests.get(following.begin):
            raise JournalError(f"{path} has a gap: its run continued to update {following.begin} unrecorded")


def _check(segment: Segment, path: str) -> None:
    """Check versions and processor against the recording, and that there are environments for all actors."""
    experiment = _experiment(segment, "")
    env, most, actors = experiment.env, experiment.actors.num_envs, segment.most_actors
    there, here = segment.start["versions"], versions()
    if there.get("seed_rl") != here["seed_rl"]:  # the digests will say whether its code computes the same
        _log.warning("recorded by seed_rl %s, replayed by %s", short_repr(there.get("seed_rl")), here["seed_rl"])
    own = " ".join([*env.packages, *env.packages.values(), *env.modules])  # names of modules, and how to install them
    needed = {"python", "tensorflow", "keras", "numpy", "gymnasium"}
    needed.update(re.findall(r"[\w-]+", own.lower().replace("_", "-")))
    recorded = {name: version for name, version in there.items() if name in needed}
    recorded["processor"] = segment.start["machine"]["processor"]
    _check_equal(recorded, {**here, "processor": processor()}, path)
    used = max((env_id for group in segment.groups for env_id in group.env_ids), default=0)
    if used >= most or actors > 2 * most:  # one may act once more after another got its environments
        raise JournalError(f"{path} has {actors} actors and environment {used}, its settings {most} environments")


def _check_equal(there: Mapping[str, Any], here: Mapping[str, Any], path: str) -> None:
    """Raise a JournalError that names the difference if what was recorded of a machine is not the same here."""
    for name, recorded in there.items():
        if recorded != (found := here.get(name, "missing")):
            what = f"{short_repr(name)} was {short_repr(recorded)}, here it is {short_repr(found)}"
            raise JournalError(f"{path} can't be replayed here: {what}")


def _experiment(segment: Segment, init_from: str) -> Experiment:
    """Rebuild the experiment of a segment, which reports to nobody."""
    settings = {**segment.start["settings"], "init_from": init_from}
    if settings.get("agent.dtype") == "auto":
        settings["agent.dtype"] = segment.start["machine"].get("dtype", "auto")
    experiment = rebuild(settings, "the journal", trains=True)
    return dataclasses.replace(experiment, logs=dataclasses.replace(experiment.logs, wandb_project=""))


class _Actors(LocalActors):
    """An actor process for each recorded lease, from shortly before it is needed until it has acted for the last time.

    Each thread keeps one process at a time, in the order in which they act, so that as many as act at a time suffice.
    """

    def __init__(self, segment: Segment, order: Replayed, experiment: Experiment, logs: str):
        super().__init__(segment.most_actors, logs, on_failure=order.close)
        self._joins, self._order, self._modules = segment.joins, order, modules_needed(experiment)
        self._leases = iter([*segment.needed_after])  # numbers of those that no thread has begun with
        self._lease: dict[int, int] = {}  # number of the last lease of each thread

    def _run(self, number: int, log: str) -> ActorEnd | None:
        again = [self._lease[number]] if number in self._lease else []
        for lease in itertools.chain(again, self._leases):
            self._lease[number] = lease
            while not self._order.needs(lease):
                if self._stopping.wait(0.1):
                    return None
            ended = super()._run(number, log)
            if not self._order.is_done(lease):
                return ended
        return None

    def _wait(self, number: int, process: subprocess.Popen[bytes]) -> int:
        while not self._order.is_done(self._lease[number]):
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(0.1)
        self._end(process, kill=False)
        return process.wait()

    def _arguments(self, number: int) -> list[str]:
        lease = self._lease[number]
        groups = self._joins[lease]
        sizes = [f"--num_groups={len(groups)}", f"--envs_per_group={len(groups[0].env_ids)}"]
        return [f"--run_id={lease}", *sizes, *(f"--import_module={module}" for module in self._modules)]
