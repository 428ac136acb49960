"""SIGKILL to a random actor of a run, and to its learner, again and again at random times."""

import os
import random
import signal
import time

from seed_rl.runs.fleet import LocalActors
from tests.support.counting import Counting

MINUTES = float(os.environ.get("SEED_RL_KILL_MINUTES", "2"))
EVERY_SECONDS = 20.0
GIN = """
import tests.support.counting_agent
import tests.support.counting
Experiment.env = @Counting()
Experiment.agent = @CountingAgentConfig()
Experiment.batch_size = 4
Experiment.total_frames = 1_000_000_000
CountingAgentConfig.overlap = 3
CountingAgentConfig.checks = True
Actors.num_actors = 3
Actors.groups_per_actor = 2
Actors.envs_per_group = 3
Logs.metrics_interval_s = 0.5
Logs.checkpoint_interval_s = 2.0
"""


def test_a_run_goes_on_whichever_process_is_killed_and_every_unroll_is_consistent(runs, rows, wait_for, tmp_path):
    (tmp_path / "counting.gin").write_text(GIN)
    logdir, address = f"{tmp_path}/run", f"unix:{tmp_path}/learner.sock"
    flags = (f"--gin_file={tmp_path}/counting.gin", f"--logdir={logdir}", f"--server_address={address}")
    generator, until = random.Random(0), time.monotonic() + 60 * MINUTES
    actors = LocalActors(3, f"{tmp_path}/actors", [f"--import_module={Counting.__module__}"])
    learners, killed = 0, 0

    def start():
        learner = runs.start("learner", *flags)
        wait_for(lambda: "serving actors at" in learner.text(), learner)
        answered = time.monotonic()
        if learners:  # the actors are waiting for it
            wait_for(lambda: " joined from " in learner.text(), learner)
            assert time.monotonic() - answered < 5.0, "of the learner's answer"
        return learner

    def frames():
        return rows(logdir)[-1]["env_frames"] if rows(logdir) else 0

    learner = start()
    actors.start(address)
    try:
        while time.monotonic() < until:
            before = frames()  # a new learner begins at its last checkpoint, and the others are then behind
            wait_for(lambda before=before: frames() > before or frames() < before, learner)
            progress = frames()
            wait_for(lambda progress=progress: frames() > progress, learner)
            time.sleep(generator.uniform(0, EVERY_SECONDS))
            assert learner.process.poll() is None, learner.text()
            assert actors.failed is None
            pids = [process.pid for process in list(actors._handles) if process.poll() is None]
            pid = learner.pid if killed % 2 or not pids else generator.choice(pids)
            os.kill(pid, signal.SIGKILL)
            killed += 1
            if pid == learner.pid:
                learner.wait()
                learners += 1
                learner = start()
        wait_for(lambda: frames() > 0 and rows(logdir)[-1]["environments"] == 18, learner)
        learner.process.send_signal(signal.SIGTERM)
        assert learner.wait() == 128 + signal.SIGTERM, learner.text()
    finally:
        actors.stop()
    assert killed > learners >= 1
    assert "Traceback" not in learner.text()
