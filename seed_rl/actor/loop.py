"""An actor: environments in groups, each stepping on its own thread and stream."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import random
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

from seed_rl.envs import registry
from seed_rl.envs.base import EnvConfig, spec_of
from seed_rl.specs import ActorSettings, EnvSpec, GroupLease, Lease
from seed_rl.transport.client import ActStream, Disconnected, LearnerClient
from seed_rl.types import EnvOutput

_log = logging.getLogger(__name__)

_RPC_SECONDS = 10.0  # seconds, for each call of the handshake


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Overrides of the sizes that the learner asks for; None: as asked."""

    num_groups: int | None = None
    envs_per_group: int | None = None

    def apply(self, settings: ActorSettings) -> ActorSettings:
        """The settings with the overrides."""
        return dataclasses.replace(
            settings,
            num_groups=self.num_groups or settings.num_groups,
            envs_per_group=self.envs_per_group or settings.envs_per_group,
        )


class Backoff:
    """Delays that double up to a cap, with jitter so that many actors don't return at the same moment."""

    def __init__(self, first: float = 0.5, cap: float = 30.0):
        """
        Args:
          first: longest first delay, seconds.
          cap: longest delay, seconds.
        """
        self._first = self._longest = first
        self._cap = cap

    def next(self) -> float:
        """Seconds to wait now: at random between half of the longest delay and all of it."""
        delay = self._longest * random.uniform(0.5, 1.0)
        self._longest = min(self._cap, self._longest * 2)
        return delay

    def reset(self) -> None:
        """Starts over, after a success."""
        self._longest = self._first


class Actor:
    """Steps environments for a learner until `stop`, through restarts of the learner.

    Environments are built once. After a lost connection their episodes are abandoned: they are reset and join the
    learner again, under a new run id.
    """

    def __init__(self, connect: Callable[[], LearnerClient], sizes: Sizes = Sizes(), backoff: Backoff | None = None):
        """
        Args:
          connect: makes a client of the learner.
          sizes: overrides.
          backoff: delays between tries to join, by default from 0.5 s up to 30 s.
        """
        self._connect = connect
        self._sizes = sizes
        self._backoff = backoff or Backoff()
        self._stop = threading.Event()
        self._client: LearnerClient | None = None
        self._settings: ActorSettings | None = None
        self._suite = ""
        self._envs: list[gymnasium.vector.VectorEnv] = []

    def stop(self) -> None:
        """Makes `run` return soon. May be called from any thread, more than once."""
        self._stop.set()
        if self._client is not None:
            self._client.close()

    def run(self) -> None:
        """Acts until `stop`.

        Raises:
          Rejected: the learner refuses this actor for good.
          CannotBuild: the environments can't be built here, or aren't as `EnvConfig` says.
          EnvironmentFailed: one of them raised an error, whose traceback is logged.
        """
        try:
            while not self._stop.is_set():
                client = self._client = self._connect()
                if self._stop.is_set():  # `stop` may have closed the client before this one
                    client.close()
                try:
                    self._run_once(client)
                except Disconnected as lost:
                    delay = self._backoff.next()
                    if not self._stop.is_set():
                        _log.warning("no learner: %s; next try in %.1f s", lost, delay)
                    self._stop.wait(delay)
                finally:
                    client.close()
        finally:
            self._close_envs()

    def _close_envs(self) -> None:
        for env in self._envs:
            try:
                env.close()
            except Exception as error:  # of any kind, and it must not hide why the environment is closed
                _log.warning("an environment could not be closed: %r", error)
        self._envs = []

    def _run_once(self, client: LearnerClient) -> None:
        started = time.monotonic()
        self._build(self._sizes.apply(client.describe(_RPC_SECONDS)))
        spec = spec_of(self._envs[0])
        lease = client.join(secrets.token_hex(8), spec, [env.num_envs for env in self._envs], _RPC_SECONDS)
        self._backoff.reset()
        num_envs = sum(env.num_envs for env in self._envs)
        _log.info("joined with %d environments in %.1f s", num_envs, time.monotonic() - started)
        with ThreadPoolExecutor(len(self._envs), thread_name_prefix="group") as groups:
            runs = [groups.submit(self._run_group, client, lease, group, spec) for group in range(len(self._envs))]
        errors = [error for run in runs if (error := run.exception()) is not None]
        # One group's error ends the others with Disconnected, so any other kind comes first.
        for error in sorted(errors, key=lambda error: isinstance(error, Disconnected)):
            raise error

    def _build(self, settings: ActorSettings) -> None:
        if settings == self._settings:
            return
        self._close_envs()
        self._suite = settings.env.suite
        config: EnvConfig = self._call_env("load", registry.from_description, settings.env)
        with ThreadPoolExecutor(settings.num_groups) as builders:  # native environments build in parallel
            builds = [
                builders.submit(self._call_env, "make", config.make, settings.envs_per_group)
                for _ in range(settings.num_groups)
            ]
        self._envs = [build.result() for build in builds if build.exception() is None]  # `run` closes them
        for build in builds:
            build.result()
        mode = self._envs[0].metadata.get("autoreset_mode")
        if mode != AutoresetMode.SAME_STEP:
            raise registry.CannotBuild(
                f"environments must reset in the step that ends an episode (SAME_STEP autoreset), those of suite "
                f"{self._suite!r} say {mode}"
            )
        self._settings = settings

    def _run_group(self, client: LearnerClient, lease: Lease, group: int, spec: EnvSpec) -> None:
        try:
            with contextlib.closing(client.open(lease, group, spec)) as stream:
                self._step_group(self._envs[group], lease.groups[group], stream)
        finally:
            client.close()  # when one group ends, so do the others

    def _step_group(self, env: gymnasium.vector.VectorEnv, lease: GroupLease, stream: ActStream) -> None:
        observation, _ = self._call_env("reset", env.reset, seed=lease.seed)
        output = EnvOutput(np.zeros(env.num_envs, np.float32), np.ones(env.num_envs, bool), observation)
        while not self._stop.is_set():
            actions = stream.step(output)
            observation, reward, terminated, truncated, _ = self._call_env("step", env.step, actions)
            output = EnvOutput(np.asarray(reward, np.float32), terminated | truncated, observation)

    def _call_env(self, what: str, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Calls into an environment: any exception becomes an EnvironmentFailed of one sentence, and is logged."""
        try:
            return call(*arguments, **named)
        except registry.CannotBuild:
            raise
        except Exception as error:
            text = " ".join(str(error).split())
            if not isinstance(error, registry.EnvironmentFailed):  # that is a sentence already
                text = f"{type(error).__name__}: {text}" if text else type(error).__name__
            sentence = f"an environment of suite {self._suite!r} failed in {what}: {text}"
            _log.error("%s", sentence, exc_info=error)
            raise registry.EnvironmentFailed(sentence) from error
