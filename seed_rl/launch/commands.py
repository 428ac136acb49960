"""What each command of the command line does. TensorFlow is imported by those that need it only."""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import json
import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

from absl import flags

from seed_rl import experiment as experiments
from seed_rl.experiment import ConfigError, Experiment
from seed_rl.launch.cli import UsageError
from seed_rl.launch.local_actors import LocalActors
from seed_rl.launch.native_output import native_stderr_to
from seed_rl.launch.progress import Progress
from seed_rl.transport.address import AddressError, parse_address
from seed_rl.transport.client import LearnerClient, Rejected
from seed_rl.transport.credentials import ClientSecurity, SecurityError, ServerSecurity, read_token

_log = logging.getLogger(__name__)

FAILURE = 1


def train(values: flags.FlagValues) -> int:
    """Runs a learner in this process and actors in others."""
    experiment = _load_experiment(values)
    with _run_directory(values, experiment) as logdir, contextlib.ExitStack() as cleanup:
        address = values.server_address
        if not address:
            # Not in the log directory: the path of a unix socket has 107 bytes at the most.
            directory = tempfile.mkdtemp(prefix="seed_rl-")
            cleanup.callback(shutil.rmtree, directory, ignore_errors=True)
            address = f"unix:{directory}/learner.sock"
        security = _server_security(values, address)
        with _signals() as stopped:
            actors = LocalActors(
                _actor_arguments(values, experiment, address),
                experiment.actors.num_actors,
                os.path.join(logdir, "actors"),
                on_failure=stopped.set,
            )
            cleanup.callback(actors.stop)
            actors.start()
            return _learn(experiment, logdir, address, security, stopped, actors)


def learner(values: flags.FlagValues) -> int:
    """Runs a learner."""
    experiment = _load_experiment(values)
    security = _server_security(values, values.server_address)
    with _run_directory(values, experiment) as logdir, _signals() as stopped:
        return _learn(experiment, logdir, values.server_address, security, stopped, None)


def actor(values: flags.FlagValues) -> int:
    """Runs an actor."""
    from seed_rl.actor.loop import Actor, Sizes

    for module in values.import_module:
        importlib.import_module(module)
    sizes = Sizes(values.num_groups, values.envs_per_group)
    try:
        security = ClientSecurity(values.tls_ca, read_token(values.token_file), values.insecure)
        security.check(parse_address(values.server_address))
        security.credentials()
    except (AddressError, SecurityError) as error:
        raise UsageError(str(error)) from error
    running = Actor(lambda: LearnerClient(values.server_address, security), sizes)
    if values.exit_with_parent:
        threading.Thread(target=_stop_at_end_of_input, args=(running,), daemon=True).start()
    with _signals() as stopped:
        stopped.on_signal(running.stop)
        try:
            running.run()
        except (Rejected, ValueError) as error:  # ValueError: environments that can't be built here
            print(f"seed_rl actor: {error}", file=sys.stderr)
            return FAILURE
        return stopped.exit_code


def plot(values: flags.FlagValues, *places: str) -> int:
    """Draws learning curves."""
    from seed_rl.launch.plot import NoCurve, plot_curves

    if not places:
        raise UsageError("name at least one log directory")
    try:
        plot_curves(places, values.output, values.x)
    except (NoCurve, OSError) as error:
        raise UsageError(str(error)) from error
    print(values.output)
    return 0


class _Stopped(threading.Event):
    """Set by the first SIGINT or SIGTERM."""

    def __init__(self):
        super().__init__()
        self.exit_code = 0
        self._callback: Any = None

    def on_signal(self, callback: Any) -> None:
        self._callback = callback

    def handle(self, number: int, frame: FrameType | None) -> None:
        if self.is_set():
            os._exit(128 + number)  # asked twice: at once; actors end with this process
        self.exit_code = 128 + number
        self.set()
        if self._callback:
            self._callback()


@contextlib.contextmanager
def _signals() -> Iterator[_Stopped]:
    stopped = _Stopped()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, stopped.handle) for number in numbers}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop_at_end_of_input(running: Any) -> None:
    while os.read(0, 1024):  # not through sys.stdin, whose lock a thread that waits would keep at exit
        pass
    running.stop()


def _server_security(values: flags.FlagValues, address: str) -> ServerSecurity:
    try:
        security = ServerSecurity(values.tls_cert, values.tls_key, read_token(values.token_file), values.insecure)
        security.check(parse_address(address))
        security.credentials()
    except (AddressError, SecurityError) as error:
        raise UsageError(str(error)) from error
    return security


def _load_experiment(values: flags.FlagValues) -> Experiment:
    overrides = list(values.gin_param)
    for flag, binding in (
        ("total_frames", "Experiment.total_frames"),
        ("seed", "Experiment.seed"),
        ("num_actors", "Actors.num_actors"),
    ):
        if values[flag].value is not None:
            overrides.append(f"{binding} = {values[flag].value}")
    if not values.gin_file:
        raise UsageError(f"--gin_file is needed, one of {', '.join(experiments.shipped_configs())} or a path")
    return experiments.load(values.gin_file, overrides)


def _actor_arguments(values: flags.FlagValues, experiment: Experiment, address: str) -> list[str]:
    arguments = [
        f"--server_address={address}",
        f"--log_level={values.log_level}",
        f"--import_module={type(experiment.env).__module__}",
    ]
    if values.tls_cert:
        arguments.append(f"--tls_ca={values.tls_cert}")
    if values.token_file:
        arguments.append(f"--token_file={values.token_file}")
    if values.insecure:
        arguments.append("--insecure")
    return arguments


@contextlib.contextmanager
def _run_directory(values: flags.FlagValues, experiment: Experiment) -> Iterator[str]:
    """The log directory, locked against other learners, with the configuration in it."""
    name = os.path.splitext(values.gin_file[-1])[0].strip("./").replace("/", "_")
    logdir = values.logdir or os.path.join("runs", name)
    saved_path = os.path.join(logdir, "config.json")
    if os.path.exists(saved_path):
        with open(saved_path, encoding="utf-8") as file:
            saved = json.load(file)
        # Through JSON, so that both sides have its types.
        found = experiments.differences(saved, json.loads(json.dumps(experiment.to_json())))
        if found:
            raise ConfigError(
                f"{logdir} holds a run of another configuration: {'; '.join(found)}. "
                "Choose another --logdir, or the configuration of that run to continue it"
            )
    try:
        os.makedirs(logdir, exist_ok=True)
        lock = open(os.path.join(logdir, "lock"), "w")  # noqa: SIM115 (held until the run ends)
    except OSError as error:
        raise UsageError(f"--logdir {logdir} can't be used: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(f"another learner is running in {logdir}") from None
        experiments.save_config(experiment, logdir)
        handler = logging.FileHandler(os.path.join(logdir, "learner.log"))
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname).1s %(name)s: %(message)s"))
        logging.getLogger().addHandler(handler)
        try:
            with native_stderr_to(os.path.join(logdir, "native.log")):
                yield logdir
        finally:
            logging.getLogger().removeHandler(handler)
            handler.close()


def _learn(
    experiment: Experiment,
    logdir: str,
    address: str,
    security: ServerSecurity,
    stopped: _Stopped,
    actors: LocalActors | None,
) -> int:
    started = time.monotonic()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # what matters of it comes as exceptions
    from seed_rl.learner.checkpoints import CheckpointError
    from seed_rl.learner.learner import Learner

    progress = Progress(experiment.total_frames)
    try:
        running = Learner(experiment, logdir, address, security, progress.show)
    except (ValueError, CheckpointError) as error:  # the agent can't act in these environments, or a damaged file
        raise ConfigError(str(error)) from error
    if running.restored_from:
        _log.info("continuing from %s at %d frames", running.restored_from, running.counters.env_frames)
    try:
        bound = running.start()
    except AddressError as error:
        raise UsageError(str(error)) from error
    _log.info("serving actors at %s after %.1f s; run in %s", bound, time.monotonic() - started, logdir)
    try:
        with progress:
            running.run(stopped)
    finally:
        running.close()
    if actors is not None and actors.failed is not None:
        print(f"seed_rl train: {actors.failed}", file=sys.stderr)
        return FAILURE
    counters = running.counters
    _log.info(
        "%d frames, %d updates; checkpoint and metrics in %s", counters.env_frames, counters.learner_updates, logdir
    )
    return stopped.exit_code
