"""The credentials of learner and actors on a cluster, through the real server."""

import pytest

from seed_rl.envs.catch import Catch
from seed_rl.runs.ray.run import credentials_of_run
from seed_rl.specs import ActorSettings
from seed_rl.transport.client import LearnerClient, Rejected
from seed_rl.transport.credentials import ClientSecurity, ServerSecurity
from seed_rl.transport.server import ActorServer

SETTINGS = ActorSettings(Catch().describe(), 1, 1)


class Describing:
    """A service that only says what to build."""

    def describe(self):
        """The settings."""
        return SETTINGS


def answer(learner, actor):
    """The learner's answer to an actor."""
    server = ActorServer("127.0.0.1:0", Describing(), security=learner)
    client = LearnerClient(server.start(), actor)
    try:
        return client.describe(10.0)
    finally:
        client.close()
        server.stop(1.0)


def test_a_run_without_credentials_gets_its_own():
    learner, actor = credentials_of_run(ServerSecurity())
    _, other = credentials_of_run(ServerSecurity())
    assert answer(learner, actor) == SETTINGS
    with pytest.raises(Rejected, match="the actor's token isn't the learner's"):
        answer(learner, ClientSecurity(actor.authorities, other.token, server_name=actor.server_name))
    with pytest.raises(Rejected, match="isn't vouched for"):
        answer(learner, other)


def test_the_users_credentials_are_taken():
    own, actor = credentials_of_run(ServerSecurity())
    assert credentials_of_run(own, actor.server_name) == (own, actor)
    with_token, _ = credentials_of_run(ServerSecurity(token="mine"))
    assert with_token.token == "mine"
    assert with_token.certificate is not None
    assert "mine" not in repr(with_token)
    assert "PRIVATE" not in repr(with_token)


def test_a_trusted_network_needs_none():
    learner, actor = credentials_of_run(ServerSecurity(insecure=True))
    assert (learner, actor) == (ServerSecurity(insecure=True), ClientSecurity(insecure=True))
    assert answer(learner, actor) == SETTINGS
