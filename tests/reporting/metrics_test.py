import json

import numpy as np
import pytest

from seed_rl.reporting.metrics import EpisodeWindow, MetricsFile, read


def write(logdir, resume, *frames):
    file = MetricsFile(str(logdir), resume)
    file.open()
    for n in frames:
        file.write({"env_frames": n, "loss/total": n / 10}, wall_time=1000.0 + n)
    file.close()


def test_rows_are_json_lines(tmp_path):
    write(tmp_path, None, 10, 20)
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert lines == ['{"env_frames": 10, "loss/total": 1.0}', '{"env_frames": 20, "loss/total": 2.0}']
    assert read(str(tmp_path)) == [json.loads(line) for line in lines]


def test_a_resumed_run_continues_the_rows_from_its_checkpoint(tmp_path):
    write(tmp_path, None, 10, 20, 30)
    write(tmp_path, 20, 25, 35)
    assert [row["env_frames"] for row in read(str(tmp_path))] == [10, 20, 25, 35]


def test_what_a_power_failure_left_unreadable_ends_the_rows_that_are_kept(tmp_path):
    write(tmp_path, None, 10, 20)
    with open(tmp_path / "metrics.jsonl", "ab") as file:
        file.write(bytes(100) + b"\n")
    write(tmp_path, 20, 30)
    assert [row["env_frames"] for row in read(str(tmp_path))] == [10, 20, 30]


def test_a_line_cut_short_by_a_kill_is_dropped(tmp_path):
    write(tmp_path, None, 10)
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write('{"env_frames": 2')
    assert [row["env_frames"] for row in read(str(tmp_path))] == [10]
    write(tmp_path, 10, 20)
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["env_frames"] for line in lines] == [10, 20]


def test_episode_window_means_the_last_episodes():
    window = EpisodeWindow(100)
    assert window.means() == {}
    window.add(np.full(50, -100.0), np.full(50, 1))
    window.add(np.arange(100.0), np.full(100, 4))
    assert window.means() == {"episode_return": pytest.approx(49.5), "episode_length": 4.0}
    assert window.count == 150


def test_episode_window_round_trip():
    window, other = EpisodeWindow(5), EpisodeWindow(5)
    window.add(np.array([1.0, 2.0]), np.array([3, 4]))
    other.set_state(json.loads(json.dumps(window.get_state())))
    assert other.get_state() == window.get_state()


def test_a_run_without_a_checkpoint_begins_its_curves_anew(tmp_path):
    write(tmp_path, None, 0, 10)
    write(tmp_path, None, 0, 15)
    assert [row["env_frames"] for row in read(str(tmp_path))] == [0, 15]
