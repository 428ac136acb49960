"""Descriptions of spaces: what they say of themselves, and what can't be described."""

import numpy as np
import pytest

from seed_rl.envs.base import random_actions
from seed_rl.specs import LEGAL_ACTIONS, ArraySpec, ContinuousSpec, DiscreteSpec, EnvSpec, MixedSpec, MultiDiscreteSpec

TENTH = float(np.float32(0.1))
LARGEST, TINY = float(np.finfo(np.float32).max), float(np.finfo(np.float32).tiny)


@pytest.mark.parametrize(
    ("spec", "tensor", "text"),
    [
        (DiscreteSpec(5), ArraySpec((), "int32"), "Discrete(5)"),
        (MultiDiscreteSpec((2, 3)), ArraySpec((2,), "int32"), "MultiDiscrete(2, 3)"),
        (ContinuousSpec((-1.0, 0.0), (1.5, TENTH)), ArraySpec((2,), "float32"), "Continuous(-1..1.5, 0..0.1)"),
        (MixedSpec((2, 3), (-1.0,), (1.5,)), ArraySpec((3,), "float32"), "MultiDiscrete(2, 3) + Continuous(-1..1.5)"),
    ],
    ids=str,
)
def test_kinds_of_actions(spec, tensor, text):
    assert spec.tensor == tensor
    assert str(spec) == text


def test_tensors_of_an_observation_are_in_the_order_of_their_names():
    frame, speed = ArraySpec((84, 84, 1), "uint8"), ArraySpec((), "float64")
    one, several = EnvSpec(frame, DiscreteSpec(2)), EnvSpec({"b": frame, "a": speed}, MultiDiscreteSpec((2,)))
    assert (frame.nbytes, speed.nbytes) == (84 * 84, 8)
    assert one.observation_tensors() == [("", frame)]
    assert several.observation_tensors() == [("a", speed), ("b", frame)]
    assert str(one) == "observation uint8[84, 84, 1]; action Discrete(2)"
    assert str(several) == "a float64[], b uint8[84, 84, 1]; action MultiDiscrete(2)"


def masked(action, size):
    return EnvSpec({"b": ArraySpec((), "bool"), LEGAL_ACTIONS: ArraySpec((size,), "uint8")}, action)


@pytest.mark.parametrize("action", [DiscreteSpec(9), MultiDiscreteSpec((6, 7)), MixedSpec((9,), (0.0,), (1.0,))])
def test_an_action_mask_is_sent_but_no_input_of_networks(action):
    spec = masked(action, 2)
    assert spec.has_mask
    assert [name for name, _ in spec.observation_tensors()] == ["b", LEGAL_ACTIONS]
    assert [name for name, _ in spec.network_inputs()] == ["b"]
    assert not EnvSpec({"b": ArraySpec((), "bool")}, action).has_mask


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        (ArraySpec, ((2,), "complex64"), "dtype must be one of bool, uint8, .*, got 'complex64'"),
        (ArraySpec, ((2, 0), "uint8"), r"shape must hold positive integers, got \(2, 0\)"),
        (DiscreteSpec, (0,), "at least one action, got n=0"),
        (MultiDiscreteSpec, ((),), r"every choice .* at least one value, got \(\)"),
        (MixedSpec, ((1 << 25,), (0.0,), (1.0,)), "choices beside numbers have at most 16777216 values"),
        (ContinuousSpec, ((0.0,), (1.0, 2.0)), r"as many lower as upper bounds, .* got \(0.0,\) and \(1.0, 2.0\)"),
        (ContinuousSpec, ((0.0, 1.0), (1.0, 1.0)), "low < high, got 1.0 and 1.0"),
        (ContinuousSpec, ((-0.1,), (1.0,)), "must be float32 numbers, got -0.1"),
        (ContinuousSpec, ((-LARGEST,), (LARGEST,)), r"too far apart or too close, got -3.4.*e\+38 and 3.4.*e\+38"),
        (ContinuousSpec, ((0.0,), (TINY,)), "too far apart or too close, got 0.0 and 1.1.*e-38"),
        (masked, (DiscreteSpec(9), 1), r"a bit per value .* got b bool\[\], legal actions uint8\[1\]; action"),
        (EnvSpec, ({LEGAL_ACTIONS: ArraySpec((1,), "uint8")}, DiscreteSpec(8)), "beside inputs, got legal actions"),
    ],
)
def test_what_cannot_be_described_is_named(kind, arguments, message):
    with pytest.raises(ValueError, match=message):
        kind(*arguments)


def test_random_choices_beside_numbers_are_legal():
    spec, legal = MixedSpec((2, 3), (-1.0,), (0.0,)), np.array([[True, False, False, False, True]] * 50)
    actions = random_actions(spec, np.random.default_rng(0), 50, legal)
    assert (actions.dtype, actions.shape) == (np.float32, (50, 3))
    assert (actions[:, :2] == [0, 2]).all()
    assert len(np.unique(actions[:, 2])) > 40
