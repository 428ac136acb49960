#!/usr/bin/env python3
"""Writes what docs/results/README.md shows of each recorded run: scripts/results_page.py [--check]

Between the lines `<!-- run: NAME -->` and `<!-- end -->` stand the picture of the folder NAME and what its `about.json`
says; the text around is written by hand. `scripts/record_result.py` makes the folders. With --check nothing is written:
the exit code is 1 if the page is not what the files say.
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
"""One of them is shown, the first that there is; the others are linked."""


class PageError(Exception):
    """Something is wrong with the page or its data; the message is one sentence."""


def filled(page: str, results: pathlib.Path) -> str:
    """The page with every run made anew from the folders in `results`.

    Raises:
      PageError: a marker without its partner or its folder, or a recorded run that the page doesn't show.
    """
    shown = [found[2] for found in RUN.finditer(page)]
    if not page.count(BEGIN) == page.count(END) == len(shown):
        raise PageError(f"each {BEGIN}NAME --> needs one {END} behind it")
    recorded = {path.parent.name for path in results.glob("*/about.json")}
    if recorded != set(shown):
        raise PageError(f"it must show each recorded run: {sorted(recorded)}, and shows {sorted(shown)}")
    return RUN.sub(lambda found: f"{found[1]}{run_of(results / found[2])}{found[3]}", page)


def run_of(folder: pathlib.Path) -> str:
    """Pictures, command, numbers and origin of a run, as Markdown."""
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
    """A table of what the run had reached when it ended."""
    last, best = about["last"], about["best"]
    cells = {"frames": f"{last['env_frames']:,}", "time": duration(last["seconds"])}
    for name, key in (("return", "episode_return"), ("evaluation", "eval/episode_return")):
        if key in last:
            cells |= {f"{name}, at the end": f"{last[key]:,.2f}", f"{name}, at best": f"{best[key]:,.2f}"}
    cells |= {"updates": f"{last['learner_updates']:,}", "frames/s": f"{last['env_frames'] / last['seconds']:,.0f}"}
    return [f"| {' | '.join(row)} |" for row in (cells, ["--:"] * len(cells), cells.values())]


def duration(seconds: float) -> str:
    """In minutes, or seconds if they are few."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, fail if the page differs")
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
        print(f"{arguments.page} is not what its data say: run scripts/results_page.py", file=sys.stderr)
        return 1
    arguments.page.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
