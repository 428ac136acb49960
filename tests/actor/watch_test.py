"""Environments that hang are found, and no others."""

import threading

import pytest

from seed_rl.actor.watch import Watch
from tests.support.deadlines import within


@pytest.fixture
def watching():
    """Starts a watch with a limit; returns it, and the sentences that it reports and an event that the first sets."""
    watches = []

    def start(limit):
        sentences, reported = [], threading.Event()
        watch = Watch("actor 3", limit, lambda sentence: (sentences.append(sentence), reported.set()))
        watches.append(watch)
        watch.start()
        return watch, sentences, reported

    yield start
    for watch in watches:
        watch.stop()


def test_a_call_that_does_not_return_is_reported_with_the_name_of_the_actor(watching):
    watch, sentences, reported = watching(0.2)
    assert watch.call("step", reported.wait, within(30))
    assert sentences[0].startswith("actor 3: a group of environments has not returned from step for ")


def test_a_call_of_many_looks_is_not_reported_before_the_limit(watching):
    watch, sentences, reported = watching(20.0)  # a look each second
    assert not watch.call("step", reported.wait, 3.5)
    assert not watch.call("reset", reported.wait, 3.5)
    assert sentences == []
