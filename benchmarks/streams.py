"""Whether many slow streams cost the fast ones anything.

Actor processes play Pong, as in a run, through the real server and act step, without learning; once alone and once
beside idle streams of one environment each, in turn. The result is what the busy ones get with the idle ones over what
they get alone. With --saturate load generators stand in for the actors and send random frames as fast as they are
answered.
"""

from __future__ import annotations

import argparse
import dataclasses
import multiprocessing
import tempfile
import threading
import time
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from typing import Any

from benchmarks import flags
from benchmarks.failures import MeasurementFailed, last_words
from benchmarks.load import send_load
from benchmarks.text import columns, number
from benchmarks.timing import ratio, spread
from seed_rl import config_files
from seed_rl.experiment import Actors, Experiment, Inference
from seed_rl.inference.acting import Acting, central_inference
from seed_rl.launch.local_actors import LocalActors
from seed_rl.transport.credentials import ServerSecurity
from seed_rl.transport.server import ActorServer

QUICK = {"busy": 1, "group_size": 2, "idle": 4, "pause": 0.1, "settle": 0.2, "seconds": 0.3, "repeats": 1}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its flags."""
    parser.add_argument("--busy", type=flags.count, default=4, help="busy actor processes")
    parser.add_argument("--group_size", type=flags.count, default=16, help="environments of each")
    parser.add_argument("--idle", type=flags.count, default=256, help="slow streams of one environment")
    parser.add_argument("--pause", type=flags.positive, default=1.0, help="seconds between the steps of a slow stream")
    parser.add_argument("--max_wait_ms", type=float, default=Inference().max_wait_ms, help="Inference.max_wait_ms")
    parser.add_argument("--settle", type=float, default=2.0, help="seconds before each measurement")
    parser.add_argument("--saturate", action="store_true", help="load generators in place of real actors")
    parser.add_argument("--seconds", type=flags.positive, default=10.0, help="for each measurement")
    parser.add_argument("--repeats", type=flags.count, default=3, help="of the measurement with and without idle ones")


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Agent steps per second of the busy actors, `alone` and `with_idle` ones, and the `ratio`."""
    busy_envs = arguments.busy * arguments.group_size
    experiment = dataclasses.replace(
        config_files.load(["atari/vtrace_pong"]),
        actors=Actors(num_actors=busy_envs + arguments.idle, groups_per_actor=1, envs_per_group=1),
        inference=Inference(max_batch_size=busy_envs, max_wait_ms=arguments.max_wait_ms),
    )
    rates: dict[str, list[float]] = {"alone": [], "with_idle": []}
    for _ in range(arguments.repeats):
        for name, idle in (("alone", 0), ("with_idle", arguments.idle)):
            rates[name].append(busy_rate(experiment, arguments, idle))
    spreads = {name: spread(values) for name, values in rates.items()}
    return {"idle": arguments.idle, **spreads, "ratio": ratio(rates["with_idle"], rates["alone"])}


def table(result: dict[str, Any]) -> str:
    """For people."""
    names = {"alone": "alone", "with_idle": f"beside {result['idle']} idle streams"}
    rows = [
        [text, number(result[name]["median"]), ", ".join(map(number, result[name]["repeats"]))]
        for name, text in names.items()
    ]
    each = ", ".join(f"{value:.2f}" for value in result["ratio"]["repeats"])
    rows.append(["ratio", f"{result['ratio']['median']:.2f}", each])
    return columns(["busy actors", "agent steps/s", "repeats"], rows)


def busy_rate(experiment: Experiment, arguments: argparse.Namespace, idle: int) -> float:
    """Agent steps per second that the busy actors get while `idle` streams of one environment step slowly.

    Finished unrolls are taken and given back without learning.

    Raises:
      MeasurementFailed: an actor fails again and again, or streams don't come.
    """
    busy, group_size, pause = arguments.busy, arguments.group_size, arguments.pause
    env_spec = experiment.env.spec()
    acting = Acting(experiment, experiment.build_agent(), env_spec, experiment.seed, experiment.batch_size)
    service = central_inference(experiment, env_spec, experiment.seed, [acting])
    acting.act_step.warm_up()
    with tempfile.TemporaryDirectory(prefix="seed_rl-") as directory:
        server = ActorServer(f"unix:{directory}/bench.sock", service, security=ServerSecurity())
        service.start()
        address = server.start()
        threading.Thread(target=_drain, args=(acting,), daemon=True).start()
        sizes = ["--num_groups=1", f"--envs_per_group={group_size}"]
        actors = LocalActors(sizes, busy, directory, on_failure=acting.queue.close)
        loads: list[BaseProcess] = []
        try:
            if arguments.saturate:
                loads += [_start_load(address, env_spec, 1, group_size) for _ in range(busy)]
            else:
                actors.start(address)
            _wait_for(
                server, actors, loads, streams=busy, messages=10 * busy
            )  # actors open their streams before they play
            if idle:
                loads.append(_start_load(address, env_spec, idle, 1, pause))
            _wait_for(server, actors, loads, streams=busy + idle)
            time.sleep(arguments.settle)
            before, started = service.stats.agent_steps, time.monotonic()
            time.sleep(arguments.seconds)
            steps, elapsed = service.stats.agent_steps - before, time.monotonic() - started
        finally:
            actors.stop()
            service.stop()
            server.stop(grace=1)
            for load in loads:
                load.join()
    if actors.failed is not None:
        raise MeasurementFailed(f"an actor ended again and again: {last_words(str(actors.failed))}")
    return steps / elapsed - idle / pause


def _start_load(*arguments: Any) -> BaseProcess:
    process = multiprocessing.get_context("spawn").Process(target=send_load, args=arguments)
    process.start()
    return process


def _wait_for(
    server: ActorServer, actors: LocalActors, loads: Sequence[BaseProcess], streams: int, messages: int = 0
) -> None:
    deadline = time.monotonic() + 60
    while server.stats.streams < streams or server.stats.steps < messages:
        if actors.failed is not None:
            raise MeasurementFailed(f"an actor ended again and again: {last_words(str(actors.failed))}")
        if time.monotonic() > deadline or not all(load.is_alive() for load in loads):
            stats = server.stats
            raise MeasurementFailed(
                f"{stats.streams} of {streams} streams came, with {stats.steps} of {messages} messages"
            )
        time.sleep(0.05)


def _drain(acting: Acting) -> None:
    while (slots := acting.queue.take(1, timeout=3600)) is not None:
        acting.pool.release(slots)
