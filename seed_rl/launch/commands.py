"""What each command of the command line does. TensorFlow is imported by those that need it only."""

from __future__ import annotations

import concurrent.futures
import contextlib
import fcntl
import importlib
import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import FrameType

from absl import flags

from seed_rl import experiment as experiments
from seed_rl.agents.config import CannotAct
from seed_rl.envs.registry import CannotBuild
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

_POLL_SECONDS = 0.1
_INSIST_SECONDS = 1.0  # a signal to a process group may arrive twice at once; that is not yet impatience


def train(values: flags.FlagValues) -> int:
    """Runs a learner in this process and actors in others."""
    experiment = _load_experiment(values)
    with contextlib.ExitStack() as cleanup:
        address = values.server_address
        if not address:
            # Not in the log directory: the path of a unix socket has 107 bytes at the most.
            directory = tempfile.mkdtemp(prefix="seed_rl-")
            cleanup.callback(shutil.rmtree, directory, ignore_errors=True)
            address = f"unix:{directory}/learner.sock"
        security = _server_security(values, address)
        logdir = cleanup.enter_context(_run_directory(values, experiment))
        stopped = cleanup.enter_context(_signals())
        actors = LocalActors(
            _actor_arguments(values, experiment),
            experiment.actors.num_actors,
            os.path.join(logdir, "actors"),
            on_failure=stopped.set,
        )
        cleanup.callback(actors.stop)
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
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise UsageError(f"--import_module={module}: {error}") from error
    sizes = Sizes(values.num_groups, values.envs_per_group)
    try:
        security = ClientSecurity(values.tls_ca, read_token(values.token_file), values.insecure, values.tls_server_name)
        security.check(parse_address(values.server_address))
        security.credentials()
    except (AddressError, SecurityError) as error:
        raise UsageError(str(error)) from error
    running = Actor(lambda: LearnerClient(values.server_address, security), sizes)
    _log.info("looking for a learner at %s", values.server_address)
    with _signals() as stopped, ThreadPoolExecutor(1, thread_name_prefix="actor") as pool:
        if values.exit_with_parent:
            threading.Thread(target=_set_at_end_of_input, args=(stopped,), daemon=True).start()
        run = pool.submit(running.run)
        # The main thread only waits: a signal that arrives while it holds a lock would be handled under that lock.
        while not run.done():
            concurrent.futures.wait([run], timeout=_POLL_SECONDS)
            if stopped.is_set():
                running.stop()
        try:
            run.result()
        except (Rejected, CannotBuild) as error:
            print(f"seed_rl actor: {error}", file=sys.stderr)
            return FAILURE
        return stopped.exit_code


def evaluate(values: flags.FlagValues) -> int:
    """Plays episodes with a run's policy."""
    if not values.logdir:
        raise UsageError("--logdir is needed: the log directory of a run")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from seed_rl.evaluation.policy import NoPolicy
    from seed_rl.evaluation.report import evaluate_run, text, write

    path = values.output or os.path.join(values.logdir, "evaluation.json")
    try:
        evaluation = evaluate_run(
            values.logdir, values.checkpoint, values.episodes, values.envs, values.greedy, values.seed
        )
        write(evaluation, path)
    except (NoPolicy, CannotBuild) as error:
        raise UsageError(str(error)) from error
    except OSError as error:
        raise UsageError(f"--output {path} can't be written: {error.strerror}") from error
    print(text(evaluation))
    print(path)
    return 0


def play(values: flags.FlagValues) -> int:
    """Films episodes of a run's policy."""
    if not values.logdir:
        raise UsageError("--logdir is needed: the log directory of a run")
    paths = values.output or [os.path.join(values.logdir, f"play.{ending}") for ending in ("mp4", "gif")]
    for path in paths:
        if os.path.splitext(path)[1] not in (".mp4", ".gif"):
            raise UsageError(f"--output takes files that end in .mp4 or .gif, got {path}")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from seed_rl.evaluation.film import film
    from seed_rl.evaluation.policy import NoPolicy, experiment_of, load_policy

    try:
        policy = load_policy(values.logdir, values.checkpoint, values.greedy, values.seed)
        env = experiment_of(values.logdir).env.watch()
    except (NoPolicy, CannotBuild) as error:
        raise UsageError(str(error)) from error
    try:
        played = film(policy, env, values.episodes, values.seed, paths, values.fps)
    except OSError as error:
        raise UsageError(f"--output {','.join(paths)} can't be written: {error}") from error
    finally:
        env.close()
    print(f"returns: {', '.join(f'{value:g}' for value in played.returns)}")
    print("\n".join(paths))
    return 0


def sweep(values: flags.FlagValues) -> int:
    """Trains with every combination of settings and seeds."""
    from seed_rl.launch.sweep import BadGrid, Sweep, trials

    try:
        wanted = trials(values.grid, [int(seed) for seed in values.seeds])
    except BadGrid as error:
        raise UsageError(str(error)) from error
    except ValueError as error:
        raise UsageError(f"--seeds takes whole numbers, got {','.join(values.seeds)}") from error
    if not values.gin_file:
        raise UsageError(f"--gin_file is needed, one of {', '.join(experiments.shipped_configs())} or a path")
    shared = [f"--gin_file={name}" for name in values.gin_file] + [f"--gin_param={b}" for b in values.gin_param]
    if values.total_frames is not None:
        shared.append(f"--total_frames={values.total_frames}")
    for trial in wanted:  # a mistake is told before the first run
        experiments.load(values.gin_file, [*values.gin_param, *trial.bindings])
    directory = values.logdir or os.path.join("runs", f"sweep_{_name_of(values.gin_file)}")
    try:
        os.makedirs(directory, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--logdir {directory} can't be used: {error.strerror}") from error
    running = Sweep(wanted, shared, directory, values.parallel)
    print(f"{len(wanted)} runs, {values.parallel} at a time, in {directory}")
    with _signals() as stopped:
        code = running.run(stopped.is_set, lambda text: print(f"{time.strftime('%H:%M:%S')} {text}", flush=True))
    print(running.table())
    print(running.write_results())
    return stopped.exit_code or code


def configs(values: flags.FlagValues) -> int:
    """Lists the shipped experiments."""
    names = experiments.shipped_configs()
    widest = max(map(len, names))
    for name in names:
        print(f"{name:{widest}}  {experiments.summary(name)}")
    return 0


def doctor(values: flags.FlagValues) -> int:
    """Checks the installation; the exit code is 1 if nothing will work."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from seed_rl.launch.doctor import BROKEN, examine

    findings = examine()
    widest = max(len(finding.what) for finding in findings)
    for finding in findings:
        print(f"{finding.state:8} {finding.what:{widest}}  {finding.text}")
    return FAILURE if any(finding.state == BROKEN for finding in findings) else 0


def plot(values: flags.FlagValues, *places: str) -> int:
    """Draws learning curves."""
    from seed_rl.launch.plot import NoCurve, plot_curves

    if not places:
        raise UsageError("name at least one log directory")
    try:
        plot_curves(places, values.output, values.x)
    except (NoCurve, OSError, ValueError) as error:  # ValueError: an ending that matplotlib doesn't know
        raise UsageError(str(error)) from error
    print("\n".join(values.output))
    return 0


def bench(arguments: Sequence[str]) -> int:
    """Runs benchmarks."""
    from seed_rl.bench.command import BadArguments, run

    try:
        return run(arguments)
    except BadArguments as error:
        raise UsageError(str(error)) from error


class _Stopped:
    """Whether a run is to end: set by the first SIGINT or SIGTERM, or by what makes it pointless to go on.

    A plain flag and not an Event, whose lock the main thread may hold when the signal arrives.
    """

    def __init__(self):
        self.exit_code = 0
        self._set = False
        self._signalled_at: float | None = None

    def is_set(self) -> bool:
        """Whether to end."""
        return self._set

    def set(self) -> None:
        """Asks to end."""
        self._set = True

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Handles a signal: the first asks, another one after a second or more insists."""
        now = time.monotonic()
        if self._signalled_at is not None and now - self._signalled_at > _INSIST_SECONDS:
            os._exit(128 + number)  # the actors end with this process
        if self._signalled_at is None:
            self._signalled_at = now
        self.exit_code = 128 + number
        self._set = True


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


def _set_at_end_of_input(stopped: _Stopped) -> None:
    while os.read(0, 1024):  # not through sys.stdin, whose lock a thread that waits would keep at exit
        pass
    stopped.set()


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


def _actor_arguments(values: flags.FlagValues, experiment: Experiment) -> list[str]:
    arguments = [f"--log_level={values.log_level}", f"--import_module={type(experiment.env).__module__}"]
    if values.tls_cert:
        arguments.append(f"--tls_ca={values.tls_cert}")
    if values.tls_server_name:
        arguments.append(f"--tls_server_name={values.tls_server_name}")
    if values.token_file:
        arguments.append(f"--token_file={values.token_file}")
    if values.insecure:
        arguments.append("--insecure")
    return arguments


def _name_of(gin_files: Sequence[str]) -> str:
    return os.path.splitext(gin_files[-1])[0].strip("./").replace("/", "_")


class _LogFile(logging.FileHandler):
    """A log that a full disk may cut short: the terminal has it too, and no traceback for each line that is missing."""

    def handleError(self, record: logging.LogRecord) -> None:
        pass


@contextlib.contextmanager
def _run_directory(values: flags.FlagValues, experiment: Experiment) -> Iterator[str]:
    """The log directory, locked against other learners, with what is logged going there too."""
    logdir = values.logdir or os.path.join("runs", _name_of(values.gin_file))
    found = experiments.differences_from_saved(experiment, logdir)
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
        handler = _LogFile(os.path.join(logdir, "learner.log"))
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
    _log.info("run in %s; loading TensorFlow", logdir)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # what matters of it comes as exceptions
    from seed_rl.buffers.placement import DoesNotFit
    from seed_rl.learner.checkpoints import CheckpointError
    from seed_rl.learner.diverged import Diverged
    from seed_rl.learner.learner import Learner

    with Progress(experiment.total_frames, logdir) as progress:
        try:
            running = Learner(experiment, logdir, address, security, progress.show)
            if running.finished:
                _log.info(
                    "the run in %s is finished: %d frames of %d; more --total_frames would continue it",
                    logdir,
                    running.counters.env_frames,
                    experiment.total_frames,
                )
                return 0
            bound = running.listen()
        except (CannotAct, CannotBuild, CheckpointError, DoesNotFit) as error:
            raise ConfigError(str(error)) from error
        except AddressError as error:
            raise UsageError(str(error)) from error
        if running.restored_from:
            _log.info("continuing from %s at %d frames", running.restored_from, running.counters.env_frames)
        if actors is not None:
            actors.start([f"--server_address={bound}"])
        _log.info("serving actors at %s after %.1f s", bound, time.monotonic() - started)
        try:
            running.run(stopped)
        except Diverged as error:
            print(
                f"seed_rl: training has diverged: {error}. A smaller Optimizer.learning_rate or Optimizer.clip_norm "
                f"may help; the last checkpoint in {logdir} is from before",
                file=sys.stderr,
            )
            return FAILURE
        finally:
            running.close()
    if actors is not None and actors.failed is not None:
        print(f"seed_rl train: {actors.failed}", file=sys.stderr)
        return FAILURE
    frames, updates = running.counters.env_frames, running.counters.learner_updates
    _log.info("%d frames, %d updates; checkpoints and metrics in %s", frames, updates, logdir)
    return stopped.exit_code
