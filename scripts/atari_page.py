"""The page of Atari games: tables of our scores beside published ones, and pictures, from `scripts/bench.sh atari`."""

import csv
import json
import math
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from benchmarks.atari import READINGS, SETS
from seed_rl.envs.atari import REFERENCES
from seed_rl.evaluation.plot import COLOURS, STYLE
from seed_rl.evaluation.statistics import Drawn, interquartile_mean, median, performance_profile
from seed_rl.settings import whole_number

ANCHORS = "dopamine.csv"  # published scores in Atari games
AGENTS = ("DQN", "Rainbow", "IQN")  # those in the tables of games and in pictures
OURS = "seed_rl"
PICTURES = {"profile": "Share of runs above each score", "curves": "Learning curves of all games"}
BELOW_RANDOM = -5.0  # percent: games with lower scores are listed
MAX_PROFILE = 300.0  # percent
COLUMNS = 6  # panels per row of a picture


class Scores(NamedTuple):
    """Mean returns over the last million frames before some number of environment frames.

    At the end of a run in which no episode ended in that time, the score is the mean return of greedy episodes.
    """

    frames: int
    ours: dict[str, list[float]]
    """Scores by game, one for each seed that has one."""
    anchors: dict[str, dict[str, list[float]]]
    """Scores by agent and game, five runs each; empty if none are published for this number of frames."""

    def normalised(self, agent: str) -> list[np.ndarray]:
        """Return scores in percent of human play, float [R], for each game with scores of all agents and ours."""
        common = set(self.ours).intersection(REFERENCES, *self.anchors.values())
        scores = self.ours if agent == OURS else self.anchors[agent]
        return [
            np.array([REFERENCES[game].normalise(score) for score in scores[game]])
            for game in sorted(common)
            if self.ours[game]
        ]


def part_of(part: str, data: pathlib.Path) -> str:
    """Return a part of the Atari page, as Markdown: `KIND NAME FRAMES`, and a set of games that are left out."""
    kind, name, frames, *left_out = part.split()
    out = {game for each in left_out for game in SETS[each]}
    records = [record for record in read_records(data / name) if record["result"]["game"] not in out]
    if not records:
        return "\nNo game has been run yet.\n\n"
    scores = scores_of(records, whole_number(frames), data)
    text = {"scores": _scores, "summary": _summary}[kind](records, scores, data / name)
    return text if not left_out else re.sub(r"!\[.*\n", "", text).rstrip() + "\n\n"  # pictures are of all games


def read_records(folder: pathlib.Path) -> list[dict[str, Any]]:
    """Read the reports recorded by `scripts/bench.sh atari`, ordered by game and seed."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*_seed=*.json"))]


def scores_of(records: Sequence[Mapping[str, Any]], frames: int, results: pathlib.Path) -> Scores:
    """Read our scores and the published ones after some number of frames."""
    ours: dict[str, list[float]] = {}
    for run in (record["result"] for record in records):
        found = [each["score"] for each in run["scores"] if each["frames"] == frames]
        if found == [None] and run["scores"][-1]["frames"] == frames:
            found = [_greedy(run)]
        ours.setdefault(run["game"], []).extend(score for score in found if score is not None)
    anchors: dict[str, dict[str, list[float]]] = {}
    with open(results / ANCHORS, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if float(row["million_frames"]) * 1e6 == frames:
                runs = anchors.setdefault(row["agent"], {}).setdefault(row["game"], [])
                runs.append(float(row["mean_training_return"]))
    return Scores(frames, ours, anchors)


def _greedy(run: Mapping[str, Any]) -> float | None:
    """Return the mean return of the greedy episodes after a run, if any have been played."""
    return found["mean"] if (found := run.get("greedy")) else None


def _scores(records: Sequence[Mapping[str, Any]], scores: Scores, folder: pathlib.Path) -> str:
    """Write the table of all games, with remarks, missing runs and the origin of the data."""
    runs = [record["result"] for record in records]
    agents = AGENTS if scores.anchors else ()
    rows, normalised = [], {}
    greedy = {_name(run): mean for run in runs if (mean := _greedy(run)) is not None}
    all_greedy = len(greedy) == len(runs)  # otherwise few: a note instead of a column
    for game, own in scores.ours.items():
        seeds = [run for run in runs if run["game"] == game]
        reference = REFERENCES.get(game)
        if own and reference:
            normalised[game] = reference.normalise(float(np.mean(own)))
        cells = [
            _mean(own),
            *(_mean(scores.anchors[agent].get(game, [])) for agent in agents),
            *(reference or (None, None)),
            normalised.get(game),
            float(np.mean([run["minutes"] for run in seeds])),
        ]
        if all_greedy:
            cells.insert(1, _mean([greedy[_name(run)] for run in seeds]))
        rows.append([game, *map(_number, cells)])
    heads = ["game", "ours", *["ours, greedy"] * all_greedy, *agents]
    heads += ["random", "human", "ours, % of human", "minutes"]
    notes = {
        "Mean returns of greedy episodes": [] if all_greedy else [f"{name} {_number(greedy[name])}" for name in greedy],
        f"Below random play by more than {-BELOW_RANDOM:g} % of human": [
            f"{game} ({score:.0f} %)" for game, score in normalised.items() if score < BELOW_RANDOM
        ],
        "Without an episode that ended in the last million frames": [
            _name(run) + ("" if _greedy(run) is None else ", with the score of greedy episodes")
            for run in runs
            if {"frames": scores.frames, "score": None, "episodes": 0} in run["scores"]
        ],
        "Failed": [f"{_name(run)}: {run['failure']}" for run in runs if "failure" in run],
        "Not run yet": [game for game in SETS.get(folder.name.partition("_")[0], ()) if game not in scores.ours],
    }
    hours = sum(run["minutes"] for run in runs) / 60
    lines = [f"- {head}: {', '.join(names)}." for head, names in notes.items() if names]
    about = f"Runs: {len(runs)}, {hours:.1f} hours of training."
    return "\n".join(["", *markdown(heads, rows), "", about, "", *lines, "", _origin(records), "", ""])


def _summary(records: Sequence[Mapping[str, Any]], scores: Scores, folder: pathlib.Path) -> str:
    """Write interquartile mean and median with intervals, over the games of all agents, and the pictures."""
    rows = []
    for agent in (OURS, *scores.anchors):
        own = scores.normalised(agent)
        if not own:
            return "\nNo game with published scores has been run yet.\n\n"
        found = [_interval(*statistic(own, _drawn(own))) for statistic in (interquartile_mean, median)]
        rows.append([agent, str(len(own)), str(sum(map(len, own))), *found])
    table = markdown(["", "games", "runs", "interquartile mean, %", "median, %"], rows)
    pictures = [
        f"![{title}]({folder.parent.name}/{folder.name}/{name}.png)\n"
        for name, title in PICTURES.items()
        if (folder / f"{name}.png").exists()
    ]
    return "\n".join(["", *table, "", *pictures, ""])


def _drawn(scores: Sequence[np.ndarray]) -> Drawn:
    return "runs" if min(map(len, scores)) > 1 else "tasks"


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _name(run: Mapping[str, Any]) -> str:
    return run["game"] if run["seed"] == 1 else f"{run['game']} seed {run['seed']}"


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    digits = 2 if abs(value) < 10 else 1 if abs(value) < 1000 else 0
    return f"{value:,.{digits}f}" if abs(value) < 1e7 else f"{value:.1e}"


def _interval(value: np.ndarray, low: np.ndarray, high: np.ndarray) -> str:
    return f"{value:.1f}" if np.isnan(low) else f"{value:.1f} ({low:.1f} to {high:.1f})"


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Format a table with all columns but the first right-aligned."""
    return [f"| {' | '.join(row)} |" for row in (heads, ["---", *["--:"] * (len(heads) - 1)], *rows)]


def _origin(records: Sequence[Mapping[str, Any]]) -> str:
    command = records[0]["command"].partition(" '--gin_param=Atari.game")[0]
    dates = sorted(record["date"][:10] for record in records)
    machines = sorted({f"{each['hardware']['cores']} cores of {each['hardware']['processor']}" for each in records})
    starts = [str(start["commit"]) for record in records for start in record["result"]["starts"]]
    commits = dict.fromkeys(re.sub(r"(?<=[0-9a-f]{9})[0-9a-f]+", "", commit) for commit in starts)
    when = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    return f"`{command}` with each game and seed; {when}, {', '.join(machines)}; at {', '.join(commits)}."


def draw(folder: pathlib.Path) -> None:
    """Draw the pictures of a folder's records, if there are any, at their largest number of frames."""
    records = read_records(folder)
    frames = max((each["frames"] for record in records for each in record["result"]["scores"]), default=0)
    if not frames:
        return
    colours = dict(zip((OURS, *AGENTS), COLOURS, strict=False))
    scores = [scores_of(records, each, folder.parent) for each in sorted({*READINGS, frames}) if each <= frames]
    with rc_context({**STYLE, "font.size": 8, "axes.titlesize": 8, "axes.titlepad": 3, "savefig.dpi": 110}):
        _draw_curves(folder, scores, colours)
        if scores[-1].anchors and scores[-1].normalised(OURS):
            _draw_profile(folder, scores[-1], colours)


def _draw_curves(folder: pathlib.Path, scores: Sequence[Scores], colours: Mapping[str, str]) -> None:
    """Draw a panel per game: seeds as lines, published means as points, random play as a dotted line."""
    games, millions = list(scores[-1].ours), scores[-1].frames / 1e6
    shape = math.ceil(len(games) / COLUMNS), min(COLUMNS, len(games))
    size = 1.7 * shape[1] + 0.4, 1.25 * shape[0] + 0.8
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(*shape, squeeze=False)
    for game, panel in zip(games, axes.flat, strict=False):
        for path in sorted(folder.glob(f"{game}_seed=*.csv")):
            with path.open(encoding="utf-8", newline="") as file:
                rows = [row for row in csv.DictReader(file) if row.get("episode_return")]
            x, y = ([float(row[name]) for row in rows] for name in ("env_frames", "episode_return"))
            panel.plot(np.divide(x, 1e6), y, color=colours[OURS], linewidth=1.1, label=f"{OURS}, mean of 100 episodes")
        for marker, agent in zip("osD", AGENTS, strict=True):
            published = {each.frames / 1e6: _mean(each.anchors.get(agent, {}).get(game, [])) for each in scores}
            points = [(x, mean) for x, mean in published.items() if mean is not None]
            if points:
                style = {"color": colours[agent], "markersize": 4, "label": agent, "clip_on": False, "zorder": 3}
                panel.plot(*zip(*points, strict=True), marker, **style)
        if game in REFERENCES:
            panel.axhline(REFERENCES[game].random, color="grey", linestyle=":", linewidth=0.9, label="random play")
        panel.set(title=game.replace("_", " ").title(), xlim=(0, millions), xticks=[0, millions / 2, millions])
        panel.xaxis.set_major_formatter("{x:g}")
        panel.yaxis.set_major_locator(MaxNLocator(3, min_n_ticks=2))
        panel.yaxis.set_major_formatter(EngFormatter(sep=""))
        panel.tick_params(labelsize=6.5, length=2, pad=1.5)
    for panel in axes.flat[len(games) :]:
        panel.set_axis_off()
    labelled = (zip(*panel.get_legend_handles_labels(), strict=True) for panel in axes.flat)
    handles = {label: handle for panel in labelled for handle, label in panel}
    columns = len(handles) if len(games) > COLUMNS // 2 else 1
    figure.legend(handles.values(), handles, loc="outside upper center", ncols=columns)
    figure.supxlabel("million environment frames", fontsize=8)
    figure.supylabel("return", fontsize=8)
    figure.savefig(folder / "curves.png")


def _draw_profile(folder: pathlib.Path, scores: Scores, colours: Mapping[str, str]) -> None:
    """Draw the share of runs above each human-normalised score, for our and published scores."""
    x = np.linspace(-10.0, MAX_PROFILE, 400)
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.subplots()
    for agent in (OURS, *AGENTS):
        own = scores.normalised(agent)
        share = performance_profile(own, x, _drawn(own))
        axes.step(x, share.value, color=colours[agent], label=agent)
        axes.fill_between(x, share.low, share.high, step="pre", color=colours[agent], alpha=0.15, linewidth=0)
    axes.set(xlabel="human-normalised score, %", ylabel="share of runs above", xlim=(-10, MAX_PROFILE), ylim=(0, 1.01))
    axes.legend(title=f"{len(scores.normalised(OURS))} games, {scores.frames / 1e6:g} million frames")
    figure.savefig(folder / "profile.png")
