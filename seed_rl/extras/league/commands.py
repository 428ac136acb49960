"""The command that lets policies play against each other."""

import contextlib
import csv
import glob
import importlib.util
import itertools
import os

from seed_rl.cli import flags
from seed_rl.cli.flags import command
from seed_rl.errors import UsageError
from seed_rl.system.native_output import load_tensorflow
from seed_rl.system.signals import signals
from seed_rl.weights import checkpoints
from seed_rl.weights.policy_sources import opening

_KINDS = "LOGDIR, LOGDIR@CHECKPOINT, `random` or MODULE:FUNCTION"


@command(
    "seed_rl tournament runs/chess runs/older_chess random --members=3",
    flags.integer("games", 100, "Games per pair of players.", lower_bound=1),
    flags.integer("members", 0, "Add this many evenly spread members of the first run's league.", lower_bound=0),
    flags.boolean("greedy", False, "Always take the greedy action."),
    flags.integer("seed", 1, "Seed of games and sampled actions.", lower_bound=0, upper_bound=2**31 - 1),
    flags.IMPORT_MODULE,
    arguments=f"players, each a {_KINDS}; the first is a run, which defines the game.",
)
def tournament(values: flags.FlagValues, *players: str) -> int:
    """Plays games of several players between policies, and rates these."""
    if importlib.util.find_spec("openskill") is None:
        raise UsageError("ratings need the package openskill: pip install openskill")
    if not players:
        raise UsageError(f"expected players ({_KINDS}), of which the first is a run, which defines the game")
    first = players[0].partition("@")[0]
    everyone = [*players, *_members(first, values.members)]
    if len(set(everyone)) < max(2, len(everyone)):
        raise UsageError(f"expected at least two different players, got {', '.join(everyone)}")
    with opening(first) as logdir:
        checkpoints.find(logdir, None)  # a mistake needs no TensorFlow
        load_tensorflow()
        from seed_rl.evaluation.policy import experiment_of
        from seed_rl.extras.league import matches

        game = experiment_of(logdir).env
    played = []
    with signals() as stopped:
        for pair in itertools.combinations(everyone, 2):
            match = matches.match(game, pair, values.games, values.seed, values.greedy, stopped)
            if stopped.is_set():
                break
            result = f"{match.wins} won, {match.draws} drawn, {match.losses} lost"
            print(f"{match.first} against {match.second}: {result}", flush=True)
            played.append(match)
    if played:
        print(f"\n{matches.text(played)}")
    return stopped.exit_code


def _members(logdir: str, count: int) -> list[str]:
    """Return players for `count` members of a run's league, the oldest and the newest among them."""
    directory = os.path.join(logdir, "league")
    found = sorted(glob.glob(os.path.join(glob.escape(directory), "member-*.npz")))
    with contextlib.suppress(FileNotFoundError), open(os.path.join(directory, "results.csv"), encoding="utf-8") as file:
        # The files of former members stay for a while.
        names = {f"member-{row['updates']:>012}.npz" for row in csv.DictReader(file)}
        found = [path for path in found if os.path.basename(path) in names]
    if len(found) < count:
        raise UsageError(f"--members={count}: the league in {directory} has {len(found)}")
    return [f"{logdir}@{found[number * (len(found) - 1) // max(1, count - 1)]}" for number in range(count)]
