import pytest

from benchmarks.text import columns, number


def test_numbers_stand_on_the_right_and_words_on_the_left():
    table = columns(["what", "steps\n/s", "share"], [["a", "1,234", "0.5"], ["longer", "-5", "-"]])
    assert table.split("\n") == [
        "        steps",
        "what       /s  share",
        "------  -----  -----",
        "a       1,234    0.5",
        "longer     -5      -",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.01234, "0.0123"),
        (0.9999, "1.00"),
        (1.234, "1.23"),
        (99.99, "100"),
        (123.4, "123"),
        (1234.5, "1,234"),
    ],
)
def test_numbers_have_three_digits_or_all_before_the_point(value, text):
    assert number(value) == text
