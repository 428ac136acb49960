"""What others may have written."""

import json

import pytest

from seed_rl.foreign import json_object, number, printable, read_json_object, short_repr


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, ünïcode and ▁▂▃", "plain, ünïcode and ▁▂▃"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("abc\u202edef\u2028\ud800", r"abc\u202edef\u2028\ud800"),
        ("a\tb\nc\n\nd", "a\tb\n  c\n  \n  d"),
    ],
)
def test_control_characters_are_escaped_and_lines_indented(text, shown):
    assert printable(text) == shown
    shown.encode()


@pytest.mark.parametrize("text", ["", "null", "[]", "{", "[" * 10**5, '{"a":' * 10**5, b"\xff\xff\xff"])
def test_other_texts_than_objects_are_refused_on_one_line(text):
    with pytest.raises(ValueError, match=".") as error:
        json_object(text)
    assert str(error.value).isprintable()


def test_a_file_is_read_up_to_a_limit(tmp_path):
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"a": "b" * 1000}))
    assert read_json_object(str(path)) == {"a": "b" * 1000}
    with open(path, "wb") as sparse:
        sparse.truncate(1 << 40)
    with pytest.raises(ValueError, match="expected at most 1,048,576 bytes, got more"):
        read_json_object(str(path))


@pytest.mark.parametrize("value", [None, True, "1", 1 << 63, -(1 << 63)])
def test_other_things_than_numbers_are_refused(value):
    assert number({"n": 2**62}, "n") == 2**62
    assert number({"n": -0.5}, "n") == -0.5
    with pytest.raises(ValueError, match="expected a number as 'n', got "):
        number({"n": value}, "n")


def test_values_in_messages_are_short():
    assert short_repr("a\x1b") == r"'a\x1b'"
    assert len(short_repr("a" * 10**6)) < 210
