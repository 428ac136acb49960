"""Commands that train."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from absl import flags

from seed_rl import config_files
from seed_rl.experiment import Experiment
from seed_rl.launch.cli import FAILURE, UsageError
from seed_rl.launch.local_actors import ActorFailed
from seed_rl.launch.progress import Progress
from seed_rl.launch.run import ELSEWHERE, PROCESSES, Run
from seed_rl.launch.run_directory import CannotUse
from seed_rl.launch.signals import signals
from seed_rl.learner.checkpoints import CheckpointError
from seed_rl.learner.ending import Diverged
from seed_rl.learner.hosts import HostLost, Hosts
from seed_rl.object_store import CannotReach, is_url
from seed_rl.transport.address import AddressError, parse_address
from seed_rl.transport.credentials import SecurityError, ServerSecurity, read_token

if TYPE_CHECKING:
    from seed_rl.launch.on_ray.learner import RemoteRun

_ANY_LOCAL = "localhost:0"  # an address that needs no credentials: whether those that are given are usable


def train(values: flags.FlagValues) -> int:
    """Runs a learner in this process and actors in others."""
    experiment = _load_experiment(values)
    if values.launcher == "ray":
        if values.learner_hosts:
            raise UsageError("--learner_hosts does not go with --launcher=ray")
        return _train_on_ray(values, experiment)
    for flag in ("ray_address", "ray_learner", "min_actors", "actor_cpus"):
        if values[flag].value is not None:
            raise UsageError(f"--{flag} needs --launcher=ray")
    return _train("train", values, experiment, PROCESSES, _actor_arguments(values))


def learner(values: flags.FlagValues) -> int:
    """Runs a learner."""
    return _train("learner", values, _load_experiment(values), ELSEWHERE)


def _train(
    command: str,
    values: flags.FlagValues,
    experiment: Experiment,
    actors: str,
    actor_arguments: Sequence[str] = (),
) -> int:
    run = Run(
        experiment,
        _logdir(values),
        actors=actors,
        address=values.server_address,
        security=_server_security(values, values.server_address),
        actor_arguments=actor_arguments,
        native_log=True,
        hosts=_hosts(values),
    )
    return _carry_out(command, values, run)


def _train_on_ray(values: flags.FlagValues, experiment: Experiment) -> int:
    try:
        from seed_rl.launch.on_ray.cluster import NoCluster
        from seed_rl.launch.on_ray.command import ray_run
    except ModuleNotFoundError as error:
        if error.name not in ("ray", "cryptography"):
            raise
        raise UsageError("--launcher=ray needs Ray: pip install 'seed_rl[ray]'") from error
    try:
        with ray_run(values, experiment, _logdir(values), _server_security(values, _ANY_LOCAL)) as run:
            return _carry_out("train", values, run)
    except (AddressError, SecurityError) as error:
        raise UsageError(str(error)) from error
    except NoCluster as error:
        return _failure("train", str(error))
    except KeyboardInterrupt:  # while Ray connects; later a signal ends the run in good order
        return 128 + signal.SIGINT


def _carry_out(command: str, values: flags.FlagValues, run: Run | RemoteRun) -> int:
    try:
        with signals() as stopped, run, _progress(run, values.quiet) as progress:
            with contextlib.closing(run.train(stopped)) as rows:
                for row in rows:
                    progress.show(row)
            return stopped.exit_code
    except (AddressError, CannotReach, CannotUse) as error:
        raise UsageError(str(error)) from error
    except (ActorFailed, CheckpointError, HostLost) as error:
        return _failure(command, str(error))
    except Diverged as error:
        return _failure(
            command,
            f"training has diverged: {error}. A smaller Optimizer.learning_rate or Optimizer.clip_norm may help; the "
            f"last checkpoint in {run.logdir} is from before",
        )


def _progress(run: Run | RemoteRun, quiet: bool) -> Progress:
    experiment = run.experiment
    return Progress(experiment.total_frames, run.logdir, quiet=quiet, num_envs=experiment.actors.num_envs)


def _failure(command: str, sentence: str) -> int:
    print(f"seed_rl {command}: {sentence}", file=sys.stderr)
    return FAILURE


def sweep(values: flags.FlagValues) -> int:
    """Trains with every combination of settings and seeds."""
    from seed_rl.launch.sweep import BadGrid, Sweep, trials

    try:
        wanted = trials(values.grid, [int(seed) for seed in values.seeds])
    except BadGrid as error:
        raise UsageError(str(error)) from error
    except ValueError as error:
        raise UsageError(f"--seeds takes whole numbers, got {','.join(values.seeds)}") from error
    if not values.gin_file:
        raise UsageError(f"--gin_file is needed, one of {', '.join(config_files.shipped_configs())} or a path")
    shared = [f"--gin_file={name}" for name in values.gin_file] + [f"--gin_param={b}" for b in values.gin_param]
    if values.total_frames is not None:
        shared.append(f"--total_frames={values.total_frames}")
    for trial in wanted:  # a mistake is told before the first run
        config_files.load(values.gin_file, [*values.gin_param, *trial.bindings])
    if is_url(values.logdir or ""):
        raise UsageError(
            f"--logdir of a sweep is a directory on this machine, got {values.logdir}, which `seed_rl train` takes "
            "for a single run"
        )
    directory = values.logdir or os.path.join("runs", f"sweep_{_name_of(values.gin_file)}")
    try:
        os.makedirs(directory, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--logdir {directory} can't be used: {error.strerror}") from error
    running = Sweep(wanted, shared, directory, values.parallel)
    print(f"{len(wanted)} runs, {values.parallel} at a time, in {directory}")
    with signals() as stopped:
        code = running.run(stopped.is_set, lambda text: print(f"{time.strftime('%H:%M:%S')} {text}", flush=True))
    print(running.table())
    print(running.write_results())
    return stopped.exit_code or code


def _logdir(values: flags.FlagValues) -> str:
    return values.logdir or os.path.join("runs", _name_of(values.gin_file))


def _server_security(values: flags.FlagValues, address: str) -> ServerSecurity:
    try:
        security = ServerSecurity(values.tls_cert, values.tls_key, read_token(values.token_file), values.insecure)
        if address:  # else a socket that only this user can reach
            security.check(parse_address(address))
        security.credentials()
    except (AddressError, SecurityError) as error:
        raise UsageError(str(error)) from error
    return security


def _hosts(values: flags.FlagValues) -> Hosts:
    try:
        return Hosts(tuple(values.learner_hosts), values.learner_host)
    except ValueError as error:
        raise UsageError(f"--learner_hosts, --learner_host: {error}") from error


def _load_experiment(values: flags.FlagValues) -> Experiment:
    overrides = list(values.gin_param)
    for flag, binding in (
        ("total_frames", "Experiment.total_frames"),
        ("seed", "Experiment.seed"),
        ("num_actors", "Actors.num_actors"),
    ):
        if values[flag].value is not None:
            overrides.append(f"{binding} = {values[flag].value}")
    if not values.gin_file:
        raise UsageError(f"--gin_file is needed, one of {', '.join(config_files.shipped_configs())} or a path")
    return config_files.load(values.gin_file, overrides)


def _actor_arguments(values: flags.FlagValues) -> list[str]:
    arguments = [f"--log_level={values.log_level}"]
    if values.tls_cert:
        arguments.append(f"--tls_ca={values.tls_cert}")
    if values.tls_server_name:
        arguments.append(f"--tls_server_name={values.tls_server_name}")
    if values.token_file:
        arguments.append(f"--token_file={values.token_file}")
    if values.insecure:
        arguments.append("--insecure")
    return arguments


def _name_of(gin_files: Sequence[str]) -> str:
    return os.path.splitext(gin_files[-1])[0].strip("./").replace("/", "_")
