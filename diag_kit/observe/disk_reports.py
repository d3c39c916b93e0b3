"""iostat reports in the text of any sysstat generation, turned into rows by column name. Pure.

Units: sysstat's kB is 1024 bytes, its MB 2**20, its sector 512 bytes; here MB is 1e6 bytes and KiB is 1024. The first
report of an iostat run without ``-y`` is the average since boot (man iostat): it says nothing about now and never
enters the window.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from diag_kit.observe.raw import number, printed_time
from diag_kit.records import NotUnderstood

DISK_COLUMNS = {
    "t": "time",
    "device": "str",
    "kind": "str",
    "read_mb_per_s": "float64",
    "write_mb_per_s": "float64",
    "read_per_s": "float64",
    "write_per_s": "float64",
    "wait_ms": "float64",
    "read_wait_ms": "float64",
    "write_wait_ms": "float64",
    "queue_length": "float64",
    "request_kib": "float64",
    "util_pct": "float64",
    "read_mib_per_s": "float64",  # as iostat -m prints it
    "discard_mb_per_s": "float64",
    "flush_per_s": "float64",
    "flush_wait_ms": "float64",
}
CPU_COLUMNS = {
    "t": "time",
    "user_pct": "float64",
    "system_pct": "float64",
    "iowait_pct": "float64",
    "idle_pct": "float64",
    "steal_pct": "float64",
    "nice_pct": "float64",
}
_RATE_BYTES = {"kB/s": 1024.0, "MB/s": 2.0**20, "GB/s": 2.0**30, "sec/s": 512.0}
_PLAIN_BYTES = {"kB": 1024.0, "MB": 2.0**20, "Blk": 512.0}
_SUFFIX_BYTES = {"k": 1024.0, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40}
_COLUMNS = (
    "Device tps r/s w/s d/s f/s rrqm/s wrqm/s drqm/s %rrqm %wrqm %drqm rqm/s %rqm rsec/s wsec/s dsec/s rkB/s wkB/s dkB/s "
    "rMB/s wMB/s dMB/s rGB/s wGB/s dGB/s kB/s MB/s sec/s avgrq-sz avgqu-sz areq-sz rareq-sz wareq-sz dareq-sz aqu-sz await "
    "r_await w_await d_await f_await svctm %util kB_read/s kB_wrtn/s kB_dscd/s kB_read kB_wrtn kB_dscd MB_read/s MB_wrtn/s "
    "MB_dscd/s MB_read MB_wrtn MB_dscd Blk_read/s Blk_wrtn/s Blk_dscd/s Blk_read Blk_wrtn Blk_dscd"
)
_KNOWN = frozenset(_COLUMNS.split())
"""The headings of sysstat 9.0 to 12.7 (iostat.c, write_disk_stat_header and its forerunners)."""


@dataclass(frozen=True, slots=True)
class Report:
    """One iostat report: its time if printed, a row per device, the CPU row if printed."""

    t: datetime | None
    disks: tuple[dict[str, Any], ...]
    cpu: dict[str, Any] | None


@dataclass(slots=True)
class Reports:
    """What one run of iostat printed, in order."""

    reports: list[Report] = field(default_factory=list)
    not_understood: list[NotUnderstood] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    banner: bool = False  # the line "Linux ...": what follows it is the start of a run


def cell(text: str) -> tuple[float | None, float | None]:
    """A printed value, and the bytes of its unit where ``--human`` put one ("26.3M")."""
    text = text.strip().removesuffix("%")
    if text[-1:] in _SUFFIX_BYTES:
        return number(text[:-1]), _SUFFIX_BYTES[text[-1]]
    return number(text), None


def device_row(device: str, printed: Mapping[str, tuple[float | None, float | None]]) -> dict[str, Any]:
    """One device's row from its columns by name. A wait over no requests is missing, not 0."""
    value = {name: found for name, (found, _) in printed.items()}
    reads, writes = value.get("r/s"), value.get("w/s")
    read_bytes, write_bytes = _bytes_per_s(printed, "r", "read"), _bytes_per_s(printed, "w", "wrtn")
    discarded = _bytes_per_s(printed, "d", "dscd")
    read_wait, write_wait = _over(value.get("r_await"), reads), _over(value.get("w_await"), writes)
    requests = reads + writes if reads is not None and writes is not None else value.get("tps")
    wait = _over(value.get("await"), requests)
    return {
        "device": device,
        "read_mb_per_s": None if read_bytes is None else read_bytes / 1e6,
        "write_mb_per_s": None if write_bytes is None else write_bytes / 1e6,
        "read_mib_per_s": None if read_bytes is None else read_bytes / 2**20,
        "read_per_s": reads,
        "write_per_s": writes,
        "read_wait_ms": read_wait,
        "write_wait_ms": write_wait,
        "wait_ms": wait if wait is not None else weighted(read_wait, reads, write_wait, writes),
        "queue_length": value.get("aqu-sz", value.get("avgqu-sz")),
        "request_kib": _request_kib(value, reads, writes),
        "util_pct": value.get("%util"),
        "discard_mb_per_s": None if discarded is None else discarded / 1e6,
        "flush_per_s": value.get("f/s"),
        "flush_wait_ms": _over(value.get("f_await"), value.get("f/s")),
    }


def _over(mean: float | None, requests: float | None) -> float | None:
    return None if requests == 0 else mean


def weighted(a: float | None, a_count: float | None, b: float | None, b_count: float | None) -> float | None:
    """Mean over all requests from the means of two kinds; a kind without requests has no weight."""
    known = [(mean, count) for mean, count in ((a, a_count), (b, b_count)) if mean is not None and count]
    total = sum(count for _, count in known)
    return sum(mean * count for mean, count in known) / total if total else None


def _bytes_per_s(printed: Mapping[str, tuple[float | None, float | None]], letter: str, verb: str) -> float | None:
    names = {f"{letter}{unit}": size for unit, size in _RATE_BYTES.items()}
    names |= {f"{unit}_{verb}/s": size for unit, size in _PLAIN_BYTES.items()}
    for name, size in names.items():
        value, suffix = printed.get(name, (None, None))
        if value is not None:
            return value * (suffix or size)
    return None


def _request_kib(value: Mapping[str, float | None], reads: float | None, writes: float | None) -> float | None:
    sectors = value.get("avgrq-sz")
    if sectors is not None:
        return sectors / 2
    if value.get("areq-sz") is not None:
        return value["areq-sz"]
    return weighted(value.get("rareq-sz"), reads, value.get("wareq-sz"), writes)


def cpu_row(printed: Mapping[str, float | None]) -> dict[str, Any] | None:
    """The CPU row; None where the percentages do not add up (sysstat before 12.0.5 with JSON and ``-y``)."""
    row = {f"{name}_pct": printed.get(name) for name in ("user", "nice", "system", "iowait", "steal", "idle")}
    known = [value for value in row.values() if value is not None]
    return row if known and (len(known) < 6 or 95 <= sum(known) <= 105) else None


def read_text(text: str, where: str = "iostat") -> Reports:
    """All reports in a text. A report begins at ``avg-cpu``, or at ``Device`` where that was left out (``-d``)."""
    reader = _TextReader(where)
    for count, line in enumerate(text.splitlines(), start=1):
        reader.line(line.strip(), count)
    return reader.done()


class _TextReader:
    """Line by line: which table a line belongs to follows from the last header seen."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.found = Reports()
        self.time: datetime | None = None
        self.date = ""
        self.header: list[str] = []
        self.expects = ""
        self.cpu: dict[str, Any] | None = None
        self.disks: dict[str, dict[str, tuple[float | None, float | None]]] = {}
        self.open = False

    def line(self, line: str, count: int) -> None:
        words = line.split()
        if not words:
            return
        if words[0] == "avg-cpu:":
            self._close()
            self.header, self.expects, self.open = [word.lstrip("%") for word in words[1:]], "cpu", True
        elif words[0].rstrip(":") == "Device" or words[-1] == "Device":
            self._disk_header([word.rstrip(":") for word in words], count)
        elif self._is_time(line, words):
            pass
        elif self.expects == "cpu" and len(words) == len(self.header):
            self.cpu = cpu_row({name: cell(word)[0] for name, word in zip(self.header, words, strict=True)})
            self.expects = ""
        elif self.expects == "disk" and len(words) == len(self.header):
            row = dict(zip(self.header, words, strict=True))
            name = row.pop("Device")
            self.disks.setdefault(name, {}).update({key: cell(word) for key, word in row.items()})
        else:
            self.found.not_understood.append(NotUnderstood(f"{self.where} line {count}", line[:200], "no iostat line"))

    def _disk_header(self, header: list[str], count: int) -> None:
        unknown = " ".join(name for name in header if name not in _KNOWN)
        if unknown and not any(odd.text == unknown for odd in self.found.not_understood):
            self.found.not_understood.append(
                NotUnderstood(f"{self.where} line {count}", unknown[:200], "columns that are not known")
            )
        if self.disks and header[0] == "Device":
            self._close()
        elif self.disks and not (set(header) - {"Device"}) - {key for row in self.disks.values() for key in row}:
            self._close()  # --pretty without the CPU part: the first of its tables comes again
        self.header, self.expects, self.open = header, "disk", True

    def _is_time(self, line: str, words: list[str]) -> bool:
        if words[0] == "Linux":
            self._close()
            self.found.banner = True
            self.date = next((word for word in words[2:] if re.fullmatch(r"[\d./-]{8,10}", word)), "")
            return True
        if words[0] in ("$", "#", "iostat", "sysstat", "(C)") or re.match(r"\S*[$#]$|\[?\S+@\S+", words[0]):
            return True  # a prompt and the version are no data
        text = re.sub(r"^(?:Time|Zeit|Heure|Hora|Ora|Tijd|Tid|Czas|Время|時刻|时间)[ :：]+", "", line).strip()
        when = printed_time(text) or printed_time(f"{self.date} {text}")
        if when is None:
            return False
        self._close()
        self.time = when
        return True

    def _close(self) -> None:
        if self.open and (self.disks or self.cpu is not None):
            rows = tuple(device_row(name, printed) for name, printed in self.disks.items())
            self.found.reports.append(Report(self.time, rows, self.cpu))
        self.cpu, self.disks, self.open, self.expects = None, {}, False, ""

    def done(self) -> Reports:
        self._close()
        return self.found


def drop_since_boot(found: Reports, printed_without_it: bool) -> tuple[Sequence[Report], Report | None, str]:
    """The reports of the window, the since-boot one, and a sentence on it (empty when none was there).

    A single report of unknown origin is taken for the average since boot: that is what ``iostat -x`` alone prints.
    """
    if printed_without_it or not found.reports:
        return found.reports, None, ""
    first, rest = found.reports[0], found.reports[1:]
    if rest:
        return rest, first, "the first report was left out: without -y it is the average since boot"
    is_it = "is" if found.banner else "may be"
    return (
        (),
        first,
        f"the only report {is_it} the average since boot: it says nothing about now (run iostat -xty 1 10)",
    )
