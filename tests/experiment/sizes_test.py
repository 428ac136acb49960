"""A learner's sizes, checked against worked examples and against what acting and learning hold at any time."""

import dataclasses

import numpy as np
import pytest

from seed_rl.agents.r2d2 import R2D2
from seed_rl.agents.vtrace import VTrace
from seed_rl.buffers.rows import nbytes
from seed_rl.buffers.slots import SlotPool
from seed_rl.buffers.unroll_store import UnrollStore
from seed_rl.envs.catch import Catch
from seed_rl.experiment import Actors, Experiment, Inference, Replay
from seed_rl.experiment.sizes import INSERT_AT_MOST, Sizes
from seed_rl.inference.cursor import UnrollCursor
from tests.support.counting import Counting
from tests.support.counting_agent import CountingAgent, CountingAgentConfig


class ReplayedConfig(CountingAgentConfig):
    """The counting agent behind a replay."""

    learns_from_replay = True


def sizes(agent, batch_size, replay=None, num_devices=1, num_hosts=1, num_eval_envs=0, max_batch_size=20):
    experiment = Experiment(
        env=Counting(),
        agent=agent,
        actors=Actors(num_actors=3, groups_per_actor=2, envs_per_group=5, num_eval_envs=num_eval_envs),
        inference=Inference(max_batch_size=max_batch_size),
        batch_size=batch_size,
        replay=replay,
    )
    return Sizes.of(experiment, experiment.build_agent(), num_devices, num_hosts)


ON_POLICY = CountingAgentConfig(unroll_length=20, overlap=1)
REPLAYED = ReplayedConfig(unroll_length=10, overlap=15)
REPLAY = Replay(capacity=1000, min_size=101, ratio=0.75)


def test_sizes_on_policy():
    found = sizes(ON_POLICY, 8)
    assert (found.length, found.stride, found.window, found.act_batches) == (21, 20, 21, (5, 10, 20))
    # one in progress per environment, a full queue, those finished by one more act step, and a batch
    assert (found.queue_capacity, found.num_slots) == (8, 30 + 8 + 20 + 8)
    assert found.num_places == found.num_slots * 21
    replayed = [sizes(REPLAYED, 8, REPLAY, **each) for each in ({"num_devices": 2}, {"num_hosts": 2})]
    assert len({(each.replay_capacity, each.replay_min_size) for each in replayed}) == 1, "hosts share it as devices do"
    of_two_hosts = sizes(ON_POLICY, 8, num_devices=2, num_hosts=2, max_batch_size=6)
    assert (of_two_hosts.act_batches, of_two_hosts.batch_size) == ((2, 3, 6), 2)
    assert (of_two_hosts.queue_capacity, of_two_hosts.num_slots) == (2, 15 + 2 + 6 + 2)


def test_sizes_with_a_replay_and_a_burn_in_longer_than_the_stride():
    found = sizes(REPLAYED, 8, REPLAY)
    assert (found.length, found.stride, found.window) == (25, 10, 25)
    assert (found.replay_capacity, found.replay_min_size) == (1000, 101)
    assert (found.queue_capacity, found.num_slots) == (8, 30 * 3 + 8 + 20 + 1000 + INSERT_AT_MOST)
    assert found.num_places == 1000 * 10 + 2 * (30 + 8 + 20 + INSERT_AT_MOST) * 25
    faster = sizes(REPLAYED, 8, dataclasses.replace(REPLAY, ratio=3.0))
    assert faster.queue_capacity == 3, "the 8 / 3 new unrolls of an update, rounded up"
    half = sizes(REPLAYED, 8, REPLAY, num_devices=2, num_eval_envs=7)
    assert (half.act_batches, half.batch_size, half.queue_capacity) == ((4, 8, 15), 4, 4)
    assert (half.replay_capacity, half.replay_min_size) == (500, 51)
    assert half.num_slots == 12 * 3 + 4 + 15 + 500 + INSERT_AT_MOST, "none for evaluation environments"


@pytest.mark.parametrize("agent", [VTrace(core="lstm", unroll_length=5), R2D2(unroll_length=5, burn_in=3)])
def test_a_store_takes_as_many_bytes_as_computed(agent):
    replay = Replay(capacity=20, min_size=10) if agent.learns_from_replay else None
    experiment = Experiment(env=Catch(), agent=agent, replay=replay, batch_size=4)
    built = experiment.build_agent()
    found = Sizes.of(experiment, built)
    store = UnrollStore(built.step_spec, found.num_slots, found.num_places)
    assert sum(map(nbytes, store.variables)) == found.store_nbytes


@pytest.mark.parametrize(
    ("agent", "replay", "max_batch_size"),
    [
        (CountingAgentConfig(unroll_length=4, overlap=1), None, 20),
        (CountingAgentConfig(unroll_length=4, overlap=6), None, 5),
        (ReplayedConfig(unroll_length=3, overlap=2), Replay(capacity=12, min_size=6, ratio=2.0), 20),
    ],
)
@pytest.mark.parametrize("history", [0, 3])
@pytest.mark.parametrize("restarts", [1, 30])
def test_a_store_never_runs_out_of_slots_and_places_however_acting_and_learning_interleave(
    agent, replay, max_batch_size, history, restarts, monkeypatch
):
    """Acting stops only at a full queue; the learner holds a batch, or the replay and the unrolls that enter it."""
    monkeypatch.setattr(CountingAgent, "history", history)
    found = sizes(agent, 8, replay, max_batch_size=max_batch_size)
    rng, pool = np.random.default_rng(0), SlotPool(found.num_slots, found.num_places, found.window)
    cursor = UnrollCursor(np.ones(found.num_envs, bool), found.length, found.stride, pool, stagger=False)
    cursor.restart(np.arange(found.num_envs))
    queue, replayed, fewest_free = [], [], found.num_slots

    def act_until_full():
        while True:
            env_ids = rng.permutation(found.num_envs)[: found.max_batch]
            if cursor.finishing(env_ids) and len(queue) >= found.queue_capacity:
                return
            queue.extend(cursor.advance(env_ids)[1].tolist())

    for _ in range(300):
        act_until_full()
        cursor.restart(rng.permutation(found.num_envs)[: rng.integers(restarts + 1)])
        count = rng.integers(1, INSERT_AT_MOST + 1) if replay else found.batch_size
        held, queue[:] = queue[:count], queue[count:]
        act_until_full()  # while the learner holds them
        fewest_free = min(fewest_free, len(pool))
        if replay:
            replayed += held
            held, replayed = replayed[: -found.replay_capacity], replayed[-found.replay_capacity :]
        pool.release(np.array(held, int))
        while replay and pool.num_free_places < found.places_outside:
            assert restarts > 1, "otherwise the replay is full first"
            pool.release(np.array([replayed.pop(0)]))
    never_used = INSERT_AT_MOST if replay else 0  # the queue rarely holds that many unrolls
    assert restarts > 1 or fewest_free - never_used < found.num_slots / 3, "most are in use at a time"
    pool.release(np.array(replayed + queue, int))
    cursor.restart(np.arange(found.num_envs))
    assert (len(pool), pool.num_free_places) == (found.num_slots, found.num_places), "none is lost"
