"""A run of two learner hosts, through the command line, in real processes."""

import contextlib
import os
import re

from seed_rl.experiment import config_files
from seed_rl.runs.assembly import Assembly
from tests.integration.devices_test import CATCH
from tests.support.ports import free_addresses

THREE_DEVICES = ("Devices.logical_cpus = 3", "Devices.inference = ('CPU:0',)", "Devices.training = ('CPU:1', 'CPU:2')")
SAVED_FRAMES, SAVED_UPDATES = 100_000, 1_000


def test_two_hosts_go_on_from_the_checkpoint_of_the_first_until_it_is_lost(runs, rows, wait_for, tmp_path):
    """They are started as the pods of an Indexed Job; only the first has the checkpoint on its disk."""
    directories = (f"{tmp_path}/disk-0", f"{tmp_path}/disk-1/host-1")
    with contextlib.ExitStack() as cleanup:
        parts = Assembly().parts(config_files.load("catch/vtrace"), directories[0], cleanup)
        counters = parts.progress.counters
        counters.env_frames, counters.learner_updates = SAVED_FRAMES, SAVED_UPDATES
        parts.saver.save()

    common = (*CATCH, "--gin_param=Logs.checkpoint_interval_s=0.5", "--total_frames=1000000000")
    common += (f"--learner_hosts={','.join(free_addresses(2))}", *(f"--gin_param={each}" for each in THREE_DEVICES))
    hosts = []
    for index in range(2):
        environment = {**os.environ, "JOB_COMPLETION_INDEX": str(index)}
        hosts.append(runs.start("train", *common, f"--logdir={tmp_path}/disk-{index}", env=environment))
    for directory, host in zip(directories, hosts, strict=True):
        wait_for(lambda place=directory: any(row["env_frames"] > SAVED_FRAMES + 500 for row in rows(place)), host)
        assert rows(directory)[-1]["learner_updates"] > SAVED_UPDATES, "both count from the first one's checkpoint"
        assert "training on CPU:1, CPU:2, acting on CPU:0" in host.text()
    assert f"continuing from {directories[0]}/checkpoints/" in hosts[0].text()
    wait_for(lambda: len(os.listdir(f"{directories[0]}/checkpoints")) > 1, hosts[0])
    hosts[0].process.kill()
    left = hosts[1]
    assert left.wait(15) == 75, left.text()
    assert re.match(r"seed_rl train: learner host 0 \(localhost:\d+\) is gone: ", left.text().splitlines()[-1])
    assert "Traceback" not in left.text()
    assert not os.listdir(f"{directories[1]}/checkpoints"), "one checkpoint, written by the first"
