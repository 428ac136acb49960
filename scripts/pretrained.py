#!/usr/bin/env python3
"""Keeps the pretrained policies of docs/pretrained: adds one, checks their scores, lists them in the guide.

scripts/pretrained.py add NAME LOGDIR [--greedy] [--checkpoint=best] [--commit=COMMIT]
scripts/pretrained.py check [NAME...] [--episodes=20]
scripts/pretrained.py page [--check]
"""

import argparse
import hashlib
import pathlib
import re
import subprocess
import sys

from seed_rl.experiment import pretrained
from seed_rl.reporting import metrics
from seed_rl.studies.bundle import opened
from seed_rl.studies.plot import plot_curves
from seed_rl.system.native_output import load_tensorflow

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # for `scripts`, which is not installed
PAGE = ROOT / "docs" / "guides" / "pretrained.md"
TABLE = re.compile(r"(?<=<!-- table -->\n).*?(?=<!-- end -->)", re.DOTALL)
COLUMNS = ("env_frames", "seconds", "episode_return", "eval/episode_return")
LARGEST = {"model.safetensors": 4_000_000, "replay.mp4": 2_000_000}
"""Largest size in bytes of each file that a policy must have."""
CURVE = "\n![Learning curve](curve.png)\n"


def add(arguments: argparse.Namespace) -> int:
    """Publish a policy in docs/pretrained, with its learning curve."""
    load_tensorflow()
    from scripts.record_result import write_table
    from seed_rl.studies import hub

    folder = pretrained.ROOT / arguments.name
    command = ["git", "rev-parse", "--short=9", arguments.commit]
    version = f"0.1.0+g{subprocess.check_output(command, text=True).strip()}"
    with opened(arguments.logdir) as logdir:
        rows = [row for row in metrics.read(logdir) if "episode_return" in row]
        hub.export(logdir, str(folder), arguments.checkpoint, version, greedy=arguments.greedy)
    write_table(rows, str(folder / "curve.csv"), COLUMNS)
    plot_curves([str(folder / "curve.csv")], [str(folder / "curve.png")], "frames")
    with (folder / "README.md").open("a", encoding="utf-8") as card:
        card.write(CURVE)
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    wrong = [name for name, most in LARGEST.items() if not 0 < sizes.get(name, 0) <= most]
    print(f"{folder}: missing or too large: {', '.join(wrong)}" if wrong else folder)
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return int(bool(wrong))


def check(arguments: argparse.Namespace) -> int:
    """Compare hashes, and play episodes: does the 95-percent interval of their mean overlap with the stated one?"""
    load_tensorflow()
    from seed_rl.evaluation.episodes import evaluate_run
    from seed_rl.studies.hub import DEVIATIONS

    wrong = 0
    for name in arguments.names or pretrained.names():
        about, folder = pretrained.about(name), pretrained.folder(name)
        if hashlib.sha256(pathlib.Path(folder, "model.safetensors").read_bytes()).hexdigest() != about["sha256"]:
            print(f"{name}: model.safetensors is not what was published")
            wrong += 1
            continue
        found = evaluate_run(folder, episodes=arguments.episodes, greedy=about["greedy"], seed=arguments.seed)
        margin = DEVIATIONS * found.standard_error
        fits = about["low"] <= found.mean + margin and found.mean - margin <= about["high"]
        stated = f"{about['low']:,.2f} to {about['high']:,.2f}"
        print(f"{name}: {'ok' if fits else 'differs'}: {found.mean:,.2f} +- {margin:,.2f}, stated {stated}", flush=True)
        wrong += not fits
    return int(wrong > 0)


def filled(page: str) -> str:
    """Replace the table of a page by one of all policies."""
    lines = [
        "| name | task | agent | frames | mean return of 100 episodes | 95 % interval | |",
        "|---|---|---|--:|--:|--:|---|",
    ]
    for name in pretrained.names():
        about, place = pretrained.about(name), f"../pretrained/{name}"
        cells = [
            f"[{name}]({place}/README.md)",
            about["task"],
            about["agent"],
            f"{about['env_frames'] / 1e6:.2f} M",
            f"{about['mean']:,.2f}{', greedy' if about['greedy'] else ''}",
            f"{about['low']:,.2f} to {about['high']:,.2f}",
            f"[film]({place}/replay.mp4)",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return TABLE.sub(lambda _: "\n".join(["", *lines, "", ""]), page)


def page(arguments: argparse.Namespace) -> int:
    """Write the guide's table, or say whether it is up to date."""
    before = PAGE.read_text(encoding="utf-8")
    if not arguments.check:
        PAGE.write_text(filled(before), encoding="utf-8")
    elif before != filled(before):
        print(f"{PAGE} is out of date: run scripts/pretrained.py page", file=sys.stderr)
        return 1
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    adding, checking, listing = (commands.add_parser(each.__name__, help=each.__doc__) for each in (add, check, page))
    adding.add_argument("name")
    adding.add_argument("logdir", help="log directory or bundle of the run")
    adding.add_argument("--checkpoint", help="checkpoint (default: the newest)")
    adding.add_argument("--greedy", action="store_true", help="evaluate and film without exploration")
    adding.add_argument("--commit", default="HEAD", help="commit that trained the policy")
    checking.add_argument("names", nargs="*")
    checking.add_argument("--episodes", type=int, default=20)
    checking.add_argument("--seed", type=int, default=1, help="1 is that of the stated scores")
    listing.add_argument("--check", action="store_true", help="write nothing; fail if the table is out of date")
    for each, run in ((adding, add), (checking, check), (listing, page)):
        each.set_defaults(run=run)
    arguments = parser.parse_args()
    return int(arguments.run(arguments))


if __name__ == "__main__":
    sys.exit(main())
