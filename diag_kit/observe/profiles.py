"""Profiler output that people paste: where the time of the steps goes, by operator or by phase."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from diag_kit.errors import NothingToObserve
from diag_kit.evidence import Evidence
from diag_kit.hosts.protocol import Host
from diag_kit.observe.probe import probe
from diag_kit.observe.profile_text import COLUMNS, PHASES, TORCH, Profile, read_profile
from diag_kit.observe.raw import frame, why_cut_short
from diag_kit.records import CommandResult, Cost, Fact, Parsed

if TYPE_CHECKING:
    import pandas as pd

SYNCHRONISING = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "hipStreamSynchronize",
                 "hipDeviceSynchronize", "hipEventSynchronize")  # fmt: skip
"""Calls of the run-time in which the host waits for the device (CUDA Runtime API, stream and event management)."""


@probe
@dataclass(frozen=True)
class Profiles:
    """Tables of profilers: torch.profiler, Lightning's simple profiler, cProfile, and timers that print mean and std by phase.

    Equivalent, for you to run: ``prof.key_averages().table(sort_by="self_cpu_time_total")`` in the training's own code.

    Table ``profile``, one row a printed line: line, form, name, calls, mean_ms (of one call), std_ms, self_s, total_s (with what
    it calls), device_self_s, device_total_s, share (0 to 1: as printed, of self time on the CPU for torch, of the whole for
    Lightning; for timers the mean over the sum of all means, which is a share only where the phases follow each other).

    Facts: profile_self_cpu_s and profile_self_device_s (torch's last lines), profile_total_s (Lightning, cProfile),
    profile_phases_ms (sum of the means of timers), profile_sync_s, profile_sync_calls and profile_sync_share (self time in calls
    that wait for the device, over all self time on the CPU), profile_ms_per_sync (all self time over the number of these
    calls: the time of a step where each step waits once), profile_top and profile_top_share (the largest own time).
    """

    name: ClassVar[str] = "profiles"
    cost: ClassVar[Cost] = Cost.READ_ONLY
    equivalent: ClassVar[str] = "prof.key_averages().table() (in the training's own code: for you to run)"
    reads: ClassVar[tuple[str, ...]] = ("profile",)

    @property
    def budget_s(self) -> float:
        return 0.0

    def collect(self, host: Host, known: Evidence, stop: threading.Event | None = None) -> tuple[CommandResult, ...]:
        raise NothingToObserve("a profiler is part of the training's own code", next_step="run it there and paste its table")

    def read(self, results: tuple[CommandResult, ...]) -> Parsed:
        seen = Profile()
        problems: list[str] = []
        for result in results:
            read_profile(seen, result.text, result.command[:80])
            problems.extend(filter(None, [why_cut_short(result)]))
        tables: dict[str, pd.DataFrame] = {"profile": frame(seen.rows, COLUMNS)} if seen.rows else {}
        facts = _facts(seen)
        top = next((fact.value for fact in facts if fact.name == "profile_top"), None)
        return Parsed(
            summary=f"a profile of {len(seen.rows)} entries" + (f", most time in {top}" if top else ""),
            facts=facts,
            tables=tables,
            not_understood=tuple(seen.not_understood),
            problems=tuple(problems),
        )


def _facts(seen: Profile) -> tuple[Fact, ...]:
    facts = [Fact(name, value, source, "s") for name, value, source in seen.totals]
    phases = [row for row in seen.rows if row["form"] == PHASES]
    if phases:
        whole = sum(float(row["mean_ms"]) for row in phases)
        facts.append(Fact("profile_phases_ms", round(whole, 6), f"sum of the means of {len(phases)} phases", "ms"))
    torch = [row for row in seen.rows if row["form"] == TORCH and row.get("self_s") is not None]
    whole_s = next((value for name, value, _ in seen.totals if name == "profile_self_cpu_s"), None)
    waits = [row for row in torch if row["name"] in SYNCHRONISING]
    if waits:
        waited = sum(float(row["self_s"]) for row in waits)
        source = f"torch.profiler, {', '.join(str(row['name']) for row in waits)}"
        facts.append(Fact("profile_sync_s", round(waited, 9), source, "s"))
        calls = [int(row["calls"]) for row in waits if row.get("calls") is not None]
        facts.extend([Fact("profile_sync_calls", sum(calls), source, "calls")] if calls else [])
        facts.extend(
            [Fact("profile_ms_per_sync", round(whole_s * 1e3 / sum(calls), 6), source, "ms")] if whole_s and sum(calls) else []
        )
        facts.extend([Fact("profile_sync_share", round(waited / whole_s, 6), source)] if whole_s else [])
    return (*facts, *_top(phases or torch or seen.rows))


def _top(rows: Sequence[dict[str, object]]) -> list[Fact]:
    shared = [row for row in rows if isinstance(row.get("share"), float)]
    if len(shared) < 2:
        return []
    most = max(shared, key=lambda row: float(str(row["share"])))
    where = f"{most['form']}, line {most['line']}"
    return [Fact("profile_top", str(most["name"]), where), Fact("profile_top_share", float(str(most["share"])), where)]
