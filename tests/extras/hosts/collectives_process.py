"""Two learner hosts in separate processes, and updates from their parts of a batch.

Writes `host-<index>.npz` into a directory, the first argument; the others are the hosts' addresses.
"""

import multiprocessing
import os
import socket
import sys
import threading

import keras
import numpy as np
import psutil
import tensorflow as tf

from seed_rl.experiment import config_files
from seed_rl.experiment.optimizer import Optimizer
from seed_rl.extras.hosts.collectives import connect
from seed_rl.extras.hosts.hosts import Hosts, meet
from seed_rl.learner.gradients import Reduction
from seed_rl.learner.train_step import TrainStep
from tests.support.quadratic_agent import LENGTH, QuadraticAgent, unroll_of

BATCH = 12


class Statistician(QuadraticAgent):
    """Keeps the mean reward of the batch."""

    def __init__(self):
        super().__init__(two_groups=True)
        self.mean = keras.Variable(0.0, dtype="float32")

    def moments(self, unroll):
        return (tf.reduce_mean(unroll.env_output.reward),)

    def update_statistics(self, moments, steps):
        self.mean.assign(moments[0] * steps)


def updates(reduction=None, index=0):
    """Results of updates from this host's part of the batches, by name; the second batch has an infinite reward."""
    rng = np.random.default_rng(0)
    rewards, states, weights = rng.normal(size=(LENGTH, BATCH)), rng.normal(size=BATCH), rng.uniform(0.5, 1, BATCH)
    spoiled = rewards.copy()
    spoiled[1, BATCH - 1] = np.inf  # of the last host
    own = np.split(np.arange(BATCH), reduction.learners if reduction else 1)[index]
    agent, results = Statistician(), {}
    step = TrainStep(agent, Optimizer(learning_rate=0.05, epsilon=1e-2, clip_norm=1.0), reduction=reduction)
    for number, batch in enumerate((rewards, spoiled, rewards + 1)):
        update = step(unroll_of(batch[:, own], states[own]), 0.0, weights[own])
        results |= {f"{number} {name}": value for name, value in update.metrics.items()}
        results[f"{number} steps"] = (update.optimizer_steps, update.left_out)
        results[f"{number} weights"] = np.append(agent.numpy(), agent.mean.numpy())
        results[f"{number} priorities"] = update.priorities
    agent = QuadraticAgent()
    update = TrainStep(agent, Optimizer(), passes=2, minibatches=2, reduction=reduction)(
        unroll_of(rewards[:, own], states[own]), 0.0, weights[own]
    )
    return results | {
        "minibatches steps": (update.optimizer_steps, update.left_out),
        "minibatches weights": agent.numpy(),
        "minibatches priorities": update.priorities,
        "minibatches reward/max": update.metrics["reward/max"],
    }


def open_elsewhere(port):
    """Addresses of this machine, other than loopback, at which a port is open."""
    found = []
    for each in (each for addresses in psutil.net_if_addrs().values() for each in addresses):
        if each.family == socket.AF_INET and not each.address.startswith("127."):
            with socket.socket() as probe:
                found += [each.address] if probe.connect_ex((each.address, port)) == 0 else []
    return found


def main(directory, addresses, index, all_done):
    hosts = Hosts(addresses, index)
    assert meet(hosts, threading.Event())
    link = connect(hosts, config_files.load(["catch/vtrace"]))
    arrays = [np.float32(index), np.full((2, 3), index - 0.5), np.array([index == 0] * 3), np.array([7 - index])]
    first = link.gather({"arrays": [array.tolist() for array in arrays]})[0]["arrays"]
    for received, expected in zip(link.of_first(arrays), first, strict=True):
        np.testing.assert_array_equal(received, expected)
    steps = ((9, 0), (9, 1), (1, 1))  # which host leaves, and up to which all are ready
    agreed = [link.agree(leave == index, ready >= index, env_frames=640 + index) for leave, ready in steps]
    elsewhere = open_elsewhere(hosts.parsed[index].port)
    found = updates(Reduction(hosts.count, link.mean, link.maximum), index)
    np.savez(os.path.join(directory, f"host-{index}.npz"), agreed=agreed, elsewhere=elsewhere, **found)
    all_done.wait(60)  # a host sends others their last sums, and the first tells them who is alive, until it ends


if __name__ == "__main__":
    directory, *addresses = sys.argv[1:]
    children, all_done = [], multiprocessing.Barrier(len(addresses))
    for index in range(len(addresses)):
        if (pid := os.fork()) == 0:  # TensorFlow is imported, but not yet at work
            main(directory, tuple(addresses), index, all_done)
            sys.stdout.flush()
            os._exit(0)
        children.append(pid)
    sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children))
