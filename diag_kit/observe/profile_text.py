"""The lines of profilers' tables. Pure, and linear in the text.

Forms and their sources: torch.profiler's ``key_averages().table()`` (pytorch/pytorch torch/autograd/profiler_util.py,
``_build_table``: columns two blanks apart, durations with their unit); Lightning's SimpleProfiler (Lightning-AI/pytorch-lightning
src/lightning/pytorch/profilers/simple.py: ``|  Action  |  Mean duration (s) | Num calls | Total time (s) | Percentage % |``,
before 1.0 without calls and totals); cProfile (CPython Lib/pstats.py: ``ncalls tottime percall cumtime percall
filename:lineno(function)``); timers of a training loop (``Forward pass (10/10):  mean:  12ms  std:  3ms``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from diag_kit.observe.raw import number
from diag_kit.records import NotUnderstood

COLUMNS = {
    "line": "Int64",
    "form": "str",
    "name": "str",
    "calls": "Int64",
    "mean_ms": "float64",
    "std_ms": "float64",
    "self_s": "float64",
    "total_s": "float64",
    "device_self_s": "float64",
    "device_total_s": "float64",
    "share": "float64",
}
TORCH, LIGHTNING, CPROFILE, PHASES = "torch.profiler", "Lightning profiler", "cProfile", "timers"
MAX_ROWS = 20_000
MAX_LINE = 4000
_MAX_NOT_UNDERSTOOD = 200
_SECONDS = {"ns": 1e-9, "us": 1e-6, "μs": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "min": 60.0}
_DURATION = re.compile(r"^(\d{1,18}(?:\.\d{0,12})?) ?(ns|us|μs|µs|ms|sec|s|min)$")
_TOTAL = re.compile(r"^Self (CPU|[A-Z]{2,12}) time total: (\S{1,30})\s*$")
_DEVICES = ("cuda", "xpu", "hip", "mtia", "npu", "device", "privateuseone")
_TIME = r"[\d.]{1,20} ?(?:ns|us|μs|µs|ms|s|sec)\b"
_PHASE = re.compile(
    r"^[ \t]*(?P<name>[^\t:][^:\t]{0,120}?)(?: \((?P<calls>\d{1,9})/\d{1,9}\))?:[ \t]{1,60}(?:mean|avg|average)[:=][ \t]{0,20}"
    rf"(?P<mean>{_TIME})(?:[ ,;\t]{{1,20}}std[:=][ \t]{{0,20}}(?P<std>{_TIME}))?"
)
_PSTATS = re.compile(
    r"^[ \t]*(?P<calls>\d{1,12})(?:/\d{1,12})?[ \t]{1,20}(?P<own>\d{1,12}\.\d{1,6})[ \t]{1,20}\d{1,12}\.\d{1,6}[ \t]{1,20}"
    r"(?P<total>\d{1,12}\.\d{1,6})[ \t]{1,20}(?P<mean>\d{1,12}\.\d{1,6})[ \t]{1,20}(?P<name>\S.{0,300})$"
)
_PSTATS_TOTAL = re.compile(r"\bfunction calls\b.{0,60}\bin (\d{1,12}\.\d{1,6}) (?:CPU )?seconds")
_RULE = re.compile(r"^[-=+| \t]*$")
_TITLE = re.compile(r"FIT Profiler Report|^Profiler Report|^Average execution time|Ordered by:|^[ \t]*ncalls[ \t]+tottime")


@dataclass(slots=True)
class Profile:
    rows: list[dict[str, Any]] = field(default_factory=list)
    totals: list[tuple[str, float, str]] = field(default_factory=list)
    not_understood: list[NotUnderstood] = field(default_factory=list)


def read_profile(seen: Profile, text: str, where: str) -> None:
    """All tables of a text; a header says what the columns below it are."""
    torch: list[str] = []
    bars: list[str] = []
    before = len(seen.rows)
    for count, raw in enumerate(text.splitlines(), start=1):
        line = raw[:MAX_LINE].rstrip()
        if _RULE.match(line) or _TITLE.search(line):
            continue
        cells = [cell.strip() for cell in re.split(r" {2,}|\t+", line.strip())]
        lower = [cell.lower() for cell in cells]
        if lower[0] == "name" and any(cell.startswith("self cpu") for cell in lower):
            torch = lower
        elif line.lstrip().startswith("|") and "action" in line.lower() and "duration" in line.lower():
            bars = [cell.strip().lower() for cell in line.strip().strip("|").split("|")]
        elif _torch(seen, torch, cells, line, count) or _bars(seen, bars, line, count) or _plain(seen, line, count):
            continue
        elif len(seen.not_understood) < _MAX_NOT_UNDERSTOOD:
            seen.not_understood.append(NotUnderstood(f"{where} line {count}", line[:200], "not a row of a profile"))
    _shares_of_phases(seen.rows[before:])


def _torch(seen: Profile, header: list[str], cells: list[str], line: str, count: int) -> bool:
    total = _TOTAL.match(line.strip())
    if total:
        value = seconds(total[2])
        name = "profile_self_cpu_s" if total[1] == "CPU" else "profile_self_device_s"
        seen.totals.extend([(name, value, f"torch.profiler line {count}")] if value is not None else [])
        return value is not None
    if not header or len(cells) != len(header) or len(seen.rows) >= MAX_ROWS:
        return False
    told = dict(zip(header, cells, strict=True))
    device = next((name for name in _DEVICES if f"self {name}" in told or f"{name} total" in told), "")
    mean = seconds(told.get("cpu time avg", ""))
    calls = number(told.get("# of calls", ""))
    share = number(told.get("self cpu %", "").rstrip("%"))
    _add(
        seen,
        count,
        TORCH,
        told["name"],
        calls=int(calls) if calls is not None and calls.is_integer() and calls < 2**53 else None,
        mean_ms=None if mean is None else mean * 1e3,
        self_s=seconds(told.get("self cpu", "")),
        total_s=seconds(told.get("cpu total", "")),
        device_self_s=seconds(told.get(f"self {device}", "")) if device else None,
        device_total_s=seconds(told.get(f"{device} total", "")) if device else None,
        share=None if share is None else round(share / 100, 8),
    )
    return True


def _bars(seen: Profile, header: list[str], line: str, count: int) -> bool:
    if not header or not line.lstrip().startswith("|") or len(seen.rows) >= MAX_ROWS:
        return False
    cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
    if len(cells) < len(header):
        return False
    spare = len(cells) - len(header)  # an action's own name may hold a bar
    told = dict(zip(header, ["|".join(cells[: spare + 1]), *cells[spare + 1 :]], strict=True))
    numbers = {name: number(cell.rstrip(" %")) for name, cell in told.items()}
    mean, total = (_starting(numbers, word) for word in ("mean duration", "total time"))
    calls, share = (_starting(numbers, word) for word in ("num calls", "percentage"))
    name = cells[0] if not spare else "|".join(cells[: spare + 1])
    if name.lower() == "total" and mean is None:
        seen.totals.extend([("profile_total_s", total, f"Lightning profiler line {count}")] if total is not None else [])
    _add(
        seen,
        count,
        LIGHTNING,
        name,
        calls=int(calls) if calls is not None and calls.is_integer() and calls < 2**53 else None,
        mean_ms=None if mean is None else mean * 1e3,
        total_s=total,
        share=None if share is None or name.lower() == "total" else round(share / 100, 8),
    )
    return True


def _starting(numbers: dict[str, float | None], word: str) -> float | None:
    return next((value for name, value in numbers.items() if name.startswith(word)), None)


def _plain(seen: Profile, line: str, count: int) -> bool:
    if len(seen.rows) >= MAX_ROWS:
        return False
    if phase := _PHASE.match(line):
        mean, std = seconds(phase["mean"]), seconds(phase["std"] or "")
        if mean is None:
            return False
        calls = int(phase["calls"]) if phase["calls"] else None
        name = phase["name"].strip()
        _add(seen, count, PHASES, name, calls=calls, mean_ms=mean * 1e3, std_ms=None if std is None else std * 1e3)
        return True
    if row := _PSTATS.match(line):
        own, total, mean = float(row["own"]), float(row["total"]), float(row["mean"])
        _add(seen, count, CPROFILE, row["name"], calls=int(row["calls"]), mean_ms=mean * 1e3, self_s=own, total_s=total)
        return True
    if whole := _PSTATS_TOTAL.search(line):
        seen.totals.append(("profile_total_s", float(whole[1]), f"cProfile line {count}"))
        return True
    return False


def _add(seen: Profile, line: int, form: str, name: str, **values: Any) -> None:
    seen.rows.append({"line": line, "form": form, "name": name[:300], **values})


def _shares_of_phases(rows: list[dict[str, Any]]) -> None:
    phases = [row for row in rows if row["form"] == PHASES]
    whole = sum(row["mean_ms"] for row in phases)
    for row in phases if whole > 0 and len(phases) > 1 else ():
        row["share"] = round(row["mean_ms"] / whole, 6)


def seconds(text: str) -> float | None:
    """A duration with its unit; None for anything else."""
    found = _DURATION.match(text.strip())
    return float(found[1]) * _SECONDS[found[2]] if found else None
