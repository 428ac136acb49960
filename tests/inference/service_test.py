"""Which actors may join, and what the log says about those that come and go."""

from types import SimpleNamespace

import pytest

from seed_rl.inference.membership import Membership
from seed_rl.inference.service import CentralInference
from seed_rl.transport.protocol import Refused
from tests.transport import peers


def test_an_actor_that_joins_and_leaves_all_the_time_does_not_fill_the_log(caplog):
    caplog.set_level("INFO")
    batcher = SimpleNamespace(max_batch_size=2, group_opened=lambda lease: None, group_closed=lambda lease: 59.0)
    batcher.hanging = lambda seconds: 0
    service = CentralInference(peers.SPEC, Membership(2, 1, 10.0), [SimpleNamespace(batcher=batcher)])
    for port in range(200):
        session = service.join(f"run {port}", peers.SPEC, [2], f"ipv4:10.0.0.1:{port}").session
        lease, _ = service.open(session, 0)
        service.close(session, 0, lease, "the actor left")
    assert service.connected() == {"actors": 0, "environments": 0}, "none of them hung"
    assert len(caplog.messages) == 100
    assert caplog.messages[:2] == [
        "actor run 0 joined from ipv4:10.0.0.1:0 with 2 environments in 1 groups",
        "environments 0..1 left: the actor left",
    ]


def test_a_game_is_not_torn_apart_by_groups():
    threads = [SimpleNamespace(batcher=SimpleNamespace(max_batch_size=6))]
    service = CentralInference(peers.SPEC, Membership(12, 1, 10.0), threads, players=3)
    service.join("whole", peers.SPEC, [3, 6], "peer")
    with pytest.raises(Refused, match=r"groups of 1 to 6 .*, in whole games of 3 players, got \[6, 4\]"):
        service.join("torn", peers.SPEC, [6, 4], "peer")
    service.group_size = 6
    with pytest.raises(Refused, match=r"groups have 6 environments in a run with Actors.eval_options, got \[6, 3\]"):
        service.join("smaller", peers.SPEC, [6, 3], "peer")
