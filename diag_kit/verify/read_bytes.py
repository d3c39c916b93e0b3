"""The rung on bytes: what each rank reads, against what its own steps hold and against one epoch of the data.

A rank of a run split once reads 1 x what its steps hold, and in an epoch at most 1/N of the data. An unsplit rank reads 1 x
as well, but all of the data in an epoch. A rank that reads everything and keeps one sample in N (a correct run) reads N x.

Never decides alone. ``rchar`` (proc(5)) holds what any read() returned: it counts a page cache's answers, and also pipes,
checkpoints and libraries, so more bytes than expected need not be data. Memory-mapped data are in no counter until they come from
storage, and data that the script keeps in memory are read once: so fewer bytes prove nothing at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from diag_kit.calculate.inputs import calculated, known, number_of
from diag_kit.calculate.metric_records import train_records
from diag_kit.calculate.parallel import data_parallel
from diag_kit.calculate.split_arithmetic import split_arithmetic
from diag_kit.evidence import Evidence
from diag_kit.records import Value

NEAR = (0.6, 1.6)
"""Measured over expected, from which to which it fits: read-ahead, queues that fill, files that differ in size."""
MARGIN = 1.2
"""A rank that has read more than this times 1/N of the data has read more than a part."""
LIMITS = (
    "bytes alone decide nothing: rchar also counts checkpoints, pipes and libraries, and misses memory-mapped data and what the "
    "script keeps in memory"
)
OWN, ALL = "reads what it trains on", "reads all and keeps one in N"


@dataclass(frozen=True, slots=True)
class ReadBytes:
    """``low``..``high`` over the ranks: bytes read over what a rank's own steps hold. ``epoch_share``: the most that a rank has
    read since it started, over the whole data, while epoch 0 lasts; None where that is not known. ``stored``: share from storage.
    """

    low: float
    high: float
    ranks: int
    epoch_share: float | None
    stored: float
    id: str

    @property
    def fits(self) -> tuple[str, ...]:
        """The ways of reading that every rank's bytes fit."""
        ways = ((OWN, 1), (ALL, self.ranks))
        return tuple(way for way, times in ways if NEAR[0] * times <= self.low and self.high <= NEAR[1] * times)

    @property
    def more_than_a_part(self) -> bool:
        """Whether a rank read more within epoch 0 than its part of a split run holds."""
        return self.epoch_share is not None and self.epoch_share > MARGIN / self.ranks

    @property
    def told(self) -> str:
        span = f"{self.low:.2g}" if f"{self.low:.2g}" == f"{self.high:.2g}" else f"{self.low:.2g} to {self.high:.2g}"
        says = [f"a rank reads {span} times what its own steps hold, {self.stored:.0%} of it from storage"]
        if self.high < NEAR[0]:
            says.append("less than its samples hold: mapped or kept in memory, so this says nothing about the split")
        elif self.fits:
            says.append(f"fits a rank that {' or '.join(self.fits)}".replace("in N", f"in {self.ranks}"))
        else:
            says.append("fits no way of reading: something else is read too, or the samples' sizes differ")
        if self.more_than_a_part and self.epoch_share is not None:
            part = f"1/{self.ranks}"
            says.append(f"in epoch 0 it has read {self.epoch_share:.2g} of the data, more than the {part} of a split run")
        return f"{'; '.join(says)}; {LIMITS}"

    @property
    def numbers(self) -> Mapping[str, Value]:
        found: dict[str, Value] = {"bytes_read_over_own_samples_low": round(self.low, 3)}
        found |= {"bytes_read_over_own_samples_high": round(self.high, 3), "share_from_storage": round(self.stored, 3)}
        return found | ({} if self.epoch_share is None else {"share_of_data_read_in_epoch_0": round(self.epoch_share, 4)})


def read_bytes(evidence: Evidence) -> ReadBytes | None:
    """The newest window of ``rank_io`` against the data; None where sizes, steps or ranks are not known."""
    sourced = evidence.sourced_table("rank_io")
    ranks, size, per_sample = data_parallel(evidence).size, known(evidence, "dataset_bytes").value, bytes_per_sample(evidence)
    rate, sums = number_of(calculated(evidence, "step_rate")), split_arithmetic(evidence)
    if sourced is None or not ranks or ranks < 2 or not size or not per_sample or not rate or not sums.batch.size.value:
        return None
    table, card = sourced
    own_per_s = rate * sums.accumulation * sums.batch.size.value * per_sample
    asked: list[float] = []
    stored = total = 0.0
    for _, rows in table.dropna().groupby(["rank", "pid"]):
        seen = _grown(rows)
        if seen is not None:
            seconds, read, from_storage = seen
            asked.append(read / seconds / own_per_s)
            total, stored = total + read, stored + from_storage
    if len(asked) < 2:
        return None
    share = float(table["rchar"].max()) / size if _in_first_epoch(evidence) else None
    return ReadBytes(min(asked), max(asked), ranks, share, stored / total if total else 0.0, card)


def _grown(rows: pd.DataFrame) -> tuple[float, float, float] | None:
    """(seconds, bytes read, bytes from storage) of one rank; None where a loader process ended and took its counters along."""
    rows = rows.sort_values("t")
    seconds = (rows["t"].iloc[-1] - rows["t"].iloc[0]).total_seconds()
    if seconds <= 0 or (rows["rchar"].diff().dropna() < 0).any():
        return None
    read = float(rows["rchar"].iloc[-1] - rows["rchar"].iloc[0])
    return seconds, read, min(read, max(0.0, float(rows["read_bytes"].iloc[-1] - rows["read_bytes"].iloc[0])))


def bytes_per_sample(evidence: Evidence) -> float | None:
    """Bytes of the data over its samples: all of them, else training and validation together."""
    size, count = known(evidence, "dataset_bytes").value, known(evidence, "dataset_samples").value
    count = count or (known(evidence, "train_samples").value or 0.0) + (known(evidence, "val_samples").value or 0.0)
    return size / count if size and count else None


def _in_first_epoch(evidence: Evidence) -> bool:
    """Whether the newest start is still in the epoch that it began with: the counters begin with the process."""
    records = train_records(evidence)
    if records is None or not records.has("epoch"):
        return False
    epochs = records.table["epoch"].dropna().astype("float64")
    return len(epochs) > 0 and int(epochs.min()) == int(epochs.max())


def predictions(evidence: Evidence) -> dict[str, str]:
    """What each rival predicts for the bytes of a rank: of its own steps, and of the data in an epoch."""
    ranks, size = data_parallel(evidence).size, known(evidence, "dataset_bytes").value
    if not ranks or ranks < 2 or not size:
        return {}

    def within(part: float) -> str:
        return f"1 x what its steps hold is read, {size / part / 1e9:.3g} GB an epoch"

    return {
        "split once": within(ranks),
        "own order on each rank": within(1),
        "same order on each rank": within(1),
        "split twice": within(ranks * ranks),
        "all read, one in N kept": f"{ranks} x what its steps hold is read, {size / 1e9:.3g} GB an epoch",
    }
