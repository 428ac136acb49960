"""`seed_rl train --launcher=ray`."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

import ray
from absl import flags

from seed_rl.experiment import Experiment
from seed_rl.launch.cli import UsageError
from seed_rl.launch.on_ray.cluster import connected
from seed_rl.launch.on_ray.keys import keys_of_run
from seed_rl.launch.on_ray.learner import RemoteRun
from seed_rl.launch.on_ray.plan import Plan
from seed_rl.launch.run import Run
from seed_rl.transport.address import parse_address
from seed_rl.transport.credentials import ServerSecurity

_HERE = "here"


@contextlib.contextmanager
def ray_run(
    values: flags.FlagValues, experiment: Experiment, logdir: str, given: ServerSecurity
) -> Iterator[Run | RemoteRun]:
    """A run on the cluster that the flags name; the connection to it lasts for the context.

    Raises:
      UsageError: flags that don't go together.
      AddressError, SecurityError: `--server_address`, or what is given for it.
      NoCluster: the cluster can't be reached.
    """
    least, most = values.min_actors or 1, experiment.actors.num_actors
    if least > most:
        raise UsageError(f"--min_actors={least} is more than there is room for: Actors.num_actors is {most}")
    keys = keys_of_run(given, values.tls_server_name)
    if values.server_address:
        address = parse_address(values.server_address)
        if address.path:
            raise UsageError(f"actors on other nodes can't reach --server_address={address}: give HOST:PORT")
        keys.security().check(address)
    cpus = 1.0 if values.actor_cpus is None else values.actor_cpus
    plan = Plan(experiment, keys, values.server_address, least, cpus, logging.getLogger().level)
    with connected(values.ray_address or ""):
        resource = values.ray_learner or ("GPU" if ray.cluster_resources().get("GPU") else _HERE)
        yield plan.run(logdir) if resource == _HERE else RemoteRun(plan, logdir, resource)
