"""The tables of metrics, and the page that shows them."""

import pathlib

from seed_rl.agents.pqn import PQN
from seed_rl.agents.r2d2 import R2D2
from seed_rl.agents.sac import SAC
from seed_rl.agents.vtrace import VTrace
from seed_rl.reporting.catalogue import METRICS, tag

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "metrics.md"


def table(rows):
    """A table of metrics in Markdown."""
    cells = [("metrics.jsonl", "tag", "unit", "meaning"), ("---",) * 4]
    cells += [(f"`{name}`", f"`{tag(name)}`", unit, meaning) for name, unit, meaning in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def test_returns_come_first_in_the_alphabet_of_tags():
    """TensorBoard's HPARAMS tab shows only the first five of a run at first."""
    assert {"episodes/return", "evaluation/return"} < set(sorted(METRICS)[:5])


def test_the_page_has_the_tables():
    page = PAGE.read_text(encoding="utf-8")
    for rows in (METRICS.values(), VTrace.metrics, R2D2.metrics, PQN.metrics, SAC.metrics):
        assert table(rows) in page, f"{PAGE.name} needs this table:\n{table(rows)}"
