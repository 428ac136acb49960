"""`seed_rl train --launcher=ray`: a run whose actors, and if need be its learner, are Ray actors."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Iterator

import ray
from absl import flags

from seed_rl.experiment import Experiment
from seed_rl.launch.cli import UsageError
from seed_rl.launch.on_ray.actors import ActorSpec, RayActors
from seed_rl.launch.on_ray.cluster import connected, this_node
from seed_rl.launch.on_ray.credentials import Credentials, credentials_of_run
from seed_rl.launch.on_ray.learner import RemoteRun
from seed_rl.launch.run import Run
from seed_rl.transport.address import Address, parse_address
from seed_rl.transport.credentials import ServerSecurity

_HERE = "here"


@dataclasses.dataclass(frozen=True)
class RunSpec:
    """What any node needs to run a learner with its actors on the cluster."""

    experiment: Experiment
    credentials: Credentials
    address: str
    """Where the learner listens; "": any free port of its node's address."""
    min_actors: int
    actor_cpus: float
    log_level: int

    def run(self, logdir: str) -> Run:
        """A run whose learner is in this process, in a directory of this node or in an object store."""
        experiment = self.experiment
        actor = ActorSpec(self.credentials.of_actors(), type(experiment.env).__module__, self.log_level)
        return Run(
            experiment,
            logdir,
            actors=lambda logs: RayActors(experiment.actors.num_actors, self.min_actors, self.actor_cpus, actor, logs),
            address=self.address or str(Address(host=this_node()[1])),
            security=self.credentials.server(),
            native_log=True,
        )


@contextlib.contextmanager
def ray_run(
    values: flags.FlagValues, experiment: Experiment, logdir: str, given: ServerSecurity
) -> Iterator[Run | RemoteRun]:
    """A run on the cluster that the flags name; inside, this process is connected to it.

    Raises:
      UsageError: flags that don't go together.
      AddressError, SecurityError: `--server_address`, or the credentials for it.
      NoCluster: the cluster can't be reached.
    """
    least, most = values.min_actors or 1, experiment.actors.num_actors
    if least > most:
        raise UsageError(f"--min_actors={least} is more than there is room for: Actors.num_actors is {most}")
    credentials = credentials_of_run(given, values.tls_server_name)
    if values.server_address:
        address = parse_address(values.server_address)
        if address.path:
            raise UsageError(f"actors on other nodes can't reach --server_address={address}: give HOST:PORT")
        credentials.server().check(address)
    cpus = 1.0 if values.actor_cpus is None else values.actor_cpus
    spec = RunSpec(experiment, credentials, values.server_address, least, cpus, logging.getLogger().level)
    with connected(values.ray_address or ""):
        resource = values.ray_learner or ("GPU" if ray.cluster_resources().get("GPU") else _HERE)
        yield spec.run(logdir) if resource == _HERE else RemoteRun(spec, logdir, resource)
