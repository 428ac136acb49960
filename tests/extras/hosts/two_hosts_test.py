"""Runs of two learner hosts, through the command line, in real processes."""

import os
import re
import signal

import pytest

from tests.integration.devices_test import CATCH, FRAMES_PER_BATCH
from tests.support.ports import free_addresses

THREE_DEVICES = ("Devices.logical_cpus = 3", "Devices.inference = ('CPU:0',)", "Devices.training = ('CPU:1', 'CPU:2')")


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
