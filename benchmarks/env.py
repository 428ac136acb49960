"""Environments alone: agent steps and frames per second of each suite.

As in an actor, each group of environments is stepped by a thread of its own, with random actions; nothing is sent.
Frames count action repeats.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gymnasium
import numpy as np

from benchmarks import flags
from benchmarks.text import columns, number
from benchmarks.timing import spread
from seed_rl.envs import registry
from seed_rl.envs.base import CannotBuild, EnvConfig, random_actions
from seed_rl.specs import EnvDescription

SUITES = {
    "pong": EnvDescription("atari", {"game": "pong"}),
    "breakout": EnvDescription("atari", {"game": "breakout"}),
    "cartpole": EnvDescription("gym", {"id": "CartPole-v1"}),
    "catch": EnvDescription("catch", {}),
    "memory": EnvDescription("memory", {}),
    "football": EnvDescription("football", {}),
}

QUICK = {"suites": "catch,pong", "threads": "1", "envs_per_thread": 2, "seconds": 0.2, "repeats": 2}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its flags."""
    up_to_all_cores = ",".join(str(n + 1) for n in range(len(os.sched_getaffinity(0))))
    parser.add_argument("--suites", type=flags.some_of(SUITES), default=",".join(SUITES), help="which to measure")
    parser.add_argument("--threads", type=flags.counts, default=up_to_all_cores, help="numbers of threads")
    parser.add_argument("--envs_per_thread", type=flags.count, default=16, help="environments in each thread's group")
    flags.add_timing(parser, seconds=3.0)


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Rates of each suite that can be built here; of the others, the sentence that says why not."""
    suites: list[dict[str, Any]] = []
    for name in arguments.suites:
        try:
            config = registry.from_description(SUITES[name])
            rates = [
                {"threads": threads, **_rates(config, [arguments.envs_per_thread] * threads, arguments)}
                for threads in arguments.threads
            ]
        except CannotBuild as error:
            suites.append({"suite": name, "missing": str(error), "rates": []})
        else:
            suites.append({"suite": name, "rates": rates})
    return {"envs_per_thread": arguments.envs_per_thread, "suites": suites}


def _rates(config: EnvConfig, group_sizes: Sequence[int], arguments: argparse.Namespace) -> dict[str, Any]:
    steps = env_rates(config, group_sizes, arguments.seconds, arguments.repeats)
    return {"agent_steps": spread(steps), "frames": spread([config.action_repeat * rate for rate in steps])}


def env_rate(config: EnvConfig, group_sizes: Sequence[int], seconds: float) -> float:
    """The median of `env_rates`."""
    return statistics.median(env_rates(config, group_sizes, seconds, repeats=3))


def env_rates(config: EnvConfig, group_sizes: Sequence[int], seconds: float, repeats: int) -> list[float]:
    """Agent steps per second of groups of environments that are stepped with random actions, a thread for each.

    Raises:
      CannotBuild: not on this machine.
    """
    envs = [config.make(size) for size in group_sizes]
    try:
        rng = np.random.default_rng(0)
        actions = [random_actions(config.spec().action, rng, size) for size in group_sizes]
        for env in envs:
            env.reset(seed=0)
        with ThreadPoolExecutor(len(envs)) as pool:

            def steps_per_second(duration: float) -> float:
                deadline = time.monotonic() + duration
                return sum(pool.map(_steps_per_second, envs, actions, [deadline] * len(envs)))

            steps_per_second(0.1 * seconds)
            return [steps_per_second(seconds / repeats) for _ in range(repeats)]
    finally:
        for env in envs:
            env.close()


def _steps_per_second(env: gymnasium.vector.VectorEnv, actions: np.ndarray, deadline: float) -> float:
    """Of all environments of a group together, until the deadline (of the monotonic clock)."""
    started, calls = time.monotonic(), 0
    while (now := time.monotonic()) < deadline or not calls:
        env.step(actions)
        calls += 1
    return calls * len(actions) / (now - started)


def table(result: dict[str, Any]) -> str:
    """For people."""
    rows = [
        [
            suite["suite"],
            str(rates["threads"]),
            number(rates["agent_steps"]["median"]),
            number(rates["frames"]["median"]),
            f"{rates['agent_steps']['median'] / suite['rates'][0]['agent_steps']['median']:.2f}",
        ]
        for suite in result["suites"]
        for rates in suite["rates"]
    ]
    lines = [columns(["suite", "threads", "agent steps/s", "frames/s", "times\nthe first"], rows)]
    lines += [f"{suite['suite']}: {suite['missing']}" for suite in result["suites"] if "missing" in suite]
    return "\n".join(lines)
