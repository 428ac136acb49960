"""The counting environment and the counting agent, through real actor processes and the real server."""

import collections
import contextlib
import os
import signal
import time

import numpy as np
import tensorflow as tf

from seed_rl.experiment import Actors, Experiment, Inference
from seed_rl.learner.actor_server import server_of
from seed_rl.learner.replicas import Replicas
from seed_rl.runs.assembly import Assembly
from seed_rl.runs.fleet import LocalActors
from seed_rl.transport.credentials import ServerSecurity
from tests.support.counting import Counting
from tests.support.counting_agent import CountingAgentConfig, place, relations
from tests.support.deadlines import within


class InferenceDevices(Replicas):
    """Two inference threads in the place of devices, each with a store and a part of each batch."""

    def __init__(self, experiment):
        super().__init__(experiment)
        self.inference_devices = ("", "")

    def acting_agents(self, agent, build, whole_weights=False):
        return [agent] * 2, lambda: None

    def reader(self, store, number=0):
        return lambda addresses: [store.read(addresses)]


class Pipeline:
    """Everything between two actor processes and batches."""

    def __init__(self, directory):
        self.experiment = Experiment(
            env=Counting(shortest_episode=3),
            agent=CountingAgentConfig(unroll_length=4, overlap=6),
            actors=Actors(num_actors=2, groups_per_actor=2, envs_per_group=3, num_eval_envs=0),
            inference=Inference(max_batch_size=6, max_wait_ms=1.0),
            batch_size=4,
        )
        with contextlib.ExitStack() as cleanup:
            assembly = Assembly(replicas=lambda parts: InferenceDevices(parts.experiment))
            self.parts = assembly.parts(self.experiment, str(directory), cleanup)
        self.acting, self.service, self.source = self.parts.acting, self.parts.service, self.parts.source
        self.server = server_of(self.experiment, f"unix:{directory}/learner.sock", ServerSecurity())
        self.server.service = self.service
        arguments = [f"--import_module={Counting.__module__}"]
        self.actors = LocalActors(2, str(directory / "actors"), arguments)

    def pids(self):
        return [process.pid for process in self.actors._handles]

    def discarded_unrolls(self):
        return sum(acting.cursor.discarded_unrolls for acting in self.acting)

    def __enter__(self):
        for acting in self.acting:
            acting.act_step.warm_up()
        self.service.start()
        self.actors.start(self.server.start())
        return self

    def __exit__(self, *error):
        self.actors.stop()
        self.service.stop()
        self.server.stop(0.5)

    def collect(self, look_at, until):
        """Looks at unrolls until a condition holds."""
        while not until():
            for unroll in self._next_unrolls():
                for name, holds in relations(unroll).items():
                    assert np.all(holds), name
                look_at(unroll, int(unroll.env_output.observation[0, 0]))

    def _next_unrolls(self):
        """The next four unrolls, as numpy arrays without the batch axis."""
        deadline = time.monotonic() + within(60)
        while (batch := self.source.next(timeout=1)) is None and time.monotonic() < deadline and not self.actors.failed:
            self.service.raise_failure()  # such as a store without a free slot
        assert batch is not None, self.actors.failed
        assert len(batch.parts) == 2
        for part in batch.parts:
            steps = tf.nest.map_structure(lambda t: t.numpy(), part)
            for b in range(2):
                one = tf.nest.map_structure(lambda t, b=b: t[:, b], steps._replace(initial_state=()))
                yield one._replace(initial_state=steps.initial_state[b])


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
    last, counts = {}, collections.Counter()
    with Pipeline(tmp_path) as pipeline:
        stride, num_envs = pipeline.parts.agent.unroll_length, pipeline.experiment.actors.num_envs

        def look_at(unroll, seed):
            check_against_previous(unroll, last.get(seed), stride)
            last[seed] = unroll
            counts[seed] += 1

        pipeline.collect(look_at, lambda: len(counts) == num_envs and min(counts.values()) >= 8)
        assert pipeline.discarded_unrolls() == 0
        for pid in pipeline.pids():
            with open(f"/proc/{pid}/maps") as maps:
                assert "tensorflow" not in maps.read()
        assert any(place(unroll.env_output.observation[0]) % stride for unroll in last.values()), "they are staggered"

        before = set(counts)
        os.kill(pipeline.pids()[0], signal.SIGKILL)
        new = lambda: [count for seed, count in counts.items() if seed not in before]  # noqa: E731
        pipeline.collect(look_at, lambda: len(new()) == num_envs // 2 and min(new()) >= 3)
        then = dict(counts)
        going = lambda: [seed for seed in before if counts[seed] > then[seed]]  # noqa: E731
        pipeline.collect(look_at, lambda: len(going()) >= num_envs // 2 and min(new()) >= 8)
        ended = before.difference(going())
        assert len(ended) == num_envs // 2, "the runs of the killed actor, and no other"
        assert pipeline.actors.restarts == 1
        assert pipeline.discarded_unrolls() > 0, "those that the killed actor had begun"
        assert len(counts) == num_envs + num_envs // 2
