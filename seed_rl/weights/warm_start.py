"""Starts a run with the weights of another one (`Experiment.init_from`)."""

import contextlib
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from seed_rl.agents.base import Agent
from seed_rl.experiment import Experiment
from seed_rl.experiment.saved_config import saved_settings
from seed_rl.foreign import short_repr
from seed_rl.weights import checkpoints
from seed_rl.weights.checkpoints import CheckpointError
from seed_rl.weights.policy_sources import opening


def warm_start(agent: Agent, experiment: Experiment) -> str:
    """Give a new agent the weights of `Experiment.init_from`, a run or checkpoint; return a description.

    If all shapes match, it gets all weights. Otherwise it gets those parts of the trunk (torsos, recurrent core,
    statistics of observations) that match as a whole, and the rest keeps its initial values. Schedules, such as PQN's
    exploration, restart, and `Agent.copies` become copies. Raises CheckpointError or ConfigError if nothing matches.
    """
    logdir, kind, (path, arrays, state) = _read(experiment.init_from)
    own = type(experiment.agent).__name__
    if kind != own:
        raise CheckpointError(f"Experiment.init_from: the agent of {logdir} is {short_repr(kind)}, expected {own}")
    weights = checkpoints.weights_in(arrays)
    variables = checkpoints.variables_for(agent, weights)
    either = {**weights, **variables}
    # Settings of learning may add a number at the end, such as how much to explore.
    if any(tuple(either[name].shape) for name in variables.keys() ^ weights.keys()):
        layers = f"{len(weights)} arrays of weights, expected {len(variables)}"
        raise CheckpointError(f"Experiment.init_from: the network of {path} has other layers: {layers}")
    variables = {name: variable for name, variable in variables.items() if name in weights}
    taken, reason = _matching(variables, weights)
    if not taken:
        raise CheckpointError(f"Experiment.init_from: nothing in {path} fits: {reason}")
    checkpoints.assign({name: variables[name] for name in taken}, {name: weights[name] for name in taken}, path)
    agent.after_update(0)  # restarts schedules and sets `Agent.copies`, which published weights lack
    source = f"{path} ({checkpoints.env_frames(state, path):,} frames)"
    if not reason:
        return f"starting with all weights of {source}"
    parts = sorted({_part(variables[name]).rpartition("/")[2] for name in taken})
    return f"starting with the trunk's {', '.join(parts)} of {source}; everything else is new: {reason}"


def _read(place: str) -> tuple[str, Any, tuple[str, dict[str, np.ndarray], dict[str, Any]]]:
    """Return the log directory, the kind of its agent, and a checkpoint: the one at a place, or a run's newest."""
    place = place.rstrip("/")
    above, name = os.path.split(place)
    for logdir, checkpoint in ((place, None), (above, name), (os.path.dirname(above), name)):
        with contextlib.suppress(FileNotFoundError), opening(logdir, checkpoint) as found:
            kind = saved_settings(found).get("agent.kind")
            path, arrays, state = checkpoints.chosen(found, checkpoint)
            return logdir, kind, (path.replace(found, logdir, 1), arrays, state)
    expected = "a log directory, a checkpoint in one, or the name of a policy"
    raise CheckpointError(f"Experiment.init_from: {place} is not {expected}")


def _matching(variables: Mapping[str, Any], weights: Mapping[str, np.ndarray]) -> tuple[list[str], str]:
    """Return the names of the variables to assign, and if these are not all, why."""
    unlike = [name for name, variable in variables.items() if tuple(variable.shape) != weights[name].shape]
    if not unlike:
        return list(variables), ""
    other, first = {_part(variables[name]) for name in unlike}, variables[unlike[0]]
    matching = [name for name, variable in variables.items() if _part(variable) not in other | {""}]
    shapes = list(weights[unlike[0]].shape), list(first.shape)
    return matching, f"{first.path} has shape {shapes[0]} there and {shapes[1]} here"


def _part(variable: Any) -> str:
    """Return the part of the trunk that a variable belongs to, such as `actor_critic/trunk/core`; "" outside of it."""
    before, trunk, inside = variable.path.partition("/trunk/")
    return f"{before}{trunk}{inside.partition('/')[0]}" if trunk else ""
