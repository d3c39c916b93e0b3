"""The probe ``log_rate``: how fast the log grows, from appended bytes only, with the window stated."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import pandas as pd

from diag_kit.evidence import Evidence
from diag_kit.figures import figure
from diag_kit.hosts.protocol import Host
from diag_kit.observe.logs.follow_script import FOLLOW_SCRIPT
from diag_kit.observe.logs.pieces import Part, Piece, asked_files, log_paths, parts, problem_sentence
from diag_kit.observe.logs.read import metrics_frame
from diag_kit.observe.logs.reading import understand
from diag_kit.observe.probe import probe
from diag_kit.records import CommandResult, Cost, Fact, Parsed

KEEP_BYTES = 4 * 2**20
BURST_SHARE = 0.5
BURST_SECONDS_SHARE = 0.15
MIN_LINES_FOR_BURST = 20
_NETWORK = ("nfs", "lustre", "gpfs", "beegfs", "cifs", "smb", "fuse", "ceph", "glusterfs", "9p")


@dataclass(slots=True)
class _Followed:
    """One file over the window."""

    name: str
    host: str
    begin_s: float
    cut: bool
    fstype: str
    ticks: list[Part] = field(default_factory=list)

    def seconds(self) -> list[float]:
        return [_float(tick.fields.get("t")) for tick in self.ticks]

    def records(self) -> tuple[list[int | None], pd.DataFrame]:
        """Cumulative metric records per tick (None from where text was no longer kept), and the records themselves."""
        whole = len(self.ticks)
        for index, tick in enumerate(self.ticks):
            if len(tick.data) < tick.number("appended"):
                whole = index
                break
        data = b"".join(tick.data for tick in self.ticks[:whole])
        cut = self.cut and bool(data)
        complete = data[: data.rfind(b"\n") + 1]
        piece = Piece(self.name, self.host, complete, 1, int(self.begin_s * 1e6), cut=cut)
        reading = understand([piece], facts=False)
        frame, _ = metrics_frame(reading)
        ends: list[int] = []
        total = 0
        for tick in self.ticks[:whole]:
            total += tick.data.count(b"\n")
            ends.append(total)
        train = frame[frame["split"] == "train"]
        lines = sorted(int(line) for line in train["line"])
        counts: list[int | None] = [sum(1 for line in lines if line <= end) for end in ends]
        seconds = self.seconds()
        seen = [next((seconds[i] for i, end in enumerate(ends) if line <= end), None) for line in frame["line"]]
        frame["seen_at"] = _utc(seen)
        return counts + [None] * (len(self.ticks) - whole), frame


def _float(text: str | None) -> float:
    try:
        value = float(text or "nan")
    except ValueError:
        return 0.0
    return value if 0 <= value < 1e11 else 0.0


def _utc(seconds: Sequence[float | None]) -> pd.Series:
    us = pd.array([None if s is None else int(s * 1e6) for s in seconds], dtype="Int64")
    return pd.Series(pd.to_datetime(us, unit="us", utc=True)).astype("datetime64[us, UTC]")


@probe
@dataclass(frozen=True)
class LogRate:
    """Lines, metric records and bytes appended to the log in a window of ``seconds``, about one row a second.

    Equivalent: ``n=$(wc -l < LOG); sleep 30; echo $(( $(wc -l < LOG) - n ))``, but nothing that was there is read again, and
    host time, truncation, rotation and half lines are noted. A count over a window is known to about one line per printing
    rank at each end. One row stands for the start (zeros). With several files the rows are sums.

    Table ``log_window``: t lines_total records_total(train records; NA where text was no longer kept) bytes_total. Table
    ``window_metrics``: the records seen, as in ``log_metrics``, with seen_at (host time). Facts: log_window_s,
    log_lines_appended, log_records_appended, appends_bursty (over half of at least 20 lines came in at most 15 % of the
    seconds: buffered output, so the rate of a short window misleads), log_mount_type.
    """

    path: str | Sequence[str] | None = None
    seconds: float = 30

    name: ClassVar[str] = "log_rate"
    cost: ClassVar[Cost] = Cost.READ_ONLY
    equivalent: ClassVar[str] = "n=$(wc -l < LOG); sleep 30; echo $(( $(wc -l < LOG) - n ))"

    @property
    def budget_s(self) -> float:
        return self.seconds + 15

    def collect(self, host: Host, known: Evidence, stop: threading.Event | None = None) -> tuple[CommandResult, ...]:
        paths = log_paths(self.path, known)
        result = host.run(
            FOLLOW_SCRIPT,
            f"{max(0.5, min(3600.0, float(self.seconds))):g}",
            str(KEEP_BYTES),
            "python3",
            *paths,
            timeout_s=self.budget_s,
            max_bytes=KEEP_BYTES + int(self.seconds + 10) * 400 * len(paths) + 65536,
            stop=stop,
        )
        return (result,)

    def read(self, results: tuple[CommandResult, ...]) -> Parsed:
        followed: list[_Followed] = []
        problems: list[str] = []
        for result in results:
            some, said = _followed(result)
            followed += some
            problems += said
        followed = [log for log in followed if log.ticks]
        if not followed:
            problems = problems or ["the log could not be followed: no output; check that the host can run sh and tail"]
            return Parsed("no log could be followed", problems=tuple(problems))
        window, metrics = _window(followed)
        facts = _facts(followed, window)
        problems += _remarks(followed, window)
        tables = {"log_window": window} | ({"window_metrics": metrics} if len(metrics) else {})
        return Parsed(_summary(followed, window), tuple(facts), tables, problems=tuple(problems))


def _followed(result: CommandResult) -> tuple[list[_Followed], list[str]]:
    names = asked_files(result, 3)
    logs: dict[int, _Followed] = {}
    problems: list[str] = []
    for part in parts(result.stdout):
        index = part.number("file")
        name = names[index] if 0 <= index < len(names) else f"file {index + 1}"
        if part.kind == "problem":
            problems.append(problem_sentence(part, name))
        elif part.kind == "failed":
            problems.append(f"{name} could not be opened: {part.data.decode('utf-8', 'replace').strip()}")
        elif part.kind == "start":
            fields = part.fields
            start = _float(fields.get("t"))
            logs[index] = _Followed(name, result.host, start, fields.get("cut") == "1", fields.get("fstype", ""))
        elif part.kind == "tick" and index in logs:
            logs[index].ticks.append(part)
    if result.timed_out or (result.exit_status is None and logs):
        problems.append("following the log was ended early: the window is shorter than asked")
    if not logs and not problems:
        problems.append(f"the log could not be followed: {result.error_text or 'no output'}")
    return list(logs.values()), problems


def _window(followed: Sequence[_Followed]) -> tuple[pd.DataFrame, pd.DataFrame]:
    length = min(len(log.ticks) for log in followed)
    counted = [log.records() for log in followed]
    rows: list[tuple[float, int, int | None, int]] = [(max(log.begin_s for log in followed), 0, 0, 0)]
    lines = size = 0
    for index in range(length):
        lines += sum(log.ticks[index].number("lines") for log in followed)
        size += sum(log.ticks[index].number("appended") for log in followed)
        counts = [records[index] for records, _ in counted]
        known = [count for count in counts if count is not None]
        rows.append(
            (max(log.seconds()[index] for log in followed), lines, sum(known) if len(known) == len(counts) else None, size)
        )
    frame = pd.DataFrame(
        {
            "t": _utc([row[0] for row in rows]),
            "lines_total": pd.array([row[1] for row in rows], dtype="Int64"),
            "records_total": pd.array([row[2] for row in rows], dtype="Int64"),
            "bytes_total": pd.array([row[3] for row in rows], dtype="Int64"),
        }
    )
    filled = [table for _, table in counted if len(table)]
    return frame, pd.concat(filled, ignore_index=True) if filled else pd.DataFrame()


def _seconds(window: pd.DataFrame) -> float:
    return float((window["t"].iloc[-1] - window["t"].iloc[0]).total_seconds())


def _facts(followed: Sequence[_Followed], window: pd.DataFrame) -> list[Fact]:
    files = ", ".join(log.name for log in followed)
    seconds, lines = _seconds(window), int(window["lines_total"].iloc[-1])
    source = f"appended to {files} from {window['t'].iloc[0]:%H:%M:%S} to {window['t'].iloc[-1]:%H:%M:%S} host time"
    facts = [
        Fact("log_window_s", round(seconds, 3), source, "s"),
        Fact("log_lines_appended", lines, source, "lines"),
    ]
    records = window["records_total"].dropna()
    if len(records) == len(window):
        facts.append(Fact("log_records_appended", int(records.iloc[-1]), source, "records"))
    bursty = is_bursty(window)
    if bursty is not None:
        facts.append(Fact("appends_bursty", bursty, f"lines per second, {source}"))
    types = [log.fstype for log in followed if log.fstype and log.fstype != "unknown"]
    if types:
        facts.append(Fact("log_mount_type", types[0], f"mount of {followed[0].name}"))
    return facts


def is_bursty(window: pd.DataFrame) -> bool | None:
    """Over half of the lines in at most 15 % of the seconds; None below 20 lines or 6 rows."""
    per_row = sorted(window["lines_total"].diff().dropna().astype("int64"), reverse=True)
    total = sum(per_row)
    if total < MIN_LINES_FOR_BURST or len(per_row) < 6:
        return None
    few = max(1, int(len(per_row) * BURST_SECONDS_SHARE))
    return sum(per_row[:few]) > BURST_SHARE * total


def _remarks(followed: Sequence[_Followed], window: pd.DataFrame) -> list[str]:
    said = []
    for log in followed:
        events = {tick.fields.get("event", "none") for tick in log.ticks}
        if not any(tick.number("appended") for tick in log.ticks):
            network = log.fstype.lower().startswith(_NETWORK)
            late = "; it is on a network file system, which may show growth late" if network else ""
            said.append(
                f"{log.name}: nothing was appended in {figure(_seconds(window))} s: finished, hung, or buffered{late}; "
                "look at the processes, or follow it for longer"
            )
        if "truncated" in events:
            said.append(f"{log.name} was truncated in the window: what was written and cut between two looks is not counted")
        if "rotated" in events:
            said.append(f"{log.name} was replaced by a new file in the window (log rotation): both are counted")
        if "gone" in events:
            said.append(f"{log.name} was removed in the window: give the new log with --log PATH")
    return said


def _summary(followed: Sequence[_Followed], window: pd.DataFrame) -> str:
    seconds, lines = _seconds(window), int(window["lines_total"].iloc[-1])
    names = followed[0].name.rsplit("/", 1)[-1] if len(followed) == 1 else f"{len(followed)} files"
    rate = f" ({lines / seconds:.2f} lines/s)" if seconds > 0 else ""
    records = window["records_total"].iloc[-1]
    known = "" if pd.isna(records) else f", {int(records):,} metric records"
    bursts = ", in bursts" if is_bursty(window) else ""
    return f"{lines:,} lines{rate}{known} appended to {names} in {seconds:.1f} s{bursts}"
