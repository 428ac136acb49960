"""Connections through a proxy, which are made only when asked for."""

import pytest

from seed_rl.transport.address import parse_address
from seed_rl.transport.client import Disconnected
from seed_rl.transport.credentials import ClientSecurity, SecurityError
from tests.support.connect_proxy import ConnectProxy
from tests.support.deadlines import within
from tests.transport import peers

VARIABLES = ("grpc_proxy", "https_proxy", "http_proxy")


@pytest.fixture
def proxy(monkeypatch):
    """Makes a proxy to some places, which the environment names."""
    made = []

    def make(places):
        made.append(ConnectProxy(places))
        for name in (*VARIABLES, "no_proxy", "no_grpc_proxy"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("http_proxy", made[-1].url)
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_a_proxy_is_used_only_when_asked_for_and_finds_the_learner_by_name(house, proxy):
    learner = house.serve("127.0.0.1:0")
    known = proxy({"learner.invalid:1": learner.address})
    assert house.connect(learner.address).describe(timeout=within(5)) == peers.SETTINGS
    assert known.asked == []
    through = house.connect("learner.invalid:1", ClientSecurity(proxy=True))
    assert through.describe(timeout=within(5)) == peers.SETTINGS
    assert known.asked == [("CONNECT", "learner.invalid:1")]


def test_what_the_proxy_says_is_passed_on(house, proxy):
    proxy({})
    with pytest.raises(Disconnected, match="other.invalid:1: .*HTTP proxy returned response code 403"):
        house.connect("other.invalid:1", ClientSecurity(proxy=True)).describe(timeout=1.0)


def test_a_proxy_must_be_named_and_does_not_see_the_token(proxy, monkeypatch):
    near, security = parse_address("localhost:1"), ClientSecurity(proxy=True)
    proxy({})
    security.check(near)
    with pytest.raises(SecurityError, match="the token would go to localhost:1 in plain text"):
        ClientSecurity(token="swordfish", proxy=True).check(near)
    monkeypatch.delenv("http_proxy")
    with pytest.raises(SecurityError, match="--proxy needs the proxy.s URL in one of grpc_proxy, https_proxy"):
        security.check(near)
