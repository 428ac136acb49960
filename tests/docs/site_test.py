"""The documentation's site and its reference."""

import ast
import json
import os
import pathlib
import re
import subprocess
import sys

from seed_rl import api

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOT_IN_REFERENCE = ("cli/", "runs/", "__main__", "transport/seed_rl_pb2")
"""The command line, which users reach by its commands, and what is generated."""


def test_the_site_builds_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path]  # --quiet would silence it
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "concepts/index.html").is_file()
    found = json.loads((tmp_path / "search/search_index.json").read_text(encoding="utf-8"))["docs"]
    pages = {each["location"].partition("#")[0] for each in found}
    assert {"guides/pretrained/", "api/study/"} < pages
    assert not pages & {"pretrained/pong/", "api/transport/", "source/README.md/"}


def test_each_module_with_something_public_is_in_the_reference_and_each_public_name_in_its_table():
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "docs/api").glob("*.md")]
    shown = [name for page in pages for name in re.findall(r"^::: (\S+)$", page, re.MULTILINE)]
    assert len(shown) == len(set(shown))
    public = set()
    links = [ROOT / "seed_rl", *(ROOT / "seed_rl" / name for name in ("agents", "envs"))]
    for path in (path for folder in links for path in folder.resolve().rglob("*.py")):
        name = str(path.relative_to(ROOT).with_suffix("")).removeprefix("seed_rl/").removesuffix("/__init__")
        nodes = ast.parse(path.read_text(encoding="utf-8")).body
        is_public = any(isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name[0] != "_" for node in nodes)
        if is_public and not name.startswith(NOT_IN_REFERENCE) and path.name != "commands.py":
            public.add(f"seed_rl.{name.replace('/', '.')}")
    assert len(public) > 80
    assert sorted(public - set(shown)) == []
    rows = "".join(re.findall(r"^\|.*", (ROOT / "docs/api/index.md").read_text(encoding="utf-8"), re.MULTILINE))
    assert sorted(re.findall(r"\[`(\w+)`\]\[[\w.]+\]", rows)) == sorted(api.__all__)
