"""One learner and the generators that load it, on this machine, for as long as a measurement takes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from benchmarks import host, recording
from benchmarks.children import Child, ask_all, call_in_child
from benchmarks.host import Snapshot, Used, host_experiment, learner_host
from benchmarks.traffic import Pace, Seen, Traffic, generator
from seed_rl.experiment import Experiment

START_SECONDS = 300.0
"""How long a learner may take to compile, or a generator to open its streams."""


class Recorded(NamedTuple):
    """Steps to send."""

    path: str
    step_seconds: float
    """What a step of a group of `environments` took."""
    environments: int


class Generators(NamedTuple):
    """What generators are to be."""

    streams: int
    group_size: int
    generators: int = 1
    """Processes that share the streams."""
    encode_each: bool = False
    """See `Traffic`."""


class Trial:
    """A learner under load."""

    def __init__(self, learner: Child, generators: list[Child]):
        self._learner = learner
        self._generators = generators

    def run(self, pace: Pace, settle: float) -> tuple[Seen, Used, Snapshot]:
        """Sends at a pace, `settle` seconds before the measurement already.

        Returns:
          What the generators saw, what the learner used meanwhile, and its state at the end.
        """
        if settle > 0:
            self._ask(pace._replace(seconds=settle))
        before = self._learner.ask(None, 60)
        seen = self._ask(pace)
        after = self._learner.ask(None, 60)
        return seen, host.used_between(before, after), after

    def _ask(self, pace: Pace) -> Seen:
        return Seen.together(ask_all(self._generators, pace, pace.seconds + 60))


@contextmanager
def recorded(experiment: Experiment, environments: int, steps: int) -> Iterator[Recorded]:
    """Steps of the experiment's environments under random actions, in a file that goes away."""
    with tempfile.TemporaryDirectory(prefix="seed_rl-") as directory:
        path = os.path.join(directory, "steps.npz")
        step_seconds = call_in_child(recording.record, experiment.env, environments, steps, path)
        yield Recorded(path, step_seconds, environments)


@contextmanager
def trial(experiment: Experiment, model: str, largest_batch: int, load: Generators, steps: Recorded) -> Iterator[Trial]:
    """A learner with a model of `host.MODELS`, and generators whose streams are open."""
    sized = host_experiment(experiment, load.streams, load.group_size, largest_batch)
    with tempfile.TemporaryDirectory(prefix="seed_rl-") as directory, ExitStack() as cleanup:
        address = f"unix:{directory}/bench.sock"
        learner = cleanup.enter_context(Child("the learner", learner_host, sized, model, address))
        learner.wait_until_ready(START_SECONDS)
        generators = []
        for number, streams in enumerate(shares(load.streams, load.generators)):
            traffic = Traffic(
                address,
                experiment.env.spec(),
                steps.path,
                streams=streams,
                group_size=load.group_size,
                connections=streams,
                encode_each=load.encode_each,
                seed=number,
            )
            generators.append(cleanup.enter_context(Child("the load generator", generator, traffic)))
        for child in generators:
            child.wait_until_ready(START_SECONDS)
        yield Trial(learner, generators)


def shares(count: int, among: int) -> list[int]:
    """A count in as equal parts as there can be, none of them 0."""
    among = min(among, count)
    return [count // among + (number < count % among) for number in range(among)]
