"""A run on several devices, through the command line, in real processes."""

import contextlib

from seed_rl.experiment import config_files
from seed_rl.runs.assembly import Assembly
from tests.runs.conftest import BINDINGS

CATCH = ("--gin_file=catch/vtrace", *(f"--gin_param={binding}" for binding in BINDINGS))
FRAMES_PER_BATCH = 4 * 20
FOUR_DEVICES = (
    "Devices.logical_cpus = 4",
    "Devices.inference = ('CPU:0', 'CPU:1')",
    "Devices.training = ('CPU:2', 'CPU:3')",
)


def test_a_run_on_several_devices_can_be_continued_on_one(runs, rows, documented, tmp_path):
    logdir, devices = f"{tmp_path}/run", (f"--gin_param={binding}" for binding in FOUR_DEVICES)
    run = runs.run("train", *CATCH, f"--logdir={logdir}", f"--total_frames={4 * FRAMES_PER_BATCH}", *devices)
    assert run.returncode == 0, run.text()
    assert "training on CPU:2, CPU:3, acting on CPU:0, CPU:1" in run.text()
    assert " W " not in run.text(), "no warnings"
    last = rows(logdir)[-1]
    assert 0 <= last["inference_updates_behind"] < 1, "the copies are refreshed after every update"
    updates, frames = last["learner_updates"], last["env_frames"]
    assert (updates, frames) == (4, 4 * FRAMES_PER_BATCH), "a batch has the same size on any number of devices"
    assert {"loss/policy", "inference_updates_behind"} <= documented(logdir)
    with contextlib.ExitStack() as cleanup:
        parts = Assembly().parts(config_files.load("catch/vtrace", BINDINGS), logdir, cleanup)
    assert (parts.progress.counters.learner_updates, parts.progress.counters.env_frames) == (updates, frames)
