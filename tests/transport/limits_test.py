"""What hosts get a share of: so much in each period, whatever their ports, and a log that stays small."""

import logging

import pytest

from seed_rl.transport.limits import Allowance, HostLog


@pytest.mark.parametrize("host", ["ipv6:%5Bfe80::1%5D", "unix"])
def test_a_host_gets_so_many_in_each_period_whatever_the_port(host):
    now = [100.0]
    allowance = Allowance(2, 10.0, lambda: now[0])
    assert [allowance.take(f"{host}:{port}") for port in range(5)] == [0, 0, None, None, None]
    assert allowance.is_spent(f"run on {host}:9")
    assert not allowance.is_spent("ipv4:10.0.0.2:1")
    assert allowance.take("ipv4:10.0.0.2:1") == 0
    now[0] += 10.0
    assert not allowance.is_spent(f"{host}:1")
    assert [allowance.take(f"{host}:1"), allowance.take(f"{host}:1")] == [3, 0]


def test_strangers_from_everywhere_do_not_fill_the_log(caplog):
    now = [100.0]
    log = HostLog(logging.getLogger("strangers"), 1, lambda: now[0])
    peers = [f"ipv4:10.{a}.{b}.1:{port}" for a in range(20) for b in range(100) for port in (1, 2)]
    for peer in peers:
        log.write(logging.WARNING, peer, f"{peer} was refused")
    assert caplog.messages == [f"{peer} was refused" for peer in peers[:20:2]]
    now[0] += 60.0
    log.write(logging.WARNING, peers[-1], "again")
    assert caplog.messages[10:] == ["again (and 1 more of this host before)"]
