import numpy as np

from benchmarks.load import random_output
from seed_rl.specs import ArraySpec, DiscreteSpec, EnvSpec
from seed_rl.transport.codec import StepCodec


def test_random_observations_are_what_the_spec_says():
    for observation in (ArraySpec((2, 3), "uint8"), {"a": ArraySpec((), "bool"), "b": ArraySpec((2,), "float64")}):
        spec = EnvSpec(observation, DiscreteSpec(2))
        output = random_output(spec, 5)
        decoded = StepCodec(spec, 5).decode_step(StepCodec(spec, 5).encode_step(output))
        assert not np.any(decoded.reward)
        assert not np.any(decoded.done)
