"""The split of a host's devices into training and inference devices."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from seed_rl.experiment import ConfigError, Experiment


class DeviceSplit(NamedTuple):
    """Devices by TensorFlow's names, such as `GPU:0`; at least one of each."""

    training: tuple[str, ...]
    inference: tuple[str, ...]
    """Inference devices, which also hold the unrolls; the first one feeds the first training devices."""


def split_devices(experiment: Experiment, available: Sequence[str], hosts: int = 1) -> DeviceSplit:
    """Assign devices to training and inference.

    By default one device does everything. Of several accelerators some act and some train, as evenly as the batch and
    the environment groups allow: half as many act as train, since acting takes between a third of the time of training
    on the same steps and all of it (docs/benchmarks.md). `available` are accelerators, or else the host's CPUs; each
    of the hosts has an equal part of every batch. Raises a ConfigError if that is impossible.
    """
    batch_size = experiment.batch_size
    if batch_size % hosts:
        raise ConfigError(f"Experiment.batch_size ({batch_size}) must be a multiple of the number of hosts ({hosts})")
    training, inference = experiment.devices.training, experiment.devices.inference
    for name in (*training, *inference):
        if name not in available:
            raise ConfigError(f"there is no device {name!r}, only {', '.join(available)}")
    accelerators = tuple(name for name in available if not name.startswith("CPU"))
    if training and inference:
        splits = [DeviceSplit(training, inference)]
    elif training:
        idle = tuple(name for name in available if name not in training)
        splits = [DeviceSplit(training, idle[:1] if idle and len(training) > 1 else training[:1])]
    elif inference:
        others = tuple(name for name in accelerators if name not in inference)
        splits = [DeviceSplit(others[:count], inference) for count in range(len(others), 0, -1)]
        splits.append(DeviceSplit(inference, inference))
    else:
        splits = [*_by_speed(accelerators), DeviceSplit((available[0],), (available[0],))]
    misfits = [_misfit(split, experiment, hosts) for split in splits]
    if all(misfits):
        raise ConfigError(misfits[-1])
    return splits[misfits.index("")]


def _by_speed(names: tuple[str, ...]) -> list[DeviceSplit]:
    """Return all splits, the fastest first if a device acts twice as fast as it trains; training devices come last."""

    def speed(split: DeviceSplit) -> tuple[int, int, int]:
        training, inference = map(len, split)
        return min(2 * inference, training), training, -inference

    cuts = itertools.combinations(range(1, len(names) + 1), 2)
    return sorted((DeviceSplit(names[i:j], names[:i]) for i, j in cuts), key=speed, reverse=True)


def _misfit(split: DeviceSplit, experiment: Experiment, hosts: int) -> str:
    """Return the reason why a split is impossible, in one line; empty if it is possible."""
    training, inference = split
    num_training, num_inference = (
        f"the number of {role} devices ({len(names)}: {', '.join(names)})"
        for role, names in zip(DeviceSplit._fields, split, strict=True)
    )
    batch_size = experiment.batch_size // hosts
    batch = f"Experiment.batch_size ({batch_size}{' on each of the hosts' if hosts > 1 else ''})"
    if batch_size % len(training):
        return f"{batch} must be a multiple of {num_training}"
    if batch_size // len(training) % experiment.minibatches:
        return f"Experiment.minibatches ({experiment.minibatches}) must divide {batch} over {num_training}"
    if len(training) % len(inference):
        return f"{num_training} must be a multiple of {num_inference}"
    num_groups = experiment.actors.num_actors * experiment.actors.groups_per_actor
    if num_groups % len(inference):
        return f"num_actors x groups_per_actor of Actors ({num_groups}) must be a multiple of {num_inference}"
    whole = experiment.env.players if experiment.eval_env == experiment.env else experiment.actors.envs_per_group
    if experiment.actors.num_eval_envs % (whole * len(inference)) and whole > 1:
        return f"Actors.num_eval_envs must be a multiple of {whole} (a whole game or group) times {num_inference}"
    if len(inference) > 1 and experiment.replay is not None and experiment.replay.snapshot:
        return f"Replay.snapshot saves the replay of one inference device; {num_inference} must be 1"
    return ""
