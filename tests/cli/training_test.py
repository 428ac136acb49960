"""How `seed_rl train` ends."""

import math
import signal
import sys
from types import SimpleNamespace

import pytest

from seed_rl.cli.commands import training
from seed_rl.cli.main import main
from seed_rl.experiment import config_files
from seed_rl.reporting.metrics import settled_return
from tests.cli.display_test import ROW


class Rows:
    """A run that yields rows of metrics until it is asked to end."""

    logdir, index, learners = "runs/catch", 0, 1
    returns = (0.9, -0.5, 0.25, 0.5)

    def __init__(self, experiment):
        self.experiment = experiment

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.stop = None

    def train(self, stop):
        for number, value in enumerate(self.returns):
            if not stop.is_set():
                yield ROW | {"env_frames": 1000.0 * number, "episodes": 60.0 * (number + 1), "episode_return": value}


def ended(monkeypatch, capsys, *flags):
    monkeypatch.setattr(training, "_new_run", lambda values, experiment, actors: Rows(experiment))
    code = main(["train", "catch/vtrace", *flags])
    said = capsys.readouterr()
    return code, said.out.count(" frames, "), said.err


@pytest.mark.parametrize(
    ("flags", "code", "rows", "words"),
    [
        (["--target_return=0.2"], 0, 3, "a mean return of 0.25 is reached"),
        (["--target_return=0.75"], 1, 4, "not reached: after 3,000 frames and 40s, the best mean return is 0.5"),
        (["--target_return=-1", "--max_minutes=2"], 1, 0, "not reached: the run was over before it wrote any metrics"),
        (["--target_return=0", "--gin_param=Actors.num_eval_envs=16"], 1, 4, "40s, 0 evaluation episodes had ended"),
    ],
)
def test_a_run_ends_when_the_mean_of_a_hundred_episodes_reaches_the_target_and_fails_without_that(
    flags, code, rows, words, monkeypatch, capsys
):
    over = lambda seconds, stop: SimpleNamespace(start=lambda: seconds == 120 and stop())  # noqa: E731
    monkeypatch.setattr(training.threading, "Timer", over)
    *code_and_rows, sentence = ended(monkeypatch, capsys, *flags)
    assert code_and_rows == [code, rows]
    assert words in sentence


def test_ctrl_c_while_the_run_is_opened_ends_it_before_it_trains(monkeypatch, capsys):
    monkeypatch.setattr(Rows, "__enter__", lambda run: signal.raise_signal(signal.SIGINT))
    assert ended(monkeypatch, capsys) == (130, 0, "seed_rl: interrupted before the first update\n")


@pytest.fixture
def begun(monkeypatch):
    """The experiments of runs that would begin."""
    runs = []
    monkeypatch.setattr(training, "_new_run", lambda values, experiment, actors: runs.append(experiment))
    monkeypatch.setattr(training, "_train", lambda values, run: 0)
    return runs


def test_files_without_a_flag_come_before_those_with_one(begun, tmp_path):
    (tmp_path / "mine.gin").write_text("VTrace.hidden = 7\n")
    assert main(["train", f"--gin_file={tmp_path}/mine.gin", "atari/vtrace_fast"]) == 0
    assert begun[0].agent.hidden == 7


def test_a_log_directory_alone_continues_its_run_with_other_settings_if_wanted(begun, tmp_path, monkeypatch):
    before = config_files.load("catch/r2d2", ["Experiment.seed = 7"])
    config_files.save_config(before, str(tmp_path))
    (tmp_path / "config.gin").write_text("import left_there")
    (tmp_path / "left_there.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["learner", f"--logdir={tmp_path}"]) == 0
    changes = ["--total_frames=7M", "--gin_param=Logs.metrics_interval_s=3", "--agent=r2d2"]
    assert main(["train", f"--logdir={tmp_path}", *changes]) == 0
    assert begun[0] == before
    assert (begun[1].seed, begun[1].total_frames, begun[1].logs.metrics_interval_s) == (7, 7_000_000, 3)
    for wrong in ("--agent=ppo", "--gin_param=VTrace.hidden=7", "--gin_param=Replay.ratio=0"):
        assert main(["train", f"--logdir={tmp_path}", wrong]) == 2
    assert len(begun) == 2
    assert "left_there" not in sys.modules, "what is there is not executed"


def test_evaluations_count_from_the_tenth_episode_on_after_two_of_each_environment():
    row = {"episodes": 200, "eval/episode_return": 18.0}
    assert settled_return(row | {"eval/episodes": 17}, "eval/episode_return", 4) == -math.inf
    assert settled_return(row | {"eval/episodes": 18}, "eval/episode_return", 4) == 18.0
