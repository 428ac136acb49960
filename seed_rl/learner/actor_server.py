"""The server of an experiment's actors, which build their environments while the learner loads. No TensorFlow here."""

import dataclasses

from seed_rl.experiment import ConfigError, Experiment
from seed_rl.specs import ActorSettings, EnvSpec
from seed_rl.transport import messages
from seed_rl.transport.codec import StepCodec
from seed_rl.transport.credentials import ServerSecurity
from seed_rl.transport.server import ActorServer


def server_of(
    experiment: Experiment, address: str, security: ServerSecurity, spec: EnvSpec | None = None
) -> ActorServer:
    """Build a server that tells actors which environments to build; they can join once it has its `service`.

    Clients send what `spec` says, by default all that the environments observe.
    """
    env, actors, spec = experiment.env.describe(), experiment.actors, spec or experiment.env_spec()
    settings = ActorSettings(env, actors.groups_per_actor, actors.envs_per_group, spec)
    if (eval_env := experiment.eval_env) != experiment.env:
        other = dataclasses.replace(experiment, env=eval_env).env_spec()
        if (other, eval_env.players) != (spec, experiment.env.players):
            raise ConfigError(
                f"Actors.eval_options must keep spaces and players: {spec} in training, {other} with them"
            )
        settings = dataclasses.replace(settings, eval_env=eval_env.describe(), first_eval_id=actors.num_training_envs)
    largest_step = StepCodec(spec, experiment.inference.max_batch_size).step_bytes
    most = max(largest_step, messages.MAX_REQUEST_BYTES)
    return ActorServer(address, settings, security=security, max_message_bytes=most)
