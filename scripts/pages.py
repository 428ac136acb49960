#!/usr/bin/env python3
"""Records runs, and writes the parts of pages that are made from records.

    scripts/pages.py                                         # writes all pages
    scripts/pages.py --check                                 # writes nothing, fails if a page is out of date
    scripts/pages.py --pictures                              # draws the pictures of docs/results first
    scripts/pages.py --record LOGDIR DESTINATION COMMAND     # first records a finished run, which COMMAND has trained
    scripts/pages.py --add                                   # first lists the hashes of new records
    scripts/pages.py --ages                                  # writes nothing, says what has changed since each record

What a run wrote is never changed: docs/results/records.sha256 has its hashes, as `sha256sum --check` reads them. Who
measures something again takes the old line out by hand, where reviewers see it.

A part is the block between `<!-- KIND: NAME -->` and `<!-- end -->`; the rest of a page is not touched:

    table: NAME                of a benchmark, from NAME.json, which `scripts/bench.sh` wrote
    atari: PART FOLDER FRAMES  `scores` or `summary` of the runs of `scripts/bench.sh atari` in a folder of
                               docs/results/atari, whose name begins with the set of games, after a number of frames
    run: NAME                  a recorded run, from the folder NAME
    policies: all              the pretrained policies
    quantities: NAME           differences from the original, from NAME.json, which `scripts/golden.py` wrote
    listing: PATH              a file of the repository
"""

import argparse
import importlib
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # for what is not installed

from benchmarks import comparison
from benchmarks.report import without_paths, write_table
from scripts import atari_page, records
from seed_rl.evaluation.plot import COLOURS, STYLE, plot_curves
from seed_rl.extras.sharing import published
from seed_rl.reporting import metrics
from seed_rl.system.machine import cpu_description

DOCS = pathlib.Path(__file__).resolve().parents[1] / "docs"
_LISTING = ("environments", "python", "guides/agent", "guides/network", "guides/slurm")
PAGES = {
    **{DOCS / f"{name}.md": DOCS / "results" / "performance" for name in ("performance", "benchmarks", "planning")},
    DOCS / "results" / "time_to_score.md": DOCS / "results" / "time_to_score",
    DOCS / "results" / "atari.md": DOCS / "results" / "atari",
    DOCS / "results" / "README.md": DOCS / "results",
    DOCS / "guides" / "pretrained.md": DOCS / "pretrained",
    DOCS / "deviations.md": DOCS / "results" / "faithfulness",
    **{DOCS / f"{name}.md": DOCS.parent for name in _LISTING},
}
"""Directory with the data of each page."""
LANGUAGES = {".sh": "sh", ".toml": "toml"}
END = "<!-- end -->"
BEGIN = re.compile("<!-- (table|atari|run|policies|quantities|listing): ")
BLOCK = re.compile(rf"({BEGIN.pattern}([^\n]+) -->\n)(?:(?!<!--).)*({END})", re.DOTALL)
CURVES = {
    "agents_halfcheetah": {"PPO": "time_to_score/ppo_halfcheetah/", "SAC": "time_to_score/sac_halfcheetah/"},
    "agents_walker": {"Hopper": "time_to_score/sac_hopper/", "Walker2d": "time_to_score/sac_walker/"},
    "pong_by_hours": {
        "V-trace": "time_to_score/pong_features/",
        "V-trace, AVX2 alone": "time_to_score/pong_native_avx2/",
        "PPO": "time_to_score/ppo_pong/",
        "R2D2": "time_to_score/r2d2_pong/",
    },
    "pong_normalisation": {
        "nothing changed": "time_to_score/pong_84/",
        "layer normalisation in front of every ReLU": "pong_tries/layer_norm_",
        "no standardised advantages": "pong_tries/no_advantage_norm_",
        "no standardised values": "pong_tries/no_value_norm_",
    },
}
"""Names of curves in pictures of docs/results, and where the CSV files of their seeds begin."""
PICTURES = ("by_hours.png", "with_cut.png")
"""Pictures of a run, of which the first that exists is shown."""


class PageError(Exception):
    """The page or its data are inconsistent; the message is one line."""


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
        "atari": atari_page.part_of,
        "run": run_of,
        "policies": policies_of,
        "quantities": quantities_of,
        "listing": listing_of,
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
        "hardware": f"{os.cpu_count()} cores, {cpu_description()}, {accelerator}",
        "last": {name: rows[-1][name] for name in names if name in rows[-1]},
        "best": {name: max(row[name] for row in rows if name in row) for name in returns},
    }
    (destination / "about.json").write_text(f"{json.dumps(about, indent=2)}\n", encoding="utf-8")


def draw_curves() -> None:
    """Draw the pictures of `CURVES`, whose legends are the names of links to the seeds' files."""
    for picture, curves in CURVES.items():
        with tempfile.TemporaryDirectory() as folder:
            links = []
            for name, begin in curves.items():
                for seed, path in enumerate(sorted((DOCS / "results").glob(f"{begin}*seed=*.csv"))):
                    links.append(os.path.join(folder, f"{name} seed={seed}.csv"))
                    os.symlink(path, links[-1])
            axis = "hours" if picture.endswith("hours") else "frames"
            plot_curves(links, [str(DOCS / "results" / f"{picture}.png")], axis)


def draw_comparison() -> None:
    """Draw the rates of the programs in comparison.json as bars, with a point for each turn."""
    folder = DOCS / "results" / "performance"
    rows = read("comparison", folder, "scripts/bench.sh comparison")["result"]["rows"]
    recipes = list(dict.fromkeys(row["recipe"] for row in rows))
    counts = [sum(row["recipe"] == recipe for row in rows) for recipe in recipes]
    with rc_context({**STYLE, "axes.grid.axis": "x"}):
        figure = Figure(figsize=(7, 0.34 * len(rows) + 1.1), layout="constrained")
        panels = figure.subplots(len(recipes), sharex=True, squeeze=False, height_ratios=counts)
        for recipe, panel in zip(recipes, panels.flat, strict=True):
            own = [row for row in rows if row["recipe"] == recipe]
            names = [comparison.label(row) for row in own]
            colours = [COLOURS[0], *[COLOURS[1]] * (len(own) - 1)]
            panel.barh(names, [row["frames"]["median"] for row in own], color=colours, height=0.7)
            for name, row in zip(names, own, strict=True):
                rates = row["frames"]["repeats"]
                panel.plot(rates, [name] * len(rates), "o", color="black", markersize=3)
            panel.set_title(f"network and batches of atari/{recipe}", fontsize="medium", loc="left")
            panel.invert_yaxis()
        panels.flat[-1].set_xlabel("environment frames per second")
        figure.savefig(folder / "comparison.png")


def table_of(name: str, data: pathlib.Path) -> str:
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
        f"`{without_paths(content['command'])}`, {content['date'][:10]}, {cores}, {accelerators}; "
        f"seed_rl {content['version']} at {commit}, {libraries}."
    )


def run_of(name: str, data: pathlib.Path) -> str:
    """Return pictures, command, numbers and origin of a run, as Markdown."""
    about = json.loads((data / name / "about.json").read_text(encoding="utf-8"))
    command, _, remark = about["command"].partition(" (")
    shown = [picture for picture in PICTURES if (data / name / picture).is_file()][:1]
    lines = [f"![Learning curve]({name}/{picture})\n" for picture in shown]
    lines += [f"```sh\n{command}\n```\n", *numbers(about), ""]
    commit = f"Commit `{about['commit'][:9]}` on {about['hardware']}"
    if remark:
        commit += f"; {remark.removesuffix(')')}"
    return "\n" + "\n".join([*lines, f"{commit}. [Curves, metrics and configuration]({name})", ""])


def numbers(about: dict[str, Any]) -> list[str]:
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
    lines = [
        "| name | task | agent | frames | mean return of 100 episodes | 95 % interval | |",
        "|---|---|---|--:|--:|--:|---|",
    ]
    for name in published.names():
        about, place = published.about(name), f"../{data.name}/{name}"
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


def listing_of(name: str, data: pathlib.Path) -> str:
    language = LANGUAGES.get(pathlib.Path(name).suffix, "python")  # gin files, too
    return f"""```{language} title="{name}"\n{(data / name).read_text(encoding="utf-8")}```\n"""


def rounded_up(x: float) -> str:
    """Format a number of at least 0 with one digit, rounded up: 3e-5 for 2.1e-5."""
    if not x:
        return "0"
    exponent = math.floor(math.log10(x))
    digit = math.ceil(x / 10.0**exponent - 1e-9)
    return f"1e{exponent + 1}" if digit == 10 else f"{digit}e{exponent}"


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
    parser.add_argument("--pictures", action="store_true", help="draw the pictures of docs/results")
    parser.add_argument("--record", nargs=3, metavar=("LOGDIR", "DESTINATION", "COMMAND"), help="record a finished run")
    parser.add_argument("--add", action="store_true", help="list the hashes of new records")
    parser.add_argument("--ages", action="store_true", help="write nothing, say what has changed since each record")
    parser.add_argument("--commit", default="HEAD", help="commit of the recorded run")
    parser.add_argument("--accelerator", default="no accelerator", help="GPU or TPU of the recorded run")
    arguments = parser.parse_args()
    if arguments.ages:
        return records.print_ages()
    if arguments.record:
        logdir, destination, command = arguments.record
        record(logdir, pathlib.Path(destination), command, arguments.commit, arguments.accelerator)
    if (arguments.add or arguments.record) and records.add():
        return 1
    if arguments.pictures:
        draw_curves()
        draw_comparison()
        for folder in sorted(path for path in (DOCS / "results" / "atari").iterdir() if path.is_dir()):
            atari_page.draw(folder)
    return max([update(path, arguments.check) for path in PAGES])


if __name__ == "__main__":
    sys.exit(main())
