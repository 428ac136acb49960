#!/usr/bin/env python3
"""Writes the tables of benchmarks into pages from JSON files: scripts/performance_page.py [--check] [--pictures]

The pages are docs/performance.md, docs/results/time_to_score.md and docs/results/atari.md; their data are in folders of
the same names in docs/results. The block between `<!-- table: NAME -->` and `<!-- end -->` is a table generated from
NAME.json, which `scripts/bench.sh` wrote; a block `<!-- atari: PART FOLDER FRAMES -->` has a part of
`benchmarks.atari_page`. The rest of a page is not touched. With --check nothing is written, and the exit code is 1 if a
page is out of date. With --pictures the pictures of docs/results/atari.md are redrawn first.
"""

import argparse
import importlib
import json
import pathlib
import re
import sys
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # for `benchmarks`, which is not installed
DOCS = ROOT / "docs"
PAGES = {
    DOCS / "performance.md": DOCS / "results" / "performance",
    DOCS / "results" / "time_to_score.md": DOCS / "results" / "time_to_score",
    DOCS / "results" / "atari.md": DOCS / "results" / "atari",
}
"""Directory with the JSON files of each page."""
END = "<!-- end -->"
BEGIN = re.compile("<!-- (table|atari): ")
BLOCK = re.compile(rf"({BEGIN.pattern}([^\n]+) -->\n)(?:(?!<!--).)*({END})", re.DOTALL)


class PageError(Exception):
    """The page or its data are inconsistent; the message is one sentence."""


def filled(page: str, results: pathlib.Path) -> str:
    """Regenerate every block of a page from the files in `results`.

    Raises:
      PageError: a marker has no partner, or a table has no file.
    """
    if not len(BEGIN.findall(page)) == page.count(END) == len(BLOCK.findall(page)):
        raise PageError(f"each <!-- table: NAME --> needs one {END} behind it")
    content = {"table": table_of, "atari": atari_of}
    return BLOCK.sub(lambda found: f"{found[1]}{content[found[2]](found[3], results)}{found[4]}", page)


def atari_of(part: str, results: pathlib.Path) -> str:
    """Return a part of the Atari page, as Markdown."""
    return str(importlib.import_module("benchmarks.atari_page").section(part, results))


def table_of(name: str, results: pathlib.Path) -> str:
    """Return a table and its origin, as Markdown."""
    path = results / f"{name}.json"
    if not path.is_file():
        raise PageError(f"the table {name} has no data: {path.name} is missing; `scripts/bench.sh` writes it")
    content = json.loads(path.read_text(encoding="utf-8"))
    table = importlib.import_module(f"benchmarks.{content['benchmark']}").table(content["result"])
    return f"\n```\n{table}\n```\n\n{origin(content)}\n"


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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, fail if a page is out of date")
    parser.add_argument("--pictures", action="store_true", help="redraw the pictures of docs/results/atari.md")
    parser.add_argument("--page", type=pathlib.Path, help="the only page to write; needs --results")
    parser.add_argument("--results", type=pathlib.Path, help="directory with the JSON files of --page")
    arguments = parser.parse_args()
    if arguments.pictures:
        for folder in sorted(path for path in (DOCS / "results" / "atari").iterdir() if path.is_dir()):
            importlib.import_module("benchmarks.atari_page").draw(folder)
    pages = {arguments.page: arguments.results} if arguments.page else PAGES
    return max([_update(page, results, arguments.check) for page, results in pages.items()])


def _update(path: pathlib.Path, results: pathlib.Path, only_check: bool) -> int:
    """Write a page if it is out of date; return the exit code."""
    page = path.read_text(encoding="utf-8")
    try:
        wanted = filled(page, results)
    except PageError as error:
        print(f"{path.name}: {error}", file=sys.stderr)
        return 1
    if wanted != page and only_check:
        print(f"{path.name} is out of date: run scripts/performance_page.py", file=sys.stderr)
        return 1
    if wanted != page:
        path.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
