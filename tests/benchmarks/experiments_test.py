"""That the experiments which benchmarks measure can be built; how fast they are, is not for a test."""

import argparse

import pytest

from benchmarks import act, end_to_end, networks
from seed_rl.agents.config import DTYPES


def test_every_preset_is_an_experiment_with_the_network_it_is_named_after():
    presets = {name: end_to_end.load(arguments).agent for name, arguments in end_to_end.PRESETS.items()}
    assert {name: (agent.torso, agent.lstm_units, agent.dtype) for name, agent in presets.items()} == {
        "vtrace": ("shallow", 0, "float32"),
        "vtrace_lstm": ("shallow", 256, "float32"),
        "vtrace_lstm_bf16": ("shallow", 256, "mixed_bfloat16"),
        "vtrace_deep": ("deep", 256, "float32"),
        "vtrace_deep_bf16": ("deep", 256, "mixed_bfloat16"),
        "r2d2": ("shallow", 512, "mixed_bfloat16"),
    }
    assert (presets["r2d2"].unroll_length, presets["r2d2"].burn_in) == (40, 20)


def test_networks_and_dtypes_are_combined():
    arguments = argparse.Namespace(networks=list(networks.NETWORKS), dtypes=list(DTYPES))
    combined = [(network, dtype, experiment.agent.dtype) for network, dtype, experiment in networks.chosen(arguments)]
    assert combined == [(network, dtype, dtype) for network in networks.NETWORKS for dtype in DTYPES]


@pytest.mark.parametrize("network", ["shallow", "r2d2"])
def test_a_batch_may_be_smaller_than_the_experiment_and_is_learned_from(network):
    arguments = argparse.Namespace(networks=[network], dtypes=["float32"])
    [(_, _, experiment)] = networks.chosen(arguments)
    stepper = act.Stepper(experiment, experiment.build_agent(), experiment.env.spec(), batch=2)
    plans = [stepper.plan() for _ in range(4 * experiment.agent.unroll_length)]
    assert sum(len(plan.finished) for plan in plans) >= 2 * 2, "both environments' steps are kept"
    assert stepper.act().shape == (2,)
