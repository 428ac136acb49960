"""The command that says what a learner needs."""

from __future__ import annotations

from absl import flags

from seed_rl import config_files
from seed_rl.agents.config import CannotAct
from seed_rl.envs.base import CannotBuild
from seed_rl.launch.cli import UsageError
from seed_rl.launch.native_output import load_tensorflow
from seed_rl.learner.split import BadDevices


def plan(values: flags.FlagValues) -> int:
    """Prints how many actors, and which network and memory, an experiment's learner needs."""
    if not values.gin_file:
        raise UsageError(f"--gin_file is needed, one of {', '.join(config_files.shipped_configs())} or a path")
    experiment = config_files.load(values.gin_file, values.gin_param)
    from seed_rl.launch import plan as planning
    from seed_rl.launch.rates import Given, NoRate, rates

    given = Given(
        env_steps=values.env_steps,
        act_ms=values.act_ms,
        act_batch=values.act_batch,
        update_ms=values.update_ms,
        server_us=values.server_us,
        host_us=values.host_us,
        learner_cores=values.learner_cores,
        accelerators=values.accelerators,
    )
    machine = planning.Machine(values.rtt_ms / 1000, values.machine_cores)
    try:
        found = rates(experiment, given, values.measured)
        load_tensorflow()
        result = planning.plan(experiment, found, machine)
    except BadDevices as error:
        raise UsageError(f"{error} (--accelerators says how many)") from error
    except (NoRate, CannotAct, CannotBuild) as error:
        raise UsageError(str(error)) from error
    print(planning.text(values.gin_file[-1], experiment, found, machine, result))
    return 0
