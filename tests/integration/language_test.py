"""The actor of docs/guides/language.md trains a real learner."""

import pathlib
import subprocess

from tests.support.ports import free_addresses

ACTOR = pathlib.Path(__file__).resolve().parents[2] / "examples" / "node_actor.mjs"


def test_an_actor_in_javascript_steps_environments_for_a_learner(runs, rows, wait_for, tmp_path):
    (address,) = free_addresses(1)
    flags = ("--gin_file=catch/vtrace", "--gin_param=Catch.rows=6", f"--server_address={address}", "--insecure")
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
