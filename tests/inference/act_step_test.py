"""The act step against one environment at a time, with everything in the store looked at after every batch."""

from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.agents.base import ActOutput
from seed_rl.buffers.unroll_store import StepWrites
from seed_rl.devices import HOST
from seed_rl.experiment import Actors, Experiment, Inference
from seed_rl.inference import act_step
from seed_rl.inference.acting import Acting
from seed_rl.specs import DTYPES, ArraySpec, ContinuousSpec, DiscreteSpec, EnvSpec, MultiDiscreteSpec
from seed_rl.types import EnvOutput
from tests.support.counting import Counting
from tests.support.counting_agent import CountingAgent, CountingAgentConfig, action_of

NUM_ENVS, MAX_BATCH, STRIDE = 8, 6, 4
HOWS = ["cpu", "accelerator", "accelerator with the store on the host"]


class Kind(NamedTuple):
    """A kind of actions, and which one follows from counters int32 [..., 4], of tensors and arrays alike."""

    spec: Any
    choose: Any


KINDS = {
    "discrete": Kind(DiscreteSpec(1000), action_of),
    "multi-discrete": Kind(MultiDiscreteSpec((300, 1000)), lambda counters: (7 * counters[..., 2:]) % [300, 1000]),
    "continuous": Kind(ContinuousSpec((-2.0,) * 3, (20.0,) * 3), lambda counters: counters[..., 1:] / 8 - 2),
}


class ChoosingAgent(CountingAgent):
    """Takes actions of any kind."""

    def __init__(self, config, kind):
        super().__init__(config)
        self._kind = kind

    def act(self, prev_action, env_output, state, env_ids, seed):
        assert prev_action.shape[1:] == self._kind.spec.tensor.shape
        answer = super().act(prev_action, env_output, state, env_ids, seed)
        chosen = self._kind.choose(env_output.observation)
        return answer._replace(action=tf.cast(chosen, self._kind.spec.tensor.dtype))


def make_choosing(kind, how, monkeypatch, **settings):
    """An act step of an agent that takes actions of a kind, traced and compiled for one kind of machine."""
    if how != "cpu":  # as for an accelerator, with the CPU in its place
        monkeypatch.setattr(act_step, "has_accelerator", lambda: True)
    store_device = HOST if "host" in how else ""
    env_spec = EnvSpec(ArraySpec((4,), "int32"), kind.spec)
    acting = make_acting(lambda config: ChoosingAgent(config, kind), env_spec, store_device=store_device, **settings)
    assert acting.act_step._store_apart == ("host" in how)
    return acting


def make_acting(agent_class=CountingAgent, env_spec=None, *, overlap=1, stagger=False, seed=0, store_device=""):
    experiment = Experiment(
        env=Counting(),
        agent=CountingAgentConfig(unroll_length=STRIDE, overlap=overlap),
        actors=Actors(num_actors=2, groups_per_actor=2, envs_per_group=2),
        inference=Inference(max_batch_size=MAX_BATCH, stagger_unrolls=stagger),
        batch_size=4,
    )
    assert experiment.actors.num_envs == NUM_ENVS
    acting = Acting(
        experiment, agent_class(experiment.agent), env_spec or experiment.env.spec(), seed, 4, "", store_device
    )
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
    prev_action: Any
    reward: Any
    done: bool
    observation: Any
    action: Any
    behaviour: int


class Twin:
    """One environment and its counting agent, in plain Python."""

    def __init__(self, kind):
        self.state, self.prev_action = 0, np.zeros(kind.spec.tensor.shape, kind.spec.tensor.dtype)
        self.choose = kind.choose
        self.steps: list[Step] = []

    def act(self, reward, done, observation):
        before, prev_action = self.state, self.prev_action
        self.state = 1 if done else before + 1
        self.prev_action = self.choose(observation)
        self.steps.append(Step(before, prev_action, reward, done, observation, self.prev_action, self.state))


def fields(unroll):
    """The stored fields of an unroll in the order of `Step`, without the state."""
    return (unroll.prev_action, *unroll.env_output, unroll.action, unroll.behaviour)


class Twins:
    """Plays random environments through an act step and, one environment at a time, through their twins."""

    def __init__(self, acting, seed=0, kind=KINDS["discrete"]):
        self._acting = acting
        self._kind = kind
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
                self._twins[env] = Twin(self._kind)
            twin = self._twins[env]
            twin.act(reward[b], bool(done[b] or restarted[b]), observation[b])
            self._store(twin, plan, b)
        steps = [self._twins[env].steps[-1] for env in env_ids.tolist()]
        expected = np.array([step.action for step in steps], self._kind.spec.tensor.dtype)
        np.testing.assert_array_equal(actions, expected, strict=True)
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


@pytest.mark.parametrize(
    ("overlap", "stagger", "how", "kind"),
    [
        (1, False, "cpu", "discrete"),
        (3, True, "cpu", "discrete"),
        (6, False, "cpu", "discrete"),
        (3, True, "accelerator", "discrete"),
        (3, True, "accelerator with the store on the host", "discrete"),
        *((overlap, True, how, kind) for overlap, how in zip((1, 3, 6), HOWS, strict=True) for kind in [*KINDS][1:]),
    ],
)
def test_batches_in_any_order_and_size_equal_one_environment_at_a_time(overlap, stagger, how, kind, monkeypatch):
    kind = KINDS[kind]
    acting = make_choosing(kind, how, monkeypatch, overlap=overlap, stagger=stagger)
    twins, rng = Twins(acting, kind=kind), np.random.default_rng(1)
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
        for env_ids in (range(5), range(5, NUM_ENVS)):
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
    twins.act([5], restarted=[False])
    twins.act([6, 7], restarted=[True, True])  # the next batches pad a row that 7 has just begun in
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


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_restarted_row_forgets_its_state_and_action_and_no_other_does(kind, monkeypatch):
    acting = make_choosing(kind, "cpu", monkeypatch)
    twins = Twins(acting, kind=kind)
    start(twins, steps=STRIDE)  # so that the next step begins an unroll in every row
    discarded = acting.cursor.discarded_unrolls
    going, restarted, ended = twins.act([2, 0, 1], restarted=[False, True, False], done=[False, False, True])
    assert (going.state_before, going.done, going.behaviour) == (STRIDE, False, STRIDE + 1)
    assert (restarted.state_before, restarted.done, restarted.behaviour) == (0, True, 1)
    assert (ended.state_before, ended.done, ended.behaviour) == (STRIDE, True, 1), "not yet reset where `done`"
    assert not np.any(restarted.prev_action)
    for step in (going, ended):
        assert np.all(step.prev_action != 0), "an episode's end keeps the action that led to it"
    assert acting.cursor.discarded_unrolls == discarded + 1
    assert [step.state_before for step in twins.act([0, 1, 2])] == [1, 1, STRIDE + 1], "the flag is gone"


class NestedAgent(CountingAgent):
    """Adds the environment's id to every part of a nested state at each step, whatever `done` says.

    It remembers what it was told.
    """

    behaviour_spec = {  # noqa: RUF012
        "flat": tf.TensorSpec([], tf.int32),
        "cells": tf.TensorSpec([2, 3], tf.float32),
        "env_id": tf.TensorSpec([], tf.int32),
        "seed": tf.TensorSpec([2], tf.int32),
        "image": tf.TensorSpec([2, 3], tf.uint8),
    }

    def initial_state(self, batch_size):
        return {"flat": tf.zeros([batch_size], tf.int32), "cells": tf.zeros([batch_size, 2, 3])}

    def act(self, prev_action, env_output, state, env_ids, seed):
        seeds = tf.tile(seed[None], [len(env_ids), 1])
        behaviour = {**state, "env_id": env_ids, "seed": seeds, "image": env_output.observation["image"]}
        growth = tf.cast(env_ids, tf.float32)[:, None, None]
        state = {"flat": state["flat"] + env_ids, "cells": state["cells"] + growth}
        return ActOutput(action_of(env_output.observation["counters"]), behaviour, state)


def random_tensor(rng, spec, batch):
    shape = (batch, *spec.shape)
    if spec.dtype == "bool":
        return rng.random(shape) < 0.5
    if spec.dtype.startswith("float"):
        return rng.normal(size=shape).astype(spec.dtype)
    bounds = np.iinfo(spec.dtype)
    return rng.integers(bounds.min, bounds.max, shape, spec.dtype, endpoint=True)


class Nested:
    """An act step of nested agents in environments with observations of several parts."""

    COUNTERS = ArraySpec((4,), "int32")
    SPEC = EnvSpec({"image": ArraySpec((2, 3), "uint8"), "counters": COUNTERS}, DiscreteSpec(1000))

    def __init__(self, seed=0, env_spec=SPEC, store_device=""):
        self._acting = make_acting(NestedAgent, env_spec, seed=seed, store_device=store_device)
        self._spec = env_spec
        self._rng = np.random.default_rng(0)

    def act(self, env_ids, restarted):
        """Acts for a batch of random observations.

        Returns:
          Those, and the rows of the store that the batch has written, fields [B, ...].
        """
        batch = len(env_ids)
        observation = {name: random_tensor(self._rng, spec, batch) for name, spec in self._spec.observation.items()}
        observation["counters"] = self._rng.integers(0, 100, (batch, 4)).astype(np.int32)
        output = EnvOutput(np.zeros(batch, np.float32), np.zeros(batch, bool), observation)
        _, plan = act(self._acting, np.array(env_ids, np.int32), np.array(restarted), [output])
        rows = contents(self._acting)._replace(initial_state=())
        return observation, tf.nest.map_structure(lambda x: x[plan.slots[0], plan.positions[0]], rows)


def test_every_part_of_a_nested_state_is_kept_and_reset_row_by_row():
    nested = Nested()
    nested.act([3, 5, 7, 2, 6], restarted=[True] * 5)
    nested.act([7, 5, 3, 2], restarted=[False] * 4)
    _, stored = nested.act([5, 6, 3, 7], restarted=[False, False, True, False])
    assert stored.behaviour["flat"].tolist() == [10, 6, 0, 14]
    np.testing.assert_array_equal(
        stored.behaviour["cells"], np.array([10, 6, 0, 14])[:, None, None] * np.ones([1, 2, 3])
    )


def test_agent_and_store_get_every_part_of_an_observation():
    observation, stored = Nested().act([4, 0, 6], restarted=[True] * 3)
    tf.nest.map_structure(np.testing.assert_array_equal, stored.env_output.observation, observation)
    np.testing.assert_array_equal(stored.behaviour["image"], observation["image"])
    np.testing.assert_array_equal(stored.action, action_of(observation["counters"]))


@pytest.mark.parametrize("how", HOWS)
def test_observations_of_any_dtype_are_stored_as_they_came(how, monkeypatch):
    if how != "cpu":
        monkeypatch.setattr(act_step, "has_accelerator", lambda: True)
    tensors = {dtype: ArraySpec(shape, dtype) for dtype, shape in zip(DTYPES, [(), (2,), (3, 1)] * 3, strict=False)}
    spec = EnvSpec({**tensors, **Nested.SPEC.observation}, Nested.SPEC.action)
    nested = Nested(env_spec=spec, store_device=HOST if "host" in how else "")
    for env_ids in ([4, 0, 6], [6, 1], [0, 5, 3, 2]):
        observation, stored = nested.act(env_ids, restarted=[True] * len(env_ids))
        assert stored.env_output.observation.keys() == observation.keys()
        assert observation.keys() > set(DTYPES)
        for name, tensor in observation.items():
            np.testing.assert_array_equal(stored.env_output.observation[name], tensor, err_msg=name, strict=True)


def test_the_agent_is_told_who_acts_and_a_new_seed_each_time():
    def seeds(seed):
        nested = Nested(seed)
        for env_ids in ([4, 0, 6], [6, 1], [4, 0, 6]):
            behaviour = nested.act(env_ids, restarted=[True] * len(env_ids))[1].behaviour
            assert behaviour["env_id"].tolist() == env_ids
            assert len({*map(tuple, behaviour["seed"].tolist())}) == 1, "one for the batch"
            yield tuple(behaviour["seed"][0].tolist())

    first, again, other = list(seeds(1)), list(seeds(1)), list(seeds(2))
    assert first == again
    assert len({*first, *other}) == 6
