"""The tables of metrics, and the pages that show them."""

import pathlib

from seed_rl.agents.pqn import PQN
from seed_rl.agents.r2d2 import R2D2
from seed_rl.agents.sac import SAC
from seed_rl.agents.vtrace import VTrace
from seed_rl.reporting.catalogue import METRICS, tag

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"


def table(rows):
    """A table of metrics in Markdown; an agent's names are tags already."""
    cells = [("metrics.jsonl", "tag", "unit", "meaning"), ("---",) * 4]
    cells += [(f"`{name}`", f"`{tag(name)}`", unit, meaning) for name, unit, meaning in rows]
    if all(name == each for name, each, *_ in cells[2:]):
        cells = [(name, *others) for name, _, *others in cells]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def test_pages_have_the_tables():
    agents = {"vtrace": VTrace, "r2d2": R2D2, "pqn": PQN, "sac": SAC}
    pages = {"metrics.md": METRICS.values(), **{f"agents/{name}.md": agent.metrics for name, agent in agents.items()}}
    for name, rows in pages.items():
        assert table(rows) in (DOCS / name).read_text(encoding="utf-8"), f"{name} needs this table:\n{table(rows)}"
