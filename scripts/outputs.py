#!/usr/bin/env python3
"""Writes what commands print into the pages that show it: scripts/outputs.py [PAGE...], by default all of them.

A block of code behind `<!-- printed by: COMMAND -->` holds the output of a shell command. The commands of a page are
run in order in a folder that has the Python files of the page. A page may also be a notebook, whose cells are run.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
from unittest import mock

import nbformat
from nbclient import NotebookClient

ROOT = pathlib.Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"(<!-- printed by: ([^\n]*) -->\n```\n)(.*?)(```\n)", re.DOTALL)
NOTEBOOK = ROOT / "examples" / "catch.ipynb"
HOME = "/home/me/seed_rl"
"""Stands for the places of the machine in outputs."""
_FILE = re.compile(r'^```python title="([^/"]+)"\n(.*?)^```$', re.DOTALL | re.MULTILINE)


def pages() -> list[pathlib.Path]:
    return [page for page in sorted((ROOT / "docs").rglob("*.md")) if BLOCK.search(page.read_text(encoding="utf-8"))]


def printed(page: str) -> list[str]:
    """Run the commands of a page, and return what each of them prints on standard output."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in _FILE.findall(page):
            pathlib.Path(folder, name).write_text(content, encoding="utf-8")
        tools = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": tools, "PYTHONPATH": f"{ROOT}:{folder}", "COLUMNS": "120"}
        outputs = []
        for _, command, _, _ in BLOCK.findall(page):
            shell = ["bash", "-o", "pipefail", "-c", command]
            output = subprocess.check_output(shell, cwd=folder, env=environment, text=True)
            outputs.append(output.replace(folder, HOME).replace(sys.prefix, f"{HOME}/.venv"))
        return outputs


def run_cells(notebook: nbformat.NotebookNode, seconds: int) -> None:
    """Run all cells of a notebook, whose outputs it then has."""
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, TMPDIR=folder):
        NotebookClient(
            notebook, timeout=seconds, record_timing=False, resources={"metadata": {"path": folder}}
        ).execute()


def main() -> None:
    for page in [pathlib.Path(name) for name in sys.argv[1:]] or [*pages(), NOTEBOOK]:
        if page.suffix == ".ipynb":
            notebook = nbformat.read(page, as_version=4)
            run_cells(notebook, seconds=600)
            nbformat.write(notebook, page)
            continue
        text = page.read_text(encoding="utf-8")
        for block, output in zip(BLOCK.finditer(text), printed(text), strict=True):
            text = text.replace(block[0], f"{block[1]}{output}{block[4]}")
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
