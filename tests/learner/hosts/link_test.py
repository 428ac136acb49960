"""Learner hosts that connect, compare their settings, decide together, and notice when one is gone."""

import re

import numpy as np
import pytest

from seed_rl import config_files
from seed_rl.config_files import common_settings
from seed_rl.experiment import ConfigError
from seed_rl.learner.hosts import HostLost, Hosts
from seed_rl.learner.hosts.link import NO_OTHERS, Agreed
from seed_rl.learner.hosts.rendezvous import rendezvous
from seed_rl.transport.credentials import ServerSecurity, read_certificate
from tests.learner.hosts.conftest import NEVER, addresses, agree
from tests.transport.peers import self_signed


def test_an_update_needs_a_batch_on_every_host_and_one_host_ends_the_run(linked, everywhere):
    links = linked(3)
    for ready, update in ((True, True, False), False), ((True, True, True), True):
        frames = (640, 320, 0)
        assert everywhere(agree, links, [False] * 3, ready, frames) == [Agreed(False, update, 640)] * 3
    assert everywhere(agree, links, (False, True, False), [True] * 3) == [Agreed(True, False, 0)] * 3


def test_a_single_learner_agrees_with_itself():
    NO_OTHERS.compare({"batch_size": 16})
    assert agree(NO_OTHERS, ready=True, frames=5) == Agreed(False, True, 5)
    assert agree(NO_OTHERS, leave=True, ready=True) == Agreed(True, False, 0)


@pytest.mark.parametrize(
    ("first", "second", "differences"),
    [
        ({"kind": "A", "a": 1}, {"kind": "B", "b": 2}, "kind is 'A' on host 0 and 'B' on host 1"),
        ({"kind": "A", "a": 1}, {"kind": "A"}, "a is 1 on host 0 and None on host 1"),
        (
            common_settings(config_files.load(["catch/vtrace"])),
            common_settings(config_files.load(["catch/vtrace"], ["Experiment.batch_size = 32", "VTrace.hidden = 8"])),
            "agent.hidden is 64 on host 0 and 8 on host 1; batch_size is 16 on host 0 and 32 on host 1",
        ),
    ],
)
def test_every_host_names_the_settings_that_must_not_differ(everywhere, first, second, differences):
    """Names that only one host has matter if nothing else differs."""
    where = addresses(2)
    for error in everywhere(lambda index, own: rendezvous(Hosts(where, index), own, NEVER), (0, 1), (first, second)):
        assert type(error) is ConfigError
        assert str(error) == f"learner hosts must be started with the same settings: {differences}"


def test_settings_of_actors_logs_and_queues_may_differ(linked, everywhere):
    bindings = ["Actors.num_actors = 3", "Logs.metrics_interval_s = 1", "Inference.max_wait_ms = 9"]
    settings = [common_settings(config_files.load(["catch/vtrace"], each)) for each in ([], bindings)]
    assert everywhere(lambda link, own: link.compare(own), linked(2), settings) == [None, None]


@pytest.fixture(params=["plain", "tls"])
def security(request, tmp_path):
    return ServerSecurity(*read_certificate(*self_signed("run", tmp_path)) if request.param == "tls" else ())


@pytest.mark.parametrize("count", [2, 3, 4])
def test_sums_and_the_first_hosts_arrays_are_the_same_bits_on_all_hosts(linked, everywhere, security, count):
    links, rng = linked(count, security), np.random.default_rng(0)
    for size, dtype in ((1, "float32"), (3, "int64"), (1_000_003, "float32")):  # the last exceeds what sockets buffer
        arrays = list(rng.normal(scale=1000, size=(count, size)).astype(dtype))
        first, *others = everywhere(lambda link, own: link.sum(own), links, arrays)
        np.testing.assert_allclose(first, np.sum(arrays, axis=0), rtol=1e-4, atol=1e-2)
        for other in others:
            np.testing.assert_array_equal(first, other)
    mixed = [[np.float32(index), np.full((2, 3), index), np.array([index == 0])] for index in range(count)]
    for received in everywhere(lambda link, own: link.of_first(own), links, mixed):
        for array, expected in zip(received, mixed[0], strict=True):
            np.testing.assert_array_equal(array, expected, strict=True)


def test_a_single_learner_sums_with_itself():
    np.testing.assert_array_equal(NO_OTHERS.sum(np.arange(3)), np.arange(3))


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_lost_host_ends_the_sum_that_waits_for_it(linked, pool, security, lost):
    links = linked(3, security)
    left = [link for index, link in enumerate(links) if index != lost]

    def wait_and_end(link):
        with link:
            link.sum(np.ones(1_000_000))

    waiting = [pool.submit(wait_and_end, link) for link in left]
    links[lost].close()
    for each in waiting:
        assert type(error := each.exception(30)) is HostLost
        assert re.search(rf"learner host {lost} \(localhost:\d+\) is gone: start all 3 again", str(error))


@pytest.mark.parametrize("lost", [0, 1])
def test_a_lost_host_is_noticed_by_the_next_agreement(linked, lost):
    links = linked(2)
    left = links[1 - lost]
    links[lost].close()
    with pytest.raises(HostLost, match=rf"learner host {lost} \(localhost:\d+\) is gone: start all 2 again"):
        agree(left)
    assert agree(left, leave=True).leave, "a host that ends needs no other for it"


def test_the_other_hosts_receive_the_reason_of_a_failure(everywhere):
    where = addresses(3)

    def run(index):
        with rendezvous(Hosts(where, index), {}, NEVER) as link:
            if index == 1:
                raise ConfigError("no such replay")
            agree(link)

    failed = list(map(str, everywhere(run, range(3))))
    assert failed[0] == "learner host 1 has ended: no such replay"
    assert failed[1] == "no such replay"
    assert failed[2] == f"learner host 0 has ended: {failed[0]}"


@pytest.mark.parametrize("leaver", [0, 1])
def test_a_host_that_ends_does_not_wait_for_a_busy_one_which_learns_of_it_later(linked, leaver):
    links = linked(2)
    links[leaver].leave_seconds = 0.1
    assert agree(links[leaver], leave=True).leave
    links[leaver].close()
    assert agree(links[1 - leaver], ready=True).leave
