#!/usr/bin/env python3
"""Writes the tables of docs/performance.md and docs/scaling.md from docs/results/performance/*.json:
scripts/performance_page.py [--check]

A table stands between the lines `<!-- table: NAME -->` and `<!-- end -->` and is made from NAME.json, which
`scripts/bench.sh` wrote; `<!-- plan: FLAGS -->` has what `seed_rl plan FLAGS` says with them. The text around them
is written by hand. With --check nothing is written: the exit code is 1 if a page is not what the files say.
"""

import argparse
import contextlib
import io
import json
import pathlib
import re
import shlex
import sys
from typing import Any

from benchmarks.command import benchmark
from seed_rl.launch.cli import main as seed_rl

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = (ROOT / "docs" / "performance.md", ROOT / "docs" / "scaling.md")
RESULTS = ROOT / "docs" / "results" / "performance"
END = "<!-- end -->"
BEGIN = re.compile("<!-- (table|plan): ")
BLOCK = re.compile(rf"({BEGIN.pattern}([^\n]+) -->\n)(?:(?!<!--).)*({END})", re.DOTALL)


class PageError(Exception):
    """Something is wrong with the page or its data; the message is one sentence."""


def filled(page: str, results: pathlib.Path) -> str:
    """The page with every table made anew from the files in `results`.

    Raises:
      PageError: a marker without its partner, or a table without its file.
    """
    if not len(BEGIN.findall(page)) == page.count(END) == len(BLOCK.findall(page)):
        raise PageError(f"each <!-- table: NAME --> needs one {END} behind it")
    content = {"table": table_of, "plan": plan_of}
    return BLOCK.sub(lambda found: f"{found[1]}{content[found[2]](found[3], results)}{found[4]}", page)


def plan_of(flags: str, results: pathlib.Path) -> str:
    """What `seed_rl plan` says with these flags, as Markdown."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = seed_rl(["plan", *shlex.split(flags), f"--measured={results}"])
    if code:
        raise PageError(f"the plan {flags} can't be made: {err.getvalue().strip()}")
    return f"\n```\n$ seed_rl plan {flags}\n{out.getvalue()}```\n\n"


def table_of(name: str, results: pathlib.Path) -> str:
    """The table and where it is from, as Markdown."""
    path = results / f"{name}.json"
    if not path.is_file():
        raise PageError(f"the table {name} has no data: {path.name} is missing; `scripts/bench.sh` writes it")
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
    parser.add_argument("--page", type=pathlib.Path, action="append", help="in place of those of docs/")
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS)
    arguments = parser.parse_args()
    codes = [write(page, arguments.results, arguments.check) for page in arguments.page or PAGES]
    return max(codes)


def write(path: pathlib.Path, results: pathlib.Path, only_check: bool) -> int:
    """Writes one page; returns the exit code."""
    page = path.read_text(encoding="utf-8")
    try:
        wanted = filled(page, results)
    except PageError as error:
        print(f"{path.name}: {error}", file=sys.stderr)
        return 1
    if wanted == page:
        return 0
    if only_check:
        print(f"{path.name} is not what its data say: run scripts/performance_page.py", file=sys.stderr)
        return 1
    path.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
