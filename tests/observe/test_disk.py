"""Iostat: every sysstat generation by column name, no since-boot report in the window, and the probe for real."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diag_kit.evidence import Evidence
from diag_kit.hosts.local import local
from diag_kit.observe.disk import SCRIPT, Iostat, device_kind
from diag_kit.observe.disk_counters import read_samples
from diag_kit.observe.disk_json import read_json
from diag_kit.observe.disk_reports import read_text
from diag_kit.records import CommandResult, Parsed

DATA = Path(__file__).parent.parent / "data" / "iostat"


def result(raw: bytes, **changes: Any) -> CommandResult:
    start = datetime(2026, 11, 30, tzinfo=UTC)
    fields: dict[str, Any] = {"stderr": b"", "exit_status": 0, "started": start, "duration_s": 3.0, **changes}
    return CommandResult(host="trainbox", command="iostat", stdout=raw, **fields)


def read(raw: bytes | str, **changes: Any) -> Parsed:
    return Iostat().read((result(raw.encode() if isinstance(raw, str) else raw, **changes),))


def facts(parsed: Parsed) -> dict[str, Any]:
    return {fact.name: fact.value for fact in parsed.facts}


def rows(parsed: Parsed, table: str) -> list[dict[str, Any]]:
    """As JSON values: times as text, missing as None."""
    frame = parsed.tables[table]
    return [
        {
            name: None if value is None or value != value else (value.isoformat() if name == "t" else value)
            for name, value in row.items()
        }
        for row in frame.to_dict("records")
    ]


@pytest.mark.parametrize("case", sorted(path.parent.name for path in DATA.glob("*/expected.json")))
def test_every_recorded_version_gives_the_expected_rows(case: str) -> None:
    expected = json.loads((DATA / case / "expected.json").read_text())
    parsed = read((DATA / case / "raw.txt").read_bytes())
    for table, wanted in expected["tables"].items():
        found = rows(parsed, table)
        assert len(found) == len(wanted), table
        for got, want in zip(found, wanted, strict=True):
            for name, value in want.items():
                assert got[name] == (pytest.approx(value, rel=1e-6) if isinstance(value, float) else value), name
    assert {name: facts(parsed).get(name) for name in expected["facts"]} == expected["facts"]
    assert [piece for piece in expected["says"] if piece not in " ".join((parsed.summary, *parsed.problems))] == []
    assert len(parsed.not_understood) == expected.get("not_understood", 0)


def reference_blocks(text: str) -> Iterator[dict[str, dict[str, float]]]:
    """A slow, obvious reader of ``iostat -x`` text: one block of devices after each header line."""
    lines = text.splitlines()
    for start, line in enumerate(lines):
        if line.startswith("Device"):
            names = line.split()[1:]
            block: dict[str, dict[str, float]] = {}
            for row in lines[start + 1 :]:
                if not row.strip():
                    break
                device, *values = row.split()
                block[device] = dict(zip(names, map(float, values), strict=True))
            yield block


@pytest.mark.parametrize("version", ["10_1_5", "11_2_0", "11_6_1", "11_7_3", "12_2_0", "12_5_2", "12_7_9"])
def test_text_of_each_version_agrees_with_the_reference(version: str) -> None:
    text = (DATA / f"sysstat_{version}_text" / "raw.txt").read_text()
    blocks = list(reference_blocks(text))[1:]
    found = rows(read(text), "disk")
    assert len(found) == len(blocks) == 2
    for block, row in zip(blocks, found, strict=True):
        printed = block[row["device"]]
        assert row["read_mb_per_s"] * 1e6 / 1024 == pytest.approx(printed["rkB/s"])
        assert row["write_mb_per_s"] * 1e6 / 1024 == pytest.approx(printed["wkB/s"])
        assert row["read_per_s"] == printed["r/s"]
        assert row["util_pct"] == printed["%util"]
        assert row["read_wait_ms"] == printed["r_await"]


@pytest.mark.parametrize(
    ("name", "wait", "read_wait", "queue"),
    [
        ("v9", 41.0, None, 11.81),
        ("v10_2", 41.5, 41.5, 11.95),
        ("v11_7", 41.9, 41.9, 12.07),
        ("v12_5", 42.1, 42.1, 12.12),
    ],
)
def test_columns_go_by_name_not_by_place(name: str, wait: float, read_wait: float | None, queue: float) -> None:
    """A reader of places takes wrqm/s of sysstat 12.5 (871.2) for a wait."""
    parsed = read((DATA / f"pasted_{name}" / "raw.txt").read_bytes())
    row = {row["device"]: row for row in rows(parsed, "disk_since_boot")}["sdb"]
    assert row["wait_ms"] == pytest.approx(wait)
    assert row["read_wait_ms"] == read_wait
    assert (row["queue_length"], row["util_pct"], row["request_kib"]) == (queue, 97.2, 128.0)
    assert row["read_mib_per_s"] == pytest.approx(36.0)
    assert row["read_mb_per_s"] == pytest.approx(37.748736)
    assert len(parsed.tables["disk"]) == 0
    assert "says nothing about now" in parsed.problems[0]


def test_a_command_line_with_y_keeps_the_first_report() -> None:
    text = (DATA / "sysstat_12_7_9_human" / "raw.txt").read_text()
    assert len(read(text).tables["disk"]) == 1
    kept = read("$ iostat -xy --human 1 2\n" + text)
    assert rows(kept, "disk")[0]["read_mb_per_s"] == pytest.approx(26.3 * 2**20 / 1e6)
    assert len(kept.tables["disk"]) == 2 and "disk_since_boot" not in kept.tables
    assert "left out" not in kept.summary
    known = Iostat().read((replace(result(text.encode()), command="iostat -xy --human 1 2"),))
    assert len(known.tables["disk"]) == 2


def test_json_cut_anywhere_keeps_its_complete_reports() -> None:
    text = (DATA / "sysstat_12_7_9_json" / "raw.txt").read_text()
    starts = [index for index in range(len(text)) if text.startswith('"timestamp"', index)]
    assert len(starts) == 3
    counts = [len(read(text[:end]).tables["disk"]) for end in range(0, len(text), 37)]
    assert counts == sorted(counts) and counts[0] == 0 and counts[-1] >= 2
    cut = read(text[: starts[2] + 40])
    assert len(cut.tables["disk"]) == 2
    assert "2 complete reports were kept" in cut.summary


def test_malformed_json_of_old_versions_is_salvaged() -> None:
    """sysstat 11.5 to 12.0.4 put a comma too many before the first report with -y."""
    report = '{"timestamp": "2031-01-01T00:00:01+0000", "disk": [{"disk_device": "sda", "r/s": 2.0, "rkB/s": 8.0}]}'
    found = read_json('{"sysstat": {"hosts": [{"statistics": [,' + report + "]}]}}")
    assert [row["read_per_s"] for report in found.reports for row in report.disks] == [2.0]


def test_a_decimal_comma_is_read() -> None:
    found = read_text("Device r/s rkB/s r_await %util\nsda 2,50 10,00 0,30 1,20\n")
    assert found.reports[0].disks[0]["read_per_s"] == 2.5
    assert found.reports[0].disks[0]["read_wait_ms"] == 0.3


def test_unknown_lines_are_kept_with_their_number() -> None:
    text = (DATA / "sysstat_12_7_9_m" / "raw.txt").read_text()
    parsed = read(text + "\nsda broken row\n")
    assert len(parsed.tables["disk"]) == 2
    assert parsed.not_understood[0].text == "sda broken row"
    assert parsed.not_understood[0].where == f"iostat line {len(text.splitlines()) + 2}"


def sample(wall: str, up: float, disk: str, cpu: str) -> str:
    return f"{wall}\n{up} 10.0\n{disk}\ncpu  {cpu}"


def test_counters_give_the_columns_of_iostat() -> None:
    """100 reads of 128 KiB in 25 ms each at a queue of 2.5 over 2 s; user 60, system 20+5+5, iowait 10, idle 100."""
    first = sample("100.0", 50.0, " 8 0 sda 10 0 80 5 1 0 8 2 0 400 500 0 0 0 0", "0 0 0 0 0 0 0 0 0 0")
    second = sample("102.0", 52.0, " 8 0 sda 110 0 25680 2505 1 0 8 2 0 2000 5500 0 0 0 0", "60 0 20 100 10 5 5 0 7 0")
    report = read_samples([first, second]).reports[0]
    row = report.disks[0]
    assert row["read_per_s"] == 50.0
    assert row["read_mb_per_s"] == pytest.approx(100 * 128 * 1024 / 2 / 1e6)
    assert row["read_wait_ms"] == row["wait_ms"] == 25.0
    assert row["write_wait_ms"] is None
    assert (row["queue_length"], row["util_pct"], row["request_kib"]) == (2.5, 80.0, 128.0)
    assert report.cpu == {
        "user_pct": 30.0,
        "nice_pct": 0.0,
        "system_pct": 15.0,
        "iowait_pct": 5.0,
        "steal_pct": 0.0,
        "idle_pct": 50.0,
    }


@pytest.mark.parametrize(("wall", "seconds"), [(("100.0", "102.0"), 2.0), (("100.N", "102.N"), 2.0), (("9.0", "1.0"), 2.0)])
def test_a_coarse_or_reset_wall_clock_does_not_spoil_the_rate(wall: tuple[str, str], seconds: float) -> None:
    disks = (" 8 0 sda 0 0 0 0 0 0 0 0 0 0 1", " 8 0 sda 10 0 0 0 0 0 0 0 0 0 1")
    texts = [sample(wall[n], 50.0 + 2 * n, disks[n], f"{n} 0 0 {n}") for n in (0, 1)]
    assert read_samples(texts).reports[0].disks[0]["read_per_s"] == 10 / seconds


def test_a_wrapped_millisecond_counter_is_unwrapped_and_a_reset_device_is_missing() -> None:
    before = sample("1.0", 1.0, f" 8 0 sda 10 0 0 {2**32 - 5} 0 0 0 0 0 0 1\n 8 16 sdb 500 0 0 0 0 0 0 0 0 0 1", "1 0 0 1")
    after = sample("2.0", 2.0, " 8 0 sda 20 0 0 15 0 0 0 0 0 0 1\n 8 16 sdb 3 0 0 0 0 0 0 0 0 0 1", "2 0 0 2")
    sda, sdb = read_samples([before, after]).reports[0].disks
    assert sda["read_wait_ms"] == 2.0
    assert sdb["read_per_s"] is None


@pytest.mark.parametrize(
    ("name", "stated", "kind"),
    [
        ("sda", "disk", "disk"),
        ("nvme0n1p2", "", "partition"),
        ("nvme0n1", "", "disk"),
        ("xvda1", "disk", "partition"),
        ("loop7", "disk", "loop"),
        ("zram0", "disk", "memory"),
        ("dm-3", "dm", "dm"),
        ("vg0-data", "", "other"),
        ("rbd0", "disk", "network"),
        ("md127", "md", "md"),
        ("cciss!c0d0", "disk", "disk"),
    ],
)
def test_device_kinds(name: str, stated: str, kind: str) -> None:
    assert device_kind(name, stated) == kind


def test_only_whole_disks_are_added_up() -> None:
    text = "Device r/s rkB/s w/s wkB/s %util\nsda 1 1000 0 0 5\nsda1 1 1000 0 0 5\ndm-0 1 1000 0 0 5\n"
    parsed = read("$ iostat -xy 1 1\n" + text)
    assert facts(parsed)["disk_read_mb_per_s"] == pytest.approx(1.024)
    assert [row["kind"] for row in rows(parsed, "disk")] == ["disk", "partition", "dm"]


def test_a_command_that_was_stopped_says_so_and_keeps_what_came() -> None:
    text = (DATA / "sysstat_12_7_9_json" / "raw.txt").read_bytes()
    parsed = read(text[:-200], exit_status=None, timed_out=True, duration_s=20.0)
    assert "stopped after 20 s" in parsed.problems[0]
    assert len(parsed.tables["disk"]) >= 2


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A real output with some bytes lost and others in their place."""
    raw = (DATA / draw(st.sampled_from(["sysstat_12_7_9_json", "sysstat_10_1_5_text"])) / "raw.txt").read_bytes()
    start = draw(st.integers(0, len(raw)))
    return raw[:start] + draw(st.binary(max_size=20)) + raw[start + draw(st.integers(0, 200)) :]


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.binary(max_size=400), damaged()))
def test_reading_never_raises(raw: bytes) -> None:
    parsed = read(raw)
    assert parsed.summary


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet='Device:avg-cpu %user/sr0123456789.,kMnaif\n\t {}"[]==diag_kit:sample==', max_size=300))
def test_reading_never_raises_on_near_iostat(text: str) -> None:
    for head in ("", "==diag_kit:devices==\n==diag_kit:sample==\n", "==diag_kit:devices==\n==diag_kit:json==\n"):
        assert read(head + text).summary


@pytest.mark.needs("iostat")
def test_the_probe_measures_this_machine_with_sysstat() -> None:
    asked = Iostat(seconds=2)
    parsed = asked.read(asked.collect(local(), Evidence()))
    assert parsed.problems == () and parsed.not_understood == ()
    assert facts(parsed)["disk_window_s"] == pytest.approx(2.0, abs=0.6)
    assert facts(parsed)["disk_source"] == "iostat -o JSON"
    assert len(parsed.tables["cpu"]) == 2
    total = parsed.tables["cpu"].drop(columns="t").sum(axis=1)
    assert ((total > 99) & (total < 101)).all()
    assert str(parsed.tables["disk"]["t"].dtype) == "datetime64[us, UTC]"


def path_without_iostat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sh", "cat", "date", "grep", "sleep", "timeout", "nice", "env", "setsid", "kill", "stat", "tr", "sed"):
        found = shutil.which(name)
        if found:
            (tmp_path / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(tmp_path))


def test_the_probe_measures_this_machine_without_sysstat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path_without_iostat(tmp_path, monkeypatch)
    asked = Iostat(seconds=2)
    parsed = asked.read(asked.collect(local(), Evidence()))
    assert parsed.problems == () and parsed.not_understood == ()
    assert facts(parsed)["disk_source"] == "/proc/diskstats"
    assert facts(parsed)["disk_window_s"] == pytest.approx(2.0, abs=0.6)
    assert len(parsed.tables["cpu"]) == 2


@pytest.mark.needs("iostat")
def test_an_iostat_without_json_falls_back_to_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As sysstat before 11.5: -o is refused, and the since-boot report is dropped after the fact."""
    real = shutil.which("iostat")
    fake = tmp_path / "iostat"
    fake.write_text(f'#!/bin/sh\ncase "$*" in *-o*) echo "Usage: iostat" >&2; exit 1;; esac\nexec {real} "$@"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    asked = Iostat(seconds=2)
    parsed = asked.read(asked.collect(local(), Evidence()))
    assert facts(parsed)["disk_source"] == "iostat"
    assert len(parsed.tables["cpu"]) == 2 and parsed.problems == ()
    assert "cpu_since_boot" in parsed.tables and "left out" not in parsed.summary


def test_the_script_is_posix_sh() -> None:
    assert "[[" not in SCRIPT and "function " not in SCRIPT and "local " not in SCRIPT
