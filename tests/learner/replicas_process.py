"""Updates on several numbers of logical devices, each in a separate process, because TensorFlow creates devices once.

Writes results into a directory, the argument: an .npz file for each number of devices.
"""

import os
import sys

import numpy as np
import tensorflow as tf

from seed_rl.agents.ppo import PPO
from seed_rl.buffers.unroll_store import Addresses, UnrollStore
from seed_rl.experiment import Devices, Experiment
from seed_rl.experiment.optimizer import Optimizer
from seed_rl.learner.replicas import Replicas
from seed_rl.learner.train_step import TrainStep
from seed_rl.specs import ArraySpec, DiscreteSpec, EnvSpec
from tests.support.counting import Counting
from tests.support.quadratic_agent import LENGTH, QuadraticAgent, unroll_of

BATCH, UPDATES = 16, 2
SPEC = EnvSpec(ArraySpec((10, 5, 1), "uint8"), DiscreteSpec(3))
AGENT = PPO(
    torso="mlp",
    hidden=16,
    previous_step_inputs=True,
    advantage_norm=False,
    unroll_length=2,
    entropy_cost=0.01,
    target_entropy=0.5,
    value_norm=True,
)
OPTIMIZER = Optimizer(learning_rate=0.01, epsilon=1e-2, clip_norm=0.05)


def fill(store):
    """Random states and steps in all slots and places."""
    rng = np.random.default_rng(1)
    for rows, count in ((store.states, store.num_slots), *((rows, store.num_places) for rows in store.steps)):
        every, arrays = np.arange(count, dtype=np.int32), []
        for array in rows.get(every):
            values = rng.random(array.shape)
            arrays.append(values < 0.1 if array.dtype == bool else (3 * values).astype(array.dtype))
        rows.set(every, arrays)


def values_of(agent):
    return [variable.numpy() for variable in agent.variables]


def run(replicas):
    """Rewards, metrics and weights by name; on four devices nothing is learned.

    The stores of all inference devices hold the same unrolls: a batch does not depend on how many it is read from.
    """
    with replicas.scope():
        agent = AGENT.build(SPEC, 4, 1)
        step = TrainStep(agent, OPTIMIZER, replicas.strategy)
    acting, refresh = replicas.acting_agents(agent, lambda: AGENT.build(SPEC, 4, 2))
    readers = []
    for number, (copy, device) in enumerate(zip(acting, replicas.inference_devices, strict=True)):
        count = 2 * BATCH
        store = UnrollStore(copy.step_spec, count, count * agent.length, device, copy.history, copy.restored_state)
        fill(store)
        readers.append(replicas.reader(store, number))
    weights = np.linspace(0.2, 1, BATCH, dtype=np.float32)
    results = {}
    for number in range(UPDATES):
        slots = np.random.default_rng(number).permutation(2 * BATCH)[:BATCH].astype(np.int32)
        steps = np.arange(-agent.history, agent.length, dtype=np.int32)
        places = (agent.length * slots + steps[:, None]) % (agent.length * 2 * BATCH)
        pieces = zip(np.split(slots, len(readers)), np.split(places, len(readers), axis=1), strict=True)
        addresses = [Addresses(tf.constant(own), tf.constant(at)) for own, at in pieces]
        parts = [part for read, piece in zip(readers, addresses, strict=True) for part in read(piece)]
        devices = [part.env_output.observation.backing_device for part in parts]
        assert [device.rpartition("device:")[2] for device in devices] == list(replicas.split.training)
        results[f"{number} reward"] = np.concatenate([part.env_output.reward for part in parts], axis=1)
        if replicas.count < 4:
            with replicas.scope():
                update = step(replicas.join(parts), 0.5, weights)
            agent.after_update(number + 1)
            results |= {f"{number} {name}": value for name, value in update.metrics.items()}
        else:
            for variable in agent.model.trainable_variables:
                variable.assign(variable.numpy() + 1)
    learned, stale = values_of(agent), values_of(acting[-1])
    refresh()
    assert any(np.any(before != after) for before, after in zip(stale, learned, strict=True))
    for copy, device in zip(acting, replicas.inference_devices, strict=True):
        np.testing.assert_equal(values_of(copy), learned)
        assert {v.value.device.rpartition("device:")[2] for v in copy.variables} == {device}
    return results | {f"weight {index}": value for index, value in enumerate(learned)}


def check_minibatches(replicas):
    """Two passes in two minibatches over four sequences for each device, then over some that are not finite.

    Of these, the first device has one in each minibatch, and the other devices none.
    """
    with replicas.scope():
        agent = QuadraticAgent(two_groups=True)
        loss, odd = agent.loss, lambda seed: {"odd": tf.reduce_mean(tf.cast(seed % 2, tf.float32))}
        agent.loss = lambda unroll, weights, seed: loss(unroll, weights)._replace(metrics=odd(seed))
        step = TrainStep(agent, OPTIMIZER, replicas.strategy, passes=2, minibatches=2)
    rng = np.random.default_rng(0)
    size = 4 * replicas.count
    rewards, states, weights = rng.normal(size=(LENGTH, size)), rng.normal(size=size), rng.uniform(0.5, 1, size)

    def update():
        parts = []
        for own, device in zip(np.split(np.arange(size), replicas.count), replicas.split.training, strict=True):
            with tf.device(device):
                parts.append(unroll_of(rewards[:, own], states[own]))
        with replicas.scope():
            found = step(replicas.join(parts), 0.0, weights)
        return found, [*values_of(agent), *(variable.numpy() for variable in step.variables.values())]

    found, before = update()
    assert (found.optimizer_steps, found.left_out) == (4, 0)
    np.testing.assert_allclose(found.priorities, states + 10 * rewards[1] + 100 * weights, rtol=1e-5)
    assert found.metrics["odd"] == 0.5, "one of two replicas"
    np.testing.assert_allclose(found.metrics["reward/max"], rewards.max(), rtol=1e-6)
    rewards[1, :3] = np.inf
    found, after = update()
    assert (found.optimizer_steps, found.left_out) == (0, 4), "left out on all devices"
    np.testing.assert_equal(after, before)


def main(count, directory):
    training = tuple(f"CPU:{number}" for number in range(1, count + 1))
    inference = ("CPU:0",) if count < 4 else ("CPU:0", f"CPU:{count + 1}")
    devices = Devices(training, inference, count + 2)
    # Of two strategies in a process, one takes what is meant for the other.
    replicas = Replicas(Experiment(env=Counting(), agent=AGENT, batch_size=BATCH, devices=devices))
    assert replicas.count == count
    np.savez(os.path.join(directory, f"{count}.npz"), **run(replicas))
    if count == 2:
        check_minibatches(replicas)


if __name__ == "__main__":
    for count in (1, 2, 4):  # training devices; four are fed by two inference devices
        if (pid := os.fork()) == 0:  # TensorFlow is imported, but not yet at work
            sys.exit(main(count, sys.argv[1]))
        if status := os.waitpid(pid, 0)[1]:
            sys.exit(os.waitstatus_to_exitcode(status))
