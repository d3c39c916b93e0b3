"""Bytes that each rank reads, loader processes included: cumulative counters over a window."""

from __future__ import annotations

import re
import shlex
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar

from diag_kit.evidence import Evidence
from diag_kit.hosts.protocol import Host
from diag_kit.observe.opened_files import rank_arguments
from diag_kit.observe.probe import probe
from diag_kit.observe.raw import frame
from diag_kit.records import CommandResult, Cost, Fact, NotUnderstood, Parsed

RANK_IO = {"t": "datetime64[us, UTC]", "rank": "Int64", "pid": "Int64", "rchar": "Int64", "read_bytes": "Int64"}

_PYTHON = r"""
import os, sys, time
print("==diag_kit:rank_io==")
seconds, ranks = float(sys.argv[1]), [item.split(":") for item in sys.argv[2:]]
def counters(pid):
    with open("/proc/%s/io" % pid) as f:
        values = dict(line.split(": ") for line in f.read().splitlines())
    return int(values["rchar"]), int(values["read_bytes"])
def children(pid):
    try:
        with open("/proc/%s/task/%s/children" % (pid, pid)) as f:
            return f.read().split()
    except OSError:
        return []
start = time.time()
rounds = max(int(seconds), 1)
for turn in range(rounds + 1):
    time.sleep(max(0.0, start + turn * seconds / rounds - time.time()))
    for rank, pid in ranks:
        try:
            total, now = list(counters(pid)), time.time()
        except (OSError, KeyError, ValueError) as error:
            print("blind", rank, pid, getattr(error, "strerror", "unreadable"))
            continue
        for child in children(pid):
            try:
                rchar, read_bytes = counters(child)
                total[0] += rchar
                total[1] += read_bytes
            except (OSError, KeyError, ValueError):
                pass
        print("%.4f %s %s %d %d" % (now, rank, pid, total[0], total[1]), flush=True)
print("end")
"""

_SHELL = r"""
echo '==diag_kit:rank_io=='
seconds=$1; shift
stamp() { case $(date +%N) in *N*|'') date +%s ;; *) date +%s.%N ;; esac; }
turn() {
  for item in "$@"; do
    rank=${item%%:*}; pid=${item#*:}; now=$(stamp)
    cat "/proc/$pid/io" >/dev/null 2>&1 || { echo "blind $rank $pid unreadable"; continue; }
    for each in "$pid" $(cat "/proc/$pid/task/$pid/children" 2>/dev/null); do cat "/proc/$each/io" 2>/dev/null; done |
      awk -v head="$now $rank $pid" '/^rchar:/ {a += $2} /^read_bytes:/ {b += $2} END {printf "%s %.0f %.0f\n", head, a, b}'
  done
}
turn "$@"; sleep "$seconds"; turn "$@"
echo end
"""

SCRIPT = f"""
if command -v python3 >/dev/null 2>&1; then
  exec python3 -I -S -c {shlex.quote(_PYTHON)} "$@"
fi
{_SHELL}
"""
_ROW = re.compile(r"^(\d{1,12}(?:\.\d{1,9})?) (\d{1,9}) (\d{1,9}) (\d{1,18}) (\d{1,18})$")


@probe
@dataclass(frozen=True)
class RankIo:
    """Cumulative bytes read by each rank and its loader processes, once a second for ``seconds``.

    ``rchar`` counts what read() returned, the page cache and pipes included; ``read_bytes`` what came from storage
    (proc(5)). Memory-mapped data are in neither until they come from storage. Table ``rank_io``. The ratio of the two
    is the cache's share. Equivalent: ``cat /proc/PID/io`` twice.
    """

    seconds: float = 10.0

    name: ClassVar[str] = "rank_io"
    cost: ClassVar[Cost] = Cost.READ_ONLY
    equivalent: ClassVar[str] = "cat /proc/PID/io; sleep 10; cat /proc/PID/io   # for each rank and its loader processes"

    @property
    def budget_s(self) -> float:
        return self.seconds + 3.0

    def collect(self, host: Host, known: Evidence, stop: threading.Event | None = None) -> tuple[CommandResult, ...]:
        ranks = rank_arguments(known)
        return (host.run(SCRIPT, f"{self.seconds:g}", *ranks, timeout_s=self.seconds + 15.0, stop=stop),)

    def read(self, results: tuple[CommandResult, ...]) -> Parsed:
        rows: list[dict[str, Any]] = []
        blind: dict[str, None] = {}
        strange: list[NotUnderstood] = []
        for number, line in enumerate((results[0].text if results else "").split("\n"), start=1):
            found = _ROW.match(line)
            if found:
                moment = datetime.fromtimestamp(float(found[1]), UTC) if float(found[1]) < 2e11 else None
                values = zip(("rank", "pid", "rchar", "read_bytes"), map(int, found.groups()[1:]), strict=True)
                rows.append({"t": moment, **dict(values)})
            elif line.startswith("blind "):
                rank, pid, why = [*line[6:].split(" ", 2), "", ""][:3]
                blind.setdefault(f"the bytes read by rank {rank} (pid {pid}): {why}"[:200])
            elif line and not line.startswith("==diag_kit:") and line != "end" and len(strange) < 50:
                strange.append(NotUnderstood(f"rank_io line {number}", line[:200], "not a counter row"))
        table = frame(rows, RANK_IO)
        facts = _rates(table)
        problems = [*blind] or ([] if rows else ["no rank could be read: it ended, or belongs to another user"])
        summary = ", ".join(f"rank {f.name.removeprefix('rank_').removesuffix('_read_mb_per_s')} {f.value} MB/s" for f in facts)
        return Parsed(summary or "no bytes counted", tuple(facts), {"rank_io": table}, tuple(strange), tuple(problems))


def _rates(table: Any) -> list[Fact]:
    """MB/s that read() returned, per rank, over the whole window."""
    facts: list[Fact] = []
    for rank, rows in table.dropna().groupby("rank"):
        rows = rows.sort_values("t")
        seconds = (rows["t"].iloc[-1] - rows["t"].iloc[0]).total_seconds()
        if seconds > 0:
            rate = float(rows["rchar"].iloc[-1] - rows["rchar"].iloc[0]) / seconds / 1e6
            facts.append(Fact(f"rank_{rank}_read_mb_per_s", round(rate, 3), f"/proc/{rows['pid'].iloc[0]}/io", "MB/s"))
    return facts
