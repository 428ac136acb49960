"""The table of metrics, the page that shows it and what real runs write."""

import pathlib
import re

from seed_rl.learner import metrics
from seed_rl.reporting.catalogue import CHARTS, METRICS, table, tag

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "metrics.md"


def test_names_and_tags_are_unique_and_tags_have_a_group():
    assert len({metric.name for metric in METRICS}) == len(METRICS) > 30
    assert len({metric.tag for metric in METRICS}) == len(METRICS)
    assert all(re.fullmatch(r"[a-z0-9]+/[a-z_0-9]+", metric.tag) for metric in METRICS)


def test_metrics_of_a_custom_agent_keep_their_group_or_get_one():
    assert tag("episode_return") == "episodes/return"
    assert tag("loss/mine") == "loss/mine"
    assert tag("curiosity") == "other/curiosity"


def test_returns_come_first_in_the_alphabet_of_tags():
    """TensorBoard's HPARAMS tab shows the first five of a run at first."""
    first = sorted(metric.tag for metric in METRICS)[:5]
    assert {"episodes/return", "evaluation/return"} < set(first)


def test_charts_show_metrics_that_exist():
    patterns = [pattern for charts in CHARTS.values() for chart in charts for pattern in chart.tags]
    assert len(patterns) > 10
    for pattern in patterns:
        assert any(re.match(pattern, metric.tag) for metric in METRICS), pattern


def test_the_page_has_the_table():
    assert table() in PAGE.read_text(encoding="utf-8"), f"{PAGE.name} needs this table:\n{table()}"


def test_every_metric_that_runs_write_is_on_the_page(finished_runs):
    page = PAGE.read_text(encoding="utf-8")
    written = {name for run in (finished_runs.vtrace, finished_runs.r2d2) for row in metrics.read(run) for name in row}
    assert {"episode_return", "eval/episode_return", "loss/policy", "q/value", "replay/ratio"} < written
    assert [name for name in sorted(written) if f"| `{name}` |" not in page] == []
