"""Descriptions of spaces: what they say of themselves, and what can't be described."""

import math

import numpy as np
import pytest

from seed_rl.envs.base import random_actions
from seed_rl.specs import LEGAL_ACTIONS, ArraySpec, ContinuousSpec, DiscreteSpec, EnvSpec, MultiDiscreteSpec

TENTH = float(np.float32(0.1))
LARGEST, TINY = float(np.finfo(np.float32).max), float(np.finfo(np.float32).tiny)


@pytest.mark.parametrize(
    ("spec", "tensor", "text"),
    [
        (DiscreteSpec(5), ArraySpec((), "int32"), "Discrete(5)"),
        (DiscreteSpec(1), ArraySpec((), "int32"), "Discrete(1)"),
        (MultiDiscreteSpec((2, 3)), ArraySpec((2,), "int32"), "MultiDiscrete(2, 3)"),
        (MultiDiscreteSpec((4,)), ArraySpec((1,), "int32"), "MultiDiscrete(4)"),
        (ContinuousSpec((-1.0, 0.0), (1.5, TENTH)), ArraySpec((2,), "float32"), "Continuous(-1..1.5, 0..0.1)"),
    ],
    ids=str,
)
def test_kinds_of_actions(spec, tensor, text):
    assert spec.tensor == tensor
    assert str(spec) == text


def test_tensors_of_an_observation_are_in_the_order_of_their_names():
    frame, speed = ArraySpec((84, 84, 1), "uint8"), ArraySpec((), "float64")
    one, several = EnvSpec(frame, DiscreteSpec(2)), EnvSpec({"b": frame, "a": speed}, MultiDiscreteSpec((2,)))
    assert one.observation_tensors() == [("", frame)]
    assert several.observation_tensors() == [("a", speed), ("b", frame)]
    assert str(one) == "observation uint8[84, 84, 1]; action Discrete(2)"
    assert str(several) == "a float64[], b uint8[84, 84, 1]; action MultiDiscrete(2)"


def masked(action, size):
    return EnvSpec({"b": ArraySpec((), "bool"), LEGAL_ACTIONS: ArraySpec((size,), "uint8")}, action)


def test_an_action_mask_is_sent_but_no_input_of_networks():
    for action in (DiscreteSpec(9), MultiDiscreteSpec((6, 7))):
        spec = masked(action, 2)
        assert spec.has_mask
        assert [name for name, _ in spec.observation_tensors()] == ["b", LEGAL_ACTIONS]
        assert [name for name, _ in spec.network_inputs()] == ["b"]
    assert not EnvSpec({"b": ArraySpec((), "bool")}, action).has_mask


def test_bytes_of_a_tensor():
    assert ArraySpec((84, 84, 3), "uint8").nbytes == 84 * 84 * 3
    assert ArraySpec((), "float64").nbytes == 8
    assert ArraySpec((2, 3), "uint16").nbytes == 12


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ArraySpec((2,), "complex64"), "dtype must be one of bool, uint8, .*, got 'complex64'"),
        (lambda: ArraySpec((2, 0), "uint8"), r"shape must hold positive integers, got \(2, 0\)"),
        (lambda: ArraySpec((2.0,), "uint8"), r"shape must hold positive integers, got \(2.0,\)"),
        (lambda: DiscreteSpec(0), "at least one action, got n=0"),
        (lambda: MultiDiscreteSpec(()), r"every choice .* at least one value, got \(\)"),
        (lambda: MultiDiscreteSpec((3, 0)), r"every choice .* at least one value, got \(3, 0\)"),
        (lambda: ContinuousSpec((), ()), r"as many lower as upper bounds, at least one, got \(\) and \(\)"),
        (
            lambda: ContinuousSpec((0.0,), (1.0, 2.0)),
            r"as many lower as upper bounds, at least one, got \(0.0,\) and \(1.0, 2.0\)",
        ),
        (lambda: ContinuousSpec((0.0, 1.0), (1.0, 1.0)), "low < high, got 1.0 and 1.0"),
        (lambda: ContinuousSpec((0.0,), (math.inf,)), "need finite bounds with low < high, got 0.0 and inf"),
        (lambda: ContinuousSpec((-math.inf,), (0.0,)), "need finite bounds with low < high, got -inf and 0.0"),
        (lambda: ContinuousSpec((math.nan,), (0.0,)), "need finite bounds with low < high, got nan and 0.0"),
        (lambda: ContinuousSpec((-0.1,), (1.0,)), "must be float32 numbers, got -0.1"),
        (lambda: ContinuousSpec((0.0,), (1e39,)), r"must be float32 numbers, got 1e\+39"),
        (
            lambda: ContinuousSpec((-LARGEST,), (LARGEST,)),
            r"too far apart or too close, got -3.4.*e\+38 and 3.4.*e\+38",
        ),
        (
            lambda: masked(DiscreteSpec(9), 1),
            r"mask has a bit per value .* got b bool\[\], legal actions uint8\[1\]; action",
        ),
        (
            lambda: masked(ContinuousSpec((0.0,), (1.0,)), 1),
            "bit per value of discrete actions, beside inputs, got b bool",
        ),
        (
            lambda: EnvSpec({LEGAL_ACTIONS: ArraySpec((1,), "uint8")}, DiscreteSpec(8)),
            "beside inputs, got legal actions",
        ),
        (lambda: ContinuousSpec((0.0,), (TINY,)), "too far apart or too close, got 0.0 and 1.1.*e-38"),
    ],
)
def test_what_cannot_be_described_is_named(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize(
    "spec", [DiscreteSpec(3), MultiDiscreteSpec((2, 4)), ContinuousSpec((-1.0, 0.0), (-0.5, 300.0))], ids=str
)
def test_random_actions_fill_the_space(spec):
    actions = random_actions(spec, np.random.default_rng(0), 4000)
    assert actions.dtype == spec.tensor.dtype
    assert actions.shape == (4000, *spec.tensor.shape)
    if isinstance(spec, ContinuousSpec):
        low, high = np.array(spec.low), np.array(spec.high)
        assert np.all((low <= actions) & (actions <= high))
        quarters = np.floor((actions - low) / (high - low) * 4)
        counts = [np.bincount(column.astype(int), minlength=4)[:4] for column in quarters.T]
    else:
        columns = actions.reshape(4000, -1).T
        counts = [np.bincount(column, minlength=n) for column, n in zip(columns, np.ravel(spec.n), strict=True)]
        assert [len(count) for count in counts] == np.ravel(spec.n).tolist()
    for count in counts:
        np.testing.assert_allclose(count, 4000 / len(count), rtol=0.1)
