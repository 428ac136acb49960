"""Scores in many Atari games, one run after another: the table of Machado et al. 2018 (arXiv:1709.06009).

The protocol is that of Dopamine's published runs: a frame repeats the previous action with probability 0.25, each
game uses its minimal action set, an action lasts four frames, episodes start without no-ops and are complete games (a
lost life does not end them) of at most 108,000 frames. The score is the mean return of the training episodes that ended
within the last million frames, taken after 5 and 10 million frames if the run is long enough, and at its end; for runs
below a million frames, of all episodes. There is no score if no episode ended in that time: with 64 environments, games
of 108,000 frames take 6.9 million frames to end.

The result also has the mean return of 16 episodes that the final policy plays greedily, the score of a game in which no
training episode ends; the largest mean return over 100 training episodes; the largest absolute mean value, at most 100
for rewards of at most 1 and a discount of 0.99; and the policy's smallest entropy, as a share of the maximum.

After a kill, the same command continues: it skips runs whose result (GAME_seed=N.json) and curve (.csv) are in the
directory of the JSON file, whatever has become of their log directories, and the others start from their checkpoints.
"""

import argparse
import itertools
import json
import math
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks import BenchmarkError, flags, report
from benchmarks.runs import BenchmarkRun, train_in_turn
from seed_rl.envs.atari import ATARI_57, REFERENCES, games
from seed_rl.experiment import config_files
from seed_rl.extras.studies.runs import Trial
from seed_rl.reporting import metrics
from seed_rl.reporting.text import columns

# fmt: off
SETS = {
    "atari57": ATARI_57,
    "atari5": ("battle_zone", "double_dunk", "name_this_game", "phoenix", "qbert"),
    "heldout": ("amidar", "bowling", "frostbite", "kung_fu_master", "riverraid"),
    "others": (
        "montezuma_revenge", "krull", "boxing", "pitfall", "atlantis", "space_invaders", "yars_revenge",
        "skiing", "road_runner", "time_pilot", "fishing_derby", "beam_rider", "chopper_command", "gopher",
        "seaquest", "jamesbond", "enduro", "solaris", "star_gunner", "wizard_of_wor", "kangaroo", "alien",
        "tutankham", "demon_attack", "ice_hockey", "up_n_down", "venture", "private_eye", "freeway", "tennis",
        "berzerk", "asteroids", "breakout", "robotank", "bank_heist", "zaxxon", "crazy_climber",
        "video_pinball", "hero", "ms_pacman", "asterix", "centipede", "gravitar", "pong", "assault",
    ),
}
# fmt: on
"""Named sets of games: those reported by papers, five that predict their median score (arXiv:2210.02019) and that
settings are chosen on, five that later choices may use, and the others for which there are published curves, in an
order that was drawn once, at random: however many of them are finished, they are a fair sample."""
PROTOCOL = (
    "Atari.sticky_actions=0.25",
    "Atari.full_action_set=False",
    "Atari.frame_skip=4",
    "Atari.max_noops=0",
    "Atari.max_episode_frames=108_000",
)
READINGS = (5_000_000, 10_000_000)  # environment frames
WINDOW = 1_000_000  # environment frames
GREEDY_EPISODES = 16
_LOGS = ("Logs.metrics_interval_s=2", "Logs.checkpoint_interval_s=60")
_VALUES = ("policy/mean_value", "q/value")

QUICK = {
    "games": "pong",
    "frames": "2k",
    "seeds": 1,
    "gin_param": ["VTrace.convolutions=((4, 8, 8),)", "Experiment.batch_size=8", "Atari.max_episode_frames=400"],
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--games", type=_games, default="atari57", help=f"names separated by commas, or a set: {', '.join(SETS)}"
    )
    parser.add_argument("--config", default="atari/vtrace_fast", help="name of a shipped gin file, or a path")
    parser.add_argument("--gin_param", action="append", default=[], help="gin binding for all runs; may be repeated")
    parser.add_argument("--seeds", type=flags.count, default=1, help="number of runs per game, seeded 1, 2, ...")
    parser.add_argument("--frames", type=flags.frames, default="5M", help="length of a run, e.g. 5M or 300k")
    parser.add_argument("--logdir", help="parent of the log directories; default: runs beside the JSON file")


def _games(text: str) -> list[str]:
    return list(SETS[text]) if text in SETS else flags.some_of(games())(text)


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Train the runs not recorded yet, and return the results of all runs."""
    directory = arguments.logdir or os.path.join(arguments.output, "runs")
    # The first seed of all games comes before any second seed. Mistakes are reported before the first run.
    wanted = itertools.product(range(1, arguments.seeds + 1), arguments.games)
    runs = [_Game(game, seed, directory, arguments) for seed, game in wanted]
    train_in_turn(runs)
    return {"runs": [dict(run.record["result"]) for run in runs]}


class _Game(BenchmarkRun):
    """A run of one game, recorded in the directory of results."""

    def __init__(self, game: str, seed: int, directory: str, arguments: argparse.Namespace):
        """Raise the same errors as `BenchmarkRun`, also for a record of another configuration."""
        bindings = [*PROTOCOL, *_LOGS, f"Experiment.total_frames={arguments.frames}", *arguments.gin_param]
        trial = Trial(f"{game}_seed={seed}", {"Atari.game": game, "Experiment.seed": str(seed)})
        super().__init__(arguments.config, bindings, trial, directory)
        self._game = game
        self._stem = os.path.join(arguments.output, trial.name)
        self._evaluation = os.path.join(self.logdir, "evaluation.json")
        self.record: dict[str, Any] = {}
        if os.path.exists(f"{self._stem}.json"):
            with open(f"{self._stem}.json", encoding="utf-8") as file:
                self.record = json.load(file)
            place = f"{self._stem}.json"
            found = config_files.differences(self.experiment, self.record["settings"], place)
            if found:
                raise BenchmarkError(f"{place} records another configuration: {'; '.join(found)}")

    def is_done(self) -> bool:
        result = self.record.get("result", {"failure": "it has not been run"})
        return "failure" not in result and result["frames"] >= self.experiment.total_frames

    def commands(self) -> list[list[str]]:
        """Return the command that trains the run, and one that plays greedy episodes."""
        counts = (f"--episodes={GREEDY_EPISODES}", f"--envs={GREEDY_EPISODES}")
        output = (f"--output={self._evaluation}", "--overwrite")
        return [*super().commands(), ["eval", f"--logdir={self.logdir}", "--greedy", *counts, *output]]

    def end(self, say: Callable[[str], None]) -> None:
        result = {
            "game": self._game,
            "seed": self.experiment.seed,
            **summary(self.rows(), self.experiment.total_frames),
            "greedy": self.greedy(),
            "starts": self.starts(),
            **({"failure": self.failure} if self.failure else {}),
        }
        content = report.report("atari", [], {}, result)
        del content["arguments"]
        # Added after rounding, because settings need all digits.
        command = shlex.join(["seed_rl", "train", *self.arguments])
        self.record = {**content, "command": command, "settings": self.experiment.to_json()}
        report.write_table(list(thinned(self.rows())), f"{self._stem}.csv", COLUMNS)
        report.write(f"{self._stem}.json", self.record)

    def greedy(self) -> dict[str, Any] | None:
        """Read the statistics of the greedy episodes, None if they have not been played."""
        if self.failure or not os.path.exists(self._evaluation):
            return None
        with open(self._evaluation, encoding="utf-8") as file:
            found = json.load(file)
        return {name: found[name] for name in ("episodes", "mean", "standard_error", "mean_length")}


def summary(rows: Sequence[Mapping[str, float]], total_frames: int) -> dict[str, Any]:
    """Summarise the metrics of a run: frames, minutes, scores (each a `reading`), and extremes, None without data."""
    full = [row["episode_return"] for row in rows if row["episodes"] >= metrics.RECENT_EPISODES]
    ends = sorted({total_frames, *(frames for frames in READINGS if frames < total_frames)})
    return {
        "frames": rows[-1]["env_frames"] if rows else 0,
        "minutes": rows[-1]["seconds"] / 60 if rows else 0.0,
        "scores": [reading(rows, frames) for frames in ends if rows and rows[-1]["env_frames"] >= frames],
        "best_return": max(full, default=None),
        **{name: _extremes(rows).get(name) for name in ("max_abs_value", "min_entropy_share")},
    }


def reading(rows: Sequence[Mapping[str, float]], frames: int) -> dict[str, Any]:
    """Compute the score at the first row with `frames` frames: the mean return of the episodes in the `WINDOW`.

    It is None without episodes. The window begins with a row, at most one interval of metrics early.
    """
    end = next(row for row in rows if row["env_frames"] >= frames)
    before = [row for row in rows if row["env_frames"] <= end["env_frames"] - WINDOW]
    start = before[-1] if before else {"episodes": 0, "total_return": 0.0}
    episodes = end["episodes"] - start["episodes"]
    score = (end["total_return"] - start["total_return"]) / episodes if episodes else None
    return {"frames": frames, "score": score, "episodes": episodes}


COLUMNS = ("env_frames", "seconds", "episodes", "total_return", "episode_return", "max_abs_value", "min_entropy_share")
"""Columns of the CSV files: metrics (docs/metrics.md), a mean value in units of learned returns, and a share."""


def thinned(rows: Sequence[Mapping[str, float]], most: int = 100) -> Iterator[dict[str, float]]:
    """Thin out a curve: keep the last row of each of equally many stretches of frames, with the stretch's extremes."""

    def stretch(row: Mapping[str, float]) -> int:
        return max(1, math.ceil(most * row["env_frames"] / max(1, rows[-1]["env_frames"])))

    for _, group in itertools.groupby(rows, stretch):
        own = list(group)
        yield {**own[-1], **_extremes(own)}


def _extremes(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    values = [abs(row[name]) for row in rows for name in _VALUES if name in row]
    shares = [row["learning/entropy_share"] for row in rows if "learning/entropy_share" in row]
    largest = {"max_abs_value": max(values)} if values else {}
    return {**largest, "min_entropy_share": min(shares)} if shares else largest


def table(result: dict[str, Any]) -> str:
    """Format a line per run (scores, the last also in percent of human play, extremes, minutes), then the failures."""
    runs = result["runs"]
    ends = sorted({each["frames"] for run in runs for each in run["scores"]})
    rows = []
    for run in runs:
        scores = {each["frames"]: each["score"] for each in run["scores"]}
        last = scores.get(max(scores, default=0))
        reference = REFERENCES.get(run["game"])
        cells = [
            *(scores.get(frames) for frames in ends),
            None if last is None or reference is None else reference.normalise(last),
            (run.get("greedy") or {}).get("mean"),
            *(run[name] for name in ("best_return", "max_abs_value", "min_entropy_share", "minutes")),
        ]
        rows.append([run["game"], str(run["seed"]), *map(report.number, cells)])
    heads = ["% of\nhuman", "greedy\nplay", "best\nof 100", "largest\n|value|", "least\nentropy", "minutes"]
    heads = ["game", "seed", *(f"score\n{frames / 1e6:g} M" for frames in ends), *heads]
    failures = [f"{run['game']} seed {run['seed']} failed: {run['failure']}" for run in runs if "failure" in run]
    return "\n".join([columns(heads, rows), *failures])
