"""The act step against one environment at a time, with the unrolls in the store as its agent stepped through them."""

import collections
import contextlib
import dataclasses
import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.agents.base import ActOutput
from seed_rl.buffers.unroll_store import Addresses
from seed_rl.envs.vector.steps import random_play
from seed_rl.experiment import Actors, Experiment, Inference, config_files
from seed_rl.experiment.sizes import Sizes
from seed_rl.inference import acting as acting_module
from seed_rl.inference.acting import Acting
from seed_rl.specs import DTYPES, ArraySpec, CannotAct, ContinuousSpec, EnvSpec
from seed_rl.system import devices
from seed_rl.system.devices import HOST
from seed_rl.types import EnvOutput, Unroll
from tests.support.counting import Counting
from tests.support.counting_agent import CountingAgent, CountingAgentConfig, action_of
from tests.support.experience import random_tensor

NUM_ENVS, MAX_BATCH, STRIDE = 8, 6, 4
SPEC, Pair = CountingAgent.behaviour_spec, collections.namedtuple("Pair", "first second")
HELD = 8
"""Finished unrolls that may stay in the store, as in a queue or in a batch."""


@pytest.fixture(params=["cpu", "accelerator", "accelerator, store on the host"])
def store_device(request, monkeypatch):
    """The act step is traced and compiled for one kind of machine, with the CPU in an accelerator's place."""
    if request.param != "cpu":
        monkeypatch.setattr(devices, "has_accelerator", lambda: True)
    return HOST if "host" in request.param else ""


def make_acting(agent, store_device, stagger=False):
    experiment = Experiment(
        env=Counting(),
        agent=CountingAgentConfig(unroll_length=agent.unroll_length, overlap=agent.overlap),
        actors=Actors(num_actors=2, groups_per_actor=2, envs_per_group=2),
        inference=Inference(max_batch_size=MAX_BATCH, stagger_unrolls=stagger),
        batch_size=4,
    )
    sizes = Sizes.of(experiment, agent)
    assert (sizes.num_envs, sizes.act_batches) == (NUM_ENVS, (2, 3, 6))
    return Acting(agent, sizes, experiment.inference, 0, ("", store_device))


@pytest.mark.parametrize(
    ("part", "spec", "made", "sentence"),
    [
        ("action", SPEC, lambda action: action[:, None], r"action .*, int32\[2\], got int32\[2, 1\]$"),
        ("behaviour", SPEC, lambda state: (state, state), r"behaviour .*, int32\[2\], got \(int32\[2\], int32\[2\]\)$"),
        ("behaviour", Pair(SPEC, SPEC), lambda state: (state, state), r"behaviour .*, Pair\(.*, got \(int32"),
        ("state", SPEC, lambda state: tf.cast(state, tf.float32), r"state .*, int32\[2\], got float32\[2\]$"),
    ],
)
def test_what_an_agent_returns_must_be_what_it_declares(part, spec, made, sentence, monkeypatch):
    monkeypatch.setattr(CountingAgent, "behaviour_spec", spec)
    act = CountingAgent.act

    def other(*arguments):
        output = act(*arguments)
        return output._replace(**{part: made(getattr(output, part))})

    monkeypatch.setattr(CountingAgent, "act", other)
    with pytest.raises(CannotAct, match=f"^CountingAgent.act must return the {sentence}"):
        make_acting(CountingAgent(CountingAgentConfig(unroll_length=STRIDE), Counting().spec()), "").act_step.warm_up()


def test_unrolls_are_on_the_first_accelerator_if_no_device_is_named(monkeypatch):
    acting = functools.partial(make_acting, CountingAgent(CountingAgentConfig(unroll_length=STRIDE), Counting().spec()))
    assert acting("").unrolls.store.device == ""
    monkeypatch.setattr(acting_module, "first_accelerator", lambda: HOST)
    assert acting("").unrolls.store.device == HOST


def act(acting, env_ids, restarted, outputs):
    """Acts for a batch as the inference thread does: the actions, the destinations, and the finished unrolls."""
    acting.cursor.restart(env_ids[restarted])
    writes, finished = acting.cursor.advance(env_ids)
    return acting.act_step(env_ids, restarted, writes, outputs), writes, finished


class Twin:
    """One environment and its counting agent, in plain Python."""

    def __init__(self):
        self.state, self.prev_action = 0, 0
        self.steps: list[Unroll] = []

    def act(self, reward, done, last, observation):
        done |= not self.steps
        before, prev_action = self.state, self.prev_action
        self.state = 1 if done else before + 1
        self.prev_action = action_of(observation)
        output = EnvOutput(reward, done, last, observation)
        self.steps.append(Unroll(before, prev_action, output, self.prev_action, self.state))
        return self.prev_action


def assert_holds(unrolls, slot, steps):
    """The unroll in a slot has these steps."""
    unroll = unrolls.store.read(unrolls.at(np.array([slot])))
    assert unroll.initial_state == steps[0].initial_state
    steps = [step._replace(initial_state=()) for step in steps]
    expected = tf.nest.map_structure(lambda *values: np.stack(values)[:, None], *steps)
    tf.nest.map_structure(np.testing.assert_array_equal, unroll._replace(initial_state=()), expected)


@pytest.mark.parametrize(
    ("overlap", "store_device"),
    [(1, "accelerator"), (3, "accelerator, store on the host"), (6, "cpu")],
    indirect=["store_device"],
)
def test_batches_in_any_order_and_size_equal_one_environment_at_a_time(overlap, store_device):
    stagger = overlap > 1
    config = CountingAgentConfig(unroll_length=STRIDE, overlap=overlap)
    acting = make_acting(CountingAgent(config, Counting().spec()), store_device, stagger)
    pool, length = acting.unrolls.pool, STRIDE + overlap
    rng = np.random.default_rng(1)
    twins, held, checked, sizes = {}, collections.deque(), 0, set()
    for turn in range(110):
        if turn % 50 == 0:
            acting.act_step.warm_up()  # acts for padding alone
        env_ids = rng.permutation(NUM_ENVS)[: rng.integers(1, MAX_BATCH + 1)].astype(np.int32)
        batch = len(env_ids)
        restarted = np.array([env not in twins or rng.random() < 0.02 for env in env_ids.tolist()])
        reward, (done, last) = rng.normal(size=batch).astype(np.float32), rng.random((2, batch)) < 0.2
        output = EnvOutput(reward, done, last, rng.integers(0, 100, (batch, 4)).astype(np.int32))
        cuts = np.sort(rng.choice(batch + 1, size=min(2, batch), replace=False))  # pieces may be empty
        pieces = [EnvOutput(*piece) for piece in zip(*(np.split(array, cuts) for array in output), strict=True)]
        actions, writes, finished = act(acting, env_ids, restarted, pieces)
        assert acting.act_step.padding == [1, 0, 0, 2, 1, 0][batch - 1]

        twins |= {env: Twin() for env in env_ids[restarted].tolist()}
        chosen = [twins[env].act(*step) for env, *step in zip(env_ids.tolist(), *output, strict=True)]
        np.testing.assert_array_equal(actions, np.array(chosen, np.int32), strict=True)
        sizes.add(batch)
        for slot in finished:
            (column,) = np.flatnonzero(writes.places == pool.places[slot, -1])
            held.append((slot, twins[int(env_ids[column])].steps[-length:]))
        while len(held) > HELD:
            slot, steps = held.popleft()
            assert_holds(acting.unrolls, slot, steps)
            pool.release(np.array([slot]))
            checked += 1
    assert sizes == set(range(1, MAX_BATCH + 1))
    assert checked > 50
    assert acting.cursor.discarded_unrolls > 0
    assert (acting.cursor.unrecorded_steps > 0) == stagger


SHAPES = {dtype: [(), (3, 1), (2,)][number % 3] for number, dtype in enumerate(DTYPES)}
EVERY_DTYPE = EnvSpec(
    {dtype: ArraySpec(shape, dtype) for dtype, shape in SHAPES.items()}, ContinuousSpec((-1.0,) * 2, (1.0,) * 2)
)


class NestedAgent(CountingAgent):
    """Adds the environment's id to every part of a nested state at each step, whatever `done` says.

    Its behaviour is everything that it was given, its action a part of it.
    """

    behaviour_spec = {  # noqa: RUF012
        "flat": tf.TensorSpec([], tf.int32),
        "cells": tf.TensorSpec([2, 3], tf.float32),
        "env_id": tf.TensorSpec([], tf.int32),
        "uint8": tf.TensorSpec([3, 1], tf.uint8),
    }

    def initial_state(self, batch_size):
        return {"flat": tf.zeros([batch_size], tf.int32), "cells": tf.zeros([batch_size, 2, 3])}

    def act(self, prev_action, env_output, state, env_ids, seed, greedy=False):
        behaviour = {**state, "env_id": env_ids, "uint8": env_output.observation["uint8"]}
        growth = tf.cast(env_ids, tf.float32)[:, None, None]
        state = {"flat": state["flat"] + env_ids, "cells": state["cells"] + growth}
        return ActOutput(tf.cast(env_output.observation["float16"], tf.float32), behaviour, state)


def test_nested_states_actions_and_observations_of_any_dtype_are_kept_row_by_row(store_device):
    acting = make_acting(NestedAgent(CountingAgentConfig(unroll_length=STRIDE), EVERY_DTYPE), store_device)
    rng, before = np.random.default_rng(0), np.zeros((NUM_ENVS, 2), np.float32)
    batches = [([3, 5, 7, 2, 6], [True] * 5), ([7, 5, 3, 2], [False] * 4), ([5, 6, 3, 7], [False, False, True, False])]
    for env_ids, restarted in batches:
        batch, specs = len(env_ids), EVERY_DTYPE.observation_tensors()
        tensors = {name: random_tensor(rng, spec, [batch]).numpy() for name, spec in reversed(specs)}
        whole = EnvOutput(np.zeros(batch, np.float32), *np.zeros((2, batch), bool), tensors)
        pieces = [tf.nest.map_structure(lambda array, of=of: array[of], whole) for of in (slice(2), slice(2, None))]
        actions, writes, _ = act(acting, np.array(env_ids, np.int32), np.array(restarted), pieces)
        addresses = Addresses(np.zeros(batch, np.int32), writes.places[None])
        unrolls = acting.unrolls.store.read(tf.nest.map_structure(tf.constant, addresses))._replace(initial_state=())
        stored = tf.nest.map_structure(lambda tensor: tensor.numpy()[0], unrolls)
        for name, tensor in tensors.items():
            np.testing.assert_array_equal(stored.env_output.observation[name], tensor, err_msg=name, strict=True)
        np.testing.assert_array_equal(stored.behaviour["uint8"], tensors["uint8"])
        np.testing.assert_array_equal(actions, tensors["float16"].astype(np.float32), strict=True)
        np.testing.assert_array_equal(stored.action, actions)
        before[np.array(env_ids)[restarted]] = 0
        np.testing.assert_array_equal(stored.prev_action, before[env_ids])
        before[env_ids] = actions
        assert stored.behaviour["env_id"].tolist() == env_ids
    assert stored.behaviour["flat"].tolist() == [10, 6, 0, 14], "zero where restarted"
    cells = np.array([10, 6, 0, 14])[:, None, None] * np.ones([1, 2, 3])
    np.testing.assert_array_equal(stored.behaviour["cells"], cells)


GREEDY = -1


class Telling(CountingAgent):
    """Its actions tell whether it acts greedily, and elsewhere which seed it was given."""

    def act(self, prev_action, env_output, state, env_ids, seed, greedy=False):
        answer = super().act(prev_action, env_output, state, env_ids, seed)
        number = tf.random.stateless_uniform([], seed, maxval=2**31 - 1, dtype=tf.int32)
        return answer._replace(action=tf.where(tf.broadcast_to(greedy, tf.shape(env_ids)), GREEDY, number))


def test_seeds_are_new_at_each_call_and_repeat_with_the_run_and_evaluation_is_greedy_if_asked():
    def actions(seed, greedy_evaluation):
        actors = Actors(groups_per_actor=2, envs_per_group=2, num_eval_envs=1, greedy_evaluation=greedy_evaluation)
        experiment = Experiment(env=Counting(), agent=CountingAgentConfig(), actors=actors, batch_size=4)
        agent = Telling(experiment.agent, Counting().spec())
        acting = Acting(agent, Sizes.of(experiment, agent), experiment.inference, seed)
        assert acting.cursor.recorded.tolist() == [True, True, True, False], "no unrolls of evaluation"
        output = EnvOutput(np.zeros(4, np.float32), *np.zeros((2, 4), bool), np.zeros((4, 4), np.int32))
        return [act(acting, np.arange(4, dtype=np.int32), np.full(4, False), [output])[0].tolist() for _ in range(3)]

    first, again, other = actions(1, True), actions(1, True), actions(2, False)
    assert first == again
    numbers = [step[0] for step in (*first, *other)]
    assert len({*numbers}) == 6
    assert first == [[number] * 3 + [GREEDY] for number in numbers[:3]], "one seed for the batch"
    assert other == [[number] * 4 for number in numbers[3:]]


def test_an_agent_with_convolutions_acts_as_on_a_cpu_when_compiled_for_an_accelerator(monkeypatch):
    actors = Actors(num_actors=1, groups_per_actor=1, envs_per_group=4, num_eval_envs=0)
    loaded = config_files.load(["atari/vtrace_fast"])
    experiment = dataclasses.replace(loaded, actors=actors, batch_size=1, minibatches=1)
    agent = experiment.build_agent()
    with contextlib.closing(experiment.env.make(4)) as env:
        *_, output = itertools.islice(random_play(env, experiment.env_spec()), 3)

    def play():
        """The actions of three steps, and all that the store then holds."""
        acting = Acting(agent, Sizes.of(experiment, agent), experiment.inference, experiment.seed)
        actions = [act(acting, np.arange(4, dtype=np.int32), np.full(4, False), [output])[0] for _ in range(3)]
        store = acting.unrolls.store
        rows = [store.states.get(np.arange(store.num_slots)), *(own.get(np.arange(12)) for own in store.steps)]
        return [*actions, *(array for arrays in rows for array in arrays)]

    on_cpu = play()
    monkeypatch.setattr(devices, "has_accelerator", lambda: True)
    for compiled, plain in zip(play(), on_cpu, strict=True):
        np.testing.assert_allclose(compiled, plain, rtol=1e-4, atol=1e-4)
