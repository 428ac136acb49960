"""Runs on several devices and on several hosts, through the command line, in real processes."""

import os
import signal
import socket

CATCH = ("--gin_file=catch/vtrace", "--gin_param=Logs.metrics_interval_s=0.5")
SAVE_OFTEN = "--gin_param=Logs.checkpoint_interval_s=1"
FOUR_DEVICES = (
    "Devices.logical_cpus = 4",
    "Devices.inference = ('CPU:0', 'CPU:1')",
    "Devices.training = ('CPU:2', 'CPU:3')",
)


def test_what_several_devices_have_learned_one_goes_on_with(runs, rows, tmp_path):
    logdir = f"--logdir={tmp_path}/run"
    many = runs.run("train", *CATCH, logdir, "--total_frames=60000", *(f"--gin_param={b}" for b in FOUR_DEVICES))
    assert many.returncode == 0, many.text()
    assert "training on CPU:2, CPU:3, acting on CPU:0, CPU:1" in many.text()
    assert " W " not in many.text(), "no warnings"
    before = rows(f"{tmp_path}/run")[-1]
    assert 0 <= before["inference_updates_behind"] < 1, "the copies are refreshed after every update"
    one = runs.run("train", *CATCH, logdir, "--total_frames=90000")
    assert one.returncode == 0, one.text()
    assert f"continuing from {tmp_path}/run/checkpoints/checkpoint-{int(before['learner_updates']):012d}" in one.text()
    after = rows(f"{tmp_path}/run")[-1]
    assert before["env_frames"] >= 60_000
    assert after["env_frames"] >= 90_000
    assert after["env_frames"] == 16 * 20 * after["learner_updates"], "a batch counts the same on any number of devices"


def free_ports(count):
    sockets = [socket.create_server(("localhost", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def test_two_hosts_train_one_model_and_go_on_after_one_was_lost(runs, rows, wait_for, tmp_path):
    logdir = f"{tmp_path}/run"
    directories = (logdir, f"{logdir}/host-1")

    def start(*arguments):
        hosts = ",".join(f"localhost:{port}" for port in free_ports(2))
        return [
            runs.start(
                "train",
                *CATCH,
                f"--logdir={logdir}",
                f"--learner_hosts={hosts}",
                f"--learner_host={index}",
                SAVE_OFTEN,
                *arguments,
            )
            for index in (0, 1)
        ]

    first, second = start("--total_frames=1000000000")
    wait_for(lambda: os.path.isdir(f"{logdir}/checkpoints") and os.listdir(f"{logdir}/checkpoints"), first, timeout=120)
    wait_for(lambda: all(rows(directory) for directory in directories), second)
    second.process.kill()
    assert first.wait(60) == 1, first.text()
    assert "seed_rl train: another learner host is gone" in first.text()
    assert "Traceback" not in first.text()
    assert not os.listdir(f"{logdir}/host-1/checkpoints"), "one checkpoint, written by the first"
    trained = rows(logdir)[-1]["env_frames"]

    first, second = start("--total_frames=1000000000")
    wait_for(lambda: "continuing from" in first.text(), first, timeout=120)
    for directory, host in zip(directories, (first, second), strict=True):
        wait_for(lambda directory=directory: rows(directory)[-1]["env_frames"] > trained + 5000, host, timeout=120)
    second.process.send_signal(signal.SIGTERM)
    assert second.wait(60) == 128 + signal.SIGTERM, second.text()
    assert first.wait(60) == 0, first.text()
    last = [rows(directory)[-1] for directory in directories]
    assert last[0]["learner_updates"] == last[1]["learner_updates"]
    assert last[0]["env_frames"] == 16 * 20 * last[0]["learner_updates"], "the batch is that of both"
