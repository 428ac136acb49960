"""A run whose disk is full for a while, and at its end."""

import resource
import signal

from seed_rl.weights.checkpoints import load, paths

SMALL = 250_000  # bytes: less than a checkpoint of this run, more than its metrics and logs
FAILS = "checkpoints can't be written (File too large): training continues, with retries"
WORKS = "checkpoints can be written again"


def test_a_full_disk_does_not_end_a_run_but_a_lost_last_checkpoint_is_an_error(runs, rows, wait_for, tmp_path):
    logdir, checkpoints = f"{tmp_path}/run", f"{tmp_path}/run/checkpoints"
    run = runs.start(
        *("train", "--gin_file=catch/vtrace", f"--logdir={logdir}", "--total_frames=1000000000"),
        *("--gin_param=Logs.checkpoint_interval_s=0.3", "--gin_param=Logs.metrics_interval_s=1.0"),
        "--gin_param=VTrace.hidden=512",
    )

    def fill_disk(is_full):
        unlimited = resource.RLIM_INFINITY
        resource.prlimit(run.pid, resource.RLIMIT_FSIZE, (SMALL if is_full else unlimited, unlimited))

    wait_for(lambda: paths(checkpoints), run)
    fill_disk(True)
    wait_for(lambda: FAILS in run.text(), run)
    kept, before = paths(checkpoints), len(rows(logdir))
    wait_for(lambda: len(rows(logdir)) >= before + 3, run)  # each is several times the interval between checkpoints
    assert paths(checkpoints) == kept
    fill_disk(False)
    wait_for(lambda: WORKS in run.text(), run)
    wait_for(lambda: paths(checkpoints)[-1] != kept[-1], run)
    fill_disk(True)
    run.process.send_signal(signal.SIGINT)
    assert run.wait() == 1

    newest = paths(checkpoints)[-1]
    last_line = run.text().splitlines()[-1]
    assert last_line.endswith(f"the last checkpoint can't be written (File too large); {newest} is the newest there is")
    assert "Logging error" not in run.text()
    assert load(newest)[1]["counters"]["learner_updates"] > 0
