"""From the raw text of ``remote_proc.SCRIPT`` to one record per process. Pure: any bytes give records, no exception."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from diag_kit.records import NotUnderstood

NUL, NEWLINE = "\x1f", "\x1e"
_SECTION = re.compile(r"^==diag_kit:(\w+)==$")
_MAX_NOT_UNDERSTOOD = 50


@dataclass(frozen=True, slots=True)
class OpenFile:
    """One file descriptor. ``writable`` None: not a regular file, or its flags could not be read."""

    number: int
    target: str
    writable: bool | None = None
    size_bytes: int | None = None
    changed: datetime | None = None

    @property
    def is_pipe(self) -> bool:
        return self.target.startswith("pipe:")

    @property
    def is_terminal(self) -> bool:
        return self.target.startswith(("/dev/pts/", "/dev/tty"))

    @property
    def is_regular(self) -> bool:
        return self.target.startswith("/") and self.writable is not None

    @property
    def deleted(self) -> bool:
        return self.target.endswith(" (deleted)")


@dataclass(frozen=True, slots=True)
class HostClock:
    """What the dump says about the host itself. ``now`` by its own clock."""

    now: datetime | None = None
    boot_s: int | None = None
    hz: int = 100
    uid: int | None = None
    mount_namespace: str = ""
    hidden: bool = False
    by: str = ""


@dataclass(frozen=True, slots=True)
class Process:
    """One process of the dump. ``blind`` names what could not be read of it ("environ", "fd")."""

    pid: int
    parent: int = 0
    name: str = ""
    state: str = ""
    threads: int | None = None
    argv: tuple[str, ...] = ()
    uid: int | None = None
    user: str = ""
    exe: str = ""
    cwd: str = ""
    mount_namespace: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    libraries: frozenset[str] = frozenset()
    files: tuple[OpenFile, ...] = ()
    places: Mapping[str, str] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)
    site_packages: str = ""
    started: datetime | None = None
    cgroup: str = ""
    cpus_allowed: str = ""
    is_worker: bool = False
    is_reader: bool = False
    blind: frozenset[str] = frozenset()

    @property
    def readable(self) -> bool:
        return not self.blind

    def descriptor(self, number: int) -> OpenFile | None:
        return next((file for file in self.files if file.number == number), None)

    def path(self, value: str) -> str:
        """``value`` as an absolute path, relative ones against the working directory where that is known."""
        return posixpath.normpath(posixpath.join(self.cwd, value)) if self.cwd or value.startswith("/") else value


@dataclass(frozen=True, slots=True)
class Dump:
    """All processes by pid. ``complete`` is False when the end marker is missing."""

    host: HostClock
    processes: Mapping[int, Process]
    complete: bool
    not_understood: tuple[NotUnderstood, ...] = ()

    def ancestors(self, process: Process) -> Iterator[Process]:
        """Nearest first; those in the dump only."""
        seen = {process.pid}
        current = self.processes.get(process.parent)
        while current is not None and current.pid not in seen:
            seen.add(current.pid)
            yield current
            current = self.processes.get(current.parent)

    def children(self, pid: int) -> list[Process]:
        return [process for process in self.processes.values() if process.parent == pid and process.pid != pid]


def _int(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


def _time(seconds: float | None) -> datetime | None:
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return None


def _open_file(value: str) -> OpenFile | None:
    parts = value.split(" ", 4)
    number = _int(parts[0])
    if len(parts) < 5 or number is None:
        return None
    flags = int(parts[1], 8) if re.fullmatch(r"[0-7]{1,20}", parts[1]) else None
    changed = _int(parts[3])
    return OpenFile(number, parts[4], None if flags is None else bool(flags & 3), _int(parts[2]), _time(changed))


def _stat(value: str, host: HostClock) -> dict[str, object]:
    """Fields of /proc/PID/stat by proc(5): the name may hold anything, so the fields count from its last ")"."""
    name, _, rest = value.partition("(")[2].rpartition(")")
    fields = rest.split()
    found: dict[str, object] = {"name": name, "state": fields[0] if fields else ""}
    if len(fields) > 1:
        found["parent"] = _int(fields[1]) or 0
    if len(fields) > 17:
        found["threads"] = _int(fields[17])
    if len(fields) > 19 and host.boot_s is not None:
        ticks = _int(fields[19])
        found["started"] = None if ticks is None else _time(host.boot_s + ticks / max(host.hz, 1))
    return found


def _argv(value: str) -> tuple[str, ...]:
    return tuple(value.removesuffix(NUL).replace(NEWLINE, "\n").split(NUL))


def _process(pid: int, pairs: list[tuple[str, str]], host: HostClock, users: Mapping[int, str]) -> Process | None:
    values = dict(pairs)
    if not values.get("stat"):
        return None
    environment = dict(item.partition("=")[::2] for key, item in pairs if key == "env")
    uid = _int(values.get("Uid", ""))
    site, *packages = values.get("site", "").split(NUL)
    return Process(
        pid=pid,
        argv=_argv(values.get("cmd", "")),
        uid=uid,
        user=users.get(uid, str(uid)) if uid is not None else "",
        exe=values.get("exe", "").removesuffix(" (deleted)"),
        cwd=values.get("cwd", "").removesuffix(" (deleted)"),
        mount_namespace=values.get("mnt", ""),
        environment={name: value.replace(NEWLINE, "\n") for name, value in environment.items()},
        libraries=frozenset(filter(None, values.get("libs", "").split(","))),
        files=tuple(file for key, item in pairs if key == "fd" and (file := _open_file(item)) is not None),
        places=dict(item.partition(NUL)[::-2] for key, item in pairs if key == "place"),
        packages=dict(item.partition("=")[::2] for item in packages if "=" in item),
        site_packages=site,
        cgroup=values.get("cgroup", "").replace(NEWLINE, "\n").strip(),
        cpus_allowed=values.get("Cpus_allowed_list", ""),
        is_worker="worker" in values,
        is_reader="reader" in values,
        blind=frozenset(item.split(" ")[0] for key, item in pairs if key == "blind"),
        **_stat(values["stat"], host),  # type: ignore[arg-type]
    )


def _host(pairs: list[tuple[str, str]]) -> HostClock:
    values = dict(pairs)
    return HostClock(
        now=_time(_int(values.get("now", ""))),
        boot_s=_int(values.get("btime", "")),
        hz=_int(values.get("hz", "")) or 100,
        uid=_int(values.get("uid", "")),
        mount_namespace=values.get("mnt", ""),
        hidden="hidepid" in values,
        by=values.get("by", ""),
    )


def read_dump(text: str) -> Dump:
    """Parse the output of ``remote_proc.SCRIPT``. A process that vanished in mid-dump is left out without a word."""
    by_pid: dict[int, list[tuple[str, str]]] = {}
    strange: list[NotUnderstood] = []
    complete = False
    for number, line in enumerate(text.split("\n"), start=1):
        section = _SECTION.match(line)
        if section:
            complete = complete or section[1] == "end"
            continue
        parts = line.split("\t", 2)
        pid = _int(parts[0])
        if pid is not None and len(parts) == 3:
            by_pid.setdefault(pid, []).append((parts[1], parts[2]))
        elif line.strip() and len(strange) < _MAX_NOT_UNDERSTOOD:
            strange.append(NotUnderstood(f"process dump line {number}", line[:200], "not PID, KEY, VALUE"))
    own = by_pid.pop(0, [])
    host = _host(own)
    pairs = (item.partition(" ") for key, item in own if key == "user")
    users = {uid: name for uid_text, _, name in pairs if (uid := _int(uid_text)) is not None}
    found = {pid: made for pid, facts in by_pid.items() if (made := _process(pid, facts, host, users)) is not None}
    return Dump(host, found, complete, tuple(strange))
