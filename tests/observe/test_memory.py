"""Memory: limits of the job's own container, the mount that holds its data, and the probe on this machine."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diag_kit.evidence import Evidence
from diag_kit.hosts.local import local
from diag_kit.observe.memory import Memory
from diag_kit.observe.memory_limits import cgroup_facts, list_size
from diag_kit.observe.memory_mounts import Mount, holder
from diag_kit.records import CommandResult, Fact, Observation, Parsed

DATA = Path(__file__).parent.parent / "data" / "memory"


def read(raw: bytes) -> Parsed:
    start = datetime(2026, 11, 30, tzinfo=UTC)
    return Memory().read((CommandResult("trainbox", "sh -c x diag_kit 4711 /data", raw, b"", 0, start, 0.1),))


def facts(parsed: Parsed) -> dict[str, Any]:
    return {fact.name: fact.value for fact in parsed.facts}


@pytest.mark.parametrize("case", sorted(path.parent.name for path in DATA.glob("*/expected.json")))
def test_every_case_gives_the_expected_facts(case: str) -> None:
    expected = json.loads((DATA / case / "expected.json").read_text())
    parsed = read((DATA / case / "raw.txt").read_bytes())
    assert facts(parsed) == expected["facts"]
    memory = parsed.tables["memory"].astype(object)
    assert memory.where(memory.notna(), None).to_dict("records") == expected["memory"]
    assert parsed.tables["mounts"][["path", "kind"]].to_numpy().tolist() == expected["mounts"]
    assert list(parsed.problems) == expected["problems"]
    assert [line.where for line in parsed.not_understood] == expected["not_understood"]


@pytest.mark.parametrize(
    ("fstype", "source", "kind"),
    [
        ("nfs4", "filer:/x", "network"),
        ("lustre", "10.0.0.5@o2ib:/lfs", "network"),
        ("ceph", "1.2.3.4:/", "network"),
        ("ext4", "/dev/rbd0", "network"),
        ("fuse.s3fs", "s3fs", "network"),
        ("fuse.sshfs", "me@box:/data", "network"),
        ("fuse", "gcsfuse#bucket", "network"),
        ("fuse.juicefs", "JuiceFS:x", "network"),
        ("fuseblk", "/dev/sdc1", "fuse"),
        ("fuse.something", "something", "fuse"),
        ("virtiofs", "share", "network"),
        ("overlay", "overlay", "overlay"),
        ("tmpfs", "shm", "memory"),
        ("xfs", "/dev/nvme0n1", "local"),
        ("zfs", "tank/data", "local"),
    ],
)
def test_where_the_bytes_of_a_mount_come_from(fstype: str, source: str, kind: str) -> None:
    assert Mount("/data", source, fstype).kind == kind


@pytest.mark.parametrize(
    ("path", "found"),
    [("/data/a", "/data"), ("/database/a", "/"), ("/data", "/data"), ("/data/in/x", "/data/in"), ("relative", None), ("/", "/")],
)
def test_the_deepest_mount_above_a_path_holds_it(path: str, found: str | None) -> None:
    mounts = [Mount(each, "s", "ext4") for each in ("/", "/data/in", "/data")]
    mount = holder(path, mounts)
    assert (mount.path if mount else None) == found


@pytest.mark.parametrize(("text", "size"), [("0-3,8", 5), ("0", 1), ("0-127", 128), ("", None), ("3-1", None), ("a", None)])
def test_sizes_of_cpu_lists(text: str, size: int | None) -> None:
    assert list_size(text) == size


def test_the_tightest_limit_of_all_levels_counts() -> None:
    text = "memory.max max\ncpu.max 400000 100000\nmemory.max 1000000\ncpu.max 200000 100000\ncpu.max max 100000"
    assert {fact.name: fact.value for fact in cgroup_facts(text, "x")} == {"memory_limit_bytes": 1000000, "cpu_quota_cores": 2.0}


@pytest.mark.parametrize(
    ("total", "read_as"), [("527412400", 527412400 * 1024), ("515051", None), ("503", None), ("540070297600", None)]
)
def test_free_without_a_unit_is_kib_or_not_guessed(total: str, read_as: int | None) -> None:
    """free, free -m, free -g and free -b of one machine."""
    parsed = read(f"       total used free shared buff/cache available\nMem: {total} 1 2 3 4 5\n".encode())
    assert facts(parsed).get("memory_total_bytes") == read_as
    assert len(parsed.not_understood) == (read_as is None)


def test_the_probe_reads_this_machine(tmp_path: Path) -> None:
    link = tmp_path / "link"
    (tmp_path / "real").mkdir()
    link.symlink_to(tmp_path / "real")
    asked = Memory(path=str(link))
    parsed = asked.read(asked.collect(local(), Evidence()))
    known = facts(parsed)
    assert parsed.problems == () and parsed.not_understood == ()
    assert known["memory_total_bytes"] == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert known["cpus_allowed"] == len(os.sched_getaffinity(0))
    assert known["cpu_count"] >= known["cpus_allowed"]
    assert known["load_1min"] >= 0
    stat = os.statvfs(tmp_path)
    assert known["data_mount_free_bytes"] == pytest.approx(stat.f_bavail * stat.f_frsize, rel=0.02)
    assert known["data_mount_type"] in Path("/proc/self/mounts").read_text()


def test_the_mounts_of_the_job_are_asked_for_and_a_missing_folder_is_said() -> None:
    parsed = Parsed("job", (Fact("job_pid", os.getpid(), "test"), Fact("data_dir", "/proc/no such folder", "test")))
    known = Evidence([Observation("training_jobs", {}, "", (), parsed, id="O1")])
    asked = Memory()
    results = asked.collect(local("trainbox"), known)
    assert f" {os.getpid()} '/proc/no such folder'" in results[0].command
    seen = asked.read(results)
    assert seen.problems == (
        "/proc/no such folder is not there, may not be read, or hangs: its mount is told from the path alone",
    )
    assert facts(seen)["cpus_allowed"] == len(os.sched_getaffinity(0))


@settings(max_examples=200, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=400),
        st.text(alphabet="MemTotal: 0123456789kB/\n cpu.max=_:", max_size=200).map(
            lambda text: b"==diag_kit:meminfo==\n" + text.encode() + b"\n==diag_kit:cgroup==\n" + text.encode()
        ),
        st.tuples(st.integers(0, 2000), st.binary(max_size=30)).map(
            lambda cut: (raw := (DATA / "container_nfs" / "raw.txt").read_bytes())[: cut[0]] + cut[1] + raw[cut[0] + 9 :]
        ),
    )
)
def test_reading_never_raises(raw: bytes) -> None:
    assert read(raw).summary
