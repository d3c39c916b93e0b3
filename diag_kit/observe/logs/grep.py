"""The probes ``grep_count`` and ``grep_lines``: what a person would grep for, and where such a pattern misleads."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pandas as pd

from diag_kit.evidence import Evidence
from diag_kit.hosts.protocol import Host
from diag_kit.observe.logs.pieces import CHECK, Part, asked_files, log_paths, parts, problem_sentence
from diag_kit.observe.probe import probe
from diag_kit.records import CommandResult, Cost, Fact, Parsed

COUNT_SCRIPT = (
    CHECK
    + r"""
pattern=$1; exact=$2; shift 2
n=0
for f in "$@"; do
  i=$n; n=$((n + 1))
  check "$f" "$i" || continue
  count=$(grep -c -a -E -e "$pattern" < "$f" 2>&1); status=$?
  if [ "$status" -gt 1 ]; then printf '==diag_kit:failed file=%s status=%s==\n%s\n' "$i" "$status" "$count"; continue; fi
  other=
  if [ -n "$exact" ]; then other=$(grep -c -a -E -e "$exact" < "$f" 2>/dev/null); fi
  printf '==diag_kit:count file=%s status=%s count=%s exact=%s==\n' "$i" "$status" "$count" "$other"
done
"""
)
LINES_SCRIPT = (
    CHECK
    + r"""
pattern=$1; limit=$2; shift 2
n=0
for f in "$@"; do
  i=$n; n=$((n + 1))
  check "$f" "$i" || continue
  printf '==diag_kit:lines file=%s==\n' "$i"
  { grep -n -a -m "$limit" -E -e "$pattern" < "$f" 2>&1; printf '==diag_kit:status file=%s status=%s==\n' "$i" "$?"; } |
    cut -b1-2000
done
"""
)
_EPOCH = re.compile(r"(?P<word>[Ee]poch)\.\*(?P<number>\d+)(?![\d\]*+?{])")


def exact_epoch(pattern: str) -> str:
    """The pattern with ``epoch.*0`` narrowed to an epoch that is 0; empty when there is no such thing in it."""
    match = _EPOCH.search(pattern)
    if not match:
        return ""
    narrow = f"{match['word']}['\"]?[[:space:]]*[=: ]?[[:space:]]*{match['number']}([^0-9.]|$)"
    return pattern[: match.start()] + narrow + pattern[match.end() :]


def traps(pattern: str) -> list[str]:
    """Sentences on what the pattern counts that its author may not mean."""
    found = []
    match = _EPOCH.search(pattern)
    if match:
        n, word = match["number"], match["word"]
        found.append(
            f'"{word}.*{n}" also matches epochs 1{n}, 2{n}, ... and any later {n} in the line; exact: {exact_epoch(pattern)}'
        )
    if ".*" in pattern:
        found.append(
            "it counts physical lines: a record that a rich console wraps over several lines is missed, records glued on one "
            "line count once; log_metrics counts records"
        )
    return found


def _trap_facts(pattern: str) -> list[Fact]:
    return [Fact("grep_trap", sentence, f"pattern {pattern}") for sentence in traps(pattern)]


def _failure(part: Part, name: str) -> str:
    said = part.data.decode("utf-8", "replace").strip() or f"exit status {part.fields.get('status', '?')}"
    return f"grep failed on {name}: {said}; check the pattern (extended regular expression) and the file"


def _collect(
    host: Host, script: str, first: tuple[str, str], paths: Sequence[str], stop: threading.Event | None
) -> tuple[CommandResult, ...]:
    return (host.run(script, *first, *paths, timeout_s=60.0, max_bytes=4 * 2**20, stop=stop),)


def _stopped(result: CommandResult) -> list[str]:
    if result.timed_out:
        return ["grep took more than 60 s and was stopped: the file is very large; give a simpler pattern or a smaller file"]
    if not result.stdout:
        return [f"grep gave no answer: {result.error_text or 'no output'}; check that the host can run sh and grep"]
    return []


@probe
@dataclass(frozen=True)
class GrepCount:
    """Number of lines that match an extended regular expression: ``grep -c -E PATTERN LOG``, in one or several files.

    No match is a count of 0. Table ``grep_count``: file, count, count_exact (NA unless the pattern has a trap of the form
    ``epoch.*0``). Facts: grep_count (sum over files), grep_count_exact, grep_trap (a sentence each).
    """

    pattern: str
    path: str | Sequence[str] | None = None

    name: ClassVar[str] = "grep_count"
    cost: ClassVar[Cost] = Cost.READ_ONLY
    equivalent: ClassVar[str] = "grep -c -E PATTERN LOG"

    @property
    def budget_s(self) -> float:
        return 60.0

    def collect(self, host: Host, known: Evidence, stop: threading.Event | None = None) -> tuple[CommandResult, ...]:
        paths = log_paths(self.path, known)
        return _collect(host, COUNT_SCRIPT, (self.pattern, exact_epoch(self.pattern)), paths, stop)

    def read(self, results: tuple[CommandResult, ...]) -> Parsed:
        rows: list[tuple[str, int, int | None]] = []
        problems: list[str] = []
        for result in results:
            names = asked_files(result, 2)
            problems += _stopped(result)
            for part in parts(result.stdout):
                name = _name(names, part)
                if part.kind == "problem":
                    problems.append(problem_sentence(part, name))
                elif part.kind == "failed":
                    problems.append(_failure(part, name))
                elif part.kind == "count":
                    exact = part.fields.get("exact", "")
                    rows.append((name, part.number("count"), int(exact) if exact.isdigit() and len(exact) < 18 else None))
        return _counted(self.pattern, rows, problems)


def _counted(pattern: str, rows: list[tuple[str, int, int | None]], problems: list[str]) -> Parsed:
    if not rows:
        return Parsed("nothing could be counted", problems=tuple(problems))
    total = sum(row[1] for row in rows)
    files = ", ".join(row[0] for row in rows)
    facts = [Fact("grep_count", total, f"lines that match {pattern} in {files}", "lines")]
    exact = [row[2] for row in rows if row[2] is not None]
    if exact:
        facts.append(Fact("grep_count_exact", sum(exact), f"lines that match {exact_epoch(pattern)} in {files}", "lines"))
    frame = pd.DataFrame(rows, columns=["file", "count", "count_exact"]).astype(
        {"file": "str", "count": "Int64", "count_exact": "Int64"}
    )
    summary = f"{total:,} lines match {pattern}"
    if exact and sum(exact) != total:
        summary += f", but only {sum(exact):,} have that epoch"
    return Parsed(summary, (*facts, *_trap_facts(pattern)), {"grep_count": frame}, problems=tuple(problems))


@probe
@dataclass(frozen=True)
class GrepLines:
    """The first lines that match an extended regular expression, with their numbers: ``grep -n -E -m LIMIT PATTERN LOG``.

    ``limit`` counts per file. Table ``grep_lines``: file, line(Int64), text (at most 2,000 bytes of a line). Facts: grep_trap.
    """

    pattern: str
    path: str | Sequence[str] | None = None
    limit: int = 50

    name: ClassVar[str] = "grep_lines"
    cost: ClassVar[Cost] = Cost.READ_ONLY
    equivalent: ClassVar[str] = "grep -n -E -m 50 PATTERN LOG"

    @property
    def budget_s(self) -> float:
        return 60.0

    def collect(self, host: Host, known: Evidence, stop: threading.Event | None = None) -> tuple[CommandResult, ...]:
        paths = log_paths(self.path, known)
        return _collect(host, LINES_SCRIPT, (self.pattern, str(max(1, self.limit))), paths, stop)

    def read(self, results: tuple[CommandResult, ...]) -> Parsed:
        rows: list[tuple[str, int, str]] = []
        problems: list[str] = []
        for result in results:
            names = asked_files(result, 2)
            problems += _stopped(result)
            pending: list[tuple[str, int, str]] = []
            last: Part | None = None
            for part in parts(result.stdout):
                name = _name(names, part)
                if part.kind == "problem":
                    problems.append(problem_sentence(part, name))
                elif part.kind == "lines":
                    pending, last = list(_numbered(name, part.data)), part
                elif part.kind == "status":
                    if part.number("status") > 1 and last is not None:
                        problems.append(_failure(last, name))
                        pending = []
                    rows += pending
                    pending = []
            rows += pending  # cut off before its status
        frame = pd.DataFrame(rows, columns=["file", "line", "text"]).astype({"file": "str", "line": "Int64", "text": "str"})
        summary = f"{len(rows):,} lines match {self.pattern}" + (" (limit)" if len(rows) >= self.limit else "")
        facts = tuple(_trap_facts(self.pattern))
        return Parsed(summary, facts, {"grep_lines": frame}, problems=tuple(problems))


def _name(names: Sequence[str], part: Part) -> str:
    index = part.number("file")
    return names[index] if 0 <= index < len(names) else f"file {index + 1}"


def _numbered(name: str, data: bytes) -> list[tuple[str, int, str]]:
    rows = []
    for line in data.decode("utf-8", "replace").split("\n"):
        number, colon, text = line.partition(":")
        if colon and number.isascii() and number.isdigit() and len(number) < 18:
            rows.append((name, int(number), text))
    return rows
