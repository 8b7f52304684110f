"""Run with `python3 -m pytest`."""

from wordcount import count


def test_nothing():
    assert count("") == []


def test_the_most_frequent_comes_first():
    assert count("a b b") == [("b", 2), ("a", 1)]


def test_case_does_not_count():
    assert count("To to TO") == [("to", 3)]
