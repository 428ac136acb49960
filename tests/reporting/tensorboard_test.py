"""What a real TensorBoard serves of real runs."""

import json
import re
import subprocess
import sys
import time
import urllib.parse
import urllib.request

import pytest

from seed_rl.learner import metrics
from seed_rl.reporting.catalogue import CHARTS, tag


@pytest.fixture(scope="module")
def ask(finished_runs, tmp_path_factory):
    """Asks a TensorBoard server that has read both runs: `ask(path)`, or `ask(path, question)` as JSON."""
    output = tmp_path_factory.mktemp("tensorboard") / "output"
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(finished_runs.directory)]
    with open(output, "wb") as file:
        server = subprocess.Popen([*command, "--host=127.0.0.1", "--port=0"], stdout=file, stderr=file)

    def wait(condition):
        deadline = time.monotonic() + 120
        while not (found := condition()):
            assert server.poll() is None, output.read_text()
            assert time.monotonic() < deadline, output.read_text()
            time.sleep(0.2)
        return found

    try:
        url = wait(lambda: re.search(r"http://127.0.0.1:\d+/", output.read_text()))[0]

        def ask(path, question=None):
            body = None if question is None else json.dumps(question).encode()
            request = urllib.request.Request(
                f"{url}data/plugin/{path}", body, headers={"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)

        last = {run: metrics.read(str(finished_runs.directory / run))[-1]["env_frames"] for run in ("vtrace", "r2d2")}

        def curve(run, name):
            known = name in ask("scalars/tags").get(run, {})
            return known and ask(f"scalars/scalars?run={run}&tag={urllib.parse.quote(name, safe='')}")

        for run, frames in last.items():
            wait(lambda: (points := curve(run, tag("env_frames"))) and points[-1][1] == frames)  # noqa: B023
        yield ask
    finally:
        server.terminate()
        server.wait()


@pytest.mark.parametrize("run", ["vtrace", "r2d2"])
def test_every_metric_is_a_scalar(ask, finished_runs, run):
    names = {name for row in metrics.read(getattr(finished_runs, run)) for name in row}
    assert set(ask("scalars/tags")[run]) == {tag(name) for name in names}


def test_the_curve_of_a_resumed_run_goes_on_without_repeating_itself(ask, finished_runs):
    rows = metrics.read(finished_runs.vtrace)
    points = ask("scalars/scalars?run=vtrace&tag=progress%2Flearner_updates")
    newest = {row["env_frames"]: row["learner_updates"] for row in rows}  # the first row after may be at the same frame
    assert [(step, value) for _, step, value in points] == list(newest.items())
    assert list(newest) == sorted(newest)
    assert rows[-1]["env_frames"] >= 20_000


def test_hyperparameters_and_returns_of_runs_are_compared(ask):
    experiment = ask("hparams/experiment", {})
    differing = {info["name"]: info for info in experiment["hparamInfos"] if info["differs"]}
    assert set(differing["agent.kind"]["domainDiscrete"]) == {"VTrace", "R2D2"}
    assert "optimizer.learning_rate" not in differing
    shown_at_first = [info["name"]["tag"] for info in experiment["metricInfos"][:5]]
    assert {"episodes/return", "evaluation/return"} < set(shown_at_first)

    statuses = [f"STATUS_{name}" for name in ("UNKNOWN", "SUCCESS", "FAILURE", "RUNNING")]
    question = {"startIndex": 0, "sliceSize": 10, "colParams": [], "allowedStatuses": statuses}
    groups = {group["name"]: group for group in ask("hparams/session_groups", question)["sessionGroups"]}
    assert set(groups) == {"vtrace", "r2d2"}, "a row for each run, resumed or not"
    assert groups["vtrace"]["hparams"]["batch_size"] == 16
    assert groups["r2d2"]["hparams"]["replay.ratio"] == 4.0
    assert "replay.ratio" not in groups["vtrace"]["hparams"]


def test_charts_of_several_curves_are_laid_out(ask):
    layout = ask("custom_scalars/layout")
    served = {
        category["title"]: {chart["title"]: chart["multiline"]["tag"] for chart in category["chart"]}
        for category in layout["category"]
    }
    expected = {title: {chart.title: list(chart.tags) for chart in charts} for title, charts in CHARTS.items()}
    assert served == expected
    regex = urllib.parse.quote("time/actors_waiting$", safe="")
    found = ask(f"custom_scalars/scalars?run=vtrace&tag={regex}")
    assert list(found["tag_to_events"]) == ["time/actors_waiting"]


def test_the_configuration_is_shown_as_text(ask):
    assert ask("text/tags") == {"vtrace": ["config.gin"], "r2d2": ["config.gin"]}
    assert "R2D2.burn_in = 8" in ask("text/text?run=r2d2&tag=config.gin")[-1]["text"]
