"""Tables of text."""

from seed_rl.reporting.text import columns


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


def test_texts_are_folded_where_a_table_is_too_wide():
    lines = columns(["name", "n"], [["x" * 30, "1"]], width=20).splitlines()
    assert lines == ["name               n", f"{'-' * 17}  -", f"{'x' * 17}  1", "x" * 13]
