"""A run on several devices, through the command line, in real processes."""

from seed_rl.api import THREADS, Run
from seed_rl.experiment import config_files
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
    longer = config_files.load("catch/vtrace", [*BINDINGS, f"Experiment.total_frames = {6 * FRAMES_PER_BATCH}"])
    with Run(longer, logdir, actors=THREADS) as one:
        last = [*one.train()][-1]
    assert (last["learner_updates"], last["env_frames"]) == (6, 6 * FRAMES_PER_BATCH)
