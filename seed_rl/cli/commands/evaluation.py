"""The command that evaluates policies."""

import dataclasses
import os
import re
from typing import Any

from seed_rl.cli import flags
from seed_rl.cli.commands.policies import ACTING, HERE, POLICY, acting, place_of, usable_run
from seed_rl.cli.flags import command
from seed_rl.errors import Failure, UsageError
from seed_rl.system.files import explaining
from seed_rl.system.signals import Stop, signals
from seed_rl.weights import checkpoints


@command(
    "seed_rl eval --logdir=runs/pong --episodes=100 --greedy",
    *POLICY,
    *ACTING,
    flags.integer("episodes", 100, "Episodes to play, rounded up to whole games.", lower_bound=1),
    flags.integer("envs", 16, "Environments played in parallel.", lower_bound=1),
    flags.string("output", None, f"JSON file with every episode; default: evaluation.json {HERE}."),
    flags.OVERWRITE,
    flags.number("at_least", None, "Exit with code 1 if the mean return of a run is below this."),
    arguments="log directories, bundles or URLs of several runs, instead of --logdir.",
)
def evaluate(values: flags.FlagValues, *places: str) -> int:
    """Plays episodes with the policies of runs and prints their mean returns."""
    if places and (values.logdir or values.checkpoint not in (None, "best")):
        raise UsageError("give either log directories, possibly with --checkpoint=best, or --logdir and --checkpoint")
    if len(places) > 1 and values.output:
        raise UsageError("--output is for a single run; several runs write evaluation.json into their log directories")
    for place in places:
        if os.path.isdir(place):  # before others are played
            checkpoints.find(place, values.checkpoint)
    evaluations = []
    with signals() as stopped:
        for place in places or [place_of(values)]:
            if stopped.is_set():
                break
            name = "evaluation.json"
            if len(places) > 1 and not os.path.isdir(place):
                name = f"{re.sub('[/:]+', '-', place.removesuffix('.tar')).strip('-.')}.{name}"
            evaluations.append(_evaluate(values, place, name, stopped))
    if stopped.is_set():
        return stopped.exit_code
    if len(evaluations) > 1:
        from seed_rl.evaluation import episodes

        print(episodes.text_over_runs(evaluations))
    worst = min(evaluations, key=lambda evaluation: evaluation.mean)
    if values.at_least is not None and not worst.mean >= values.at_least:
        raise Failure(f"the mean return of {worst.logdir} is {worst.mean:g}, below --at_least={values.at_least:g}")
    return 0


def _evaluate(values: flags.FlagValues, place: str, name: str, stop: Stop) -> Any:
    """Evaluate a run; print the result, and write it unless the evaluation was interrupted."""
    with usable_run(values, place, name) as (logdir, (path,)):
        from seed_rl.evaluation import episodes

        how = acting(values)
        evaluation = episodes.evaluate_run(logdir, **how, episodes=values.episodes, num_envs=values.envs, stop=stop)
        if place != logdir:  # a bundle, for example, unpacked into a directory that others don't find
            checkpoint = os.path.basename(evaluation.checkpoint)
            evaluation = dataclasses.replace(evaluation, logdir=place, checkpoint=checkpoint)
        print(episodes.text(evaluation) if evaluation.episodes else "interrupted before an episode ended")
        if evaluation.episodes == evaluation.wanted_episodes:
            with explaining(UsageError, f"--output {path} can't be written"):
                episodes.write(evaluation, path)
            print(path)
    return evaluation
