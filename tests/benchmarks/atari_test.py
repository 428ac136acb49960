"""The queue of Atari games, and the scores that it reads from metrics; nothing is trained."""

from benchmarks import atari

FRAMES = 6_000_000


def rows_of(frames=FRAMES, step=250_000):
    """A run in which an episode ends every 10,000 frames, with a return that is the million in which it ended."""
    total, rows = 0.0, []
    for now in range(0, frames + 1, step):
        total += step / 10_000 * ((now - 1) // 1_000_000) if now else 0.0
        row = {"env_frames": now, "seconds": now / 10_000, "episodes": now // 10_000, "total_return": total}
        rows.append({**row, "episode_return": now / 1e6, "policy/mean_value": 1.0, "learning/entropy_share": 0.9})
    return rows


def test_a_score_is_the_mean_of_the_episodes_of_the_last_million_frames():
    rows = rows_of()
    assert atari.reading(rows, 5_000_000) == {"frames": 5_000_000, "score": 4.0, "episodes": 100}
    between = {"frames": 5_600_000, "score": (25 * 4 + 75 * 5) / 100, "episodes": 100}
    assert atari.reading(rows, 5_600_000) == between, "read at the first row with as many frames, 5,750,000"
    assert atari.reading(rows, 500_000) == {"frames": 500_000, "score": 0.0, "episodes": 50}, "of all episodes"
    without = [{**row, "episodes": 7, "total_return": 70.0} for row in rows]
    assert atari.reading(without, FRAMES) == {"frames": FRAMES, "score": None, "episodes": 0}
    assert atari.summary(without, FRAMES)["best_return"] is None, "no mean was one of 100 episodes"


def test_a_run_is_read_on_the_way_and_at_its_end():
    rows = rows_of()
    rows[3] |= {"policy/mean_value": -70.0, "learning/entropy_share": 0.2}
    summary = atari.summary(rows, FRAMES)
    assert [each["frames"] for each in summary["scores"]] == [5_000_000, 6_000_000]
    assert [each["score"] for each in summary["scores"]] == [4.0, 5.0]
    assert (summary["max_abs_value"], summary["min_entropy_share"]) == (70.0, 0.2)
    assert (summary["best_return"], summary["minutes"]) == (6.0, 10.0)
    assert atari.summary(rows, 2 * FRAMES)["scores"] == summary["scores"][:1], "its end has not been reached"
    assert atari.summary([], FRAMES)["scores"] == []


def test_a_thinned_curve_has_the_last_row_of_each_stretch_and_the_extremes_of_all():
    rows = rows_of(step=10_000)
    rows[1] |= {"policy/mean_value": -70.0}
    rows[-2] |= {"learning/entropy_share": 0.2}
    thin = list(atari.thinned(rows, most=60))
    assert [row["env_frames"] for row in thin] == list(range(100_000, FRAMES + 1, 100_000))
    assert [row["max_abs_value"] for row in thin] == [70.0] + [1.0] * 59
    assert [row["min_entropy_share"] for row in thin] == [0.9] * 59 + [0.2]
    assert list(atari.thinned([])) == []
