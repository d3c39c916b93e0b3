"""A recording answers like the host it was made on, and refuses what it does not hold."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from recording_cases import GREP, LIST_JOBS, NOON, observation, result

from diag_kit.errors import BadInput, Cancelled, CommandFailed, HostUnreachable, NotRecorded
from diag_kit.hosts.protocol import Host, render
from diag_kit.hosts.recorded import RecordedHost, RecordingHost, replay, shipped_recordings
from diag_kit.recording import FailedCommand, Recording, save
from diag_kit.records import CommandResult, Fact
from diag_kit.redaction import Redactor


class ScriptedHost:
    """A live host made of a function."""

    kind = "ssh"
    about = ""

    def __init__(self, answer: Callable[..., bytes], name: str = "trainbox") -> None:
        self.name = name
        self._answer = answer
        self.closed = False
        self._asked = 0

    def run(self, script: str, *arguments: str, **_: Any) -> CommandResult:
        self._asked += 1
        out = self._answer(script, *arguments)
        return CommandResult(self.name, render(script, arguments), out, b"", 0, NOON + timedelta(seconds=self._asked), 0.01)

    def close(self) -> None:
        self.closed = True


def host_of(*results: CommandResult, **fields: Any) -> RecordedHost:
    return RecordedHost(Recording(extra=results, **fields), "case")


# The chain: find a job, take its log's path, search in that path


def trainbox(script: str, *arguments: str) -> bytes:
    if script == LIST_JOBS:
        return (
            b"4711 quentin /home/quentin/venv/bin/python train.py --api-key k9f8e7d6c5 > '/home/quentin/my runs/zebrabox17.log'\n"
        )
    if script == GREP and arguments == ("loss", "/home/quentin/my runs/zebrabox17.log"):
        return b"35446\n"
    raise AssertionError(arguments)


def log_path(jobs: CommandResult) -> str:
    return jobs.text.split("> ")[1].strip().strip("'")


def test_a_path_found_in_a_replayed_answer_can_be_asked_about(tmp_path: Path) -> None:
    live = RecordingHost(ScriptedHost(trainbox, "quentin@zebrabox17"))
    jobs = live.run(LIST_JOBS)
    assert live.run(GREP, "loss", log_path(jobs)).text == "35446\n"
    ledger = (observation(jobs, facts=(Fact("log_path", log_path(jobs), "fd 3"),)),)
    saved = save(tmp_path / "case.diag.zip", Recording(entries=ledger, extra=live.results, hosts=(live.name,)))

    host = replay(saved.path)
    replayed = host.run(LIST_JOBS)
    assert (
        replayed.text == "4711 user1 /home/user1/venv/bin/python train.py --api-key secret-1 > '/home/user1/my runs/host1.log'\n"
    )
    assert log_path(replayed) == "/home/user1/my runs/host1.log"
    assert host.run(GREP, "loss", log_path(replayed)).text == "35446\n"
    fact = host.recording.entries[0].facts[0]  # type: ignore[union-attr]
    assert host.run(GREP, "loss", str(fact.value)).text == "35446\n", "a saved fact asks the same question"
    assert replayed.host == "user1@host1"
    with pytest.raises(NotRecorded) as caught:
        host.run(GREP, "loss", "/home/quentin/my runs/zebrabox17.log")
    assert "/home/user1/my runs/host1.log" in caught.value.next_step


def test_the_chain_holds_when_the_names_are_kept(tmp_path: Path) -> None:
    live = RecordingHost(ScriptedHost(trainbox))
    jobs = live.run(LIST_JOBS)
    live.run(GREP, "loss", log_path(jobs))
    saved = save(tmp_path / "case.diag.zip", Recording(extra=live.results), redactor=Redactor(keep=("user", "host")))
    host = replay(saved.path)
    assert host.run(GREP, "loss", log_path(host.run(LIST_JOBS))).text == "35446\n"


# Answers


def test_the_nth_asking_gets_the_nth_answer_then_the_last() -> None:
    answers = [result("date", out=str(number).encode(), after_s=number) for number in (2, 0, 1)]
    host = host_of(*answers)
    assert [host.run("date").stdout for _ in range(5)] == [b"0", b"1", b"2", b"2", b"2"]


def test_a_result_is_replayed_whole() -> None:
    odd = result("x", "é", out=b"\xff\0", stderr=b"no", exit_status=None, timed_out=True, truncated=True)
    assert host_of(odd).run("x", "é") == odd


def test_results_of_the_ledger_and_beside_it_are_answers() -> None:
    host = host_of(result("b", out=b"2"), entries=(observation(result("a", out=b"1")),))
    assert host.run("a").stdout + host.run("b").stdout == b"12"


def test_an_error_that_the_host_raised_is_raised_again() -> None:
    failed = FailedCommand("trainbox", render("x", ()), "HostUnreachable", "no answer", "trainbox", "check the VPN", NOON)
    host = host_of(result("x", after_s=5, out=b"back"), failures=(failed,))
    with pytest.raises(HostUnreachable, match="no answer") as caught:
        host.run("x")
    assert caught.value.next_step == "check the VPN"
    assert host.run("x").stdout == b"back"


def test_what_was_not_recorded_is_refused_and_says_what_is_there() -> None:
    host = host_of(*(result("cat", f"/log{number}") for number in range(5)))
    with pytest.raises(NotRecorded) as caught:
        host.run("cat", "/other " + "x" * 500)
    assert caught.value.what.startswith("not recorded: cat /other xxx") and len(caught.value.what) < 150
    assert "5 commands" in caught.value.where
    assert caught.value.next_step == "the same was recorded with: /log0; /log1; /log2 and 2 more"
    with pytest.raises(NotRecorded, match="not recorded: dog") as caught:
        host.run("dog")
    assert "connect to the live host" in caught.value.next_step


def test_a_question_differs_by_every_character() -> None:
    host = host_of(result("echo $1", "a b"))
    for script, arguments in (("echo $1", ("a  b",)), ("echo $1", ("a", "b")), ("echo  $1", ("a b",)), ("echo $1", ())):
        with pytest.raises(NotRecorded):
            host.run(script, *arguments)


def test_threads_share_the_answers() -> None:
    host = host_of(*(result("date", out=bytes([number]), after_s=number) for number in range(64)))
    got: list[bytes] = []
    threads = [threading.Thread(target=lambda: got.extend(host.run("date").stdout for _ in range(8))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == [bytes([number]) for number in range(64)]


# Pace


def test_at_once_or_as_it_was() -> None:
    recording = Recording(extra=(result("sleep", duration_s=0.3),))
    begun = time.monotonic()
    RecordedHost(recording, "case").run("sleep")
    assert time.monotonic() - begun < 0.2
    begun = time.monotonic()
    RecordedHost(recording, "case", "recorded").run("sleep")
    assert time.monotonic() - begun >= 0.3


def test_waiting_ends_when_stopped() -> None:
    host = RecordedHost(Recording(extra=(result("sleep", duration_s=60.0),)), "case", "recorded")
    stop = threading.Event()
    threading.Timer(0.1, stop.set).start()
    begun = time.monotonic()
    with pytest.raises(Cancelled):
        host.run("sleep", stop=stop)
    assert time.monotonic() - begun < 5


# Opening


def test_a_path_a_shipped_name_and_neither(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = save(tmp_path / "mine.diag.zip", Recording(provenance="reconstruction", title="A case", extra=(result(),)))
    host = replay(saved.path)
    assert (host.name, host.kind, host.about) == ("host1 in mine", "recorded", "recorded (reconstruction)")
    assert isinstance(host, Host)
    assert replay(str(saved.path)).run("uptime").text == "ok\n"
    monkeypatch.setattr("diag_kit.hosts.recorded.shipped_recordings", lambda: ("one", "two"))
    for name in ("three", "x" * 5000, "a\0b", str(tmp_path)):
        with pytest.raises(BadInput, match="no recording called") as caught:
            replay(name)
        assert "one, two" in caught.value.next_step


def test_every_shipped_recording_opens() -> None:
    for name in shipped_recordings():
        host = replay(name)
        assert host.name == name and host.recording.question


# Recording


def test_everything_that_passes_is_kept() -> None:
    inner = ScriptedHost(lambda script, *rest: script.encode())
    host = RecordingHost(inner)
    assert isinstance(host, Host)
    assert (host.name, host.kind, host.about, host.inner) == ("trainbox", "ssh", "", inner)
    returned = [host.run("a"), host.run("b", "c")]
    assert list(host.results) == returned
    host.close()
    assert inner.closed


def test_errors_are_kept_and_raised() -> None:
    def broken(*_: str) -> bytes:
        raise CommandFailed("the connection broke", where="trainbox", next_step="again")

    host = RecordingHost(ScriptedHost(broken))
    with pytest.raises(CommandFailed):
        host.run("x", "y")
    (failed,) = host.failures
    assert (failed.command, failed.error, failed.what, failed.next_step) == (
        render("x", ("y",)), "CommandFailed", "the connection broke", "again",
    )  # fmt: skip


@pytest.mark.parametrize("error", [Cancelled("stopped"), NotRecorded("no")])
def test_a_cancel_is_not_a_property_of_the_host(error: Exception) -> None:
    def raising(*_: str) -> bytes:
        raise error

    host = RecordingHost(ScriptedHost(raising))
    with pytest.raises(type(error)):
        host.run("x")
    assert host.failures == ()


def test_a_replayed_error_is_not_recorded_twice() -> None:
    failed = FailedCommand("trainbox", render("x", ()), "CommandFailed", "broke")
    host = RecordingHost(host_of(failures=(failed,)))
    with pytest.raises(CommandFailed):
        host.run("x")
    assert host.failures == ()


def test_memory_is_bounded_and_the_loss_is_counted() -> None:
    host = RecordingHost(ScriptedHost(lambda script, *rest: b"x" * int(script)), max_bytes=1000)
    for size in ("600", "600", "300", "200"):
        assert len(host.run(size).stdout) == int(size)
    assert [len(each.stdout) for each in host.results] == [600, 300]
    assert host.dropped == 2


def test_threads_record_together() -> None:
    host = RecordingHost(ScriptedHost(lambda *_: b"x"))
    threads = [threading.Thread(target=lambda: [host.run("a") for _ in range(50)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(host.results) == 400


def test_saving_a_replay_keeps_it_as_it_was(tmp_path: Path) -> None:
    """Its name is that of a file, not of a host; and an answer that was asked for again is still one answer."""
    first = save(
        tmp_path / "zebra.diag.zip", Recording(extra=(result("date", out=b"zebra 1"), result("date", out=b"2", after_s=1)))
    )
    host = RecordingHost(replay(first.path))
    for _ in range(4):
        host.run("date")
    again = Recording(extra=(*first.recording.extra, *host.results), hosts=(host.name,), created=first.recording.created)
    second = save(tmp_path / "again.diag.zip", again)
    assert second.recording.hosts == ("host1",)
    assert [each.stdout for each in replay(second.path).recording.results] == [b"zebra 1", b"2"]
