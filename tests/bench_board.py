#!/usr/bin/env python3
"""Measure what chance does to the leaderboard, on made-up boards; needs no engine and no network:

    python3 tests/bench_board.py [coverage] [false_alarms] [seen] [--boards N] [--seed S]

How often the 95 % interval holds the true mean; how often boards of equal models say of one that it is
clearly behind; how often a model that is better is seen. Tables are Markdown, for reports/README.md.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from pathlib import Path
from typing import Callable, List, Sequence

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "reports"))

import chance

Scores = List[List[float]]  # by model and repository
Model = Callable[[random.Random, float], float]  # returns a score; the number: how hard the repository is
MEAN = 0.55  # of every model below


def usual(draw: random.Random, hard: float) -> float:
    """Return a score of a model like all others: a fifth of the builds fail, three tenths pass in full."""
    place = math.erfc(-(0.6 * hard + 0.8 * draw.gauss(0, 1)) / math.sqrt(2)) / 2
    return min(max((place - 0.2) / 0.5, 0.0), 1.0)


def wild(draw: random.Random, _hard: float) -> float:
    """Return a score of a model of the same mean that passes all or nothing."""
    return float(draw.random() < MEAN)


def calm(draw: random.Random, _hard: float) -> float:
    """Return a score of a model of the same mean that hardly varies."""
    return MEAN + draw.uniform(-0.1, 0.1)


def average(row: list[float]) -> float:
    return math.fsum(row) / len(row)


def board(draw: random.Random, models: Sequence[Model], repos: int) -> Scores:
    hard = [draw.gauss(0, 1) for _ in range(repos)]
    return [[score(draw, at) for at in hard] for score in models]


def clear(rows: Scores) -> bool:
    """Whether the board says of any model that it is clearly behind the first."""
    means = [average(row) for row in rows]
    return max(means) - min(means) > chance.critical_difference(rows) + chance.NOTHING


def clear_by_pairs(rows: Scores) -> bool:
    """Whether one would say so who gave each model its own paired interval against the first."""
    first = max(rows, key=average)
    gaps = ([ours - theirs for ours, theirs in zip(first, row)] for row in rows)
    return any(found[0] > 0 for found in (chance.interval(gap, -1) for gap in gaps) if found)


def share(count: int, boards: int) -> str:
    return f"{count / boards:.1%}"


def coverage(draw: random.Random, boards: int) -> None:
    print("| repositories | usual scores: interval holds the mean | all or nothing |\n|---|---|---|")
    for repos in (5, 6, 10, 20, 50):
        cells = []
        for kind in (usual, wild):
            found = (chance.interval(board(draw, [kind], repos)[0]) for _ in range(boards * 10))
            known = [ends for ends in found if ends]
            cells.append(share(sum(low <= MEAN <= high for low, high in known), len(known)))
        print(f"| {repos} | {' | '.join(cells)} |", flush=True)


def false_alarms(draw: random.Random, boards: int) -> None:
    print(
        "| boards of equal models | clearly behind somewhere | by an interval for each pair |\n|---|---|---|"
    )
    kinds: list[tuple[str, Sequence[Model], int]] = [
        (f"{models} models, {repos} repositories", [usual] * models, repos) for models, repos in SIZES
    ]
    kinds += [(name, models, 20) for name, models in MIXED.items()]
    for name, models, repos in kinds:
        rows = [board(draw, models, repos) for _ in range(boards)]
        counts = (sum(map(clear, rows)), sum(map(clear_by_pairs, rows)))
        print(f"| {name} | {' | '.join(share(count, boards) for count in counts)} |", flush=True)


def seen(draw: random.Random, boards: int) -> None:
    print("| one model better than four others, 20 repositories | all four clearly behind |\n|---|---|")
    for better in (0.2, 0.3, 0.4):
        count = 0
        for _ in range(boards):
            rows = [[(1 - better) * score for score in row] for row in board(draw, [usual] * 5, 20)]
            rows[0] = [better + score for score in rows[0]]
            least = chance.critical_difference(rows) + chance.NOTHING
            count += all(average(rows[0]) - average(row) > least for row in rows[1:])
        print(f"| by {better * 100:.0f} points | {share(count, boards)} |", flush=True)


SIZES = [(2, 6), (5, 6), (5, 20), (12, 30), (20, 20)]
MIXED: dict[str, Sequence[Model]] = {
    "10 of 20 models all or nothing, 20 repositories": [usual] * 10 + [wild] * 10,
    "1 of 20 models all or nothing, 19 that hardly vary": [wild] + [calm] * 19,
    "10 of 20 models all or nothing, 10 that hardly vary": [wild] * 10 + [calm] * 10,
    "1 of 20 models that hardly varies, 19 all or nothing": [calm] + [wild] * 19,
}


MEASURES = {"coverage": coverage, "false_alarms": false_alarms, "seen": seen}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "measures", nargs="*", metavar="MEASURE", help=f"of {', '.join(MEASURES)}; default all"
    )
    parser.add_argument(
        "--boards", type=int, default=1000, help="boards of each kind; ten times as many intervals"
    )
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    for name in arguments.measures or MEASURES:
        MEASURES[name](random.Random(arguments.seed), arguments.boards)
        print(flush=True)


if __name__ == "__main__":
    main()
