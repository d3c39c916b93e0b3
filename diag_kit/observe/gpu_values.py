"""What nvidia-smi says about a GPU at one moment: columns, missing values with their reason, clock reasons in words. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from diag_kit.observe.raw import number, whole
from diag_kit.records import NotUnderstood

GPU_COLUMNS = {
    "t": "time",
    "gpu": "Int64",
    "name": "str",
    "util_pct": "float64",
    "memory_used_mib": "float64",
    "memory_total_mib": "float64",
    "power_w": "float64",
    "power_limit_w": "float64",
    "sm_clock_mhz": "float64",
    "sm_clock_max_mhz": "float64",
    "temperature_c": "float64",
    "pcie_gen": "Int64",
    "pcie_gen_max": "Int64",
    "pcie_width": "Int64",
    "pcie_width_max": "Int64",
    "reasons": "str",
    "pstate": "str",
    "memory_util_pct": "float64",
    "memory_temperature_c": "float64",
    "memory_clock_mhz": "float64",
    "memory_reserved_mib": "float64",
    "pcie_rx_mb_per_s": "float64",
    "pcie_tx_mb_per_s": "float64",
    "ecc_uncorrected": "Int64",
    "power_cap_us": "Int64",
    "sw_thermal_us": "Int64",
    "hw_thermal_us": "Int64",
    "power_brake_us": "Int64",
    "sync_boost_us": "Int64",
    "mig": "str",
    "uuid": "str",
    "bus_id": "str",
    "missing": "str",
}
PROCESS_COLUMNS = {
    "pid": "Int64",
    "gpu": "Int64",
    "gpu_uuid": "str",
    "gi": "Int64",
    "ci": "Int64",
    "type": "str",
    "name": "str",
    "memory_used_mib": "float64",
}
PROCESS_SAMPLE_COLUMNS = {
    "t": "time",
    "sample": "Int64",
    "gpu": "Int64",
    "pid": "Int64",
    "type": "str",
    "util_pct": "float64",
    "memory_util_pct": "float64",
    "memory_used_mib": "float64",
    "name": "str",
}
INSTANCE_COLUMNS = {
    "gpu": "Int64",
    "gi": "Int64",
    "ci": "Int64",
    "dev": "Int64",
    "memory_used_mib": "float64",
    "memory_total_mib": "float64",
    "sm": "Int64",
    "ecc_uncorrected": "Int64",
    "profile": "str",
    "profile_id": "Int64",
    "placement": "str",
    "uuid": "str",
}
PROFILE_COLUMNS = {
    "gpu": "Int64",
    "profile": "str",
    "profile_id": "Int64",
    "free": "Int64",
    "total": "Int64",
    "memory_gib": "float64",
}
FIELD_COLUMNS = {"gpu": "Int64", "field": "str", "value": "str"}
CLOCK_REASONS: Mapping[int, tuple[str, str]] = {
    0x001: ("idle", "nothing runs: no fault"),
    0x002: ("applications_clocks", "limited by the applications clocks that somebody set"),
    0x004: ("sw_power_cap", "held at the power limit: usual at full load"),
    0x008: ("hw_slowdown", "hardware slowdown by a factor of 2 or more"),
    0x010: ("sync_boost", "held back to the slowest GPU of its sync boost group"),
    0x020: ("sw_thermal_slowdown", "above its highest operating temperature"),
    0x040: ("hw_thermal_slowdown", "too hot: slowed down by a factor of 2 or more"),
    0x080: ("hw_power_brake", "the power supply asks to slow down by a factor of 2 or more"),
    0x100: ("display_clocks", "limited by the display clock setting"),
}
"""Bit of ``clocks_event_reasons.active`` -> word used in column ``reasons``, and what it means (NVML API reference,
NvmlClocksEventReasons; before that NvmlClocksThrottleReasons with the same bits)."""

# The most that a real GPU can print. Beyond stand the sentinels of drivers: 2**32-1 mW (4294967.29 W), 2**64-1 bytes, 255 C.
_PLAUSIBLE = {
    "util_pct": (0, 100),
    "memory_util_pct": (0, 100),
    "memory_used_mib": (0, 1e8),
    "memory_total_mib": (1, 1e8),
    "power_w": (0, 1e4),
    "power_limit_w": (1, 1e4),
    "sm_clock_mhz": (0, 1e4),
    "sm_clock_max_mhz": (1, 1e4),
    "temperature_c": (-40, 200),
    "memory_temperature_c": (-40, 200),
    "pcie_gen": (1, 16),
    "pcie_gen_max": (1, 16),
    "pcie_width": (1, 64),
    "pcie_width_max": (1, 64),
    "ecc_uncorrected": (0, 2**53),
    "memory_clock_mhz": (0, 1e5),
    "memory_reserved_mib": (0, 1e8),
    "pcie_rx_mb_per_s": (0, 1e6),
    "pcie_tx_mb_per_s": (0, 1e6),
}
_UNIT = re.compile(r"\s*(%|[KMGT]i?B|B|mW|W|MHz|°?C|us|x|[KMG]B/s)$")


@dataclass(slots=True)
class Seen:
    """What one text of nvidia-smi held."""

    gpus: list[dict[str, Any]] = field(default_factory=list)
    processes: list[dict[str, Any]] = field(default_factory=list)
    instances: list[dict[str, Any]] = field(default_factory=list)
    samples: list[dict[str, Any]] = field(default_factory=list)
    profiles: list[dict[str, Any]] = field(default_factory=list)
    health: list[dict[str, Any]] = field(default_factory=list)
    fields: list[dict[str, Any]] = field(default_factory=list)
    processes_listed: bool = False
    """A list of processes was there, even an empty one: only then is memory without a process a finding."""
    driver: str | None = None
    cuda: str | None = None
    headers: int = 0  # a header without rows is an answer too: no process, no sample yet
    not_understood: list[NotUnderstood] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


class Row:
    """One GPU at one moment, filled column by column; a value that is not one leaves its reason in ``missing``."""

    def __init__(self, gpu: int | None, t: datetime | None = None) -> None:
        self.values: dict[str, Any] = {"gpu": gpu, "t": t}
        self.why: dict[str, str] = {}

    def text(self, column: str, printed: str) -> None:
        if no_value(printed):
            self.why.setdefault(column, reason_of(printed))
        elif self.values.get(column) is None:
            self.values[column] = printed.strip()[:200]

    def measure(self, column: str, printed: str) -> None:
        """The first known value for a column stays: several fields may speak for one (power.draw, power.draw.instant)."""
        if self.values.get(column) is not None:
            return
        value = number(_UNIT.sub("", printed.strip()))
        low, high = _PLAUSIBLE.get(column, (0, 2**53))
        if value is None:
            self.why.setdefault(column, reason_of(printed))
        elif not low <= value <= high:
            self.why.setdefault(column, f"implausible {printed.strip()[:40]}")
        else:
            self.values[column] = round(value) if GPU_COLUMNS[column] == "Int64" else value

    def clock_reasons(self, printed: str) -> None:
        words = reasons_from_bits(printed)
        if words is None:
            self.why.setdefault("reasons", reason_of(printed))
        else:
            self.values["reasons"] = words

    def done(self) -> dict[str, Any]:
        missing = {name: why for name, why in self.why.items() if self.values.get(name) is None}
        return {**self.values, "missing": "; ".join(f"{name}: {why}" for name, why in missing.items()) or None}


_ALSO_NO_VALUE = (
    "gpu is lost",
    "insufficient permissions",
    "not available",
    "not active",
    "function not found",
    "unknown",
    "nan",
    "cut off",
)


def no_value(printed: str) -> bool:
    """N/A, [N/A], [Not Supported], ERR!, [Unknown Error], - and the like."""
    text = printed.strip()
    words = ("n/a", "err!", "-", "", "unknown error", "not supported", "none", "requested functionality has been deprecated")
    return text.startswith("[") or text.lower() in words or text.lower() in _ALSO_NO_VALUE


def number_of(printed: str) -> float | None:
    """A printed amount without its unit; None when it is none."""
    return number(_UNIT.sub("", printed.strip()))


def yes_or_no(printed: str) -> bool | None:
    """Yes, Active, Enabled, Pending, 1 and their contraries; None for anything else ("N/A", "")."""
    word = printed.strip().lower()
    if word in ("yes", "active", "enabled", "true", "1", "on"):
        return True
    return False if word in ("no", "not active", "disabled", "false", "0", "off", "inactive") else None


def reason_of(printed: str) -> str:
    return printed.strip().strip("[]")[:60] or "empty"


def reasons_from_bits(printed: str) -> str | None:
    """``0x0000000000000044`` -> "sw_power_cap, hw_thermal_slowdown"; "" for none; None when it is no bit mask."""
    text = printed.strip()
    if not re.fullmatch(r"0[xX][0-9A-Fa-f]{1,16}|\d{1,19}", text):
        return None
    bits = int(text, 16) if text[:2].lower() == "0x" else int(text)
    if bits in (2**32 - 1, 2**64 - 1):  # all bits at once: the driver's way to say that it does not know
        return None
    words = [word for bit, (word, _) in CLOCK_REASONS.items() if bits & bit]
    other = bits & ~sum(CLOCK_REASONS)
    return join_reasons([*words, *([f"bit_{other:#x}"] if other else [])])


def join_reasons(words: list[str]) -> str:
    """In words; "hw_slowdown" is the parent of thermal and brake and is not named beside them."""
    if {"hw_thermal_slowdown", "hw_power_brake"} & set(words):
        words = [word for word in words if word != "hw_slowdown"]
    return ", ".join(words)


def process_row(gpu: int | None, pid: str, name: str, memory: str, **more: Any) -> dict[str, Any] | None:
    """A process on a GPU; None when there is no process id (0 processes, "-", a process of another container)."""
    found = whole(pid)
    if found is None or found <= 0:
        return None
    used = number(_UNIT.sub("", memory.strip()))
    return {"pid": found, "gpu": gpu, "name": name.strip()[:300], "memory_used_mib": used, **more}
