import numpy as np
import pytest

from seed_rl.inference.staging import Staging
from seed_rl.specs import ArraySpec, DiscreteSpec, EnvSpec
from seed_rl.types import EnvOutput

PICTURE = EnvSpec(ArraySpec((2, 3), "uint8"), DiscreteSpec(2))
SEVERAL = EnvSpec({"b": ArraySpec((2,), "float64"), "a": ArraySpec((), "bool")}, DiscreteSpec(2))


def output(env_spec, rows, rng):
    tensors = {
        name: rng.integers(0, 2, (rows, *spec.shape)).astype(spec.dtype)
        for name, spec in reversed(env_spec.observation_tensors())
    }
    reward, flags = rng.normal(size=rows).astype(np.float32), rng.random((2, rows)) < 0.5
    return EnvOutput(reward, *flags, tensors.get("", tensors))


def fields(step):
    named = step.observation if isinstance(step.observation, dict) else {"": step.observation}
    return {"reward": step.reward, "done": step.done, **named}


@pytest.mark.parametrize("env_spec", [PICTURE, SEVERAL])
@pytest.mark.parametrize("sizes", [[5], [2], [1, 1, 3], [2, 1]])
def test_pieces_follow_one_another_in_the_same_memory_and_the_rest_stays(env_spec, sizes):
    rng = np.random.default_rng(0)
    staging = Staging(env_spec, 5)
    held = fields(staging.batch)
    staging.fill([before := output(env_spec, 5, rng)])
    pieces = [output(env_spec, size, rng) for size in sizes]
    staging.fill(pieces)
    rows = sum(sizes)
    for name, array in fields(staging.batch).items():
        assert array is held[name]
        np.testing.assert_array_equal(array[:rows], np.concatenate([fields(piece)[name] for piece in pieces]))
        np.testing.assert_array_equal(array[rows:], fields(before)[name][rows:])
