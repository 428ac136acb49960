"""Commands that train an experiment."""

import contextlib
import math
import sys
import threading

from seed_rl.cli import flags
from seed_rl.cli.commands.experiment import EXPERIMENT, FILES, add_files, load_or_continue, logdir_of
from seed_rl.cli.display import RunDisplay
from seed_rl.cli.flags import RUN_OPTIONS, RunOption, command
from seed_rl.errors import Failure, UsageError
from seed_rl.experiment import Experiment
from seed_rl.reporting.metrics import settled_return
from seed_rl.reporting.text import duration, quantity
from seed_rl.runs.auto_actors import with_actors
from seed_rl.runs.fleet import ELSEWHERE, PROCESSES
from seed_rl.runs.run import Run
from seed_rl.system.entry_points import declarations
from seed_rl.system.signals import signals, stop_with_parent

OPTIONS: list[RunOption] = [entry.load() for entry in declarations(RUN_OPTIONS)]
_RUN = flags.group(
    "the run",
    flags.string("logdir", None, "Where to store or continue it; default: runs/<gin file>."),
    flags.integer("seed", None, "Override Experiment.seed."),
    flags.integer("num_actors", None, "Override Actors.num_actors; auto: choose it here.", auto=True),
    flags.string("init_from", None, "Log directory or checkpoint to start a new run from."),
    flags.number("target_return", None, "End the run at this mean return, and fail without it."),
    flags.number("max_minutes", None, "End the run after this time, with a checkpoint.", lower_bound=0.0),
    flags.choice("accelerator", None, ["gpu", "tpu"], "Fail at once if TensorFlow finds none."),
    flags.boolean("quiet", False, "Show only warnings and errors."),
    flags.IMPORT_MODULE,
    *(option.flags for option in OPTIONS),
)


@command(
    "seed_rl train --gin_file=atari/vtrace_pong --logdir=runs/pong",
    EXPERIMENT,
    _RUN,
    flags.SECURITY,
    flags.group("security", flags.TLS_SERVER_NAME),
    flags.group("several machines", flags.string("server_address", "", "Address for actors; default: a unix socket.")),
    flags.EXIT_WITH_PARENT,
    arguments=FILES,
)
def train(values: flags.FlagValues, *files: str) -> int:
    """Trains with a learner and its actors."""
    add_files(values, files)
    experiment = load_or_continue(values)
    if values.num_actors == flags.AUTO:
        experiment = with_actors(experiment)
    return _train(values, _new_run(values, experiment, PROCESSES))


@command(
    "seed_rl learner --gin_file=catch/vtrace --server_address=localhost:8686",
    EXPERIMENT,
    _RUN,
    flags.SECURITY,
    flags.group("several machines", flags.string("server_address", flags.DEFAULT_TCP_ADDRESS, "Address for actors.")),
    arguments=FILES,
)
def learner(values: flags.FlagValues, *files: str) -> int:
    """Runs a learner that waits for actors."""
    add_files(values, files)
    if values.num_actors == flags.AUTO:
        raise UsageError("--num_actors=auto is for `seed_rl train`, whose actors are on this machine")
    return _train(values, _new_run(values, load_or_continue(values), ELSEWHERE))


def _new_run(values: flags.FlagValues, experiment: Experiment, actors: str) -> Run:
    of_actors = {
        "log_level": values.log_level,
        "tls_ca": values.tls_cert,
        "tls_cert": values.tls_client_ca and values.tls_cert,
        "tls_key": values.tls_client_ca and values.tls_key,
        "tls_server_name": "tls_server_name" in values and values.tls_server_name,
        "token_file": values.token_file,
        "insecure": values.insecure,
    }
    return Run(
        experiment,
        logdir_of(values),
        actors=actors,
        address=values.server_address,
        security=flags.server_security(values, values.server_address),
        actor_arguments=[f"--{flag}={value}" for flag, value in of_actors.items() if value],
        native_log=True,
        accelerator=values.accelerator or "",
    )


def _train(values: flags.FlagValues, run: Run) -> int:
    best, row = -math.inf, dict[str, float]()
    with contextlib.ExitStack() as stack:
        for option in OPTIONS:
            stack.enter_context(option.apply(values, run))
        stopped = stack.enter_context(signals())
        # The first of several learners decides. No comparison with nan is true.
        target = math.nan if values.target_return is None or run.index else values.target_return
        replay = run.experiment.replay
        # Several learners must leave together, and a replay that gets saved may have taken an hour to fill.
        if run.learners == 1 and not (replay and replay.snapshot):
            stopped.raises, run.on_update = True, stopped.asks
        if "exit_with_parent" in values and values.exit_with_parent:
            stop_with_parent(stopped)
        stack.enter_context(run)
        # Opened here, it uses the error stream of `run`.
        progress = stack.enter_context(RunDisplay(run.experiment, run.logdir))
        if values.max_minutes is not None:
            timer = threading.Timer(min(60 * values.max_minutes, threading.TIMEOUT_MAX), stopped.set)
            timer.daemon = True
            timer.start()
        for row in run.train(stopped):
            if not values.quiet:
                progress.show(row)
            best = max(best, settled_return(row, run.experiment.score, run.experiment.num_scored_envs))
            if best >= target:
                stopped.set()
    if stopped.raised:
        _say("interrupted before the first update")
    elif stopped.exit_code:
        _say(f"stopped; the same command continues the run in {run.logdir}")
    elif best >= target:
        _say(f"a mean return of {best:g} is reached")
    elif not math.isnan(target):
        prefix = run.experiment.score.removesuffix("episode_return")
        if not row:
            why = "the run was over before it wrote any metrics"
        elif best == -math.inf:
            ended = quantity(int(row.get(f"{prefix}episodes", 0)), "evaluation episode" if prefix else "episode")
            why = f"{ended} had ended, too few for a mean return"
        else:
            why = f"the best mean return is {best:g}"
        after = f"after {row['env_frames']:,.0f} frames and {duration(row['seconds'])}, " if row else ""
        raise Failure(f"--target_return={target:g} was not reached: {after}{why}")
    return stopped.exit_code


def _say(sentence: str) -> None:
    with contextlib.suppress(OSError):  # of a terminal that is gone, a full disk
        print(f"seed_rl: {sentence}", file=sys.stderr)
