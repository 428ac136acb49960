"""The named tuples that cross module borders, with their shapes documented once.

Letters used throughout the project:

  T  learner steps in an unroll (an unroll holds more: see `Unroll`)
  L  steps stored in an unroll: T plus the overlap with the previous one
  B  batch: unrolls in a learner batch, or environments in an inference batch
  A  number of discrete actions

Leading axes are `[B, ...]` while acting, `[B, L, ...]` in the stores and time-major `[L, B, ...]` in networks and
losses. `Any` stands for a nest (dicts and tuples) of arrays or tensors.
"""

from typing import Any, NamedTuple


class EnvOutput(NamedTuple):
    """The output of an environment: the transition that the *previous* action caused.

    An episode ends in one of two ways. It is terminated if no reward can follow: the state that the action led to is
    worth zero, nobody needs to see it, and the output has `done` and the first observation of the next episode. It is
    truncated if it was cut off, as by a time limit: that state is worth something, so it has an output of its own, with
    `last`. It is acted on like any other, the action is thrown away, and the next output of the environment has `done`.
    That output reports no transition: no action led from the last observation to the first one.

    The first output of a run has `done` true and `reward` zero.
    """

    reward: Any
    """float32 [...]: reward of the previous action, not clipped."""
    done: Any
    """bool [...]: whether `observation` is the first one of a new episode."""
    last: Any
    """bool [...]: whether an episode ends in `observation`, and the action taken in it leads nowhere. Where `done` is
    true as well, it is the state in which an episode was terminated, of an environment that can't leave it out."""
    observation: Any
    """Nest of arrays [..., *shape], as the environment's `EnvSpec.observation` says."""


class Unroll(NamedTuple):
    """A stretch of experience of each of B environments, time-major.

    Index t of every field but `initial_state` belongs to one step: the agent saw `env_output[t]` and `prev_action[t]`
    and answered with `action[t]`, which leads to `env_output[t + 1]`. The last `overlap` steps are repeated as the
    first ones of the environment's next unroll.
    """

    initial_state: Any
    """Nest [B, ...]: the agent's recurrent state *before* step 0 (not yet reset where `done[0]`)."""
    prev_action: Any
    """[L, B, ...]: the action before each step; zero at the first step of a run."""
    env_output: EnvOutput
    """Fields [L, B, ...]."""
    action: Any
    """[L, B, ...]: the action taken at each step."""
    behaviour: Any
    """Nest [L, B, ...]: the agent's own record of each decision (`ActOutput.behaviour`), such as policy logits."""


class Metric(NamedTuple):
    """A row of the table of metrics (docs/metrics.md): a scalar that runs report."""

    name: str
    """In `metrics.jsonl`. That of an agent's metric has a group, as in `loss/policy`."""
    unit: str
    """Empty if the metric is a plain number."""
    meaning: str
