"""The table that plain ``nvidia-smi`` prints, drivers 331 to 610, with MIG devices and processes. Pure.

Lines are told by the shape of their cells, not by their number: drivers differ in banner, column widths and lines per GPU. A
terminal that is narrower than the table (``watch`` cuts at its width) loses the last cells: those values are missing, not 0.
"""

from __future__ import annotations

import re
from datetime import datetime

from diag_kit.observe.gpu_values import Row, Seen, process_row
from diag_kit.observe.raw import number, printed_time, whole
from diag_kit.records import NotUnderstood

MAX_LINE = 2000
"""Of a line longer than that only the start is looked at."""
_BANNER = re.compile(r"NVIDIA-SMI\s+\S+")
_DRIVER = re.compile(r"Driver Version:\s*([\d.]+)")
_CUDA = re.compile(r"CUDA (?:UMD )?Version:\s*([\d.]+)")
_FIRST = re.compile(
    r"^\s*(?P<gpu>\d+)\s+(?P<name>\S.*?)\s*(?:\s(?:On|Off|N/A|WDDM|TCC|MCDM|ERR!|Enabled|Disabled|Unknown Error))?\s*$"
)
_BUS = re.compile(r"^\s*(?P<bus>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\b")
_SECOND = re.compile(
    r"^\s*(?P<fan>\S+)\s+(?P<temp>\S+)\s+(?P<perf>\S+)\s+(?P<power>Unknown Error|\S+)\s*/\s*(?P<cap>Unknown Error|\S+)\s*$"
)
_MEMORY = re.compile(r"^\s*(?P<used>\d+\s?MiB|N/A|ERR!)\s*/\s*(?P<total>\d+\s?MiB|N/A|ERR!)\s*$")
_UTIL = re.compile(r"^\s*(\d+\s?%|N/A|ERR!|Unknown Error|\[?N/A\]?)(?:\s|$)")
_BUS_CUT = re.compile(r"^\s*[0-9A-Fa-f]{4,8}:[0-9A-Fa-f:.]{0,7}$")
_MIG = re.compile(r"^\s*(Enabled\*?|Disabled\*?|N/A|ERR!)\s*$")
_INSTANCE = re.compile(r"^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s*$")
_SHARE = re.compile(r"^\s*(\d+|N/A)\s+(\d+|N/A|ERR!)\s*$")
_PROCESS = re.compile(
    r"^\|\s+(?P<gpu>\d+)\s+(?:(?P<gi>\d+|N/A)\s+(?P<ci>\d+|N/A)\s+)?(?P<pid>\d+)\s+(?:(?P<type>M\+C\+G|M\+C|C\+G|[CGM])\s+)?"
    r"(?P<name>\S.*)$"
)
_MEMORY_OF_PROCESS = re.compile(r"\s(\d+\s?MiB|N/A)\s*\|\s*$")
_FURNITURE = re.compile(
    r"^[+|][-=+|]*$|^\|\s*(GPU\s|Fan\s|ID\s|MIG devices|Processes|Compute processes|No running|No MIG|\|.*MIG M\.|\|.*ECC)"
    r"|^\|[\s|]*\|?$|^[-=+]+$|^\|[\s|]*(?:MIG M\.|ECC\s*\|?)\s*\|?$"
)
_WATCH = re.compile(r"^Every [\d.,]{1,12}s: .{0,200}?(?:: ([A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}))?$")
_NO_NUMBERS = re.compile(r"^\|\s+\d+\s+(?:N/A\s+N/A\s+)?(?:Not Supported|N/A)\s*\|?\s*$")


def read_table(text: str, where: str = "nvidia-smi") -> Seen:
    """Every table in the text: one row per GPU and table, its processes (of the last table), its MIG devices."""
    reader = _Reader(where)
    for count, line in enumerate(text.splitlines(), start=1):
        reader.line(line.strip()[:MAX_LINE], count)
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
        if _BANNER.search(line) and "Driver Version" in line:
            self._banner(line)
        elif "MIG devices" in line or "rocesses:" in line:
            self.close()
            self.section = "mig" if "MIG devices" in line else "processes"
            self.seen.processes_listed |= self.section == "processes"
        elif not self._data(line) and not _FURNITURE.match(line) and not self._is_time(line):
            why = "not a line of the nvidia-smi table"
            self.seen.not_understood.append(NotUnderstood(f"{self.where} line {count}", line[:200], why))

    def _banner(self, line: str) -> None:
        self.close()
        driver, cuda = _DRIVER.search(line), _CUDA.search(line)
        self.seen.driver, self.seen.cuda = driver[1] if driver else None, cuda[1] if cuda else None
        self.section, self.seen.processes, self.seen.instances = "gpus", [], []
        self.seen.processes_listed = False

    def _is_time(self, line: str) -> bool:
        watched = _WATCH.match(line)
        when = printed_time((watched[1] or "") if watched else line)
        self.t = when or self.t
        return when is not None or watched is not None

    def _data(self, line: str) -> bool:
        if self.section == "processes":
            return self._process(line) or bool(_NO_NUMBERS.match(line))
        if not line.startswith("|") or len(line) < 3:
            return False
        cells = line[1:].split("|")
        whole_line = line.endswith("|")
        cells = cells[:-1] if whole_line else cells
        if self.section == "mig":
            return self._instance(cells)
        return self._first(cells, whole_line) or self._second(cells) or self._third(cells)

    def _first(self, cells: list[str], whole_line: bool) -> bool:
        match, bus = _FIRST.match(cells[0]), _BUS.match(cells[1]) if len(cells) > 1 else None
        cut = not whole_line and len(cells) == 2 and _BUS_CUT.match(cells[1])
        if not match or not (bus or cut):
            return False
        self.close()
        self.row = Row(whole(match["gpu"]), self.t)
        self.row.text("name", match["name"])
        self.row.text("bus_id", bus["bus"] if bus else "cut off")
        if len(cells) > 3 or (len(cells) == 3 and whole_line):
            self.row.measure("ecc_uncorrected", cells[2])  # "On" and "Off" are no counts
        return True

    def _second(self, cells: list[str]) -> bool:
        match = _SECOND.match(cells[0])
        if not match or self.row is None:
            return False
        self.row.text("pstate", match["perf"])
        for column, name in {"temperature_c": "temp", "power_w": "power", "power_limit_w": "cap"}.items():
            self.row.measure(column, match[name])
        memory = cells[1] if len(cells) > 1 else ""
        amounts = _MEMORY.match(memory)
        for column, name in {"memory_used_mib": "used", "memory_total_mib": "total"}.items():
            self.row.measure(column, amounts[name] if amounts else memory.strip() or "cut off")
        util = _UTIL.match(cells[2]) if len(cells) > 2 else None
        self.row.measure("util_pct", util[1] if util else (cells[2].strip() if len(cells) > 2 else "") or "cut off")
        return True

    def _third(self, cells: list[str]) -> bool:
        match = _MIG.match(cells[2]) if len(cells) > 2 and not (cells[0].strip() or cells[1].strip()) else None
        if not match or self.row is None:
            return False
        self.row.text("mig", match[1].rstrip("*"))
        return True

    def _instance(self, cells: list[str]) -> bool:
        ids = _INSTANCE.match(cells[0])
        if not ids:
            return len(cells) > 1 and not cells[0].strip() and "MiB /" in cells[1]  # the second line: its BAR1 memory
        amounts = _MEMORY.match(cells[1]) if len(cells) > 1 else None
        share = _SHARE.match(cells[2]) if len(cells) > 2 else None
        row: dict[str, object] = {
            name: whole(value) for name, value in zip(("gpu", "gi", "ci", "dev"), ids.groups(), strict=True)
        }
        for column, name in {"memory_used_mib": "used", "memory_total_mib": "total"}.items():
            row[column] = number(amounts[name].removesuffix("MiB")) if amounts else None
        row["sm"], row["ecc_uncorrected"] = (whole(share[1]), whole(share[2])) if share else (None, None)
        self.seen.instances.append(row)
        return True

    def _process(self, line: str) -> bool:
        match = _PROCESS.match(line)
        if not match:
            return False
        memory = _MEMORY_OF_PROCESS.search(line[match.start("name") - 1 :])
        name = match["name"][: memory.start() - 1 if memory else None].rstrip(" |")
        more = {"gi": whole(match["gi"] or ""), "ci": whole(match["ci"] or ""), "type": match["type"]}
        found = process_row(whole(match["gpu"]), match["pid"], name, memory[1] if memory else "", **more)
        self.seen.processes.extend([found] if found else [])
        return True

    def close(self) -> None:
        if self.row is not None:
            self.seen.gpus.append(self.row.done())
        self.row = None
