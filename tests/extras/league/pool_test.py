"""The pool of a league: when members come and go, how they are drawn, and what a restart keeps."""

import collections
import json
import types

import numpy as np
import pytest

from seed_rl.errors import Failure
from seed_rl.extras.league.pool import Pool
from seed_rl.extras.league.settings import League
from seed_rl.learner.progress import Counters
from seed_rl.weights import checkpoints

SETS = 2


class Acting:
    """Stands in for `LeagueActStep`."""

    def __init__(self):
        self.members, self.weights = [-1] * SETS, [None] * SETS
        self.loaded, self.results = [], []

    @property
    def is_empty(self):
        return -1 in self.members

    def load(self, number, member, weights):
        self.members[number], self.weights[number] = member, weights
        self.loaded.append(number)

    def take_results(self):
        results, self.results = self.results, []
        return results


def weights(updates):
    values = np.full(3, updates, np.float32)
    return {"agent/kernel": types.SimpleNamespace(numpy=lambda: values, shape=values.shape, dtype=values.dtype)}


def run(pool, acting, updates):
    for update in updates:
        pool.refresh(Counters(update, env_frames=100 * update), weights(update), [acting], seed=3)


def test_members_are_added_drawn_in_turn_and_read_as_they_were(tmp_path):
    pool, acting = Pool(str(tmp_path), League(sets=SETS, every_updates=10)), Acting()
    run(pool, acting, range(10))
    assert (pool.members, acting.members, acting.loaded) == ([0], [0, 0], [0, 1])
    run(pool, acting, range(10, 41))
    assert pool.members == [0, 10, 20, 30, 40]
    assert acting.loaded == [0, 1, 1, 0, 1, 0], "one at a time"
    for member, own in zip(acting.members, acting.weights, strict=True):
        np.testing.assert_array_equal(own, [np.full(3, member, np.float32)])
    arrays, state = checkpoints.load(pool.path(30))
    assert (list(arrays), state["counters"]) == (["agent/kernel"], {"learner_updates": 30, "env_frames": 3000})


def test_a_full_pool_keeps_every_second_member_and_waits_twice_as_long(tmp_path):
    pool, acting = Pool(str(tmp_path), League(sets=SETS, every_updates=10, most_members=4)), Acting()
    run(pool, acting, range(81))
    assert pool.members == [0, 40, 80], "full at 40, and again at 80"
    kept = [int(path.stem.partition("-")[2]) for path in sorted(tmp_path.glob("member-*.npz"))]
    assert kept == [0, 20, 40, 60, 80], "a checkpoint of before may still need those that left last"
    (tmp_path / "member-000000000060.npz").unlink()  # somebody else was faster
    run(pool, acting, range(81, 161))
    assert pool.members == [0, 40, 80, 120, 160][::2]


def test_results_are_reported_and_survive_a_restart_with_the_members_of_the_checkpoint(tmp_path, caplog):
    pool, acting = Pool(str(tmp_path), League(sets=SETS, every_updates=10)), Acting()
    run(pool, acting, range(11))
    assert pool.gauges() == {"league/members": 2}
    acting.results = [(0, 1.0), (0, 0.5), (10, 0.0), (7, 1.0)]
    run(pool, acting, [11])
    assert pool.gauges() == {"league/members": 2, "league/score": 0.625}
    state = json.loads(json.dumps(pool.get_state()))
    assert (tmp_path / "results.csv").read_text() == "updates,games,score\n0,2,0.75\n10,1,0.0\n", "as in the checkpoint"
    run(pool, acting, range(12, 21))
    assert (tmp_path / "results.csv").read_text() == "updates,games,score\n0,2,0.75\n10,1,0.0\n20,0,\n"

    again = Pool(str(tmp_path), League(sets=SETS, every_updates=10))
    again.set_state(state)
    assert again.members == [0, 10], "the third is of a future that didn't come"
    assert not (tmp_path / "member-000000000020.npz").exists()
    assert again.get_state() == state
    run(again, Acting(), [10])
    assert again.get_state() == state, "a member that is there already keeps its results"
    (tmp_path / "member-000000000010.npz").unlink()
    again.set_state(state)
    assert again.members == [0]
    assert "members [10] of the league are missing" in caplog.text
    with pytest.raises(ValueError, match="expected an interval, members and results"):
        again.set_state({"every_updates": 10, "results": [[0, 1, 2.0]]})


def test_members_that_cannot_be_read_leave_and_the_run_goes_on(tmp_path, caplog):
    pool, acting = Pool(str(tmp_path), League(sets=SETS, every_updates=10)), Acting()
    run(pool, acting, range(21))
    (tmp_path / "member-000000000000.npz").unlink()
    (tmp_path / "member-000000000010.npz").write_bytes(b"damaged")
    checkpoints.write(pool.path(20), {"agent/kernel": np.zeros((3, 3), np.float32)}, {"counters": {}})
    run(pool, fresh := Acting(), [25])
    assert (pool.members, fresh.members) == ([25], [25, 25]), "an empty league gets the agent"
    assert caplog.text.count("leaves the league") == 3


def test_a_start_without_a_checkpoint_begins_a_league_of_its_own_or_says_why_it_cannot(tmp_path):
    for last in (31, 11):
        run(Pool(str(tmp_path), League(sets=SETS, every_updates=10)), Acting(), range(last))
    assert [path.stem[-2:] for path in sorted(tmp_path.glob("member-*.npz"))] == ["00", "10"]
    pool = Pool(str(tmp_path / "full"), League(sets=SETS, every_updates=10))
    (tmp_path / "full" / "member-000000000000.npz.partial").mkdir()
    with pytest.raises(Failure, match=f"^the league in {tmp_path}/full has no member, and none can be written: Is "):
        run(pool, Acting(), [0])


@pytest.mark.parametrize(
    ("draw", "shares"),
    [
        ("uniform", [0.25, 0.25, 0.25, 0.25]),
        ("newest", [0, 0, 0.5, 0.5]),
        ("prioritized", [0.0025, 0.25, 0.5625, 0.25]),
    ],
)
def test_members_are_drawn_by_age_or_by_results(draw, shares, tmp_path):
    """Against member 0 the agent won nine games, against 20 it lost one, and it met no other."""
    pool, acting = Pool(str(tmp_path), League(sets=SETS, every_updates=10, draw=draw)), Acting()
    run(pool, acting, range(31))
    acting.results = [(0, 1.0)] * 9 + [(20, 0.0)]
    run(pool, acting, [31])
    drawn = collections.Counter()
    for update in range(100):
        fresh = Acting()
        pool.refresh(Counters(31), weights(31), [fresh], seed=update)
        drawn.update(fresh.members)
    expected = np.array(shares) / sum(shares)
    np.testing.assert_allclose([drawn[member] / 200 for member in (0, 10, 20, 30)], expected, atol=0.1)
