# ruff: noqa: INP001 - reports/ is a folder of data, not a package
"""What chance does to scores: means, intervals, differences and ranks, as plain functions of numbers.

leaderboard.py beside this file takes its numbers from here. Nothing here knows of models, reports or files.
"""

from __future__ import annotations

import functools
import math
import random
import statistics
from typing import Callable, Iterable, Mapping, Sequence, Tuple

DRAWS, SEED = 2000, 95  # of the critical difference, so that the same scores always give the same number
FEWEST, FEWEST_RANKED = 5, 6  # values for an interval; repositories for a critical difference
NOTHING = 1e-9  # a difference that is none, but for the last bits
MOST_COUNTED = 50_000_000  # for an exact rank-sum test, which takes as many steps
Interval = Tuple[float, float]


def mean(values: Iterable[float | None], of: Callable[[list[float]], float] | None = None) -> float | None:
    """Return the arithmetic mean (or another middle) of what is not None, None where nothing is left."""
    found = [value for value in values if value is not None]
    return (of(found) if of else math.fsum(found) / len(found)) if found else None


@functools.lru_cache(maxsize=None)
def t_quantile(df: int) -> float:
    """Return the t with 95 % of Student's distribution between -t and t, for whole degrees of freedom.

    Bisection of the angle atan(t / sqrt(df)), in which that share is a finite series (Abramowitz and
    Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4).
    """
    low, high, odd = 0.0, math.pi / 2, df % 2
    for _ in range(60):
        angle = (low + high) / 2
        term, total = math.sin(angle) * math.cos(angle) ** odd, 0.0
        for at in range(2 + odd, df + 1, 2):
            total += term
            term *= math.cos(angle) ** 2 * (at - 1) / at
        share = (angle + total) * 2 / math.pi if odd else total
        low, high = (angle, high) if share < 0.95 else (low, angle)  # noqa: PLR2004, of the 95 %
    return math.tan(high) * math.sqrt(df)


def interval(values: Iterable[float], least: float = 0) -> Interval | None:
    """Return Student's 95 % interval of a mean, cut at `least` and 1.

    None under five values, and where all are equal: ten times 100 % does not prove 100 %.
    """
    found = list(values)
    if len(found) < FEWEST or max(found) - min(found) < NOTHING:
        return None
    middle = math.fsum(found) / len(found)
    half = t_quantile(len(found) - 1) * statistics.stdev(found) / math.sqrt(len(found))
    return max(middle - half, least), min(middle + half, 1)


def critical_difference(rows: Sequence[Sequence[float]]) -> float:
    """Return how far apart the best and the worst of equal models are by chance, on 19 of 20 boards at most.

    Each row holds a model's scores, in the same order of repositories. Within each repository the models'
    residuals are exchanged at random, which makes boards of models that are alike; of the ranges of their
    means it is the 95th percentile (the critical difference of Demsar 2006, JMLR 7, for means of scores).
    """
    models, repos = len(rows), len(rows[0])
    # The means of models and of repositories have taken their part of the residuals.
    fit = math.sqrt(models * repos / ((models - 1) * (repos - 1)))
    residuals = [[(score - math.fsum(row) / repos) * fit for score in row] for row in rows]
    columns = sorted(sorted(column) for column in zip(*residuals))  # so that the order of names is no matter
    draw = random.Random(SEED).random  # noqa: S311, no secret
    ranges = []
    for _ in range(DRAWS):
        sums = [*map(sum, zip(*(sorted(column, key=lambda _residual: draw()) for column in columns)))]
        ranges.append((max(sums) - min(sums)) / repos)
    return sorted(ranges)[DRAWS * 95 // 100]


def sign(difference: float) -> int:
    """Return 1, -1 or 0; a difference in the last bits is none, so that ties and rounding decide nothing."""
    return (difference > NOTHING) - (difference < -NOTHING)


def differences(first: Mapping[str, float], second: Mapping[str, float]) -> list[float]:
    """Return the differences first - second of scores in the repositories that both have."""
    return [score - second[repo] for repo, score in first.items() if repo in second]


def pass_all(samples: int, solved: int, k: int) -> float:
    """Return the chance that all of k samples are solved (pass^k): C(solved, k) / C(samples, k)."""
    if not 1 <= k <= samples:
        raise ValueError(f"k is {k}; expected 1 to {samples}, the number of samples")
    chance = 1.0
    for at in range(k):
        chance *= max(solved - at, 0) / (samples - at)
    return chance


def pass_at_k(samples: int, solved: int, k: int) -> float:
    """Return the chance that one of k samples is solved: 1 - C(samples - solved, k) / C(samples, k)."""
    return 1 - pass_all(samples, samples - solved, k)


def as_low(passes: Sequence[bool], values: Sequence[float]) -> float:
    """Return how probable it is that those who pass rank as low by their values, were it chance who passes.

    This is the exact rank-sum test on one side, ties sharing a middle rank. All choices of so many ranks are
    counted by their sum: `counts` holds, by how many are chosen, a polynomial as one whole number, `width`
    bits for each coefficient, so that none runs into the next. Where that would take over some milliseconds
    (more than forty values), the normal distribution stands for it.
    """
    if sum(passes) * 2 > len(passes):  # as well ask whether those who fail rank as high, if they are fewer
        passes, values = [not passed for passed in passes], [-value for value in values]
    values, few = [round(value, 9) for value in values], sum(passes)
    ranks = [sum((value > other) + (value >= other) for other in values) for value in values]
    ours, width = sum(rank for rank, passed in zip(ranks, passes) if passed), len(ranks) + 1
    if width**3 * few**2 > MOST_COUNTED:
        squares = sum((rank - len(ranks)) ** 2 for rank in ranks)  # their mean is their number
        spread = math.sqrt(few * (len(ranks) - few) * squares / len(ranks) / (len(ranks) - 1))
        return math.erfc((few * len(ranks) - ours - 1) / spread / math.sqrt(2)) / 2
    counts = [1] + [0] * few
    for rank in ranks:
        for chosen in range(few, 0, -1):
            counts[chosen] += counts[chosen - 1] << rank * width
    low = counts[-1] & ((1 << (ours + 1) * width) - 1)
    return low % ((1 << width) - 1) / (counts[-1] % ((1 << width) - 1))  # the sums of their coefficients
