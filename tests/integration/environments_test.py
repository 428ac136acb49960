"""The example of an environment in its own package."""

import importlib
import os
import pathlib
import shutil
import subprocess
import sys

PROJECT = pathlib.Path(__file__).resolve().parents[2] / "examples" / "custom_env"


def test_the_examples_own_tests_pass_where_its_package_is_installed(tmp_path, monkeypatch):
    command = (sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--no-index")
    source = shutil.copytree(PROJECT, tmp_path / "source")  # building leaves files there
    done = subprocess.run([*command, "--target", tmp_path, source], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")])))
    copied = tmp_path / "tests"  # without the files around it
    copied.mkdir()
    shutil.copy(PROJECT / "corridor_test.py", copied)
    settings = (PROJECT / "corridor.gin").read_text()
    assert "40_000" in settings
    (copied / "corridor.gin").write_text(settings.replace("40_000", "8_000"))
    for place in (tmp_path, copied):
        monkeypatch.syspath_prepend(place)
    own = importlib.import_module("corridor_test")
    own.test_it_keeps_the_rules()
    own.test_it_is_learned(tmp_path / "run")
    assert [name for name in vars(own) if name.startswith("test_")] == ["test_it_keeps_the_rules", "test_it_is_learned"]
