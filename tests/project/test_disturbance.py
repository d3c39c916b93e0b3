"""Did the job slow down while the kit looked? Only said when chance does not explain it, never when it cannot be known."""

from __future__ import annotations

import pandas as pd
import pytest

from diag_kit.disturbance import rate_move
from diag_kit.evidence import Evidence
from diag_kit.records import Observation, Parsed

START = pd.Timestamp("2026-03-02T10:00:00Z")


def seen(before_per_s: float, during: int, seconds: int = 10, history_s: int = 120, ranks: int = 4) -> Evidence:
    times = [START + pd.Timedelta(seconds=n / before_per_s) for n in range(int(history_s * before_per_s))]
    times += [START + pd.Timedelta(seconds=history_s + n * seconds / max(during, 1)) for n in range(during)]
    rank = pd.array([n % ranks for n in range(len(times))], dtype="Int64")
    metrics = pd.DataFrame({"t": pd.Series(times).dt.floor("s"), "split": "train", "rank": rank})
    window = pd.DataFrame(
        {
            "t": [START + pd.Timedelta(seconds=history_s), START + pd.Timedelta(seconds=history_s + seconds)],
            "records_total": pd.array([0, during], dtype="Int64"),
        }
    )
    tables = {"log_window": window, "metrics": metrics}
    return Evidence((Observation("log_rate", {}, "", (), Parsed("", tables=tables)),))


@pytest.mark.parametrize(("during", "slowed"), [(120, False), (112, False), (60, True), (0, True), (200, False)])
def test_a_slowdown_is_told_from_chance(during: int, slowed: bool) -> None:
    move = rate_move(seen(12, during))
    assert move is not None
    assert move.before_per_s == pytest.approx(12, rel=0.05)
    assert move.during_per_s == during / 10
    assert move.slowed is slowed
    assert ("slower than chance" in move.sentence) is slowed


def test_what_cannot_be_known_is_not_said() -> None:
    assert rate_move(Evidence(())) is None
    assert rate_move(seen(12, 120, history_s=20)) is None
    assert rate_move(seen(0.05, 1, history_s=120)) is None
    assert rate_move(seen(12, 5, seconds=0)) is None
