"""Run with `python3 -m pytest`."""

import os

from wordcount import count


def test_nothing():
    assert count("") == []


def test_the_most_frequent_comes_first():
    assert count("a b b") == [("b", 2), ("a", 1)]


def test_case_does_not_count():
    assert count("To to TO") == [("to", 3)]


def test_no_word_of_a_long_text_is_lost():
    words, echoes = int(os.environ.get("WORDS", 10)), int(os.environ.get("ECHOES", 5))
    ((_, number),) = count("hello\n" * words + "Hello " * echoes)
    print(f"an echo: {number} words")
    assert number == words + echoes
