"""Environments that each run in their own process, and what any such process needs."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import multiprocessing.connection
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
from gymnasium.vector import AsyncVectorEnv, AutoresetMode

from seed_rl.envs.base import CannotBuild, EnvironmentFailed, failure
from seed_rl.system.children import guard_of

CLOSE_SECONDS = 3.0
"""How long an environment's process may take to end before it is killed."""
_LAST_WORDS = 300  # characters of the output of a process that has died


class ProcessVectorEnv(AsyncVectorEnv):
    """Steps environments in parallel, with SAME_STEP autoreset.

    For simulators that hold the interpreter's lock, don't survive a fork, or crash their process. Unlike the base
    class, it builds no environment in the calling process, reports which process died, how and with which last words,
    keeps Ctrl-C from the environments, and kills those that hang while closing. The programs that environments start,
    such as compilers, end with them, and their temporary directory (TMPDIR) is removed; all that holds for the end of
    the calling process too, even if that is killed.

    After an error, only `close` may be called.
    """

    def __init__(
        self,
        make_env: Callable[[], gymnasium.Env],
        num_envs: int,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        name: str,
    ):
        """
        Args:
          make_env: picklable; called in each process.
          num_envs: E, the number of processes.
          observation_space: of one environment.
          action_space: of one environment.
          name: of the environments, for error messages.

        Raises:
          CannotBuild: raised by `make_env`.
          EnvironmentFailed: `make_env` raised another error, or its process died.
        """
        self._name = name
        self.processes, self.parent_pipes = [], []
        self._guard: subprocess.Popen[bytes] | None = None
        self._folder = tempfile.mkdtemp(prefix="seed_rl_envs_")
        self._outputs = [Output() for _ in range(num_envs)]
        remotes = [
            functools.partial(_Remote, make_env, name, observation_space, action_space, self._folder, output.descriptor)
            for output in self._outputs
        ]
        try:
            with self._deaths_named():
                super().__init__(remotes, context="spawn", autoreset_mode=AutoresetMode.SAME_STEP)
                self.call("lead_group")
                for output in self._outputs:
                    output.given()
                self._guard = guard_of([process.pid for process in self.processes], self._folder)
                reasons = [reason for reason in self.call("start") if reason]
            if reasons:
                raise CannotBuild(reasons[0])
        except BaseException:
            self.close()
            raise

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts new episodes; environment i gets the seed `seed` + i."""
        with self._deaths_named():
            return super().reset(seed=None if seed is None else int(seed))

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Steps all environments with actions [E]."""
        with self._deaths_named():
            return super().step(actions)

    def close_extras(self, timeout: float | None = None, terminate: bool = False) -> None:
        """Ends the processes, and kills those that don't end by themselves."""
        for output in self._outputs:
            output.given()
        for pipe in filter(None, self.parent_pipes):
            with contextlib.suppress(OSError):
                pipe.send(("close", None))
        deadline = time.monotonic() + CLOSE_SECONDS
        for process in self.processes:
            process.join(max(0.0, deadline - time.monotonic()))
        if self._guard is not None:
            self._guard.communicate()  # it kills all that are left
        for process in self.processes:
            process.kill()  # one without a group
            process.join()
        shutil.rmtree(self._folder, ignore_errors=True)
        for pipe in filter(None, self.parent_pipes):
            pipe.close()

    @contextlib.contextmanager
    def _deaths_named(self) -> Iterator[None]:
        """Turns the loss of a connection into an `EnvironmentFailed` that says which process ended, and how."""
        try:
            yield
        except (EOFError, ConnectionError) as error:
            sentinels = [process.sentinel for process in self.processes]
            ended: list[Any] = multiprocessing.connection.wait(sentinels, CLOSE_SECONDS)
            if not ended:
                raise EnvironmentFailed(f"a process of {self._name} closed its connection") from error
            index = sentinels.index(ended[0])
            self.processes[index].join()
            how = self._outputs[index].end(self.processes[index].exitcode)
            raise EnvironmentFailed(
                f"the process of environment {index} of {self.num_envs} of {self._name} ended: {how}"
            ) from error


class Output:
    """The output of a process, which is passed on to standard error; the last of it is kept."""

    def __init__(self) -> None:
        reading, self.descriptor = os.pipe()
        """The end of a pipe that the process is to write to."""
        self._given = False
        self._last = b""

        def pass_on() -> None:
            with open(reading, "rb", buffering=0) as output:
                while text := output.read(1 << 16):
                    self._last = (self._last + text)[-4 * _LAST_WORDS :]
                    with contextlib.suppress(OSError):
                        os.write(2, text)

        self._listener = threading.Thread(target=pass_on, daemon=True)
        self._listener.start()

    def given(self) -> None:
        """To be called once the process has the descriptor, or never will; may be called twice."""
        if not self._given:
            os.close(self.descriptor)
        self._given = True

    def end(self, code: Any) -> str:
        """How the process ended, and its last words, in one line.

        Args:
          code: its exit code; a negative one is the signal that killed it.
        """
        how = {-number: number.name for number in signal.Signals}.get(code, f"exit code {code}")
        self._listener.join(CLOSE_SECONDS)  # or it has left a program behind
        said = " ".join(re.findall(r"[ -~]+", self._last.decode(errors="replace")))[-_LAST_WORDS:]
        return f"{how}; its last words: {said or 'none'}"


@dataclasses.dataclass
class _Remote(gymnasium.Env):
    """An environment that is built by `start`, in its own process, and whose errors can be pickled."""

    make_env: Callable[[], gymnasium.Env]
    name: str
    observation_space: gymnasium.Space[Any]
    action_space: gymnasium.Space[Any]
    folder: str
    """Directory of temporary files."""
    output: int
    """A descriptor of the parent process, for what this one prints."""
    env: Any = None

    def lead_group(self) -> None:
        """Makes its process the leader of a group, to which the programs that it starts will belong."""
        os.setpgid(0, 0)
        os.environ["TMPDIR"] = tempfile.tempdir = self.folder
        with open(f"/proc/{os.getppid()}/fd/{self.output}", "wb") as output:
            for descriptor in (1, 2):
                os.dup2(output.fileno(), descriptor)
        # The process that steps the environments decides when they end. A handler and not SIG_IGN, which the programs
        # that an environment starts would inherit.
        signal.signal(signal.SIGINT, lambda *_: None)

    def start(self) -> str:
        """Builds it; returns the message of a `CannotBuild`, otherwise an empty string."""
        try:
            self.env = self._call("make", self.make_env)
        except CannotBuild as error:
            return str(error)
        return ""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return self._call("reset", self.env.reset, seed=seed)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        return self._call("step", self.env.step, action)

    def render(self) -> Any:
        return self._call("render", self.env.render)

    def close(self) -> None:
        if self.env is not None:
            self.env.close()

    def _call(self, what: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (Exception, SystemExit) as error:  # an environment may raise anything
            raise failure(f"{self.name} failed in {what}", error) from error
