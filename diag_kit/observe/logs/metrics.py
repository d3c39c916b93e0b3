"""The probe ``log_metrics``: every metric record of the training log, typed."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pandas as pd

from diag_kit.evidence import Evidence
from diag_kit.hosts.protocol import Host
from diag_kit.observe.logs.derived import derived_facts
from diag_kit.observe.logs.pieces import READ_SCRIPT, log_paths
from diag_kit.observe.logs.read import all_facts, gather, left_out, metrics_frame, not_understood, pace_of, summarise, tables_of
from diag_kit.observe.logs.reading import Reading, understand
from diag_kit.observe.probe import probe
from diag_kit.records import CommandResult, Cost, Fact, Parsed


@probe
@dataclass(frozen=True)
class LogMetrics:
    """All metric records of one or several log files (one per rank), as the table ``metrics``.

    Equivalent: ``head -c 16M LOG; tail -c 48M LOG``. Reads at most ``max_mib`` MiB in all: of larger files a quarter from
    the head and the rest from the tail, and says what was left out. ``path``: one file, several, or None for the log that an
    earlier probe found.

    Table ``metrics``, one row per record in file order: rank(Int64) host t(datetime64[us, UTC]) epoch(Float64) step(Int64)
    micro_step(Int64) split("train"|"val") line(Int64, the last physical line) file lr loss, the other printed columns
    (float64), lr_text (the digits as printed). Table ``timings``, of the same shape: what is printed beside the main record
    of a step (throughput, timers). Table ``progress``: states of progress bars. Facts: clock, framework,
    log_form, log_every_steps, rank_tags, rank_filter, step_restarts_each_epoch, printed totals, the pace (``pace``);
    of a pasted log also the start-up facts.
    """

    path: str | Sequence[str] | None = None
    max_mib: float = 64

    name: ClassVar[str] = "log_metrics"
    reads: ClassVar[tuple[str, ...]] = ("training_log", "table")
    cost: ClassVar[Cost] = Cost.READ_ONLY
    equivalent: ClassVar[str] = "head -c 16M LOG; tail -c 48M LOG"

    @property
    def budget_s(self) -> float:
        return 60.0

    def collect(self, host: Host, known: Evidence, stop: threading.Event | None = None) -> tuple[CommandResult, ...]:
        paths = log_paths(self.path, known)
        limit = max(4096, int(self.max_mib * 2**20 / len(paths)))
        result = host.run(
            READ_SCRIPT,
            str(limit),
            *paths,
            timeout_s=self.budget_s,
            max_bytes=limit * len(paths) + 4096 * (len(paths) + 1),
            stop=stop,
        )
        return (result,)

    def read(self, results: tuple[CommandResult, ...]) -> Parsed:
        found, problems = gather(results)
        reading = understand(found)
        metrics, midnights = metrics_frame(reading)
        pasted = any(not piece.growing for piece in found)  # nothing else will read its start-up lines
        derived = all_facts if pasted else _without_start
        facts = derived(reading, metrics, midnights)
        return Parsed(
            summary=summarise(reading, metrics, facts),
            facts=tuple(facts),
            tables=tables_of(reading, metrics),
            not_understood=tuple(not_understood(reading)),
            problems=(*problems, *left_out(found)),
        )


def _without_start(reading: Reading, metrics: pd.DataFrame, midnights: int) -> list[Fact]:
    return [*derived_facts(reading, metrics, midnights), *pace_of(reading, metrics)]
