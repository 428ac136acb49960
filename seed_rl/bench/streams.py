"""Whether many slow streams cost the fast ones anything: `python -m seed_rl.bench.streams`."""

from __future__ import annotations

import argparse
import dataclasses
import json
import multiprocessing
import os
import sys
import tempfile
import threading
import time
from collections.abc import Sequence

from seed_rl import experiment as experiments
from seed_rl.bench.load import send_load
from seed_rl.experiment import Actors, Experiment, Inference
from seed_rl.inference.acting import Acting
from seed_rl.launch.local_actors import LocalActors
from seed_rl.transport.credentials import ServerSecurity
from seed_rl.transport.server import ActorServer


def busy_rate(
    experiment: Experiment, busy: int, group_size: int, idle: int, pause: float, saturate: bool, seconds: float
) -> float:
    """Agent steps per second that `busy` actor processes get while `idle` streams of one environment step slowly.

    Real server, real act step, real actors (with `saturate`, load generators in their place, which step no games but
    send random frames as fast as they get answers); finished unrolls are taken and given back without learning.
    """
    env_spec = experiment.env.spec()
    acting = Acting(experiment, experiment.build_agent(), env_spec, experiment.seed, experiment.batch_size)
    acting.act_step.warm_up()
    with tempfile.TemporaryDirectory(prefix="seed_rl-") as directory:
        server = ActorServer(f"unix:{directory}/bench.sock", acting.service, security=ServerSecurity())
        acting.service.start()
        address = server.start()
        threading.Thread(target=_drain, args=(acting,), daemon=True).start()
        spawn = multiprocessing.get_context("spawn")
        loads = []
        sizes = ["--num_groups=1", f"--envs_per_group={group_size}"]
        actors = LocalActors([f"--server_address={address}", *sizes], busy, directory, on_failure=acting.queue.close)
        if saturate:
            loads = [spawn.Process(target=send_load, args=(address, env_spec, 1, group_size)) for _ in range(busy)]
        else:
            actors.start()
        if idle:
            loads.append(spawn.Process(target=send_load, args=(address, env_spec, idle, 1, pause)))
        for load in loads:
            load.start()
        try:
            _wait_for_streams(server, loads, busy + idle)
            time.sleep(2.0)
            before, started = acting.service.stats.agent_steps, time.monotonic()
            time.sleep(seconds)
            steps, elapsed = acting.service.stats.agent_steps - before, time.monotonic() - started
        finally:
            actors.stop()
            acting.service.stop()
            server.stop(grace=1)
            for load in loads:
                load.join()
    return steps / elapsed - idle / pause


def _wait_for_streams(server: ActorServer, loads: Sequence[multiprocessing.process.BaseProcess], count: int) -> None:
    deadline = time.monotonic() + 60
    while server.stats.streams < count:
        if time.monotonic() > deadline or not all(load.is_alive() for load in loads):
            raise RuntimeError(f"only {server.stats.streams} of {count} streams came")
        time.sleep(0.05)


def _drain(acting: Acting) -> None:
    while (slots := acting.queue.take(1, timeout=3600)) is not None:
        acting.pool.release(slots)


def main() -> int:
    """Alternates both cases and prints the median ratio."""
    parser = argparse.ArgumentParser(description="What idle streams cost busy ones.")
    parser.add_argument("--busy", type=int, default=4, help="busy actor processes")
    parser.add_argument("--group_size", type=int, default=16, help="environments of each")
    parser.add_argument("--idle", type=int, default=256, help="slow streams of one environment")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds between the steps of a slow stream")
    parser.add_argument("--max_wait_ms", type=float, default=Inference().max_wait_ms)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--saturate", action="store_true", help="load generators in place of real actors")
    parser.add_argument("--json", default="streams.json")
    arguments = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    busy_envs = arguments.busy * arguments.group_size
    experiment = dataclasses.replace(
        experiments.load(["atari/vtrace_pong"]),
        actors=Actors(num_actors=busy_envs + arguments.idle, groups_per_actor=1, envs_per_group=1),
        inference=Inference(max_batch_size=busy_envs, max_wait_ms=arguments.max_wait_ms),
    )
    rates: dict[str, list[float]] = {"alone": [], "with_idle": []}
    for _ in range(arguments.repeats):
        for name, idle in (("alone", 0), ("with_idle", arguments.idle)):
            rate = busy_rate(
                experiment,
                arguments.busy,
                arguments.group_size,
                idle,
                arguments.pause,
                arguments.saturate,
                arguments.seconds,
            )
            rates[name].append(rate)
            print(f"{name:10} {rate:10,.0f} agent steps/s of the busy actors", flush=True)
    ratio = sorted(b / a for a, b in zip(rates["alone"], rates["with_idle"], strict=True))[arguments.repeats // 2]
    print(f"{'ratio':10} {ratio:10.2f}")
    with open(arguments.json, "w", encoding="utf-8") as file:
        json.dump({**vars(arguments), **rates, "ratio": ratio}, file, indent=2)
        file.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
