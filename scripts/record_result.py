#!/usr/bin/env python3
"""Records a finished run as a result: scripts/record_result.py LOGDIR DESTINATION COMMAND

Writes into DESTINATION the metrics as CSV, the configuration, curves by frames and by hours, and `about.json` with the
command, the commit and the hardware.
"""

import argparse
import csv
import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from seed_rl.reporting import metrics
from seed_rl.studies.plot import plot_curves
from seed_rl.system.machine import described

COLUMNS = (
    "env_frames",
    "seconds",
    "episode_return",
    "episode_length",
    "episodes",
    "eval/episode_return",
    "eval/episode_length",
    "frames_per_second",
    "learner_updates",
    "policy/entropy",
    "policy/mean_abs_advantage",
    "policy/mean_value",
    "policy_lag",
    "learning/explained_variance",
    "learning/clipped_share",
    "learning/clipped_mass",
    "learning/entropy_share",
    "replay/size",
    "replay/ratio",
    "q/abs_td_error",
    "q/value",
    "league/score",
    "league/members",
    "loss/total",
    "loss/entropy",
    "gradient_norm",
    "gradient_to_clip",
    "learning_rate",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("logdir")
    parser.add_argument("destination")
    parser.add_argument("command", help="command that produced the run")
    parser.add_argument("--commit", help="commit of the run (default: the current one)")
    parser.add_argument("--accelerator", default="no accelerator", help="GPU or TPU of the run (default: none)")
    arguments = parser.parse_args()
    os.makedirs(arguments.destination, exist_ok=True)

    rows = metrics.read(arguments.logdir)
    table = os.path.join(arguments.destination, "metrics.csv")
    columns = write_table(rows, table)
    shutil.copy(os.path.join(arguments.logdir, "config.gin"), arguments.destination)
    for axis in ("frames", "hours"):
        plot_curves([table], [os.path.join(arguments.destination, f"by_{axis}.png")], axis)

    commit = arguments.commit or subprocess.check_output(["git", "rev-parse", "HEAD"], text=True).strip()
    about = {
        "command": arguments.command,
        "commit": commit,
        "hardware": f"{os.cpu_count()} cores, {described()}, {arguments.accelerator}",
        "last": {name: rows[-1][name] for name in columns if name in rows[-1]},
        "best": {
            name: max(row[name] for row in rows if name in row)
            for name in ("episode_return", "eval/episode_return")
            if name in columns
        },
    }
    with open(os.path.join(arguments.destination, "about.json"), "w", encoding="utf-8") as file:
        json.dump(about, file, indent=2)
        file.write("\n")


def write_table(rows: Sequence[Mapping[str, float]], path: str, known: Sequence[str] = COLUMNS) -> list[str]:
    """Write the metrics of a run as CSV; return its columns, the `known` ones that the run has."""
    columns = [name for name in known if any(name in row for row in rows)]
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _rounded(row[name]) for name in columns if name in row} for row in rows)
    return columns


def _rounded(value: float) -> float:
    return float(f"{value:.6g}") if isinstance(value, float) else value


if __name__ == "__main__":
    main()
