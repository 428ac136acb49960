"""The act step against one environment at a time, with everything in the store looked at after every batch."""

from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.agents.base import ActOutput
from seed_rl.buffers.unroll_store import StepWrites
from seed_rl.experiment import Actors, Experiment, Inference
from seed_rl.inference.acting import Acting
from seed_rl.specs import ArraySpec, DiscreteSpec, EnvSpec
from seed_rl.testing.counting import Counting
from seed_rl.testing.counting_agent import CountingAgent, CountingAgentConfig, action_of
from seed_rl.types import EnvOutput, Unroll

NUM_ENVS, MAX_BATCH, STRIDE = 8, 6, 4


def make_acting(agent_class=CountingAgent, env_spec=None, *, overlap=1, stagger=False, seed=0):
    experiment = Experiment(
        env=Counting(),
        agent=CountingAgentConfig(unroll_length=STRIDE, overlap=overlap),
        actors=Actors(num_actors=2, groups_per_actor=2, envs_per_group=2),
        inference=Inference(max_batch_size=MAX_BATCH, stagger_unrolls=stagger),
        batch_size=4,
    )
    assert experiment.actors.num_envs == NUM_ENVS
    acting = Acting(experiment, agent_class(experiment.agent), env_spec or experiment.env.spec(), seed)
    assert acting.act_step.batch_sizes == (2, 3, 6)
    return acting


def act(acting, env_ids, restarted, outputs):
    """What the inference thread does with a batch: the actions, and the cursor's plan."""
    acting.cursor.restart(env_ids[restarted])
    plan = acting.cursor.advance(env_ids)
    writes = StepWrites(plan.slots, plan.positions, plan.opened)
    return acting.act_step(env_ids, restarted, writes, outputs), plan


def contents(acting):
    """Every slot of the store but the spare one, as numpy arrays: fields [slots, L, ...], initial states [slots]."""
    everything = acting.store.read(tf.range(acting.store.num_slots))
    steps = tf.nest.map_structure(lambda x: np.swapaxes(x.numpy(), 0, 1), everything._replace(initial_state=()))
    return steps._replace(initial_state=tf.nest.map_structure(lambda x: x.numpy(), everything.initial_state))


class Step(NamedTuple):
    """What must be stored of one step of one environment."""

    state_before: int
    prev_action: int
    reward: Any
    done: bool
    observation: Any
    action: int
    behaviour: int


class Twin:
    """One environment and its counting agent, in plain Python."""

    def __init__(self):
        self.state = self.prev_action = 0
        self.steps: list[Step] = []

    def act(self, reward, done, observation):
        before, prev_action = self.state, self.prev_action
        self.state = 1 if done else before + 1
        self.prev_action = int(action_of(observation))
        self.steps.append(Step(before, prev_action, reward, done, observation, self.prev_action, self.state))


def fields(unroll):
    """The stored fields of an unroll in the order of `Step`, without the state."""
    return (unroll.prev_action, *unroll.env_output, unroll.action, unroll.behaviour)


class Twins:
    """Plays random environments through an act step and, one environment at a time, through their twins."""

    def __init__(self, acting, seed=0):
        self._acting = acting
        self._rng = np.random.default_rng(seed)
        self._twins: dict[int, Twin] = {}
        self._expected = contents(acting)
        self.unrolls = 0
        self.stored_steps = 0

    def act(self, env_ids, restarted=None, done=None):
        """Acts for a batch and checks the actions and the whole store.

        Args:
          env_ids: the batch, in this order.
          restarted, done: bool per environment; by default no run or episode begins.

        Returns:
          The twins' steps of the batch.
        """
        env_ids = np.array(env_ids, np.int32)
        batch = len(env_ids)
        restarted, done = (np.zeros(batch, bool) if x is None else np.array(x) for x in (restarted, done))
        rng = self._rng
        reward = rng.normal(size=batch).astype(np.float32)
        observation = rng.integers(0, 100, (batch, 4)).astype(np.int32)
        cuts = np.sort(rng.choice(batch + 1, size=min(2, batch), replace=False))  # pieces may be empty
        pieces = zip(*(np.split(x, cuts) for x in (reward, done, observation)), strict=True)
        actions, plan = act(self._acting, env_ids, restarted, [EnvOutput(*piece) for piece in pieces])

        for b, env in enumerate(env_ids.tolist()):
            if restarted[b]:
                self._twins[env] = Twin()
            twin = self._twins[env]
            twin.act(reward[b], bool(done[b] or restarted[b]), observation[b])
            self._store(twin, plan, b)
        steps = [self._twins[env].steps[-1] for env in env_ids.tolist()]
        np.testing.assert_array_equal(actions, [step.action for step in steps])
        self.check_store()
        for slot in plan.finished:
            _, b = np.argwhere(plan.slots == slot)[0]
            self._check_unroll(slot, self._twins[int(env_ids[b])])
        self._acting.pool.release(plan.finished)
        return steps

    def _store(self, twin, plan, b):
        step, spare = twin.steps[-1], self._acting.store.num_slots
        for slot, position in zip(plan.slots[:, b], plan.positions[:, b], strict=True):
            if slot != spare:
                self.stored_steps += 1
                for variable, value in zip(fields(self._expected), step[1:], strict=True):
                    variable[slot, position] = value
        if plan.opened[b] != spare:
            self._expected.initial_state[plan.opened[b]] = step.state_before

    def check_store(self):
        """The store holds what the twins wrote, and nothing else has changed."""
        now = contents(self._acting)
        tf.nest.map_structure(np.testing.assert_array_equal, now, self._expected)

    def _check_unroll(self, slot, twin):
        length = self._acting.store.length
        steps = twin.steps[-length:]
        assert len(steps) == length
        unroll = tf.nest.map_structure(lambda x: x[slot], self._expected)
        assert unroll.initial_state == steps[0].state_before
        for values, column in zip(fields(unroll), [*zip(*steps, strict=True)][1:], strict=True):
            np.testing.assert_array_equal(values, np.stack(column))
        self.unrolls += 1


@pytest.mark.parametrize(("overlap", "stagger"), [(1, False), (3, True), (6, False)])
def test_batches_in_any_order_and_size_equal_one_environment_at_a_time(overlap, stagger):
    acting = make_acting(overlap=overlap, stagger=stagger)
    twins, rng = Twins(acting), np.random.default_rng(1)
    running, sizes = set(), set()
    for _ in range(150):
        env_ids = rng.permutation(NUM_ENVS)[: rng.integers(1, MAX_BATCH + 1)]
        restarted = np.array([env not in running or rng.random() < 0.02 for env in env_ids.tolist()])
        twins.act(env_ids, restarted, done=rng.random(len(env_ids)) < 0.2)
        running.update(env_ids.tolist())
        sizes.add(len(env_ids))
    assert sizes == set(range(1, MAX_BATCH + 1))
    assert twins.unrolls > 50
    assert acting.cursor.discarded_unrolls > 0
    assert (acting.cursor.unrecorded_steps > 0) == stagger


def start(twins, steps):
    """All environments begin and act so many steps."""
    for t in range(steps):
        for env_ids in (range(0, 5), range(5, NUM_ENVS)):
            twins.act(env_ids, restarted=np.full(len(env_ids), t == 0))


@pytest.mark.parametrize(("batch", "padding"), [(1, 1), (2, 0), (3, 0), (4, 2), (5, 1), (6, 0)])
def test_padding_leaves_other_environments_and_the_store_alone(batch, padding):
    acting = make_acting(overlap=3)
    twins = Twins(acting)
    start(twins, steps=3)
    assert acting.act_step.padding(batch) == padding
    chosen, others = np.split(np.random.default_rng(batch).permutation(NUM_ENVS), [batch])
    for _ in range(2):
        stored = twins.stored_steps
        last = twins.act(chosen)
        assert twins.stored_steps >= stored + batch, "and the steps of the batch itself are there"
    assert [step.behaviour for step in last] == [5] * batch
    for env in others:
        (step,) = twins.act([env])
        assert (step.state_before, step.behaviour) == (3, 4)
        assert step.prev_action != 0


def test_padding_holds_nothing_of_the_batch_before():
    acting = make_acting()
    twins = Twins(acting)
    twins.act(range(6), restarted=[True] * 6)
    twins.act([5], restarted=[False])  # rows 1 .. 5 of a batch of this size were never used
    twins.act([6, 7], restarted=[True, True])  # restarts in the rows that the next batches pad
    for env in range(NUM_ENVS):
        (step,) = twins.act([env])
        assert step.state_before == {5: 2}.get(env, 1)


def test_compiling_acts_for_nobody():
    acting = make_acting()
    twins = Twins(acting)
    acting.act_step.warm_up()
    twins.check_store()
    start(twins, steps=2)
    acting.act_step.warm_up()
    twins.check_store()
    for step in twins.act(range(6)):
        assert (step.state_before, step.behaviour) == (2, 3)


def test_a_restarted_row_forgets_its_state_and_action_and_no_other_does():
    acting = make_acting()
    twins = Twins(acting)
    start(twins, steps=STRIDE)  # so that the next step begins an unroll in every row
    before = {step: contents(acting) for step in ("all",)}["all"]
    env_ids = np.array([2, 0, 1], np.int32)
    observation = np.arange(12, dtype=np.int32).reshape(3, 4)
    output = EnvOutput(np.zeros(3, np.float32), np.array([False, False, True]), observation)
    _, plan = act(acting, env_ids, np.array([False, True, False]), [output])
    after = contents(acting)

    going, restarted, done = plan.opened
    assert len({going, restarted, done, acting.store.num_slots}) == 4
    assert after.initial_state[[going, restarted, done]].tolist() == [4, 0, 4], "before the reset that `done` demands"
    assert after.behaviour[[going, restarted, done], 0].tolist() == [5, 1, 1]
    assert after.env_output.done[[going, restarted, done], 0].tolist() == [False, True, True]
    # The steps of the unrolls in progress stand in the slots that the first step opened, in the order of the ids.
    last_actions = before.action[plan.slots[1, [0, 2]], STRIDE - 1]
    assert 0 not in last_actions
    assert after.prev_action[[going, done], 0].tolist() == last_actions.tolist()
    assert after.prev_action[restarted, 0] == 0


class NestedAgent(CountingAgent):
    """Its state is a nest that grows by the environment's id and never looks at `done`; remembers what it was told."""

    behaviour_spec = {  # noqa: RUF012
        "env_id": tf.TensorSpec([], tf.int32),
        "seed": tf.TensorSpec([2], tf.int32),
        "image": tf.TensorSpec([2, 3], tf.uint8),
    }

    def initial_state(self, batch_size):
        return {"flat": tf.zeros([batch_size], tf.int32), "cells": tf.zeros([batch_size, 2, 3])}

    def act(self, prev_action, env_output, state, env_ids, seed):
        cells = state["cells"] + tf.cast(env_ids, tf.float32)[:, None, None] * tf.ones([2, 3])
        action = action_of(env_output.observation["counters"])
        behaviour = {
            "env_id": env_ids,
            "seed": tf.tile(seed[None], [len(env_ids), 1]),
            "image": env_output.observation["image"],
        }
        return ActOutput(action, behaviour, {"flat": state["flat"] + env_ids, "cells": cells})


NESTED_SPEC = EnvSpec(
    {"image": ArraySpec((2, 3), "uint8"), "counters": ArraySpec((4,), "int32")}, DiscreteSpec(Counting().spec().action.n)
)


def nested_steps(seed, batches):
    """What a nested agent stored at each of several batches, given as (env ids, restarted): `Unroll`s of [B, ...]."""
    acting = make_acting(NestedAgent, NESTED_SPEC, overlap=STRIDE, seed=seed)
    rng = np.random.default_rng(0)
    for env_ids, restarted in batches:
        batch = len(env_ids)
        observation = {
            "counters": rng.integers(0, 100, (batch, 4)).astype(np.int32),
            "image": rng.integers(0, 256, (batch, 2, 3)).astype(np.uint8),
        }
        output = EnvOutput(np.zeros(batch, np.float32), np.zeros(batch, bool), observation)
        _, plan = act(acting, np.array(env_ids, np.int32), np.array(restarted), [output])
        yield (
            observation,
            plan,
            tf.nest.map_structure(lambda x, p=plan: x[p.slots[0], p.positions[0]], _without_state(acting)),
            tf.nest.map_structure(lambda x, p=plan: x[p.opened], _states(acting)),
        )


def _without_state(acting):
    return contents(acting)._replace(initial_state=())


def _states(acting):
    return contents(acting).initial_state
