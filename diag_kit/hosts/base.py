"""What all live hosts share: a few runners, at most eight commands at once, bounds, counts, and the error sentences."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from diag_kit.errors import CommandFailed
from diag_kit.hosts.agent import AgentShell
from diag_kit.hosts.agent_program import AGENT_HELLO
from diag_kit.hosts.outcomes import ConnectionLost, HostCost, NoMoreSessions
from diag_kit.hosts.packed import unpacked
from diag_kit.hosts.protocol import DEFAULT_MAX_BYTES, DEFAULT_TIMEOUT_S, render
from diag_kit.hosts.runner import request
from diag_kit.hosts.shell import Outcome, Shell, Stream, StreamEnded
from diag_kit.records import CommandResult

__all__ = ["LOST_CHECK_S", "ConnectionLost", "HostCost", "NoMoreSessions", "ShellHost"]

MAX_AT_ONCE = 8
"""sshd allows 10 sessions on one connection by default (MaxSessions)."""
MAX_IDLE = 2
"""Runners kept for the next command; each is one sleeping ``sh`` on the host."""
LOST_CHECK_S = 0.5
"""A shell's end is seen a moment before the end of the connection that caused it; wait this long before blaming the shell."""


class ShellHost:
    """Base of the live hosts; a kind of host says how a stream to a new runner is opened."""

    kind = ""
    about = ""
    use_agent = True
    """Let one process there run all commands side by side, where the host has a system Python."""

    def __init__(self, name: str, shell_wait_s: float = 15.0) -> None:
        self.name = name
        self._shell_wait_s = shell_wait_s
        self._slots = threading.BoundedSemaphore(MAX_AT_ONCE)
        self._lock = threading.Lock()
        self._freed = threading.Condition(self._lock)
        self._opening = 0
        self._most_sessions = MAX_AT_ONCE
        self._idle: list[Shell] = []
        self._busy: set[Shell | AgentShell] = set()
        self._agent: AgentShell | None = None
        self._closed = False
        self._commands = 0
        self._bytes_received = 0
        self._cpu_s_of_gone = 0.0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}{' (closed)' if self._closed else ''}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # What a kind of host provides.

    def _open_stream(self) -> Stream:
        """A stream on which the login shell was given ``runner.login_line()``. Raises DiagError."""
        raise NotImplementedError

    def _lost_sentence(self) -> tuple[str, str]:
        """What happened and the next step when a stream broke under a running command."""
        return "the shell that ran the command is gone", "run it again"

    def _close_connection(self) -> None:
        """After all streams are closed."""

    # The Host protocol.

    @property
    def cost(self) -> HostCost:
        """Commands, bytes and the host's CPU seconds so far."""
        with self._lock:
            cpu_s = self._cpu_s_of_gone + sum(shell.cpu_s for shell in self._shells())
            return HostCost(self._commands, self._bytes_received, cpu_s)

    def run(
        self,
        script: str,
        *arguments: str,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        max_bytes: int = DEFAULT_MAX_BYTES,
        stop: threading.Event | None = None,
    ) -> CommandResult:
        """See ``protocol.Host.run``. Raises ConnectionLost (a CommandFailed, with the partial result) when it breaks in
        the middle, BadInput for what cannot be sent, and what opening the connection raises if it has to be opened anew."""
        command = render(script, arguments)
        request(script, arguments, timeout_s)  # refuse what cannot be sent before anything is opened
        while not self._slots.acquire(timeout=0.1):
            if stop is not None and stop.is_set():
                return self._not_started(command)
        try:
            if stop is not None and stop.is_set():
                return self._not_started(command)
            return self._run(command, script, arguments, timeout_s, max_bytes, stop)
        finally:
            self._slots.release()

    def _run(
        self,
        command: str,
        script: str,
        arguments: tuple[str, ...],
        timeout_s: float,
        max_bytes: int,
        stop: threading.Event | None,
    ) -> CommandResult:
        tries_left = 2  # a runner that died while idle is replaced once; the command had not begun then
        while True:
            tries_left -= 1
            shell, was_idle = self._take(stop)
            if shell is None:
                return self._not_started(command)
            started = datetime.now(UTC)
            outcome = None
            try:
                outcome = shell.run(request(script, arguments, timeout_s), timeout_s, max_bytes, stop)
            finally:
                self._give_back(shell, outcome)
            if outcome.how == "lost" and not outcome.begun and was_idle and tries_left and not self._closed:
                self._drop_idle()
                continue
            outcome.stdout, more = unpacked(script, outcome.stdout, max_bytes)
            outcome.truncated |= more
            return self._result(command, started, outcome)

    def _result(self, command: str, started: datetime, outcome: Outcome) -> CommandResult:
        result = CommandResult(
            host=self.name,
            command=command,
            stdout=outcome.stdout,
            stderr=outcome.stderr,
            exit_status=outcome.exit_status,
            started=started,
            duration_s=outcome.duration_s,
            truncated=outcome.truncated,
            timed_out=outcome.how in ("timeout", "no answer"),
        )
        if outcome.how not in ("lost", "cut"):
            return result
        where = f"{self.name}, {_short(command)}"
        if self._closed:
            what, next_step = "the connection was closed while the command ran", "connect again"
        else:
            what, next_step = self._lost_sentence()
        if outcome.why not in ("", "closed", "connection lost"):
            what += f" ({outcome.why})"
        what += f"; {len(result.stdout):,} bytes of its output had arrived"
        raise ConnectionLost(what, where=where, next_step=next_step, partial=result)

    def _not_started(self, command: str) -> CommandResult:
        return CommandResult(self.name, command, b"", b"", None, datetime.now(UTC), 0.0)

    # Runners.

    def _shells(self) -> set[Shell | AgentShell]:
        return {*self._idle, *self._busy, *([self._agent] if self._agent is not None else [])}

    def _take(self, stop: threading.Event | None = None) -> tuple[Shell | AgentShell | None, bool]:
        """The agent or an idle runner (True), or a new one (False). When the host allows no more sessions, wait for one of
        ours; None when ``stop`` was set meanwhile."""
        while True:
            with self._freed:
                self._refuse_closed()
                if self._agent is not None and not self._agent.retired:
                    self._agent.calls += 1
                    self._busy.add(self._agent)
                    return self._agent, True
                if self._idle:
                    shell = self._idle.pop()
                    self._busy.add(shell)
                    return shell, True
                if stop is not None and stop.is_set():
                    return None, False
                if len(self._busy) + self._opening >= self._most_sessions:
                    self._freed.wait(0.2)
                    continue
                self._opening += 1
            try:
                return self._start_shell(), False
            except NoMoreSessions as full:
                with self._lock:
                    if not self._busy and self._opening == 1 and not self._idle:
                        raise full.error from None
                    self._most_sessions = max(1, len(self._busy))
            finally:
                with self._freed:
                    self._opening -= 1
                    self._freed.notify_all()

    def _start_shell(self) -> Shell | AgentShell:
        stream = self._open_stream()
        shell: Shell | AgentShell
        try:
            shell = first = Shell(stream, self._shell_wait_s)
        except StreamEnded as ended:
            stream.close()
            raise self._no_shell(ended.why) from None
        except BaseException:
            stream.close()
            raise
        with self._lock:
            self._bytes_received += first.received_bytes
            if self._closed:
                stream.close()
            self._refuse_closed()
            if first.tools.startswith(AGENT_HELLO):
                shell = AgentShell(first)
                shell.calls = 1
                self._agent = shell  # one that was there before is closed when its last command ends
            self._busy.add(shell)
        return shell

    def _prove(self) -> None:
        """Start the first runner now, so that what is wrong with the host is said when it is opened."""
        shell, _ = self._take()
        assert shell is not None
        with self._lock:
            self._busy.discard(shell)
            if isinstance(shell, AgentShell):
                shell.calls -= 1
            else:
                self._idle.append(shell)

    def _refuse_closed(self) -> None:
        if self._closed:
            raise CommandFailed("this host was closed", where=self.name, next_step="connect again")

    def _no_shell(self, why: str) -> CommandFailed:
        return CommandFailed(
            f"logged in, but could not start sh there: {why}",
            where=self.name,
            next_step=f"try the same by hand: ssh {self.name} sh -c date",
        )

    def _give_back(self, shell: Shell | AgentShell, outcome: Outcome | None) -> None:
        reusable = outcome is not None and outcome.reusable
        with self._lock:
            self._commands += 1
            if outcome is not None:
                self._bytes_received += outcome.received_bytes
            if isinstance(shell, AgentShell):
                keep = self._keep_agent(shell)
            else:
                self._busy.discard(shell)
                keep = reusable and not self._closed and len(self._idle) < MAX_IDLE
                if keep:
                    self._idle.append(shell)
            if not keep:
                self._forget(shell)
            self._freed.notify_all()
        if not keep:
            shell.stream.close()

    def _keep_agent(self, agent: AgentShell) -> bool:
        """After one of its commands: one that is done for stays until its last command ends, but gets no new one."""
        agent.calls -= 1
        if agent.calls == 0:
            self._busy.discard(agent)
        if agent.retired and self._agent is agent:
            self._agent = None
        return agent.calls > 0 or (self._agent is agent and not self._closed)

    def _forget(self, shell: Shell | AgentShell) -> None:
        self._cpu_s_of_gone += shell.cpu_s

    def _drop_idle(self) -> None:
        with self._lock:
            gone, self._idle = self._idle, []
            for shell in gone:
                self._forget(shell)
        for shell in gone:
            shell.stream.close()

    def close(self) -> None:
        """End everything: commands that still run are ended on the host as well. May be called twice."""
        with self._lock:
            already, self._closed = self._closed, True
            streams = [shell.stream for shell in self._shells()]
            for shell in self._shells() - self._busy:
                self._forget(shell)
            self._idle, self._agent = [], None
        if already:
            return
        for stream in streams:
            stream.close()
        self._close_connection()


def _short(command: str, width: int = 160) -> str:
    line = " ".join(command.split())
    return line if len(line) <= width else line[: width - 3] + "..."
