"""opened_files and rank_io: the rows made of what the host's loop prints, and both rungs against a made reader."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diag_kit.errors import NothingToObserve
from diag_kit.evidence import Evidence
from diag_kit.hosts.local import local
from diag_kit.observe.opened_files import OpenedFiles
from diag_kit.observe.probe import observe
from diag_kit.observe.rank_io import RankIo
from diag_kit.observe.remote_opens import SHELL
from diag_kit.records import CommandResult, Cost, Fact, Observation, Parsed

T = "1796000000"


def result(raw: bytes, error: bytes = b"") -> CommandResult:
    return CommandResult("trainbox", "sh -c ...", raw, error, 0, datetime(2026, 11, 30, tzinfo=UTC), 0.1)


def read(*lines: str, careful: bool = False) -> Parsed:
    return OpenedFiles(careful=careful).read((result("\n".join(["==diag_kit:opens==", *lines]).encode()),))


def rows(parsed: Parsed) -> list[tuple[object, ...]]:
    table = parsed.tables["opens"]
    columns = table[["rank", "pid", "path", "via"]].astype(object).where(table[["rank", "pid", "path", "via"]].notna(), None)
    return list(columns.itertuples(index=False, name=None))


def test_rows_of_both_rungs() -> None:
    parsed = read(
        "prefix /data/",
        f"window {T}.0",
        "f 0 /data/a file.pt",
        f"o {T}.1250 71 0 poll 0",
        f"o {T}.1300 - - inotify 0",
        "f 1 /home/ml/other.bin",
        f"o {T}.2 71 0 poll 1",
        f"window_end {int(T) + 8}.5",
        "cost 0.812 900 4",
        "end",
    )
    assert rows(parsed) == [(0, 71, "/data/a file.pt", "poll"), (None, None, "/data/a file.pt", "inotify")]
    assert parsed.tables["opens"]["t"].iloc[0] == pd.Timestamp(int(T), unit="s", tz="UTC") + pd.Timedelta("0.125s")
    assert str(parsed.tables["opens"]["t"].dtype) == "datetime64[us, UTC]"
    facts = {fact.name: fact.value for fact in parsed.facts}
    assert facts == {"opens_poll": 1, "opens_inotify": 1, "opens_window_s": 8.5, "probe_cpu_s": 0.812, "poll_sweeps_per_s": 106}
    assert parsed.problems == ()


def test_files_outside_the_data_folder_count_only_when_none_is_inside() -> None:
    lines = ["f 0 /blobs/x", f"o {T}.0 71 0 poll 0"]
    assert rows(read("prefix /data/", *lines, "end")) == [(0, 71, "/blobs/x", "poll")]


def test_strace_lines() -> None:
    """Failed opens, folders and libraries are no rows; the pid gives the rank."""
    parsed = read(
        "rank 71 0",
        "rank 72 1",
        f"window {T}.0",
        f'x [pid 71] {T}.100 openat(AT_FDCWD, "/data/s 1.pt", O_RDONLY|O_CLOEXEC) = 14',
        f'x [pid 72] {T}.200 openat(AT_FDCWD, "/data/none.pt", O_RDONLY) = -1 ENOENT (No such file or directory)',
        f'x [pid 72] {T}.300 openat(AT_FDCWD, "/data", O_RDONLY|O_DIRECTORY) = 3',
        f'x [pid 72] {T}.400 openat(AT_FDCWD, "/opt/env/lib/python3.12/x.py", O_RDONLY) = 3',
        f'x {T}.500 open("/data/t\\"q.pt", O_RDONLY) = 5',
        "x strace: attach: ptrace(PTRACE_SEIZE, 73): Operation not permitted",
        "end",
        careful=True,
    )
    assert rows(parsed) == [(0, 71, "/data/s 1.pt", "strace"), (None, None, '/data/t"q.pt', "strace")]
    assert "Operation not permitted" in parsed.problems[0]


def test_sh_fallback_counts_an_open_once() -> None:
    """A file that stands open in two sweeps is one open; closed and opened again is two."""
    parsed = read(
        "rank 71 0", "rank 72 1", "prefix /data/", f"window {T}.0", "blind inotify no python3 on the host", f"s {T}.0",
        "d 71", "l 14 /data/a", "l 3 /usr/lib/x.so", f"s {T}.1",
        "d 71", "l 14 /data/a", "d 72", "l 9 /data/b c", f"s {T}.2",
        f"s {T}.3",
        "d 71", "l 14 /data/a", f"s {T}.4",
        f"window_end {T}.4", "times 0m0.01s 0m0.02s 0m0.10s 0m0.20s ", "end",
    )  # fmt: skip
    assert rows(parsed) == [(0, 71, "/data/a", "poll"), (1, 72, "/data/b c", "poll"), (0, 71, "/data/a", "poll")]
    assert [fact.value for fact in parsed.facts if fact.name == "probe_cpu_s"] == [pytest.approx(0.33)]
    assert parsed.problems == ("opens of the data folder cannot be watched: no python3 on the host",)


def test_positions_and_mapped_files() -> None:
    parsed = read("rank 71 0", "f 3 /data/big.bin", f"q {T}.0 71 9 4096 1000000 3", "m 71 0 3", "end")
    assert parsed.tables["positions"][["pid", "position_bytes", "size_bytes"]].iloc[0].tolist() == [71, 4096, 1_000_000]
    assert parsed.tables["mapped"]["path"].tolist() == ["/data/big.bin"]
    (problem,) = parsed.problems
    assert "memory-mapped" in problem
    assert "files stay open" in problem


def test_blind_reasons_are_sentences() -> None:
    parsed = read("blind poll Permission denied rank 0 pid 71", "blind inotify No space left on device /data", "end")
    assert parsed.problems[0] == "files open per process cannot be listed: Permission denied rank 0 pid 71"
    assert parsed.problems[1] == "opens of the data folder cannot be watched: No space left on device /data"
    assert "no data file was seen open" in parsed.problems[2]


def test_cut_answer_keeps_what_came() -> None:
    parsed = read("f 0 /d/a", f"o {T}.0 1 0 poll 0", "o 17")
    assert len(rows(parsed)) == 1
    assert parsed.not_understood[0].text == "o 17"
    assert "did not end by itself" in parsed.problems[0]


@given(st.binary(max_size=300))
def test_any_bytes(raw: bytes) -> None:
    OpenedFiles().read((result(raw),))
    RankIo().read((result(raw),))


WORDS = st.sampled_from(
    ["o", "f", "q", "m", "s", "d", "l", "x", "cost", "times", "window", "rank", "0", "-1", "9" * 30, T, "/d", "poll"]
)


@given(st.lists(st.lists(WORDS, max_size=8), max_size=12))
def test_any_rows(lines: list[list[str]]) -> None:
    read(*(" ".join(words) for words in lines))


def test_cost_depends_on_consent() -> None:
    assert OpenedFiles.cost is Cost.READ_ONLY
    assert OpenedFiles().cost is Cost.READ_ONLY
    assert OpenedFiles(careful=True).cost is Cost.CAREFUL


def test_ranks_must_be_known() -> None:
    with pytest.raises(NothingToObserve, match="processes of the ranks are not known") as error:
        observe(OpenedFiles(), local(), Evidence())
    assert "training_jobs" in error.value.next_step


# -- against readers made for the test --------------------------------------------------------------------------------

READER = """
import sys, time
folder, rank, pause = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
turn = 0
while True:
    with open(f"{folder}/sample_{rank}_{turn % 40}.bin", "rb") as file:
        file.read()
        time.sleep(pause)
    time.sleep(0.01)
    turn += 1
"""


@pytest.fixture
def readers(tmp_path: Path) -> Iterator[tuple[Path, Evidence]]:
    """Two processes that each open their own files and hold them for 30 ms."""
    folder = tmp_path / "da ta"
    folder.mkdir()
    for rank in (0, 1):
        for turn in range(40):
            (folder / f"sample_{rank}_{turn}.bin").write_bytes(b"x" * 5000)
    command = [sys.executable, "-c", READER, str(folder)]
    running = [subprocess.Popen([*command, str(rank), "0.03"]) for rank in (0, 1)]
    time.sleep(0.3)
    yield folder, known(running[0].pid, running[1].pid, folder)
    for process in running:
        process.kill()
        process.wait()


def known(first: int, second: int, folder: Path) -> Evidence:
    ranks = pd.DataFrame({"rank": [0, 1], "pid": [first, second]}, dtype="Int64")
    facts = (Fact("data_dir", str(folder), "test"),)
    parsed = Parsed("", facts, {"ranks": ranks})
    return Evidence([Observation("training_jobs", {}, "", (), parsed, id="O1")])


def test_poll_and_inotify_see_the_readers(readers: tuple[Path, Evidence]) -> None:
    """30 ms opens: nearly all are caught by the poll, with the right rank; inotify sees all; a tenth of a core at most."""
    _folder, evidence = readers
    seen = observe(OpenedFiles(seconds=2), local(), evidence)
    opens = seen.table("opens")
    assert opens is not None
    polled = opens[opens["via"] == "poll"]
    by_folder = opens[opens["via"] == "inotify"]
    assert len(by_folder) >= 40
    assert len(polled) >= 0.7 * len(by_folder)
    names = polled["path"].str.extract(r"/da ta/sample_(\d)_")[0].astype("Int64")
    assert (names.to_numpy() == polled["rank"].to_numpy()).all()
    facts = {fact.name: fact.value for fact in seen.facts}
    assert 0 < float(str(facts["probe_cpu_s"])) < 0.4
    assert float(str(facts["opens_window_s"])) == pytest.approx(2, abs=0.3)
    assert seen.parsed.problems == ()


@pytest.mark.skipif(os.geteuid() != 0, reason="fanotify is for root")
def test_careful_gives_every_open_its_rank(readers: tuple[Path, Evidence]) -> None:
    _folder, evidence = readers
    seen = observe(OpenedFiles(seconds=1, careful=True), local(), evidence)
    opens = seen.table("opens")
    assert opens is not None
    if any("kernel's list of openers" in problem for problem in seen.parsed.problems):
        pytest.skip("this kernel refuses fanotify")
    assert set(opens["via"]) == {"fanotify"}
    assert set(opens["rank"]) == {0, 1}
    assert len(opens) >= 20


@pytest.mark.needs("strace")
def test_strace_rung(readers: tuple[Path, Evidence]) -> None:
    """Without a data folder fanotify has nothing to mark, so the processes are traced; they live on."""
    _folder, evidence = readers
    bare = Evidence(
        [dataclasses.replace(evidence.observations[0], parsed=dataclasses.replace(evidence.observations[0].parsed, facts=()))]
    )
    seen = observe(OpenedFiles(seconds=1, careful=True), local(), bare)
    opens = seen.table("opens")
    assert opens is not None
    if any("permitted" in problem for problem in seen.parsed.problems):
        pytest.skip("tracing is not permitted here")
    assert len(opens) >= 20
    assert set(opens["via"]) == {"strace"}
    pids = [int(pid) for pid in bare.observations[0].parsed.tables["ranks"]["pid"]]
    state = Path(f"/proc/{pids[0]}/status").read_text()
    assert "TracerPid:\t0" in state


def test_sh_fallback_on_real_readers(readers: tuple[Path, Evidence]) -> None:
    folder, evidence = readers
    pids = evidence.observations[0].parsed.tables["ranks"]["pid"]
    ranks = [f"{rank}:{pid}" for rank, pid in enumerate(pids)]
    sent = subprocess.run(
        ["sh", "-c", SHELL, "diag_kit", "2", str(folder), "0.1", "watch", *ranks], stdout=subprocess.PIPE, check=True
    )
    parsed = OpenedFiles().read((result(sent.stdout),))
    table = parsed.tables["opens"]
    assert set(table["rank"]) == {0, 1}
    assert len(table) >= 10
    assert table["path"].str.startswith(str(folder)).all()


def test_cancel_ends_it_and_keeps_rows(readers: tuple[Path, Evidence]) -> None:
    _, evidence = readers
    stop = threading.Event()
    threading.Timer(1.5, stop.set).start()
    began = time.monotonic()
    seen = observe(OpenedFiles(seconds=30), local(), evidence, stop)
    assert time.monotonic() - began < 10
    assert len(seen.parsed.tables["opens"]) > 0


def test_rank_io_counts_children_too(readers: tuple[Path, Evidence]) -> None:
    _, evidence = readers
    seen = observe(RankIo(seconds=1), local(), evidence)
    table = seen.table("rank_io")
    assert table is not None
    assert table["rank"].value_counts().to_dict() == {0: 2, 1: 2}
    grown = table.groupby("rank")["rchar"].agg(lambda c: c.iloc[-1] - c.iloc[0])
    assert (grown >= 10 * 5000).all()
    assert [fact.name for fact in seen.facts] == ["rank_0_read_mb_per_s", "rank_1_read_mb_per_s"]


def test_rank_io_rows() -> None:
    parsed = RankIo().read(
        (result(f"==diag_kit:rank_io==\n{T}.0 0 71 100 50\nblind 1 72 Permission denied\n{T}.0 x\nend\n".encode()),)
    )
    assert parsed.tables["rank_io"][["rank", "pid", "rchar", "read_bytes"]].values.tolist() == [[0, 71, 100, 50]]
    assert parsed.problems == ("the bytes read by rank 1 (pid 72): Permission denied",)
    assert parsed.not_understood[0].text == f"{T}.0 x"
