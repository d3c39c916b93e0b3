"""Synthetic evidence: a run described by its parameters becomes the observations that probes would have made of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd

from diag_kit.evidence import Evidence
from diag_kit.records import Calculation, CommandResult, Entry, Fact, Observation, Parsed

START = datetime(2026, 2, 14, 22, 27, tzinfo=UTC)


def observation(id: str, probe: str, *facts: Fact, at: datetime = START, **tables: pd.DataFrame) -> Observation:
    result = CommandResult("trainbox", probe, b"", b"", 0, at, 0.0)
    return Observation(probe, {}, "", (result,), Parsed(probe, facts, tables), id=id)


def lr_texts(steps: int, base: float = 3e-5, warm_up: int = 1772, form: str = "repr", first: int = 0) -> list[str]:
    """A linear warm-up from 0, then constant, printed in full or as the flattened form prints it."""
    values = [base * min(1.0, step / warm_up) for step in range(first, first + steps)]
    if form == "repr":
        return [repr(value) for value in values]
    return [f"{v:.3f}" if 0.001 <= abs(v) <= 999 else f"{v:.2e}" for v in values]


@dataclass(frozen=True)
class Run:
    """The founding case by default. ``printers``: ranks that print; ``length``: batches per epoch as printed."""

    ranks: int = 4
    printers: int = 4
    samples: int = 35446
    batch: int = 1
    batch_printed: bool = False
    batch_source: str = "--batch-size"
    length: int | None = 35446
    epochs: int | None = 5
    total: int | None = 177230
    step_s: float = 30 / 42
    done: int = 187
    window_s: int = 30
    steps_in_log: bool = False
    rank_tags: bool = False
    times_in_log: bool = False
    lr_form: str = "repr"
    warm_up: int | None = 1772
    accumulation: int | None = None
    log_every: int = 1
    start_up_s: float = 136.4
    same_loss: bool = False
    records: int | None = None
    epoch_column: bool = True
    per_rank_length: int | None = None
    facts: tuple[Fact, ...] = field(default_factory=tuple)
    command_line: str = "train.py --epochs 5"
    burst: int = 0
    extra: tuple[Observation, ...] = ()

    def metrics(self) -> pd.DataFrame:
        """One row per record: every ``log_every``-th step, one line per printing rank, ranks shuffled within a step."""
        rng = np.random.default_rng(7)
        logged = list(range(0, self.done, self.log_every))
        base = lr_texts(self.done, warm_up=self.warm_up or 1, form=self.lr_form) if self.warm_up else ["3e-05"] * self.done
        length = self.per_rank_length or self.length or 10**9
        rows = []
        for step in logged:
            at = START + timedelta(seconds=self.start_up_s + (step + 1) * self.step_s)
            shared = float(rng.normal(8, 1))
            for rank in rng.permutation(self.printers):
                rows.append(
                    {
                        "rank": int(rank) if self.rank_tags else pd.NA,
                        "t": at + timedelta(milliseconds=float(rng.uniform(0, 20))) if self.times_in_log else pd.NaT,
                        "epoch": float(step // length) if self.epoch_column else np.nan,
                        "step": step if self.steps_in_log else pd.NA,
                        "split": "train",
                        "line": len(rows) + 10,
                        "file": "train.log",
                        "lr": float(base[step]),
                        "lr_text": base[step],
                        "loss": shared if self.same_loss else float(rng.normal(8, 1)),
                    }
                )
        if self.records is not None:
            rows = rows[: self.records]
        table = pd.DataFrame(rows)
        for name in ("rank", "step", "line"):
            table[name] = table[name].astype("Int64")
        table["t"] = pd.to_datetime(table["t"], utc=True).astype("datetime64[us, UTC]")
        return table

    def log_window(self) -> pd.DataFrame:
        per_step = self.printers
        seconds = np.arange(0, self.window_s + 1)
        steps = np.floor(seconds / (self.step_s * self.log_every) + 0.25)
        steps -= steps[0]
        totals = steps * per_step
        wanted = round(self.window_s / self.step_s / self.log_every) * per_step
        totals[-1] = wanted
        if self.burst:
            totals = np.floor(totals / self.burst) * self.burst
        at = pd.to_datetime([START + timedelta(seconds=270 + int(s)) for s in seconds], utc=True).astype("datetime64[us, UTC]")
        total = pd.array(totals.astype("int64"), dtype="Int64")
        return pd.DataFrame({"t": at, "lines_total": total, "records_total": total, "bytes_total": total * 250})

    def log_facts(self) -> tuple[Fact, ...]:
        stated = {
            "train_samples": self.samples,
            "val_samples": 1866 if self.samples == 35446 else None,
            "batches_per_epoch": self.length,
            "total_steps": self.total,
            "epochs": self.epochs,
            "accumulation_steps": self.accumulation,
        }
        if self.batch_printed:
            stated["batch_size_per_rank"] = self.batch
        found = [Fact(name, value, "train.log") for name, value in stated.items() if value is not None]
        return tuple(replace(f, source=self.batch_source) if f.name == "batch_size_per_rank" else f for f in found)

    def entries(self) -> tuple[Entry, ...]:
        read = START + timedelta(seconds=self.start_up_s + self.done * self.step_s)
        job = (
            Fact("world_size", self.ranks, "environment of the ranks"),
            Fact("job_started", START.isoformat(), "/proc"),
            Fact("command_line", self.command_line, "/proc"),
            *self.facts,
        )
        return (
            observation("O1", "training_jobs", *job),
            observation("O2", "log_facts", *self.log_facts()),
            observation("O3", "log_metrics", at=read, metrics=self.metrics()),
            observation("O4", "log_rate", at=read, log_window=self.log_window()),
            *self.extra,
        )

    def evidence(self) -> Evidence:
        """Observed, and calculated as ``diagnose`` does."""
        return compute(self.entries())


def compute(entries: tuple[Entry, ...]) -> Evidence:
    """Add everything that ``diagnose`` computes, with ids."""
    from diag_kit.calculate.standard import standard_calculators

    ledger = list(entries)
    for each in standard_calculators(Evidence(entries)):
        ledger += [replace(made, id=f"C{_calculations(ledger) + n}") for n, made in enumerate(each.compute(Evidence(ledger)), 1)]
    return Evidence(ledger)


def _calculations(ledger: list[Entry]) -> int:
    return sum(isinstance(entry, Calculation) for entry in ledger)


def told(id: str, name: str, value: Any, unit: str = "") -> Observation:
    return observation(id, "told", Fact(name, value, "told by the user", unit))


FOUNDING_TOLD = (
    told("O8", "dataset_bytes", 4.6e12, "bytes"),
    told("O9", "dataset_samples", 37312),
    told("O10", "one_gpu_steps_per_s", 6.0, "steps/s"),
    told("O11", "parameters", 2.6e9),
    told("O12", "trainable_parameters", 1.2e9),
    told("O13", "link_gb_per_s", 50.0),
)


def gpus(power_w: float = 250.0, limit_w: float = 600.0, util: float = 100.0, ranks: int = 4, id: str = "O5") -> Observation:
    rows = [
        {"t": pd.Timestamp(START), "gpu": gpu, "util_pct": util, "power_w": power_w, "power_limit_w": limit_w}
        for gpu in range(ranks)
    ]
    return observation(id, "gpus", gpus=pd.DataFrame(rows))


def disks(
    read_mb_per_s: float = 0.003, iowait: float = 0.04, wait_ms: float = 0.2, util: float = 0.1, id: str = "O6"
) -> Observation:
    at = [pd.Timestamp(START) + pd.Timedelta(seconds=s) for s in range(3)]
    disk = pd.DataFrame({"t": at, "device": "nvme0n1", "kind": "disk", "read_mb_per_s": read_mb_per_s, "write_mb_per_s": 0.01,
                         "read_per_s": 0.5, "wait_ms": wait_ms, "util_pct": util})  # fmt: skip
    cpu = pd.DataFrame({"t": at, "user_pct": 6.0, "system_pct": 2.0, "iowait_pct": iowait, "idle_pct": 91.9, "steal_pct": 0.0})
    return observation(id, "iostat", disk=disk, cpu=cpu)


def memory(id: str = "O7") -> Observation:
    row = pd.DataFrame(
        [{"total_bytes": 1.5e12, "available_bytes": 1.2e12, "cached_bytes": 9e11, "dirty_bytes": 1e6, "swap_used_bytes": 0}]
    )
    return observation(id, "memory", memory=row)


def founding(**changes: Any) -> Run:
    """The founding case with everything that was seen and told."""
    given = {"extra": (gpus(), disks(), memory(), *FOUNDING_TOLD), **changes}
    return Run(**given)


def split_length(samples: int, batch: int, ranks: int) -> int:
    return math.ceil(samples / (batch * ranks))
