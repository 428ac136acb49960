"""An actor: groups of environments, with one thread and one stream per group."""

import contextlib
import dataclasses
import functools
import logging
import random
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any

import gymnasium

from seed_rl.actor.watch import Watch
from seed_rl.envs import base, registry
from seed_rl.envs.base import EnvConfig, spec_of
from seed_rl.envs.vector.steps import Steps
from seed_rl.specs import EnvDescription, EnvSpec, Lease
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
        self._suite = ""
        self._built: dict[int, tuple[EnvDescription, int, gymnasium.vector.VectorEnv]] = {}  # for each group
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
            for group in [*self._built]:
                self._close(group)
            self._watch.stop()

    def _close(self, group: int) -> None:
        try:
            self._watch.call("close", self._built.pop(group)[2].close)
        except Exception as error:  # it must not mask the reason for closing
            _log.warning("an environment could not be closed: %r", error)

    def _run_once(self, client: LearnerClient) -> None:
        started = time.monotonic()
        asked = client.describe(_RPC_SECONDS)
        num_groups, envs_per_group = self.num_groups or asked.num_groups, self.envs_per_group or asked.envs_per_group
        kinds = [asked.env, asked.eval_env or asked.env]
        self._build([kinds] * num_groups, envs_per_group)
        spec = spec_of(self._built[0][2])
        sizes = [self._built[group][2].num_envs for group in range(num_groups)]
        lease = client.join(self.run_id or secrets.token_hex(8), spec, sizes, _RPC_SECONDS)
        if asked.eval_env:  # only now it is known which groups evaluate
            self._build([[kinds[group.env_ids[0] >= asked.first_eval_id]] for group in lease.groups], envs_per_group)
        self._delays = growing_delays(_LONGEST_PAUSE)
        _log.info("joined with %d environments in %.1f s", sum(sizes), time.monotonic() - started)
        runs = _at_once([functools.partial(self._run_group, client, lease, spec, group) for group in range(num_groups)])
        errors = [error for run in runs if (error := run.exception()) is not None]
        # One group's error ends the others with Disconnected, so any other kind takes precedence.
        for error in sorted(errors, key=lambda error: isinstance(error, Disconnected)):
            raise error

    def _build(self, kinds: Sequence[Sequence[EnvDescription]], size: int) -> None:
        """Build the environments of each group, the first of its kinds, unless it has some of one of them already."""
        for group, (kind, own_size, _) in [*self._built.items()]:
            if group >= len(kinds) or kind not in kinds[group] or own_size != size:
                self._close(group)
        makers = {group: self._maker(own[0], size) for group, own in enumerate(kinds) if group not in self._built}
        builds = dict(zip(makers, _at_once([*makers.values()]), strict=True))  # native environments build in parallel
        for group, build in builds.items():
            if build.exception() is None:
                self._built[group] = kinds[group][0], size, build.result()  # `run` closes it
        for build in builds.values():
            base.autoreset_mode(build.result(), f"an environment of suite {self._suite!r}")

    def _maker(self, kind: EnvDescription, size: int) -> Callable[[], gymnasium.vector.VectorEnv]:
        self._suite = kind.suite
        config: EnvConfig = self._call_env("load", registry.from_description, kind)
        for module in config.modules:  # the learner isn't trusted to run code here
            if not registry.may_import(module):
                asked = f"the learner asks for an environment from module {module!r}, which this actor may not import"
                raise base.CannotBuild(f"{asked}; --import_module={module} permits it")
        return functools.partial(self._call_env, "make", self._watch.call, "make", config.make, size)

    def _run_group(self, client: LearnerClient, lease: Lease, spec: EnvSpec, group: int) -> None:
        env = self._built[group][2]
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


def _at_once(functions: Sequence[Callable[[], Any]]) -> list[Future[Any]]:
    """Call functions in threads until all have returned; a program can end while an environment hangs in one."""
    futures: list[Future[Any]] = [Future() for _ in functions]

    def call(future: Future[Any], function: Callable[[], Any]) -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    pairs = zip(futures, functions, strict=True)
    threads = [threading.Thread(target=call, args=pair, name="group", daemon=True) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return futures
