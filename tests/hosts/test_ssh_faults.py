"""What goes wrong between here and the host, injected for real: dead ports, silent servers, killed sessions and clients,
jump hosts, strange login shells."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from programs import find_program
from real_sshd import Sshd, free_port, processes_with

from diag_kit.errors import BadInput, CommandFailed, HostKeyRefused, HostUnreachable
from diag_kit.hosts.base import ConnectionLost, ShellHost
from diag_kit.hosts.connection import connect
from diag_kit.hosts.ssh import SshHost
from diag_kit.hosts.timeouts import Timeouts

pytestmark = [pytest.mark.needs("sshd"), pytest.mark.needs("ssh")]

BOTH = pytest.mark.parametrize("transport", ["paramiko", "openssh"])
Variant = Callable[..., Sshd]
QUICK = Timeouts(connect_s=2, banner_s=1.5, auth_s=5, channel_s=5)
ROOT = Path(__file__).parents[2]


def wait_for(condition: Callable[[], object], within_s: float = 8.0) -> bool:
    until = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


# Not getting there.


@BOTH
def test_a_dead_port(sshd: Sshd, transport: str) -> None:
    alias = sshd.add_host(f"deadport-{transport}", Port=str(free_port()))
    with pytest.raises(HostUnreachable) as failed:
        connect(alias, config=sshd.config, transport=transport, timeouts=QUICK)  # type: ignore[arg-type]
    assert "does not answer" in str(failed.value) and "Connection refused" in str(failed.value)
    assert "next:" in str(failed.value) and alias in str(failed.value)


@BOTH
def test_a_name_that_does_not_exist(sshd: Sshd, transport: str) -> None:
    alias = sshd.add_host(f"noname-{transport}", HostName="no-such-host.invalid")
    with pytest.raises(HostUnreachable, match="cannot be resolved"):
        connect(alias, config=sshd.config, transport=transport, timeouts=QUICK)  # type: ignore[arg-type]


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Accepts connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@BOTH
def test_a_server_that_never_greets(sshd: Sshd, silent_port: int, transport: str) -> None:
    alias = sshd.add_host(f"silent-{transport}", Port=str(silent_port))
    started = time.monotonic()
    with pytest.raises(HostUnreachable, match="something answers"):
        connect(alias, config=sshd.config, transport=transport, timeouts=QUICK)  # type: ignore[arg-type]
    assert time.monotonic() - started < 8


def test_something_else_listens_there(sshd: Sshd) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
            connection.close()

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        alias = sshd.add_host("http", Port=str(server.getsockname()[1]))
        with pytest.raises(HostUnreachable, match="not as an SSH server"):
            connect(alias, config=sshd.config, transport="paramiko", timeouts=QUICK)
        thread.join(5)


def test_nothing_of_paramiko_reaches_the_screen(sshd: Sshd, silent_port: int) -> None:
    """A failed greeting makes paramiko log a traceback; without a handler Python would print it."""
    alias = sshd.add_host("quiet", Port=str(silent_port))
    code = f"""
        from diag_kit.hosts.connection import connect
        from diag_kit.hosts.timeouts import Timeouts
        try:
            connect({alias!r}, config={str(sshd.config)!r}, transport="paramiko", timeouts=Timeouts(banner_s=0.5))
        except ConnectionError as error:
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.stderr == ""
    assert done.stdout.startswith("something answers on 127.0.0.1")


# Getting there in steps.


@BOTH
def test_one_jump_host(sshd: Sshd, sshd_variant: Variant, transport: str) -> None:
    inner = sshd_variant()
    alias = sshd.add_host(
        f"inner-{transport}",
        Port=str(inner.port),
        IdentityFile=str(inner.user_key),
        UserKnownHostsFile=str(inner.known_hosts),
        ProxyJump="trainbox",
    )
    with connect(alias, config=sshd.config, transport=transport) as host:  # type: ignore[arg-type]
        port = host.run('echo "${SSH_CONNECTION##* }"').text.strip()
        assert port == str(inner.port)
        assert len(host.run("head -c 3000000 /dev/zero").stdout) == 3_000_000


def test_a_chain_of_jump_hosts_and_a_jump_with_user_and_port(sshd: Sshd) -> None:
    sshd.add_host("second", ProxyJump="trainbox")
    alias = sshd.add_host("third", ProxyJump=f"trainbox,{sshd.user}@second:{sshd.port}")
    with connect(alias, config=sshd.config, transport="paramiko") as host:
        assert isinstance(host, SshHost) and host._route is not None
        assert len(host._route.transports) == 3
        assert host.run("echo through").text == "through\n"
    nested = sshd.add_host("nested", ProxyJump="second")
    with connect(nested, config=sshd.config, transport="paramiko") as host:
        assert isinstance(host, SshHost) and host._route is not None
        assert len(host._route.transports) == 3


def test_the_key_of_a_jump_host_is_checked_too(sshd: Sshd, tmp_path: Path) -> None:
    sshd.add_host("strange-jump", UserKnownHostsFile=str(tmp_path / "empty"))
    alias = sshd.add_host("behind-strange", ProxyJump="strange-jump")
    with pytest.raises(HostKeyRefused, match="not known yet") as refused:
        connect(alias, config=sshd.config, transport="paramiko")
    assert "strange-jump" in str(refused.value)


def test_an_unknown_key_behind_a_jump_host_is_accepted_by_hand(sshd: Sshd, tmp_path: Path) -> None:
    alias = sshd.add_host("strange-inner", ProxyJump="trainbox", UserKnownHostsFile=str(tmp_path / "empty"))
    with pytest.raises(HostKeyRefused, match="log in once by hand: ssh strange-inner") as refused:
        connect(alias, config=sshd.config, transport="paramiko")
    assert "ssh-keyscan" not in str(refused.value)


def test_a_jump_host_that_cannot_reach_on(sshd: Sshd) -> None:
    alias = sshd.add_host("beyond", Port=str(free_port()), ProxyJump="trainbox")
    with pytest.raises(HostUnreachable, match=r"the jump host could not reach 127\.0\.0\.1"):
        connect(alias, config=sshd.config, transport="paramiko")


def test_jump_hosts_in_a_circle(sshd: Sshd) -> None:
    sshd.add_host("round-a", ProxyJump="round-b")
    sshd.add_host("round-b", ProxyJump="round-a")
    with pytest.raises(HostUnreachable, match="in a circle"):
        connect("round-a", config=sshd.config, transport="paramiko")


def test_proxy_command(sshd: Sshd) -> None:
    alias = sshd.add_host("proxied", ProxyCommand=f"ssh -F {shlex.quote(str(sshd.config))} -W %h:%p trainbox")
    with connect(alias, config=sshd.config, transport="paramiko") as host:
        assert host.run("echo proxied").text == "proxied\n"
        assert processes_with(f"-W 127.0.0.1:{sshd.port} trainbox")
    assert wait_for(lambda: not processes_with(f"-W 127.0.0.1:{sshd.port} trainbox"))


def test_a_proxy_command_that_fails(sshd: Sshd) -> None:
    alias = sshd.add_host("badproxy", ProxyCommand="exit 3")
    with pytest.raises(HostUnreachable, match="ProxyCommand did not lead to an SSH server") as failed:
        connect(alias, config=sshd.config, transport="paramiko", timeouts=QUICK)
    assert "exit 3" in str(failed.value)


# Losing it in the middle.


@BOTH
def test_sessions_killed_under_a_command(sshd_variant: Variant, transport: str) -> None:
    sshd = sshd_variant()
    with connect("trainbox", config=sshd.config, transport=transport) as host:  # type: ignore[arg-type]
        threading.Timer(0.7, sshd.break_connections).start()
        with pytest.raises(ConnectionLost) as lost:
            host.run('echo "first half"; sleep 300.81', timeout_s=60)
        assert lost.value.partial.stdout == b"first half\n"
        assert lost.value.partial.exit_status is None
        assert isinstance(lost.value, CommandFailed)
        assert "connection" in str(lost.value) and "11 bytes" in str(lost.value) and "run it again" in str(lost.value)
        assert wait_for(lambda: not processes_with("sleep 300.81"))
        assert host.run("echo back").text == "back\n"


@BOTH
def test_a_connection_that_died_while_idle_is_made_anew(sshd_variant: Variant, transport: str) -> None:
    sshd = sshd_variant()
    with connect("trainbox", config=sshd.config, transport=transport) as host:  # type: ignore[arg-type]
        assert host.run("echo one").text == "one\n"
        sshd.break_connections()
        assert host.run("echo two").text == "two\n"
        sshd.break_connections()
        time.sleep(0.5)
        assert host.run("echo three").text == "three\n"
        if isinstance(host, SshHost):
            assert host.reconnections == 2


def test_a_host_that_stays_away(sshd_variant: Variant) -> None:
    sshd = sshd_variant()
    with connect("trainbox", config=sshd.config, timeouts=QUICK) as host:
        sshd.stop()
        with pytest.raises(HostUnreachable, match="does not answer"):
            host.run("echo two")


@BOTH
def test_a_killed_runner_is_told_from_a_lost_connection(sshd: Sshd, transport: str) -> None:
    with connect("trainbox", config=sshd.config, transport=transport) as host:  # type: ignore[arg-type]
        with pytest.raises(ConnectionLost, match=r"the shell on .* that ran the command is gone"):
            host.run("kill -9 $PPID; sleep 3")
        assert host.run("echo alive").text == "alive\n"


@BOTH
def test_a_killed_loop_in_sh_is_told_from_a_lost_connection(sshd: Sshd, transport: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ShellHost, "use_agent", False)
    with connect("trainbox", config=sshd.config, transport=transport) as host:  # type: ignore[arg-type]
        with pytest.raises(ConnectionLost, match=r"the shell on .* that ran the command is gone"):
            host.run('p=$(ps -o ppid= -p $$ | tr -d " "); pp=$(ps -o ppid= -p "$p" | tr -d " "); kill -9 "$pp" "$p"; sleep 3')
        assert host.run("echo alive").text == "alive\n"


CLIENT = """
import sys
from diag_kit.hosts.connection import connect
from diag_kit.hosts.local import local
kind, config, mark = sys.argv[1:]
host = local() if kind == "local" else connect("trainbox", config=config, transport=kind)
print("connected", flush=True)
host.run('echo begun; timeout 290 sleep "$1"; sleep 300', mark, timeout_s=290)
"""


@pytest.mark.parametrize("kind", ["paramiko", "openssh", "local"])
@pytest.mark.parametrize("ended_by", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_client_leaves_nothing_running(sshd: Sshd, kind: str, ended_by: signal.Signals) -> None:
    mark = f"300.9{['paramiko', 'openssh', 'local'].index(kind)}{int(ended_by)}"
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT, kind, str(sshd.config), mark],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert client.stdout is not None and client.stdout.readline() == b"connected\n"
    assert wait_for(lambda: processes_with(f"sleep {mark}"))
    client.send_signal(ended_by)
    client.wait(10)
    client.stdout.close()
    assert wait_for(lambda: not processes_with(f"sleep {mark}"))
    assert wait_for(lambda: not processes_with(mark))
    assert wait_for(lambda: not processes_with(f"-F {sshd.config}")), "a master ssh process was left"


def test_closing_the_openssh_transport_leaves_no_process_and_no_socket(sshd: Sshd) -> None:
    host = connect("trainbox", config=sshd.config, transport="openssh")
    folder = host._folder  # type: ignore[attr-defined]
    assert folder.stat().st_mode & 0o077 == 0
    assert host.run("echo hi").ok
    host.close()
    assert wait_for(lambda: not processes_with(str(folder)))
    assert not folder.exists()


# Limits and oddities of the host.


def test_fewer_sessions_than_commands(sshd_variant: Variant) -> None:
    sshd = sshd_variant(options={"MaxSessions": "2"})
    with connect("trainbox", config=sshd.config, transport="paramiko") as host, ThreadPoolExecutor(12) as pool:
        results = list(pool.map(lambda n: host.run('sleep 0.1; echo "$1"', str(n)), range(12)))
        assert [result.stdout for result in results] == [f"{n}\n".encode() for n in range(12)]
        assert isinstance(host, SshHost) and host.reconnections == 0


@BOTH
def test_one_session_only(sshd_variant: Variant, transport: str) -> None:
    sshd = sshd_variant(options={"MaxSessions": "1"})
    with connect("trainbox", config=sshd.config, transport=transport) as host, ThreadPoolExecutor(3) as pool:  # type: ignore[arg-type]
        results = list(pool.map(lambda n: host.run('echo "$1"', str(n)).text, range(6)))
        assert results == [f"{n}\n" for n in range(6)]


def test_a_stop_while_waiting_for_a_session(sshd_variant: Variant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ShellHost, "use_agent", False)
    sshd = sshd_variant(options={"MaxSessions": "1"})
    with connect("trainbox", config=sshd.config, transport="paramiko") as host, ThreadPoolExecutor(1) as pool:
        long = pool.submit(host.run, "sleep 3; echo long")
        time.sleep(0.3)
        stop = threading.Event()
        threading.Timer(0.3, stop.set).start()
        started = time.monotonic()
        assert host.run("echo never", stop=stop).stdout == b""
        assert time.monotonic() - started < 2
        assert long.result().text == "long\n"


def test_no_session_at_all(sshd_variant: Variant) -> None:
    sshd = sshd_variant(options={"MaxSessions": "0"})
    with pytest.raises(CommandFailed, match="opens no session") as failed:
        connect("trainbox", config=sshd.config, transport="paramiko")
    assert "MaxSessions" in str(failed.value)


@BOTH
def test_a_forced_command_is_quoted(sshd_variant: Variant, transport: str) -> None:
    sshd = sshd_variant(options={"ForceCommand": "echo this account only receives backups"})
    with pytest.raises(CommandFailed, match="this account only receives backups"):
        connect("trainbox", config=sshd.config, transport=transport)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "shell",
    [
        pytest.param("fish", marks=pytest.mark.needs("fish")),
        pytest.param("csh", marks=pytest.mark.needs("csh")),
        pytest.param("zsh", marks=pytest.mark.needs("zsh")),
        pytest.param("bash", marks=pytest.mark.needs("bash")),
    ],
)
@BOTH
def test_login_shells_with_noisy_profiles(sshd_variant: Variant, tmp_path: Path, shell: str, transport: str) -> None:
    home = tmp_path / "home"
    (home / ".config" / "fish").mkdir(parents=True)
    noise = "echo '*** Welcome to the GPU cluster ***'\nprintf 'no newline at the end'\n"
    for profile in (".bashrc", ".cshrc", ".zshenv", ".config/fish/config.fish"):
        (home / profile).write_text(noise + ("echo noise >&2\n" if profile == ".bashrc" else ""))
    sshd = sshd_variant(login_shell=find_program(shell), home=str(home))
    with connect("trainbox", config=sshd.config, transport=transport) as host:  # type: ignore[arg-type]
        result = host.run('printf "%s|" "$@"; pwd >&2', "it's", "a\nb", "$x !y")
        assert result.stdout == b"it's|a\nb|$x !y|"
        assert result.stderr == f"{home}\n".encode()
        assert host.run("echo clean").stdout == b"clean\n"


def test_an_account_without_a_shell(sshd_variant: Variant) -> None:
    sshd = sshd_variant(login_shell="/usr/sbin/nologin")
    with pytest.raises(CommandFailed, match=r"could not start sh there.*account is currently not available"):
        connect("trainbox", config=sshd.config)


def test_a_host_without_timeout_nice_ionice_setsid(sshd_variant: Variant, tmp_path: Path) -> None:
    bins = tmp_path / "bin"
    bins.mkdir()
    for name in ("sh", "sleep", "cat", "env"):
        (bins / name).symlink_to(find_program(name) or name)
    sshd = sshd_variant(options={"SetEnv": f"PATH={bins}"}, login_shell="/bin/sh")
    with connect("trainbox", config=sshd.config) as host:
        assert host.run("command -v timeout setsid; echo none").text == "none\n"
        result = host.run("echo before; sleep 300.85", timeout_s=1)
        assert result.timed_out and result.stdout == b"before\n"
        assert wait_for(lambda: not processes_with("sleep 300.85"))
        stop = threading.Event()
        threading.Timer(0.3, stop.set).start()
        assert host.run("sleep 300.84", stop=stop).exit_status is None
        assert wait_for(lambda: not processes_with("sleep 300.84"))
        assert host.run("exit 3").exit_status == 3


def test_a_frozen_host_costs_one_timeout_and_then_a_new_connection(sshd_variant: Variant) -> None:
    sshd = sshd_variant()
    with connect("trainbox", config=sshd.config, timeouts=QUICK) as host:
        frozen = [pid for pid in sshd.sessions() if b"sshd" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        try:
            result = host.run("echo lost", timeout_s=0.5)
            assert result.timed_out and result.exit_status is None
            assert host.run("echo new", timeout_s=5).text == "new\n"
        finally:
            for pid in frozen:
                os.kill(pid, signal.SIGCONT)


def test_without_an_ssh_program(sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    included = tmp_path / "more"
    included.write_text(sshd.config.read_text())
    config = tmp_path / "config"
    config.write_text(f"Include {included}\n")
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with connect("trainbox", config=config) as host:
        assert host.kind == "ssh" and host.run("echo in").text == "in\n"
    with pytest.raises(BadInput, match="no ssh program"):
        connect("trainbox", config=config, transport="openssh")


def test_ipv6(sshd_variant: Variant) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    sshd = sshd_variant(options={"ListenAddress": "127.0.0.1\nListenAddress ::1"})
    keys = " ".join(sshd.known_hosts.read_text().split()[1:3])
    sshd.known_hosts.write_text(f"[::1]:{sshd.port} {keys}\n")
    sshd.add_host("::1", HostName="::1", Port="22")
    with connect(f"{sshd.user}@[::1]:{sshd.port}", config=sshd.config, transport="paramiko") as host:
        assert host.run("echo six").text == "six\n"
    with connect(f"[::1]:{sshd.port}", config=sshd.config, transport="openssh") as host:
        assert host.run("echo six").text == "six\n"


def test_a_host_named_by_the_environment(sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIAG_KIT_SSH_CONFIG", str(sshd.config))
    with connect("trainbox") as host:
        assert host.run("echo in").text == "in\n"


def test_connect_refuses_what_it_does_not_know(sshd: Sshd) -> None:
    with pytest.raises(BadInput, match="no transport is called"):
        connect("trainbox", config=sshd.config, transport="telnet")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="not a host"):
        connect("-oProxyCommand=true", config=sshd.config)


def test_settings_of_the_connection(sshd: Sshd) -> None:
    with connect("trainbox", config=sshd.config, transport="paramiko") as host:
        assert isinstance(host, SshHost) and host._route is not None
        transport = host._route.transport
        assert "gcm" in transport.local_cipher
        assert transport.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
        assert transport.sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
