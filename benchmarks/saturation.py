"""What was full first when a learner fell behind. Pure functions of numbers."""

from __future__ import annotations

from typing import NamedTuple


class Load(NamedTuple):
    """How full each resource was while a number of actors was served."""

    keeps_up: bool
    """Whether observations were answered nearly as fast as by an unloaded learner."""
    generator: float
    """Share of a core that the busiest load generator used."""
    server: float
    """Share of a core that the server's thread used."""
    inference: float
    """Share of a core that the inference thread used."""
    acting: float
    """Share of the time that an act step was running."""
    blocked: float
    """Share of the time that inference waited for the learner to take unrolls."""
    machine: float
    """Share of the machine's cores that was busy."""
    file_descriptors: float
    """Share of the limit."""
    memory: float
    """Share of the machine's memory that the learner holds."""


def first_limit(load: Load) -> str:
    """Which resource was full, in words; "" if the learner kept up.

    The load generator is asked first: where it is full, the learner hasn't been tried.
    """
    if load.keeps_up:
        return ""
    shared = f", on a machine whose cores are {load.machine:.0%} busy" if load.machine > 0.9 else ""
    if load.generator > 0.95:
        return f"the load generator: a core is full{shared} (more --generators)"
    if load.server > 0.85:
        return f"transport: the server's thread takes {load.server:.0%} of a core{shared}"
    if load.blocked > 0.2:
        return f"learner: acting waits for it {load.blocked:.0%} of the time{shared}"
    if load.acting > 0.8:
        return f"act step: running {load.acting:.0%} of the time{shared}"
    if load.inference > 0.85:
        return f"inference: its thread takes {load.inference:.0%} of a core, batching and answering{shared}"
    if load.machine > 0.9:
        return f"CPU: the machine's cores are {load.machine:.0%} busy"
    if load.file_descriptors > 0.9:
        return f"file descriptors: {load.file_descriptors:.0%} of the limit"
    if load.memory > 0.9:
        return f"memory: the learner holds {load.memory:.0%} of the machine's"
    return "nothing is full: answers wait for one another (the interpreter's lock, wake-ups)"


def keeps_up(achieved: float, unloaded: float) -> bool:
    """Whether a rate is what streams get whose answers come as fast as from an unloaded learner, within 10 %."""
    return achieved >= 0.9 * unloaded
