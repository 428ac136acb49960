"""The actor of docs/guides/language.md steps environments for a real learner, and then for its policy."""

import contextlib
import io
import os
import pathlib
import re
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor

from seed_rl.api import ELSEWHERE, Run, load_experiment
from seed_rl.cli.main import main
from tests.support.ports import free_addresses

ROOT = pathlib.Path(__file__).resolve().parents[2]
SETTINGS = ("Catch.rows = 6", "Experiment.total_frames = 3_200", "Logs.metrics_interval_s = 0.2")
ROW = r"32 environments of 1 client, [\d,]+ steps/s, return -?\d.\d\d after [\d,]+ episodes, checkpoint-\d+.npz \("


def build(folder):
    """Run the commands at the top of the example, from `mkdir` on, with another folder; return the program."""
    comment = (ROOT / "examples" / "catch_actor.cc").read_text().split("\n\n")[0]
    _, *commands, _ = re.findall(r"^//     (.*)$", comment, re.MULTILINE)
    script = "\n".join(commands).replace("build", str(folder))
    done = subprocess.run(["bash", "-euc", script], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return (str(folder / "catch_actor"),)


def test_an_actor_in_another_language_steps_environments_for_a_learner_and_for_its_policy(runs, wait_for, tmp_path):
    program, (address,), logdir = build(tmp_path / "build"), free_addresses(1), f"{tmp_path}/run"
    experiment = load_experiment(["catch/vtrace"], SETTINGS)
    with Run(experiment, logdir, actors=ELSEWHERE, address=address) as run:
        rows = run.train()
        assert next(rows)["environments"] == 0, "the learner waits for actors"
        actor = runs.start(address, program=program)
        *_, last = rows
    assert actor.wait() == 0
    assert actor.text() == "joined with 2 groups of 16 environments\nthe run is over\n"
    assert last["env_frames"] >= 3_200
    assert last["episode_length"] == 5, "as many steps as the ball falls rows"
    assert -1 <= last["episode_return"] < 1

    shown = io.StringIO()

    def play():
        try:
            wait_for(lambda: "0 environments" in shown.getvalue())
            actor = runs.start(address, program=program)
            wait_for(lambda: re.search(ROW, shown.getvalue()))
        finally:
            if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # `serve` is still there
                os.kill(os.getpid(), signal.SIGINT)
        return actor

    with ThreadPoolExecutor(1) as pool, contextlib.redirect_stdout(shown):
        playing = pool.submit(play)
        code = main(["serve", logdir, "--checkpoint=newest", f"--server_address={address}"])
    actor = playing.result()
    assert (code, actor.wait()) == (128 + signal.SIGINT, 1)
    assert actor.text().splitlines()[-1] == "14: the learner is stopping"
