"""What a run is made of: the parts of a plain run, and of one that each neighbour, or two of them, have changed."""

import contextlib
import functools
import os
import pathlib
import re

import fsspec
import pytest

from seed_rl.experiment import config_files
from seed_rl.extras.films.during_training import film_every
from seed_rl.extras.hosts import commands, together
from seed_rl.extras.hosts.collectives import Link
from seed_rl.extras.hosts.hosts import Hosts
from seed_rl.extras.prometheus.endpoint import Gauges
from seed_rl.extras.ray.cluster import with_gauges
from seed_rl.extras.repeating.recording import make_repeatable
from seed_rl.runs.assembly import Assembly
from seed_rl.runs.run import Run

SINKS = ["RetryingSink", "RetryingSink"]
LEAGUE = {"progress": "LeagueProgress", "act_step": "LeagueActStep"}
RECORDED = {"saver": "OrderedSaver", "membership": "_RecordedLeases"}
SYNCHRONOUS = {"batcher": "_OnDemand"}
FILMED = {"sinks": ["Films", *SINKS]}
GAUGED = {"sinks": ["Gauges", *SINKS]}
HOST = {"train_step": "HostStep", "saver": "HostSaver", "source": "HostSource"}
HOSTS = ("localhost:1", "localhost:2")


class Alone(Link):
    """The link of a host whose others say the same as itself."""

    def gather(self, own):
        return [own, own]

    def of_first(self, arrays):
        return arrays


record = functools.partial(make_repeatable, record=True)
synchronise = functools.partial(make_repeatable, record=True, synchronous=True)
film = functools.partial(film_every, 5)


def join(run):
    run.learners = 2
    run.changes.append(lambda assembly: together.with_hosts(Hosts(HOSTS, 0), run.experiment, assembly))


def gauge(run):
    run.changes.append(lambda assembly: with_gauges(assembly, run.logdir))


def expose(run):
    run.changes.append(Gauges().added_to)


def composition(run, directory):
    """The class of each part."""
    with contextlib.ExitStack() as cleanup:
        assembly = functools.reduce(lambda assembly, change: change(assembly), run.changes, Assembly())
        parts = assembly.parts(run.experiment, directory, cleanup, learners=run.learners)
        sinks = assembly.sinks(parts, None)
        for sink in sinks:
            cleanup.callback(sink.close)
    (acting,) = parts.acting
    named = {"act_step": acting.act_step, "batcher": acting.thread.batcher, "membership": parts.service.membership}
    classes = {name: type(part).__name__ for name, part in (vars(parts) | named).items()}
    return classes | {"sinks": [type(sink).__name__ for sink in sinks]}


@pytest.fixture
def different(tmp_path):
    """The classes of those parts of a run that a plain one has not."""

    def compare(run):
        plain, own = (composition(each, str(tmp_path)) for each in (Run(config_files.load(["catch/vtrace"]), ""), run))
        assert plain["sinks"] == SINKS
        return {name: kind for name, kind in own.items() if kind != plain[name]}

    return compare


@pytest.mark.parametrize(
    ("config", "changes", "replaced"),
    [
        ("catch/vtrace", [synchronise], RECORDED | SYNCHRONOUS),
        ("catch/vtrace", [film, join], FILMED | HOST),
        ("catch/vtrace", [expose], GAUGED),
        ("pettingzoo/connect_four", [film, record], LEAGUE | FILMED | RECORDED),
    ],
)
def test_a_neighbour_replaces_its_parts_and_no_other(config, changes, replaced, different, tmp_path, monkeypatch):
    monkeypatch.setattr(together, "connect", lambda hosts, experiment: Alone(hosts))
    monkeypatch.setattr("seed_rl.extras.repeating.recording.deterministic", lambda threads: {})
    run = Run(config_files.load([config]), str(tmp_path))
    for change in changes:
        change(run)
    assert different(run) == replaced


def test_a_run_on_ray_in_a_store_has_both_and_each_host_its_own_directory(different, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    run, second = (Run(config_files.load(["catch/vtrace"]), "memory://bucket/run") for _ in range(2))
    gauge(run)
    assert different(run) == GAUGED
    commands.join(Hosts(HOSTS, 1), second)
    for each in (run, second):
        with each.directory() as directory:
            os.makedirs(directory, exist_ok=True)
            pathlib.Path(directory, "metrics.jsonl").write_text("its own")
    store = fsspec.filesystem("memory")
    assert all(map(store.exists, ("bucket/run/metrics.jsonl", "bucket/run/host-1/metrics.jsonl")))


def test_the_page_of_the_architecture_has_each_neighbour():
    root = pathlib.Path(__file__).parents[2]
    page = (root / "docs/architecture.md").read_text(encoding="utf-8")
    folders = sorted(path.parent.name for path in root.glob("seed_rl/extras/*/__init__.py"))
    assert sorted(re.findall(r"^\| `(\w+)/` \|", page, re.MULTILINE)) == folders
