"""Whether the job slowed down while the kit looked at it: its rate in the sampling window against the minutes before.

Pure: from the tables ``metrics`` and ``log_window`` to a sentence. Records are counted, so a rate over a window is known to about
one record per printing rank; the blocks before the window say how much the rate varies by itself.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

import pandas as pd

from diag_kit.evidence import Evidence

MIN_BLOCKS = 4
MAX_BLOCKS = 30
LEAST_CHANGE = 0.10
"""Smaller changes are not called one: the kit's own cost on a host is far below."""


@dataclass(frozen=True, slots=True)
class RateMove:
    """Records a second before and during the window, and how far they may differ by chance."""

    before_per_s: float
    during_per_s: float
    margin_per_s: float
    window_s: float

    @property
    def slowed(self) -> bool:
        return self.during_per_s < self.before_per_s - self.margin_per_s

    @property
    def sentence(self) -> str:
        """For the ledger."""
        change = 100 * (self.during_per_s / self.before_per_s - 1)
        verdict = "slower than chance explains" if self.slowed else "no slowdown beyond chance"
        return (
            f"The job while the kit looked: {self.during_per_s:.2f} records/s in {self.window_s:.1f} s, before that "
            f"{self.before_per_s:.2f} ({change:+.0f} %, by chance up to {100 * self.margin_per_s / self.before_per_s:.0f} %): "
            f"{verdict}"
        )


def rate_move(evidence: Evidence) -> RateMove | None:
    """None when it cannot be known: no window, too little log before it, or a log without times."""
    window, metrics = evidence.table("log_window"), evidence.table("metrics")
    if window is None or metrics is None or len(window) < 2:
        return None
    seconds = float((window["t"].iloc[-1] - window["t"].iloc[0]).total_seconds())
    records = window["records_total"].iloc[-1]
    train = metrics[metrics["split"] == "train"]
    train = train[train["t"].notna()]
    if pd.isna(records) or seconds < 1 or len(train) <= int(records):
        return None
    before = train.iloc[: len(train) - int(records)]  # what came after the window is few: the log is read right at its end
    at = (before["t"] - before["t"].iloc[-1]).dt.total_seconds().to_numpy()
    block = max(seconds, 2.0)
    counts = [int(((at > -(n + 1) * block) & (at <= -n * block)).sum()) for n in range(MAX_BLOCKS)]
    whole = min(MAX_BLOCKS, int(-at.min() // block))
    rates = [count / block for count in counts[1:whole]]  # the first holds the half second in which it was cut
    if len(rates) < MIN_BLOCKS or not statistics.fmean(rates) > 0:
        return None
    usual = statistics.median(rates)
    ranks = max(1, int(train["rank"].nunique()))
    margin = max(3 * statistics.stdev(rates), LEAST_CHANGE * usual, 2 * ranks / seconds)
    return RateMove(usual, int(records) / seconds, margin, seconds) if usual > 0 else None
