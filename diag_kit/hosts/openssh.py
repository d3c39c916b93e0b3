"""A remote host over the system's ``ssh``: all of ssh_config, Kerberos, security keys, certificates.

One master connection carries the runners (ControlMaster, its socket in a private folder). The master's own session waits
on our pipe, so that it ends with this process however that ends.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import threading
import time
import weakref
from pathlib import Path

from diag_kit.errors import BadInput, CommandFailed, DiagError, HostKeyRefused, HostUnreachable, LoginRefused
from diag_kit.hosts.base import LOST_CHECK_S, ShellHost
from diag_kit.hosts.process_stream import ProcessStream
from diag_kit.hosts.runner import login_line
from diag_kit.hosts.shell import Stream, StreamEnded
from diag_kit.hosts.ssh_config import config_path, parse_target, ssh_options
from diag_kit.hosts.timeouts import Timeouts

_READY = b"diag_kit-master-ready"
_MASTER = f"exec sh -c 'echo {_READY.decode()}; read -r dk_x'"
_OPTIONS = {
    "BatchMode": "yes",
    "StrictHostKeyChecking": "yes",
    "ServerAliveInterval": "15",
    "ServerAliveCountMax": "3",
    "ClearAllForwardings": "yes",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "PermitLocalCommand": "no",
    "RemoteCommand": "none",
    "RequestTTY": "no",
    "UpdateHostKeys": "no",
    "LogLevel": "INFO",
}


class OpenSshHost(ShellHost):
    """A host over the system's ssh. Never asks anything (BatchMode), never accepts a key. Logs in at once."""

    kind = "openssh"

    def __init__(self, target: str, *, config: str | Path | None = None, timeouts: Timeouts | None = None) -> None:
        self._timeouts = timeouts or Timeouts()
        super().__init__(target, shell_wait_s=self._timeouts.channel_s)
        if shutil.which("ssh") is None:
            raise BadInput(
                "this machine has no ssh program", where="connect", next_step='install openssh-client, or transport="paramiko"'
            )
        self._target = parse_target(target)
        self._options = ssh_options(self._target, config_path(config))
        self._folder = _socket_folder()
        self._remove_folder = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)  # also at exit
        self._master: ProcessStream | None = None
        self._connecting = threading.Lock()
        try:
            self._prove()
        except BaseException:
            self.close()
            raise

    def _command(self, *more: str) -> list[str]:
        options = dict(_OPTIONS, ConnectTimeout=str(max(1, round(self._timeouts.connect_s))))
        named = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        return ["ssh", *self._options, *named, "-S", str(self._folder / "m"), *more, "--", self._target.host]

    def _start(self, *words: str) -> ProcessStream:
        return ProcessStream(words, environment={**os.environ, "LC_ALL": "C"})

    def _connected(self) -> None:
        """Start the master unless it runs, and wait until it is in."""
        with self._connecting:
            self._refuse_closed()
            if self._master is not None and self._master.process.poll() is None:
                return
            if self._master is not None:
                self._master.close()
            (self._folder / "m").unlink(missing_ok=True)
            master = self._start(*self._command("-M", "-o", "ControlPersist=no"), _MASTER)
            self._master = master
            self._await(master)

    def _await(self, master: ProcessStream) -> None:
        """Raises what its standard error says, in our words, when it does not get in."""
        limit_s = self._timeouts.connect_s + self._timeouts.banner_s + self._timeouts.auth_s
        until = time.monotonic() + limit_s
        out = err = b""
        while _READY not in out:
            try:
                left_s = until - time.monotonic()
                if left_s <= 0:
                    raise StreamEnded(f"no login within {limit_s:g} s")
                more_out, more_err = master.read(left_s)
            except StreamEnded as ended:
                master.close()
                raise explain((err or out).decode("utf-8", "replace"), self.name, ended.why) from None
            out, err = (out + more_out)[-65536:], (err + more_err)[-65536:]

    def _open_stream(self) -> Stream:
        self._connected()
        return self._start(*self._command("-o", "ControlMaster=no"), login_line(self.use_agent))

    def _lost_sentence(self) -> tuple[str, str]:
        master = self._master
        if master is not None and not master.ends_within(LOST_CHECK_S):
            return f"the shell on {self.name} that ran the command is gone", "run it again"
        return (
            f"the connection to {self.name} was lost while the command ran",
            f"check that the host is up (ssh {self.name} uptime), then run it again: the connection is made anew by itself",
        )

    def _close_connection(self) -> None:
        with self._connecting:
            if self._master is not None:
                self._master.close()
        self._remove_folder()


def _socket_folder() -> Path:
    """A folder of our own for the control socket; the path of a socket may have about 100 characters."""
    folder = Path(tempfile.mkdtemp(prefix="diag_kit-"))
    if len(str(folder)) <= 70 or not Path("/tmp").is_dir():
        return folder
    folder.rmdir()
    return Path(tempfile.mkdtemp(prefix="diag_kit-", dir="/tmp"))


_CAUSES: tuple[tuple[str, type[DiagError], str, str], ...] = (
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED",
        HostKeyRefused,
        "the host's key HAS CHANGED: it was set up anew, or somebody is between you and it (an attack). Nothing was sent",
        "ask whoever runs the host for its key's fingerprint; only then remove the old one with ssh-keygen -R HOST",
    ),
    (
        r"is revoked|marked as revoked",
        HostKeyRefused,
        "the host's key is marked as revoked",
        "do not connect; ask whoever runs this host for its new key",
    ),
    (
        r"host key is known for|Host key verification failed",
        HostKeyRefused,
        "the host's key is not known yet. Nothing was sent",
        "log in once by hand and compare the fingerprint it shows: ssh {name}",
    ),
    (
        r"Could not resolve hostname|Name or service not known",
        HostUnreachable,
        "its name cannot be resolved",
        "check the spelling, the alias in ~/.ssh/config, and that the network or VPN is up",
    ),
    (
        r"banner exchange|kex_exchange_identification|Connection closed by|Connection reset",
        HostUnreachable,
        "something answers, but not as a working SSH server",
        "check the port; a host that is overloaded does this too",
    ),
    (
        r"Connection refused|No route to host|Network is unreachable|[Cc]onnection timed out|Operation timed out",
        HostUnreachable,
        "it does not answer",
        "check that the host is up, the port of its SSH server, and that a firewall lets you through",
    ),
    (
        r"Too many authentication failures",
        LoginRefused,
        "it ended the login after too many keys",
        "name the right key for this host in ~/.ssh/config: IdentityFile ..., IdentitiesOnly yes",
    ),
    (
        r"Permission denied",
        LoginRefused,
        "it refused the login",
        "check the user name and which key the host knows: ssh -v {name}",
    ),
    (
        r"no matching|Unable to negotiate",
        HostUnreachable,
        "it has no algorithm in common with this ssh",
        "try by hand: ssh -v {name}",
    ),
)


def explain(said: str, name: str, why: str) -> DiagError:
    """ssh's own words (in the C locale) as one of our errors; its last line is always quoted."""
    lines = [line.strip() for line in said.splitlines() if line.strip().strip("@ ")]
    quoted = (lines[-1].removeprefix("ssh: ") if lines else why)[:400]
    for pattern, kind, what, next_step in _CAUSES:
        if re.search(pattern, said):
            shown = re.search(r"(SHA256:[A-Za-z0-9+/]{43})", said)
            key = f", key {shown[1]}" if shown and kind is HostKeyRefused else ""
            return kind(f"{name}: {what} (ssh: {quoted}{key})", where=name, next_step=next_step.format(name=name))
    return CommandFailed(f"{name}: ssh could not get in ({quoted})", where=name, next_step=f"try by hand: ssh -v {name}")
