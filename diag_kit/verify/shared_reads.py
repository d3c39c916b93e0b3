"""What opened files say about data splitting: overlap between ranks against what each way of splitting predicts.

With N files, K ranks and n_r distinct files seen on rank r, a pair of ranks shares about n_r n_s / N files when each rank
shuffles the whole dataset by itself, none within an epoch when the data are split, and nearly all, at the same time, when all
ranks shuffle alike. Missed opens only lower the counts: they cost power and never make a split run look unsplit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

CHANCE = 1e-4
"""How improbable an outcome must be under a reading before that reading is refuted."""
SPARE_BOUNDARIES = 1
"""Epoch ends beyond the possible number that shared reads must need before a split is refuted."""


@dataclass(frozen=True, slots=True)
class Lag:
    """One file read twice: by which ranks (None: not known), first and later time in seconds of the window."""

    first_s: float
    later_s: float

    @property
    def length_s(self) -> float:
        return self.later_s - self.first_s


@dataclass(frozen=True, slots=True)
class Overlap:
    """The statistics of one window.

    ``shared``: reads of one file by two ranks (or, without ranks, twice); ``together`` of them within ``together_s``.
    ``expected_independent`` / ``expected_together``: their means if each rank shuffles the whole by itself.
    ``together_quarters``: in how many quarters of the window such simultaneous reads begin: a validation that every rank runs
    on the same files fills one or two. ``boundaries_needed``: the fewest epoch ends that could explain the shared reads of a
    split run. ``distinct``: files seen.
    """

    window_s: float
    ranks: int
    reads: int
    distinct: int
    shared: int
    together: int
    together_s: float
    expected_independent: float
    expected_together: float
    boundaries_needed: int
    together_quarters: int
    attributed: bool

    @property
    def refutes_independent(self) -> bool:
        """So few shared reads that independent orders would show them with a chance below 1 in 10,000."""
        return poisson_at_most(self.shared - self.together, self.expected_independent - self.expected_together) < CHANCE

    @property
    def shows_same_order(self) -> bool:
        """So many simultaneous reads of one file by two ranks that independent orders or a split cannot explain them."""
        often = self.together >= 4 and 2 * self.together >= self.shared and self.together_quarters >= 3
        return self.attributed and often and poisson_at_least(self.together, self.expected_together) < CHANCE

    def refutes_split(self, boundaries_possible: int) -> bool:
        """Shared reads so spread over the window that more epochs would have to end in it than can."""
        return self.boundaries_needed >= boundaries_possible + SPARE_BOUNDARIES


def attributed_overlap(
    opens: pd.DataFrame, files: int, ranks: int, window_s: float, together_s: float, slack_s: float
) -> Overlap:
    """From opens with a rank: columns ``rank``, ``t_s`` (seconds of the window), ``path``."""
    distinct = {rank: rows["path"].nunique() for rank, rows in opens.groupby("rank")}
    expected = sum(distinct[a] * distinct[b] / files for a, b in combinations(distinct, 2))
    lags = _lags_between_ranks(opens)
    return _overlap(lags, window_s, ranks, len(opens), opens["path"].nunique(), expected, together_s, slack_s, attributed=True)


def unattributed_overlap(
    opens: pd.DataFrame, files: int, ranks: int, window_s: float, together_s: float, slack_s: float
) -> Overlap:
    """From opens without a rank. Opens of one file within ``together_s`` count as one read: one reader may open a file
    twice, and ranks that shuffle alike open it at once; what is left are reads again later."""
    lags, reads = _lags_of_later_reads(opens, together_s)
    expected = reads**2 * (1 - 1 / ranks) / (2 * files)
    return _overlap(lags, window_s, ranks, reads, opens["path"].nunique(), expected, together_s, slack_s, attributed=False)


def _overlap(
    lags: Sequence[Lag],
    window_s: float,
    ranks: int,
    reads: int,
    distinct: int,
    expected: float,
    together_s: float,
    slack_s: float,
    *,
    attributed: bool,
) -> Overlap:
    apart = [lag for lag in lags if lag.length_s > together_s]
    share = min(1.0, 2 * together_s / window_s) if window_s > 0 else 1.0
    quarters = {min(int(4 * lag.first_s / window_s), 3) for lag in lags if lag.length_s <= together_s} if window_s > 0 else set()
    return Overlap(
        window_s=window_s,
        ranks=ranks,
        reads=reads,
        distinct=distinct,
        shared=len(lags),
        together=len(lags) - len(apart),
        together_s=together_s,
        expected_independent=expected,
        expected_together=expected * share,
        boundaries_needed=boundaries_needed(apart, slack_s),
        together_quarters=len(quarters),
        attributed=attributed,
    )


def _lags_between_ranks(opens: pd.DataFrame) -> list[Lag]:
    """For each file and pair of ranks that read it, the shortest time between the two reads."""
    lags: list[Lag] = []
    often = opens[opens.duplicated("path", keep=False)]
    for _, rows in often.groupby("path", sort=False):
        times = {rank: sorted(each["t_s"].tolist()) for rank, each in rows.groupby("rank")}
        for a, b in combinations(times, 2):
            near, far = min(((min(x, y), max(x, y)) for x in times[a] for y in times[b]), key=lambda p: p[1] - p[0])
            lags.append(Lag(near, far))
    return lags


def _lags_of_later_reads(opens: pd.DataFrame, together_s: float) -> tuple[list[Lag], int]:
    lags: list[Lag] = []
    reads = 0
    for _, rows in opens.groupby("path", sort=False):
        last: float | None = None
        for t in sorted(rows["t_s"].tolist()):
            if last is None or t - last > together_s:
                reads += 1
                if last is not None:
                    lags.append(Lag(last, t))
            last = t
    return lags, reads


def boundaries_needed(lags: Sequence[Lag], slack_s: float) -> int:
    """The fewest moments such that every lag spans one: a split run re-reads a file only across the end of an epoch.

    Each lag is widened by ``slack_s`` on both sides, since loaders run ahead and ranks do not turn at the same instant.
    """
    needed = 0
    moment = -math.inf
    for first, later in sorted(((lag.first_s - slack_s, lag.later_s + slack_s) for lag in lags), key=lambda each: each[1]):
        if first > moment:
            needed += 1
            moment = later
    return needed


def poisson_at_most(count: int, mean: float) -> float:
    """P(X <= count) for a Poisson mean; 1 for an empty expectation."""
    if mean <= 0:
        return 1.0
    if count < 0:
        return 0.0
    return min(1.0, sum(math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(count + 1)))


def poisson_at_least(count: int, mean: float) -> float:
    """P(X >= count) for a Poisson mean, summed from the tail so that small chances are not lost."""
    if count <= 0:
        return 1.0
    if mean <= 0:
        return 0.0
    first = math.exp(count * math.log(mean) - mean - math.lgamma(count + 1))
    total, term, k = first, first, count
    while term > total * 1e-12 and k < count + 10_000:
        k += 1
        term *= mean / k
        total += term
    return min(1.0, total)


def reads_needed_per_rank(files: int, ranks: int) -> float:
    """Reads per rank after which independent orders are refuted or seen: expected shared reads of 12 over all pairs."""
    pairs = ranks * (ranks - 1) / 2
    return math.sqrt(12 * files / pairs) if pairs else math.inf
