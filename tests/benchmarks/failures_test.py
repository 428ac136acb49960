from benchmarks.failures import last_words


def test_the_last_line_with_words_is_the_sentence():
    assert last_words("Traceback\n  File x\nValueError: no room\n\n") == "ValueError: no room"
    assert last_words("x" * 600) == "x" * 500
    assert last_words("\n") == "it printed nothing"
