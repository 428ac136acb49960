"""The named tuples that modules exchange, with their shapes documented once.

Letters used throughout the project:

    T  learner steps per unroll (an unroll holds more steps: see `Unroll`)
    L  steps stored per unroll: T plus the overlap with the previous unroll
    B  batch size: unrolls in a learner batch, or environments in an inference batch
    A  number of discrete actions

Leading axes are `[B, ...]` while acting, `[B, L, ...]` in stores and time-major `[L, B, ...]` in networks and losses.
`Any` means a nest (dicts and tuples) of arrays or tensors.
"""

from typing import Any, NamedTuple

MAX_REWARD = 1e6
"""Largest absolute reward that a learner accepts: the square of a larger one could overflow."""
MAX_OBSERVATION = 1e8
"""Largest absolute value that a learner accepts in observations of floating-point numbers."""


class EnvOutput(NamedTuple):
    """The output of an environment: the transition caused by the *previous* action.

    An episode ends in one of two ways. It is terminated if no reward can follow. The state that the action led to then
    has the value zero and need not be seen: the output has `done` and the first observation of the next episode. It is
    truncated if it is cut off, for example by a time limit. That state has a value, so it gets a separate output, with
    `last`. The agent acts on it as on any other, the action is discarded, and the environment's next output has `done`.
    That next output reports no transition, since no action led from the last observation to the first one.

    The first output of a run has `done` true and `reward` zero.
    """

    reward: Any
    """float32 [...]: the unclipped reward of the previous action."""
    done: Any
    """bool [...]: whether `observation` is the first of a new episode."""
    last: Any
    """bool [...]: whether an episode ends in `observation`, so that the action taken in it leads nowhere. If `done` is
    true as well, it is a terminal state, output by an environment that can't skip it."""
    observation: Any
    """Nest of arrays [..., *shape], as specified by the environment's `EnvSpec.observation`."""


class Unroll(NamedTuple):
    """A segment of experience from each of B environments, time-major.

    Index t of every field except `initial_state` refers to one step: the agent saw `env_output[t]` and `prev_action[t]`
    and chose `action[t]`, which leads to `env_output[t + 1]`. The last `overlap` steps are also the first ones of the
    environment's next unroll.
    """

    initial_state: Any
    """Nest [B, ...]: the agent's recurrent state *before* step 0 (not yet reset where `done[0]`)."""
    prev_action: Any
    """[L, B, ...]: the action before each step; zero at the first step of a run."""
    env_output: EnvOutput
    """The environments' outputs, fields [L, B, ...]."""
    action: Any
    """[L, B, ...]: the action taken at each step."""
    behaviour: Any
    """Nest [L, B, ...]: what the agent recorded about each decision (`ActOutput.behaviour`), such as policy logits."""
    targets: Any = ()
    """Nest [T, B, ...]: the agent's `targets` in an update, () before."""


class Metric(NamedTuple):
    """A row of the metrics table (docs/metrics.md): a scalar that runs report."""

    name: str
    """Name in `metrics.jsonl`. Names of agents' metrics begin with a group, as in `loss/policy`."""
    unit: str
    """Unit; empty for a plain number."""
    meaning: str
    """Description in a few words."""
