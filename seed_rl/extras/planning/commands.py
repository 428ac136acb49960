"""The command that plans a training."""

from seed_rl.cli import flags
from seed_rl.cli.commands.experiment import EXPERIMENT, FILES, add_files, load
from seed_rl.cli.flags import command
from seed_rl.errors import UsageError
from seed_rl.experiment import ConfigError
from seed_rl.system.native_output import load_tensorflow


def _rate(name: str, text: str, default: str = "measured here") -> flags.Flag:
    return flags.number(name, None, f"{text}; default: {default}.", lower_bound=flags.POSITIVE)


@command(
    "seed_rl plan --gin_file=atari/vtrace_pong --rtt_ms=5",
    EXPERIMENT,
    flags.number("rtt_ms", 1.0, "Round-trip time between actors and learner, milliseconds.", lower_bound=0.0),
    flags.integer("machine_cores", 16, "Cores of one actor machine.", lower_bound=1),
    _rate("env_steps", "Agent steps/s of environments on one core"),
    _rate("act_ms", "Duration of an act step of --act_batch environments, milliseconds"),
    _rate("update_ms", "Duration of an update of the experiment's batch on one device, milliseconds"),
    _rate("server_us", "CPU time of the server thread per message, microseconds", "for Atari frames on an AMD EPYC"),
    _rate("host_us", "CPU time of batching and answering per step, microseconds", "for Atari frames on an AMD EPYC"),
    flags.integer("act_batch", None, "Environments per act step; default: Inference.max_batch_size.", lower_bound=1),
    flags.integer("learner_cores", None, "Cores of the learner machine; default: this machine's.", lower_bound=1),
    flags.integer("accelerators", None, "Accelerators of the learner; default: this machine's.", lower_bound=0),
    arguments=FILES,
)
def plan(values: flags.FlagValues, *files: str) -> int:
    """Computes the actors, cores, network and memory that a learner needs."""
    add_files(values, files)
    experiment = load(values)
    load_tensorflow()
    from seed_rl.extras.planning import plan as planning

    agent = experiment.build_agent()
    rates, sources = planning.find_rates(experiment, agent, {n: values[n].value for n in planning.Rates._fields})
    try:
        result = planning.plan(experiment, agent, rates, values.rtt_ms / 1000)
    except ConfigError as error:
        raise UsageError(f"{error} (set by --accelerators)") from error
    print(planning.text(experiment, rates, sources, values.machine_cores, result))
    return 0
