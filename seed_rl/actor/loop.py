"""An actor: groups of environments, with one thread and one stream per group."""

import contextlib
import dataclasses
import functools
import logging
import random
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gymnasium

from seed_rl.actor.watch import Watch
from seed_rl.envs import base, registry
from seed_rl.envs.base import EnvConfig, spec_of
from seed_rl.envs.vector.steps import Steps
from seed_rl.specs import ActorSettings, EnvSpec, Lease
from seed_rl.transport.client import Disconnected, LearnerClient, RunOver

_log = logging.getLogger(__name__)

_RPC_SECONDS = 10.0  # for each call of the handshake
_LONGEST_PAUSE = 4.0  # seconds: when a learner comes back, its actors reconnect within five


def growing_delays(cap: float = 30.0) -> Iterator[float]:
    """Yield random delays, seconds, that double up to `cap`: not all actors come back at the same moment."""
    bound = 0.5
    while True:
        yield bound * random.uniform(0.5, 1.0)
        bound = min(cap, 2 * bound)


@dataclasses.dataclass(eq=False)
class Actor:
    """Steps environments, which it builds once, until the run of a learner is over or `stop`, across its restarts."""

    connect: Callable[[], LearnerClient]
    num_groups: int | None = None
    """Number of groups; None: as many as the learner asks for."""
    envs_per_group: int | None = None
    """Size of a group; None: what the learner asks for."""
    run_id: str = ""
    """Name under which to join; "": a random one each time."""
    name: str = ""
    """Name in messages of a process with several actors."""
    hang_timeout: float = 60.0
    """Time after which a step that has not returned is reported, seconds; and again after ten times as long."""
    on_hang: Callable[[str], None] = lambda sentence: None
    """Called with the sentence that names a hanging environment."""

    def __post_init__(self) -> None:
        self._delays = growing_delays(_LONGEST_PAUSE)
        self._stop = threading.Event()
        self._client: LearnerClient | None = None
        self._settings: ActorSettings | None = None
        self._suite = ""
        self._envs: list[gymnasium.vector.VectorEnv] = []
        self._watch = Watch(self.name, self.hang_timeout, self.on_hang)

    def stop(self) -> None:
        """Make `run` return soon. May be called from any thread and more than once."""
        self._stop.set()
        if self._client is not None:
            self._client.close()

    def run(self) -> None:
        """Act until the run is over or `stop`.

        Raises Rejected if the learner refuses this actor, CannotBuild if the environments can't be built here, and
        EnvironmentFailed if one raised an error, whose traceback is logged.
        """
        self._watch.start()
        try:
            while not self._stop.is_set():
                client = self._client = self.connect()
                if self._stop.is_set():  # `stop` may have closed only the previous client
                    client.close()
                try:
                    self._run_once(client)
                except RunOver as over:
                    _log.info("%s", over)
                    return
                except Disconnected as lost:
                    delay = next(self._delays)
                    if not self._stop.is_set():
                        _log.warning("no learner: %s; next try in %.1f s", lost, delay)
                    self._stop.wait(delay)
                finally:
                    client.close()
        finally:
            self._watch.stop()
            self._close_envs()

    def _close_envs(self) -> None:
        for env in self._envs:
            try:
                env.close()
            except Exception as error:  # it must not mask the reason for closing
                _log.warning("an environment could not be closed: %r", error)
        self._envs = []

    def _run_once(self, client: LearnerClient) -> None:
        started = time.monotonic()
        asked = client.describe(_RPC_SECONDS)
        num_groups, envs_per_group = self.num_groups or asked.num_groups, self.envs_per_group or asked.envs_per_group
        self._build(ActorSettings(asked.env, num_groups, envs_per_group))
        spec = spec_of(self._envs[0])
        sizes = [env.num_envs for env in self._envs]
        lease = client.join(self.run_id or secrets.token_hex(8), spec, sizes, _RPC_SECONDS)
        self._delays = growing_delays(_LONGEST_PAUSE)
        _log.info("joined with %d environments in %.1f s", sum(sizes), time.monotonic() - started)
        with ThreadPoolExecutor(len(self._envs), thread_name_prefix="group") as groups:
            runs = [groups.submit(self._run_group, client, lease, group, spec) for group in range(len(self._envs))]
        errors = [error for run in runs if (error := run.exception()) is not None]
        # One group's error ends the others with Disconnected, so any other kind takes precedence.
        for error in sorted(errors, key=lambda error: isinstance(error, Disconnected)):
            raise error

    def _build(self, settings: ActorSettings) -> None:
        if settings == self._settings:
            return
        self._close_envs()
        self._suite = settings.env.suite
        config: EnvConfig = self._call_env("load", registry.from_description, settings.env)
        for module in config.modules:  # the learner isn't trusted to run code here
            if not registry.may_import(module):
                asked = f"the learner asks for an environment from module {module!r}, which this actor may not import"
                raise registry.CannotBuild(f"{asked}; --import_module={module} permits it")
        with ThreadPoolExecutor(settings.num_groups) as builders:  # native environments build in parallel
            make = functools.partial(self._call_env, "make", config.make, settings.envs_per_group)
            builds = [builders.submit(make) for _ in range(settings.num_groups)]
        self._envs = [build.result() for build in builds if build.exception() is None]  # `run` closes them
        for build in builds:
            build.result()
        base.autoreset_mode(self._envs[0], f"an environment of suite {self._suite!r}")
        self._settings = settings

    def _run_group(self, client: LearnerClient, lease: Lease, group: int, spec: EnvSpec) -> None:
        env = self._envs[group]
        # When one group ends, closing the client ends the others.
        with contextlib.closing(client), contextlib.closing(client.open(lease, group, spec)) as stream:
            steps = Steps(env, shows_last=True)
            output = self._call_env("reset", self._watch.call, "reset", steps.reset, lease.groups[group].seed)
            while not self._stop.is_set():
                actions = stream.step(output, steps.numbers)
                output = self._call_env("step", self._watch.call, "step", steps.step, actions)

    def _call_env(self, what: str, call: Callable[..., Any], *arguments: Any) -> Any:
        """Call an environment; errors are logged and become a one-sentence CannotBuild or EnvironmentFailed."""
        try:
            return call(*arguments)
        except (Exception, SystemExit) as error:
            kind = base.CannotBuild if what == "make" else base.EnvironmentFailed  # building again is no use
            failed = base.failure(f"an environment of suite {self._suite!r} failed in {what}", error, kind)
            _log.error("%s", failed, exc_info=error)
            if failed is error:
                raise
            raise failed from error
