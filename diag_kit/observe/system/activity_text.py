"""pidstat of any sysstat generation: ``-u -d -r -w -v -t -l -h`` and its text tables, put together by time and process. Pure."""

from __future__ import annotations

from typing import Any

from diag_kit.observe.raw import number, whole
from diag_kit.observe.system.found import Found, times
from diag_kit.observe.system.sysstat import Row, read_rows
from diag_kit.records import CommandResult

_PLAIN = {
    "%usr": "user_pct", "%user": "user_pct", "%system": "system_pct", "%CPU": "cpu_pct", "%wait": "wait_pct",
    "minflt/s": "minor_faults_per_s", "majflt/s": "major_faults_per_s", "cswch/s": "voluntary_switches_per_s",
    "nvcswch/s": "involuntary_switches_per_s",
}  # fmt: skip
_WHOLE = {"CPU": "cpu", "iodelay": "io_delay_ticks", "threads": "threads", "fd-nr": "open_files"}
_KIB_PER_S = {"kB_rd/s": "read_mb_per_s", "kB_wr/s": "write_mb_per_s"}
_KIB = {"RSS": "rss_bytes", "VSZ": "virtual_bytes"}
_KNOWN = {*_PLAIN, *_WHOLE, *_KIB_PER_S, *_KIB, "UID", "USER", "PID", "TGID", "TID", "Command", "%guest", "%MEM", "kB_ccwr/s"}
_KNOWN |= {"StkSize", "StkRef", "usr-ms", "system-ms", "guest-ms", "policy", "prio"}


def read_pidstat(result: CommandResult, found: Found) -> None:
    """Rows ``activity``. -1 in the columns of bytes is "may not be read" (man pidstat): missing. kB is 1024 bytes.

    A single set of rows of a ``pidstat`` without interval is the average since each process began; ``activity_is`` says so.
    """
    merged: dict[tuple[Any, ...], dict[str, Any]] = {}
    unknown: set[str] = set()
    averages = False
    process: int | None = None
    for row in read_rows(result.text, "pidstat", found, last=("Command",)):
        averages = averages or row.average
        if row.average:
            continue
        unknown |= row.values.keys() - _KNOWN
        pid = whole(row.values.get("PID", row.values.get("TGID", "")))
        tid = whole(row.values.get("TID", ""))
        process = pid if pid is not None else process
        if pid is None and tid is None:
            found.strange(f"pidstat line {row.line}", " ".join(row.values.values()), "no process number")
            continue
        key = (row.t, process if pid is None else pid, tid)
        merged.setdefault(key, {"t": row.t, "pid": key[1], "tid": tid}).update(_values(row))
    if unknown:
        found.strange("pidstat", " ".join(sorted(unknown)), "columns that are not known")
    found.rows["activity"].extend(merged.values())
    stamps = {row["t"] for row in merged.values()}
    if merged and not averages and len(stamps) == 1:
        found.fact("activity_is", "one report: since each process began, or one interval", "pidstat")
    busy = [row for row in merged.values() if row.get("cpu_pct") is not None and row["tid"] is None]
    if busy:
        most = max(busy, key=lambda row: row["cpu_pct"])
        found.said.append(
            f"{len({row['pid'] for row in busy})} processes, busiest {most.get('command')} ({most['cpu_pct']:.0f} %)"
        )


def _values(row: Row) -> dict[str, Any]:
    values: dict[str, Any] = {name: number(row.values[key]) for key, name in _PLAIN.items() if key in row.values}
    values |= {name: whole(row.values[key]) for key, name in _WHOLE.items() if key in row.values}
    for key, name in _KIB_PER_S.items():
        if key in row.values:
            amount = number(row.values[key])
            values[name] = None if amount is None or amount < 0 else times(amount, 1024 / 1e6)
    for key, name in _KIB.items():
        if key in row.values:
            kib = whole(row.values[key])
            values[name] = None if kib is None else kib * 1024
    if "Command" in row.values:
        values["command"] = row.values["Command"].removeprefix("|__").strip()
    return values
