"""Is the host who it says it is? The check against known_hosts, and the sentence for each way it can fail."""

from __future__ import annotations

import shlex

import paramiko

from diag_kit.errors import DiagError, HostKeyRefused
from diag_kit.hosts import known_hosts
from diag_kit.hosts.known_hosts import Match
from diag_kit.hosts.ssh_config import HostConfig


class HostKeyNeedsOpenSsh(HostKeyRefused):
    """The host proves itself by a certificate, which only the system's ssh can check."""


def check_host_key(config: HostConfig, key: paramiko.PKey, known: tuple[known_hosts.KnownKey, ...]) -> None:
    """Raise HostKeyRefused unless known_hosts holds exactly this key for this host. Runs before anything is sent."""
    blob, kind = key.asbytes(), key.get_name()
    answer = known_hosts.check(config.host, config.port, config.host_key_alias, kind, blob, known)
    if answer.match is Match.KNOWN:
        return
    raise host_key_error(config, answer, kind, known_hosts.fingerprint(blob))


def host_key_error(config: HostConfig, answer: known_hosts.Answer, kind: str, shown: str) -> DiagError:
    """The sentence for each way in which a key can be refused."""
    name = known_hosts.known_name(config.host, config.port, config.host_key_alias)
    file = config.known_hosts_files[0] if config.known_hosts_files else "~/.ssh/known_hosts"
    entry = answer.entry
    line = f"{entry.file} line {entry.line}" if entry is not None else file
    if answer.match is Match.REVOKED:
        return HostKeyRefused(
            f"the key of {name} is marked as revoked: {kind} {shown}",
            where=line,
            next_step="do not connect; ask whoever runs this host for its new key",
        )
    if answer.match is Match.AUTHORITY:
        return HostKeyNeedsOpenSsh(
            f"{name} is known by a certificate authority, which this transport cannot check",
            where=line,
            next_step='connect(..., transport="openssh")',
        )
    if answer.match is Match.CHANGED and entry is not None:
        return HostKeyRefused(
            f"THE KEY OF {name} HAS CHANGED. It shows {kind} {shown}; known_hosts says {entry.key_type} "
            f"{known_hosts.fingerprint(entry.blob)}. Either the host was set up anew, or somebody is between you and it "
            "(an attack). Nothing was sent",
            where=line,
            next_step=f"ask whoever runs the host whether its key is {shown}; only then remove the old one: "
            f"{shlex.join(['ssh-keygen', '-f', entry.file, '-R', name])}",
        )
    by_hand = f"log in once by hand: ssh {config.target.text}"
    if config.proxy_jump or config.proxy_command:  # ssh-keyscan knows no way around
        accept = by_hand
    else:
        accept = f"accept it with\n         {accept_command(config, kind, file)}\n       or {by_hand}"
    return HostKeyRefused(
        f"the key of {name} is not known yet: {kind} {shown}. Nothing was sent",
        where=f"{config.target.text}, {file}",
        next_step=f"compare {shown} with what the host's owner says. If it is the same, {accept}",
    )


def accept_command(config: HostConfig, kind: str, file: str) -> str:
    """The shell line that appends this host's key to known_hosts under the name it is looked up by."""
    scan = ["ssh-keyscan", "-t", kind.removeprefix("ssh-").split("-sha2")[0], "-p", str(config.port), config.host]
    if config.host_key_alias:
        name = config.host_key_alias.replace("/", "")
        return f"{shlex.join(scan)} | sed {shlex.quote(f's/^[^ ]*/{name}/')} >> {shlex.quote(file)}"
    return f"{shlex.join(scan)} >> {shlex.quote(file)}"
