"""The probes against real files through the local host, and their parsers against made outputs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pytest

from diag_kit.errors import NothingToObserve
from diag_kit.evidence import Evidence
from diag_kit.hosts.local import LocalHost, local
from diag_kit.hosts.protocol import render
from diag_kit.observe.logs import GrepCount, GrepLines, LogFacts, LogMetrics, LogRate
from diag_kit.observe.logs.follow_script import FOLLOW_SCRIPT
from diag_kit.observe.logs.grep import exact_epoch, traps
from diag_kit.observe.logs.rate import is_bursty
from diag_kit.observe.probe import all_probes, observe
from diag_kit.records import CommandResult, Cost, Fact, Observation, Parsed

START = "Train files: 35446\nVal files: 1866\nTrain batches/epoch: 35446\nTotal training steps: 177230\n"


def record(step: int, rank: int = 0, epoch: int = 0) -> str:
    return (
        f"2026-03-02 09:14:55,129 [INFO] train/loss_0=3.102, train/loss={10 - rank / 10:.3f}, epoch={epoch}, "
        f"lr={step * 1.7e-8:.2e}\n"
    )


@pytest.fixture(scope="module")
def host() -> Iterator[LocalHost]:
    machine = local()
    yield machine
    machine.close()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    folder = tmp_path / "it's $(here) dir"
    folder.mkdir()
    path = folder / "-train log.txt"
    path.write_text(START + "".join(record(step, rank) for step in range(50) for rank in range(4)))
    return path


def facts(parsed: Parsed) -> dict[str, object]:
    return {fact.name: fact.value for fact in parsed.facts}


def test_probes_are_in_the_list() -> None:
    known = all_probes()
    assert {"log_facts", "log_metrics", "log_rate", "grep_count", "grep_lines"} <= set(known)
    assert all(known[name].cost == Cost.READ_ONLY for name in ("log_facts", "log_metrics", "log_rate"))


def test_without_a_known_log_they_ask_for_one(host: LocalHost) -> None:
    for asked in (LogFacts(), LogMetrics(), LogRate(), GrepCount("x"), GrepLines("x")):
        with pytest.raises(NothingToObserve, match="no training log is known") as caught:
            asked.collect(host, Evidence())
        assert "--log PATH" in caught.value.next_step


def test_they_take_the_logs_that_the_newest_observation_knows(host: LocalHost, tmp_path: Path) -> None:
    files = []
    for rank in range(2):
        files.append(tmp_path / f"rank{rank}.log")
        files[-1].write_text(record(0, rank) + record(1, rank))
    stated = tuple(Fact("log_path", str(path), "open file of the process") for path in files)
    known = Evidence([
        Observation("training_jobs", {}, "", (), Parsed("", (Fact("log_path", "/old", ""),)), id="O1"),
        Observation("training_jobs", {}, "", (), Parsed("", stated), id="O2"),
    ])  # fmt: skip
    metrics = observe(LogMetrics(), host, known).table("metrics")
    assert metrics is not None
    assert metrics[["rank", "file", "line"]].values.tolist() == [
        [0, str(files[0]), 1], [0, str(files[0]), 2], [1, str(files[1]), 1], [1, str(files[1]), 2],
    ]  # fmt: skip


def test_metrics_and_facts_of_a_file_with_a_hostile_name(host: LocalHost, log: Path) -> None:
    seen = observe(LogMetrics(str(log)), host, Evidence())
    metrics = seen.table("metrics")
    assert metrics is not None and seen.ok
    assert len(metrics) == 200
    assert metrics["lr_text"].value_counts().unique().tolist() == [4]
    assert set(metrics["file"]) == {str(log)}
    stated = observe(LogFacts(str(log)), host, Evidence())
    assert facts(stated.parsed) == {
        "train_samples": 35446, "val_samples": 1866, "batches_per_epoch": 35446, "total_steps": 177230,
    }  # fmt: skip
    assert stated.facts[0].source == f"{log} line 1: Train files: 35446"


def test_a_large_file_is_read_at_its_ends(host: LocalHost, log: Path) -> None:
    log.write_text(START + "".join(record(step) for step in range(5000)))
    seen = observe(LogMetrics(str(log), max_mib=0.125), host, Evidence())
    metrics = seen.table("metrics")
    assert metrics is not None
    assert len(metrics) < 5000
    assert metrics["line"].iloc[0] == 5
    assert metrics["line"].iloc[-1] == 5004
    lines = log.read_text().splitlines()
    for line, text in zip(metrics["line"], metrics["lr_text"], strict=True):
        assert lines[line - 1].endswith(f"lr={text}")
    assert len(seen.parsed.problems) == 1
    assert "in the middle were not read (head and tail only)" in seen.parsed.problems[0]


def test_start_up_lines_behind_the_head_are_found(host: LocalHost, log: Path) -> None:
    log.write_text("INFO loading\n" * 40_000 + START + "".join(record(step) for step in range(2000)))
    stated = observe(LogFacts(str(log)), host, Evidence())
    assert facts(stated.parsed)["batches_per_epoch"] == 35446
    assert stated.facts[0].source == f"{log} line 40001: Train files: 35446"


def test_a_line_that_is_still_being_written_is_left_for_the_next_look(host: LocalHost, log: Path) -> None:
    log.write_text("step 1 loss 3.5\nstep 2 loss 3.1")
    metrics = observe(LogMetrics(str(log)), host, Evidence()).table("metrics")
    assert metrics is not None
    assert metrics["loss"].tolist() == [3.5]


UNREADABLE: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda path: None, "does not exist: check the name on the host, or give the log with --log PATH"),
    "directory": (lambda path: path.mkdir(), "is a directory: give one file in it with --log PATH"),
    "pipe": (lambda path: os.mkfifo(path), "is no regular file: it is a pipe or device, and reading it would take data"),
    "dangling": (lambda path: path.symlink_to("/nowhere/at/all"), "is a link to a file that does not exist"),
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_what_cannot_be_read_is_a_sentence(host: LocalHost, tmp_path: Path, kind: str) -> None:
    make, sentence = UNREADABLE[kind]
    path = tmp_path / "log"
    make(path)
    for asked in (
        LogFacts(str(path)),
        LogMetrics(str(path)),
        LogRate(str(path), 0.5),
        GrepCount("x", str(path)),
        GrepLines("x", str(path)),
    ):
        seen = observe(asked, host, Evidence())
        assert len(seen.parsed.problems) == 1
        assert seen.parsed.problems[0].startswith(f"{path} {sentence}")
        assert "metrics" not in seen.parsed.tables


def test_one_bad_file_does_not_hide_the_others(host: LocalHost, log: Path) -> None:
    seen = observe(LogMetrics(["/nope", str(log)]), host, Evidence())
    metrics = seen.table("metrics")
    assert metrics is not None
    assert len(metrics) == 200
    assert [problem.split(":")[0] for problem in seen.parsed.problems] == ["/nope does not exist"]


def test_permission_denied_is_told_from_missing() -> None:
    said = b"==diag_kit:problem file=0 what=missing==\nls: cannot access '/root/x': Permission denied\n"
    command = render("script", ("1000", "/root/x"))
    result = CommandResult("h", command, said, b"", 0, datetime(2026, 3, 2, tzinfo=UTC), 0.1)
    problem = LogMetrics().read((result,)).problems[0]
    assert problem.startswith("/root/x may not be read by this user (ls: cannot access")
    assert problem.endswith("log in as the user who owns it, or have it made readable")


def test_grep_counts_lines_exactly(host: LocalHost, log: Path) -> None:
    log.write_text(START + record(1) * 7 + record(2, epoch=10) * 3 + "-x\n")
    seen = observe(GrepCount("epoch.*0.*lr", str(log)), host, Evidence())
    assert facts(seen.parsed)["grep_count"] == 10
    assert facts(seen.parsed)["grep_count_exact"] == 7
    assert seen.parsed.summary == "10 lines match epoch.*0.*lr, but only 7 have that epoch"
    assert facts(observe(GrepCount("-x", str(log)), host, Evidence()).parsed)["grep_count"] == 1
    none = observe(GrepCount("nothing like this", str(log)), host, Evidence())
    assert none.ok and facts(none.parsed)["grep_count"] == 0
    broken = observe(GrepCount("a(", str(log)), host, Evidence())
    assert broken.parsed.facts == ()
    assert broken.parsed.problems[0].startswith(f"grep failed on {log}: grep: Unmatched (")


def test_grep_lines_with_numbers(host: LocalHost, log: Path) -> None:
    seen = observe(GrepLines("Train|Total", str(log), limit=2), host, Evidence())
    table = seen.table("grep_lines")
    assert table is not None
    assert table[["line", "text"]].values.tolist() == [[1, "Train files: 35446"], [3, "Train batches/epoch: 35446"]]
    assert observe(GrepLines("zzz", str(log)), host, Evidence()).ok
    assert not observe(GrepLines("a(", str(log)), host, Evidence()).ok


def test_traps_of_a_pattern() -> None:
    said = traps("epoch.*0.*lr")
    assert len(said) == 2
    assert "also matches epochs 10, 20, ..." in said[0]
    assert "a record that a rich console wraps over several lines is missed" in said[1]
    assert exact_epoch("epoch.*0.*lr").endswith(".*lr")
    assert traps("Total training") == []


@contextmanager
def writing(path: Path, lines: int, every_s: float, batch: int = 1) -> Iterator[None]:
    """Appends lines while the block runs."""
    done = threading.Event()

    def write() -> None:
        with path.open("a") as file:
            for step in range(0, lines, batch):
                file.write("".join(record(step + i) for i in range(batch)))
                file.flush()
                if done.wait(every_s):
                    return

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize("use", ["python3", "sh"])
def test_rate_counts_what_is_appended(host: LocalHost, log: Path, use: str) -> None:
    with writing(log, 400, 0.02):
        time.sleep(0.1)
        result = host.run(FOLLOW_SCRIPT, "3", "4000000", use, str(log), timeout_s=20)
    parsed = LogRate().read((result,))
    window = parsed.tables["log_window"]
    assert parsed.problems == ()
    assert list(window.columns) == ["t", "lines_total", "records_total", "bytes_total"]
    assert window.iloc[0, 1:].tolist() == [0, 0, 0]
    assert window["t"].is_monotonic_increasing
    lines = int(window["lines_total"].iloc[-1])
    assert 40 < lines <= 200
    assert window["records_total"].iloc[-1] in (lines, lines - 1)
    assert window["bytes_total"].iloc[-1] / lines == pytest.approx(len(record(1)), rel=0.05)
    seconds = (window["t"].iloc[-1] - window["t"].iloc[0]).total_seconds()
    assert 2.5 < seconds < 5
    assert parsed.tables["window_metrics"]["seen_at"].notna().all()


@pytest.mark.parametrize("use", ["python3", "sh"])
def test_a_file_that_does_not_grow(host: LocalHost, log: Path, use: str) -> None:
    parsed = LogRate().read((host.run(FOLLOW_SCRIPT, "1", "1000", use, str(log), timeout_s=20),))
    assert len(parsed.problems) == 1
    assert ": nothing was appended in 1" in parsed.problems[0]
    assert "finished, hung, or buffered" in parsed.problems[0]
    assert parsed.tables["log_window"]["lines_total"].iloc[-1] == 0


PACES = (1, 2, 4)
"""A loaded machine may start the reader after the writer: then the same again in a window that many times as long."""


@pytest.mark.parametrize("use", ["python3", "sh"])
def test_truncation_and_rotation(host: LocalHost, log: Path, use: str) -> None:
    begun = log.read_text()

    def act(pace: int) -> None:
        time.sleep(0.4 * pace)
        log.write_text(record(1))  # truncated under the reader
        time.sleep(1.4 * pace)
        log.rename(log.with_name("old"))
        log.write_text(record(2) + record(3))

    for pace in PACES:
        log.write_text(begun)
        thread = threading.Thread(target=act, args=(pace,))
        thread.start()
        result = host.run(FOLLOW_SCRIPT, str(3 * pace), "4000000", use, str(log), timeout_s=40)
        thread.join()
        parsed = LogRate().read((result,))
        if len(parsed.problems) >= 2 and parsed.tables["log_window"]["lines_total"].iloc[-1] == 3:
            break
    assert parsed.tables["log_window"]["lines_total"].iloc[-1] == 3
    assert parsed.tables["log_window"]["records_total"].iloc[-1] == 3
    assert any("was truncated in the window" in problem for problem in parsed.problems)
    assert any("was replaced by a new file in the window" in problem for problem in parsed.problems)


def test_half_lines_at_both_ends(host: LocalHost, log: Path) -> None:
    text = record(1)
    more = text[60:] + record(2) + record(3) + text[:50]

    def act(pace: int) -> None:
        time.sleep(0.3 * pace)
        with log.open("a") as file:
            file.write(more)

    for pace in PACES:
        log.write_text(START + text[:60])
        thread = threading.Thread(target=act, args=(pace,))
        thread.start()
        parsed = observe(LogRate(str(log), pace), host, Evidence()).parsed
        thread.join()
        if parsed.tables["log_window"]["lines_total"].iloc[-1]:
            break
    assert parsed.tables["log_window"]["lines_total"].iloc[-1] == 3
    assert parsed.tables["log_window"]["records_total"].iloc[-1] == 2


def followed(per_second: list[int], chunk: Callable[[int], str] | None = None) -> Parsed:
    """The parser on a made window: that many lines in each second."""
    output, step = b"==diag_kit:start file=0 t=1772490600.000 size=5 cut=0 fstype=xfs==\n", 0
    for n, count in enumerate(per_second, 1):
        text = "".join(record((step + i) // 4, (step + i) % 4) for i in range(count)).encode()
        step += count
        fields = f"file=0 n={n} t={1772490600 + n}.000 appended={len(text)} lines={count} event=none bytes={len(text)}"
        output += f"==diag_kit:tick {fields}==\n".encode()
        output += text + b"\n"
    command = render("script", ("30", "4194304", "python3", "/logs/train_4gpu.log"))
    return LogRate().read((CommandResult("trainbox", command, output, b"", 0, datetime(2026, 3, 2, tzinfo=UTC), 30.0),))


def test_168_lines_in_30_seconds() -> None:
    per_second = [6 if n % 5 < 3 else 5 for n in range(30)]
    assert sum(per_second) == 168
    parsed = followed(per_second)
    assert parsed.summary == "168 lines (5.60 lines/s), 168 metric records appended to train_4gpu.log in 30.0 s"
    window = parsed.tables["log_window"]
    assert len(window) == 31
    assert window["t"].iloc[0] == pd.Timestamp(1772490600, unit="s", tz="UTC")
    assert window["records_total"].iloc[-1] == 168
    assert parsed.tables["window_metrics"]["lr_text"].nunique() == 42
    assert facts(parsed) == {
        "log_window_s": 30.0, "log_lines_appended": 168, "log_records_appended": 168, "appends_bursty": False,
        "log_mount_type": "xfs",
    }  # fmt: skip


def test_buffered_output_is_called_bursty() -> None:
    assert facts(followed([0] * 9 + [84] + [0] * 14 + [84] + [0] * 5))["appends_bursty"] is True
    assert facts(followed([1, 0, 0] * 10)).get("appends_bursty") is None
    steady = pd.DataFrame({"lines_total": pd.array(range(0, 310, 10), dtype="Int64")})
    assert is_bursty(steady) is False


def test_the_log_that_the_user_names_counts_more_than_the_one_found():
    from diag_kit.evidence import Evidence
    from diag_kit.observe.logs.pieces import log_paths
    from diag_kit.records import Fact, Observation, Parsed

    def stated(probe: str, id: str, path: str) -> Observation:
        return Observation(probe, {}, "", (), Parsed("", (Fact("log_path", path, probe),)), id=id)

    known = Evidence((stated("told", "O1", "/runs/mine.log"), stated("training_jobs", "O2", "/runs/found.log")))
    assert log_paths(None, known) == ("/runs/mine.log",)
