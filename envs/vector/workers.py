"""Environments with a process each, for those that hold the interpreter's lock or can exist once in a process."""

import contextlib
import functools
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gymnasium
from gymnasium.vector import AsyncVectorEnv, AutoresetMode

from seed_rl.envs.base import EnvironmentFailed

CLOSE_SECONDS = 3.0
"""Time for an environment's process to end before it is killed."""
_POLL_SECONDS = 1e6  # with a timeout, no answer is taken before all are there, so that `whose_turn` sees who is late


class WorkersVectorEnv(AsyncVectorEnv):
    """Gymnasium's vector environment of processes, new ones, which share memory and stay unaware of Ctrl-C.

    The first maker is also called in this process, to read the spaces of what it makes. After an error, only `close`
    may be called.
    """

    def __init__(self, makers: Sequence[Callable[[], gymnasium.Env]], name: str):
        """`makers` are picklable, and the spaces of all that they make equal; messages call the environments `name`.

        If a process ends, EnvironmentFailed is raised, but errors of the first maker as they are.
        """
        self._name = name
        made: Any = [functools.partial(_make_unaware_of_ctrl_c, os.getpid(), make) for make in makers]
        with self._naming_ends("make"):
            super().__init__(made, context="spawn", autoreset_mode=AutoresetMode.SAME_STEP)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        with self._naming_ends("reset"):
            self.reset_async(seed=None if seed is None else int(seed), options=options)
            return self.reset_wait(timeout=_POLL_SECONDS)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        with self._naming_ends("step"):
            self.step_async(actions)
            return self.step_wait(timeout=_POLL_SECONDS)

    def whose_turn(self) -> str:
        """The names of the environments that haven't answered, for messages; may be called in any thread."""
        with contextlib.suppress(OSError, AttributeError):  # of a pipe that is closed meanwhile
            late = [str(n) for n, pipe in enumerate(self.parent_pipes) if not pipe.poll()]
            return f"environment {', '.join(late)} of {self.num_envs} of {self._name}"
        return self._name

    @contextlib.contextmanager
    def _naming_ends(self, what: str) -> Iterator[None]:
        try:
            yield
        except (EOFError, ConnectionError) as lost:
            raise EnvironmentFailed(f"a process of {self._name} ended in {what}; its output says why") from lost

    def close_extras(self, *unused: Any, **also_unused: Any) -> None:
        """End the processes, killing those that don't end within `CLOSE_SECONDS`."""
        pipes = [pipe for pipe in self.parent_pipes if pipe is not None]  # an error closes that of its process
        for pipe in pipes:
            with contextlib.suppress(OSError):
                pipe.send(("close", None))
        deadline = time.monotonic() + CLOSE_SECONDS
        for process in self.processes:
            process.join(max(0.0, deadline - time.monotonic()))
            process.kill()
            process.join()
        for pipe in pipes:
            pipe.close()


def _make_unaware_of_ctrl_c(parent: int, make: Callable[[], gymnasium.Env]) -> gymnasium.Env:
    if os.getpid() != parent:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to end
    return make()
