"""The command that trains with several settings."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from seed_rl.cli import flags
from seed_rl.cli.commands.experiment import EXPERIMENT, FILES, add_files, load, logdir_of
from seed_rl.cli.flags import command
from seed_rl.errors import UsageError
from seed_rl.system.signals import signals

if TYPE_CHECKING:
    from seed_rl.extras.studies.sweep import Study


@command(
    "seed_rl sweep --gin_file=catch/vtrace --grid=VTrace.hidden=32,64",
    EXPERIMENT,
    flags.repeated("grid", [], "Setting and the values to try: NAME=VALUE,VALUE. May be repeated."),
    flags.comma_separated("seeds", ["1"], "Number of runs per combination, seeded 1, 2, ...; or a list of seeds: 4,7."),
    flags.integer("parallel", 1, "Number of runs to train in parallel.", lower_bound=1),
    flags.repeated("search", [], "Setting to search with Optuna: NAME=LOW..HIGH or NAME=VALUE,VALUE. May be repeated."),
    flags.integer("trials", 20, "Number of trials in a search.", lower_bound=1),
    flags.number("prune_after", 0.2, "Share of frames before which no trial is pruned; 1: none is.", lower_bound=0.0),
    flags.string("logdir", None, "Parent of the runs; default: runs/sweep_<gin file> or runs/search_<gin file>."),
    arguments=FILES,
)
def sweep(values: flags.FlagValues, *files: str) -> int:
    """Trains combinations of settings and seeds, or searches for the best."""
    add_files(values, files)
    for flag in ("grid", "seeds", "parallel") if values.search else ("trials", "prune_after"):
        if values[flag].present:
            conflict = "can't be combined with" if values.search else "needs"
            raise UsageError(f"--{flag} {conflict} --search")
    if "://" in (values.logdir or ""):
        others = "only `seed_rl train` supports object stores"
        raise UsageError(f"--logdir of a sweep must be a local directory, got {values.logdir}; {others}")
    if values.total_frames is not None and "Experiment.total_frames" in _names(values.grid, values.search):
        raise UsageError("give either --total_frames or values of Experiment.total_frames to try")
    return _search(values) if values.search else _run(_sweep(values))


def _names(*bindings: Sequence[str]) -> set[str]:
    """Return the settings that some NAME=VALUE are about."""
    return {text.partition("=")[0].strip() for texts in bindings for text in texts}


def _run(running: Study) -> int:
    with signals() as stopped:
        code = running.run(stopped.is_set, lambda text: print(f"{time.strftime('%H:%M:%S')} {text}", flush=True))
    print(running.table())
    print(running.write_results())
    return stopped.exit_code or code


def _sweep(values: flags.FlagValues) -> Study:
    from seed_rl.extras.studies.sweep import Sweep, seeds_of, trials

    if "Experiment.seed" in _names(values.grid, values.gin_param):
        raise UsageError("the seeds of a sweep are given by --seeds, not by Experiment.seed")
    wanted = trials(values.grid, seeds_of(values.seeds))
    for trial in wanted:  # report mistakes before the first run
        load(values, *trial.bindings)
    return Sweep(wanted, _arguments(values), logdir_of(values, "sweep_"), values.parallel)


def _search(values: flags.FlagValues) -> int:
    if importlib.util.find_spec("optuna") is None:
        raise UsageError("--search needs Optuna: pip install optuna")
    from seed_rl.extras.studies.search import Search, extremes, read_space

    experiment = load(values)
    for binding in extremes(read_space(values.search)):  # report mistakes before the first trial
        load(values, binding)
    directory = logdir_of(values, "search_")
    search = Search(values.search, _arguments(values), directory, experiment, values.trials, values.prune_after)
    code = _run(search)
    if best := search.best_command():
        print(best)
    return code


def _arguments(values: flags.FlagValues) -> list[str]:
    arguments = [f"--gin_file={name}" for name in values.gin_file] + [f"--gin_param={b}" for b in values.gin_param]
    given = {flag: values[flag].value for flag in ("agent", "total_frames")}
    return [*arguments, *(f"--{flag}={value}" for flag, value in given.items() if value is not None)]
