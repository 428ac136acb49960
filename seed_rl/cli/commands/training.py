"""Commands that train an experiment."""

import contextlib
import math
import sys
import threading
from collections.abc import Mapping

from seed_rl.cli import flags
from seed_rl.cli.command import Failure, UsageError, command, run_options
from seed_rl.cli.commands.experiment import EXPERIMENT, FILES, add_files, continue_run, load, logdir_of
from seed_rl.cli.display import RunDisplay
from seed_rl.experiment import Experiment
from seed_rl.learner.hosts import NOT_SECURED, HostLost, Hosts, find_hosts
from seed_rl.reporting.learning import Diverged
from seed_rl.reporting.metrics import settled_return
from seed_rl.reporting.text import counted, duration
from seed_rl.runs.auto_actors import with_actors
from seed_rl.runs.fleet import ActorFailed
from seed_rl.runs.run import ELSEWHERE, PROCESSES, Run, check_run
from seed_rl.system.files import explained
from seed_rl.system.signals import StopFlag, signals, stop_at_end_of_input
from seed_rl.weights.checkpoints import CheckpointError

OPTIONS = run_options()
_FAILURES = (ActorFailed, CheckpointError, HostLost)
_RUN = flags.group(
    "the run",
    flags.directory("logdir", "Where to store or continue it; default: runs/<gin file>."),
    flags.integer("seed", None, "Overrides Experiment.seed."),
    flags.integer("num_actors", None, "Overrides Actors.num_actors; auto: chosen here.", auto=True),
    flags.string("init_from", None, "Log directory or checkpoint to start a new run from."),
    flags.number("target_return", None, "End at this mean return; exit code 1 without it."),
    flags.number("max_minutes", None, "End after this time, with a checkpoint.", 0.0),
    flags.choice("accelerator", None, ["gpu", "tpu"], "End at once without one."),
    flags.boolean("quiet", False, "Show only warnings and errors."),
    *(option.flags for option in OPTIONS),
)
_RAY = flags.group(
    "Ray",
    flags.choice("launcher", "local", ["local", "ray"], "What starts the processes."),
    flags.string("ray_address", "", "host:port; default: RAY_ADDRESS, or a cluster here."),
    flags.alias("address", "ray_address"),
    flags.integer("min_actors", 1, "End if fewer are there for five minutes.", lower_bound=1),
    flags.number("actor_cpus", 1.0, "CPUs that Ray reserves per actor.", lower_bound=0.0),
    flags.integer("num_learners", 1, "Learner hosts, each on its own node.", lower_bound=1),
)


def _machines(address: str, text: str) -> flags.Flag:
    return flags.group(
        "several machines",
        flags.string("server_address", address, text),
        flags.comma_separated("learner_hosts", [], "host:port of each learner, or TF_CONFIG."),
        flags.integer("learner_host", None, "Index of this one; default: JOB_COMPLETION_INDEX."),
        flags.boolean("trusted_network", False, "Trust all machines that reach them."),
    )


@command(
    "seed_rl train --gin_file=atari/vtrace_pong --logdir=runs/pong",
    EXPERIMENT,
    _RUN,
    flags.SECURITY,
    flags.group("security", flags.TLS_SERVER_NAME),
    _machines("", "Address for actors; default: a unix socket."),
    _RAY,
    flags.EXIT_WITH_PARENT,
    arguments=FILES,
    failures=_FAILURES,
)
def train(values: flags.FlagValues, *files: str) -> int:
    """Trains with a learner and its actors, on this machine or a Ray cluster."""
    add_files(values, files)
    continue_run(values)
    experiment = load(values)
    if values.num_actors == flags.AUTO:
        if values.launcher != "local":
            raise UsageError("--num_actors=auto is for actors on this machine")
        experiment = with_actors(experiment)
    if values.launcher == "ray":
        if values.num_learners > 1:
            if values.learner_hosts:
                raise UsageError("--num_learners starts all learner hosts, and --learner_hosts names them: give one")
            if not values.trusted_network:
                raise UsageError(f"--num_learners={values.num_learners} needs --trusted_network: {NOT_SECURED}")
            check_run(experiment, values.num_learners)
        return _train_on_ray(values, experiment)
    for flag in ("ray_address", "min_actors", "actor_cpus", "num_learners"):
        if values[flag].present:
            raise UsageError(f"--{flag} needs --launcher=ray")
    return _train(values, _new_run(values, experiment, PROCESSES))


@command(
    "seed_rl learner --gin_file=catch/vtrace --server_address=localhost:8686",
    EXPERIMENT,
    _RUN,
    flags.SECURITY,
    _machines(flags.DEFAULT_TCP_ADDRESS, "host:port or unix:/path for actors."),
    arguments=FILES,
    failures=_FAILURES,
)
def learner(values: flags.FlagValues, *files: str) -> int:
    """Runs a learner that waits for actors."""
    add_files(values, files)
    continue_run(values)
    if values.num_actors == flags.AUTO:
        raise UsageError("--num_actors=auto is for `seed_rl train`, whose actors are on this machine")
    return _train(values, _new_run(values, load(values), ELSEWHERE))


def _new_run(values: flags.FlagValues, experiment: Experiment, actors: str) -> Run:
    return Run(
        experiment,
        logdir_of(values),
        actors=actors,
        address=values.server_address,
        security=flags.server_security(values, values.server_address),
        actor_arguments=_actor_arguments(values) if actors == PROCESSES else (),
        native_log=True,
        accelerator=values.accelerator or "",
        hosts=_hosts(values),
    )


def _hosts(values: flags.FlagValues) -> Hosts:
    with explained(UsageError, "--learner_hosts", ValueError):
        return find_hosts(values.learner_hosts, values.learner_host, values.trusted_network)


def _actor_arguments(values: flags.FlagValues) -> list[str]:
    arguments = {
        "log_level": values.log_level,
        "tls_ca": values.tls_cert,
        "tls_server_name": values.tls_server_name,
        "token_file": values.token_file,
    }
    given = [f"--{flag}={value}" for flag, value in arguments.items() if value]
    return [*given, "--insecure"] if values.insecure else given


def _train_on_ray(values: flags.FlagValues, experiment: Experiment) -> int:
    try:
        from seed_rl.runs.ray.cluster import NoCluster
        from seed_rl.runs.ray.run import ray_run
    except ModuleNotFoundError as error:
        if error.name not in ("ray", "cryptography"):
            raise
        raise UsageError("--launcher=ray needs Ray: pip install 'ray[default]' cryptography") from error
    security = flags.server_security(values, "localhost:0")  # loopback needs no credentials: checks only those given
    try:
        with ray_run(values, experiment, logdir_of(values), security, _hosts(values)) as run:
            return _train(values, run)
    except NoCluster as error:
        raise Failure(str(error)) from error


def _train(values: flags.FlagValues, run: Run) -> int:
    with contextlib.ExitStack() as options:
        for option in OPTIONS:
            options.enter_context(option.apply(values, run))
        return _train_open(values, run)


def _train_open(values: flags.FlagValues, run: Run) -> int:
    try:
        with (
            signals() as stopped,
            run,
            RunDisplay(run.experiment, run.logdir, values.quiet) as progress,  # after `run` has replaced standard error
            contextlib.closing(run.train(stopped)) as rows,
        ):
            if "exit_with_parent" in values and values.exit_with_parent:
                stop_at_end_of_input(stopped)
            replay = run.experiment.replay
            # Several hosts must leave together, and a replay that gets saved may have taken an hour to fill.
            if run.hosts.count == 1 and not (replay and replay.snapshot):
                stopped.raises, run.on_update = True, stopped.asks
            if values.max_minutes is not None:
                _stop_after(60 * values.max_minutes, stopped)
            reached, best, row = False, -math.inf, {}
            for row in rows:
                progress.show(row)
                best = max(best, settled_return(row, run.experiment.score))
                if not reached and values.target_return is not None and best >= values.target_return:
                    reached = True
                    stopped.set()
        if stopped.exit_code and not stopped.raised:
            print(f"seed_rl: stopped; the same command continues the run in {run.logdir}", file=sys.stderr)
        elif reached:
            print(f"seed_rl: a mean return of {best:g} is reached", file=sys.stderr)
        if stopped.raised:
            print("seed_rl: interrupted before the first update", file=sys.stderr)
        elif values.target_return is not None and not reached and not stopped.exit_code:
            how_far = _how_far(row, run.experiment.score, best)
            raise Failure(f"--target_return={values.target_return:g} was not reached: {how_far}")
        return stopped.exit_code
    except Diverged as error:
        raise Failure(
            f"training has diverged: {error}. Usually weights or rewards have become too large: try clipped rewards or "
            "a smaller Optimizer.learning_rate or Optimizer.clip_norm. The last checkpoint in "
            f"{run.logdir} predates the divergence"
        ) from error


def _stop_after(seconds: float, stopped: StopFlag) -> None:
    timer = threading.Timer(seconds, stopped.set)
    timer.daemon = True
    timer.start()


def _how_far(row: Mapping[str, float], metric: str, best: float) -> str:
    """Describe the best mean return of a run, given its last row, which may be empty, and the metric that counts."""
    after = f"after {row.get('env_frames', 0):,.0f} frames and {duration(row.get('seconds', 0.0))}"
    if best == -math.inf:
        name, kind = ("episodes", "") if metric == "episode_return" else ("eval/episodes", "evaluation ")
        ended = counted(int(row.get(name, 0)), f"{kind}episode")
        return f"{after}, {ended} had ended, too few for a mean return"
    return f"{after}, the best mean return is {best:g}"
