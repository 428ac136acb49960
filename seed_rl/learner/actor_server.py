"""The server of a learner's actors, which build their environments while the learner loads. No TensorFlow here."""

import dataclasses
from collections.abc import Sequence

from seed_rl.experiment import Experiment, Inference
from seed_rl.specs import ActorSettings, EnvSpec, GroupLease, Lease
from seed_rl.transport import messages
from seed_rl.transport.codec import StepCodec
from seed_rl.transport.credentials import ServerSecurity
from seed_rl.transport.protocol import Refusal, Refused
from seed_rl.transport.server import ActorServer
from seed_rl.transport.streams import Service


@dataclasses.dataclass(frozen=True)
class Loading(Service):
    """Stands in for central inference until it is built: describes the environments, and lets nobody join yet."""

    settings: ActorSettings

    def describe(self) -> ActorSettings:
        return self.settings

    def join(self, run_id: str, env_spec: EnvSpec, group_sizes: Sequence[int], peer: str) -> Lease:
        raise Refused(Refusal.UNAVAILABLE, "the learner is still loading")

    def open(self, session: str, group: int) -> tuple[GroupLease, EnvSpec]:
        raise Refused(Refusal.UNAVAILABLE, "the learner is still loading")


def actor_settings(experiment: Experiment) -> ActorSettings:
    """Return the settings from which actors build the environments of an experiment."""
    env, actors = experiment.env.describe(), experiment.actors
    return ActorSettings(env, actors.groups_per_actor, actors.envs_per_group, experiment.env_spec())


def loading_server(experiment: Experiment, address: str, security: ServerSecurity) -> ActorServer:
    """Build the server of an experiment's actors, which they can join once `ActorServer.service` is the learner's."""
    loading = Loading(actor_settings(experiment))  # type: ignore[abstract]  # what only streams need is never called
    return server_of(loading, experiment.env_spec(), experiment.inference, address, security)


def server_of(
    service: Service, env_spec: EnvSpec, inference: Inference, address: str, security: ServerSecurity
) -> ActorServer:
    """Build a server of actors, with limits that fit the steps of these environments."""
    largest_step = StepCodec(env_spec, inference.max_batch_size).step_bytes
    most = max(largest_step, messages.MAX_REQUEST_BYTES)
    return ActorServer(address, service, security=security, max_message_bytes=most)
