"""Where a training's output goes, from the open files of its processes. Pure.

Standard output and error of the ranks, a pipe followed to its reader (``| tee log``, slurmstepd, a container's
runtime), then log files opened by the script itself, then ``--log-file``-like arguments. Where it ends at a terminal,
the user is asked for --log.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from diag_kit.observe.job_tree import Job
from diag_kit.observe.process_dump import Dump, OpenFile, Process

_LOG_NAME = re.compile(r"\.(log|out|err)(\.\d+)?$|(^|[/_.-])log[^/]*\.(txt|jsonl?)$|stdout|stderr|slurm-\d+", re.I)
_LOG_ARGUMENT = re.compile(r"^--?(log|logs|log[-_]?file|log[-_]?path|output[-_]?log|logfile|stdout)(=|$)", re.I)
_DATA_ARGUMENT = re.compile(
    r"^(?:--?)?(?:[\w.]*[._-])?(data|dataset|data[-_]?dir|data[-_]?path|data[-_]?root|data[-_]?folder|dataset[-_]?(?:dir|path|root|name)|"
    r"train[-_]?(?:data|dir|files?|path|set)|train[-_]?data[-_]?(?:dir|path)|hidden[-_]?states(?:[-_](?:dir|path))?|shards?|corpus)(=|$)",
    re.I,
)
_NOT_DATA = re.compile(
    r"(site|dist)-packages|^/(usr|proc|sys|dev|etc|lib|lib64|bin|run)/|\.(so|py|pyc|log|lock|sock|zip|whl|db|sqlite3?|out|err)(\.\d+)*$|"
    r"/torchelastic_|/wandb/|/\.cache/|/\.nv/|tfevents",
    re.I,
)
_RUNTIMES = re.compile(r"containerd-shim|dockerd|conmon|crio|podman|runc|kubelet|journald|systemd")
_COLLECTORS = re.compile(_RUNTIMES.pattern + "|slurmstepd|srun|mpirun|orted|prted|hydra")
_CONTAINER_ID = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Log:
    """A file that the training's output goes to. ``how`` says how it was found; ``path`` is reachable from the host."""

    path: str
    how: str
    size_bytes: int | None = None
    changed: datetime | None = None


@dataclass(frozen=True, slots=True)
class LogSearch:
    """``logs`` best first; ``ends`` says where the output goes where that is no file ("a terminal (/dev/pts/3)")."""

    logs: tuple[Log, ...] = ()
    ends: tuple[str, ...] = ()


def from_host(dump: Dump, process: Process, path: str) -> str:
    """The path under which the host sees a file of that process: through /proc/PID/root in another mount namespace."""
    other = process.mount_namespace and dump.host.mount_namespace
    if other and process.mount_namespace != dump.host.mount_namespace and path.startswith("/"):
        return f"/proc/{process.pid}/root{path}"
    return path


def _log(dump: Dump, process: Process, file: OpenFile, how: str) -> Log:
    return Log(from_host(dump, process, file.target), how, file.size_bytes, file.changed)


def _pipe_readers(dump: Dump, pipe: str, writers: frozenset[int]) -> Iterator[Process]:
    for process in dump.processes.values():
        if process.pid in writers:
            continue
        stdin = process.descriptor(0)
        holds = any(file.target == pipe and file.number > 2 for file in process.files)
        if (stdin is not None and stdin.target == pipe) or (holds and _COLLECTORS.search(process.name)):
            yield process


def _follow(dump: Dump, process: Process, number: int, seen: frozenset[str]) -> tuple[list[Log], list[str]]:
    """Where one descriptor of one process leads: files, and ends that are none."""
    file = process.descriptor(number)
    name = {1: "standard output", 2: "standard error"}[number]
    if file is None:
        return [], []
    if file.is_regular:
        if file.deleted:
            return [], [f"{name} is the deleted file {file.target}"]
        return [_log(dump, process, file, f"{name} of pid {process.pid}")], []
    if file.is_terminal:
        return [], [f"a terminal ({file.target})"]
    if file.target == "/dev/null":
        return [], ["/dev/null"]
    if not file.is_pipe or file.target in seen:
        return [], [] if file.is_pipe else [f"{file.target.split(':')[0]} (no file)"]
    return _through_pipe(dump, process, file.target, seen | {file.target})


def _through_pipe(dump: Dump, process: Process, pipe: str, seen: frozenset[str]) -> tuple[list[Log], list[str]]:
    writers = frozenset({process.pid, *(p.pid for p in dump.children(process.pid))})
    logs: list[Log] = []
    ends: list[str] = []
    readers = list(_pipe_readers(dump, pipe, writers))
    for reader in readers:
        for file in reader.files:
            if file.number > 2 and file.is_regular and file.writable and not file.deleted:
                logs.append(_log(dump, reader, file, f"pid {process.pid} pipes into {reader.name} (pid {reader.pid})"))
        more, further = _follow(dump, reader, 1, seen)
        logs += more
        ends += further if not logs else []
        if _RUNTIMES.search(reader.name):
            ends.append(_container_hint(process, reader))
    if not readers:
        ends.append("a pipe whose reader cannot be seen")
    return logs, ends


def _container_hint(process: Process, reader: Process) -> str:
    found = _CONTAINER_ID.findall(process.cgroup)
    where = f" (/var/lib/docker/containers/{found[-1]}/{found[-1]}-json.log, where it is docker)" if found else ""
    return f"the container runtime, pid {reader.pid} ({reader.name}){where}"


def _opened_logs(dump: Dump, process: Process) -> list[Log]:
    return [
        _log(dump, process, file, f"opened for writing by pid {process.pid}")
        for file in process.files
        if file.number > 2 and file.is_regular and file.writable and not file.deleted and _LOG_NAME.search(file.target)
    ]


def arguments(process: Process) -> Iterator[tuple[str, str]]:
    """(name, value) of every ``--name value``, ``--name=value`` and ``name=value`` of a command line."""
    argv = process.argv[1:]
    for position, word in enumerate(argv):
        name, equals, value = word.partition("=")
        if equals:
            yield name, value
        elif word.startswith("-") and position + 1 < len(argv) and not argv[position + 1].startswith("--"):
            yield word, argv[position + 1]


def _named_logs(dump: Dump, process: Process) -> list[Log]:
    found = []
    for name, value in arguments(process):
        kind = process.places.get(value, process.places.get(f"{name}={value}", ""))
        if _LOG_ARGUMENT.match(name) and kind == "f":
            found.append(Log(from_host(dump, process, process.path(value)), f"argument {name} of pid {process.pid}"))
    return found


def find_logs(dump: Dump, job: Job) -> LogSearch:
    """Every file that the job writes its output to, best first.

    Output of the ranks and the launcher comes before files the script opens itself, larger before smaller: a launcher
    whose ranks write elsewhere holds little. A file that only one stream goes to is kept as second.
    """
    processes = [*(rank.process for rank in job.ranks), job.top]
    logs: list[Log] = []
    ends: list[str] = []
    for process in processes:
        for number in (1, 2):
            more, further = _follow(dump, process, number, frozenset())
            logs += more
            ends += further
    streams = sorted(_distinct(logs), key=lambda log: -(log.size_bytes or 0))
    others = [log for process in processes for log in (*_opened_logs(dump, process), *_named_logs(dump, process))]
    extra = sorted(_distinct(others), key=lambda log: -(log.size_bytes or 0))
    empty = bool(streams) and all(log.size_bytes == 0 for log in streams)
    ordered = [*extra, *streams] if empty and extra else [*streams, *extra]
    return LogSearch(tuple(_distinct(ordered)), tuple(dict.fromkeys(ends)))


def _distinct(logs: list[Log]) -> list[Log]:
    found: dict[str, Log] = {}
    for log in logs:
        # one file of a container is reached through each of its processes
        found.setdefault(re.sub(r"^/proc/\d+/root/", "root:/", log.path), log)
    return list(found.values())


def find_data_dir(dump: Dump, job: Job) -> tuple[str, str] | None:
    """The folder of the data files and how it was found: a data-like argument that is a folder, else files open for
    reading.
    """
    for process in (job.lead, job.top):
        for name, value in arguments(process):
            kind = process.places.get(value, process.places.get(f"{name}={value}", ""))
            if _DATA_ARGUMENT.match(name) and kind:
                path = process.path(value)
                folder = path if kind == "d" else posixpath.dirname(path)
                return from_host(dump, process, folder), f"argument {name} of pid {process.pid}"
    counts: dict[str, int] = {}
    holders = [p for rank in job.ranks for p in (rank.process, *rank.loaders)]
    for process in holders:
        for file in process.files:
            if file.number > 2 and file.is_regular and not file.writable and not _NOT_DATA.search(file.target):
                folder = from_host(dump, process, posixpath.dirname(file.target))
                counts[folder] = counts.get(folder, 0) + 1
    if not counts:
        return None
    best = max(counts, key=lambda folder: (counts[folder], folder))
    return best, f"files open for reading in {len(holders)} processes of the job"
