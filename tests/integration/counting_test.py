"""The counting environment and the counting agent, through real actor processes and the real server."""

import collections
import os
import signal
from unittest.mock import Mock

import numpy as np
import tensorflow as tf

from seed_rl.experiment import Actors, Experiment, Inference, Logs
from seed_rl.learner.replicas import Replicas
from seed_rl.learner.train_step import UpdateResult
from seed_rl.runs.fleet import LocalActors
from seed_rl.runs.run import Run
from tests.support.counting import Counting
from tests.support.counting_agent import CountingAgentConfig, place, relations


class InferenceDevices(Replicas):
    """Two inference threads in the place of devices, each with a store and a part of each batch."""

    def __init__(self, experiment):
        super().__init__(experiment)
        self.inference_devices = ("", "")

    def acting_agents(self, agent, build, whole_weights=False):
        return [agent] * 2, lambda: None

    def reader(self, store, number=0):
        return lambda addresses: [store.read(addresses)]

    def join(self, parts):
        return parts


def unrolls_of(parts):
    """The unrolls of a batch, as numpy arrays without the batch axis."""
    for part in parts:
        steps = tf.nest.map_structure(lambda t: t.numpy(), part)
        for b, state in enumerate(steps.initial_state):
            one = tf.nest.map_structure(lambda t, b=b: t[:, b], steps._replace(initial_state=()))
            yield one._replace(initial_state=state)


def check_against_previous(unroll, previous, stride):
    """The relations between an unroll and the one before it of the same run, or the run's beginning."""
    counters = unroll.env_output.observation
    if previous is None:
        if counters[0, 3] == 0:
            assert unroll.prev_action[0] == 0
            assert unroll.initial_state == 0
            assert unroll.env_output.reward[0] == 0
        return
    assert place(counters[0]) == place(previous.env_output.observation[0]) + stride, "no unroll is missing"
    overlap = len(counters) - stride
    tf.nest.map_structure(
        lambda now, before: np.testing.assert_array_equal(now[:overlap], before[stride:]),
        unroll._replace(initial_state=()),
        previous._replace(initial_state=()),
    )
    assert unroll.initial_state == previous.behaviour[stride - 1], "the state before the first step"


def test_every_boundary_is_exact_across_restarts_of_an_actor(tmp_path):
    experiment = Experiment(
        env=Counting(shortest_episode=3),
        agent=CountingAgentConfig(unroll_length=4, overlap=6),
        actors=Actors(num_actors=2, groups_per_actor=2, envs_per_group=3, num_eval_envs=0),
        inference=Inference(max_batch_size=6, max_wait_ms=1.0),
        batch_size=4,
        logs=Logs(metrics_interval_s=0.1),
    )
    stride, num_envs = experiment.agent.unroll_length, experiment.actors.num_envs
    actors = LocalActors(2, str(tmp_path / "actors"), [f"--import_module={Counting.__module__}"])
    last, counts = {}, collections.Counter()

    def look_at(parts, *_):
        """In the place of an update."""
        assert len(parts) == 2
        for unroll in unrolls_of(parts):
            for name, holds in relations(unroll).items():
                assert np.all(holds), name
            seed = int(unroll.env_output.observation[0, 0])
            check_against_previous(unroll, last.get(seed), stride)
            last[seed] = unroll
            counts[seed] += 1
        return UpdateResult({}, np.zeros(0), optimizer_steps=0, left_out=0)

    def put_together(assembly):
        return assembly._replace(
            replicas=lambda parts: InferenceDevices(parts.experiment),
            train_step=lambda parts: Mock(side_effect=look_at, variables={}),
        )

    with Run(experiment, str(tmp_path / "run"), actors=lambda logs: actors, changes=[put_together]) as run:
        rows = run.train()
        row = next(row for row in rows if len(counts) == num_envs and min(counts.values()) >= 8)
        assert row["discarded_unrolls"] == 0
        pids = [process.pid for process in actors._handles]
        for pid in pids:
            with open(f"/proc/{pid}/maps") as maps:
                assert "tensorflow" not in maps.read()
        assert any(place(unroll.env_output.observation[0]) % stride for unroll in last.values()), "they are staggered"

        before = set(counts)
        os.kill(pids[0], signal.SIGKILL)
        new = lambda: [count for seed, count in counts.items() if seed not in before]  # noqa: E731
        next(row for row in rows if len(new()) == num_envs // 2 and min(new()) >= 3)
        then = dict(counts)
        going = lambda: [seed for seed in before if counts[seed] > then[seed]]  # noqa: E731
        row = next(row for row in rows if len(going()) >= num_envs // 2 and min(new()) >= 8)
        assert len(going()) == num_envs // 2, "the runs of the killed actor have ended, and no other"
        assert actors.restarts == 1
        assert row["discarded_unrolls"] > 0, "those that the killed actor had begun"
        assert len(counts) == num_envs + num_envs // 2
