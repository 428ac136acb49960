"""Vector environments whose parts are built and stepped in other processes.

What they load and how they end stays there: simulators may hold the interpreter's lock, crash, or need another version
of a native library than this process, such as the LLVM in OpenGL's drivers.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pickle
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import CloudpickleWrapper

from seed_rl.envs.base import CannotBuild, EnvironmentFailed, UniformVectorEnv, failure, one_of
from seed_rl.envs.vector.final import final_numbers
from seed_rl.system import children
from seed_rl.system.files import explained

CLOSE_SECONDS = 3.0
"""How long an environment's process may take to end before it is killed."""
_LAST_WORDS = 300  # characters of output to quote when a process dies


def alone(make_env: Callable[[], gymnasium.Env]) -> Callable[[], VectorEnv]:
    """A maker for `ProcessVectorEnv` that gives a single environment its own process."""
    make_envs: Any = [CloudpickleWrapper(make_env)]
    return functools.partial(SyncVectorEnv, make_envs, autoreset_mode=AutoresetMode.SAME_STEP)


class ProcessVectorEnv(UniformVectorEnv):
    """Joins the vector environments of several processes, which step in parallel.

    `info` has only `final_obs`, in steps that truncate an episode, the numbers in `final_info`, and `ended` (see
    `wrappers.SameStep`). The processes and all programs that they start end with this process, however it ends, and
    their temporary directory (TMPDIR) is removed. Ctrl-C does not reach them. After an error, only `close` may be
    called.
    """

    def __init__(self, makers: Sequence[Callable[[], VectorEnv]], name: str):
        """
        Args:
          makers: picklable functions, each called in a new process; all environments must have the same spaces.
          name: name of the environments in messages.

        Raises:
          CannotBuild: raised by a maker, or a maker can't be pickled or unpickled.
          EnvironmentFailed: a maker raised another error, or its process died.
        """
        what = f"{name} can't be described to another process"
        with explained(CannotBuild, what, AttributeError, TypeError, pickle.PicklingError):
            pickled = [pickle.dumps(maker) for maker in makers]
        self._folder = tempfile.mkdtemp(prefix="seed_rl_envs_")
        self._guard: subprocess.Popen[bytes] | None = None
        self.processes: list[_Process] = []
        try:
            for index in range(len(makers)):
                self.processes.append(_Process(one_of(index, len(makers), name), self._folder))
            self._guard = children.guard_of([process.pid for process in self.processes], self._folder)
            made = self._ask("make", [(name, maker) for maker in pickled])
        except BaseException:
            self.close_extras()
            raise
        self._sizes = [num_envs for num_envs, *_ in made]
        self._starts = np.cumsum([0, *self._sizes[:-1]]).tolist()
        super().__init__(sum(self._sizes), *made[0][1:])

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts new episodes; environment i gets the seed `seed` + i."""
        seeds = [None if seed is None else int(seed) + start for start in self._starts]
        return _joined(self._ask("reset", seeds)), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Steps all environments with actions [E, ...]."""
        cuts = [slice(start, start + size) for start, size in zip(self._starts, self._sizes, strict=True)]
        results = self._ask("step", [_part(actions, cut) for cut in cuts])
        observations, *flags, finals, numbers, ended = zip(*results, strict=True)
        reward, terminated, truncated = map(np.concatenate, flags)
        info: dict[str, Any] = {}
        for start, own in zip(self._starts, numbers, strict=True):
            for index, name, value in own:
                info = self._add_info(info, {"final_info": {name: value}}, start + index)
        if ended[0] is not None:
            info["ended"] = np.concatenate(ended, axis=1)
        if any(final is not None for final in finals):
            parts = [np.full(n, None) if final is None else final for n, final in zip(self._sizes, finals, strict=True)]
            info["final_obs"] = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return _joined(observations), reward, terminated, truncated, info

    def render(self) -> Any:
        """Renders all environments: a frame of each, or None."""
        frames = self._ask("render", [()] * len(self.processes))
        return None if frames[0] is None else [frame for part in frames for frame in part]

    def picture(self, observation: Any) -> np.ndarray:
        """Draws the current state if the only maker made a `Watchable`; see `Watchable.picture`."""
        return self._ask("picture", [(observation,)])[0]

    def _ask(self, what: str, arguments: Sequence[Any]) -> list[Any]:
        """Sends each process a request and collects the answers."""
        for process, argument in zip(self.processes, arguments, strict=True):
            process.send(what, argument)
        return [process.receive(what) for process in self.processes]

    def close_extras(self, **kwargs: Any) -> None:
        """Ends the processes, killing those that don't end within `CLOSE_SECONDS`."""
        for process in self.processes:
            with contextlib.suppress(OSError):
                process.requests.close()
        deadline = time.monotonic() + CLOSE_SECONDS
        for process in self.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
        if self._guard is not None:
            self._guard.communicate()  # kills everything that is left
        for process in self.processes:
            process.kill()
            process.wait()
            process.answers.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _part(actions: Any, cut: slice) -> Any:
    """Rows of actions, arrays [E, ...] or nests of them."""
    if isinstance(actions, dict):
        return {name: _part(own, cut) for name, own in actions.items()}
    return tuple(_part(own, cut) for own in actions) if isinstance(actions, tuple) else np.asarray(actions)[cut]


def _joined(parts: Sequence[Any]) -> Any:
    """Concatenates observations, arrays [E_i, ...] or nests of them."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], dict):
        return {name: _joined([part[name] for part in parts]) for name in parts[0]}
    if isinstance(parts[0], tuple):
        return tuple(map(_joined, zip(*parts, strict=True)))
    return np.concatenate(parts)


class _Process(subprocess.Popen[bytes]):
    """A process that makes and steps a vector environment; its output is passed on to standard error."""

    def __init__(self, name: str, folder: str):
        super().__init__(
            children.python("from seed_rl.envs.vector.processes import serve; serve()"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "TMPDIR": folder},
            start_new_session=True,  # Ctrl-C is for this process to handle
        )
        self.requests: Any = self.stdin
        self.answers: Any = self.stdout
        self._name = name
        self._last_output = b""
        self._listener = threading.Thread(target=self._pass_on, daemon=True)
        self._listener.start()

    def send(self, what: str, argument: Any) -> None:
        """Sends a request: `make`, `reset`, `step`, `render` or `picture`."""
        with self._death_named(what):
            pickle.dump((what, argument), self.requests)
            self.requests.flush()

    def receive(self, what: str) -> Any:
        """Waits for the answer to a request.

        Raises:
          CannotBuild: raised in the process.
          EnvironmentFailed: raised in the process, or the process has ended.
        """
        with self._death_named(what):
            answer, trace = pickle.load(self.answers)
        if trace:
            raise answer from RuntimeError(f"in another process\n{trace}")
        return answer

    @contextlib.contextmanager
    def _death_named(self, what: str) -> Iterator[None]:
        try:
            yield
        except (EOFError, OSError, pickle.UnpicklingError) as lost:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.wait(CLOSE_SECONDS)
            self._listener.join(CLOSE_SECONDS)  # the output stays open if a program is left behind
            code: Any = self.returncode
            how = {-number: number.name for number in signal.Signals}.get(code, f"exit code {code}")
            said = " ".join(re.findall(r"[ -~]+", self._last_output.decode(errors="replace")))[-_LAST_WORDS:]
            raise EnvironmentFailed(
                f"the process of {self._name} ended in {what}: {how}; its last words: {said or 'none'}"
            ) from lost

    def _pass_on(self) -> None:
        assert self.stderr is not None
        with self.stderr as output:
            while text := os.read(output.fileno(), 1 << 16):
                self._last_output = (self._last_output + text)[-4 * _LAST_WORDS :]
                with contextlib.suppress(OSError):
                    os.write(2, text)


def serve() -> None:
    """Answers the requests of a `_Process` on standard input until it is closed."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # what an environment prints is not an answer
    env: Any = None
    with contextlib.ExitStack() as at_end:
        while True:
            try:
                what, argument = pickle.load(requests)
            except EOFError:
                return
            try:
                if what == "make":
                    name, maker = argument
                    with explained(CannotBuild, f"{name} isn't known in another process", AttributeError, ImportError):
                        make = pickle.loads(maker)
                    env = at_end.enter_context(contextlib.closing(make()))
                    spaces = env.single_observation_space, env.single_action_space
                    answer: Any = (env.num_envs, *spaces, env.metadata["autoreset_mode"])
                elif what == "reset":
                    answer = env.reset(seed=argument)[0]
                elif what == "step":
                    *outputs, info = env.step(argument)
                    final_obs = info.get("final_obs") if outputs[3].any() else None
                    numbers = final_numbers(info, outputs[2] | outputs[3])
                    answer = (*outputs, final_obs, numbers, info.get("ended"))
                else:
                    answer = getattr(env, what)(*argument)
                reply = pickle.dumps((answer, ""))
            except (Exception, SystemExit) as error:  # an environment may raise anything
                kind = CannotBuild if what == "make" or isinstance(error, CannotBuild) else EnvironmentFailed
                reply = pickle.dumps((kind(str(failure(f"{name} failed in {what}", error))), traceback.format_exc()))
            answers.write(reply)
            answers.flush()
