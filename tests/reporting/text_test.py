"""Tables of text."""

from seed_rl.reporting.text import columns, duration, short


def test_numbers_are_right_aligned_under_their_heads_and_texts_are_taken_as_they_are():
    text = columns(
        ["game", "score\n5 M", "time", "why"],
        [["pong", "-1,234.5", "1h05m", "-"], ["[b]:smile:", "7.3%", "3m20s", "too slow"]],
    )
    assert text.splitlines() == [
        "               score",
        "game             5 M   time  why",
        "----------  --------  -----  --------",
        "pong        -1,234.5  1h05m  -",
        "[b]:smile:      7.3%  3m20s  too slow",
    ]


def test_numbers_are_short():
    assert " ".join(map(short, (0, 999, 999.6, 7512.3, 999_499, 999_600))) == "0 999 1k 7.51k 999k 1M"
    durations = (-1, 9.4, 59.6, 200, 3900, 86_399, 273_600)
    assert " ".join(map(duration, durations)) == "0s 9s 1m00s 3m20s 1h05m 23h59m 3d04h"
