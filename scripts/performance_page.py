#!/usr/bin/env python3
"""Writes the tables of docs/performance.md from docs/results/performance/*.json: scripts/performance_page.py [--check]

A table stands between the lines `<!-- table: NAME -->` and `<!-- end -->` and is made from NAME.json, which
`seed_rl bench` wrote; the text around it is written by hand. With --check nothing is written: the exit code is 1 if the
page is not what the files say.
"""

import argparse
import json
import pathlib
import re
import sys
from typing import Any

from seed_rl.bench.command import benchmark

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "performance.md"
RESULTS = ROOT / "docs" / "results" / "performance"
BEGIN, END = "<!-- table: ", "<!-- end -->"
TABLE = re.compile(rf"({BEGIN}(\S+) -->\n)(?:(?!<!--).)*({END})", re.DOTALL)


class PageError(Exception):
    """Something is wrong with the page or its data; the message is one sentence."""


def filled(page: str, results: pathlib.Path) -> str:
    """The page with every table made anew from the files in `results`.

    Raises:
      PageError: a marker without its partner, or a table without its file.
    """
    if not page.count(BEGIN) == page.count(END) == len(TABLE.findall(page)):
        raise PageError(f"each {BEGIN}NAME --> needs one {END} behind it")
    return TABLE.sub(lambda found: f"{found[1]}{table_of(found[2], results)}{found[3]}", page)


def table_of(name: str, results: pathlib.Path) -> str:
    """The table and where it is from, as Markdown."""
    path = results / f"{name}.json"
    if not path.is_file():
        raise PageError(f"the table {name} has no data: {path.name} is missing; `seed_rl bench` writes it")
    content = json.loads(path.read_text(encoding="utf-8"))
    table = benchmark(content["benchmark"]).table(content["result"])
    return f"\n```\n{table}\n```\n\n{origin(content)}\n"


def origin(content: dict[str, Any]) -> str:
    """A sentence that says how, where and when."""
    hardware = content["hardware"]
    accelerators = ", ".join(hardware["accelerators"]) or "no accelerator"
    commit = content["commit"] or "an unknown commit"
    libraries = ", ".join(f"{library} {version}" for library, version in content["libraries"].items())
    return (
        f"`{content['command']}`, {content['date'][:10]}, {hardware['cores']} cores of {hardware['processor']}, "
        f"{accelerators}; seed_rl {content['version']} at {commit}, {libraries}."
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, fail if the page differs")
    parser.add_argument("--page", type=pathlib.Path, default=PAGE)
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS)
    arguments = parser.parse_args()
    page = arguments.page.read_text(encoding="utf-8")
    try:
        wanted = filled(page, arguments.results)
    except PageError as error:
        print(f"{arguments.page.name}: {error}", file=sys.stderr)
        return 1
    if wanted == page:
        return 0
    if arguments.check:
        print(f"{arguments.page.name} is not what its data say: run scripts/performance_page.py", file=sys.stderr)
        return 1
    arguments.page.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
