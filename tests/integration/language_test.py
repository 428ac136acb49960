"""The actor of docs/guides/language.md trains a real learner, and then plays with its policy."""

import pathlib
import re
import signal
import subprocess

import pytest

from tests.support.deadlines import within
from tests.support.ports import free_addresses

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def building(tmp_path):
    """The commands at the top of the example, from `mkdir` on, with another folder."""
    comment = (ROOT / "examples" / "catch_actor.cc").read_text().split("\n\n")[0]
    commands = [line.removeprefix("//     ") for line in comment.splitlines() if line.startswith("//     ")]
    script = "\n".join(commands[1:-1]).replace("build", str(tmp_path / "build"))
    with subprocess.Popen(["bash", "-euc", script], cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def test_an_actor_in_another_language_steps_environments_for_a_learner_and_for_its_policy(
    building, runs, rows, wait_for, tmp_path
):
    (address,) = free_addresses(1)
    flags = ("--gin_file=catch/vtrace", "--gin_param=Catch.rows=6", f"--server_address={address}", "--insecure")
    flags += ("--gin_param=Logs.metrics_interval_s=0.2",)
    learner = runs.start("learner", *flags, "--total_frames=3_200", f"--logdir={tmp_path}/run")
    wait_for(lambda: "serving actors" in learner.text(), learner)
    _, complaints = building.communicate(timeout=within(300))
    assert (building.returncode, complaints) == (0, "")
    program = str(tmp_path / "build" / "catch_actor")
    actor = subprocess.run([program, address], capture_output=True, text=True, timeout=within(120))
    assert learner.wait() == 0, learner.text()
    assert actor.stdout == "joined with 2 groups of 16 environments\nthe run is over\n"
    assert (actor.returncode, actor.stderr) == (0, "")
    last = rows(f"{tmp_path}/run")[-1]
    assert last["env_frames"] >= 3_200
    assert last["episode_length"] == 5, "as many steps as the ball falls rows"
    assert -1 <= last["episode_return"] < 1

    server = runs.start("serve", f"{tmp_path}/run", "--checkpoint=newest", f"--server_address={address}")
    wait_for(lambda: "serving" in server.text(), server)
    actor = runs.start(address, program=(program,))
    row = r"32 environments of 1 client, [\d,]+ steps/s, return -?\d.\d\d after [\d,]+ episodes, checkpoint-\d+.npz \("
    wait_for(lambda: re.search(row, server.text()), server)
    server.process.send_signal(signal.SIGINT)
    assert (server.wait(), actor.wait()) == (130, 1)
    assert actor.text().splitlines()[-1] == "14: the learner is stopping"
