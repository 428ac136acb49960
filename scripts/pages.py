#!/usr/bin/env python3
"""Records runs, and writes the parts of pages that are made from records.

    scripts/pages.py                                         # writes all pages
    scripts/pages.py --check                                 # writes nothing, fails if a page is out of date
    scripts/pages.py --pictures                              # draws those of docs/results/atari.md first
    scripts/pages.py --record LOGDIR DESTINATION COMMAND     # first records a finished run, which COMMAND has trained

A part is the block between `<!-- KIND: NAME -->` and `<!-- end -->`; the rest of a page is not touched:

    table: NAME                of a benchmark, from NAME.json, which `scripts/bench.sh` wrote
    atari: PART FOLDER FRAMES  `scores` or `summary` of the runs of `scripts/bench.sh atari` in a folder of
                               docs/results/atari, whose name begins with the set of games, after a number of frames
    run: NAME                  a recorded run, from the folder NAME
    policies: all              the pretrained policies
    quantities: NAME           differences from the original, from NAME.json, which `scripts/golden.py` wrote
"""

import argparse
import csv
import importlib
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # for `benchmarks`, not installed

import numpy as np
from matplotlib import pyplot
from matplotlib.ticker import EngFormatter, MaxNLocator

from benchmarks.atari import READINGS, SETS
from benchmarks.report import write_table
from seed_rl.envs.atari import REFERENCES
from seed_rl.evaluation.plot import COLOURS, STYLE, plot_curves
from seed_rl.evaluation.statistics import Drawn, interquartile_mean, median, performance_profile
from seed_rl.extras.sharing import pretrained
from seed_rl.reporting import metrics
from seed_rl.settings import whole_number
from seed_rl.system.machine import described

DOCS = pathlib.Path(__file__).resolve().parents[1] / "docs"
PAGES = {
    DOCS / "performance.md": DOCS / "results" / "performance",
    DOCS / "benchmarks.md": DOCS / "results" / "performance",
    DOCS / "planning.md": DOCS / "results" / "performance",
    DOCS / "results" / "time_to_score.md": DOCS / "results" / "time_to_score",
    DOCS / "results" / "atari.md": DOCS / "results" / "atari",
    DOCS / "results" / "README.md": DOCS / "results",
    DOCS / "guides" / "pretrained.md": DOCS / "pretrained",
    DOCS / "deviations.md": DOCS / "results" / "faithfulness",
}
"""Directory with the data of each page."""
END = "<!-- end -->"
BEGIN = re.compile("<!-- (table|atari|run|policies|quantities): ")
BLOCK = re.compile(rf"({BEGIN.pattern}([^\n]+) -->\n)(?:(?!<!--).)*({END})", re.DOTALL)
PICTURES = ("by_hours.png", "with_cut.png")
"""Pictures of a run: the first that exists is shown, the others are linked."""


ANCHORS = "dopamine.csv"  # published scores in Atari games
AGENTS = ("DQN", "Rainbow", "IQN")
OURS = "seed_rl"
ATARI_PICTURES = {"profile": "Share of runs above each score", "curves": "Learning curves of all games"}
BELOW_RANDOM = -5.0  # percent: games with lower scores are listed
MAX_PROFILE = 300.0  # percent
COLUMNS = 6  # panels per row of a picture


class PageError(Exception):
    """The page or its data are inconsistent; the message is one sentence."""


def filled(page: str, data: pathlib.Path) -> str:
    """Regenerate every block of a page from the files in a directory.

    Raises:
      PageError: a marker has no partner, a block has no data, or the page does not show a recorded run.
    """
    blocks = [*BLOCK.finditer(page)]
    if not len(BEGIN.findall(page)) == page.count(END) == len(blocks):
        raise PageError(f"each <!-- KIND: NAME --> needs one {END} behind it")
    recorded, shown = {path.parent.name for path in data.glob("*/about.json")}, {b[3] for b in blocks if b[2] == "run"}
    if recorded != shown:
        raise PageError(f"the page must show every recorded run, {sorted(recorded)}, but shows {sorted(shown)}")
    content = {
        "table": table_of,
        "atari": atari_of,
        "run": run_of,
        "policies": policies_of,
        "quantities": quantities_of,
    }
    return BLOCK.sub(lambda block: f"{block[1]}{content[block[2]](block[3], data)}{block[4]}", page)


def record(logdir: str, destination: pathlib.Path, command: str, commit: str, accelerator: str) -> None:
    """Write the metrics of a finished run as CSV, its configuration, curves, and `about.json` with its origin."""
    destination.mkdir(parents=True, exist_ok=True)
    rows, table = metrics.read(logdir), destination / "metrics.csv"
    names = write_table(rows, str(table))
    shutil.copy(os.path.join(logdir, "config.gin"), destination)
    for axis in ("frames", "hours"):
        plot_curves([str(table)], [str(destination / f"by_{axis}.png")], axis)
    returns = [name for name in ("episode_return", "eval/episode_return") if name in names]
    about = {
        "command": command,
        "commit": subprocess.check_output(["git", "rev-parse", commit], text=True).strip(),
        "hardware": f"{os.cpu_count()} cores, {described()}, {accelerator}",
        "last": {name: rows[-1][name] for name in names if name in rows[-1]},
        "best": {name: max(row[name] for row in rows if name in row) for name in returns},
    }
    (destination / "about.json").write_text(f"{json.dumps(about, indent=2)}\n", encoding="utf-8")


def table_of(name: str, data: pathlib.Path) -> str:
    """Return a table and its origin, as Markdown."""
    content = read(name, data, "scripts/bench.sh")
    table = importlib.import_module(f"benchmarks.{content['benchmark']}").table(content["result"])
    return f"\n```\n{table}\n```\n\n{origin(content)}\n"


def read(name: str, data: pathlib.Path, writer: str) -> dict[str, Any]:
    """Return the content of a JSON file that a script writes."""
    path = data / f"{name}.json"
    if not path.is_file():
        raise PageError(f"the table {name} has no data: {path.name} is missing; `{writer}` writes it")
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def origin(content: dict[str, Any]) -> str:
    """Describe how, where and when the results were measured."""
    hardware = content["hardware"]
    accelerators = ", ".join(hardware["accelerators"]) or "no accelerator"
    commit = content["commit"] or "an unknown commit"
    libraries = ", ".join(f"{library} {version}" for library, version in content["libraries"].items())
    cores = f"{hardware['cores']} core{'s' if hardware['cores'] > 1 else ''} of {hardware['processor']}"
    return (
        f"`{content['command']}`, {content['date'][:10]}, {cores}, {accelerators}; "
        f"seed_rl {content['version']} at {commit}, {libraries}."
    )


def run_of(name: str, data: pathlib.Path) -> str:
    """Return pictures, command, numbers and origin of a run, as Markdown."""
    about = json.loads((data / name / "about.json").read_text(encoding="utf-8"))
    command, _, remark = about["command"].partition(" (")
    pictures = sorted(path.name for path in (data / name).glob("*.png"))
    shown = [picture for picture in PICTURES if picture in pictures][:1]
    links = [f"[{file}]({name}/{file})" for file in (*pictures, "metrics.csv", "config.gin", "about.json")]
    lines = [f"![Learning curve]({name}/{picture})\n" for picture in shown]
    lines += [f"```sh\n{command}\n```\n", *numbers(about), ""]
    commit = f"Commit `{about['commit'][:9]}` on {about['hardware']}"
    if remark:
        commit += f"; {remark.removesuffix(')')}"
    return "\n" + "\n".join([*lines, f"{commit}. {' · '.join(links)}", ""])


def numbers(about: dict[str, Any]) -> list[str]:
    """Return a table of the final and best values of a run."""
    last, best = about["last"], about["best"]
    cells = {"frames": f"{last['env_frames']:,}", "time": duration(last["seconds"])}
    for name, key in (("return", "episode_return"), ("evaluation", "eval/episode_return")):
        if key in last:
            cells |= {f"{name}, at the end": f"{last[key]:,.2f}", f"{name}, at best": f"{best[key]:,.2f}"}
    cells |= {"updates": f"{last['learner_updates']:,}", "frames/s": f"{last['env_frames'] / last['seconds']:,.0f}"}
    return [f"| {' | '.join(row)} |" for row in (cells, ["--:"] * len(cells), cells.values())]


def duration(seconds: float) -> str:
    """Format a duration in minutes, or in seconds if short."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def policies_of(_: str, data: pathlib.Path) -> str:
    """Return a table of all pretrained policies, as Markdown."""
    lines = [
        "| name | task | agent | frames | mean return of 100 episodes | 95 % interval | |",
        "|---|---|---|--:|--:|--:|---|",
    ]
    for name in pretrained.names():
        about, place = pretrained.about(name), f"../{data.name}/{name}"
        cells = [
            f"[{name}]({place}/README.md)",
            about["task"],
            about["agent"],
            f"{about['env_frames'] / 1e6:.2f} M",
            f"{about['mean']:,.2f}{', greedy' if about['greedy'] else ''}",
            f"{max(about['low'], about['min']):,.2f} to {min(about['high'], about['max']):,.2f}",
            f"[film]({place}/replay.mp4)",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(["", *lines, "", ""])


def quantities_of(name: str, data: pathlib.Path) -> str:
    """Return a table of relative differences from the original and its origin, as Markdown."""
    content = read(name, data, "scripts/golden.py")
    lines = [
        "| quantity | arrays, numbers | computed by, in `seed_rl` | largest difference | bound |",
        "|---|--:|---|--:|--:|",
    ]
    for row in content["result"]["quantities"]:
        mark = "" if row["relative_to"] == "each number" else " †"
        counts = f"{row['arrays']:,}, {row['numbers']:,}"
        differences = f"{rounded_up(row['difference'])}{mark} | {rounded_up(row['bound'])}"
        lines.append(f"| {row['quantity']} | {counts} | `{row['by']}` | {differences} |")
    return "\n".join(["", *lines, "", origin(content), ""])


def rounded_up(x: float) -> str:
    """Format a number of at least 0 with one digit, rounded up: 3e-5 for 2.1e-5."""
    if not x:
        return "0"
    exponent = math.floor(math.log10(x))
    digit = math.ceil(x / 10.0**exponent - 1e-9)
    return f"1e{exponent + 1}" if digit == 10 else f"{digit}e{exponent}"


class Scores(NamedTuple):
    """Mean returns over the last million frames before some number of environment frames."""

    frames: int
    ours: dict[str, list[float]]
    """Scores by game, one for each seed with a finished episode."""
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


def atari_of(part: str, data: pathlib.Path) -> str:
    """Return a part of the Atari page, as Markdown."""
    kind, name, frames = part.split()
    records = read_records(data / name)
    if not records:
        return "\nNo game has been run yet.\n\n"
    scores = scores_of(records, whole_number(frames), data)
    return {"scores": _scores, "summary": _summary}[kind](records, scores, data / name)


def read_records(folder: pathlib.Path) -> list[dict[str, Any]]:
    """Read the reports recorded by `scripts/bench.sh atari`, ordered by game and seed."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*_seed=*.json"))]


def scores_of(records: Sequence[Mapping[str, Any]], frames: int, results: pathlib.Path) -> Scores:
    """Read our scores and the published ones after some number of frames."""
    ours: dict[str, list[float]] = {}
    for run in (record["result"] for record in records):
        found = [each["score"] for each in run["scores"] if each["frames"] == frames]
        ours.setdefault(run["game"], []).extend(score for score in found if score is not None)
    anchors: dict[str, dict[str, list[float]]] = {agent: {} for agent in AGENTS}
    with open(results / ANCHORS, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if float(row["million_frames"]) * 1e6 == frames:
                anchors[row["agent"]].setdefault(row["game"], []).append(float(row["mean_training_return"]))
    return Scores(frames, ours, {agent: games for agent, games in anchors.items() if games})


def _scores(records: Sequence[Mapping[str, Any]], scores: Scores, folder: pathlib.Path) -> str:
    """Write the table of all games, with remarks, missing runs and the origin of the data."""
    runs = [record["result"] for record in records]
    rows, normalised = [], {}
    for game, own in scores.ours.items():
        seeds = [run for run in runs if run["game"] == game]
        reference = REFERENCES.get(game)
        if own and reference:
            normalised[game] = reference.normalise(float(np.mean(own)))
        cells = [
            _mean(own),
            *(_mean(published.get(game, [])) for published in scores.anchors.values()),
            *(reference or (None, None)),
            normalised.get(game),
            *(_extreme(max, seeds, name)[0] for name in ("best_return", "max_abs_value")),
            _extreme(min, seeds, "min_entropy_share")[0],
            sum(run["minutes"] for run in seeds),
        ]
        rows.append([game, *map(_number, cells)])
    heads = ["game", "ours", *scores.anchors, "random", "human", "ours, % of human", "best of 100 episodes"]
    value, least = _extreme(max, runs, "max_abs_value"), _extreme(min, runs, "min_entropy_share")
    notes = {
        "Largest mean value": [f"{_number(value[0])} ({value[1]})"],
        "Least entropy": [f"{_number(least[0])} ({least[1]})"],
        f"Below random play by more than {-BELOW_RANDOM:g} % of human": [
            f"{game} ({score:.0f} %)" for game, score in normalised.items() if score < BELOW_RANDOM
        ],
        "Without an episode that ended in the last million frames": [
            _name(run) for run in runs if {"frames": scores.frames, "score": None, "episodes": 0} in run["scores"]
        ],
        "Failed": [f"{_name(run)}: {run['failure']}" for run in runs if "failure" in run],
        "Not run yet": [game for game in SETS.get(folder.name.partition("_")[0], ()) if game not in scores.ours],
    }
    hours = sum(run["minutes"] for run in runs) / 60
    lines = [f"- {head}: {', '.join(names) or 'none'}." for head, names in notes.items()]
    table = _markdown([*heads, "highest mean value", "lowest entropy", "minutes"], rows)
    return "\n".join(
        [
            "",
            *table,
            "",
            f"{len(runs)} runs took {hours:.1f} hours of training.",
            "",
            *lines,
            "",
            _origin(records),
            "",
            "",
        ]
    )


def _summary(records: Sequence[Mapping[str, Any]], scores: Scores, folder: pathlib.Path) -> str:
    """Write interquartile mean and median with intervals, over the games of all agents, and the pictures."""
    rows = []
    for agent in (OURS, *scores.anchors):
        own = scores.normalised(agent)
        if not own:
            return "\nNo game with published scores has been run yet.\n\n"
        found = [_interval(*statistic(own, _drawn(own))) for statistic in (interquartile_mean, median)]
        rows.append([agent, str(len(own)), str(sum(map(len, own))), *found])
    table = _markdown(["", "games", "runs", "interquartile mean, %", "median, %"], rows)
    pictures = [
        f"![{title}]({folder.parent.name}/{folder.name}/{name}.png)\n"
        for name, title in ATARI_PICTURES.items()
        if (folder / f"{name}.png").exists()
    ]
    return "\n".join(["", *table, "", *pictures, ""])


def _drawn(scores: Sequence[np.ndarray]) -> Drawn:
    return "runs" if min(map(len, scores)) > 1 else "tasks"


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _extreme(function: Any, runs: Iterable[Mapping[str, Any]], name: str) -> tuple[float | None, str]:
    """Find the largest or smallest value in any run, and the run's name."""
    return function(((run[name], _name(run)) for run in runs if run[name] is not None), default=(None, "no run"))


def _name(run: Mapping[str, Any]) -> str:
    return run["game"] if run["seed"] == 1 else f"{run['game']} seed {run['seed']}"


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    digits = 2 if abs(value) < 10 else 1 if abs(value) < 1000 else 0
    return f"{value:,.{digits}f}" if abs(value) < 1e7 else f"{value:.1e}"


def _interval(value: np.ndarray, low: np.ndarray, high: np.ndarray) -> str:
    return f"{value:.1f}" if np.isnan(low) else f"{value:.1f} ({low:.1f} to {high:.1f})"


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Format a table with all columns but the first right-aligned."""
    return [f"| {' | '.join(row)} |" for row in (heads, ["---", *["--:"] * (len(heads) - 1)], *rows)]


def _origin(records: Sequence[Mapping[str, Any]]) -> str:
    """Describe how, when and where the results were measured."""
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
    with pyplot.rc_context({**STYLE, "font.size": 8, "axes.titlesize": 8, "axes.titlepad": 3, "savefig.dpi": 110}):
        _draw_curves(folder, scores, colours)
        if scores[-1].anchors and scores[-1].normalised(OURS):
            _draw_profile(folder, scores[-1], colours)


def _draw_curves(folder: pathlib.Path, scores: Sequence[Scores], colours: Mapping[str, str]) -> None:
    """Draw a panel per game: seeds as lines, published means as points, random play as a dotted line."""
    games, millions = list(scores[-1].ours), scores[-1].frames / 1e6
    shape = math.ceil(len(games) / COLUMNS), min(COLUMNS, len(games))
    size = 1.7 * shape[1] + 0.4, 1.25 * shape[0] + 0.8
    figure, axes = pyplot.subplots(*shape, figsize=size, squeeze=False, layout="constrained")
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
    pyplot.close(figure)


def _draw_profile(folder: pathlib.Path, scores: Scores, colours: Mapping[str, str]) -> None:
    """Draw the share of runs above each human-normalised score, for our and published scores."""
    x = np.linspace(-10.0, MAX_PROFILE, 400)
    figure, axes = pyplot.subplots(figsize=(7, 3.6), layout="constrained")
    for agent in (OURS, *scores.anchors):
        own = scores.normalised(agent)
        share = performance_profile(own, x, _drawn(own))
        axes.step(x, share.value, color=colours[agent], label=agent)
        axes.fill_between(x, share.low, share.high, step="pre", color=colours[agent], alpha=0.15, linewidth=0)
    axes.set(xlabel="human-normalised score, %", ylabel="share of runs above", xlim=(-10, MAX_PROFILE), ylim=(0, 1.01))
    axes.legend(title=f"{len(scores.normalised(OURS))} games, {scores.frames / 1e6:g} million frames")
    figure.savefig(folder / "profile.png")
    pyplot.close(figure)


def update(path: pathlib.Path, only_check: bool = False) -> int:
    """Write a page if it is out of date; return the exit code."""
    page = path.read_text(encoding="utf-8")
    try:
        wanted = filled(page, PAGES[path])
    except PageError as error:
        print(f"{path.name}: {error}", file=sys.stderr)
        return 1
    if wanted != page and only_check:
        print(f"{path.name} is out of date: run scripts/pages.py", file=sys.stderr)
        return 1
    if wanted != page:
        path.write_text(wanted, encoding="utf-8")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, fail if a page is out of date")
    parser.add_argument("--pictures", action="store_true", help="draw the pictures of docs/results/atari.md")
    parser.add_argument("--record", nargs=3, metavar=("LOGDIR", "DESTINATION", "COMMAND"), help="record a finished run")
    parser.add_argument("--commit", default="HEAD", help="commit of the recorded run")
    parser.add_argument("--accelerator", default="no accelerator", help="GPU or TPU of the recorded run")
    arguments = parser.parse_args()
    if arguments.record:
        logdir, destination, command = arguments.record
        record(logdir, pathlib.Path(destination), command, arguments.commit, arguments.accelerator)
    if arguments.pictures:
        for folder in sorted(path for path in (DOCS / "results" / "atari").iterdir() if path.is_dir()):
            draw(folder)
    return max([update(path, arguments.check) for path in PAGES])


if __name__ == "__main__":
    sys.exit(main())
