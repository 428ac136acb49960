"""The flags of the command line, in the groups that commands take."""

from __future__ import annotations

import math
from collections.abc import Callable

from absl import flags

DEFAULT_TCP_ADDRESS = "localhost:8686"


def all_of(*groups: Callable[[flags.FlagValues], None]) -> flags.FlagValues:
    """The flags of every command, and those of some groups."""
    values = flags.FlagValues()
    flags.DEFINE_enum(
        "log_level", "info", ["debug", "info", "warning", "error"], "How much to log.", flag_values=values
    )
    flags.DEFINE_boolean("help", False, "Show this help.", short_name="h", flag_values=values)
    for group in groups:
        group(values)
    return values


def _float(name: str, default: float | None, help_text: str, lower_bound: float, flag_values: flags.FlagValues) -> None:
    """A number that is one: without `nan` and `inf`."""
    flags.DEFINE_float(name, default, help_text, lower_bound=lower_bound, flag_values=flag_values)
    flags.register_validator(
        name,
        lambda value: value is None or math.isfinite(value),
        message=f"--{name} must be a finite number",
        flag_values=flag_values,
    )


def experiment_flags(values: flags.FlagValues) -> None:
    """What is trained, and where it goes."""
    flags.DEFINE_multi_string(
        "gin_file",
        [],
        "Gin file with the experiment: a path, or a shipped one such as atari/vtrace_pong. May be repeated.",
        flag_values=values,
    )
    flags.DEFINE_multi_string(
        "gin_param",
        [],
        "Gin binding that wins over the files, e.g. Optimizer.learning_rate=1e-4. May be repeated.",
        flag_values=values,
    )
    flags.DEFINE_string(
        "logdir",
        None,
        "Directory of the run; started again on it, a run continues. Default: runs/<name of gin file>.",
        flag_values=values,
    )
    flags.DEFINE_integer(
        "total_frames", None, "Overrides Experiment.total_frames (environment frames).", flag_values=values
    )
    flags.DEFINE_integer("num_actors", None, "Overrides Actors.num_actors.", flag_values=values)
    flags.DEFINE_integer("seed", None, "Overrides Experiment.seed.", flag_values=values)


def server_flags(values: flags.FlagValues) -> None:
    """Credentials of a learner."""
    flags.DEFINE_string("tls_cert", None, "PEM file with the learner's certificate chain.", flag_values=values)
    flags.DEFINE_string("tls_key", None, "PEM file with the certificate's private key.", flag_values=values)
    _tls_name_flag(values)
    _token_flags(values)


def client_flags(values: flags.FlagValues) -> None:
    """Credentials of an actor."""
    flags.DEFINE_string(
        "tls_ca",
        None,
        "PEM file with the certificate (or its authority) that the learner must show; turns TLS on.",
        flag_values=values,
    )
    _tls_name_flag(values)
    _token_flags(values)


def _tls_name_flag(values: flags.FlagValues) -> None:
    flags.DEFINE_string(
        "tls_server_name",
        None,
        "Name in the learner's certificate, where it is not the host of the address that actors use.",
        flag_values=values,
    )


def _token_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_string(
        "token_file",
        None,
        "File with the secret that learner and actors share (or set SEED_RL_TOKEN).",
        flag_values=values,
    )
    flags.DEFINE_boolean(
        "insecure", False, "Allow an address other hosts can reach without TLS and token.", flag_values=values
    )


def address_flag(default: str, help_text: str) -> Callable[[flags.FlagValues], None]:
    """Where the learner is, with a default and a text of the command's own."""

    def define(values: flags.FlagValues) -> None:
        flags.DEFINE_string("server_address", default, help_text, flag_values=values)

    return define


def plot_flags(values: flags.FlagValues) -> None:
    """Of `plot`."""
    flags.DEFINE_list(
        "output", ["curve.png"], "Files to write; their endings say the format: .png, .svg, .pdf.", flag_values=values
    )
    flags.DEFINE_enum("x", "frames", ["frames", "hours"], "Horizontal axis.", flag_values=values)


def policy_flags(values: flags.FlagValues) -> None:
    """Which policy of which run."""
    flags.DEFINE_string("logdir", None, "Log directory of the run.", flag_values=values)
    flags.DEFINE_string("checkpoint", None, "One of its checkpoints; default: the newest.", flag_values=values)


def acting_flags(values: flags.FlagValues) -> None:
    """How it acts."""
    flags.DEFINE_boolean("greedy", False, "Take the best action always, without exploring.", flag_values=values)
    flags.DEFINE_integer(
        "seed",
        1,
        "Of environments and sampled actions.",
        lower_bound=0,
        upper_bound=2**31 - 1,
        flag_values=values,
    )


def doctor_flags(values: flags.FlagValues) -> None:
    """Of `doctor`."""
    flags.DEFINE_string("logdir", None, "Log directory of a run that is to begin, checked too.", flag_values=values)


def eval_flags(values: flags.FlagValues) -> None:
    """Of `eval`."""
    flags.DEFINE_integer("episodes", 100, "Episodes to play.", lower_bound=1, flag_values=values)
    flags.DEFINE_integer("envs", 16, "Environments played at a time.", lower_bound=1, flag_values=values)
    flags.DEFINE_string(
        "output",
        None,
        "JSON file with every episode; default: evaluation.json in the log directory.",
        flag_values=values,
    )


def play_flags(values: flags.FlagValues) -> None:
    """Of `play`."""
    flags.DEFINE_integer("episodes", 1, "Episodes to film, one after the other.", lower_bound=1, flag_values=values)
    flags.DEFINE_list(
        "output",
        None,
        "Files to write, .mp4 or .gif; default: play.mp4 and play.gif in the log directory.",
        flag_values=values,
    )
    _float("fps", 15.0, "Agent steps per second.", lower_bound=0.1, flag_values=values)


def export_flags(values: flags.FlagValues) -> None:
    """Of `export`."""
    flags.DEFINE_string("output", None, "Directory; default: export in the log directory.", flag_values=values)
    flags.DEFINE_integer("batch_size", 1, "Environments in a call.", lower_bound=1, flag_values=values)


def hosts_flags(values: flags.FlagValues) -> None:
    """Several learners that train together."""
    flags.DEFINE_list(
        "learner_hosts", [], "host:port of each of several learners that train together.", flag_values=values
    )
    flags.DEFINE_integer("learner_host", 0, "Which of them this one is, from 0.", flag_values=values)


def quiet_flag(values: flags.FlagValues) -> None:
    """Whether a run shows itself."""
    flags.DEFINE_boolean("quiet", False, "Show nothing but warnings and errors.", flag_values=values)


def launcher_flags(values: flags.FlagValues) -> None:
    """Where actors run."""
    flags.DEFINE_enum(
        "launcher",
        "local",
        ["local", "ray"],
        "Where actors run: as processes on this machine, or on a Ray cluster.",
        flag_values=values,
    )
    flags.DEFINE_string(
        "ray_address",
        None,
        "host:port of the Ray cluster; default: RAY_ADDRESS, else one on this machine, else a new one for this run.",
        flag_values=values,
    )
    flags.DEFINE_alias("address", "ray_address", flag_values=values)
    flags.DEFINE_string(
        "ray_learner",
        None,
        "Ray resource whose node gets the learner, such as GPU or node:10.0.0.5, or `here`: this process; "
        "default: GPU if the cluster has one, else here.",
        flag_values=values,
    )
    flags.DEFINE_integer(
        "min_actors",
        None,
        "On Ray, a run with fewer actors for five minutes ends; default 1. Actors.num_actors is the maximum.",
        lower_bound=1,
        flag_values=values,
    )
    _float("actor_cpus", None, "CPUs that Ray sets aside for an actor; default 1.", lower_bound=0.0, flag_values=values)


def sweep_flags(values: flags.FlagValues) -> None:
    """Of `sweep`."""
    flags.DEFINE_multi_string("gin_file", [], "Gin file with the experiment. May be repeated.", flag_values=values)
    flags.DEFINE_multi_string("gin_param", [], "Gin binding for all runs. May be repeated.", flag_values=values)
    flags.DEFINE_multi_string(
        "grid", [], "Gin binding with several values: NAME=VALUE,VALUE. May be repeated.", flag_values=values
    )
    flags.DEFINE_list("seeds", ["1"], "Seeds of each combination.", flag_values=values)
    flags.DEFINE_integer("parallel", 1, "Runs at a time.", lower_bound=1, flag_values=values)
    flags.DEFINE_string("logdir", None, "Where the runs go; default: runs/sweep_<gin file>.", flag_values=values)
    flags.DEFINE_integer("total_frames", None, "Overrides Experiment.total_frames.", flag_values=values)


def actor_flags(values: flags.FlagValues) -> None:
    """Of `actor`, besides credentials."""
    flags.DEFINE_integer(
        "num_groups", None, "Environment groups; default: as the learner asks.", lower_bound=1, flag_values=values
    )
    flags.DEFINE_integer(
        "envs_per_group",
        None,
        "Environments per group; default: as the learner asks.",
        lower_bound=1,
        flag_values=values,
    )
    flags.DEFINE_multi_string(
        "import_module", [], "Python module that registers an environment suite. May be repeated.", flag_values=values
    )
    flags.DEFINE_boolean(
        "share_memory",
        True,
        "Let a learner on this machine read steps from memory; --noshare_memory: send them, as to another machine.",
        flag_values=values,
    )
    flags.DEFINE_boolean(
        "exit_with_parent", False, "End when standard input is closed (set by `train`).", flag_values=values
    )


def plan_flags(values: flags.FlagValues) -> None:
    """Flags of `plan`: the experiment, the machines around the learner, and rates."""
    flags.DEFINE_multi_string("gin_file", [], "Gin file with the experiment. May be repeated.", flag_values=values)
    flags.DEFINE_multi_string(
        "gin_param", [], "Gin binding that overrides the files. May be repeated.", flag_values=values
    )
    flags.DEFINE_string("measured", "runs/bench", "Directory with the files of `scripts/bench.sh`.", flag_values=values)
    _float("rtt_ms", 1.0, "Round trip between actors and learner, milliseconds.", lower_bound=0.0, flag_values=values)
    flags.DEFINE_integer("machine_cores", 16, "Cores of one actor machine.", lower_bound=1, flag_values=values)
    for name, text in (
        ("env_steps", "Agent steps/s of the environments of one core"),
        ("act_ms", "Milliseconds of an act step with --act_batch"),
        ("update_ms", "Milliseconds of an update with the experiment's batch on one device"),
        ("server_us", "Microseconds of the server's thread per message"),
        ("host_us", "Microseconds of batching and answering per step"),
    ):
        _float(name, None, f"{text}; default: as measured.", lower_bound=1e-9, flag_values=values)
    for name, text, default in (
        ("act_batch", "Environments per act step", "Inference.max_batch_size"),
        ("learner_cores", "Cores of the learner's machine", "those of the measurement"),
    ):
        flags.DEFINE_integer(name, None, f"{text}; default: {default}.", lower_bound=1, flag_values=values)
    flags.DEFINE_integer(
        "accelerators", None, "Accelerators of the learner; default: as measured.", lower_bound=0, flag_values=values
    )
