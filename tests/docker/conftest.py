"""What the tests of images and of the cloud's scripts share."""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import stat
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def load(path):
    """A Python file of the repository that is in no package."""
    spec = importlib.util.spec_from_file_location(f"docker_tests_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


_integration = load(ROOT / "tests/integration/conftest.py")
runs, rows, wait_for = _integration.runs, _integration.rows, _integration.wait_for

_RECORDER = """#!{python}
import json, os, sys
text = "" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.read()
names = [name for name in os.environ if name.startswith("SEED_RL_")]
record = {{"command": [os.path.basename(sys.argv[0]), *sys.argv[1:]], "input": text,
          "variables": {{name: os.environ[name] for name in names}}}}
with open({log!r}, "a") as file:
    file.write(json.dumps(record) + "\\n")
print("of-" + os.path.basename(sys.argv[0]) if "--output=yaml" in sys.argv else "0")
"""


class Script:
    """Runs a script of docker/ with recorders in the place of the tools of containers and clouds.

    None of them is on every machine, and none may do anything here; what they are told to do is what is tested.
    """

    TOOLS = ("docker", "gcloud", "kubectl")

    def __init__(self, directory):
        self.directory = directory
        self._log = directory / "log.jsonl"
        tools = directory / "tools"
        tools.mkdir()
        for name in self.TOOLS:
            path = tools / name
            path.write_text(_RECORDER.format(python=sys.executable, log=str(self._log)))
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        self._variables = {name: value for name, value in os.environ.items() if not name.startswith("SEED_RL_")}
        self._variables["PATH"] = f"{tools}{os.pathsep}{os.environ['PATH']}"

    def run(self, script, *arguments):
        """Runs it to its end."""
        return subprocess.run(
            [str(ROOT / "docker" / script), *map(str, arguments)],
            cwd=self.directory,
            env=self._variables,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=60,
        )

    def started(self, *command):
        """A process at the head of a group of its own."""
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.Popen(command, cwd=self.directory, env=self._variables, start_new_session=True, **quiet)

    def done(self, script, *arguments):
        """What it prints; it must succeed."""
        done = self.run(script, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def mistake(self, script, *arguments):
        """The sentence that it fails with, having called nothing."""
        done = self.run(script, *arguments)
        assert done.returncode == 2, done.stdout + done.stderr
        assert done.stdout == ""
        assert self.records() == []
        (sentence,) = done.stderr.splitlines()
        return sentence

    def records(self):
        """What the recorders were told, in order."""
        return [json.loads(line) for line in self._log.read_text().splitlines()] if self._log.exists() else []


@pytest.fixture
def script(tmp_path):
    """A `Script` in a directory of its own."""
    directory = tmp_path / "script"
    directory.mkdir()
    return Script(directory)


@pytest.fixture
def secrets(tmp_path):
    """A directory that docker/make_secrets.sh made."""
    directory = tmp_path / "secrets"
    done = subprocess.run([ROOT / "docker/make_secrets.sh", directory], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return directory


@pytest.fixture
def has_no_secret(secrets):
    """Whether a text holds neither the token nor the private key, raw or in base64."""
    import base64

    token = (secrets / "token").read_text().strip()
    key = (secrets / "key.pem").read_text()
    assert len(token) == 64
    parts = [token, key.splitlines()[1], *(base64.b64encode(text.encode()).decode()[:40] for text in (token, key))]

    def check(text):
        return not any(part in text for part in parts)

    assert not check(f"x{token}y")
    return check
