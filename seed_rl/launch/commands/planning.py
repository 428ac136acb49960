"""The command that computes the needs of a learner."""

from __future__ import annotations

from absl import flags

from seed_rl import config_files
from seed_rl.agents.config import CannotAct
from seed_rl.envs.errors import CannotBuild
from seed_rl.launch.cli import UsageError, command
from seed_rl.launch.flags import plan_flags
from seed_rl.launch.native_output import load_tensorflow
from seed_rl.learner.split import BadDevices


@command("seed_rl plan --gin_file=atari/vtrace_pong --rtt_ms=5", plan_flags)
def plan(values: flags.FlagValues) -> int:
    """Computes the needs of a learner: actors, cores, network, memory."""
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
