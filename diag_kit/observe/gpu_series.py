"""What a series of GPU rows says as a whole: means over the GPUs in use, time held back, a GPU that went silent. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, Protocol

from diag_kit.observe.gpu_links import Links
from diag_kit.records import Fact, Value

if TYPE_CHECKING:
    import pandas as pd


class Gathered(Protocol):
    """What else was seen beside the rows."""

    links: Links
    listed: int
    driver: str | None
    cuda: str | None

    @property
    def nvlink(self) -> dict[int, float]: ...


def stopped_answering(rows: Sequence[Mapping[str, Any]], listed: int) -> list[str]:
    """A GPU that gave at least two samples fewer than the others (one may be cut off at the end), or none at all."""
    counts = Counter(row["gpu"] for row in rows if row.get("gpu") is not None)
    most = max(counts.values(), default=0)
    silent = [
        f"GPU {gpu} gave {count} of {most} samples: it stopped answering (see dmesg for an Xid)"
        for gpu, count in sorted(counts.items())
        if count <= most - 2
    ]
    if counts and listed > len(counts):
        silent.append(f"{listed} GPUs are listed but only {len(counts)} answered")
    return silent


def series_facts(series: pd.DataFrame, using: Set[int], gathered: Gathered) -> tuple[Fact, ...]:
    """Facts with the source that says over which GPUs a mean was taken."""
    ids = sorted({int(gpu) for gpu in series["gpu"].dropna()})
    busy, who = _in_use(series, using, ids)
    samples = int(series.groupby("gpu").size().max()) if ids else 0
    over = f"nvidia-smi, mean over {who}, {samples} samples"
    power = (busy["power_w"] / busy["power_limit_w"]).mean() if len(busy) else None
    names = list(dict.fromkeys(series["name"].dropna()))
    values: list[tuple[str, Value, str, str]] = [
        ("driver_version", gathered.driver, "nvidia-smi", ""),
        ("cuda_version", gathered.cuda, "nvidia-smi", ""),
        ("gpu_count", max(gathered.listed, len(ids)) or None, "nvidia-smi", "GPUs"),
        ("gpu_name", ", ".join(names) or None, "nvidia-smi", ""),
        ("gpus_in_use", busy["gpu"].nunique() if who.startswith("the GPUs") else None, "nvidia-smi", "GPUs"),
        ("gpu_util_pct", _mean(busy, "util_pct"), over, "%"),
        ("gpu_power_w", _mean(busy, "power_w"), over, "W"),
        ("gpu_power_limit_w", _mean(busy, "power_limit_w"), over, "W"),
        ("gpu_power_fraction", _known(power), f"{over}, power / limit", ""),
        ("gpu_power_cap_fraction", _held_back(series, ("power_cap_us",)), "nvidia-smi counters, worst GPU", ""),
        ("gpu_thermal_fraction", _held_back(series, ("sw_thermal_us", "hw_thermal_us")), "nvidia-smi counters, worst GPU", ""),
        ("nvlink", gathered.links.nvlink or ("present" if gathered.nvlink else None), "nvidia-smi topo -m", ""),
    ]
    return tuple(Fact(name, value, source, unit) for name, value, source, unit in values if value is not None)


def _in_use(series: pd.DataFrame, using: Set[int], ids: Sequence[int]) -> tuple[pd.DataFrame, str]:
    """The rows of GPUs with a process or with any load; all rows where no GPU shows either."""
    loaded = {int(gpu) for gpu in series.loc[series["util_pct"] > 0, "gpu"].dropna()}
    chosen = sorted((set(using) | loaded) & set(ids))
    if not chosen:
        return series, f"all {len(ids)} GPUs (none in use)" if ids else "all rows"
    names = ", ".join(str(gpu) for gpu in chosen)
    return series[series["gpu"].isin(chosen)], f"the GPUs in use ({names})"


def _known(value: Any) -> float | None:
    return None if value is None or value != value else float(value)


def _mean(rows: pd.DataFrame, column: str) -> float | None:
    return _known(rows[column].mean()) if len(rows) else None


def _held_back(series: pd.DataFrame, columns: tuple[str, ...]) -> float | None:
    """Share of the time between first and last sample in which a counter ran, for the GPU where it is largest."""
    shares = []
    for _, rows in series.dropna(subset=["t"]).groupby("gpu"):
        seconds = (rows["t"].max() - rows["t"].min()).total_seconds()
        for column in columns:
            grown = rows[column].max() - rows[column].min() if rows[column].notna().sum() >= 2 else None
            if grown is not None and seconds > 0:
                shares.append(min(1.0, float(grown) / 1e6 / seconds))
    return max(shares) if shares else None


def summary(series: pd.DataFrame, facts: tuple[Fact, ...], problems: Sequence[str]) -> str:
    """One line for the card. Utilisation is named for what it is."""
    known = {fact.name: fact.value for fact in facts}
    if not len(series):
        return problems[0] if problems else "; ".join(f"{name} {value}" for name, value in known.items()) or "no GPU row"
    pieces = [f"{known.get('gpu_count', '?')} x {known.get('gpu_name', 'GPU')}"]
    if "gpus_in_use" in known:
        pieces.append(f"{known['gpus_in_use']} in use")
    if "gpu_util_pct" in known:
        pieces.append(f"some kernel running {known['gpu_util_pct']:.0f} % of the time")
    else:
        pieces.append("utilisation not told")
    if "gpu_power_w" in known and "gpu_power_fraction" in known:
        share = 100 * float(known["gpu_power_fraction"] or 0)
        pieces.append(f"{known['gpu_power_w']:.0f} of {known.get('gpu_power_limit_w', 0):.0f} W ({share:.0f} %)")
    held = sorted({word for text in series["reasons"].dropna() for word in text.split(", ") if word} - {"idle"})
    if held:
        pieces.append("clocks held back by " + ", ".join(held))
    if "nvlink" in known:
        pieces.append(f"NVLink {known['nvlink']}")
    return ", ".join(pieces)
