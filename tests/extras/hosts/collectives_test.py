"""Learner hosts that compare their settings, decide together, and make the updates of a single one."""

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.experiment import ConfigError, config_files
from seed_rl.extras.hosts.collectives import Link, settings_in_common
from seed_rl.extras.hosts.hosts import HostLost, Hosts
from tests.extras.hosts.collectives_process import updates
from tests.support.ports import free_addresses
from tests.support.processes import run_module

OTHERS = ("Actors.num_actors = 3", "Logs.metrics_interval_s = 1", "Experiment.batch_size = 32", "VTrace.hidden = 8")
THREE = ("localhost:1", "localhost:2", "localhost:3")


class Told(Link):
    """The link of host 1 of three, to which the others are what a test says."""

    def __init__(self, *messages):
        super().__init__(Hosts(THREE, 1))
        self.messages = messages

    def gather(self, own):
        return self.messages

    def sum(self, array):
        raise HostLost("learner host 2 is gone")


def test_the_settings_that_must_not_differ_are_named():
    """Names that only one host has matter if nothing else differs."""
    own, others = (settings_in_common(config_files.load(["catch/vtrace"], changes)) for changes in ((), OTHERS))
    for first, second, difference in (
        ({"kind": "A", "a": 1}, {"kind": "B", "b": 2}, "kind is 'A' on host 0 and 'B' on host 1"),
        ({"kind": "A", "a": 1}, {"kind": "A"}, "a is 1 on host 0 and None on host 1"),
        (own, others, "agent.hidden is 64 on host 0 and 8 on host 1; batch_size is 16 on host 0 and 32 on host 1"),
    ):
        with pytest.raises(ConfigError, match=f": {difference}$"):
            Told(first, second).compare({})


def test_a_lost_host_is_named_and_other_errors_are_left_alone():
    for message, name in (
        ("/task:1/device:CPU:0}} Collective ops is aborted by: reset by peer /task:2 while", "host 2"),
        ("/task:1}} Collective ops is aborted by: Deadline Exceeded RPC: /tensorflow.CoordinationService/", "host 0"),
    ):
        sentence = rf"learner {name} \(localhost:\d\) is gone: start all 3 again"
        with pytest.raises(HostLost, match=sentence), Told().explaining():
            raise tf.errors.UnavailableError(None, None, message)
    with pytest.raises(tf.errors.InternalError), Told().explaining():
        raise tf.errors.InternalError(None, None, "out of scratch space")


def test_a_host_that_ends_needs_no_other_for_it():
    with pytest.raises(HostLost):
        Told().agree(leave=False, ready=True, env_frames=3)
    assert Told().agree(leave=True, ready=True, env_frames=3) == (True, False)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """The arrays that each host of `collectives_process` saved."""
    directory = tmp_path_factory.mktemp("hosts")
    run_module("tests.extras.hosts.collectives_process", directory, *free_addresses(2))
    return [dict(np.load(directory / f"host-{index}.npz")) for index in range(2)]


def test_hosts_agree_and_are_open_to_no_other_machine(found):
    for host in found:
        np.testing.assert_array_equal(host["agreed"], [(False, False), (False, True), (True, False)])
        assert host["elsewhere"].size == 0


def test_an_update_is_the_same_on_one_host_and_on_two(found):
    expected = updates()
    assert [tuple(expected[f"{number} steps"]) for number in range(3)] == [(1, 0), (0, 1), (1, 0)]
    for name, value in expected.items():
        if name.endswith("priorities"):
            np.testing.assert_allclose(np.concatenate([host[name] for host in found]), value, rtol=1e-6)
        elif name != "minibatches weights":  # each host draws from its own sequences
            size = 2 if name.endswith("a/size") else 1  # of a host's own part
            np.testing.assert_allclose(found[0][name] * size, value, rtol=1e-5, err_msg=name)
        if name.endswith(("weights", "steps", "max")):
            np.testing.assert_array_equal(found[0][name], found[1][name], "the same bits on both")
