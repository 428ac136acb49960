"""The actor of docs/guides/language.md trains a real learner, and then plays with its policy."""

import pathlib
import re
import signal
import subprocess

from tests.support.ports import free_addresses

ACTOR = pathlib.Path(__file__).resolve().parents[2] / "examples" / "node_actor.mjs"


def test_an_actor_in_javascript_steps_environments_for_a_learner_and_for_its_policy(runs, rows, wait_for, tmp_path):
    (address,) = free_addresses(1)
    flags = ("--gin_file=catch/vtrace", "--gin_param=Catch.rows=6", f"--server_address={address}", "--insecure")
    flags += ("--gin_param=Logs.metrics_interval_s=0.2",)
    learner = runs.start("learner", *flags, "--total_frames=9_600", f"--logdir={tmp_path}/run")
    wait_for(lambda: "serving actors" in learner.text(), learner)
    actor = subprocess.run(["node", ACTOR, f"http://{address}"], capture_output=True, text=True, timeout=120)
    assert learner.wait(60) == 0, learner.text()
    assert actor.stdout == "joined with 2 groups of 16 environments\n"
    assert (actor.returncode, actor.stderr) == (0, "the run is over\n")
    last = rows(f"{tmp_path}/run")[-1]
    assert last["env_frames"] >= 9_600
    assert last["episode_length"] == 5, "as many steps as the ball falls rows"
    assert -1 <= last["episode_return"] < 1

    server = runs.start("serve", f"{tmp_path}/run", "--checkpoint=newest", f"--server_address={address}")
    wait_for(lambda: "serving" in server.text(), server)
    actor = runs.start(ACTOR, f"http://{address}", program=("node",))
    row = r"32 environments of 1 client, [\d,]+ steps/s, return -?\d.\d\d after [\d,]+ episodes, checkpoint-\d+.npz \("
    wait_for(lambda: re.search(row, server.text()), server)
    server.process.send_signal(signal.SIGINT)
    assert (server.wait(30), actor.wait(30)) == (130, 1)
    assert actor.text().splitlines()[-1] == "14: the learner is stopping"
