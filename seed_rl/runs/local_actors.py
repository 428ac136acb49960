"""Actors on this machine, as processes or as threads of the learner's process."""

import contextlib
import dataclasses
import importlib
import signal
import subprocess
from collections.abc import Sequence

from seed_rl.actor.loop import Actor
from seed_rl.errors import UsageError
from seed_rl.experiment import Experiment
from seed_rl.runs.fleet import ActorEnd, ActorFailed, Fleet, SupervisedFleet
from seed_rl.system import children, signals
from seed_rl.transport.client import LearnerClient
from seed_rl.transport.credentials import ClientSecurity

PROCESSES = "processes"
"""Run each actor in its own process and restart it when it ends (the default)."""
THREADS = "threads"
"""Run actors as threads of this process, for debugging or for environments defined only in this process."""
ELSEWHERE = "elsewhere"
"""Start no actors: wait for `seed_rl actor` processes."""
ACTORS = (PROCESSES, THREADS, ELSEWHERE)

_FROM_OUTSIDE = (signal.SIGKILL, *signals.ALL)  # SIGKILL also comes from the kernel


@dataclasses.dataclass(eq=False)
class LocalActors(SupervisedFleet):
    """Actors as processes on this machine.

    They read from a pipe that only this process keeps open, and so exit when this process ends for any reason.
    """

    arguments: Sequence[str] = ()
    """Arguments of `seed_rl actor` except the address."""

    def _run(self, number: int, log: str) -> ActorEnd | None:
        def wait(process: subprocess.Popen[bytes]) -> int:
            with self._reachable(process):
                return self._wait(number, process)

        arguments = [*self._arguments(number), f"--server_address={self._address}"]
        command = children.seed_rl("actor", "--exit_with_parent", *arguments)
        code, how = children.run_logged(command, log, wait)
        if code == UsageError.exit_code:
            raise ActorFailed(f"actor {number} can't run: {how} (log: {log})")
        # An actor that ends after a signal exits with 128 plus the signal's number.
        return ActorEnd(how, any(code in (-number, 128 + number) for number in _FROM_OUTSIDE)) if code else None

    def _wait(self, number: int, process: subprocess.Popen[bytes]) -> int:
        return process.wait()

    def _arguments(self, number: int) -> Sequence[str]:
        return self.arguments

    def _end(self, handle: subprocess.Popen[bytes], kill: bool) -> None:
        handle.kill() if kill else handle.terminate()


class ActorThreads(SupervisedFleet):
    """Actors as threads of the learner's process; the first failure ends the run."""

    def _run(self, number: int, log: str) -> None:
        actor = Actor(lambda: LearnerClient(self._address, ClientSecurity()))
        try:
            with self._reachable(actor):
                actor.run()
        except Exception as error:  # whose sentence may be long
            raise ActorFailed(f"actor {number} failed: {error}") from error

    def _end(self, handle: Actor, kill: bool) -> None:
        handle.stop()


def local_actors(kind: str, experiment: Experiment, logs: str, arguments: Sequence[str] = ()) -> Fleet:
    """Build an experiment's actors of a kind in `ACTORS`, with a directory for their logs and flags for processes."""
    count, env = experiment.actors.num_actors, experiment.env
    if kind == PROCESSES:
        imports = [f"--import_module={module}" for module in (type(env).__module__, *env.modules)]
        return LocalActors(count, logs, [*imports, *arguments])
    for module in env.modules if kind == THREADS else ():
        with contextlib.suppress(ImportError):  # the environments report it
            importlib.import_module(module)
    return ActorThreads(count if kind == THREADS else 0, logs)
