"""The act step against one environment at a time, with the whole store compared after every batch."""

from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.agents.base import ActOutput
from seed_rl.experiment import Actors, Experiment, Inference
from seed_rl.experiment.sizes import Sizes
from seed_rl.inference.acting import Acting
from seed_rl.specs import DTYPES, ArraySpec, ContinuousSpec, DiscreteSpec, EnvSpec, MultiDiscreteSpec
from seed_rl.system import devices
from seed_rl.system.devices import HOST
from seed_rl.types import EnvOutput
from tests.support.counting import Counting
from tests.support.counting_agent import CountingAgent, CountingAgentConfig, action_of

NUM_ENVS, MAX_BATCH, STRIDE = 8, 6, 4


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

    def __init__(self, config, env_spec, kind):
        super().__init__(config, env_spec)
        self._kind = kind

    def act(self, prev_action, env_output, state, env_ids, seed, greedy=False):
        assert prev_action.shape[1:] == self._kind.spec.tensor.shape
        answer = super().act(prev_action, env_output, state, env_ids, seed)
        chosen = self._kind.choose(env_output.observation)
        return answer._replace(action=tf.cast(chosen, self._kind.spec.tensor.dtype))


@pytest.fixture(params=["cpu", "accelerator", "accelerator, store on the host"])
def store_device(request, monkeypatch):
    """The act step is traced and compiled for one kind of machine, with the CPU in an accelerator's place."""
    if request.param != "cpu":
        monkeypatch.setattr(devices, "has_accelerator", lambda: True)
    return HOST if "host" in request.param else ""


def make_acting(agent, store_device, stagger=False, seed=0):
    experiment = Experiment(
        env=Counting(),
        agent=CountingAgentConfig(unroll_length=agent.unroll_length, overlap=agent.overlap),
        actors=Actors(num_actors=2, groups_per_actor=2, envs_per_group=2),
        inference=Inference(max_batch_size=MAX_BATCH, stagger_unrolls=stagger),
        batch_size=4,
    )
    sizes = Sizes.of(experiment, agent)
    assert (sizes.num_envs, sizes.act_batches) == (NUM_ENVS, (2, 3, 6))
    return Acting(agent, sizes, experiment.inference, seed, ("", store_device))


def act(acting, env_ids, restarted, outputs):
    """Acts for a batch as the inference thread does: the actions, the destinations, and the finished unrolls."""
    acting.cursor.restart(env_ids[restarted])
    writes, finished = acting.cursor.advance(env_ids)
    return acting.act_step(env_ids, restarted, writes, outputs), writes, finished


def contents(acting):
    """Every slot of the store but the spare one, as numpy arrays: fields [slots, L, ...], initial states [slots]."""
    store = acting.unrolls.store
    everything = store.read(tf.range(store.num_slots))
    steps = tf.nest.map_structure(lambda x: np.swapaxes(x.numpy(), 0, 1), everything._replace(initial_state=()))
    return steps._replace(initial_state=tf.nest.map_structure(lambda x: x.numpy(), everything.initial_state))


class Step(NamedTuple):
    """The stored record of one step of one environment."""

    state_before: int
    prev_action: Any
    reward: Any
    done: bool
    last: bool
    observation: Any
    action: Any
    behaviour: int


class Twin:
    """One environment and its counting agent, in plain Python."""

    def __init__(self, kind):
        self.state, self.prev_action = 0, np.zeros(kind.spec.tensor.shape, kind.spec.tensor.dtype)
        self.choose = kind.choose
        self.steps: list[Step] = []

    def act(self, reward, done, last, observation):
        before, prev_action = self.state, self.prev_action
        self.state = 1 if done else before + 1
        self.prev_action = self.choose(observation)
        self.steps.append(Step(before, prev_action, reward, done, last, observation, self.prev_action, self.state))


def fields(unroll):
    """The stored fields of an unroll in the order of `Step`, without the state."""
    return (unroll.prev_action, *unroll.env_output, unroll.action, unroll.behaviour)


class Twins:
    """Plays random environments through an act step and, one environment at a time, through their twins."""

    def __init__(self, acting, kind):
        self._acting = acting
        self._kind = kind
        self._rng = np.random.default_rng(0)
        self._twins: dict[int, Twin] = {}
        self._expected = contents(acting)
        self.unrolls = 0

    def act(self, env_ids, restarted, done):
        """Acts for a batch and checks the actions and the whole store.

        Args:
          env_ids: int32 [B], the batch in this order.
          restarted, done: bool [B].
        """
        batch, rng = len(env_ids), self._rng
        reward = rng.normal(size=batch).astype(np.float32)
        observation = rng.integers(0, 100, (batch, 4)).astype(np.int32)
        cuts = np.sort(rng.choice(batch + 1, size=min(2, batch), replace=False))  # pieces may be empty
        last = rng.random(batch) < 0.2
        pieces = zip(*(np.split(x, cuts) for x in (reward, done, last, observation)), strict=True)
        actions, writes, finished = act(self._acting, env_ids, restarted, [EnvOutput(*piece) for piece in pieces])

        for b, env in enumerate(env_ids.tolist()):
            if restarted[b]:
                self._twins[env] = Twin(self._kind)
            twin = self._twins[env]
            twin.act(reward[b], bool(done[b] or restarted[b]), last[b], observation[b])
            self._store(twin, writes, b)
        expected = [self._twins[env].steps[-1].action for env in env_ids.tolist()]
        expected = np.array(expected, self._kind.spec.tensor.dtype)
        np.testing.assert_array_equal(actions, expected, strict=True)
        self.check_store()
        for slot in finished:
            _, b = np.argwhere(writes.slots == slot)[0]
            self._check_unroll(slot, self._twins[int(env_ids[b])])
        self._acting.unrolls.pool.release(finished)

    def _store(self, twin, writes, b):
        step, spare = twin.steps[-1], self._acting.unrolls.store.num_slots
        for slot, position in zip(writes.slots[:, b], writes.positions[:, b], strict=True):
            if slot != spare:
                for variable, value in zip(fields(self._expected), step[1:], strict=True):
                    variable[slot, position] = value
        if writes.opened[b] != spare:
            self._expected.initial_state[writes.opened[b]] = step.state_before

    def check_store(self):
        """The store holds what the twins wrote, and nothing else has changed."""
        now = contents(self._acting)
        tf.nest.map_structure(np.testing.assert_array_equal, now, self._expected)

    def _check_unroll(self, slot, twin):
        length = self._acting.unrolls.store.length
        steps = twin.steps[-length:]
        assert len(steps) == length
        unroll = tf.nest.map_structure(lambda x: x[slot], self._expected)
        assert unroll.initial_state == steps[0].state_before
        for values, column in zip(fields(unroll), [*zip(*steps, strict=True)][1:], strict=True):
            np.testing.assert_array_equal(values, np.stack(column))
        self.unrolls += 1


@pytest.mark.parametrize(
    ("overlap", "kind", "store_device"),
    [(1, "discrete", "accelerator"), (3, "multi-discrete", "accelerator, store on the host"), (6, "continuous", "cpu")],
    indirect=["store_device"],
)
def test_batches_in_any_order_and_size_equal_one_environment_at_a_time(overlap, kind, store_device):
    config, kind = CountingAgentConfig(unroll_length=STRIDE, overlap=overlap), KINDS[kind]
    agent = ChoosingAgent(config, EnvSpec(ArraySpec((4,), "int32"), kind.spec), kind)
    stagger = overlap > 1
    acting = make_acting(agent, store_device, stagger)
    assert [acting.act_step.padding(batch) for batch in range(1, 7)] == [1, 0, 0, 2, 1, 0]
    acting.act_step.warm_up()
    twins, rng = Twins(acting, kind), np.random.default_rng(1)
    running, sizes = set(), set()
    for _ in range(110):
        env_ids = rng.permutation(NUM_ENVS)[: rng.integers(1, MAX_BATCH + 1)].astype(np.int32)
        restarted = np.array([env not in running or rng.random() < 0.02 for env in env_ids.tolist()])
        twins.act(env_ids, restarted, done=rng.random(len(env_ids)) < 0.2)
        running.update(env_ids.tolist())
        sizes.add(len(env_ids))
    acting.act_step.warm_up()  # acts for padding alone
    twins.check_store()
    assert sizes == set(range(1, MAX_BATCH + 1))
    assert twins.unrolls > 50
    assert acting.cursor.discarded_unrolls > 0
    assert (acting.cursor.unrecorded_steps > 0) == stagger


class NestedAgent(CountingAgent):
    """Adds the environment's id to every part of a nested state at each step, whatever `done` says.

    Its behaviour is everything that it was given.
    """

    behaviour_spec = {  # noqa: RUF012
        "flat": tf.TensorSpec([], tf.int32),
        "cells": tf.TensorSpec([2, 3], tf.float32),
        "env_id": tf.TensorSpec([], tf.int32),
        "seed": tf.TensorSpec([2], tf.int32),
        "uint8": tf.TensorSpec([3, 1], tf.uint8),
    }

    def initial_state(self, batch_size):
        return {"flat": tf.zeros([batch_size], tf.int32), "cells": tf.zeros([batch_size, 2, 3])}

    def act(self, prev_action, env_output, state, env_ids, seed, greedy=False):
        seeds = tf.tile(seed[None], [env_ids.shape[0], 1])
        behaviour = {**state, "env_id": env_ids, "seed": seeds, "uint8": env_output.observation["uint8"]}
        growth = tf.cast(env_ids, tf.float32)[:, None, None]
        state = {"flat": state["flat"] + env_ids, "cells": state["cells"] + growth}
        return ActOutput(action_of(env_output.observation["counters"]), behaviour, state)


class GreedyOrNot(CountingAgent):
    """Takes action 1 where it acts greedily, 0 elsewhere."""

    def act(self, prev_action, env_output, state, env_ids, seed, greedy=False):
        answer = super().act(prev_action, env_output, state, env_ids, seed)
        return answer._replace(action=tf.cast(tf.broadcast_to(greedy, tf.shape(env_ids)), tf.int32))


@pytest.mark.parametrize("greedy_evaluation", [False, True])
def test_only_evaluation_environments_are_greedy_and_only_if_asked(greedy_evaluation):
    actors = Actors(groups_per_actor=2, envs_per_group=2, num_eval_envs=1, greedy_evaluation=greedy_evaluation)
    experiment = Experiment(env=Counting(), agent=CountingAgentConfig(), actors=actors, batch_size=4)
    agent = GreedyOrNot(experiment.agent, Counting().spec())
    acting = Acting(agent, Sizes.of(experiment, agent), experiment.inference, seed=0)
    env_ids = np.arange(4, dtype=np.int32)
    output = EnvOutput(np.zeros(4, np.float32), *np.zeros((2, 4), bool), np.zeros((4, 4), np.int32))
    actions, _, _ = act(acting, env_ids, np.full(4, True), [output])
    assert actions.tolist() == [0, 0, 0, int(greedy_evaluation)]


def random_tensor(rng, spec, batch):
    shape = (batch, *spec.shape)
    if spec.dtype == "bool":
        return rng.random(shape) < 0.5
    if spec.dtype.startswith("float"):
        return rng.normal(size=shape).astype(spec.dtype)
    bounds = np.iinfo(spec.dtype)
    return rng.integers(bounds.min, bounds.max, shape, spec.dtype, endpoint=True)


SHAPES = {dtype: [(), (3, 1), (2,)][number % 3] for number, dtype in enumerate(DTYPES)}
EVERY_DTYPE = {dtype: ArraySpec(shape, dtype) for dtype, shape in SHAPES.items()}
COUNTERS = ArraySpec((4,), "int32")


def stored_steps(seed, store_device, specs, batches):
    """Acts for batches of (env_ids, restarted); checks and yields the rows of the store that each has written."""
    specs = {**specs, "counters": COUNTERS}
    agent = NestedAgent(CountingAgentConfig(unroll_length=STRIDE), EnvSpec(specs, DiscreteSpec(1000)))
    acting = make_acting(agent, store_device, seed=seed)
    rng = np.random.default_rng(0)
    for env_ids, restarted in batches:
        batch = len(env_ids)
        observation = {name: random_tensor(rng, spec, batch) for name, spec in specs.items()}
        observation["counters"] = rng.integers(0, 100, (batch, 4)).astype(np.int32)
        output = EnvOutput(np.zeros(batch, np.float32), *np.zeros((2, batch), bool), observation)
        actions, writes, _ = act(acting, np.array(env_ids, np.int32), np.array(restarted), [output])
        rows = contents(acting)._replace(initial_state=())
        stored = tf.nest.map_structure(lambda x, w=writes: x[w.slots[0], w.positions[0]], rows)
        assert stored.env_output.observation.keys() == observation.keys()
        for name, tensor in observation.items():
            np.testing.assert_array_equal(stored.env_output.observation[name], tensor, err_msg=name, strict=True)
        np.testing.assert_array_equal(stored.behaviour["uint8"], observation["uint8"])
        np.testing.assert_array_equal(actions, action_of(observation["counters"]))
        assert stored.behaviour["env_id"].tolist() == env_ids
        assert len({*map(tuple, stored.behaviour["seed"].tolist())}) == 1, "one for the batch"
        yield stored.behaviour


def test_nested_states_and_observations_of_any_dtype_are_kept_row_by_row(store_device):
    batches = [([3, 5, 7, 2, 6], [True] * 5), ([7, 5, 3, 2], [False] * 4), ([5, 6, 3, 7], [False, False, True, False])]
    *_, last = stored_steps(0, store_device, EVERY_DTYPE, batches)
    assert last["flat"].tolist() == [10, 6, 0, 14], "zero where restarted"
    np.testing.assert_array_equal(last["cells"], np.array([10, 6, 0, 14])[:, None, None] * np.ones([1, 2, 3]))


def test_seeds_are_new_at_each_call_and_repeat_with_the_run():
    def seeds(seed):
        steps = stored_steps(seed, "", {"uint8": EVERY_DTYPE["uint8"]}, [([4, 0], [True] * 2)] * 3)
        return [tuple(step["seed"][0].tolist()) for step in steps]

    first, again, other = seeds(1), seeds(1), seeds(2)
    assert first == again
    assert len({*first, *other}) == 6
