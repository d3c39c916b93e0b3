"""Memory errors, remapped rows, retired pages, PCIe replays and the fabric of a GPU, from any form of nvidia-smi. Pure.

Volatile counters begin when the driver is loaded, aggregate ones live in the card: 0 volatile after a reset is no health.
A pending remap takes effect at the next reset; a failed one means that the spare rows are used up (NVIDIA GPU Memory Error
Management, https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from diag_kit.observe.gpu_values import yes_or_no
from diag_kit.observe.raw import whole
from diag_kit.records import Fact

HEALTH_COLUMNS = {
    "gpu": "Int64",
    "bus_id": "str",
    "ecc_enabled": "boolean",
    "dram_correctable_volatile": "Int64",
    "dram_uncorrectable_volatile": "Int64",
    "sram_correctable_volatile": "Int64",
    "sram_uncorrectable_volatile": "Int64",
    "dram_correctable_aggregate": "Int64",
    "dram_uncorrectable_aggregate": "Int64",
    "sram_correctable_aggregate": "Int64",
    "sram_uncorrectable_aggregate": "Int64",
    "single_bit_volatile": "Int64",
    "double_bit_volatile": "Int64",
    "single_bit_aggregate": "Int64",
    "double_bit_aggregate": "Int64",
    "remapped_correctable_rows": "Int64",
    "remapped_uncorrectable_rows": "Int64",
    "remap_pending": "boolean",
    "remap_failed": "boolean",
    "retired_single_bit_pages": "Int64",
    "retired_double_bit_pages": "Int64",
    "retire_pending": "boolean",
    "pcie_replays": "Int64",
    "recovery_action": "str",
    "fabric_state": "str",
    "fabric_status": "str",
}

# Path in -q and -q -x (both flattened to the same spelling), or field of --query-gpu. Where several fields speak for one
# column (parity and SEC-DED), they are added up: both are errors of the same memory.
_FIELDS: dict[str, str] = {
    "ecc_mode/current": "ecc_enabled",
    "ecc_mode/current_ecc": "ecc_enabled",
    "ecc.mode.current": "ecc_enabled",
    "remapped_rows/correctable_error": "remapped_correctable_rows",
    "remapped_rows/remapped_row_corr": "remapped_correctable_rows",
    "remapped_rows.correctable": "remapped_correctable_rows",
    "remapped_rows/uncorrectable_error": "remapped_uncorrectable_rows",
    "remapped_rows/remapped_row_unc": "remapped_uncorrectable_rows",
    "remapped_rows.uncorrectable": "remapped_uncorrectable_rows",
    "remapped_rows/pending": "remap_pending",
    "remapped_rows/remapped_row_pending": "remap_pending",
    "remapped_rows.pending": "remap_pending",
    "remapped_rows/remapping_failure_occurred": "remap_failed",
    "remapped_rows/remapped_row_failure": "remap_failed",
    "remapped_rows.failure": "remap_failed",
    "retired_pages/single_bit_ecc": "retired_single_bit_pages",
    "retired_pages/multiple_single_bit_retirement/retired_count": "retired_single_bit_pages",
    "retired_pages.single_bit_ecc.count": "retired_single_bit_pages",
    "retired_pages.sbe": "retired_single_bit_pages",
    "retired_pages/double_bit_ecc": "retired_double_bit_pages",
    "retired_pages/double_bit_retirement/retired_count": "retired_double_bit_pages",
    "retired_pages.double_bit.count": "retired_double_bit_pages",
    "retired_pages.dbe": "retired_double_bit_pages",
    "retired_pages/pending_page_blacklist": "retire_pending",
    "retired_pages/pending": "retire_pending",
    "retired_pages/pending_blacklist": "retire_pending",
    "retired_pages/pending_retirement": "retire_pending",
    "retired_pages.pending": "retire_pending",
    "pci/replays_since_reset": "pcie_replays",
    "pci/replay_counter": "pcie_replays",
    "gpu_recovery_action": "recovery_action",
    "gpu_recovery_action.current": "recovery_action",
    "fabric/state": "fabric_state",
    "fabric.state": "fabric_state",
    "fabric/status": "fabric_status",
    "fabric.status": "fabric_status",
}
for _span in ("volatile", "aggregate"):
    _FIELDS[f"ecc_errors/{_span}/single_bit/total"] = f"single_bit_{_span}"
    _FIELDS[f"ecc_errors/{_span}/double_bit/total"] = f"double_bit_{_span}"
    for _old, _new in (("corrected", "correctable"), ("uncorrected", "uncorrectable")):
        for _memory in ("dram", "sram"):
            _FIELDS[f"ecc_errors/{_span}/{_memory}_{_new}"] = f"{_memory}_{_new}_{_span}"
            _FIELDS[f"ecc.errors.{_old}.{_span}.{_memory}"] = f"{_memory}_{_new}_{_span}"
    for _kind in ("parity", "sec_ded", "secded"):
        _FIELDS[f"ecc_errors/{_span}/sram_uncorrectable_{_kind}"] = f"sram_uncorrectable_{_span}"


def health_row(gpu: int | None, bus: str | None, pairs: Iterable[tuple[str, str]]) -> dict[str, Any] | None:
    """The columns that (path, value) pairs tell of; None when they tell nothing about health."""
    row: dict[str, Any] = {}
    for path, printed in pairs:
        column = _FIELDS.get(path)
        if column is None:
            continue
        kind = HEALTH_COLUMNS[column]
        value: Any = whole(printed) if kind == "Int64" else yes_or_no(printed)
        if kind == "str":
            value = None if printed.strip() in ("N/A", "[N/A]", "") else printed.strip()[:80]
        if value is not None and value != 2**32 - 1:
            row[column] = row[column] + value if kind == "Int64" and column in row else value
    return {"gpu": gpu, "bus_id": bus, **row} if row else None


def health_facts(rows: Sequence[dict[str, Any]]) -> list[Fact]:
    """gpu_ecc_uncorrected (volatile, sum), gpu_remap_pending, gpu_remap_failed, gpu_retire_pending: None where no GPU told."""
    facts: list[Fact] = []
    source = "nvidia-smi, error counters"
    names = ("dram_uncorrectable_volatile", "sram_uncorrectable_volatile", "double_bit_volatile")
    told = [(row, row[name]) for row in rows for name in names if row.get(name) is not None]
    if told:
        bad = list(dict.fromkeys(_name(row) for row, count in told if count))
        facts.append(
            Fact(
                "gpu_ecc_uncorrected",
                sum(count for _, count in told),
                source + _of(bad) + ", since the driver was loaded",
                "errors",
            )
        )
    for column in ("remap_pending", "remap_failed", "retire_pending"):
        known = [row for row in rows if row.get(column) is not None]
        if known:
            bad = [_name(row) for row in known if row[column]]
            facts.append(Fact(f"gpu_{column}", bool(bad), source + _of(bad)))
    actions = {row["recovery_action"] for row in rows if row.get("recovery_action") not in (None, "None")}
    if actions:
        bad = [_name(row) for row in rows if row.get("recovery_action") in actions]
        facts.append(Fact("gpu_recovery_action", ", ".join(sorted(actions)), source + _of(bad)))
    return facts


def _name(row: dict[str, Any]) -> str:
    """By its bus id where told: a pasted section does not say which index it is."""
    return f"GPU {row['bus_id'] or row['gpu']}" if row.get("bus_id") or row.get("gpu") is not None else "a GPU"


def _of(names: Sequence[str]) -> str:
    return f" of {', '.join(names[:8])}" if names else ""
