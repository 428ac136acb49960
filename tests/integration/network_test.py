"""A learner and an actor with a network between them that delays, and breaks."""

import re

from benchmarks.slow_network import Line, SlowNetwork


def test_catch_is_learned_through_a_network_that_delays_and_breaks(runs, rows, wait_for, tmp_path):
    logdir = str(tmp_path / "catch")
    learner = runs.start(
        "learner",
        "--gin_file=catch/vtrace",
        "--gin_param=Catch.rows=6",
        "--gin_param=Catch.columns=3",
        "--gin_param=Actors.groups_per_actor=4",
        "--gin_param=Logs.metrics_interval_s=0.5",
        "--total_frames=120000",
        f"--logdir={logdir}",
        "--server_address=localhost:0",
    )
    address = wait_for(lambda: re.search(r"serving actors at (\S+) after", learner.text()), learner)[1]
    with SlowNetwork(address, Line(delay_seconds=0.0025)) as network:
        actor = runs.start("actor", f"--server_address={network.address}", "--noshare_memory")
        wait_for(lambda: any(row["env_frames"] > 30_000 for row in rows(logdir)), learner)
        assert network.cut() == 1, "an actor has one connection"
        assert learner.wait(120) == 0, learner.text()
        observation_bytes = 18
        assert network.passed().up > 120_000 * observation_bytes, "steps go over the wire"
    assert rows(logdir)[-1]["episode_return"] > 0.6, "at random it is about -0.3"
    assert rows(logdir)[-1]["discarded_unrolls"] > 0
    assert actor.text().count("joined with 64 environments") >= 2, actor.text()
    assert "Traceback" not in actor.text() + learner.text()
