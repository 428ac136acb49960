#!/usr/bin/env python3
"""Fills in the recorded runs in docs/results/README.md: scripts/results_page.py [--check]

The lines between `<!-- run: NAME -->` and `<!-- end -->` are generated from the picture and the `about.json` in the
folder NAME, which `scripts/record_result.py` writes; the rest of the page is not touched. With --check nothing is
written, and the exit code is 1 if the page is out of date.
"""

import argparse
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "results" / "README.md"
BEGIN, END = "<!-- run: ", "<!-- end -->"
RUN = re.compile(rf"({BEGIN}(\S+) -->\n)(?:(?!<!--).)*({END})", re.DOTALL)
PICTURES = ("by_hours.png", "with_cut.png")
"""Pictures: the first that exists is shown, the others are linked."""


class PageError(Exception):
    """The page or its data are inconsistent; the message is one sentence."""


def filled(page: str, results: pathlib.Path) -> str:
    """Fill in every run of a page from the folders in `results`.

    Raises:
      PageError: a marker has no partner or no folder, or the page does not show a recorded run.
    """
    shown = [found[2] for found in RUN.finditer(page)]
    if not page.count(BEGIN) == page.count(END) == len(shown):
        raise PageError(f"each {BEGIN}NAME --> needs one {END} after it")
    recorded = {path.parent.name for path in results.glob("*/about.json")}
    if recorded != set(shown):
        raise PageError(f"the page must show every recorded run, {sorted(recorded)}, but shows {sorted(shown)}")
    return RUN.sub(lambda found: f"{found[1]}{run_of(results / found[2])}{found[3]}", page)


def run_of(folder: pathlib.Path) -> str:
    """Return pictures, command, numbers and origin of a run, as Markdown."""
    about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    command, _, remark = about["command"].partition(" (")
    pictures = sorted(path.name for path in folder.glob("*.png"))
    shown = [name for name in PICTURES if name in pictures][:1]
    links = [f"[{name}]({folder.name}/{name})" for name in (*pictures, "metrics.csv", "config.gin", "about.json")]
    lines = [f"![Learning curve]({folder.name}/{name})\n" for name in shown]
    lines += [f"```sh\n{command}\n```\n", *numbers(about), ""]
    origin = f"Commit `{about['commit'][:9]}` on {about['hardware']}"
    if remark:
        origin += f"; {remark.removesuffix(')')}"
    return "\n" + "\n".join([*lines, f"{origin}. {' · '.join(links)}", ""])


def numbers(about: dict) -> list[str]:
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page is out of date")
    parser.add_argument("--page", type=pathlib.Path, default=PAGE)
    arguments = parser.parse_args()
    page = arguments.page.read_text(encoding="utf-8")
    try:
        wanted = filled(page, arguments.page.parent)
    except PageError as error:
        print(f"{arguments.page}: {error}", file=sys.stderr)
        return 1
    if wanted == page:
        return 0
    if arguments.check:
        print(f"{arguments.page} is out of date: run scripts/results_page.py", file=sys.stderr)
        return 1
    arguments.page.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
