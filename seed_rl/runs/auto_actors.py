"""Actors and environments for the machine that a run starts on: `--num_actors=auto`."""

import contextlib
import dataclasses
import glob
import itertools
import logging
import math
import time

import psutil

from seed_rl.envs.base import CannotBuild, EnvConfig, spec_of
from seed_rl.envs.vector.steps import random_play
from seed_rl.experiment import ConfigError, Experiment
from seed_rl.system.files import explaining
from seed_rl.system.host_memory import free_host_memory
from seed_rl.system.machine import cores, has_tpu

_log = logging.getLogger(__name__)

_SECONDS, _MEASURED_ENVS = 1.0, 4  # of the measurement
_LEARNED_PER_CORE = 15_000  # agent steps/s that a core of a CPU can act in and learn from with the smallest networks
_ACTOR_BYTES = 140 << 20
_ENVS_PER_MESSAGE = 4  # in smaller groups, messages cost more than steps
_UPDATES_PER_UNROLL = 2  # most batches that environments may fill during one of their unrolls


def with_actors(experiment: Experiment) -> Experiment:
    """Return the experiment with a number of actors for the cores and the memory of this machine; log the choice.

    There are as many actors as keep the cores busy that the learner leaves: the environments' rate on one core is
    measured. They share the environments of the experiment; there are more environments only if groups would become
    smaller than four, and no more than fill two batches with their unrolls, because the weights would be old. Where
    groups evaluate, their size stays, and there may be fewer environments.
    """
    actors, env = experiment.actors, experiment.env
    size = env.players * max(1, min(actors.envs_per_group, _MEASURED_ENVS) // env.players)
    with explaining(ConfigError, "the environments can't be measured here, give a number of actors", CannotBuild):
        rate, env_bytes = measure(env, size)
    here = cores()
    learned = math.inf if has_tpu() or glob.glob("/dev/nvidia[0-9]*") else here * _LEARNED_PER_CORE
    evaluates = experiment.eval_env != env  # in whole groups, whose size stays
    few = env.players * max(1, min(actors.envs_per_group, _ENVS_PER_MESSAGE) // env.players)
    least = actors.envs_per_group if evaluates else few
    most_envs = max(actors.num_envs, _UPDATES_PER_UNROLL * experiment.batch_size)
    enough = f"{most_envs} environments, with unrolls for a learner batch each {_UPDATES_PER_UNROLL} times over"
    limits = [
        (here - 1, f"{here} cores"),
        (math.ceil(min(learned / rate, here)), "the learner's rate"),
        (most_envs // (actors.groups_per_actor * least), enough),
        (int(free_host_memory() / 2 // (_ACTOR_BYTES + 2 * least * env_bytes)), "the free memory"),
    ]
    found, limit = min(limits)
    count = max(1, found, actors.num_eval_envs // (actors.groups_per_actor * least) + 1 if evaluates else 1)
    share = actors.num_envs / (count * actors.groups_per_actor)
    size = least if evaluates else max(least, env.players * round(share / env.players))
    chosen = dataclasses.replace(actors, num_actors=count, envs_per_group=size)
    _log.info(
        "--num_actors=%d (limit: %s) and Actors.envs_per_group=%d make %d environments; a core makes %s steps/s",
        *(count, limit, size, chosen.num_envs, f"{rate:,.0f}"),
    )
    return dataclasses.replace(experiment, actors=chosen)


def measure(env: EnvConfig, size: int) -> tuple[float, int]:
    """Measure agent steps/s that a core makes in a group of environments, and the memory of one, bytes.

    Resets count like steps, and processes and threads of the environments by the CPU time that they use. Raises
    CannotBuild if the environments can't be made here.
    """
    process = psutil.Process()
    before = process.memory_info().rss
    with contextlib.closing(env.make(size)) as made:
        outputs = random_play(made, spec_of(made))
        next(outputs)
        until, used = time.monotonic() + _SECONDS, _cpu_seconds(process)
        steps = 1 + sum(1 for _ in itertools.takewhile(lambda _: time.monotonic() < until, outputs))
        rate = size * steps / max(1e-3, _cpu_seconds(process) - used)
        return rate, max(0, process.memory_info().rss - before) // size


def _cpu_seconds(process: psutil.Process) -> float:
    """Return the CPU time that a process and its children have used."""
    return sum(sum(each.cpu_times()[:2]) for each in (process, *process.children(recursive=True)))
