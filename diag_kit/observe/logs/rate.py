"""How fast a log grows: only appended bytes are read, about once a second, by one script on the host."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar

from diag_kit.evidence import Evidence
from diag_kit.hosts.protocol import Host
from diag_kit.observe.logs.pieces import CHECK, Part, Piece, asked_files, log_paths, parts, problem_sentence
from diag_kit.observe.logs.reading import understand
from diag_kit.observe.probe import probe
from diag_kit.observe.raw import frame, why_cut_short
from diag_kit.records import CommandResult, Cost, Fact, Parsed

SHIP_BYTES = 4 * 2**20
WINDOW_COLUMNS = {
    "t": "datetime64[us, UTC]",
    "lines_total": "Int64",
    "records_total": "Int64",
    "bytes_total": "Int64",
}

PYTHON = r"""
import os, sys, time
seconds, room, names = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
out = sys.stdout.buffer
files = []
def tick(index, opened, data, note=b""):
    global room
    kept = data[: max(room, 0)]
    room -= len(kept)
    out.write(b"==diag_kit:tick file=%d t=%.6f bytes=%d grown=%d lines=%d%s==\n" % (index, time.time(), len(kept), len(data), data.count(b"\n"), note))
    out.write(kept + b"\n")
for index, name in enumerate(names):
    try:
        handle = open(name, "rb", buffering=0)
        handle.seek(0, 2)
        files.append([index, name, handle])
    except OSError:
        continue
    tick(index, handle, b"", b" begin=1")
begun = time.monotonic()
count = 0
while files:
    count += 1
    left = begun + min(count, seconds) - time.monotonic()
    if left > 0:
        time.sleep(left)
    for entry in files:
        index, name, handle = entry
        note = b""
        try:
            there = os.stat(name)
            here = os.fstat(handle.fileno())
            rotated = (there.st_ino, there.st_dev) != (here.st_ino, here.st_dev)
            if there.st_size < handle.tell() and not rotated:
                handle.seek(0)
                note = b" truncated=1"
            data = handle.read(1 << 26) or b""
            if rotated:
                entry[2] = open(name, "rb", buffering=0)
                data += entry[2].read(1 << 26) or b""
                note = b" rotated=1"
        except OSError:
            data, note = b"", b" gone=1"
        tick(index, handle, data, note)
    out.flush()
    if count >= seconds:
        break
"""

SCRIPT = (
    CHECK
    + r"""
program=$1; seconds=$2; room=$3; shift 3
n=0
for f in "$@"; do i=$n; n=$((n + 1)); check "$f" "$i" || true; done
if command -v python3 >/dev/null 2>&1; then exec python3 -I -c "$program" "$seconds" "$room" "$@"; fi
now() { t=$(date +%s.%N); case $t in *N*) t=${t%%.*} ;; esac; printf %s "$t"; }
f=$1
[ -f "$f" ] && [ -r "$f" ] || exit 0
offset=$(($(wc -c < "$f")))
printf '==diag_kit:tick file=0 t=%s bytes=0 grown=0 lines=0 begin=1==\n\n' "$(now)"
count=0
while [ "$count" -lt "${seconds%.*}" ]; do
  sleep 1
  count=$((count + 1))
  size=$(($(wc -c < "$f" 2>/dev/null || echo 0))); note=
  if [ "$size" -lt "$offset" ]; then offset=0; note=' truncated=1'; fi
  grown=$((size - offset)); kept=$grown
  [ "$kept" -gt "$room" ] && kept=$room
  lines=$(tail -c +$((offset + 1)) "$f" | head -c "$grown" | wc -l)
  printf '==diag_kit:tick file=0 t=%s bytes=%s grown=%s lines=%s%s==\n' "$(now)" "$kept" "$grown" "$((lines))" "$note"
  tail -c +$((offset + 1)) "$f" | head -c "$kept"; echo
  offset=$size; room=$((room - kept))
done
"""
)


@probe
@dataclass(frozen=True)
class LogRate:
    """Lines and metric records appended in a window of ``seconds``, counted about once a second.

    Equivalent: ``before=$(wc -l < LOG); sleep 30; wc -l < LOG`` without reading what was there before. Table: ``log_window`` (t on
    the host's clock, lines_total records_total bytes_total since the window began). Facts: log_window_s, log_lines_appended,
    log_records_appended, appends_bursty (most lines came in a few of the seconds: the writer buffers, and a short window
    misleads). A rate is known to about one line of each printing rank at both ends.
    """

    path: str | None = None
    seconds: float = 30.0

    name: ClassVar[str] = "log_rate"
    cost: ClassVar[Cost] = Cost.READ_ONLY
    equivalent: ClassVar[str] = "wc -l LOG; sleep 30; wc -l LOG"

    @property
    def budget_s(self) -> float:
        return self.seconds + 10.0

    def collect(self, host: Host, known: Evidence, stop: threading.Event | None = None) -> tuple[CommandResult, ...]:
        paths = log_paths(self.path, known)
        seconds = str(max(1, round(self.seconds)))
        room = SHIP_BYTES + 2**20
        return (
            host.run(
                SCRIPT, PYTHON, seconds, str(SHIP_BYTES), *paths, timeout_s=self.budget_s, max_bytes=room, stop=stop
            ),
        )

    def read(self, results: tuple[CommandResult, ...]) -> Parsed:
        problems: list[str] = []
        ticks: list[Part] = []
        for result in results:
            names = asked_files(result, 3)
            for part in parts(result.stdout):
                if part.kind == "problem":
                    index = part.number("file")
                    problems.append(problem_sentence(part, names[index] if 0 <= index < len(names) else "the log"))
                elif part.kind == "tick":
                    ticks.append(part)
            if cut := why_cut_short(result):
                problems.append(cut)
        return _parsed(ticks, problems)


def _parsed(ticks: list[Part], problems: list[str]) -> Parsed:
    rows, notes = _rows(ticks)
    problems = [*problems, *notes]
    if len(rows) < 2:
        return Parsed("no window", problems=tuple(problems or ["the log's growth could not be watched"]))
    table = frame(rows, WINDOW_COLUMNS)
    window_s = float((table["t"].iloc[-1] - table["t"].iloc[0]).total_seconds())
    lines, records = int(table["lines_total"].iloc[-1]), table["records_total"].iloc[-1]
    facts = [
        Fact("log_window_s", round(window_s, 3), "watched", "s"),
        Fact("log_lines_appended", lines, "counted in the window", "lines"),
    ]
    if records == records and records is not None:
        facts.append(Fact("log_records_appended", int(records), "counted in the window", "records"))
    bursty = _bursty(table["lines_total"].astype("float64").diff().dropna().tolist())
    if bursty:
        facts.append(Fact("appends_bursty", True, "more than half of the lines came in a tenth of the seconds"))
    if not lines:
        problems.append(f"nothing was appended in {window_s:.0f} s: finished, hung, or buffered by its writer; watch longer or look at it")
    return Parsed(
        f"{lines} lines in {window_s:.1f} s" + (", in bursts: buffered output" if bursty else ""),
        tuple(facts),
        {"log_window": table},
        problems=tuple(problems),
    )


def _rows(ticks: list[Part]) -> tuple[list[dict[str, object]], list[str]]:
    """Cumulative counts over all files, one row for each round of ticks."""
    notes = []
    times: dict[int, float] = {}
    counts: dict[int, list[int]] = {}
    rounds: dict[int, int] = {}
    text: dict[int, list[tuple[int, bytes]]] = {}
    complete = True
    for part in ticks:
        file = part.number("file")
        turn = rounds[file] = rounds.get(file, -1) + 1
        try:
            times[turn] = max(times.get(turn, 0.0), float(part.fields.get("t", "")))
        except ValueError:
            continue
        grown, lines = max(part.number("grown"), 0), max(part.number("lines"), 0)
        complete = complete and part.number("bytes") >= grown
        row = counts.setdefault(turn, [0, 0])
        row[0] += lines
        row[1] += grown
        text.setdefault(file, []).append((turn, part.data))
        for key, said in (("truncated", "was truncated"), ("rotated", "was replaced by a new file"), ("gone", "disappeared")):
            if part.fields.get(key):
                notes.append(f"the log {said} while it was watched: the count goes on with what came after")
    records = _records(text) if complete else None
    rows: list[dict[str, object]] = []
    total = [0, 0, 0]
    for turn in sorted(counts):
        if not 0 < times.get(turn, 0.0) < 1e11:
            continue
        total[0] += counts[turn][0]
        total[1] += counts[turn][1]
        total[2] += records.get(turn, 0) if records is not None else 0
        rows.append(
            {
                "t": datetime.fromtimestamp(times[turn], UTC),
                "lines_total": total[0],
                "records_total": total[2] if records is not None else None,
                "bytes_total": total[1],
            }
        )
    return rows, list(dict.fromkeys(notes))


def _records(text: dict[int, list[tuple[int, bytes]]]) -> dict[int, int]:
    """Train records that were complete in each round: a record belongs to the round in which its line ended."""
    found: dict[int, int] = {}
    for pieces in text.values():
        data = b"".join(piece for _, piece in pieces)
        ends: list[tuple[int, int]] = []
        lines = 0
        for turn, piece in pieces:
            lines += piece.count(b"\n")
            ends.append((lines, turn))
        whole = data[: data.rfind(b"\n") + 1]
        rows = understand([Piece("window", "", whole, 1, 0)], facts=False).rows
        table = rows.frame(list(rows.stamps), ["window"], [""], [True])
        for line in table.loc[table["split"] == "train", "line"].dropna().tolist():
            turn = next((turn for last, turn in ends if int(line) <= last), ends[-1][1])
            found[turn] = found.get(turn, 0) + 1
    return found


def _bursty(counts: list[float]) -> bool:
    """More than half of at least 20 lines in at most a tenth of at least 10 seconds."""
    total = sum(counts)
    if total < 20 or len(counts) < 10:
        return False
    top = sorted(counts, reverse=True)[: max(1, len(counts) // 10)]
    return sum(top) > total / 2
