"""The command that computes the needs of a learner."""

from __future__ import annotations

from absl import flags

from seed_rl import config_files
from seed_rl.envs.base import CannotBuild
from seed_rl.launch.cli import UsageError, command
from seed_rl.launch.flags import integer, number, repeated, string
from seed_rl.launch.native_output import load_tensorflow
from seed_rl.learner.split import BadDevices
from seed_rl.specs import CannotAct


@command(
    "seed_rl plan --gin_file=atari/vtrace_pong --rtt_ms=5",
    repeated("gin_file", [], "Gin file with the experiment. May be repeated."),
    repeated("gin_param", [], "Gin binding that overrides the files. May be repeated."),
    string("measured", "runs/bench", "Directory with the files of `scripts/bench.sh`."),
    number("rtt_ms", 1.0, "Round trip between actors and learner, milliseconds.", lower_bound=0.0),
    integer("machine_cores", 16, "Cores of one actor machine.", lower_bound=1),
    *(
        number(name, None, f"{text}; default: as measured.", lower_bound=1e-9)
        for name, text in (
            ("env_steps", "Agent steps/s of the environments of one core"),
            ("act_ms", "Milliseconds of an act step with --act_batch"),
            ("update_ms", "Milliseconds of an update with the experiment's batch on one device"),
            ("server_us", "Microseconds of the server's thread per message"),
            ("host_us", "Microseconds of batching and answering per step"),
        )
    ),
    integer("act_batch", None, "Environments per act step; default: Inference.max_batch_size.", lower_bound=1),
    integer("learner_cores", None, "Cores of the learner's machine; default: as measured.", lower_bound=1),
    integer("accelerators", None, "Accelerators of the learner; default: as measured.", lower_bound=0),
)
def plan(values: flags.FlagValues) -> int:
    """Computes the needs of a learner: actors, cores, network, memory."""
    if not values.gin_file:
        raise UsageError(f"--gin_file is needed, one of {', '.join(config_files.shipped_configs())} or a path")
    experiment = config_files.load(values.gin_file, values.gin_param)
    from seed_rl.launch import plan as planning

    load_tensorflow()
    try:
        agent = experiment.build_agent()
        given = {name: values[name].value for name in planning.Rates._fields}
        rates, sources = planning.find_rates(experiment, agent, given, values.measured)
        result = planning.plan(experiment, agent, rates, values.rtt_ms / 1000)
    except BadDevices as error:
        raise UsageError(f"{error} (--accelerators says how many)") from error
    except (CannotAct, CannotBuild) as error:
        raise UsageError(str(error)) from error
    print(planning.text(experiment, rates, sources, values.machine_cores, result))
    return 0
