"""The agent: many commands at once on one stream, and what must never go wrong with that."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from real_sshd import Sshd, processes_with

from diag_kit.errors import CommandFailed
from diag_kit.hosts.agent import AgentShell, _Call
from diag_kit.hosts.base import ShellHost
from diag_kit.hosts.connection import connect
from diag_kit.hosts.local import local


@pytest.fixture(params=[pytest.param("ssh", marks=pytest.mark.needs("sshd")), "local"])
def host(request: pytest.FixtureRequest) -> Iterator[ShellHost]:
    sshd: Sshd | None = request.getfixturevalue("sshd") if request.param == "ssh" else None
    with connect("trainbox", config=sshd.config) if sshd else local() as opened:
        assert opened.run("true").ok
        if opened._agent is None:
            pytest.skip("no system Python here")
        yield opened


def gone(text: str, within_s: float = 6.0) -> bool:
    until = time.monotonic() + within_s
    while processes_with(text):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def test_a_command_that_hangs_keeps_no_other_from_answering(host: ShellHost) -> None:
    with ThreadPoolExecutor(4) as pool:
        hanging = pool.submit(host.run, "echo begun; sleep 300.61", timeout_s=1.5)
        loud = pool.submit(host.run, "head -c 3000000 /dev/zero; sleep 1")
        started = time.monotonic()
        assert [host.run('echo "$1"', str(n)).text for n in range(20)] == [f"{n}\n" for n in range(20)]
        assert time.monotonic() - started < 1.4
        assert hanging.result().timed_out and hanging.result().stdout == b"begun\n"
        assert len(loud.result().stdout) == 3_000_000
    assert gone("sleep 300.61")


def test_one_process_serves_all(host: ShellHost) -> None:
    with ThreadPoolExecutor(8) as pool:
        parents = {result.text for result in pool.map(lambda _: host.run("echo $PPID; sleep 0.1"), range(8))}
    assert len(parents) == 1


def test_only_what_is_wanted_crosses_the_wire(host: ShellHost) -> None:
    before = host.cost.bytes_received
    result = host.run("head -c 3000000 /dev/zero; exit 3", max_bytes=1000)
    assert (len(result.stdout), result.truncated, result.exit_status) == (1000, True, 3)
    assert host.cost.bytes_received - before < 2000


def test_a_flood_is_ended(host: ShellHost) -> None:
    started = time.monotonic()
    result = host.run("yes 300.62", max_bytes=1000, timeout_s=60)
    assert result.truncated and result.exit_status is None and len(result.stdout) == 1000
    assert time.monotonic() - started < 10
    assert gone("yes 300.62")


def test_a_pipe_that_breaks_early_says_nothing(host: ShellHost) -> None:
    """Python ignores SIGPIPE; what it starts must not inherit that, or `yes | head` writes an error."""
    result = host.run("yes | head -n 1")
    assert (result.stdout, result.stderr) == (b"y\n", b"")


def test_an_agent_that_is_killed_is_replaced(host: ShellHost) -> None:
    pid = int(host.run("echo $PPID").text)
    os.kill(pid, signal.SIGKILL)
    time.sleep(0.3)
    assert host.run("echo back").text == "back\n"
    assert int(host.run("echo $PPID").text) != pid


def test_a_frozen_agent_is_given_up_and_replaced(host: ShellHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diag_kit.hosts.agent.GRACE_S", 0.5)
    pid = int(host.run("echo $PPID").text)
    os.kill(pid, signal.SIGSTOP)
    try:
        assert host.run("echo lost", timeout_s=0.5).timed_out
        assert host.run("echo new").text == "new\n"
    finally:
        os.kill(pid, signal.SIGCONT)
    assert gone(f"diag_kit {pid}")


def test_closing_ends_all_that_runs(host: ShellHost) -> None:
    def work() -> None:
        with pytest.raises(CommandFailed):
            host.run("timeout 99 sleep 300.63; sleep 300.63")

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    until = time.monotonic() + 5
    while len(processes_with("sleep 300.63")) < 3 and time.monotonic() < until:
        time.sleep(0.02)
    host.close()
    for thread in threads:
        thread.join(8)
    assert gone("300.63")


def test_cost_of_one_command_is_on_the_account(host: ShellHost) -> None:
    before = host.cost.cpu_s
    host.run("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")
    assert 0.01 < host.cost.cpu_s - before < 20


def test_the_agent_is_small(host: ShellHost) -> None:
    pid = host.run("echo $PPID").text.strip()
    assert int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") < 20 * 2**20
    used = sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))
    time.sleep(1)
    assert sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13])) - used <= 1  # it sleeps


class _NoShell:
    stream = None
    tools = ""


@settings(max_examples=200, deadline=None)
@given(
    payloads=st.lists(st.tuples(st.sampled_from("oe"), st.integers(1, 3), st.binary(max_size=80)), max_size=12),
    cuts=st.data(),
)
def test_frames_are_cut_alike_however_they_arrive(payloads: list[tuple[str, int, bytes]], cuts: st.DataObject) -> None:
    stream = b"".join(b"%s %d %d\n%s" % (kind.encode(), number, len(data), data) for kind, number, data in payloads)
    stream += b"x 2 24\n0 ended 0.01 0.5000 2 33x 1 2"
    agent = AgentShell(_NoShell())  # type: ignore[arg-type]
    calls = {number: _Call(number) for number in (1, 2, 3)}
    agent._calls = dict(calls)
    at = 0
    while at < len(stream):
        size = cuts.draw(st.integers(1, 40))
        agent._feed(stream[at : at + size])
        at += size
    for number, call in calls.items():
        for kind, got in (("o", call.out), ("e", call.err)):
            assert b"".join(got) == b"".join(data for k, n, data in payloads if (k, n) == (kind, number))
    assert calls[2].done and calls[2].exit_status == 0 and not calls[1].done
    assert agent.cpu_s == 0.5


def test_noise_instead_of_frames_ends_the_agent_and_raises_nothing() -> None:
    agent = AgentShell(_NoShell())  # type: ignore[arg-type]
    with pytest.raises(ValueError):
        agent._feed(b"\xff" * 100)
