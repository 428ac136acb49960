"""A learner and an actor with a network between them that breaks."""

import re

from tests.transport.cable import Cable


def test_catch_is_learned_through_a_network_that_breaks(runs, rows, wait_for, tmp_path):
    logdir = str(tmp_path / "catch")
    bindings = ("Catch.rows=6", "Catch.columns=3", "Actors.groups_per_actor=4", "Logs.metrics_interval_s=0.5")
    learner = runs.start(
        *("learner", "--gin_file=catch/vtrace", *(f"--gin_param={binding}" for binding in bindings)),
        *("--total_frames=120000", f"--logdir={logdir}", "--server_address=localhost:0"),
    )
    address = wait_for(lambda: re.search(r"serving actors at (localhost:\d+)", learner.text()), learner)[1]
    cable = Cable(address)
    actor = runs.start("actor", f"--server_address={cable.address}", "--noshare_memory")
    wait_for(lambda: any(row["env_frames"] > 30_000 for row in rows(logdir)), learner)
    assert cable.break_connections() == 1, "an actor has one connection"
    assert learner.wait() == 0, learner.text()
    cable.close()
    observation_bytes = 18
    assert cable.bytes_up > 120_000 * observation_bytes, "steps travel over the wire"
    assert rows(logdir)[-1]["episode_return"] > 0.6, "at random it is about -0.3"
    assert rows(logdir)[-1]["discarded_unrolls"] > 0
    assert actor.text().count("joined with 64 environments") >= 2, actor.text()
    assert "Traceback" not in actor.text() + learner.text()
