#!/usr/bin/env python3
"""Measures how far this library's results differ from the original's: writes docs/results/faithfulness/golden.json

The table of docs/deviations.md is made from it by `scripts/pages.py`. `tests/golden` has the inputs and the bounds.
"""

import argparse
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # for `benchmarks` and `tests`, which are not installed


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    from seed_rl.system.native_output import load_tensorflow

    load_tensorflow()
    from benchmarks import report
    from tests.golden.comparisons import GROUPS, measure
    from tests.golden.quantities import QUANTITIES

    measured = {name: found for group in GROUPS for name, found in measure(group).items()}
    rows = [
        {"quantity": name, "by": own.by, "relative_to": own.relative_to, "bound": own.bound, **measured[name]._asdict()}
        for name, own in QUANTITIES.items()
    ]
    content = report.report("golden", [], {}, {"quantities": rows}) | {"command": "scripts/golden.py"}
    path = ROOT / "docs" / "results" / "faithfulness" / "golden.json"
    path.parent.mkdir(exist_ok=True)
    report.write(str(path), content)
    print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
