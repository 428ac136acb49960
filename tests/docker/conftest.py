"""Shared by the tests of images and of the scripts that start them."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

_RECORDER = """#!{python}
import json, os, sys
text = "" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.read()
variables = {{name: value for name, value in os.environ.items() if name.startswith("SEED_RL_")}}
command = [os.path.basename(sys.argv[0]), *sys.argv[1:]]
with open({log!r}, "a") as file:
    print(json.dumps({{"command": command, "input": text, "variables": variables}}), file=file)
print("from-" + command[0] if "--output=yaml" in command else "0")
"""


class Script:
    """Runs scripts of docker/ with recorders in place of the tools of containers and clouds."""

    def __init__(self, directory):
        self.directory = directory
        self._log = directory / "log.jsonl"
        for name in ("docker", "gcloud", "kubectl", "seed_rl"):
            self.replace(name, _RECORDER.format(python=sys.executable, log=str(self._log)))
        self.variables = {name: value for name, value in os.environ.items() if not name.startswith("SEED_RL_")}
        self.variables["PATH"] = f"{directory}{os.pathsep}{os.environ['PATH']}"

    def replace(self, tool, program):
        """Puts a program in the place of a tool."""
        (self.directory / tool).write_text(program)
        (self.directory / tool).chmod(0o755)

    def run(self, script, *arguments):
        """Runs a script, or another program, to its end."""
        options = {"cwd": self.directory, "env": self.variables, "stdin": subprocess.DEVNULL, "timeout": 60}
        return subprocess.run([ROOT / "docker" / script, *arguments], capture_output=True, text=True, **options)

    def done(self, script, *arguments):
        """Its output; it must succeed."""
        done = self.run(script, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def records(self):
        """The calls of tools since the last time."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        self._log.unlink(missing_ok=True)
        return [json.loads(line) for line in lines]

    def printed_and_done(self, script, *arguments):
        """The output of a dry run, the calls that it makes when pasted into a shell, and the calls of a real run."""
        printed = self.done(script, *arguments, "--dry_run")
        assert self.records() == []
        self.done("/bin/bash", "-ec", printed)
        pasted = self.records()
        self.done(script, *arguments)
        return printed, pasted, self.records()


@pytest.fixture
def script(tmp_path):
    """A `Script` in an empty directory."""
    (tmp_path / "script").mkdir()
    return Script(tmp_path / "script")


@pytest.fixture
def secrets(script, tmp_path):
    """A directory of docker/make_secrets.sh."""
    script.done("make_secrets.sh", tmp_path / "secrets")
    return tmp_path / "secrets"


@pytest.fixture
def has_no_secret(secrets):
    """Whether a text holds neither the token nor the private key, raw or in base64."""
    token, key = (secrets / "token").read_text().strip(), (secrets / "key.pem").read_text()
    encoded = [base64.b64encode(text.encode()).decode()[:40] for text in (token, key)]
    return lambda text: not any(part in text for part in [token, key.splitlines()[1], *encoded])
