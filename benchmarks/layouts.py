"""How environments are spread over actors, what is planned to be measured, and what doesn't fit into the memory."""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

from benchmarks.failures import BadArguments

REFERENCE_ENVS = 64
"""What the cost per frame of other numbers of environments is compared with."""
_LEARNER_BYTES = 900_000_000  # of a learner besides its unrolls: TensorFlow, compiled programs, an update's tensors
_ACTOR_BYTES = 80_000_000  # of an actor besides its environments
_USABLE = 0.9  # of the memory that is free


class Layout(NamedTuple):
    """How environments are spread."""

    processes: int
    groups: int
    """Of each process."""
    group_size: int

    @property
    def environments(self) -> int:
        """In all."""
        return self.processes * self.groups * self.group_size


def layout(environments: int, processes: int, largest_group: int) -> Layout:
    """Spreads environments evenly over processes, at least two groups in each, so that one can step while one waits.

    Raises:
      BadArguments: they can't be spread evenly.
    """
    each, rest = divmod(environments, processes)
    groups = max(2, -(-each // largest_group))
    if rest or each % groups:
        raise BadArguments(
            f"{environments} environments can't be spread evenly over {processes} processes of {groups} groups each"
        )
    return Layout(processes, groups, each // groups)


class Plan(NamedTuple):
    """One row."""

    layout: Layout
    simulated: bool

    def describe(self) -> dict[str, Any]:
        """As JSON values."""
        return {**self.layout._asdict(), "environments": self.layout.environments, "simulated": self.simulated}


def plans(arguments: argparse.Namespace) -> dict[str, list[Plan]]:
    """The rows of each sweep; where some are simulated, so is one of 64 environments, to compare them with."""
    planned_sweeps = {}
    for name, layouts in _layouts(arguments).items():
        planned = [
            Plan(spread, arguments.simulate or spread.environments > arguments.simulate_above) for spread in layouts
        ]
        if any(plan.simulated for plan in planned):
            processes = next(plan.layout.processes for plan in planned if plan.simulated)
            planned.append(Plan(layout(REFERENCE_ENVS, processes, arguments.largest_group), True))
        planned_sweeps[name] = sorted(
            set(planned), key=lambda plan: (plan.simulated, plan.layout.environments, plan.layout)
        )
    return planned_sweeps


def _layouts(arguments: argparse.Namespace) -> dict[str, list[Layout]]:
    largest = arguments.largest_group
    return {
        "processes": [layout(arguments.envs_for_processes, number, largest) for number in arguments.processes],
        "envs": [layout(number, arguments.processes_for_envs, largest) for number in arguments.envs],
    }


def refusal(spread: Layout, store: int, bytes_per_env: float, simulated: bool, free: int) -> str:
    """Why a layout doesn't fit into the free memory, a sentence; "" if it does."""
    actors = 0.0 if simulated else spread.processes * _ACTOR_BYTES + spread.environments * bytes_per_env
    needed = _LEARNER_BYTES + store + actors
    if needed <= _USABLE * free:
        return ""
    return (
        f"{spread.environments:,} environments don't fit and are left out: about {needed / 1e9:.1f} GB, "
        f"{store / 1e9:.1f} of them unrolls and {actors / 1e9:.1f} actors, where {free / 1e9:.1f} GB are free"
    )
