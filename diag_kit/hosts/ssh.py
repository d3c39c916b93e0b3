"""A remote host over paramiko: one connection, a few runners on it, made anew when it dies."""

from __future__ import annotations

import selectors
import threading
from contextlib import suppress
from pathlib import Path

import paramiko

from diag_kit.errors import CommandFailed
from diag_kit.hosts.base import LOST_CHECK_S, NoMoreSessions, ShellHost
from diag_kit.hosts.login import Password, Secret
from diag_kit.hosts.runner import login_line
from diag_kit.hosts.shell import Stream, StreamEnded
from diag_kit.hosts.ssh_config import config_path, parse_target, resolve
from diag_kit.hosts.timeouts import Timeouts
from diag_kit.hosts.transport import PACKET_BYTES, WINDOW_BYTES, Route, open_route

READ_BYTES = 2**26
"""All that has come at once: taking a part makes paramiko move the rest, which is quadratic when we lag behind."""
CLOSE_CHECK_S = 0.25
"""A channel closed by another thread takes its wake-up pipe with it, so a reader looks up this often."""
_SESSIONS_FULL = (1, 2, 4)  # administratively prohibited, connect failed (OpenSSH's MaxSessions), resource shortage


class ChannelStream:
    """An SSH channel as a stream. Both directions are drained by one reader: reading them in turn hangs for ever once
    the unread one has filled its window."""

    def __init__(self, channel: paramiko.Channel, send_timeout_s: float) -> None:
        self.channel = channel
        channel.settimeout(send_timeout_s)
        self._selector = selectors.DefaultSelector()
        self._selector.register(channel, selectors.EVENT_READ)
        self._guard = threading.Lock()

    def send(self, data: bytes) -> None:
        try:
            self.channel.sendall(data)
        except (OSError, EOFError, paramiko.SSHException):
            raise StreamEnded(self._why()) from None

    def read(self, wait_s: float) -> tuple[bytes, bytes]:
        with suppress(OSError, ValueError, KeyError, RuntimeError, EOFError, paramiko.SSHException):
            self._selector.select(min(wait_s, CLOSE_CHECK_S))
            ended = self.channel.eof_received or self.channel.closed  # before looking for data: it is set after the last
            out = self.channel.recv(READ_BYTES) if self.channel.recv_ready() else b""
            err = self.channel.recv_stderr(READ_BYTES) if self.channel.recv_stderr_ready() else b""
            if out or err or not ended:
                return out, err
        raise StreamEnded(self._why())

    def _why(self) -> str:
        transport = self.channel.get_transport()
        if transport is None or not transport.is_active():
            error = transport.get_exception() if transport is not None else None
            return "connection lost" + (f": {' '.join(str(error).split())}" if error is not None and str(error) else "")
        if self.channel.exit_status_ready():
            status = self.channel.recv_exit_status()
            return f"its shell ended with status {status}" if status >= 0 else "its shell was killed"
        return "closed"

    def close(self) -> None:
        with self._guard, suppress(Exception):
            self.channel.close()


class SshHost(ShellHost):
    """A host over SSH (paramiko). Logs in at once; see ``connection.connect`` for the arguments and the errors."""

    kind = "ssh"

    def __init__(
        self,
        target: str,
        *,
        config: str | Path | None = None,
        timeouts: Timeouts | None = None,
        password: Password = None,
    ) -> None:
        self._timeouts = timeouts or Timeouts()
        super().__init__(target, shell_wait_s=self._timeouts.channel_s)
        path = config_path(config)
        self._config_file = str(path) if path else None
        self._config = resolve(parse_target(target), self._config_file)
        self._secret = Secret(password)
        self._route: Route | None = None
        self._connecting = threading.Lock()
        self.reconnections = -1
        try:
            self._prove()
        except BaseException:
            self.close()
            raise

    def _open_stream(self) -> Stream:
        for last_try in (False, True):
            route = self._connected()
            try:
                return ChannelStream(self._open_channel(route.transport), self._timeouts.channel_s)
            except paramiko.ChannelException as refused:
                raise self._refused_session(refused.text, refused.code in _SESSIONS_FULL) from None
            except (paramiko.SSHException, EOFError, OSError) as error:
                said = " ".join(str(error).split()) or type(error).__name__
                if route.active and "Unable to open channel" in said:
                    # paramiko has one slot for the reason; of two refusals at once the second comes without it
                    raise self._refused_session(said, full=True) from None
                if last_try or (route.active and "imeout" not in said):
                    raise self._no_shell(said) from None
                self._disconnect(route)  # dead, or so silent that it may as well be: make it anew, once
        raise AssertionError("unreachable")

    def _open_channel(self, transport: paramiko.Transport) -> paramiko.Channel:
        """A session in which the login shell was given its line. paramiko waits for the answer to that without limit."""
        limit_s = self._timeouts.channel_s
        channel = transport.open_session(window_size=WINDOW_BYTES, max_packet_size=PACKET_BYTES, timeout=limit_s)
        timed_out = threading.Event()

        def give_up() -> None:
            timed_out.set()
            channel.close()

        timer = threading.Timer(limit_s, give_up)
        timer.daemon = True
        timer.start()
        try:
            channel.exec_command(login_line(self.use_agent))
        except (paramiko.SSHException, EOFError, OSError):
            if timed_out.is_set():
                raise TimeoutError("Timeout starting a shell") from None
            raise
        finally:
            timer.cancel()
        return channel

    def _refused_session(self, said: str, full: bool) -> Exception:
        error = CommandFailed(
            f"{self._config.shown} let us in but opens no session ({said})",
            where=self.name,
            next_step="ask its owner: MaxSessions in sshd_config, or a restriction on this key or account",
        )
        return NoMoreSessions(error) if full else error

    def _connected(self) -> Route:
        with self._connecting:
            self._refuse_closed()
            if self._route is None or not self._route.active:
                if self._route is not None:
                    self._route.close()
                    self._route = None
                self._route = open_route(self._config, self._config_file, self._timeouts, self._secret)
                self.reconnections += 1
            return self._route

    def _disconnect(self, route: Route) -> None:
        with self._connecting:
            route.close()
            if self._route is route:
                self._route = None

    def _lost_sentence(self) -> tuple[str, str]:
        route = self._route
        if route is not None:
            route.transport.join(LOST_CHECK_S)
        if route is not None and route.active:
            return (
                f"the shell on {self._config.shown} that ran the command is gone",
                "run it again; if it repeats, somebody or the out-of-memory killer ends it there (dmesg)",
            )
        return (
            f"the connection to {self._config.shown} was lost while the command ran",
            f"check that the host is up (ssh {self.name} uptime), then run it again: the connection is made anew by itself",
        )

    def _close_connection(self) -> None:
        with self._connecting:
            if self._route is not None:
                self._route.close()
                self._route = None
