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


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run whose files can't grow beyond `SMALL`, then can, and at the end can't; its log directory, output, code."""
    directory = tmp_path_factory.mktemp("full_disk")
    logdir, output = directory / "run", directory / "output"
    with open(output, "wb") as file:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "seed_rl", "train", "--gin_file=catch/vtrace", f"--logdir={logdir}"),
                *("--total_frames=1000000000", "--gin_param=Logs.checkpoint_interval_s=0.3"),
                *("--gin_param=VTrace.hidden=512", "--gin_param=Logs.metrics_interval_s=1.0"),
            ],
            stdout=file,
            stderr=file,
            stdin=subprocess.DEVNULL,
        )

    def wait_for(what):
        deadline = time.monotonic() + 120
        while not what():
            assert process.poll() is None, output.read_text()
            assert time.monotonic() < deadline, output.read_text()
            time.sleep(0.05)

    def full(is_full):
        unlimited = resource.RLIM_INFINITY
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (SMALL if is_full else unlimited, unlimited))

    checkpoints = str(logdir / "checkpoints")
    try:
        wait_for(lambda: paths(checkpoints))
        full(True)
        wait_for(lambda: "checkpoints can't be written" in output.read_text())
        kept = paths(checkpoints)
        metrics = (logdir / "metrics.jsonl").read_text
        rows = metrics().count("\n")
        wait_for(lambda: metrics().count("\n") >= rows + 3)  # each is several times the interval between checkpoints
        assert paths(checkpoints) == kept
        full(False)
        wait_for(lambda: "checkpoints can be written again" in output.read_text())
        wait_for(lambda: paths(checkpoints)[-1] != kept[-1])
        full(True)
        process.send_signal(signal.SIGINT)
        process.wait(60)
    finally:
        process.kill()
        process.wait()
    return logdir, output.read_text(), process.returncode


def test_a_full_disk_is_told_once_and_so_is_its_end(run):
    _, text, _ = run
    told = re.findall(r"checkpoints can.*", text)
    failing = "checkpoints can't be written (File too large): training goes on and tries again"
    assert told[:2] == [failing, "checkpoints can be written again"]
    assert told[2:] in ([], [failing])  # it may have tried once more before it was stopped
    assert "Logging error" not in text


def test_the_last_checkpoint_that_could_be_written_is_whole(run):
    logdir = run[0]
    written = paths(str(logdir / "checkpoints"))
    assert load(written[-1])[1]["learner_updates"] > 0
    assert all(name.endswith(".npz") for name in os.listdir(logdir / "checkpoints")), "nothing half written is left"
    assert os.path.getsize(written[-1]) > SMALL


def test_a_last_checkpoint_that_cannot_be_written_is_told_in_a_sentence_and_by_the_exit_code(run):
    logdir, text, code = run
    newest = paths(str(logdir / "checkpoints"))[-1]
    last = text.splitlines()[-1]
    assert last.endswith(f"the last checkpoint can't be written (File too large); {newest} is the newest there is")
    assert code == 1
