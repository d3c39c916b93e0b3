"""A real OpenSSH server on the loopback interface, with throwaway keys, for the tests."""

from __future__ import annotations

import getpass
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from programs import find_program

PASSWORD = "right horse"
_PASSWORD_HASH = "$6$diagkit$94pYDE5RLa4/dAj1nFKdrM577Cwkb73zUQSmTBzxrCgWutSmtwM5KhMCNWR1zb4WgWHIbMQgkFy3WGTtUUz0/."


def have_namespaces() -> bool:
    """Can this process change /etc/passwd for a child only? (root with mount namespaces; most containers have none)"""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return False
    probe = ["unshare", "-m", "sh", "-c", "mount --bind /etc/passwd /etc/passwd"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def make_key(path: Path, kind: str = "ed25519", passphrase: str = "") -> Path:
    command = ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "diag_kit test", "-f", str(path)]
    subprocess.run(command, check=True, capture_output=True)
    return path


def descendants(pid: int) -> list[int]:
    """Live processes below ``pid``, found through /proc."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        parents[int(stat.parent.name)] = int(text.rpartition(")")[2].split()[1])
    found, grown = {pid}, True
    while grown:
        more = {child for child, parent in parents.items() if parent in found} - found
        found |= more
        grown = bool(more)
    return sorted(found - {pid})


def processes_with(text: str) -> list[int]:
    """Pids of live (not zombie) processes whose command line holds ``text``."""
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if text in line.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"):
                state = (line.parent / "stat").read_text().rpartition(")")[2].split()[0]
                if state not in "ZX":
                    found.append(int(line.parent.name))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid()]


@dataclass
class Sshd:
    """A running server and everything a client needs: ``connect("trainbox", config=sshd.config)``.

    ``options`` go into sshd_config. ``login_shell`` and ``home`` change what the server takes for this user's login shell and
    home (needs root and mount namespaces), and so does ``password_login``.
    """

    folder: Path
    options: dict[str, str] = field(default_factory=dict)
    login_shell: str = ""
    home: str = ""
    password_login: bool = False
    key_kinds: tuple[str, ...] = ("ed25519",)
    user: str = field(default_factory=getpass.getuser)
    port: int = 0
    process: subprocess.Popen[bytes] | None = None

    @property
    def config(self) -> Path:
        return self.folder / "ssh_config"

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    @property
    def user_key(self) -> Path:
        return self.folder / "user_key"

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text("utf-8", "replace")

    def host_key(self, kind: str = "ed25519") -> Path:
        return self.folder / f"host_{kind}"

    @property
    def changed_accounts(self) -> bool:
        return bool(self.login_shell or self.home or self.password_login)

    def start(self) -> Sshd:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)
        for kind in self.key_kinds:
            if not self.host_key(kind).exists():
                make_key(self.host_key(kind), kind)
        if not self.user_key.exists():
            make_key(self.user_key)
        shutil.copy(f"{self.user_key}.pub", self.folder / "authorized_keys")
        for _ in range(3):
            self.port = self.port or free_port()
            self._write_server_config()
            self.process = subprocess.Popen(
                self._command(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            if self._answers():
                self._write_client_files()
                return self
            self.stop()
            self.port = 0
        raise AssertionError(f"sshd did not start:\n{self.log}")

    def _command(self) -> list[str]:
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        daemon = [find_program("sshd") or "sshd", "-D", "-f", str(self.folder / "sshd_config"), "-E", str(self.folder / "log")]
        if not self.changed_accounts:
            return daemon
        binds = []
        for name in ("passwd", "shadow"):
            (self.folder / name).write_text(getattr(self, f"_{name}")())
            (self.folder / name).chmod(0o644 if name == "passwd" else 0o600)
            binds.append(f"mount --bind {shlex.quote(str(self.folder / name))} /etc/{name}")
        return ["unshare", "-m", "sh", "-c", f"{' && '.join(binds)} && exec {shlex.join(daemon)}"]

    def _passwd(self) -> str:
        lines = []
        for line in Path("/etc/passwd").read_text().splitlines():
            fields = line.split(":")
            if fields[0] == self.user:
                fields[5], fields[6] = self.home or fields[5], self.login_shell or fields[6]
            lines.append(":".join(fields))
        return "\n".join(lines) + "\n"

    def _shadow(self) -> str:
        text = Path("/etc/shadow").read_text()
        if not self.password_login:
            return text
        return re.sub(rf"(?m)^{self.user}:[^:]*:", f"{self.user}:{_PASSWORD_HASH}:", text)

    def _write_server_config(self) -> None:
        options = {
            "Port": str(self.port),
            "ListenAddress": "127.0.0.1",
            "AuthorizedKeysFile": str(self.folder / "authorized_keys"),
            "PidFile": "none",
            "UsePAM": "no",
            "PermitRootLogin": "yes" if self.password_login else "prohibit-password",
            "PasswordAuthentication": "yes" if self.password_login else "no",
            "KbdInteractiveAuthentication": "no",
            "StrictModes": "no",
            "MaxStartups": "100:30:200",
            "UseDNS": "no",
            "PrintMotd": "no",
            "LogLevel": "VERBOSE",
            **self.options,
        }
        lines = [f"HostKey {self.host_key(kind)}" for kind in self.key_kinds]
        lines += [f"{name} {value}" for name, value in options.items()]
        (self.folder / "sshd_config").write_text("\n".join(lines) + "\n")

    def _answers(self) -> bool:
        until = time.monotonic() + 10
        while time.monotonic() < until and self.process is not None and self.process.poll() is None:
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1) as probe:
                    if probe.recv(4) == b"SSH-":
                        return True
            except OSError:
                time.sleep(0.05)
        return False

    def _write_client_files(self) -> None:
        keys = [Path(f"{self.host_key(kind)}.pub").read_text().split()[:2] for kind in self.key_kinds]
        self.known_hosts.write_text("".join(f"[127.0.0.1]:{self.port} {kind} {blob}\n" for kind, blob in keys))
        self.config.write_text("")
        self.add_host("trainbox")

    def add_host(self, alias: str, **options: str) -> str:
        """One more alias in the client's configuration; options as in ssh_config, "" leaves one out."""
        settings = {
            "HostName": "127.0.0.1",
            "Port": str(self.port),
            "User": self.user,
            "IdentityFile": str(self.user_key),
            "IdentitiesOnly": "yes",
            "IdentityAgent": "none",
            "UserKnownHostsFile": str(self.known_hosts),
            "GlobalKnownHostsFile": "/dev/null",
            "StrictHostKeyChecking": "yes",
            **options,
        }
        lines = "".join(f"  {name} {value}\n" for name, value in settings.items() if value)
        with self.config.open("a") as file:
            file.write(f"Host {alias}\n{lines}\n")
        return alias

    def sessions(self) -> list[int]:
        """Everything below the daemon: its session processes and what they run."""
        return descendants(self.process.pid) if self.process is not None else []

    def break_connections(self) -> None:
        """Kill the session processes, as a crash or the out-of-memory killer would; the daemon stays."""
        for pid in self.sessions():
            try:
                if b"sshd" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGKILL)
            except OSError:
                continue

    def stop(self) -> None:
        if self.process is None:
            return
        for pid in self.sessions():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
        self.process.kill()
        self.process.wait()
        self.process = None
