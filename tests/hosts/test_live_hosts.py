"""What every live host must do alike: paramiko, the system's ssh, and this machine."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from programs import find_program
from real_sshd import Sshd, processes_with

from diag_kit.errors import BadInput, CommandFailed
from diag_kit.hosts.base import ShellHost
from diag_kit.hosts.connection import connect
from diag_kit.hosts.local import local
from diag_kit.hosts.protocol import Host, render

HOSTILE = ("; rm -rf /nowhere", "it's", '"', "a\nb", "$(id)", "`id`", "!x", "\\", "", "日本", "-rf", "*", "%s")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("paramiko", marks=pytest.mark.needs("sshd")),
        pytest.param("openssh", marks=[pytest.mark.needs("sshd"), pytest.mark.needs("ssh")]),
        "local",
        pytest.param("paramiko sh", marks=pytest.mark.needs("sshd")),
        "local sh",
    ],
)
def host(request: pytest.FixtureRequest) -> Iterator[ShellHost]:
    """Each with the agent, which is what a host with a system Python gets, and with the loop in sh."""
    kind, _, by_sh = request.param.partition(" ")
    with pytest.MonkeyPatch.context() as patch:
        if by_sh:
            patch.setattr(ShellHost, "use_agent", False)
        if kind == "local":
            opened = local()
        else:
            if find_program("sshd") is None:
                pytest.skip("sshd is missing")
            sshd: Sshd = request.getfixturevalue("sshd")
            opened = connect("trainbox", config=sshd.config, transport=kind)
        assert opened.run("true").ok
        assert (opened._agent is None) == bool(by_sh)
        yield opened
        opened.close()


def gone(text: str, within_s: float = 6.0) -> bool:
    until = time.monotonic() + within_s
    while processes_with(text):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def running(text: str, within_s: float = 6.0) -> bool:
    until = time.monotonic() + within_s
    while not processes_with(text):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def test_is_a_host(host: ShellHost) -> None:
    assert isinstance(host, Host)
    assert host.kind in ("ssh", "openssh", "local")
    assert host.about == ""
    assert host.name in repr(host)


def test_result(host: ShellHost) -> None:
    result = host.run('echo "out $1"; echo err >&2; exit 7', "x y")
    assert (result.stdout, result.stderr, result.exit_status) == (b"out x y\n", b"err\n", 7)
    assert result.command == render('echo "out $1"; echo err >&2; exit 7', ("x y",))
    assert result.host == host.name
    assert not result.ok and not result.timed_out and not result.truncated
    assert 0 < result.duration_s < 20
    assert result.started.tzinfo is not None


def test_arguments_arrive_as_they_are(host: ShellHost) -> None:
    result = host.run('printf "%s\\0" "$@"', *HOSTILE)
    assert result.stdout == b"".join(part.encode() + b"\0" for part in HOSTILE)


def test_script_sees_its_surroundings(host: ShellHost) -> None:
    result = host.run('echo "$LC_ALL $0 $#"; cat; nice')
    assert result.text == "C diag_kit 0\n19\n"


def test_bytes_are_untouched(host: ShellHost) -> None:
    result = host.run("printf '\\000\\377\\376\\r\\n\\033[31m\\303\\251'")
    assert result.stdout == b"\0\xff\xfe\r\n\x1b[31m\xc3\xa9"


def test_both_streams_full_at_once(host: ShellHost) -> None:
    half = 5_000_000
    result = host.run(f"head -c {half} /dev/zero; head -c {half} /dev/zero >&2; head -c 3 /dev/zero; echo end >&2")
    assert len(result.stdout) == half + 3
    assert len(result.stderr) == half + 4
    assert result.ok and not result.truncated


def test_output_is_bounded_and_the_status_still_known(host: ShellHost) -> None:
    result = host.run("head -c 3000000 /dev/zero; exit 3", max_bytes=1000)
    assert len(result.stdout) == 1000
    assert result.truncated and result.exit_status == 3


def test_exactly_the_limit_is_not_truncated(host: ShellHost) -> None:
    assert not host.run("head -c 1000 /dev/zero", max_bytes=1000).truncated
    assert host.run("head -c 1001 /dev/zero", max_bytes=1000).truncated


def test_endless_output_is_stopped(host: ShellHost) -> None:
    started = time.monotonic()
    result = host.run("cat /dev/zero # endless-7d1", max_bytes=1000, timeout_s=60)
    assert time.monotonic() - started < 20
    assert result.truncated and result.exit_status is None and not result.timed_out
    assert len(result.stdout) == 1000
    assert gone("endless-7d1")


def test_timeout(host: ShellHost) -> None:
    started = time.monotonic()
    result = host.run("echo before; sleep 300.71", timeout_s=0.6)
    assert time.monotonic() - started < 10
    assert result.timed_out and result.exit_status is None
    assert result.stdout == b"before\n"
    assert gone("sleep 300.71")


def test_timeout_of_a_script_that_ignores_term(host: ShellHost) -> None:
    result = host.run("trap '' TERM; sleep 300.72; sleep 300.72", timeout_s=0.5)
    assert result.timed_out and result.exit_status is None
    assert gone("sleep 300.72")


def test_a_status_of_124_is_not_a_timeout(host: ShellHost) -> None:
    result = host.run("exit 124", timeout_s=5)
    assert result.exit_status == 124 and not result.timed_out


def test_stop_event(host: ShellHost) -> None:
    stop = threading.Event()
    threading.Timer(0.4, stop.set).start()
    started = time.monotonic()
    result = host.run("echo before; timeout 200 sleep 300.73", stop=stop, timeout_s=60)
    assert time.monotonic() - started < 8
    assert result.stdout == b"before\n"
    assert result.exit_status is None and not result.timed_out
    assert gone("sleep 300.73")  # though the inner `timeout` had put it into a process group of its own


def test_stop_that_was_set_before(host: ShellHost) -> None:
    stop = threading.Event()
    stop.set()
    result = host.run("echo never", stop=stop)
    assert result.stdout == b"" and result.exit_status is None


def test_what_a_script_leaves_behind_is_ended(host: ShellHost) -> None:
    result = host.run("sleep 300.74 & echo done")
    assert result.ok and result.stdout == b"done\n"
    assert gone("sleep 300.74")


def test_twelve_at_once(host: ShellHost) -> None:
    with ThreadPoolExecutor(12) as pool:
        results = list(pool.map(lambda n: host.run('sleep 0.2; echo "$1"', str(n)), range(12)))
    assert [result.stdout for result in results] == [f"{n}\n".encode() for n in range(12)]


def test_a_command_list_in_ps_does_not_end_its_own_output(host: ShellHost) -> None:
    result = host.run("cat /proc/[0-9]*/cmdline; echo; echo last")
    assert result.text.endswith("\nlast\n")
    assert result.ok or b"No such" in result.stderr or b"cannot open" in result.stderr.lower()


def test_cost_is_counted(host: ShellHost) -> None:
    before = host.cost
    result = host.run("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; head -c 5000 /dev/zero")
    assert result.ok
    after = host.cost
    assert after.commands == before.commands + 1
    assert 5000 <= after.bytes_received - before.bytes_received < 10_000
    assert 0.01 <= after.cpu_s - before.cpu_s < 20


def test_bad_input_is_said_before_anything_runs(host: ShellHost) -> None:
    with pytest.raises(BadInput):
        host.run("echo", "a\0b")
    with pytest.raises(BadInput):
        host.run("echo", timeout_s=0)


@pytest.fixture(
    params=[
        pytest.param("paramiko", marks=pytest.mark.needs("sshd")),
        pytest.param("openssh", marks=[pytest.mark.needs("sshd"), pytest.mark.needs("ssh")]),
        "local",
    ]
)
def open_host(request: pytest.FixtureRequest) -> Callable[[], ShellHost]:
    if request.param == "local":
        return local
    sshd: Sshd = request.getfixturevalue("sshd")
    return lambda: connect("trainbox", config=sshd.config, transport=request.param)


def test_close_ends_what_runs(open_host: Callable[[], ShellHost]) -> None:
    host = open_host()
    lost: list[BaseException] = []

    def work() -> None:
        try:
            host.run("echo half; sleep 300.75", timeout_s=60)
        except CommandFailed as error:
            lost.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    assert running("sleep 300.75")
    host.close()
    worker.join(10)
    assert not worker.is_alive()
    assert len(lost) == 1 and "closed while the command ran" in str(lost[0])
    assert lost[0].partial.stdout == b"half\n"  # type: ignore[attr-defined]
    assert gone("sleep 300.75")
    with pytest.raises(CommandFailed, match="was closed"):
        host.run("true")
    host.close()


def test_a_context_manager_closes(open_host: Callable[[], ShellHost]) -> None:
    with open_host() as host:
        assert host.run("echo hi").text == "hi\n"
    with pytest.raises(CommandFailed, match="was closed"):
        host.run("true")
