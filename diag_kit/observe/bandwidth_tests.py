"""Measured bandwidths that people paste: nccl-tests (all_reduce_perf, ...) and CUDA's p2pBandwidthLatencyTest."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from diag_kit.errors import NothingToObserve
from diag_kit.evidence import Evidence
from diag_kit.hosts.protocol import Host
from diag_kit.observe.probe import probe
from diag_kit.observe.raw import frame, number, whole, why_cut_short
from diag_kit.records import CommandResult, Cost, Fact, NotUnderstood, Parsed, Value

TEST_COLUMNS = {
    "line": "Int64",
    "test": "str",
    "size_bytes": "Int64",
    "count": "Int64",
    "dtype": "str",
    "redop": "str",
    "root": "Int64",
    "in_place": "boolean",
    "time_us": "float64",
    "algbw_gb_per_s": "float64",
    "busbw_gb_per_s": "float64",
    "wrong": "Int64",
}
DEVICE_COLUMNS = {"rank": "Int64", "pid": "Int64", "host": "str", "device": "Int64", "bus": "str", "name": "str"}
PAIR_COLUMNS = {
    "line": "Int64",
    "measure": "str",
    "p2p": "boolean",
    "bidirectional": "boolean",
    "gpu_a": "Int64",
    "gpu_b": "Int64",
    "value": "float64",
    "unit": "str",
}
_PREFIX = re.compile(r"^(?:\[\d+,\d+\]<\w+>:|\d{1,6}: |\[\d{1,6}\]: ?)")
_NAME = re.compile(r"\b(all_reduce|all_gather|reduce_scatter|broadcast|reduce|alltoall|sendrecv|scatter|gather|hypercube)_perf\b")
_DEVICE = re.compile(
    r"^#\s+Rank\s+(?P<rank>\d+) (?:Group\s+\d+ )?Pid\s+(?P<pid>\d+) on\s+(?P<host>\S+) device\s+(?P<device>\d+) "
    r"\[(?P<bus>[^\]]{1,20})\] (?P<name>.{1,80})$"
)
_AVERAGE = re.compile(r"^#\s*Avg bus bandwidth\s*:\s*(\S{1,30})")
_WRONG = re.compile(r"^#\s*Out of bounds values\s*:\s*(\d{1,18})")
_TITLE = re.compile(
    r"^(?:(?P<way>Uni|Bi)directional )?P2P=(?P<p2p>Enabled|Disabled) (?P<what>Bandwidth|Latency)\b.{0,40}Matrix "
    r"\((?P<unit>[\w/]{1,8})\)"
)
_MAX_NOT_UNDERSTOOD = 200


@dataclass(slots=True)
class _Seen:
    rows: list[dict[str, Any]] = field(default_factory=list)
    devices: list[dict[str, Any]] = field(default_factory=list)
    pairs: list[dict[str, Any]] = field(default_factory=list)
    averages: list[float] = field(default_factory=list)
    wrong: int | None = None
    not_understood: list[NotUnderstood] = field(default_factory=list)


@probe
@dataclass(frozen=True)
class BandwidthTests:
    """Bandwidths that somebody measured; the kit runs no such test itself, since it loads the links.

    Equivalent, for you to run: ``all_reduce_perf -b 8M -e 1G -f 2 -g N`` (https://github.com/NVIDIA/nccl-tests),
    ``p2pBandwidthLatencyTest`` (CUDA samples).

    Tables: ``nccl_tests`` (line test size_bytes count dtype redop root in_place time_us algbw_gb_per_s busbw_gb_per_s wrong;
    columns by the header of the version: some lack redop or root, new ones end in #iters; "N/A" is missing),
    ``nccl_test_devices`` (rank pid host device bus name), ``gpu_pair_bandwidth`` (line measure p2p bidirectional gpu_a gpu_b
    value unit). The diagonal of a matrix is the GPU's own memory and is no link.

    Facts: nccl_test, nccl_test_ranks, nccl_test_largest_size_bytes, nccl_test_busbw_gb_per_s and nccl_test_time_us (out of
    place at that size), nccl_test_best_busbw_gb_per_s, nccl_test_avg_busbw_gb_per_s (as printed: a mean over all sizes, low by
    small ones), nccl_test_wrong; p2p_min_gb_per_s, p2p_max_gb_per_s (unidirectional, P2P on where both were measured),
    p2p_slowest_gpu (all its pairs are slower than all pairs without it) and p2p_slowdown (mean of the other pairs over mean
    of its own).
    """

    name: ClassVar[str] = "bandwidth_tests"
    cost: ClassVar[Cost] = Cost.READ_ONLY
    equivalent: ClassVar[str] = "all_reduce_perf -b 8M -e 1G -f 2 -g N (adds load: for you to run)"
    reads: ClassVar[tuple[str, ...]] = ("nccl_tests", "p2p_bandwidth")

    @property
    def budget_s(self) -> float:
        return 0.0

    def collect(self, host: Host, known: Evidence, stop: threading.Event | None = None) -> tuple[CommandResult, ...]:
        raise NothingToObserve(
            "bandwidth tests load the links and are not run by the kit", next_step="run them yourself and paste the output"
        )

    def read(self, results: tuple[CommandResult, ...]) -> Parsed:
        seen = _Seen()
        problems: list[str] = []
        for result in results:
            _read(seen, result.text, result.command)
            problems.extend(filter(None, [why_cut_short(result)]))
        facts = (*_test_facts(seen), *_pair_facts(seen.pairs))
        tables = {
            "nccl_tests": frame(seen.rows, TEST_COLUMNS),
            "nccl_test_devices": frame(seen.devices, DEVICE_COLUMNS),
            "gpu_pair_bandwidth": frame(seen.pairs, PAIR_COLUMNS),
        }
        return Parsed(
            summary=", ".join(f"{fact.name} {fact.value}" for fact in facts[:6]) or "no result of a bandwidth test",
            facts=facts,
            tables={name: table for name, table in tables.items() if len(table)},
            not_understood=tuple(seen.not_understood[:_MAX_NOT_UNDERSTOOD]),
            problems=tuple(problems),
        )


def _read(seen: _Seen, text: str, where: str) -> None:
    header: list[str] = []
    test: str | None = None
    matrix: re.Match[str] | None = None
    columns: list[int] = []
    for count, line in enumerate(text.splitlines(), start=1):
        line = _PREFIX.sub("", line[:4000]).strip()
        named = _NAME.search(line)
        test = named[0] if named else test
        title = _TITLE.match(line)
        words = line.split()
        if title:
            matrix, columns, header = title, [], []
        elif line.startswith("#") or not words:
            header = _comment(seen, line, words) or header
        elif matrix and words[0] in ("D\\D", "GPU", "CPU") and all(whole(word) is not None for word in words[1:]):
            columns = [int(word) for word in words[1:]]
        elif matrix and columns and len(words) == len(columns) + 1 and _is_matrix_row(words):
            _matrix_row(seen, matrix, columns, words, count)
        elif not (header and _test_row(seen, header, words, test, count)) and not named:
            why = "not a row of a bandwidth test"
            seen.not_understood.append(NotUnderstood(f"{where} line {count}", line[:200], why))


def _is_matrix_row(words: Sequence[str]) -> bool:
    return whole(words[0]) is not None and all(number(word) is not None for word in words[1:])


def _comment(seen: _Seen, line: str, words: Sequence[str]) -> list[str] | None:
    """The header's names, when the line is one."""
    if device := _DEVICE.match(line):
        told = device.groupdict()
        numbers = {name: whole(told[name]) for name in ("rank", "pid", "device")}
        seen.devices.append({**told, **numbers})
    elif average := _AVERAGE.match(line):
        value = number(average[1])
        seen.averages.extend([value] if value is not None else [])
    elif wrong := _WRONG.match(line):
        seen.wrong = (seen.wrong or 0) + int(wrong[1])
    names = [word.lower() for word in words if word != "#"]
    return names if names[:2] == ["size", "count"] and "busbw" in names else None


def _test_row(seen: _Seen, header: Sequence[str], words: Sequence[str], test: str | None, line: int) -> bool:
    """Sizes on the left, measurements on the right, each counted from its own end: the words between may be missing."""
    first = next((at for at, name in enumerate(header) if name.startswith("time")), len(header))
    right = len(header) - first
    size, count = (whole(word) for word in words[:2]) if len(words) >= 2 else (None, None)
    if len(words) < right + 2 or len(words) > len(header) or size is None or count is None:
        return False
    values = words[len(words) - right :]
    if any(number(value) is None and value != "N/A" for value in values):
        return False
    between = dict(zip(header[2:first], words[2 : len(words) - right], strict=False))
    names = header[first:]
    starts = [at for at, name in enumerate(names) if name.startswith("time")]
    for place, start in enumerate(starts):
        end = starts[place + 1] if place + 1 < len(starts) else len(names)
        told = dict(zip(names[start:end], values[start:end], strict=True))
        wrong = next((told[name] for name in ("#wrong", "wrong", "error") if name in told), "")
        bad = number(wrong)
        seen.rows.append(
            {
                "line": line,
                "test": test,
                "size_bytes": size,
                "count": count,
                "dtype": between.get("type"),
                "redop": between.get("redop"),
                "root": whole(between.get("root", "")),
                "in_place": place == 1,
                "time_us": number(values[start]),
                "algbw_gb_per_s": number(told.get("algbw", "")),
                "busbw_gb_per_s": number(told.get("busbw", "")),
                "wrong": int(bad) if bad is not None and bad.is_integer() and abs(bad) < 2**53 else None,
            }
        )
    return bool(starts)


def _matrix_row(seen: _Seen, title: re.Match[str], columns: Sequence[int], words: Sequence[str], line: int) -> None:
    gpu = whole(words[0])
    way = {"Uni": False, "Bi": True}.get(title["way"] or "")
    for other, printed in zip(columns, words[1:], strict=True):
        seen.pairs.append(
            {
                "line": line,
                "measure": title["what"].lower(),
                "p2p": title["p2p"] == "Enabled",
                "bidirectional": way,
                "gpu_a": gpu,
                "gpu_b": other,
                "value": number(printed),
                "unit": title["unit"],
            }
        )


def _test_facts(seen: _Seen) -> list[Fact]:
    rows = [row for row in seen.rows if row["busbw_gb_per_s"] is not None]
    if not rows and not seen.averages:
        return []
    outside = [row for row in rows if not row["in_place"]] or rows
    largest: Mapping[str, Any] = max(outside, key=lambda row: int(row["size_bytes"]), default={})
    tests = list(dict.fromkeys(row["test"] for row in rows if row["test"]))
    average = round(sum(seen.averages) / len(seen.averages), 6) if len(seen.averages) == 1 else None
    values: list[tuple[str, Value, str]] = [
        ("nccl_test", ", ".join(tests) or None, ""),
        ("nccl_test_ranks", len({(row["host"], row["rank"]) for row in seen.devices}) or None, "ranks"),
        ("nccl_test_largest_size_bytes", largest.get("size_bytes"), "bytes"),
        ("nccl_test_busbw_gb_per_s", largest.get("busbw_gb_per_s"), "GB/s"),
        ("nccl_test_time_us", largest.get("time_us"), "us"),
        ("nccl_test_best_busbw_gb_per_s", max((row["busbw_gb_per_s"] for row in rows), default=None), "GB/s"),
        ("nccl_test_avg_busbw_gb_per_s", average, "GB/s"),
        ("nccl_test_wrong", seen.wrong, "values"),
    ]
    source = f"nccl-tests, {len(rows)} results"
    return [Fact(name, value, source, unit) for name, value, unit in values if value is not None]


def _pair_facts(pairs: Sequence[Mapping[str, Any]]) -> list[Fact]:
    links = [p for p in pairs if p["measure"] == "bandwidth" and p["bidirectional"] is False and p["gpu_a"] != p["gpu_b"]]
    links = [pair for pair in links if pair["value"] is not None]
    enabled = [pair for pair in links if pair["p2p"]] or links
    if not enabled:
        return []
    source = f"p2pBandwidthLatencyTest, {len(enabled)} directed pairs, P2P {'on' if enabled[0]['p2p'] else 'off'}"
    values = [float(pair["value"]) for pair in enabled]
    facts = [
        Fact("p2p_min_gb_per_s", min(values), source, "GB/s"),
        Fact("p2p_max_gb_per_s", max(values), source, "GB/s"),
    ]
    for gpu in sorted({pair["gpu_a"] for pair in enabled}):
        own = [float(pair["value"]) for pair in enabled if gpu in (pair["gpu_a"], pair["gpu_b"])]
        rest = [float(pair["value"]) for pair in enabled if gpu not in (pair["gpu_a"], pair["gpu_b"])]
        if own and rest and max(own) < min(rest) and sum(own) > 0:
            facts.append(Fact("p2p_slowest_gpu", gpu, source))
            facts.append(Fact("p2p_slowdown", round(sum(rest) / len(rest) / (sum(own) / len(own)), 3), source))
    return facts
