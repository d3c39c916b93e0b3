"""Which rank opens which data files, watched for some seconds: the evidence that decides whether ranks share the
data.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar

from diag_kit.errors import NothingToObserve
from diag_kit.evidence import Evidence
from diag_kit.hosts.protocol import Host
from diag_kit.observe.probe import probe
from diag_kit.observe.raw import frame
from diag_kit.observe.remote_opens import SCRIPT
from diag_kit.records import CommandResult, Cost, Fact, NotUnderstood, Parsed

DUTY = 0.1
"""Share of one core that the poll loop may use on the host."""

OPENS = {"t": "datetime64[us, UTC]", "rank": "Int64", "pid": "Int64", "path": "string", "via": "string"}
POSITIONS = {
    "t": "datetime64[us, UTC]",
    "rank": "Int64",
    "pid": "Int64",
    "path": "string",
    "position_bytes": "Int64",
    "size_bytes": "Int64",
}
MAPPED = {"rank": "Int64", "pid": "Int64", "path": "string"}

_NOT_DATA = re.compile(
    r"^/(dev|proc|sys|etc|usr|lib|lib64|bin|run|boot)/|/(site|dist)-packages/|lib/python3|"
    r"\.(so|py|pyc|log|lock|sock|out|err)(\.[0-9.]+)?$|/torchelastic_|tfevents| \(deleted\)$"
)
_STRACE = re.compile(
    r'^(?:\[pid\s+(\d+)\]\s+)?(?:(\d+)\s+)?(\d+\.\d+)\s+open(?:at2?)?\((?:[^,"]*,\s*)?"((?:[^"\\]|\\.)*)"[^)]*?([A-Z_|]*)[^=]*(?:=\s*(-?\d+))?'
)
_MAX_ROWS = 400_000


class _CostByConsent:
    """READ_ONLY for the class and for a plain window; CAREFUL for one that traces."""

    def __get__(self, instance: Any, owner: type | None = None) -> Cost:
        return Cost.CAREFUL if instance is not None and instance.careful else Cost.READ_ONLY


@dataclass(slots=True)
class _Reading:
    """What accumulates while the lines are read."""

    files: dict[int, str] = field(default_factory=dict)
    ranks: dict[int, int] = field(default_factory=dict)
    opens: list[dict[str, Any]] = field(default_factory=list)
    positions: list[dict[str, Any]] = field(default_factory=list)
    mapped: list[dict[str, Any]] = field(default_factory=list)
    blind: list[str] = field(default_factory=list)
    prefixes: list[str] = field(default_factory=list)
    window: list[float] = field(default_factory=list)
    cpu_s: float | None = None
    sweeps: int | None = None
    ended: bool = False
    strange: list[NotUnderstood] = field(default_factory=list)
    # of the sh fallback: what stood open in the last sweep, and in this one
    stamp: float | None = None
    holder: int | None = None
    before: set[tuple[int, str, str]] = field(default_factory=set)
    now: set[tuple[int, str, str]] = field(default_factory=set)


def _time(seconds: float | None) -> datetime | None:
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return None


def _int(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else None


def _float(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\d{1,12}(\.\d{1,9})?", text) else None


def _open(reading: _Reading, t: float | None, rank: int | None, pid: int | None, path: str | None, via: str) -> bool:
    moment = _time(t)
    if moment is None or path is None:
        return False
    if len(reading.opens) < _MAX_ROWS:
        reading.opens.append({"t": moment, "rank": rank, "pid": pid, "path": path, "via": via})
    return True


def _read_open(reading: _Reading, words: list[str]) -> bool:
    """``o T PID RANK VIA FILE``"""
    if len(words) != 6:
        return False
    number = _int(words[5])
    path = reading.files.get(number) if number is not None else None
    return _open(reading, _float(words[1]), _int(words[3]), _int(words[2]), path, words[4])


def _read_position(reading: _Reading, words: list[str]) -> bool:
    """``q T PID FD POS SIZE FILE``"""
    if len(words) != 7:
        return False
    moment, pid = _time(_float(words[1])), _int(words[2])
    path = reading.files.get(_int(words[6]) or 0)
    if moment is None or pid is None or path is None:
        return False
    row = {"t": moment, "rank": reading.ranks.get(pid), "pid": pid, "path": path}
    reading.positions.append(row | {"position_bytes": _int(words[4]), "size_bytes": _int(words[5])})
    return True


def _read_strace(reading: _Reading, text: str) -> bool:
    """One line of ``strace -f -ttt -e trace=openat``; a failed open or a folder is no row."""
    found = _STRACE.match(text)
    if not found:
        if "ermitted" in text or "ttach" in text:
            reading.blind.append(f"strace: {text[:200]}")
        return True
    pid = _int(found[1] or found[2] or "")
    result = _int(found[6] or "0")
    if (result is not None and result < 0) or "O_DIRECTORY" in text or _NOT_DATA.search(found[4]):
        return True
    path = found[4].encode("latin-1", "replace").decode("unicode_escape", "replace") if "\\" in found[4] else found[4]
    rank = reading.ranks.get(pid) if pid is not None else None
    return _open(reading, _float(found[3]), rank, pid, path, "strace")


def _read_listing(reading: _Reading, words: list[str]) -> bool:
    """Lines of the sh fallback: ``s T`` a sweep ends, ``d PID``, ``l FD PATH``. A file that stays open is one open."""
    if words[0] == "s":
        for pid, _, path in sorted(reading.now - reading.before):
            _open(reading, reading.stamp, reading.ranks.get(pid), pid, path, "poll")
        reading.before, reading.now = reading.now, set()
        reading.stamp = _float(words[1]) if len(words) > 1 else None
        return True
    if words[0] == "d":
        reading.holder = _int(words[1]) if len(words) > 1 else None
        return True
    if reading.holder is not None and len(words) == 3 and not _NOT_DATA.search(words[2]):
        reading.now.add((reading.holder, words[1], words[2]))
    return True


def _read_line(reading: _Reading, line: str) -> bool:
    words = line.split(" ")
    kind, rest = words[0], line.partition(" ")[2]
    if kind == "o":
        return _read_open(reading, words)
    if kind == "q":
        return _read_position(reading, words)
    if kind == "x":
        return _read_strace(reading, rest)
    if kind in ("s", "d", "l"):
        return _read_listing(reading, line.split(" ", 2))
    if kind == "f":
        number = _int(words[1]) if len(words) > 2 else None
        if number is not None:
            reading.files[number] = rest.partition(" ")[2]
        return number is not None
    if kind == "m" and len(words) == 4:
        path = reading.files.get(_int(words[3]) or 0)
        reading.mapped.append({"pid": _int(words[1]), "rank": _int(words[2]), "path": path})
    elif kind == "rank" and len(words) == 3:
        pid, rank = _int(words[1]), _int(words[2])
        if pid is not None and rank is not None:
            reading.ranks[pid] = rank
    elif kind in ("window", "window_end"):
        reading.window += [value for word in words[1:2] if (value := _float(word)) is not None]
    elif kind == "prefix":
        reading.prefixes.append(rest)
    elif kind == "blind":
        reading.blind.append(rest)
    elif kind == "cost" and len(words) > 2:
        reading.cpu_s, reading.sweeps = _float(words[1]), _int(words[2])
    elif kind == "times":
        parts = re.findall(r"(\d+)m([\d.]+)s", rest)
        reading.cpu_s = sum(60 * float(minutes) + (_float(seconds) or 0.0) for minutes, seconds in parts)
    elif kind == "end":
        reading.ended = True
    else:
        return False
    return True


def read_opens(text: str) -> _Reading:
    """Pure: the output of ``remote_opens.SCRIPT`` line by line."""
    reading = _Reading()
    for number, line in enumerate(text.split("\n"), start=1):
        if not line or line == "==diag_kit:opens==":
            continue
        if not _read_line(reading, line) and len(reading.strange) < 50:
            reading.strange.append(NotUnderstood(f"opened files line {number}", line[:200], "unknown or broken row"))
    if reading.prefixes:
        inside = tuple(reading.prefixes)
        kept = [row for row in reading.opens if row["path"].startswith(inside)]
        reading.opens = kept or reading.opens
    return reading


def rank_arguments(known: Evidence) -> list[str]:
    """``RANK:PID`` of every readable rank process, from the newest table ``ranks``."""
    ranks = known.table("ranks")
    if ranks is None:
        raise NothingToObserve(
            "the processes of the ranks are not known",
            where="table ranks",
            next_step="observe training_jobs() first; if the training runs on another host, connect to that one",
        )
    known_ranks = ranks.dropna(subset=["rank", "pid"])
    return [f"{int(rank)}:{int(pid)}" for rank, pid in zip(known_ranks["rank"], known_ranks["pid"], strict=True)]


@probe
@dataclass(frozen=True)
class OpenedFiles:
    """Data files opened by each rank and its loader processes, for ``seconds``.

    Read-only rungs, in one small loop on the host that uses at most a tenth of one core: ``/proc/PID/fd`` of every rank
    and loader process (says who; short opens are missed) and inotify on the data folder (sees every open; not who).
    Also the position in files that stay open, and mapped files. ``careful=True`` asks the kernel for opener and file
    (fanotify, root only; no process is paused, but every open in the folder is reported), else traces the processes
    with ``strace``, which slows their system calls.

    Tables ``opens`` (t, rank, pid, path, via), ``positions``, ``mapped``; facts opens_window_s, probe_cpu_s,
    poll_sweeps_per_s, opens_poll, opens_inotify, opens_fanotify, opens_strace. Equivalent: ``ls -l /proc/PID/fd`` in a
    loop; ``inotifywait
    -m -e open DATA_DIR``.

    Caught by the poll, of what inotify saw, on two cores shared with others and a warm page cache: 25-42 % of 64 KiB
    torch.load opens with two loader processes, 12-24 % with four and more, 8-20 % of 64 KiB numpy files, 38-70 % of
    4 MiB files. inotify and fanotify saw every open.
    """

    seconds: float = 10.0
    data_dir: str | None = None
    careful: bool = False

    name: ClassVar[str] = "opened_files"
    cost: ClassVar[Cost] = _CostByConsent()  # type: ignore[assignment]
    equivalent: ClassVar[str] = (
        "while sleep 0.05; do ls -l /proc/PID/fd | grep DATA_DIR; done; inotifywait -m -e open DATA_DIR "
        "(careful: fatrace, or strace -f -e trace=openat -p PID)"
    )

    @property
    def budget_s(self) -> float:
        return self.seconds + 5.0

    def collect(self, host: Host, known: Evidence, stop: threading.Event | None = None) -> tuple[CommandResult, ...]:
        found = known.fact("data_dir")
        folder = self.data_dir or (str(found.fact.value) if found else "")
        mode = "careful" if self.careful else "watch"
        ranks = rank_arguments(known)
        timeout_s = self.seconds + 15.0
        return (host.run(SCRIPT, f"{self.seconds:g}", folder, f"{DUTY:g}", mode, *ranks, timeout_s=timeout_s, stop=stop),)

    def read(self, results: tuple[CommandResult, ...]) -> Parsed:
        reading = read_opens(results[0].text if results else "")
        opens = frame(reading.opens, OPENS)
        counts = {via: int((opens["via"] == via).sum()) for via in ("poll", "inotify", "fanotify", "strace")}
        tables = {"opens": opens}
        if reading.positions:
            tables["positions"] = frame(reading.positions, POSITIONS)
        if reading.mapped:
            tables["mapped"] = frame(reading.mapped, MAPPED)
        source = "the watching loop on the host"
        facts = [Fact(f"opens_{via}", count, source, "opens") for via, count in counts.items() if count]
        if len(reading.window) >= 2:
            facts.append(Fact("opens_window_s", round(reading.window[-1] - reading.window[0], 3), source, "s"))
        if reading.cpu_s is not None:
            facts.append(Fact("probe_cpu_s", reading.cpu_s, source, "s"))
        if reading.sweeps and len(reading.window) >= 2 and reading.window[-1] > reading.window[0]:
            rate = round(reading.sweeps / (reading.window[-1] - reading.window[0]))
            facts.append(Fact("poll_sweeps_per_s", rate, source, "1/s"))
        problems = tuple(_problems(reading, results, self.careful))
        return Parsed(_summary(opens, counts, reading), tuple(facts), tables, tuple(reading.strange), problems)


def _summary(opens: Any, counts: dict[str, int], reading: _Reading) -> str:
    if not len(opens):
        return "no open of a data file was seen"
    ranks = sorted({int(rank) for rank in opens["rank"].dropna().unique()})
    parts = [f"{count} by {via}" for via, count in counts.items() if count]
    cpu = f", {reading.cpu_s:.2f} s of CPU used on the host" if reading.cpu_s is not None else ""
    who = f"ranks {', '.join(map(str, ranks))}" if ranks else "no rank known"
    return f"{', '.join(parts)} of {opens['path'].nunique()} files ({who}){cpu}"


def _problems(reading: _Reading, results: tuple[CommandResult, ...], careful: bool) -> Iterable[str]:
    for text in dict.fromkeys(reading.blind):
        what, _, why = text.partition(" ")
        yield _BLIND.get(what, f"{what} saw nothing") + f": {why}"
    if not reading.ended:
        error = results[0].error_text.splitlines()[-1:] if results else []
        yield f"the watch did not end by itself, what it saw until then is kept ({error[0][:200] if error else 'cut off'})"
    if not reading.opens:
        mapped = " (the data are memory-mapped: see table mapped)" if reading.mapped else ""
        held = " (files stay open: see table positions)" if reading.positions else ""
        where = f" under {reading.prefixes[0]}" if reading.prefixes else ""
        more = "" if careful else "; opened_files(careful=True) sees every open but loads the training"
        yield f"no data file{where} was seen open{mapped}{held}: nothing follows from that{more}"


_BLIND = {
    "poll": "files open per process cannot be listed",
    "inotify": "opens of the data folder cannot be watched",
    "folder": "a data folder cannot be listed",
    "fanotify": "the kernel's list of openers cannot be used",
    "strace": "system calls cannot be traced",
}
