"""What runs wrote: the list of its hashes, and how much has changed since it was measured."""

import hashlib
import os
import pathlib
import re
import subprocess
import sys

DOCS = pathlib.Path(__file__).resolve().parents[1] / "docs"
RECORDS = DOCS / "results" / "records.sha256"
"""Hashes of everything that a run wrote."""
WRITTEN_BY_RUNS = {".csv", ".gin", ".json", ".log", ".mp4", ".safetensors", ".tar"}
LEARNING = ("agents", "configs", "seed_rl/rl", "seed_rl/networks", "seed_rl/learner", "seed_rl/buffers")
"""Code that decides what is learned from how many frames."""
CODE = ("agents", "configs", "envs", "seed_rl")
COMMIT = re.compile(r'"commit": "([0-9a-f]{7,40})"|"seed_rl": "[^"]*\+g([0-9a-f]{7,40})')


class RecordError(Exception):
    """A record is inconsistent; the message is one line."""


def files() -> list[str]:
    """Return the paths of everything that a run wrote, relative to the repository."""
    results, pretrained = RECORDS.parent, DOCS / "pretrained"
    found = [path for folder in (results, pretrained) for path in folder.rglob("*") if path.suffix in WRITTEN_BY_RUNS]
    return sorted(str(path.relative_to(DOCS.parent)) for path in (*found, *pretrained.glob("*/README.md")))


def listed() -> dict[str, str]:
    """Return the listed hash of each record, by path."""
    lines = RECORDS.read_text(encoding="utf-8").splitlines() if RECORDS.exists() else []
    return {path: digest for digest, path in (line.split("  ", 1) for line in lines)}


def add() -> int:
    """Append the hashes of new records, unless a listed one is not what it was; return the exit code."""
    known = listed()
    found = {path: hashlib.sha256((DOCS.parent / path).read_bytes()).hexdigest() for path in files()}
    changed = [path for path, digest in known.items() if found.get(path) != digest]
    if changed:
        print(f"{RECORDS.name}: records are never changed, but these are: {', '.join(changed)}", file=sys.stderr)
        return 1
    with RECORDS.open("a", encoding="utf-8") as file:
        file.writelines(f"{digest}  {path}\n" for path, digest in found.items() if path not in known)
    return 0


def ages() -> list[str]:
    """Describe each record, or folder of records, by its oldest commit and by what has changed since, oldest first.

    Raises:
      RecordError: a record's commit is not in the history.
    """
    commits: dict[str, set[str]] = {}
    for name in (each for each in files() if each.endswith(".json")):
        found = {first or second for first, second in COMMIT.findall((DOCS.parent / name).read_text(encoding="utf-8"))}
        one_by_one = pathlib.Path(name).parent == pathlib.Path("docs/results/performance")
        commits.setdefault(name if one_by_one else os.path.dirname(name), set()).update(found)
    lines = []
    for name, found in commits.items():
        if found:
            date, commit = min(_git("log", "-1", "--format=%cs %h", each).split() for each in found)
            since = [
                len(_git("log", "--oneline", f"{commit}..HEAD", "--", *code).split("\n")) - 1
                for code in (LEARNING, CODE)
            ]
            lines.append(f"{date}  {commit}  {since[0]:6}  {since[1]:4}  {name}")
    return ["date        commit     learning  code  record; commits since that changed these", *sorted(lines)]


def print_ages() -> int:
    try:
        print("\n".join(ages()))
    except RecordError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=DOCS.parent, capture_output=True, text=True)
    if done.returncode:
        raise RecordError(f"git {' '.join(arguments[:4])}: {done.stderr.strip()}")
    return done.stdout
