"""The queue of Atari games, and the scores that it reads from metrics; nothing is trained."""

import json
import shlex

import pytest

from benchmarks import BenchmarkError, atari
from benchmarks.__main__ import parse
from benchmarks.runs import BenchmarkRun
from seed_rl.experiment import config_files

FRAMES = 6_000_000


def rows_of(frames=FRAMES, step=250_000):
    """A run in which an episode ends every 10,000 frames, with a return that is the million in which it ended."""
    total, rows = 0.0, []
    for now in range(0, frames + 1, step):
        total += step / 10_000 * ((now - 1) // 1_000_000) if now else 0.0
        row = {"env_frames": now, "seconds": now / 10_000, "episodes": now // 10_000, "total_return": total}
        rows.append({**row, "episode_return": now / 1e6, "policy/mean_value": 1.0, "learning/entropy_share": 0.9})
    return rows


def test_a_score_is_the_mean_of_the_episodes_of_the_last_million_frames():
    rows = rows_of()
    assert atari.reading(rows, 5_000_000) == {"frames": 5_000_000, "score": 4.0, "episodes": 100}
    between = {"frames": 5_600_000, "score": (25 * 4 + 75 * 5) / 100, "episodes": 100}
    assert atari.reading(rows, 5_600_000) == between, "read at the first row with as many frames, 5,750,000"
    assert atari.reading(rows, 500_000) == {"frames": 500_000, "score": 0.0, "episodes": 50}, "of all episodes"
    without = [{**row, "episodes": 7, "total_return": 70.0} for row in rows]
    assert atari.reading(without, FRAMES) == {"frames": FRAMES, "score": None, "episodes": 0}
    assert atari.summary(without, FRAMES)["best_return"] is None, "no mean was one of 100 episodes"


def test_a_run_is_read_on_the_way_and_at_its_end():
    rows = rows_of()
    rows[3] |= {"policy/mean_value": -70.0, "learning/entropy_share": 0.2}
    summary = atari.summary(rows, FRAMES)
    assert [each["frames"] for each in summary["scores"]] == [5_000_000, 6_000_000]
    assert [each["score"] for each in summary["scores"]] == [4.0, 5.0]
    assert (summary["max_abs_value"], summary["min_entropy_share"]) == (70.0, 0.2)
    assert (summary["best_return"], summary["minutes"]) == (6.0, 10.0)
    assert atari.summary(rows, 2 * FRAMES)["scores"] == summary["scores"][:1], "its end has not been reached"
    assert atari.summary([], FRAMES)["scores"] == []


def test_a_thinned_curve_has_the_last_row_of_each_stretch_and_the_extremes_of_all():
    rows = rows_of(step=10_000)
    rows[1] |= {"policy/mean_value": -70.0}
    rows[-2] |= {"learning/entropy_share": 0.2}
    thin = list(atari.thinned(rows, most=60))
    assert [row["env_frames"] for row in thin] == list(range(100_000, FRAMES + 1, 100_000))
    assert [row["max_abs_value"] for row in thin] == [70.0] + [1.0] * 59
    assert [row["min_entropy_share"] for row in thin] == [0.9] * 59 + [0.2]
    assert list(atari.thinned([])) == []


class Killed(BaseException):
    """Stands for the end of the process: nothing may catch it."""


@pytest.fixture
def queue(monkeypatch, tmp_path):
    """Stands for training: runs write the metrics of 6 million frames; `queue.trained` has the names of each start.

    A run whose name is in `queue.kills` gets to half of its frames and kills the process, one in `queue.fails` fails.
    """

    class Queue:
        trained, kills, fails = [], set(), set()

        @staticmethod
        def __call__(*words):
            flags = [f"--output={tmp_path}/out", f"--logdir={tmp_path}/runs", "--games=pong,qbert", "--frames=6M"]
            return atari.measure(parse("atari", [*flags, *words]))["runs"]

    def train(run, stopped, say):
        run.begin()
        run.failure = "it diverged" if run.trial.name in Queue.fails else None
        Queue.trained.append(run.trial.name)
        killed = run.trial.name in Queue.kills
        with open(f"{run.logdir}/metrics.jsonl", "w", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(row)}\n" for row in rows_of(FRAMES // 2 if killed else FRAMES))
        _, (command, *flags) = run.commands()
        assert (command, flags[:2]) == ("eval", [f"--logdir={run.logdir}", "--greedy"])
        played = {"episodes": 16, "mean": 3.25, "standard_error": None, "mean_length": 9.0, "median": 0.0}
        (output,) = [flag.removeprefix("--output=") for flag in flags if flag.startswith("--output=")]
        with open(output, "w", encoding="utf-8") as file:
            json.dump(played, file)
        if killed:
            Queue.kills.clear()
            raise Killed
        return int(run.failure is not None)

    (tmp_path / "out").mkdir()
    monkeypatch.setattr(BenchmarkRun, "train", train)
    return Queue()


def test_a_queue_that_was_killed_skips_what_is_recorded_and_continues_the_rest(queue, tmp_path, capsys):
    queue.kills.add("qbert_seed=1")
    with pytest.raises(Killed):
        queue()
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"pong_seed=1.csv", "pong_seed=1.json"}

    for path in (tmp_path / "runs" / "pong_seed=1").iterdir():
        path.unlink()  # the machine is another one: it has only what was recorded
    results = queue()
    assert queue.trained == ["pong_seed=1", "qbert_seed=1", "qbert_seed=1"]
    assert "1 of 2 runs left" in capsys.readouterr().out
    assert [(run["game"], run["scores"][-1]["score"], len(run["starts"])) for run in results] == [
        ("pong", 5.0, 1),
        ("qbert", 5.0, 2),
    ]


def test_a_record_has_what_is_needed_to_repeat_its_run(queue, tmp_path):
    queue("--gin_param=VTrace.layer_norm=all")
    record = json.loads((tmp_path / "out" / "pong_seed=1.json").read_text())
    assert "--gin_file=atari/vtrace_fast --gin_param=Atari.sticky_actions=0.25" in record["command"]
    assert record["settings"]["env.sticky_actions"] == 0.25
    assert record["result"]["greedy"] == {"episodes": 16, "mean": 3.25, "standard_error": None, "mean_length": 9.0}
    assert record["settings"]["agent.layer_norm"] == "all"
    bindings = [word.removeprefix("--gin_param=") for word in shlex.split(record["command"])[3:]]
    again = config_files.load(["atari/vtrace_fast"], bindings)
    assert config_files.differences(again, record["settings"]) == []
    curve = (tmp_path / "out" / "pong_seed=1.csv").read_text().splitlines()
    assert curve[0] == ",".join(atari.COLUMNS)
    assert curve[-1].startswith(f"{FRAMES},")
    with pytest.raises(BenchmarkError, match=r"pong_seed=1.* another configuration: agent.layer_norm was 'all'"):
        queue()


def test_a_run_that_failed_is_recorded_and_tried_again(queue):
    queue.fails.add("pong_seed=1")
    results = queue("--seeds=2")
    assert queue.trained == ["pong_seed=1", "qbert_seed=1", "pong_seed=2", "qbert_seed=2"], "first seeds come first"
    assert (results[0]["failure"], results[0]["greedy"]) == ("it diverged", None)
    assert "pong seed 1 failed: it diverged" in atari.table({"runs": results}).splitlines()[-1]
    queue.fails.clear()
    assert "failure" not in queue("--seeds=2")[0]
    assert queue.trained[4:] == ["pong_seed=1"]
