"""Films of the policy during training, each made by a low-priority process."""

from __future__ import annotations

import contextlib
import glob
import logging
import os
import subprocess
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from seed_rl.cli.flags import quoted
from seed_rl.experiment.saved_config import modules_needed
from seed_rl.reporting.metrics import Sink
from seed_rl.runs.run import Run
from seed_rl.system import children
from seed_rl.system.files import PARTIAL, reason

if TYPE_CHECKING:
    from seed_rl.runs.assembly import Assembly, Parts

_log = logging.getLogger(__name__)

_OUTPUT = "play.log"
_APART = ("nice", "-n", "19", "env", "CUDA_VISIBLE_DEVICES=-1")  # the accelerator belongs to the learner
_END_SECONDS = 2.0
MAX_SECONDS = 1200.0  # twice the limit of a film: more means that the environment hangs


def film_every(minutes: float, run: Run) -> None:
    """Let a run film its policy, before it is opened; the first of several learners does."""

    def change(assembly: Assembly) -> Assembly:
        def sinks(parts: Parts, resumed: tuple[int, float] | None) -> list[Sink]:
            others = assembly.sinks(parts, resumed)
            return [Films(parts.directory, 60 * minutes, others, modules_needed(parts.experiment)), *others]

        return assembly._replace(sinks=sinks) if run.index == 0 else assembly

    run.changes.append(change)


class Films(Sink):
    """A sink that films an episode every few minutes and passes the films to other sinks.

    A separate `seed_rl play` process makes each film on the CPU, with the policy of the newest checkpoint; it ends with
    this process, even if that is killed, and delays the next one. Films are named after the environment frames of the
    row that started them: `films/000002621440.mp4` and `.gif` in the log directory.
    """

    def __init__(self, logdir: str, interval: float, sinks: Sequence[Sink], modules: Sequence[str] = ()):
        """Films are `interval` seconds apart; `modules` outside of this library are those that the experiment needs."""
        self._logdir, self._interval, self._sinks = logdir, interval, sinks
        self._imports = [f"--import_module={module}" for module in modules]
        self._directory = os.path.join(logdir, "films")
        self.process: subprocess.Popen[bytes] | None = None  # makes the latest film
        self._due: float | None = None  # wall time of the next film [s]
        self._latest = 0.0  # wall time at which the process is stopped [s]
        self._frames = 0

    @property
    def idle(self) -> bool:
        """True while no film is being made."""
        return self.process is None or self.process.poll() is not None

    def write(self, row: dict[str, float], wall_time: float) -> None:
        """Start a film if one is due, and pass on a completed one."""
        if self.process is not None and not self.idle and wall_time >= self._latest:
            self._end(self.process)
        if self.process is not None and self.idle:
            self._show(self.process.returncode, wall_time)
            self.process = None
        if self._due is None:
            self._due = wall_time + self._interval
        has_policy = glob.glob("checkpoints/checkpoint-*.npz", root_dir=self._logdir)
        if wall_time >= self._due and self.process is None and has_policy:
            self._due = wall_time + self._interval
            self._latest = wall_time + MAX_SECONDS
            self._start(int(row["env_frames"]))

    def _start(self, frames: int) -> None:
        self._frames = frames
        flags = *self._imports, f"--logdir={self._logdir}", f"--output={quoted(self._paths())}", "--overwrite"
        command = [*_APART, *children.seed_rl("play", "--exit_with_parent", *flags)]
        try:
            self.process = children.start_logged(command, self._path(_OUTPUT), "wb")
        except OSError as error:
            _log.warning("no film at %d frames: %s", frames, reason(error))

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name)

    def _paths(self) -> list[str]:
        return [self._path(f"{self._frames:012d}{ending}") for ending in (".mp4", ".gif")]

    def _show(self, code: int, wall_time: float) -> None:
        if code:
            how = f"exit code {code}"
            with contextlib.suppress(OSError):
                how = children.how_it_ended(code, self._path(_OUTPUT))
            _log.warning("no film at %d frames: %s", self._frames, how)
            return
        mp4, gif = self._paths()
        _log.info("filmed %s", mp4)
        for sink in self._sinks:
            sink.film(mp4, gif, self._frames, wall_time)

    def close(self) -> None:
        """Stop a film that is being made, and pass on a completed one."""
        if self.process is not None:
            if self.idle:
                self._show(self.process.returncode, time.time())
            else:
                self._end(self.process)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS)
        process.kill()  # which does nothing once it has ended
        process.wait()
        for unfinished in glob.glob(f"*{PARTIAL}", root_dir=self._directory):
            os.remove(self._path(unfinished))
