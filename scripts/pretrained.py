#!/usr/bin/env python3
"""Keeps the pretrained policies of docs/pretrained: adds one, or checks their scores.

scripts/pretrained.py add NAME LOGDIR [--greedy] [--checkpoint=best] [--commit=COMMIT]
scripts/pretrained.py check [NAME...] [--episodes=20]
"""

import argparse
import hashlib
import pathlib
import subprocess
import sys

from seed_rl.evaluation.plot import plot_curves
from seed_rl.extras.sharing import published
from seed_rl.reporting import metrics
from seed_rl.system.native_output import load_tensorflow
from seed_rl.weights.policy_sources import opening

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # for `benchmarks` and `scripts`, which are not installed
COLUMNS = ("env_frames", "seconds", "episode_return", "eval/episode_return")
LARGEST = {"model.safetensors": 4_000_000, "replay.mp4": 2_000_000}
"""Largest size in bytes of each file that a policy must have."""
CURVE = "\n![Learning curve](curve.png)\n"


def add(arguments: argparse.Namespace) -> int:
    """Publish a policy in docs/pretrained, with its learning curve."""
    load_tensorflow()
    from benchmarks.report import write_table
    from scripts import pages, records
    from seed_rl.extras.sharing import hub

    folder = published.ROOT / arguments.name
    command = ["git", "rev-parse", "--short=9", arguments.commit]
    version = f"0.1.0+g{subprocess.check_output(command, text=True).strip()}"
    with opening(arguments.logdir) as logdir:
        rows = [row for row in metrics.read(logdir) if "episode_return" in row]
        hub.export(logdir, str(folder), arguments.checkpoint, version, greedy=arguments.greedy)
    write_table(rows, str(folder / "curve.csv"), COLUMNS)
    plot_curves([str(folder / "curve.csv")], [str(folder / "curve.png")], "frames")
    with (folder / "README.md").open("a", encoding="utf-8") as card:
        card.write(CURVE)
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    wrong = [name for name, most in LARGEST.items() if not 0 < sizes.get(name, 0) <= most]
    print(f"{folder}: missing or too large: {', '.join(wrong)}" if wrong else folder)
    return max(int(bool(wrong)), pages.update(pages.DOCS / "guides" / "pretrained.md"), records.add())


def check(arguments: argparse.Namespace) -> int:
    """Compare hashes, and play episodes: does the 95-percent interval of their mean overlap with the stated one?"""
    load_tensorflow()
    from seed_rl.evaluation.episodes import evaluate_run
    from seed_rl.extras.sharing.hub import DEVIATIONS

    wrong = 0
    for name in arguments.names or published.names():
        about, folder = published.about(name), published.ROOT / name
        if hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest() != about["sha256"]:
            print(f"{name}: model.safetensors is not what was published")
            wrong += 1
            continue
        found = evaluate_run(str(folder), episodes=arguments.episodes, greedy=about["greedy"], seed=arguments.seed)
        margin = DEVIATIONS * found.standard_error
        fits = about["low"] <= found.mean + margin and found.mean - margin <= about["high"]
        stated = f"{about['low']:,.2f} to {about['high']:,.2f}"
        print(f"{name}: {'ok' if fits else 'differs'}: {found.mean:,.2f} +- {margin:,.2f}, stated {stated}", flush=True)
        wrong += not fits
    return int(wrong > 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    adding, checking = (commands.add_parser(each.__name__, help=each.__doc__) for each in (add, check))
    adding.add_argument("name")
    adding.add_argument("logdir", help="log directory or bundle of the run")
    adding.add_argument("--checkpoint", help="checkpoint (default: the newest)")
    adding.add_argument("--greedy", action="store_true", help="evaluate and film without exploration")
    adding.add_argument("--commit", default="HEAD", help="commit that trained the policy")
    checking.add_argument("names", nargs="*")
    checking.add_argument("--episodes", type=int, default=20)
    checking.add_argument("--seed", type=int, default=1, help="the stated scores are of seed 1")
    for each, run in ((adding, add), (checking, check)):
        each.set_defaults(run=run)
    arguments = parser.parse_args()
    return int(arguments.run(arguments))


if __name__ == "__main__":
    sys.exit(main())
