"""What follows from rows of nvidia-smi alone: memory that no process explains, low clocks, reduced PCIe links. Pure.

Only statements of fact, no verdict: a link at Gen1 on an idle GPU and clocks held at the power limit are normal, and are said so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from diag_kit.observe.raw import frame
from diag_kit.records import Fact

if TYPE_CHECKING:
    import pandas as pd

MEMORY_COLUMNS = {
    "gpu": "Int64",
    "memory_used_mib": "float64",
    "processes": "Int64",
    "by_processes_mib": "float64",
    "unexplained_mib": "float64",
}
PCIE_COLUMNS = {
    "gpu": "Int64",
    "pcie_gen": "Int64",
    "pcie_gen_max": "Int64",
    "pcie_width": "Int64",
    "pcie_width_max": "Int64",
    "under_load": "boolean",
    "says": "str",
}
CLOCK_COLUMNS = {
    "gpu": "Int64",
    "samples": "Int64",
    "busy_samples": "Int64",
    "sm_clock_mhz": "float64",
    "sm_clock_max_mhz": "float64",
    "pstate": "str",
    "reasons": "str",
}
BUSY_PCT = 10.0
"""From here a GPU counts as not idle, where its clocks and its link should have woken up."""
LOW_CLOCK = 0.6
"""Share of the highest SM clock below which a busy GPU is named. Base clocks of data-centre GPUs stand above it (A100: 1095 of
1410 MHz, H100 SXM: 1590 of 1980 MHz; TechPowerUp's database), and a power cap rarely goes there."""


def memory_table(series: pd.DataFrame, processes: Sequence[Mapping[str, Any]], listed: bool) -> pd.DataFrame:
    """Memory used on each GPU at the last sample, and what its listed processes hold. Empty without a list of processes.

    Unknown where the memory of a process on that GPU is ("N/A": Windows, another user). Before driver 510 ``memory.used``
    holds the driver's own reserve too (a few hundred MiB, nvidia-smi release notes).
    """
    rows: list[dict[str, Any]] = []
    unplaced = any(process.get("gpu") is None for process in processes)
    if listed and not unplaced and len(series):
        last = series.dropna(subset=["gpu", "memory_used_mib"]).drop_duplicates("gpu", keep="last")
        for gpu, used in zip(last["gpu"], last["memory_used_mib"], strict=True):
            held = [process.get("memory_used_mib") for process in processes if process.get("gpu") == gpu]
            told = [float(mib) for mib in held if mib is not None]
            known = sum(told) if len(told) == len(held) else None
            left = None if known is None else max(0.0, float(used) - known)
            rows.append(
                {
                    "gpu": int(gpu),
                    "memory_used_mib": used,
                    "processes": len(held),
                    "by_processes_mib": known,
                    "unexplained_mib": left,
                }
            )
    return frame(rows, MEMORY_COLUMNS)


def memory_facts(table: pd.DataFrame) -> list[Fact]:
    """gpu_memory_unexplained_mib: of the GPU where it is most. A container sees no process of its host, nor its own."""
    known = table.dropna(subset=["unexplained_mib"])
    if not len(known):
        return []
    worst = max(known.to_dict("records"), key=lambda row: float(row["unexplained_mib"]))
    used, processes = f"{worst['memory_used_mib']:.0f} MiB in use", f"its {worst['processes']} listed processes"
    source = f"nvidia-smi: GPU {worst['gpu']} has {used}, {processes} hold {worst['by_processes_mib']:.0f} MiB"
    return [Fact("gpu_memory_unexplained_mib", float(worst["unexplained_mib"]), source, "MiB")]


def clock_table(series: pd.DataFrame) -> pd.DataFrame:
    """SM clock of each GPU, median over the samples in which it was busy (else over all), with pstate and reasons there."""
    rows: list[dict[str, Any]] = []
    known = series.dropna(subset=["gpu", "sm_clock_mhz"])
    for gpu in sorted({int(each) for each in known["gpu"]}):
        group = known[known["gpu"] == gpu]
        busy = group[group["util_pct"] >= BUSY_PCT]
        chosen = busy if len(busy) else group
        words = dict.fromkeys(word for text in chosen["reasons"].dropna() for word in text.split(", ") if word)
        rows.append(
            {
                "gpu": gpu,
                "samples": len(group),
                "busy_samples": len(busy),
                "sm_clock_mhz": float(chosen["sm_clock_mhz"].median()),
                "sm_clock_max_mhz": float(chosen["sm_clock_max_mhz"].max()) if chosen["sm_clock_max_mhz"].notna().any() else None,
                "pstate": ", ".join(dict.fromkeys(chosen["pstate"].dropna())) or None,
                "reasons": ", ".join(words) if chosen["reasons"].notna().any() else None,
            }
        )
    return frame(rows, CLOCK_COLUMNS)


def clock_facts(table: pd.DataFrame) -> list[Fact]:
    """gpu_sm_clock_fraction of the slowest busy GPU, and gpus_on_low_clocks: busy below LOW_CLOCK, with the driver's reason."""
    known = table[(table["busy_samples"] > 0) & table["sm_clock_max_mhz"].notna()]
    if not len(known):
        return []
    shares = [(float(row["sm_clock_mhz"]) / float(row["sm_clock_max_mhz"]), row) for row in known.to_dict("records")]
    least, worst = min(shares, key=lambda pair: pair[0])
    clocks = "GPU {gpu} at {sm_clock_mhz:.0f} of {sm_clock_max_mhz:.0f} MHz"
    slow = [row for share, row in shares if share < LOW_CLOCK]
    said = [clocks.format_map(row) + _in_brackets(row["pstate"], row["reasons"]) for row in slow]
    source = "nvidia-smi while busy"
    return [
        Fact("gpu_sm_clock_fraction", round(least, 4), f"{source}: {clocks.format_map(worst)}"),
        Fact("gpus_on_low_clocks", len(slow), source + (": " + "; ".join(said) if said else ""), "GPUs"),
    ]


def _in_brackets(*words: Any) -> str:
    told = [word for word in words if isinstance(word, str) and word]
    return f" ({', '.join(told)})" if told else ""


def pcie_table(series: pd.DataFrame) -> pd.DataFrame:
    """The PCIe link of each GPU at its best sample, against the most that GPU and slot can do together.

    ``under_load`` is unknown without utilisation. Drivers lower generation and width of an idle link to save power
    (nvidia-smi man page, "PCIe Generation": they may be reduced when the GPU is not in use): only a link under load tells.
    """
    rows: list[dict[str, Any]] = []
    known = series.dropna(subset=["gpu"])
    known = known[known[["pcie_gen", "pcie_width"]].notna().any(axis=1)]
    for gpu in sorted({int(each) for each in known["gpu"]}):
        group = known[known["gpu"] == gpu]
        busy = group[group["util_pct"] >= BUSY_PCT]
        chosen = busy if len(busy) else group
        row: dict[str, Any] = {"gpu": gpu}
        for column in ("pcie_gen", "pcie_gen_max", "pcie_width", "pcie_width_max"):
            row[column] = int(chosen[column].max()) if chosen[column].notna().any() else None
        row["under_load"] = bool(len(busy)) if group["util_pct"].notna().any() else None
        rows.append({**row, "says": _says(row)})
    return frame(rows, PCIE_COLUMNS)


def _says(row: Mapping[str, Any]) -> str:
    pairs = (("generation", row["pcie_gen"], row["pcie_gen_max"]), ("width", row["pcie_width"], row["pcie_width_max"]))
    low = [f"{name} {now} of {most}" for name, now, most in pairs if now is not None and most is not None and now < most]
    if not low:
        return "at its maximum" if any(now is not None and now == most for _, now, most in pairs) else "maximum not told"
    if row["under_load"]:
        return f"{' and '.join(low)} under load: reduced"
    if row["under_load"] is False:
        return f"{' and '.join(low)} while idle: normal power saving, to be judged under load"
    return f"{' and '.join(low)}, load not told: may be power saving"


def pcie_facts(table: pd.DataFrame) -> list[Fact]:
    """pcie_reduced_under_load and pcie_low_at_idle: how many GPUs; the second is no fault."""
    facts: list[Fact] = []
    for name, loaded, ending in (("pcie_reduced_under_load", True, "reduced"), ("pcie_low_at_idle", False, "under load")):
        pool = [row for row in table.to_dict("records") if row["under_load"] is loaded and row["says"] != "maximum not told"]
        found = [row for row in pool if row["says"].endswith(ending)]
        said = "; ".join(f"GPU {row['gpu']} {row['says']}" for row in found)
        if pool:
            facts.append(Fact(name, len(found), "nvidia-smi" + (f": {said}" if said else ""), "GPUs"))
    return facts
