import pytest

from seed_rl.inference.membership import Membership
from seed_rl.transport.protocol import Refused


def test_leases_the_lowest_free_ids():
    membership = Membership(6, seed=1, timeout=60)
    first = membership.join([2, 1])
    assert [group.env_ids for group in first.groups] == [(0, 1), (2,)]
    assert [group.seed for group in first.groups] == [1, 3]
    membership.open(first.session, 0)
    membership.open(first.session, 1)
    second = membership.join([2])
    assert second.groups[0].env_ids == (3, 4)
    membership.close(first.session, 0)
    assert membership.join([3]).groups[0].env_ids == (0, 1, 5)
    assert membership.leased == 6
    assert membership.actors == 3
    membership.close(first.session, 1)
    assert membership.actors == 2, "one is gone when all of its groups are"


def test_ids_of_an_actor_that_never_streams_are_free_after_the_timeout():
    now = [0.0]
    membership = Membership(2, seed=1, timeout=10, clock=lambda: now[0])
    dead = membership.join([1, 1])
    membership.open(dead.session, 1)
    now[0] = 9.9
    with pytest.raises(Refused, match="room for 2 environments and 2 are taken: 1 more don't fit"):
        membership.join([1])
    now[0] = 10.0
    assert membership.join([1]).groups[0].env_ids == (0,)
    with pytest.raises(Refused, match="not known here: join again"):
        membership.open(dead.session, 0)
    with pytest.raises(Refused, match="already has a stream"):
        membership.open(dead.session, 1)
    membership.close(dead.session, 1)
    late = membership.join([1])
    assert late.groups[0].env_ids == (1,)
    now[0] = 20.0
    with pytest.raises(Refused, match="not known here: join again"):
        membership.open(late.session, 0)


def test_only_a_group_of_a_known_session_streams():
    membership = Membership(2, seed=1, timeout=60)
    lease = membership.join([1])
    for session, group in ((lease.session, -1), (lease.session, 1), ("another", 0)):
        with pytest.raises(Refused, match=f"group {group} of this session is not known here: join again"):
            membership.open(session, group)


@pytest.mark.parametrize("seed", [1, 2**31 - 2])
def test_a_restarted_actor_gets_other_seeds_which_are_valid_whatever_the_first(seed):
    membership = Membership(4, seed=seed, timeout=60)
    seeds = set()
    for _ in range(20):
        lease = membership.join([2, 2])
        for group, leased in enumerate(lease.groups):
            membership.open(lease.session, group)
            seeds.update(leased.seed + n for n in range(2))
            membership.close(lease.session, group)
    assert len(seeds) == 20 * 4
    assert 0 <= min(seeds) <= max(seeds) < 2**31 - 1


def test_the_ids_of_a_group_are_of_one_device_the_one_with_the_most_free():
    membership = Membership(12, seed=1, timeout=60, num_devices=2)
    first = membership.join([2, 2, 2])
    assert [group.env_ids for group in first.groups] == [(0, 2), (1, 3), (4, 6)]
    assert [membership.device_of(group) for group in first.groups] == [0, 1, 0]
    membership.open(first.session, 0)
    membership.close(first.session, 0)
    assert membership.join([1]).groups[0].env_ids == (0,), "the lowest that is free"
    assert membership.join([4]).groups[0].env_ids == (5, 7, 9, 11)
    with pytest.raises(Refused, match="room for 12 environments and 9 are taken, 2 devices share them: 4 more"):
        membership.join([4])
    with pytest.raises(Refused):
        membership.join([2, 5])
    assert membership.leased == 9, "a refused actor takes nothing"
