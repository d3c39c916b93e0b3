"""KernelLog: every event in the forms that dmesg, journalctl and syslog print, counts not invented, refusals in words."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diag_kit.evidence import Evidence
from diag_kit.hosts.kinds import kind_of
from diag_kit.hosts.local import local
from diag_kit.observe.kernel_log import KernelLog
from diag_kit.records import CommandResult, Parsed

MIXED = Path(__file__).parent.parent / "data" / "kernel" / "mixed.txt"


def read(text: str | bytes) -> Parsed:
    raw = text.encode() if isinstance(text, str) else text
    return KernelLog().read((CommandResult("trainbox", "cat dmesg.txt", raw, b"", 0, datetime(2031, 1, 1, tzinfo=UTC), 0.1),))


def facts(parsed: Parsed) -> dict[str, Any]:
    return {fact.name: fact.value for fact in parsed.facts}


def events(parsed: Parsed, *columns: str) -> list[tuple[Any, ...]]:
    table = parsed.tables["kernel_events"].astype(object)
    table = table.where(table.notna(), None)
    return [tuple(row[column] for column in columns) for row in table.to_dict("records")]


def test_every_event_of_a_mixed_log_is_told_by_its_kind_and_device() -> None:
    parsed = read(MIXED.read_bytes())
    assert events(parsed, "line", "kind", "device", "pid") == [
        (2, "pcie_limited", "0000:01:00.0", None),
        (3, "xid", "0000:3b:00", 4242),
        (4, "xid", "0000:86:00", None),
        (5, "xid", "0000:01:00", None),
        (6, "gpu_lost", "0000:af:00.0", None),
        (7, "xid", "0000:af:00", 1177),
        (8, "xid", "0000:af:00", None),
        (9, "oom_invoked", "python", None),
        (10, "oom_cause", None, 5151),
        (11, "oom_kill", None, 5151),
        (12, "oom_kill", None, 77),
        (14, "hung_task", None, 9001),
        (15, "lockup", "CPU12", 300),
        (16, "nvme", "nvme0", None),
        (17, "nvme", "nvme0", None),
        (18, "ata", "ata3", None),
        (19, "disk_error", "sda", None),
        (20, "pcie_error_report", "0000:3b:00.0", None),
        (21, "pcie_error", "0000:3b:00.0", None),
        (22, "pcie_error_report", "0000:3b:00.0", None),
        (23, "cpu_throttled", "CPU7", None),
        (24, "machine_check", None, None),
        (25, "memory_error", "MC0", None),
        (26, "nfs", "filer1", None),
        (27, "link_down", "ens1f0np0", None),
    ]
    assert [line.where for line in parsed.not_understood] == ["cat dmesg.txt line 29"]


def test_facts_count_events_and_not_their_echoes() -> None:
    known = facts(read(MIXED.read_bytes()))
    assert known["xids"] == "31, 43, 13, 79, 999" and known["xid_count"] == 5
    assert known["xid_devices"] == "0000:3b:00, 0000:86:00, 0000:01:00, 0000:af:00"
    assert (known["oom_kills"], known["hung_tasks"], known["cpu_lockups"]) == (2, 1, 1)
    assert (known["pcie_errors_corrected"], known["pcie_errors_uncorrected"]) == (1, 1)
    assert (known["nvme_events"], known["ata_events"], known["disk_errors"]) == (2, 1, 1)
    assert known["kernel_lines"] == 28


def test_a_kill_has_its_cgroup_and_its_memory() -> None:
    rows = events(read(MIXED.read_bytes()), "kind", "pid", "process", "cgroup", "anon_rss_mib", "severity")
    kills = [row[1:] for row in rows if row[0] == "oom_kill"]
    assert kills == [
        (5151, "python", "/kubepods/pod1/c1", 1024.0, "cgroup limit"),
        (77, "pt_data_worker", None, 2.0, None),
    ]


def test_a_code_that_is_not_in_the_list_has_no_meaning() -> None:
    rows = {row[0]: row[1:] for row in events(read(MIXED.read_bytes()), "xid", "meaning", "points_to", "process") if row[0]}
    assert rows[999] == (None, None, None)
    assert rows[79][1:] == ("hardware", "nvidia-smi") and "fallen off the bus" in rows[79][0]
    assert rows[31][1:] == ("application", "python")
    assert rows[43][2] is None  # "<unknown>" is no process


@pytest.mark.parametrize(
    ("prefix", "t", "uptime"),
    [
        ("[Thu Oct  9 16:52:01 2031] ", datetime(2031, 10, 9, 16, 52, 1, tzinfo=UTC), None),
        ("2031-10-09T16:52:01,250000+02:00 ", datetime(2031, 10, 9, 14, 52, 1, 250000, tzinfo=UTC), None),
        ("2031-10-09T16:52:01+0000 node7 kernel: ", datetime(2031, 10, 9, 16, 52, 1, tzinfo=UTC), None),
        ("Oct  9 16:52:01 node7 kernel: [ 4909.922970] ", None, 4909.92297),
        ("Oct  9 16:52:01 node7 kernel: ", None, None),
        ("kern  :err   : [ 4909.922970] ", None, 4909.92297),
        ("<4>[ 4909.922970] ", None, 4909.92297),
        ("[ 4909.922970] [  T1177] ", None, 4909.92297),
    ],
)
def test_prefixes_of_all_printers(prefix: str, t: datetime | None, uptime: float | None) -> None:
    text = f"{prefix}NVRM: Xid (PCI:0000:8a:00): 94, pid=22001, name=python, Contained: CE User Channel (0x9).\n"
    assert kind_of(text.encode()) == "dmesg"
    assert events(read(text), "t", "uptime_s", "xid", "device", "pid") == [(t, uptime, 94, "0000:8a:00", 22001)]


def test_a_log_without_events_says_zero_and_an_empty_one_says_nothing() -> None:
    quiet = read("[    1.000000] usb 1-1: new device\n[    2.000000] EXT4-fs (sda1): mounted\n")
    assert facts(quiet) == {"kernel_lines": 2, "xid_count": 0, "oom_kills": 0, "hung_tasks": 0}
    assert facts(read("")) == {}


def test_a_log_that_may_not_be_read_is_no_quiet_log() -> None:
    refused = "==diag_kit:refused==\ndmesg: read kernel buffer failed: Operation not permitted\n==diag_kit:journal==\n"
    parsed = read(refused + "-- No entries --\n")
    assert facts(parsed) == {}
    assert "may not be read as this user (dmesg: dmesg: read kernel buffer failed: Operation not permitted" in parsed.problems[0]
    line = "2031-10-09T16:52:01+0000 node7 kernel: NVRM: Xid (PCI:0000:8a:00): 48, x\n"
    assert facts(read(refused + line))["xids"] == "48"


def test_the_script_reads_this_machine() -> None:
    asked = KernelLog(lines=50)
    parsed = asked.read(asked.collect(local("trainbox"), Evidence()))
    assert facts(parsed).get("kernel_lines", 0) > 0 or "may not be read" in parsed.problems[0]


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.binary(max_size=300), st.text(alphabet="NVRM: Xid(PCI0123af.)[]=,oomkill process\n", max_size=300)))
def test_reading_never_raises(raw: bytes | str) -> None:
    assert read(raw).summary


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 28), st.binary(max_size=30))
def test_a_garbled_line_changes_only_its_own_row(at: int, junk: bytes) -> None:
    lines = MIXED.read_bytes().split(b"\n")
    lines[at] = b"#" + junk.replace(b"\n", b"").replace(b"\r", b"")
    damaged = b"\n".join(lines)
    if len(damaged.decode("utf-8", "replace").splitlines()) != len(MIXED.read_text().splitlines()):
        return  # the junk held another kind of line end
    before = [row for row in events(read(MIXED.read_bytes()), "line", "kind", "device") if row[0] not in (at + 1, 12, 13)]
    after = [row for row in events(read(damaged), "line", "kind", "device") if row[0] not in (at + 1, 12, 13)]
    assert after == before
