"""Which rank opens which data files, watched for some seconds: the evidence that decides whether ranks share the
data.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from diag_kit.errors import NothingToObserve
from diag_kit.evidence import Evidence
from diag_kit.hosts.protocol import Host
from diag_kit.observe.opened_rows import OpensRead, read_opens
from diag_kit.observe.probe import probe
from diag_kit.observe.raw import frame
from diag_kit.observe.remote_opens import SCRIPT
from diag_kit.records import CommandResult, Cost, Fact, Parsed

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


class _CostByConsent:
    """READ_ONLY for the class and for a plain window; CAREFUL for one that traces."""

    def __get__(self, instance: Any, owner: type | None = None) -> Cost:
        return Cost.CAREFUL if instance is not None and instance.careful else Cost.READ_ONLY


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


def _summary(opens: Any, counts: dict[str, int], reading: OpensRead) -> str:
    if not len(opens):
        return "no open of a data file was seen"
    ranks = sorted({int(rank) for rank in opens["rank"].dropna().unique()})
    parts = [f"{count} by {via}" for via, count in counts.items() if count]
    cpu = f", {reading.cpu_s:.2f} s of CPU used on the host" if reading.cpu_s is not None else ""
    who = f"ranks {', '.join(map(str, ranks))}" if ranks else "no rank known"
    return f"{', '.join(parts)} of {opens['path'].nunique()} files ({who}){cpu}"


def _problems(reading: OpensRead, results: tuple[CommandResult, ...], careful: bool) -> Iterable[str]:
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
