"""known_hosts files, read strictly: a key is accepted only if a line for that host name holds exactly this key.

Format: sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT": plain, wildcard, negated and hashed names, ``[host]:port``, the markers
``@revoked`` and ``@cert-authority``. Nothing is ever written.
"""

from __future__ import annotations

import base64
import binascii
import fnmatch
import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path


@dataclass(frozen=True, slots=True)
class KnownKey:
    """One line: names as written (a pattern list or one hash), key type, key blob, marker ("", "revoked", "cert-authority")."""

    names: str
    key_type: str
    blob: bytes
    marker: str = ""
    file: str = ""
    line: int = 0


class Match(Enum):
    KNOWN = "known"
    UNKNOWN = "unknown"
    CHANGED = "changed"
    REVOKED = "revoked"
    AUTHORITY = "authority"  # only a certificate authority is known for this host


@dataclass(frozen=True, slots=True)
class Answer:
    match: Match
    entry: KnownKey | None = None
    """The line that decided: the key that was accepted, contradicted, revoked, or the authority."""


def read(files: Iterable[str | Path]) -> tuple[KnownKey, ...]:
    """All readable lines of those files; a missing or unreadable file holds nothing, as with ssh."""
    found: list[KnownKey] = []
    for file in files:
        path = Path(file).expanduser()
        try:
            text = path.read_bytes().decode("utf-8", "replace")
        except OSError:
            continue
        found.extend(parse(text, str(path)))
    return tuple(found)


def parse(text: str, file: str = "") -> tuple[KnownKey, ...]:
    """The lines that are well-formed; comments and what cannot be read are passed over, which can only refuse more."""
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        marker = ""
        if words and words[0].startswith("@"):
            marker = words.pop(0)[1:]
        if len(words) < 3 or words[0].startswith("#"):
            continue
        try:
            blob = base64.b64decode(words[2], validate=True)
        except (binascii.Error, ValueError):
            continue
        found.append(KnownKey(words[0], words[1], blob, marker, file, number))
    return tuple(found)


def known_name(host: str, port: int, alias: str = "") -> str:
    """The name that a host's keys are filed under: its alias, else the host, as ``[host]:port`` off port 22."""
    if alias:
        return alias
    host = host.lower()
    return host if port == 22 else f"[{host}]:{port}"


def entries_for(name: str, known: Iterable[KnownKey]) -> tuple[KnownKey, ...]:
    return tuple(entry for entry in known if _names_match(entry.names, name))


def _names_match(names: str, name: str) -> bool:
    if names.startswith("|1|"):
        return _hash_matches(names, name)
    matched = False
    for pattern in names.lower().split(","):
        negated = pattern.startswith("!")
        if _glob(pattern.removeprefix("!"), name.lower()):
            if negated:
                return False
            matched = True
    return matched


def _glob(pattern: str, name: str) -> bool:
    """ssh knows only ``*`` and ``?``; brackets stand for themselves."""
    return fnmatch.fnmatchcase(name, pattern.replace("[", "[[]"))


def _hash_matches(hashed: str, name: str) -> bool:
    """``|1|SALT|HMAC-SHA1(salt, name)``, both in base64."""
    try:
        _, _, salt, digest = hashed.split("|")
        expected = hmac.new(base64.b64decode(salt), name.encode(), hashlib.sha1).digest()
        return hmac.compare_digest(expected, base64.b64decode(digest))
    except (ValueError, binascii.Error):
        return False


def check(host: str, port: int, alias: str, key_type: str, blob: bytes, known: Iterable[KnownKey]) -> Answer:
    """May this key be trusted for this host? As ssh with StrictHostKeyChecking=yes, except that certificates are not
    followed: where only an authority is known the answer is AUTHORITY."""
    known = tuple(known)
    entries = entries_for(known_name(host, port, alias), known)
    if not alias and port != 22:
        # ssh also takes a line for the bare name, but only as consent, never as contradiction
        entries += tuple(e for e in entries_for(host.lower(), known) if e.blob == blob or e.marker)
    for entry in entries:
        if entry.marker == "revoked" and entry.blob == blob:
            return Answer(Match.REVOKED, entry)
    plain = [entry for entry in entries if not entry.marker]
    for entry in plain:
        if entry.blob == blob:
            return Answer(Match.KNOWN, entry)
    same_type = [entry for entry in plain if entry.key_type == key_type]
    if same_type or plain:
        return Answer(Match.CHANGED, (same_type or plain)[0])
    for entry in entries:
        if entry.marker == "cert-authority":
            return Answer(Match.AUTHORITY, entry)
    return Answer(Match.UNKNOWN)


def known_types(host: str, port: int, alias: str, known: Iterable[KnownKey]) -> tuple[str, ...]:
    """Key types on file for that host, best reason to ask the server for those: it may have others too."""
    known = tuple(known)
    entries = entries_for(known_name(host, port, alias), known)
    if not alias and port != 22 and not entries:
        entries = entries_for(host.lower(), known)
    return tuple(dict.fromkeys(entry.key_type for entry in entries if not entry.marker))


def fingerprint(blob: bytes) -> str:
    """As ``ssh-keygen -l`` prints it: ``SHA256:`` and base64 without padding."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
