"""How much of a step is waiting for data, where the log prints it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diag_kit.calculate.metric_records import train_records
from diag_kit.evidence import Evidence

LOADER_SHARE = {
    "TensorBoard plugin": (0.05, 0.05),
    "TraceML, TrainLens": (0.10, 0.20),
    "gpuprof": (0.15, 0.30),
}
"""Published limits (warn, critical) for the loader's share of a step; they differ by 6x."""
PROFILE = "TraceML, TrainLens"
"""The profile in use."""
_SHARES = ("profile/fetch_frac", "fetch_frac", "data_frac")
_PAIRS = (
    ("profile/fetch_ms", "profile/step_ms"),
    ("fetch_ms", "step_ms"),
    ("data_time_s", "step_time_s"),
    ("data_time", "batch_time"),
    ("data_time", "time"),
    ("data_s", "batch_s"),
    ("data", "batch"),
)


@dataclass(frozen=True, slots=True)
class LoaderShare:
    """Median share of a step spent waiting for the loader, from which columns, over how many records, and the card's id."""

    share: float
    columns: str
    records: int
    id: str

    @property
    def critical(self) -> bool:
        return self.share >= LOADER_SHARE[PROFILE][1]

    @property
    def innocent(self) -> bool:
        return self.share < min(warn for warn, _ in LOADER_SHARE.values())

    @property
    def says(self) -> str:
        warn, critical = LOADER_SHARE[PROFILE]
        limits = f"limits of {PROFILE}: {warn:.0%} and {critical:.0%}"
        return f"{self.share:.0%} of a step is waiting for data ({self.columns}, {self.records} records; {limits})"


def loader_share(evidence: Evidence) -> LoaderShare | None:
    """From the log's own timings; None where it has none."""
    records = train_records(evidence)
    if records is None:
        return None
    names = {name.lower().removeprefix("train/"): name for name in records.table.columns}
    for share in _SHARES:
        if share in names and records.has(names[share]):
            values = records.table[names[share]].dropna().astype("float64").to_numpy()
            return _made(values, share, records.id)
    for part, whole in _PAIRS:
        if part in names and whole in names and records.has(names[part]) and records.has(names[whole]):
            rows = records.table[[names[part], names[whole]]].dropna().astype("float64")
            rows = rows[rows[names[whole]] > 0]
            return _made((rows[names[part]] / rows[names[whole]]).to_numpy(), f"{part} / {whole}", records.id)
    return None


def _made(values: np.ndarray, columns: str, id: str) -> LoaderShare | None:
    """Start-up left out; nothing from fewer than 5 records or from values that are no shares."""
    values = values[5:] if len(values) > 20 else values
    values = values[np.isfinite(values)]
    if len(values) < 5 or not 0 <= float(np.median(values)) <= 1.0:
        return None
    return LoaderShare(float(np.median(values)), columns, len(values), id)
