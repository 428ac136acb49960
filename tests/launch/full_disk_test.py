"""A run whose disk is full for a while, and at its end."""

import os
import re
import resource
import signal
import subprocess
import sys
import time

import pytest

from seed_rl.learner.checkpoints import load, paths

SMALL = 250_000  # bytes: less than a checkpoint of this run, more than its metrics and logs
FAILS = "checkpoints can't be written (File too large): training goes on and tries again"
WORKS = "checkpoints can be written again"


@pytest.fixture
def run(tmp_path):
    """A process that trains into `tmp_path / "run"` with its output in `tmp_path / "output"`."""
    with open(tmp_path / "output", "wb") as file:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "seed_rl", "train", "--gin_file=catch/vtrace", f"--logdir={tmp_path}/run"),
                *("--total_frames=1000000000", "--gin_param=Logs.checkpoint_interval_s=0.3"),
                *("--gin_param=VTrace.hidden=512", "--gin_param=Logs.metrics_interval_s=1.0"),
            ],
            stdout=file,
            stderr=file,
            stdin=subprocess.DEVNULL,
        )
    yield process
    process.kill()
    process.wait()


def test_a_full_disk_does_not_end_a_run_but_a_lost_last_checkpoint_is_an_error(run, tmp_path):
    output, metrics = (tmp_path / "output").read_text, (tmp_path / "run/metrics.jsonl").read_text
    checkpoints = str(tmp_path / "run/checkpoints")

    def wait_for(condition):
        deadline = time.monotonic() + 120
        while not condition():
            assert run.poll() is None, output()
            assert time.monotonic() < deadline, output()
            time.sleep(0.05)

    def fill_disk(is_full):
        unlimited = resource.RLIM_INFINITY
        resource.prlimit(run.pid, resource.RLIMIT_FSIZE, (SMALL if is_full else unlimited, unlimited))

    wait_for(lambda: paths(checkpoints))
    fill_disk(True)
    wait_for(lambda: FAILS in output())
    kept, rows = paths(checkpoints), metrics().count("\n")
    wait_for(lambda: metrics().count("\n") >= rows + 3)  # each is several times the interval between checkpoints
    assert paths(checkpoints) == kept
    fill_disk(False)
    wait_for(lambda: WORKS in output())
    wait_for(lambda: paths(checkpoints)[-1] != kept[-1])
    fill_disk(True)
    run.send_signal(signal.SIGINT)
    assert run.wait(60) == 1

    newest = paths(checkpoints)[-1]
    assert (
        output()
        .splitlines()[-1]
        .endswith(f"the last checkpoint can't be written (File too large); {newest} is the newest there is")
    )
    reported = re.findall(r"checkpoints can.*", output())
    assert reported[:2] == [FAILS, WORKS]
    assert reported[2:] in ([], [FAILS])  # it may have tried once more before it was stopped
    assert "Logging error" not in output()
    assert load(newest)[1]["counters"]["learner_updates"] > 0
    assert os.path.getsize(newest) > SMALL
    assert all(name.endswith(".npz") for name in os.listdir(checkpoints)), "nothing half written is left"
