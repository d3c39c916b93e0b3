"""The live probes cpu, activity, network, limits, space: on this machine, and their arithmetic on made-up readings."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from diag_kit.evidence import Evidence
from diag_kit.hosts.local import local
from diag_kit.observe.probe import observe
from diag_kit.observe.system.activity import SCRIPT as ACTIVITY_SCRIPT
from diag_kit.observe.system.activity import Activity
from diag_kit.observe.system.cpu import SCRIPT as CPU_SCRIPT
from diag_kit.observe.system.cpu import Cpu
from diag_kit.observe.system.limits import Limits
from diag_kit.observe.system.network import Network
from diag_kit.observe.system.space import Space
from diag_kit.records import CommandResult, Fact, Observation, Parsed


def facts(parsed: Parsed) -> dict[str, Any]:
    return {fact.name: fact.value for fact in parsed.facts}


def result(text: str) -> CommandResult:
    return CommandResult("h", "sh", text.encode(), b"", 0, datetime(2031, 1, 1, tzinfo=UTC), 1.0)


@pytest.fixture
def spinning() -> Iterator[int]:
    """A rank that computes all the time, with one worker that sleeps."""
    code = "import os\npid = os.fork()\nif pid == 0:\n    import signal; signal.pause()\nwhile True: pass"
    rank = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    yield rank.pid
    os.killpg(rank.pid, 9)
    rank.wait()


def known(pid: int) -> Evidence:
    ranks = pd.DataFrame({"rank": [3], "pid": [pid]})
    job = Parsed("", (Fact("job_pid", pid, "test"),), {"ranks": ranks})
    return Evidence([Observation("training_jobs", {}, "", (), job)])


def test_cpu_on_this_machine(spinning: int) -> None:
    seen = observe(Cpu(seconds=2), local(), known(spinning)).parsed
    values = facts(seen)
    assert seen.problems == () and seen.not_understood == ()
    assert values["cpu_count"] == os.cpu_count()
    assert values["cores_busy"] > 0.3 and values["busiest_core_pct"] <= 100
    assert values["cpu_window_s"] == pytest.approx(2.0, abs=1.5)
    assert len(seen.tables["cpu"]) == 2 and len(seen.tables["cpu_per_core"]) == 2 * (os.cpu_count() or 0)
    shares = seen.tables["cpu"].drop(columns="t").sum(axis=1)
    assert ((shares > 99.9) & (shares < 100.1)).all()
    assert seen.tables["affinity"].iloc[0][["rank", "pid"]].tolist() == [3, spinning]
    assert values["cpus_allowed_by_ranks"] == len(os.sched_getaffinity(spinning))


def test_activity_on_this_machine(spinning: int) -> None:
    seen = observe(Activity(seconds=1), local(), known(spinning)).parsed
    table = seen.tables["activity"].set_index("role")
    assert seen.problems == () and len(table) == 2
    assert table.loc["rank", "cpu_pct"] > 15 and table.loc["worker", "cpu_pct"] == 0
    assert table["rank"].tolist() == [3, 3] and table.loc["worker", "parent_pid"] == spinning
    assert table.loc["rank", "threads"] == 1 and table.loc["rank", "rss_bytes"] > 1e6
    assert facts(seen)["worker_processes"] == 1


def test_network_limits_and_space_on_this_machine() -> None:
    seen = observe(Network(seconds=1), local(), Evidence()).parsed
    assert seen.problems == () and "lo" in seen.tables["network"]["interface"].tolist()
    assert facts(seen)["network_window_s"] == pytest.approx(1.0, abs=1.0)
    limits = observe(Limits(), local(), Evidence()).parsed
    assert limits.problems == () and limits.not_understood == ()
    assert facts(limits)["open_files_limit"] > 0 and len(limits.tables["limits"]) >= 10
    space = observe(Space(), local(), Evidence()).parsed
    table = space.tables["space"].set_index("path")
    whole = os.statvfs("/")
    assert table.loc["/", "size_bytes"] == pytest.approx(whole.f_blocks * whole.f_frsize, rel=0.01)
    assert space.not_understood == () and "mounts" in space.tables


def cpu_sample(wall: float, up: float, cpu: str, group: str, total: int) -> str:
    pressure = f"pressure cpu some avg10=1.00 avg60=2.00 avg300=3.00 total={total}"
    return f"==diag_kit:sample==\n{wall}\n{up} 9.0\ncpu  {cpu}\ncpu0 {cpu}\n{pressure}\n{group}\n"


def test_quota_throttling_and_pressure_over_the_window() -> None:
    """2 s: 40 of 50 busy ticks; 12 of 20 periods throttled, 0.5 s in them; tasks waited 1.5 s."""
    group = "group nr_periods {}\ngroup nr_throttled {}\ngroup throttled_usec {}"
    text = (
        cpu_sample(100.0, 50.0, "10 0 0 10 0 0 0 0 0 0", group.format(100, 90, 10**6), 10**6)
        + cpu_sample(102.0, 52.0, "40 0 10 20 0 0 0 0 0 0", group.format(120, 102, 15 * 10**5), 25 * 10**5)
        + "==diag_kit:load==\n4.00 3.00 2.00 5/600 7\n==diag_kit:quota==\ncpu.max 150000 100000\n"
        + "==diag_kit:nodes==\n0 0-3,8 1000 500\n==diag_kit:machine==\nsmt 1\ngovernor powersave\nmhz 2000.0\nmhz 3000.0\n"
        + "==diag_kit:affinity==\n0 4242 0-1 0\n1 4243 2 1\n==diag_kit:end==\n"
    )
    seen = Cpu().read((result(text),))
    wanted = {
        "cpu_busy_pct": 80.0, "cores_busy": 0.8, "cpu_pressure_pct": 75.0, "cpu_throttled_window_fraction": 0.6,
        "cpu_throttled_window_pct": 25.0, "cpu_quota_cores": 1.5, "load_1min": 4.0, "numa_nodes": 1, "smt_active": True,
        "cpu_governor": "powersave", "cpu_mhz": 2500.0, "cpus_allowed_by_ranks": 1, "cpu_window_s": 2.0, "cores_saturated": 0,
    }  # fmt: skip
    assert {name: facts(seen).get(name) for name in wanted} == wanted
    assert seen.tables["numa"].iloc[0][["cpu_count", "memory_bytes"]].tolist() == [5, 1024000]
    assert "60 % of its periods" in seen.summary


def test_a_cut_answer_keeps_what_came_and_says_so() -> None:
    text = cpu_sample(100.0, 50.0, "10 0 0 10 0 0 0 0 0 0", "", 1)
    seen = Cpu().read((result(text),))
    assert "not seen over a window" in seen.problems[0] and "cpu_busy_pct" not in facts(seen)


def test_unreadable_bytes_are_missing_not_zero() -> None:
    stat = "7 (python) R 1 7 7 0 -1 0 {m} 0 0 0 {t} 0 0 0 20 0 1 0 5 1000 10 " + "0 " * 30
    first = f"==diag_kit:first==\n50.0 1\n100.0\n/proc/7/stat:{stat.format(m=0, t=0)}\n/proc/7/schedstat:1000 0 5\n"
    second = f"==diag_kit:second==\n52.0 1\n102.0\n/proc/7/stat:{stat.format(m=20, t=100)}\n/proc/7/schedstat:1000 500000000 5\n"
    seen = Activity().read((result(f"==diag_kit:about==\nhz 100\nrank 0 7\nof 7 7\n{first}{second}==diag_kit:end==\n"),))
    row = seen.tables["activity"].iloc[0]
    assert (row["cpu_pct"], row["wait_pct"], row["minor_faults_per_s"]) == (50.0, 25.0, 10.0)
    assert row["read_mb_per_s"] != row["read_mb_per_s"]
    assert "belong to another user" in seen.problems[0]


def test_network_rates_and_the_share_of_the_link() -> None:
    line = "dev   eth0: {} 10 0 0 0 0 0 0 {} 20 0 0 0 0 0 0\n"
    tcp = "snmp Tcp: RtoAlgorithm OutSegs RetransSegs\nsnmp Tcp: 1 {} {}\n"
    text = (
        "==diag_kit:first==\n10.0 1\n100.0\n" + line.format(0, 0) + "ib mlx5_0:1 0 0\n" + tcp.format(1000, 5)
        + "==diag_kit:second==\n12.0 1\n102.0\n" + line.format(200_000_000, 100_000_000) + "ib mlx5_0:1 500000000 0\n"
        + tcp.format(3000, 25) + "==diag_kit:speeds==\neth0 1000\nmlx5_0:1 100Gb\n==diag_kit:end==\n"
    )  # fmt: skip
    seen = Network().read((result(text),))
    table = seen.tables["network"].set_index("interface")
    assert table.loc["eth0", ["received_mb_per_s", "sent_mb_per_s", "used_pct"]].tolist() == [100.0, 50.0, 80.0]
    assert table.loc["mlx5_0:1", ["received_mb_per_s", "used_pct"]].tolist() == [1000.0, 8.0]
    values = facts(seen)
    assert (values["tcp_retransmit_pct"], values["network_received_mb_per_s"], values["rdma_received_mb_per_s"]) == (
        1.0,
        100.0,
        1000.0,
    )


@pytest.mark.needs("busybox")
@pytest.mark.parametrize("script", [CPU_SCRIPT, ACTIVITY_SCRIPT])
def test_the_scripts_run_under_busybox(script: str, tmp_path: Path) -> None:
    """Its sh, grep, sed, awk: as in an Alpine container."""
    subprocess.run(["busybox", "--install", "-s", str(tmp_path)], check=True)
    arguments = ["1", "1"] if script is CPU_SCRIPT else ["1"]
    done = subprocess.run(
        [str(tmp_path / "sh"), "-c", script, "diag_kit", *arguments, f"0:{os.getpid()}"],
        env={"PATH": str(tmp_path)}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "==diag_kit:end==" in done.stdout and done.stderr == ""
    probe = Cpu() if script is CPU_SCRIPT else Activity()
    seen = probe.read((result(done.stdout),))
    assert not [problem for problem in seen.problems if "another user" not in problem] and seen.tables
