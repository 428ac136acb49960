"""A run on a Ray cluster, wherever its learner is."""

from __future__ import annotations

import dataclasses

from seed_rl.experiment import Experiment
from seed_rl.launch.on_ray.cluster import this_node
from seed_rl.launch.on_ray.fleet import RayActors
from seed_rl.launch.on_ray.keys import Keys
from seed_rl.launch.run import Run
from seed_rl.transport.address import Address


@dataclasses.dataclass(frozen=True)
class Plan:
    """All that such a run is made from; it can be sent to another node."""

    experiment: Experiment
    keys: Keys
    address: str
    """Where the learner listens; "": any free port of its node's address."""
    min_actors: int
    actor_cpus: float
    log_level: int

    def run(self, logdir: str) -> Run:
        """A run whose learner is in this process, in a directory of this node or in an object store."""
        return Run(
            self.experiment,
            logdir,
            actors=lambda logs, on_failure: RayActors(
                self.experiment.actors.num_actors,
                self.min_actors,
                self.actor_cpus,
                self.keys.badge,
                type(self.experiment.env).__module__,
                logs,
                on_failure,
            ),
            address=self.address or str(Address(host=this_node()[1])),
            security=self.keys.security(),
            native_log=True,
        )
