"""The table that plain ``nvidia-smi`` prints, drivers 331 to 610, with MIG devices and processes. Pure.

Lines are told by their shape, not by their number: drivers differ in banner, column widths and lines per GPU.
"""

from __future__ import annotations

import re
from datetime import datetime

from diag_kit.observe.gpu_values import Row, Seen, process_row
from diag_kit.observe.raw import number, printed_time, whole
from diag_kit.records import NotUnderstood

_BANNER = re.compile(r"NVIDIA-SMI\s+\S+.*?Driver Version:\s*(\S+)(?:.*?CUDA (?:UMD )?Version:\s*([\w./]+))?")
_FIRST = re.compile(
    r"^\|\s+(?P<gpu>\d+)\s+(?P<name>\S.*?)\s+(?:On|Off|N/A|WDDM|TCC|MCDM|ERR!)\s*\|"
    r"\s*(?P<bus>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s+\S+\s*\|\s*(?P<ecc>\S+)\s*\|"
)
_SECOND = re.compile(
    r"^\|\s*(?P<fan>\S+)\s+(?P<temp>\S+)\s+(?P<perf>\S+)\s+(?P<power>\S+)\s*/\s*(?P<cap>\S+)\s*\|"
    r"\s*(?P<used>\S+)\s*/\s*(?P<total>\S+)\s*\|\s*(?P<util>\S+)\s+\S.*\|"
)
_THIRD = re.compile(r"^\|\s*\|\s*\|\s*(Enabled\*?|Disabled\*?|N/A)\s*\|")
_INSTANCE = re.compile(r"^\|\s*(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s*\|\s*(\d+)\s*MiB\s*/\s*(\d+)\s*MiB\s*\|\s*(\d+)\s+(\S+)\s*\|")
_PROCESS = re.compile(
    r"^\|\s+(?P<gpu>\d+)\s+(?:(?P<gi>\d+|N/A)\s+(?P<ci>\d+|N/A)\s+)?(?P<pid>\d+)\s+(?:(?P<type>M\+C|C\+G|[CGM])\s+)?"
    r"(?P<name>\S.*?)\s+(?P<memory>\d+\s?MiB|N/A)\s*\|"
)
_FURNITURE = re.compile(
    r"^[+|][-=+|]*$|^\|\s*(GPU\s|Fan\s|ID\s|MIG devices|Processes|Compute processes|No running|\|.*MIG M\.|\|.*ECC)|^\|[\s|]*\|$"
)


def read_table(text: str, where: str = "nvidia-smi") -> Seen:
    """Every table in the text: one row per GPU and table, its processes (of the last table), its MIG devices."""
    reader = _Reader(where)
    for count, line in enumerate(text.splitlines(), start=1):
        reader.line(line.strip(), count)
    reader.close()
    return reader.seen


class _Reader:
    def __init__(self, where: str) -> None:
        self.where = where
        self.seen = Seen()
        self.t: datetime | None = None
        self.row: Row | None = None
        self.section = "gpus"

    def line(self, line: str, count: int) -> None:
        if not line:
            return
        banner = _BANNER.search(line)
        if banner:
            self.close()
            self.seen.driver, self.seen.cuda = banner.group(1), banner.group(2)
            self.section, self.seen.processes, self.seen.instances = "gpus", [], []
        elif "MIG devices" in line or "rocesses:" in line:
            self.close()
            self.section = "mig" if "MIG devices" in line else "processes"
        elif not self._data(line) and not _FURNITURE.match(line) and not self._is_time(line):
            why = "not a line of the nvidia-smi table"
            self.seen.not_understood.append(NotUnderstood(f"{self.where} line {count}", line[:200], why))

    def _is_time(self, line: str) -> bool:
        when = printed_time(line)
        self.t = when or self.t
        return when is not None

    def _data(self, line: str) -> bool:
        if self.section == "mig":
            return self._instance(line)
        if self.section == "processes":
            return self._process(line)
        return self._first(line) or self._second(line) or self._third(line)

    def _first(self, line: str) -> bool:
        match = _FIRST.match(line)
        if not match:
            return False
        self.close()
        self.row = Row(whole(match["gpu"]), self.t)
        self.row.text("name", match["name"])
        self.row.text("bus_id", match["bus"])
        self.row.measure("ecc_uncorrected", match["ecc"])  # "On" and "Off" are no counts
        return True

    def _second(self, line: str) -> bool:
        match = _SECOND.match(line)
        if not match or self.row is None:
            return False
        self.row.text("pstate", match["perf"])
        for column, name in {
            "temperature_c": "temp",
            "power_w": "power",
            "power_limit_w": "cap",
            "memory_used_mib": "used",
            "memory_total_mib": "total",
            "util_pct": "util",
        }.items():
            self.row.measure(column, match[name])
        return True

    def _third(self, line: str) -> bool:
        match = _THIRD.match(line)
        if not match or self.row is None:
            return False
        self.row.text("mig", match.group(1).rstrip("*"))
        return True

    def _instance(self, line: str) -> bool:
        match = _INSTANCE.match(line)
        if match:
            gpu, gi, ci, dev, used, total, sm, _ = match.groups()
            numbers = {"gpu": gpu, "gi": gi, "ci": ci, "dev": dev, "sm": sm}
            memory = {"memory_used_mib": number(used), "memory_total_mib": number(total)}
            self.seen.instances.append({name: whole(value) for name, value in numbers.items()} | memory)
        return match is not None or "MiB /" in line  # the second line of a device tells its BAR1 memory

    def _process(self, line: str) -> bool:
        match = _PROCESS.match(line)
        if not match:
            return False
        more = {"gi": whole(match["gi"] or ""), "ci": whole(match["ci"] or ""), "type": match["type"]}
        found = process_row(whole(match["gpu"]), match["pid"], match["name"], match["memory"], **more)
        self.seen.processes.extend([found] if found else [])
        return True

    def close(self) -> None:
        if self.row is not None:
            self.seen.gpus.append(self.row.done())
        self.row = None
