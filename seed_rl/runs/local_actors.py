"""Actors on this machine, as processes or as threads of the learner's process."""

import dataclasses
import signal
import subprocess
from collections.abc import Sequence

from seed_rl.actor.loop import Actor
from seed_rl.runs.fleet import ActorEnd, ActorFailed, SupervisedFleet
from seed_rl.system import children, signals
from seed_rl.system.exit_codes import USAGE_ERROR
from seed_rl.transport.client import LearnerClient
from seed_rl.transport.credentials import ClientSecurity

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
        if code == USAGE_ERROR:
            raise ActorFailed(f"actor {number} can't run: {how} (log: {log})")
        # An actor that ends after a signal exits with 128 plus the signal's number.
        return ActorEnd(how, any(code in (-number, 128 + number) for number in _FROM_OUTSIDE)) if code else None

    def _wait(self, number: int, process: subprocess.Popen[bytes]) -> int:
        return process.wait()

    def _arguments(self, number: int) -> Sequence[str]:
        return self.arguments

    def _end(self, handle: subprocess.Popen[bytes], kill: bool) -> None:
        if kill:
            handle.kill()
        else:
            handle.terminate()


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
