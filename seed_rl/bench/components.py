"""The parts of the pipeline, each alone with the whole machine: agent steps per second."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from seed_rl.bench.timing import rate
from seed_rl.envs.base import EnvConfig, random_actions
from seed_rl.experiment import Experiment
from seed_rl.specs import ActorSettings, ArraySpec, EnvSpec, GroupLease, Lease
from seed_rl.transport.client import Disconnected, LearnerClient
from seed_rl.transport.credentials import ClientSecurity, ServerSecurity
from seed_rl.transport.server import ActorServer
from seed_rl.types import EnvOutput


def env_rate(config: EnvConfig, group_sizes: Sequence[int], seconds: float) -> float:
    """Environment groups stepped with random actions, a thread for each."""
    envs = [config.make(size) for size in group_sizes]
    rng = np.random.default_rng(0)
    actions = [random_actions(config.spec().action, rng, size) for size in group_sizes]
    for env in envs:
        env.reset(seed=0)

    def step_groups() -> int:
        steps = 20

        def run(index: int) -> None:
            for _ in range(steps):
                envs[index].step(actions[index])

        list(pool.map(run, range(len(envs))))
        return steps * sum(group_sizes)

    with ThreadPoolExecutor(len(envs)) as pool:
        result = rate(step_groups, seconds)
    for env in envs:
        env.close()
    return result


def random_output(spec: EnvSpec, batch: int) -> EnvOutput:
    """Random observations [batch, ...], no reward, no ends."""
    rng = np.random.default_rng(0)

    def draw(tensor: ArraySpec) -> np.ndarray:
        return rng.integers(0, 2 if tensor.dtype == "bool" else 100, (batch, *tensor.shape)).astype(tensor.dtype)

    observation = spec.observation
    drawn = (
        draw(observation)
        if isinstance(observation, ArraySpec)
        else {name: draw(tensor) for name, tensor in observation.items()}
    )
    return EnvOutput(np.zeros(batch, np.float32), np.zeros(batch, bool), drawn)


class NullService:
    """Answers every step with zeros at once."""

    def __init__(self, env_spec: EnvSpec, group_size: int):
        self._env_spec = env_spec
        self._leases: tuple[GroupLease, ...] = ()
        self._actions = np.zeros(group_size, np.int32)

    def describe(self) -> ActorSettings:
        raise AssertionError("the load generator knows what to send")

    def join(self, run_id: str, env_spec: EnvSpec, group_sizes: Sequence[int], peer: str) -> Lease:
        ids = np.cumsum([0, *group_sizes])
        self._leases = tuple(GroupLease(tuple(range(i, i + n)), 0) for i, n in zip(ids, group_sizes, strict=False))
        return Lease("session", self._leases)

    def open(self, session: str, group: int) -> tuple[GroupLease, EnvSpec]:
        return self._leases[group], self._env_spec

    def step(self, lease: GroupLease, first: bool, output: EnvOutput) -> asyncio.Future[np.ndarray]:
        actions = asyncio.get_running_loop().create_future()
        actions.set_result(self._actions)
        return actions

    def close(self, session: str, group: int, lease: GroupLease, reason: str) -> None:
        pass


def send_load(address: str, env_spec: EnvSpec, groups: int, group_size: int, pause: float = 0.0) -> None:
    """Streams random observations from `groups` threads, `pause` seconds apart, until the server ends the streams."""
    client = LearnerClient(address, ClientSecurity())
    lease = client.join("load", env_spec, [group_size] * groups, timeout=30)
    output = random_output(env_spec, group_size)

    def run(group: int) -> None:
        stream = client.open(lease, group, env_spec)
        try:
            while True:
                stream.step(output)
                time.sleep(pause)
        except Disconnected:
            return

    threads = [threading.Thread(target=run, args=(group,)) for group in range(groups)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    client.close()


def transport_rate(env_spec: EnvSpec, groups: int, group_size: int, seconds: float) -> float:
    """Observations per second through the real server, from another process on this machine."""
    with tempfile.TemporaryDirectory(prefix="seed_rl-") as directory:
        service = NullService(env_spec, group_size)
        server = ActorServer(f"unix:{directory}/bench.sock", service, security=ServerSecurity())
        address = server.start()
        load = multiprocessing.get_context("spawn").Process(
            target=send_load, args=(address, env_spec, groups, group_size)
        )
        load.start()
        try:
            while server.stats.steps < 10 * groups:
                time.sleep(0.01)
                if not load.is_alive():
                    raise RuntimeError("the load generator ended before it sent anything")
            before, started = server.stats.steps, time.monotonic()
            time.sleep(seconds)
            steps, elapsed = server.stats.steps - before, time.monotonic() - started
        finally:
            server.stop(grace=1)
            load.join()
    return steps * group_size / elapsed


def act_and_train_rates(experiment: Experiment, seconds: float) -> dict[str, float]:
    """The compiled act step at its largest batch, and the learner's update with all that belongs to it.

    Both count steps that are learned from: `act` runs with the evaluation environments as padding, and `train` counts
    new agent steps, though with a replay an update trains on `ratio` times as many. Inserting into the
    replay is part of `act`; sampling, reading out of the store and writing priorities back are part of `train`.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    from seed_rl.buffers.unroll_store import StepWrites
    from seed_rl.learner.assembly import assemble
    from seed_rl.learner.sources import ReplaySource
    from seed_rl.learner.train_step import TrainStep

    env_spec = experiment.env.spec()
    agent = experiment.build_agent()
    acting, source = assemble(experiment, agent, env_spec, experiment.seed)
    acting.act_step.warm_up()
    batch = min(acting.act_step.batch_sizes[-1], experiment.actors.num_training_envs)
    env_ids, restarted = np.arange(batch, dtype=np.int32), np.zeros(batch, bool)
    acting.cursor.restart(env_ids)
    output = random_output(env_spec, batch)

    replay = source if isinstance(source, ReplaySource) else None

    def act() -> int:
        plan = acting.cursor.advance(env_ids)
        acting.act_step(env_ids, restarted, StepWrites(plan.slots, plan.positions, plan.opened), [output])
        if replay is None:
            acting.pool.release(plan.finished)
        elif len(plan.finished):
            replay.insert(plan.finished)
        return batch

    train_step = TrainStep(agent, experiment.optimizer)
    any_slots = tf.zeros([experiment.batch_size], tf.int32)

    def train() -> int:
        if replay is None:
            train_step(acting.store.read(any_slots), 0.0)
        else:
            drawn = replay.draw()
            replay.write_back(train_step(drawn.unroll, 0.0, drawn.importance_weights).priorities)
        return round(experiment.unrolls_per_update * agent.unroll_length)

    while replay is not None and len(replay) < experiment.batch_size:
        act()
    return {"act": rate(act, seconds), "train": rate(train, seconds)}
