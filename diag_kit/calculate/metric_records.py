"""The training's metric records in one orderly view: train rows of the last run in the log, with what identifies a step."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from diag_kit.evidence import Evidence

if TYPE_CHECKING:
    import pandas as pd

RESTART_RUN = 16
"""Records below the highest step, in a row, that make a restart: ranks and loader jitter never lag that far for so long."""
JITTER = 3
EPOCH_KEY = 1e9


@dataclass(frozen=True, slots=True)
class Records:
    """Train rows (``table``) of the newest run, in log order, and the card's id. ``restarts``: earlier runs left out."""

    table: pd.DataFrame
    id: str
    restarts: int
    step_restarts_per_epoch: bool

    def __len__(self) -> int:
        return len(self.table)

    def has(self, column: str) -> bool:
        return column in self.table and bool(self.table[column].notna().any())

    def step_keys(self) -> list[tuple[int, int]] | None:
        """(epoch, step) of each record that has a step; the epoch is 0 where steps run on over epochs. None without steps."""
        if not self.has("step"):
            return None
        rows = self.table[self.table["step"].notna()]
        steps = rows["step"].astype("int64").tolist()
        if not self.step_restarts_per_epoch:
            return [(0, step) for step in steps]
        epochs = np.floor(rows["epoch"].astype("float64").fillna(0).to_numpy()).astype("int64").tolist()
        return list(zip(epochs, steps, strict=True))


def train_records(evidence: Evidence) -> Records | None:
    """The newest metrics table as ``Records``; None when no train record was seen."""
    sourced = evidence.sourced_table("metrics")
    if sourced is None:
        return None
    table, card = sourced
    if "split" in table:
        table = table[table["split"].fillna("train") != "val"]
    table = _one_run_of_files(table)
    if not len(table):
        return None
    table = table.reset_index(drop=True)
    per_epoch = _restarts_each_epoch(table)
    cut, restarts = _last_start(table, per_epoch)
    return Records(table.iloc[cut:].reset_index(drop=True), card, restarts, per_epoch)


def file_pattern(name: str) -> str:
    """A file name with its numbers blanked, and without a rotation's ``.1``: ``rank_0.log`` and ``rank_3.log`` are one family."""
    return re.sub(r"\d+", "#", re.sub(r"\.\d{1,3}\Z", "", name))


def _one_run_of_files(table: pd.DataFrame) -> pd.DataFrame:
    """One family of files (one per rank, or a single log): the one with most records. Another log is another run."""
    if "file" not in table or table["file"].nunique() < 2:
        return table
    families = table["file"].fillna("").astype(str).map(file_pattern)
    return table[families == families.value_counts().idxmax()]


def _epochs_and_steps(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray] | None:
    if "step" not in table or not table["step"].notna().any():
        return None
    steps = table["step"].astype("float64").to_numpy()
    epochs = table["epoch"].astype("float64").to_numpy() if "epoch" in table else np.full(len(steps), np.nan)
    return np.floor(np.nan_to_num(epochs)), steps


def _restarts_each_epoch(table: pd.DataFrame) -> bool:
    """Whether the step counter begins anew in every epoch: it is lower in a later epoch than it was in an earlier one."""
    found = _epochs_and_steps(table)
    if found is None:
        return False
    epochs, steps = found
    numbers = np.unique(epochs)
    if len(numbers) < 2:
        return False
    tops = [np.nanmax(steps[epochs == number], initial=-1) for number in numbers]
    floors = [np.nanmin(steps[epochs == number], initial=np.inf) for number in numbers]
    drops = [low + JITTER < top for top, low in zip(tops[:-1], floors[1:], strict=True)]
    return bool(np.mean(drops) > 0.5)


def _last_start(table: pd.DataFrame, per_epoch: bool) -> tuple[int, int]:
    """Where the newest run begins in a log that holds several, and how many came before."""
    if "file" in table and table["file"].nunique() > 1:
        return 0, 0
    found = _epochs_and_steps(table)
    if found is None:
        return 0, 0
    epochs, steps = found
    keys = np.nan_to_num((epochs * EPOCH_KEY if per_epoch else 0.0) + steps, nan=-1.0)
    distinct = np.unique(keys)
    spacing = float(np.median(np.diff(distinct))) if len(distinct) > 1 else 1.0
    start, restarts = 0, 0
    while True:
        below = keys[start:] < np.maximum.accumulate(keys[start:]) - JITTER * max(spacing, 1.0)
        jump = _first_long_run(below)
        if jump is None:
            return start, restarts
        start, restarts = start + jump, restarts + 1


def _first_long_run(flags: np.ndarray) -> int | None:
    """Where ``flags`` are first True for RESTART_RUN records, or from there (4 at least) to the end."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]])))
    for begin, end in zip(edges[::2], edges[1::2], strict=True):
        if end - begin >= RESTART_RUN or (end == len(flags) and end - begin >= 4):
            return int(begin)
    return None
