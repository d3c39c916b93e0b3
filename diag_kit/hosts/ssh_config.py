"""From what the user typed to where and how to connect, by the user's own ssh configuration.

``ssh -G`` answers it where ssh is installed (it follows Include and Match); else the files are read here, with Include
expanded by us and the rest by paramiko's parser.
"""

from __future__ import annotations

import getpass
import io
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from diag_kit.errors import BadInput

CONFIG_VARIABLE = "DIAG_KIT_SSH_CONFIG"
"""Environment variable that names an ssh configuration file to use instead of ~/.ssh/config."""
SYSTEM_CONFIG = "/etc/ssh/ssh_config"
DEFAULT_KEYS = ("~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa")
MAX_INCLUDE_DEPTH = 16
MAX_JUMPS = 8

_HOST = re.compile(r"[A-Za-z0-9_.:%-]+")
_USER = re.compile(r"(?!-)[^\s'\"`$;&<>|(){}\x00-\x1f]*[^\s'\"`$;&<>|(){}\x00-\x1f\\]")
"""As strict as ssh itself: the name may be put into a ProxyCommand."""


@dataclass(frozen=True, slots=True)
class Target:
    """What the user typed, taken apart: an alias or host name, and a user and port where given."""

    text: str
    host: str
    user: str = ""
    port: int | None = None


@dataclass(frozen=True, slots=True)
class HostConfig:
    """Everything needed to connect to one host."""

    target: Target
    host: str
    port: int
    user: str
    identity_files: tuple[str, ...] = ()
    identities_only: bool = False
    identity_agent: str = ""
    host_key_alias: str = ""
    known_hosts_files: tuple[str, ...] = ()
    proxy_jump: str = ""
    proxy_command: str = ""
    address_family: str = "any"

    @property
    def shown(self) -> str:
        """user@host:port, for messages."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.user}@{host}:{self.port}"


def parse_target(text: str) -> Target:
    """``alias``, ``user@host``, ``user@host:port``, ``[ipv6]:port``, ``ssh://user@host:port``. Raises BadInput."""
    rest = text.strip().removeprefix("ssh://").rstrip("/")
    user, at, host = rest.rpartition("@")
    port_text = ""
    bracketed = re.fullmatch(r"\[([^\]]*)\](?::(.*))?", host)
    if bracketed:
        host, port_text = bracketed[1], bracketed[2] or ""
    elif host.count(":") == 1:  # more colons: a bare IPv6 address
        host, _, port_text = host.partition(":")
    problem = ""
    if not host or host.startswith("-") or not _HOST.fullmatch(host):
        problem = "the host's name is empty or holds a character that no host name has"
    elif at and not _USER.fullmatch(user):
        problem = "the user's name is empty or holds a character that is not allowed here"
    elif port_text and not (port_text.isascii() and port_text.isdigit() and 0 < int(port_text) < 65536):
        problem = f"{port_text!r} is not a port (1 to 65535)"
    if problem:
        raise BadInput(
            f"not a host to connect to: {problem}",
            where=repr(text)[:200],
            next_step="give an alias of ~/.ssh/config, or user@host, user@host:port, [ipv6-address]:port",
        )
    return Target(text.strip(), host, user, int(port_text) if port_text else None)


def resolve(target: Target, config: str | Path | None = None, *, use_ssh: bool = True) -> HostConfig:
    """Apply the user's configuration. ``config`` replaces ~/.ssh/config and the system's file, like ``ssh -F``.
    Raises BadInput when the configuration cannot be read."""
    path = config_path(config)
    by = _by_ssh if use_ssh and shutil.which("ssh") else _by_paramiko
    return _from_options(target, by(target, path))


def config_path(config: str | Path | None) -> Path | None:
    """The configuration file that was asked for, by argument or environment; None: the usual ones."""
    named = config or os.environ.get(CONFIG_VARIABLE) or None
    if named is None:
        return None
    path = Path(named).expanduser()
    if not path.is_file():
        raise BadInput("this ssh configuration file does not exist", where=str(path), next_step="correct its path")
    return path


def ssh_options(target: Target, path: Path | None) -> list[str]:
    """The options that make the system's ssh mean the same target."""
    options = ["-F", str(path)] if path else []
    if target.port is not None:
        options += ["-p", str(target.port)]
    if target.user:
        options += ["-l", target.user]
    return options


def _by_ssh(target: Target, path: Path | None) -> dict[str, list[str]]:
    command = ["ssh", "-G", *ssh_options(target, path), "--", target.host]
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=20, stdin=subprocess.DEVNULL, env={**os.environ, "LC_ALL": "C"}, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadInput(f"ssh -G did not answer: {error}", where=shlex.join(command), next_step="run it by hand") from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise BadInput(
            f"ssh does not accept its configuration: {said[:500]}", where=shlex.join(command), next_step="correct that line"
        )
    options: dict[str, list[str]] = {}
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        key, _, value = line.partition(" ")
        options.setdefault(key.lower(), []).append(value.strip())
    return options


def _by_paramiko(target: Target, path: Path | None) -> dict[str, list[str]]:
    import paramiko

    files = [path] if path else [Path("~/.ssh/config").expanduser(), Path(SYSTEM_CONFIG)]
    given = [f"User {target.user}\n"] if target.user else []  # first, since the first value found is the one that counts
    given += [f"Port {target.port}\n"] if target.port is not None else []
    text = "".join(given) + "".join(_expand_includes(file, target.host, 0) for file in files if file.is_file())
    try:
        parsed = paramiko.SSHConfig.from_file(io.StringIO(text))
        found = parsed.lookup(target.host)
    except Exception as error:  # paramiko raises plain Exception on some malformed lines
        raise BadInput(
            f"the ssh configuration cannot be read: {error}", where=str(files[0]), next_step="correct that line"
        ) from None
    return {key: list(value) if isinstance(value, list) else [str(value)] for key, value in found.items()}


def _expand_includes(file: Path, host: str, depth: int) -> str:
    """The file's text with each Include replaced by what it names. After an included file its own Host blocks must not
    swallow our next lines, so the block we are in is opened again; in a Host block that is not ours, nothing is included."""
    if depth > MAX_INCLUDE_DEPTH:
        raise BadInput("ssh configuration files include each other too deeply", where=str(file), next_step="remove the loop")
    lines, block, active = [], "Match all", True
    try:
        text = file.read_text("utf-8", "replace")
    except OSError as error:
        raise BadInput(f"cannot read: {error.strerror}", where=str(file), next_step="check its permissions") from None
    for line in text.splitlines():
        key, _, value = line.strip().replace("=", " ", 1).partition(" ")
        if key.lower() in ("host", "match"):
            block = line.strip()
            active = key.lower() == "match" or _host_block_matches(value, host)
        if key.lower() != "include":
            lines.append(line)
        elif active:
            lines += [_expand_includes(found, host, depth + 1) for found in _included(value, file)]
            lines.append(block)
    return "\n".join(lines) + "\n"


def _host_block_matches(patterns: str, host: str) -> bool:
    from diag_kit.hosts.known_hosts import _glob

    words = patterns.split()
    if any(word.startswith("!") and _glob(word[1:], host) for word in words):
        return False
    return any(_glob(word, host) for word in words if not word.startswith("!"))


def _included(value: str, file: Path) -> list[Path]:
    base = file.parent if str(file).startswith("/etc/") else Path("~/.ssh").expanduser()
    found: list[Path] = []
    for pattern in shlex.split(value):
        full = base / Path(pattern).expanduser()  # an absolute pattern replaces the base
        found += [path for path in sorted(Path(full.anchor).glob(str(full.relative_to(full.anchor)))) if path.is_file()]
    return found


def _from_options(target: Target, options: Mapping[str, Sequence[str]]) -> HostConfig:
    def one(key: str, default: str = "") -> str:
        value = options.get(key, [default])[0]
        return "" if value.lower() == "none" else value

    try:
        port = int(one("port", "22") or "22")
    except ValueError:
        raise BadInput("the port in the ssh configuration is not a number", where=one("port"), next_step="correct it") from None
    config = HostConfig(
        target=target,
        host=one("hostname", target.host) or target.host,
        port=port,
        user=one("user") or getpass.getuser(),
        identity_files=tuple(name for name in options.get("identityfile", DEFAULT_KEYS) if name.lower() != "none"),
        identities_only=one("identitiesonly").lower() == "yes",
        identity_agent=options.get("identityagent", [""])[0],
        host_key_alias=one("hostkeyalias"),
        known_hosts_files=_known_hosts_files(options),
        proxy_jump=one("proxyjump"),
        proxy_command=one("proxycommand"),
        address_family=one("addressfamily", "any").lower() or "any",
    )
    if not _HOST.fullmatch(config.host) or config.host.startswith("-"):
        raise BadInput(
            "the HostName in the ssh configuration is not a host name", where=config.host[:200], next_step="correct it"
        )
    if config.user.startswith("-") or not _USER.fullmatch(config.user):
        raise BadInput("the User in the ssh configuration is not a user name", where=config.user[:200], next_step="correct it")
    return replace(config, identity_files=tuple(_expand(name, config) for name in config.identity_files))


def _known_hosts_files(options: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    user = options.get("userknownhostsfile", ["~/.ssh/known_hosts ~/.ssh/known_hosts2"])
    system = options.get("globalknownhostsfile", ["/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2"])
    names = [name for line in (*user, *system) for name in shlex.split(line)]
    return tuple(_home(name) for name in names if name.lower() not in ("none", "/dev/null"))


def _expand(value: str, config: HostConfig) -> str:
    """~ and the percent tokens that IdentityFile may hold (ssh_config(5), TOKENS)."""
    return _home(expand_tokens(value, config)).replace("${HOME}", _home("~"))


def _home(name: str) -> str:
    """``~`` and ``~user`` expanded where they can be."""
    try:
        return str(Path(name).expanduser())
    except RuntimeError:  # no such user
        return name


def expand_tokens(value: str, config: HostConfig) -> str:
    """%h %p %r %n %u %d %i %k %% as ssh_config(5) has them; others stay."""
    tokens = {
        "%%": "%",
        "%h": config.host,
        "%p": str(config.port),
        "%r": config.user,
        "%n": config.target.host,
        "%u": getpass.getuser(),
        "%d": _home("~"),
        "%i": str(os.getuid()) if hasattr(os, "getuid") else "",
        "%k": config.host_key_alias or config.host,
    }
    return re.sub(r"%.", lambda found: tokens.get(found[0], found[0]), value)


def jumps(config: HostConfig) -> tuple[Target, ...]:
    """The hosts of a ProxyJump list, nearest first."""
    return tuple(parse_target(hop) for hop in config.proxy_jump.split(",") if hop.strip())
