"""How large the store of unrolls of a learner will be, before there is one."""

from __future__ import annotations

from seed_rl.agents.base import Agent
from seed_rl.buffers.placement import StoreSize, sequence_nbytes
from seed_rl.experiment import Experiment
from seed_rl.inference.act_step import unroll_step_spec
from seed_rl.inference.acting import acting_slots
from seed_rl.specs import EnvSpec


def store_size(experiment: Experiment, agent: Agent, env_spec: EnvSpec, num_devices: int = 1) -> StoreSize:
    """What is kept to be learned from (a replay, or a batch), and what acting holds besides.

    Args:
      experiment: sizes; of several devices that act, the part of one (`Experiment.part`).
      agent: what it needs of each step is kept.
      env_spec: of the environments.
      num_devices: that act.
    """
    kept = experiment.batch_size if experiment.replay is None else experiment.replay.capacity
    each = sequence_nbytes(unroll_step_spec(agent, env_spec), agent.length)
    return StoreSize(kept, acting_slots(experiment, agent, num_devices) + 1, each)
