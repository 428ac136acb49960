"""`scripts/bench.sh`: the whole product's rate over the ceiling that its parts allow on the same cores."""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

from seed_rl import experiment as experiments
from seed_rl.bench import components, transport
from seed_rl.experiment import Experiment
from seed_rl.learner import metrics

SHORT = {"vtrace": "atari/vtrace_pong", "r2d2": "atari/r2d2_pong"}
"""What is measured, by agent."""


def end_to_end_rate(experiment_arguments: list[str], experiment: Experiment, seconds: float) -> float:
    """Agent steps per second of `seed_rl train`, over `seconds` after it has settled."""
    interval, settle = 2.0, 10.0
    with tempfile.TemporaryDirectory(prefix="seed_rl-") as logdir:
        command = [sys.executable, "-m", "seed_rl", "train", f"--logdir={logdir}", *experiment_arguments]
        overrides = [f"--gin_param=Logs.metrics_interval_s={interval}", "--total_frames=1000000000000"]
        with open(os.path.join(logdir, "output"), "wb") as output:
            process = subprocess.Popen([*command, *overrides], stdout=output, stderr=output)
        try:
            rows = _rows_after_settling(process, logdir, settle, seconds)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()
    steps = rows[-1]["agent_steps"] - rows[0]["agent_steps"]
    return steps / (rows[-1]["seconds"] - rows[0]["seconds"])


def _rows_after_settling(
    process: subprocess.Popen[bytes], logdir: str, settle: float, seconds: float
) -> list[dict[str, float]]:
    deadline = time.monotonic() + 120 + settle + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            with open(os.path.join(logdir, "output"), encoding="utf-8", errors="replace") as output:
                raise RuntimeError(f"the run ended with {process.returncode}:\n{output.read()[-2000:]}")
        time.sleep(0.5)
        if os.path.exists(os.path.join(logdir, metrics.FILE)):
            rows = metrics.read(logdir)
            training = [row for row in rows if row["learner_updates"] > 0]  # a replay is filled before
            settled = [row for row in training if row["seconds"] > training[0]["seconds"] + settle]
            if settled and settled[-1]["seconds"] - settled[0]["seconds"] >= seconds:
                return settled
    raise RuntimeError("the run brought no measurements in time")


def measure(experiment_arguments: list[str], experiment: Experiment, seconds: float) -> dict[str, Any]:
    """All rates in agent steps per second, the ceiling 1 / (1/env + 1/act + 1/train), and the share reached.

    Steps that are learned from count: evaluation environments take their share of `env` and `act`.
    """
    actors = experiment.actors
    groups = actors.num_actors * actors.groups_per_actor
    rates = {"env": components.env_rate(experiment.env, [actors.envs_per_group] * groups, seconds)}
    rates["env"] *= actors.num_training_envs / actors.num_envs
    sent = transport.measure(experiment.env.spec(), groups, actors.envs_per_group, seconds)
    rates["transport"] = sent["observations"]
    rates.update(components.act_and_train_rates(experiment, seconds))
    rates["end_to_end"] = end_to_end_rate(experiment_arguments, experiment, 2 * seconds)
    ceiling = 1 / sum(1 / rates[part] for part in ("env", "act", "train"))
    return {
        "agent_steps_per_second": rates,
        "ceiling": ceiling,
        "efficiency": rates["end_to_end"] / ceiling,
        "frames_per_second": rates["end_to_end"] * experiment.env.action_repeat,
        "hardware": f"{os.cpu_count()} cores, {platform.processor() or platform.machine()}",
        "experiment": experiment.to_json(),
    }


def table(result: dict[str, Any]) -> str:
    """For people."""
    lines = [f"{name:12} {value:10,.0f} agent steps/s" for name, value in result["agent_steps_per_second"].items()]
    lines.append(f"{'ceiling':12} {result['ceiling']:10,.0f} agent steps/s = 1 / (1/env + 1/act + 1/train)")
    lines.append(f"{'efficiency':12} {result['efficiency']:10.2f} = end_to_end / ceiling")
    lines.append(f"{'frames':12} {result['frames_per_second']:10,.0f} environment frames/s")
    return "\n".join(lines)


def main() -> int:
    """Measures, prints a table and writes JSON."""
    parser = argparse.ArgumentParser(description="Rates of the parts and of the whole.")
    parser.add_argument("agent", nargs="?", choices=sorted(SHORT), default="vtrace", help="Pong with this agent")
    parser.add_argument("--gin_file", action="append", help="another experiment")
    parser.add_argument("--gin_param", action="append", default=[], help="gin binding")
    parser.add_argument("--seconds", type=float, default=10.0, help="per part")
    parser.add_argument("--json", default="bench.json", help="where the results go")
    arguments = parser.parse_args()
    gin_files = arguments.gin_file or [SHORT[arguments.agent]]
    experiment = experiments.load(gin_files, arguments.gin_param)
    passed_on = [f"--gin_file={name}" for name in gin_files] + [f"--gin_param={b}" for b in arguments.gin_param]
    result = measure(passed_on, experiment, arguments.seconds)
    with open(arguments.json, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=2)
        file.write("\n")
    print(table(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
