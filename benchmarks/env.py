"""Environments alone: agent steps and frames per second of each suite.

As in an actor, each group of environments is stepped by a thread, but with random legal actions, and nothing is sent.
Frames include action repeats.
"""

import argparse
import contextlib
import dataclasses
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks import flags
from benchmarks.report import median, spread
from seed_rl.envs import registry
from seed_rl.envs.base import CannotBuild, EnvConfig
from seed_rl.envs.vector.steps import random_play
from seed_rl.experiment import Experiment
from seed_rl.reporting.text import columns
from seed_rl.specs import EnvDescription
from seed_rl.types import EnvOutput

SUITES = {
    "pong": EnvDescription("atari", {"game": "pong"}),
    "pong_linear": EnvDescription("atari", {"game": "pong", "resize": "linear"}),
    "breakout": EnvDescription("atari", {"game": "breakout"}),
    "cartpole": EnvDescription("gym", {"id": "CartPole-v1"}),
    "catch": EnvDescription("catch", {}),
    "memory": EnvDescription("memory", {}),
    "football": EnvDescription("football", {}),
}

QUICK = {"suites": "catch,pong", "threads": "1", "envs_per_thread": 2, "seconds": 0.2, "repeats": 2}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    up_to_all_cores = ",".join(str(n + 1) for n in range(len(os.sched_getaffinity(0))))
    parser.add_argument("--suites", type=flags.some_of(SUITES), default=",".join(SUITES), help="suites to measure")
    parser.add_argument("--threads", type=flags.counts, default=up_to_all_cores, help="numbers of threads")
    parser.add_argument("--envs_per_thread", type=flags.count, default=16, help="environments per thread")
    flags.add_timing(parser, 3.0)


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure the rates of each suite installed here; for the others, say what is missing."""
    suites: list[dict[str, Any]] = []
    for name in arguments.suites:
        row: dict[str, Any] = {"suite": name, "description": dataclasses.asdict(SUITES[name]), "rates": []}
        try:
            config = registry.from_description(SUITES[name])
            for threads in arguments.threads:
                groups = [arguments.envs_per_thread] * threads
                steps = env_rates(config, groups, arguments.seconds, arguments.repeats)
                frames = [config.action_repeat * rate for rate in steps]
                row["rates"].append({"threads": threads, "agent_steps": spread(steps), "frames": spread(frames)})
        except CannotBuild as error:
            row["missing"] = str(error)
        suites.append(row)
    return {"envs_per_thread": arguments.envs_per_thread, "suites": suites}


def env_rates(config: EnvConfig, group_sizes: Sequence[int], seconds: float, repeats: int) -> list[float]:
    """Measure agent steps per second of groups of environments, each stepped by a thread with random legal actions.

    The repeats take some seconds in total.

    Raises:
      CannotBuild: the environments are not installed on this machine.
      EnvironmentFailed: an environment raised an error.
    """
    envs = [config.make(size) for size in group_sizes]
    with contextlib.ExitStack() as cleanup, ThreadPoolExecutor(len(envs)) as pool:
        for env in envs:
            cleanup.callback(env.close)
        played = [random_play(env, config.spec(), seed) for seed, env in enumerate(envs)]
        for outputs in played:
            next(outputs)

        def steps_per_second(duration: float) -> float:
            deadline = time.monotonic() + duration
            return sum(pool.map(_steps_per_second, played, [deadline] * len(envs)))

        steps_per_second(0.1 * seconds)
        return [steps_per_second(seconds / repeats) for _ in range(repeats)]


def rate_of(experiment: Experiment, seconds: float) -> float:
    """Measure agent steps per second of all of an experiment's environments: the median of three repeats."""
    actors = experiment.actors
    groups = [actors.envs_per_group] * (actors.num_actors * actors.groups_per_actor)
    return statistics.median(env_rates(experiment.env, groups, seconds, repeats=3))


def _steps_per_second(outputs: Iterator[EnvOutput], deadline: float) -> float:
    """Measure the total rate of a group of environments until a deadline of the monotonic clock."""
    started, steps = time.monotonic(), 0
    while (now := time.monotonic()) < deadline or not steps:
        steps += len(next(outputs).reward)
    return steps / (now - started)


def table(result: dict[str, Any]) -> str:
    rows = []
    for suite in result["suites"]:
        for rates in suite["rates"]:
            times = rates["agent_steps"]["median"] / suite["rates"][0]["agent_steps"]["median"]
            measured = [median(rates["agent_steps"]), median(rates["frames"]), f"{times:.2f}"]
            rows.append([suite["suite"], str(rates["threads"]), *measured])
    lines = [columns(["suite", "threads", "agent steps/s", "frames/s", "times\nthe first"], rows)]
    lines += [f"{suite['suite']}: {suite['missing']}" for suite in result["suites"] if "missing" in suite]
    return "\n".join(lines)
