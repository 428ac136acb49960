"""Random spaces, and steps and actions in them."""

import string

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from seed_rl.specs import DTYPES, ArraySpec, ContinuousSpec, DiscreteSpec, EnvSpec, MultiDiscreteSpec
from seed_rl.types import EnvOutput

names = st.text(string.ascii_letters, min_size=1, max_size=3)
shapes = st.lists(st.integers(1, 5), max_size=3).map(tuple)
array_specs = st.builds(ArraySpec, shapes, st.sampled_from(DTYPES))
observations = array_specs | st.dictionaries(names, array_specs, min_size=1, max_size=4)


def continuous(bounds):
    low = [np.float32(low) for low, _ in bounds]
    high = [bound + np.float32(extent) for bound, (_, extent) in zip(low, bounds, strict=True)]
    return ContinuousSpec(tuple(map(float, low)), tuple(map(float, high)))


_bounds = st.tuples(st.floats(-1e6, 1e6), st.floats(1, 1e6))
actions = (
    st.builds(DiscreteSpec, st.integers(1, 2**31 - 1))
    | st.builds(MultiDiscreteSpec, st.lists(st.integers(1, 300), min_size=1, max_size=4).map(tuple))
    | st.lists(_bounds, min_size=1, max_size=4).map(continuous)
)
env_specs = st.builds(EnvSpec, observations, actions)


def tensors(spec, num_envs):
    """Finite values of an ArraySpec, for each environment."""
    finite = {"allow_nan": False, "allow_infinity": False} if np.dtype(spec.dtype).kind == "f" else {}
    return arrays.arrays(spec.dtype, (num_envs, *spec.shape), elements=finite)


@st.composite
def steps(draw):
    """Spec, number of environments and a step's EnvOutput."""
    spec, num_envs = draw(env_specs), draw(st.integers(1, 40))
    named = {name: draw(tensors(tensor, num_envs)) for name, tensor in spec.observation_tensors()}
    reward, done = draw(tensors(ArraySpec((), "float32"), num_envs)), draw(tensors(ArraySpec((), "bool"), num_envs))
    last = draw(tensors(ArraySpec((), "bool"), num_envs))
    observation = named[""] if isinstance(spec.observation, ArraySpec) else named
    return spec, num_envs, EnvOutput(reward, done, last, observation)


@st.composite
def actions_of_groups(draw):
    """Spec, number of environments and actions at the bounds of the action space or between them."""
    spec, num_envs = draw(env_specs), draw(st.integers(1, 40))
    tensor = spec.action.tensor
    if isinstance(spec.action, ContinuousSpec):
        low, high = np.array(spec.action.low), np.array(spec.action.high)
    else:
        low, high = np.array(0), np.array(spec.action.n) - 1
    where = draw(arrays.arrays(np.float64, (num_envs, *tensor.shape), elements=st.sampled_from([0, 0.3, 0.5, 1])))
    return spec, num_envs, (low + where * (high - low)).astype(tensor.dtype)
