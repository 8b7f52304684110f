"""Count the words of standard input."""

import collections
import sys


def count(text):
    """Return (word, number) pairs, the most frequent first, then by alphabet."""
    counts = collections.Counter(text.lower().split())
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def main():
    """Print each word with its number."""
    for word, number in count(sys.stdin.read()):
        print(f"{word}: {number}")
