"""Runs on several devices and on several hosts, through the command line, in real processes."""

import os
import re
import signal

import pytest

from tests.support.ports import free_addresses

CATCH = (
    "--gin_file=catch/vtrace",
    "--gin_param=Logs.metrics_interval_s=0.2",
    "--gin_param=Actors.envs_per_group=1",
    "--gin_param=Inference.max_batch_size=1",  # the only one to compile for
    "--gin_param=Experiment.batch_size=4",
)
FRAMES_PER_BATCH = 4 * 20
FOUR_DEVICES = (
    "Devices.logical_cpus = 4",
    "Devices.inference = ('CPU:0', 'CPU:1')",
    "Devices.training = ('CPU:2', 'CPU:3')",
)
THREE_DEVICES = ("Devices.logical_cpus = 3", "Devices.inference = ('CPU:0',)", "Devices.training = ('CPU:1', 'CPU:2')")


def test_a_run_on_several_devices_continues_on_one(runs, rows, documented, tmp_path):
    logdir = f"--logdir={tmp_path}/run"
    many = runs.run(
        "train", *CATCH, logdir, f"--total_frames={10 * FRAMES_PER_BATCH}", *(f"--gin_param={b}" for b in FOUR_DEVICES)
    )
    assert many.returncode == 0, many.text()
    assert "training on CPU:2, CPU:3, acting on CPU:0, CPU:1" in many.text()
    assert " W " not in many.text(), "no warnings"
    before = rows(f"{tmp_path}/run")[-1]
    assert 0 <= before["inference_updates_behind"] < 1, "the copies are refreshed after every update"
    one = runs.run("train", *CATCH, logdir, f"--total_frames={15 * FRAMES_PER_BATCH}")
    assert one.returncode == 0, one.text()
    assert f"continuing from {tmp_path}/run/checkpoints/checkpoint-{int(before['learner_updates']):012d}" in one.text()
    after = rows(f"{tmp_path}/run")[-1]
    assert before["env_frames"] == 10 * FRAMES_PER_BATCH
    assert after["env_frames"] == 15 * FRAMES_PER_BATCH
    updates = [row["learner_updates"] for row in (before, after)]
    assert updates == [10, 15], "a batch has the same size on any number of devices"
    assert {"loss/policy", "inference_updates_behind"} <= documented(f"{tmp_path}/run")


@pytest.fixture
def pair(runs, tmp_path):
    """Starts the pods of an Indexed Job with two learner hosts; only the first has the checkpoints on its disk."""

    def start(*bindings, commands=("train", "train")):
        addresses = ",".join(free_addresses(2))
        common = (*CATCH, "--gin_param=Logs.checkpoint_interval_s=0.5", "--total_frames=1000000000")
        for index, command in enumerate(commands):
            place = [f"--logdir={tmp_path}/disk-{index}", f"--learner_hosts={addresses}"]
            if command == "learner":
                place.append(f"--server_address=unix:{tmp_path}/{index}.sock")
            settings = (f"--gin_param={binding}" for binding in bindings)
            environment = {**os.environ, "JOB_COMPLETION_INDEX": str(index)}
            yield runs.start(command, *common, *settings, *place, env=environment)

    return start


def test_two_hosts_train_one_model_and_go_on_after_the_one_with_the_checkpoints_was_lost(
    pair, rows, wait_for, tmp_path
):
    directories = (f"{tmp_path}/disk-0", f"{tmp_path}/disk-1/host-1")

    def frames(directory):
        return rows(directory)[-1]["env_frames"] if rows(directory) else 0

    hosts = list(pair(*THREE_DEVICES))
    for directory, host in zip(directories, hosts, strict=True):
        wait_for(lambda directory=directory: frames(directory) > 500, host)
        assert "training on CPU:1, CPU:2, acting on CPU:0" in host.text()
    wait_for(lambda: os.listdir(f"{directories[0]}/checkpoints"), hosts[0])
    hosts[0].process.kill()
    left = hosts[1]
    assert left.wait(15) == 1, left.text()
    assert re.fullmatch(
        r"seed_rl train: learner host 0 \(localhost:\d+\) is gone: "
        "start all 2 again, and they continue from the last checkpoint",
        left.text().splitlines()[-1],
    )
    assert "Traceback" not in left.text()
    assert not os.listdir(f"{directories[1]}/checkpoints"), "one checkpoint, written by the first"
    hosts[0].wait()

    first, second = pair(commands=("train", "learner"))  # nobody acts for the second: it has no batches

    def waits():
        last = rows(directories[0])[-1]
        return "serving actors" in second.text() and last["environments"] == 2 and last["updates_per_second"] == 0

    wait_for(waits, first, timeout=120)
    first.process.send_signal(signal.SIGTERM)
    assert first.wait() == 128 + signal.SIGTERM, first.text()
    assert second.wait() == 0, second.text()
    resumed = int(re.search(r"continuing from .* at (\d+) frames", first.text())[1])
    assert resumed > 0
    for host in (first, second):
        assert f"{resumed} frames, {resumed // FRAMES_PER_BATCH} updates" in host.text(), "and none without the second"
