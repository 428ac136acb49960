"""Environments that each live in a process of their own."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.sharedctypes import RawArray
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from seed_rl.envs.registry import CannotBuild, EnvironmentFailed

CLOSE_SECONDS = 3.0
"""What an environment's process gets to end by itself; then it is killed."""


class ProcessVectorEnv(gymnasium.vector.VectorEnv):
    """Steps environments in parallel, with SAME_STEP autoreset.

    For simulators that hold the interpreter's lock, don't survive a fork, or take their process down with them. Each
    environment is created, stepped and closed in a process of its own, started afresh (spawned). Observations, actions
    and rewards pass through shared memory. A step takes as long as the slowest of its environments, resets included.

    After an error nothing but `close` makes sense.
    """

    def __init__(
        self,
        make_env: Callable[[], gymnasium.Env],
        num_envs: int,
        observation_space: spaces.Box,
        action_space: spaces.Discrete,
        what: str,
    ):
        """
        Args:
          make_env: called in each process, so it must be importable.
          num_envs: E, processes.
          observation_space: of one environment.
          action_space: of one environment.
          what: a name of the environments for error messages.

        Raises:
          CannotBuild: raised by `make_env`.
          EnvironmentFailed: another error of `make_env`, or the end of its process.
        """
        self.num_envs = num_envs
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space, self.single_action_space = observation_space, action_space
        self.observation_space = gymnasium.vector.utils.batch_space(observation_space, num_envs)
        self.action_space = gymnasium.vector.utils.batch_space(action_space, num_envs)
        self._what = what
        self._connections: list[Connection] = []
        self._processes: list[BaseProcess] = []
        spawn = multiprocessing.get_context("spawn")
        memory = _Memory.allocate(num_envs, observation_space)
        self._arrays = memory.arrays()
        try:
            for index in range(num_envs):
                ours, theirs = spawn.Pipe()
                self._connections.append(ours)
                process = spawn.Process(
                    target=_run, args=(make_env, index, memory, theirs), name=f"{what} {index}", daemon=True
                )
                process.start()
                self._processes.append(process)
                theirs.close()  # so that the end of the process closes the pipe
            self._wait()
        except BaseException:
            self.close()
            raise

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Starts every episode anew; environment i gets seed + i."""
        if seed is None or isinstance(seed, int | np.integer):
            seeds = [None if seed is None else int(seed) + index for index in range(self.num_envs)]
        else:
            seeds = list(seed)
        for index, one in enumerate(seeds):
            self._send(index, ("reset", one))
        self._wait()
        return self._arrays.observation.copy(), {}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Steps all environments with actions [E]; those whose episode ends show the next one's first observation."""
        arrays = self._arrays
        arrays.action[:] = actions
        for index in range(self.num_envs):
            self._send(index, ("step", None))
        self._wait()
        return arrays.observation.copy(), arrays.reward.copy(), arrays.terminated.copy(), arrays.truncated.copy(), {}

    def close_extras(self, **kwargs: Any) -> None:
        """Ends the processes: asks, and kills those that don't listen."""
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.send(("close", None))
        deadline = time.monotonic() + CLOSE_SECONDS
        for process in self._processes:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
        for connection in self._connections:
            connection.close()

    def _send(self, index: int, command: tuple[str, Any]) -> None:
        try:
            self._connections[index].send(command)
        except OSError as error:
            raise self._lost(index) from error

    def _wait(self) -> None:
        for index, connection in enumerate(self._connections):
            try:
                failure = connection.recv()
            except (EOFError, OSError) as error:
                raise self._lost(index) from error
            if failure is not None:
                error_class = CannotBuild if failure.cannot_build else EnvironmentFailed
                raise error_class(failure.message) from _Remote(failure.trace)

    def _lost(self, index: int) -> EnvironmentFailed:
        self._processes[index].join(CLOSE_SECONDS)
        code = self._processes[index].exitcode
        if code is None:
            how = "closed its connection"
        else:
            named = signal.Signals(-code).name if -code in list(signal.Signals) else f"signal {-code}"
            how = f"ended: {named if code < 0 else f'exit code {code}'}"
        return EnvironmentFailed(f"the process of environment {index} of {self.num_envs} of {self._what} {how}")


class _Failure(NamedTuple):
    """An error on its way from one process to another."""

    cannot_build: bool
    message: str
    trace: str


class _Remote(Exception):
    """Shows the other process's traceback as the cause of an error."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class _Arrays(NamedTuple):
    """The shared memory as numpy arrays, [E, ...]."""

    observation: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray


class _Memory(NamedTuple):
    """Shared memory, in a form that can be handed to a process as it starts."""

    buffers: list[Any]
    shapes: list[tuple[int, ...]]
    dtypes: list[str]

    @classmethod
    def allocate(cls, num_envs: int, observation_space: spaces.Box) -> _Memory:
        """Zeros."""
        shapes = [(num_envs, *observation_space.shape), *[(num_envs,)] * 4]
        dtypes = [np.dtype(observation_space.dtype).name, "int32", "float64", "bool", "bool"]
        sizes = [int(np.prod(shape)) * np.dtype(dtype).itemsize for shape, dtype in zip(shapes, dtypes, strict=True)]
        return cls([RawArray("B", size) for size in sizes], shapes, dtypes)

    def arrays(self) -> _Arrays:
        """Views."""
        parts = zip(self.buffers, self.dtypes, self.shapes, strict=True)
        return _Arrays(*(np.frombuffer(buffer, dtype).reshape(shape) for buffer, dtype, shape in parts))


def _run(make_env: Callable[[], gymnasium.Env], index: int, memory: _Memory, connection: Connection) -> None:
    """The life of an environment's process; it ends when the other end of the connection is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever steps the environments decides when they end
    arrays = memory.arrays()
    with contextlib.ExitStack() as cleanup, contextlib.suppress(EOFError, ConnectionError):
        try:
            env = make_env()
            cleanup.callback(env.close)
        except Exception as error:
            connection.send(_failure(error))
            return
        connection.send(None)
        while True:
            command, argument = connection.recv()
            if command == "close":
                return
            try:
                if command == "reset":
                    arrays.observation[index], _ = env.reset(seed=argument)
                else:
                    _step(env, index, arrays)
            except Exception as error:
                connection.send(_failure(error))
                return
            connection.send(None)


def _step(env: gymnasium.Env, index: int, arrays: _Arrays) -> None:
    observation, reward, terminated, truncated, _ = env.step(int(arrays.action[index]))
    if terminated or truncated:
        observation, _ = env.reset()
    arrays.observation[index] = observation
    arrays.reward[index], arrays.terminated[index], arrays.truncated[index] = reward, terminated, truncated


def _failure(error: Exception) -> _Failure:
    return _Failure(isinstance(error, CannotBuild), str(error) or type(error).__name__, traceback.format_exc())
