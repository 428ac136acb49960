"""What learner and actors show each other, through the real server."""

import pytest

from seed_rl.envs.catch import Catch
from seed_rl.launch.on_ray.keys import Badge, keys_of_run
from seed_rl.specs import ActorSettings
from seed_rl.transport.client import LearnerClient, Rejected
from seed_rl.transport.credentials import ServerSecurity
from seed_rl.transport.server import ActorServer

SETTINGS = ActorSettings(Catch().describe(), 1, 1)


class Describing:
    """Tells what to build, and no more."""

    def describe(self):
        """The settings."""
        return SETTINGS


def answer(keys, badge):
    """What an actor with this badge is told by a learner with these keys."""
    server = ActorServer("127.0.0.1:0", Describing(), security=keys.security())
    client = LearnerClient(server.start(), badge.security())
    try:
        return client.describe(10.0)
    finally:
        client.close()
        server.stop(1.0)


def test_a_run_without_credentials_gets_some_of_its_own():
    keys, others = keys_of_run(ServerSecurity()), keys_of_run(ServerSecurity())
    assert answer(keys, keys.badge) == SETTINGS
    stranger = Badge(keys.badge.certificate, others.badge.token, False, keys.badge.server_name)
    with pytest.raises(Rejected, match="the actor's token isn't the learner's"):
        answer(keys, stranger)
    with pytest.raises(Rejected, match="isn't vouched for"):
        answer(keys, others.badge)


def test_what_the_user_gives_is_taken():
    own = keys_of_run(ServerSecurity())
    given = keys_of_run(own.security(), own.badge.server_name)
    assert given == own
    keys = keys_of_run(ServerSecurity(token="mine"))
    assert keys.badge.token == "mine"
    assert keys.badge.certificate is not None


def test_a_trusted_network_needs_none():
    keys = keys_of_run(ServerSecurity(insecure=True))
    assert keys.badge == Badge(None, None, True, None)
    assert answer(keys, keys.badge) == SETTINGS


def test_secrets_are_not_shown():
    keys = keys_of_run(ServerSecurity(token="mine"))
    assert "mine" not in repr(keys)
    assert "PRIVATE" not in repr(keys)
