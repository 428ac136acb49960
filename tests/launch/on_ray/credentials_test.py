"""The credentials of learner and actors on a cluster, through the real server."""

import dataclasses

import pytest

from seed_rl.envs.catch import Catch
from seed_rl.launch.on_ray.credentials import Credentials, credentials_of_run
from seed_rl.specs import ActorSettings
from seed_rl.transport.client import LearnerClient, Rejected
from seed_rl.transport.credentials import ServerSecurity
from seed_rl.transport.server import ActorServer

SETTINGS = ActorSettings(Catch().describe(), 1, 1)


class Describing:
    """A service that only says what to build."""

    def describe(self):
        """The settings."""
        return SETTINGS


def answer(learner, actor):
    """The learner's answer to an actor."""
    server = ActorServer("127.0.0.1:0", Describing(), security=learner.server())
    client = LearnerClient(server.start(), actor.client())
    try:
        return client.describe(10.0)
    finally:
        client.close()
        server.stop(1.0)


def test_a_run_without_credentials_gets_its_own():
    ours, others = credentials_of_run(ServerSecurity()), credentials_of_run(ServerSecurity())
    assert ours.of_actors().private_key is None
    assert answer(ours, ours.of_actors()) == SETTINGS
    with pytest.raises(Rejected, match="the actor's token isn't the learner's"):
        answer(ours, dataclasses.replace(ours.of_actors(), token=others.token))
    with pytest.raises(Rejected, match="isn't vouched for"):
        answer(ours, others.of_actors())


def test_the_users_credentials_are_taken():
    own = credentials_of_run(ServerSecurity())
    assert credentials_of_run(own.server(), own.server_name) == own
    with_token = credentials_of_run(ServerSecurity(token="mine"))
    assert with_token.token == "mine"
    assert with_token.certificate is not None
    assert "mine" not in repr(with_token)
    assert "PRIVATE" not in repr(with_token)


def test_a_trusted_network_needs_none():
    credentials = credentials_of_run(ServerSecurity(insecure=True))
    assert credentials == Credentials(None, insecure=True)
    assert answer(credentials, credentials) == SETTINGS
