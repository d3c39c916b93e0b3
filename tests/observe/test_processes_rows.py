"""processes: shares over a window from /proc, and the tables that people paste."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diag_kit.evidence import Evidence
from diag_kit.hosts.local import local
from diag_kit.observe.probe import observe
from diag_kit.observe.processes import Processes
from diag_kit.records import CommandResult, Parsed


def read(text: str | bytes) -> Parsed:
    raw = text.encode() if isinstance(text, str) else text
    return Processes().read((CommandResult("h", "c", raw, b"", 0, datetime(2026, 11, 30, tzinfo=UTC), 0.1),))


def stat(pid: int, name: str, ticks: int, state: str = "S", parent: int = 1) -> str:
    middle = "0 " * 7 + f"{ticks} {ticks} 0 0 20 0 3 0 1000 999 2560"
    return f"{pid} ({name}) {state} {parent} {middle.replace('0 0 0 0 0 0 0', '0 0 0 -1 0 0 0 0 0', 1)} 0 0 0"


def test_share_of_the_window() -> None:
    """Twice 60 ticks of 10 ms in 2 s are 60 % of one core; a process that appeared later has no share yet."""
    parsed = read(
        "\n".join(
            [
                "==diag_kit:about==", "hz 100", "page 4096",
                "==diag_kit:first==", "50.00", stat(7, "pt) data", 100),
                "==diag_kit:second==", "52.00", stat(7, "pt) data", 160), stat(8, "new", 5, "D"), "torn line",
                "==diag_kit:wchan==", "8 folio_wait_bit",
                "==diag_kit:users==", "7 ml", "8 root",
                "==diag_kit:commands==", "  7 python train.py --lr 1",
                "==diag_kit:end==",
            ]
        )
    )  # fmt: skip
    table = parsed.tables["processes"].set_index("pid")
    assert table.loc[7, "cpu_pct"] == pytest.approx(60.0)
    assert table.loc[7, ["user", "command", "threads"]].tolist() == ["ml", "python train.py --lr 1", 3]
    assert table.loc[7, "rss_mib"] == pytest.approx(10.0)
    assert table.loc[8, "cpu_pct"] != table.loc[8, "cpu_pct"]
    assert table.loc[8, ["state", "wchan", "command"]].tolist() == ["D", "folio_wait_bit", "[new]"]
    assert parsed.problems == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND\n"
            "ml          4242 98.7  1.2 9000000 2097152 ?     Rl   10:00   9:00 python train.py --name a b\n",
            {
                "pid": 4242,
                "user": "ml",
                "cpu_pct": 98.7,
                "rss_mib": 2048.0,
                "state": "Rl",
                "command": "python train.py --name a b",
            },
        ),
        (
            "UID          PID    PPID  C STIME TTY          TIME CMD\n"
            "root          1       0  0 Nov29 ?        00:00:04 /sbin/init\n",
            {"pid": 1, "ppid": 0, "user": "root", "command": "/sbin/init"},
        ),
        (
            "    PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND\n"
            "   2207 user1     20   0   12.1g   2.0g  41020 S 341.0   6.9 121:10.22 java\n",
            {"pid": 2207, "cpu_pct": 341.0, "rss_mib": 2048.0, "state": "S", "command": "java"},
        ),
        (
            "PID   USER     TIME  COMMAND\n 1207trainer   0:31 {python} python -c from x import y\n",
            {"pid": 1207, "user": "trainer", "command": "{python} python -c from x import y"},
        ),
    ],
)
def test_pasted_tables(text: str, expected: dict[str, object]) -> None:
    parsed = read(text)
    row = parsed.tables["processes"].iloc[0]
    assert {name: row[name] for name in expected} == expected
    assert parsed.not_understood == ()


def test_broken_row_is_kept_aside() -> None:
    parsed = read("    PID    PPID STAT COMMAND\n  18122       1 Sl   python train.py\n  x\n")
    assert len(parsed.tables["processes"]) == 1
    assert parsed.not_understood[0].text == "  x"


@given(st.binary(max_size=300))
def test_any_bytes(raw: bytes) -> None:
    read(raw)
    read(b"==diag_kit:first==\n" + raw + b"\n==diag_kit:second==\n" + raw)


def test_this_machine() -> None:
    """A process that spins takes about a core, as seen in the window (what the others leave it)."""
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        seen = observe(Processes(seconds=1), local(), Evidence())
    finally:
        busy.kill()
        busy.wait()
    table = seen.parsed.tables["processes"].set_index("pid")
    assert table.loc[busy.pid, "cpu_pct"] > 15
    assert table.loc[busy.pid, "ppid"] == os.getpid()
    assert seen.parsed.problems == ()
