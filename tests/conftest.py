"""Settings of every test run, which must precede the first import of TensorFlow and grpc."""

import gc
import os
import pathlib
import re
import signal

import pytest

from tests.support.deadlines import within

# Processes that tests start find the same tree, `tests.support` included, wherever they run.
_ROOT = str(pathlib.Path(__file__).resolve().parents[1])
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [_ROOT, os.environ.get("PYTHONPATH")]))

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # what its handlers print is taken for what a child says


# A shell that starts the tests in the background makes them ignore SIGINT, and nohup SIGHUP.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

os.environ.setdefault("PYTEST_TIMEOUT", f"{within(300):.0f}")  # seconds per test

# Half of the time that XLA takes for a program goes into making it faster than it needs to be here.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

pytest_plugins = ["tests.support.processes"]

NOT_QUICK = (
    "benchmarks",
    "cli",
    "docker",
    "docs",
    "envs/football_test.py",
    "envs/pictures_test.py",
    "evaluation",
    "examples_test.py",
    "extras",
    "globals_test.py",
    "hostile",
    "integration",
    "learner/replicas_test.py",
    "packaging_test.py",
    "reporting/wandb_run_test.py",
    "runs",
    "system/signals_test.py",
)
"""Folders and modules that `--quick` leaves out: they start processes, or need the football engine."""


def pytest_addoption(parser):
    parser.addoption("--quick", action="store_true", help="unit tests only")
    parser.addoption("--hostile", action="store_true", help="only the attacks, in full")
    parser.addoption("--neighbours", action="store_true", help="only the quick tests without each neighbour, in full")
    parser.addoption("--accelerators", action="store_true", help="only the compilation for accelerators, in full")


def pytest_collection_modifyitems(items, config):
    items[:] = [item for item in items if bool(item.get_closest_marker("neighbours")) == config.getoption("neighbours")]
    # Workers begin with their first test and give away their last ones: in front, all of these run in one worker, and
    # their cluster is started once.
    items.sort(key=lambda item: item.path.name != "ray_test.py")


def pytest_ignore_collect(collection_path, config):
    name = collection_path.relative_to(pathlib.Path(__file__).parent).as_posix()
    if config.getoption("hostile") and not f"{name}/".startswith(("./", "hostile/")):
        return True
    if config.getoption("accelerators") and collection_path.is_file() and name != "benchmarks/compile_for_test.py":
        return True
    if name == "hostile/kill_test.py" and not config.getoption("hostile"):  # it takes minutes
        return True
    return True if config.getoption("quick") and name in NOT_QUICK else None


gc.disable()  # until all is imported


def pytest_collection_finish():
    """What is imported by now stays: to search it for garbage again and again takes a twentieth of the time."""
    gc.freeze()
    gc.enable()


@pytest.fixture
def refused(capsys, tmp_path, monkeypatch):
    """Check that a command line ends with exit code 2 and one line, which matches a pattern, and begins nothing."""

    from seed_rl.cli.main import main

    def check(line, sentence):
        monkeypatch.chdir(tmp_path)
        assert main(line.split()) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert len(err.splitlines()) == 1, err
        assert re.search(sentence, err), err
        assert list(tmp_path.iterdir()) == [], "nothing was begun"

    return check
