"""Environments that each run in a process of their own."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import create_shared_memory, read_from_shared_memory

from seed_rl.envs.base import CannotBuild, EnvironmentFailed, UniformVectorEnv

CLOSE_SECONDS = 3.0
"""Time for an environment's process to end by itself before it is killed."""


class ProcessVectorEnv(UniformVectorEnv):
    """Steps environments in parallel, with SAME_STEP autoreset.

    For simulators that hold the interpreter's lock, don't survive a fork, or take their process down with them. Each
    environment is created, stepped and closed in a process of its own, started afresh (spawned); observations pass
    through shared memory. A step takes as long as the slowest of its environments, resets included.

    Gymnasium's `AsyncVectorEnv` doesn't do for them: it builds an environment in the calling process as well, loses the
    reason when a constructor fails or a process dies, forwards Ctrl-C to the environments, and waits forever for one
    that hangs on closing.

    After an error, only `close` may be called.
    """

    def __init__(
        self,
        make_env: Callable[[], gymnasium.Env],
        num_envs: int,
        observation_space: spaces.Box,
        action_space: spaces.Discrete,
        name: str,
    ):
        """
        Args:
          make_env: called in each process, so it must be picklable.
          num_envs: E, the number of processes.
          observation_space: of one environment.
          action_space: of one environment.
          name: of the environments, for error messages.

        Raises:
          CannotBuild: raised by `make_env`.
          EnvironmentFailed: `make_env` raised another error, or its process died.
        """
        super().__init__(num_envs, observation_space, action_space)
        self._name = name
        self._workers: list[_Worker] = []
        spawn: Any = multiprocessing.get_context("spawn")
        shared = observation_space, create_shared_memory(observation_space, num_envs, spawn), num_envs
        self._observation: Any = read_from_shared_memory(*shared)
        try:
            for index in range(num_envs):
                ours, theirs = spawn.Pipe()
                process = spawn.Process(target=_run, args=(make_env, theirs, index, shared), daemon=True)
                process.start()
                self._workers.append(_Worker(process, ours))
                theirs.close()  # so that the end of the process closes the pipe
            self._receive()
        except BaseException:
            self.close()
            raise

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Starts new episodes; environment i gets the seed `seed` + i."""
        self._send("reset", [None if seed is None else int(seed) + index for index in range(self.num_envs)])
        self._receive()
        return self._observation.copy(), {}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Steps all environments with actions [E]."""
        self._send("step", [int(action) for action in actions])
        reward, terminated, truncated = zip(*self._receive(), strict=True)
        return self._observation.copy(), np.array(reward), np.array(terminated), np.array(truncated), {}

    def close_extras(self, **kwargs: Any) -> None:
        """Ends the processes, and kills those that don't end by themselves."""
        for worker in self._workers:
            with contextlib.suppress(OSError):
                worker.connection.send(None)
        deadline = time.monotonic() + CLOSE_SECONDS
        for worker in self._workers:
            worker.process.join(max(0.0, deadline - time.monotonic()))
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.connection.close()

    def _send(self, command: str, arguments: list[Any]) -> None:
        for index, (worker, argument) in enumerate(zip(self._workers, arguments, strict=True)):
            try:
                worker.connection.send((command, argument))
            except OSError as error:
                raise self._died(index) from error

    def _receive(self) -> list[Any]:
        """The results of the last command."""
        results = []
        for index, worker in enumerate(self._workers):
            try:
                result, failure = worker.connection.recv()
            except (EOFError, OSError) as error:
                raise self._died(index) from error
            if failure is not None:
                error_class, message, trace = failure
                raise error_class(message) from RuntimeError(f"in the environment's process:\n{trace}")
            results.append(result)
        return results

    def _died(self, index: int) -> EnvironmentFailed:
        process = self._workers[index].process
        process.join(CLOSE_SECONDS)
        code = process.exitcode
        if code is None:
            how = "closed its connection"
        else:
            named = signal.Signals(-code).name if -code in list(signal.Signals) else f"signal {-code}"
            how = f"ended: {named if code < 0 else f'exit code {code}'}"
        return EnvironmentFailed(f"the process of environment {index} of {self.num_envs} of {self._name} {how}")


class _Worker(NamedTuple):
    process: BaseProcess
    connection: Connection


def _run(make_env: Callable[[], gymnasium.Env], connection: Connection, index: int, shared: tuple[Any, ...]) -> None:
    """Runs one environment until the other end of the connection is closed, or sends None."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that steps the environments decides when they end
    observations: Any = read_from_shared_memory(*shared)
    with contextlib.ExitStack() as cleanup, contextlib.suppress(EOFError, ConnectionError):
        env, failure = _attempt(make_env)
        if failure is None:
            cleanup.callback(env.close)
        result = None
        while True:
            connection.send((result, failure))
            command = None if failure else connection.recv()
            if command is None:
                return
            result, failure = _attempt(_obey, env, observations[index, ...], *command)


def _obey(env: gymnasium.Env, observation: np.ndarray, command: str, argument: Any) -> Any:
    """Resets the environment, or steps it and returns reward, terminated and truncated; writes the observation."""
    if command == "reset":
        observation[...], _ = env.reset(seed=argument)
        return None
    seen, reward, terminated, truncated, _ = env.step(argument)
    if terminated or truncated:
        seen, _ = env.reset()
    observation[...] = seen
    return float(reward), bool(terminated), bool(truncated)


def _attempt(call: Callable[..., Any], *arguments: Any) -> tuple[Any, tuple[type[Exception], str, str] | None]:
    """A call's result, or its failure: the class of the error to raise, its message, and where it occurred."""
    try:
        return call(*arguments), None
    except Exception as error:  # environments raise all kinds
        error_class = CannotBuild if isinstance(error, CannotBuild) else EnvironmentFailed
        return None, (error_class, str(error) or type(error).__name__, traceback.format_exc())
