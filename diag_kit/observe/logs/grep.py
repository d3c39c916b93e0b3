"""Lines of a log that match a pattern: how many, and which."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from diag_kit.evidence import Evidence
from diag_kit.hosts.protocol import Host
from diag_kit.observe.logs.line import Line
from diag_kit.observe.logs.pieces import CHECK, asked_files, log_paths, parts, problem_sentence
from diag_kit.observe.logs.startup import StartUp
from diag_kit.observe.probe import probe
from diag_kit.observe.raw import frame
from diag_kit.records import CommandResult, Cost, Fact, Parsed

COUNT_SCRIPT = (
    CHECK
    + r"""
pattern=$1; shift
n=0
for f in "$@"; do
  i=$n; n=$((n + 1))
  check "$f" "$i" || continue
  found=$(grep -c -E -e "$pattern" < "$f" 2>&1); status=$?
  printf '==diag_kit:part file=%s status=%s==\n%s\n' "$i" "$status" "$found"
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
  printf '==diag_kit:part file=%s kind=lines==\n' "$i"
  grep -n -m "$limit" -E -e "$pattern" < "$f" 2>&1 | cut -b1-4000
done
"""
)


@probe
@dataclass(frozen=True)
class GrepCount:
    """Lines that match an extended regular expression.

    Equivalent: ``grep -c -E -e PATTERN LOG``. Fact: matching_lines. Lines are not steps: several ranks may print, a record may
    be wrapped over lines, and a pattern may match more than it seems to.
    """

    pattern: str
    path: str | None = None

    name: ClassVar[str] = "grep_count"
    cost: ClassVar[Cost] = Cost.READ_ONLY
    equivalent: ClassVar[str] = "grep -c -E -e PATTERN LOG"

    @property
    def budget_s(self) -> float:
        return 60.0

    def collect(self, host: Host, known: Evidence, stop: threading.Event | None = None) -> tuple[CommandResult, ...]:
        paths = log_paths(self.path, known)
        return (host.run(COUNT_SCRIPT, self.pattern, *paths, timeout_s=self.budget_s, stop=stop),)

    def read(self, results: tuple[CommandResult, ...]) -> Parsed:
        total, problems, seen = 0, [], False
        for name, part in _marked(results, 1, problems):
            text = part.data.decode("utf-8", "replace").strip()
            if part.number("status") in (0, 1) and text.isdecimal() and len(text) < 19:
                total, seen = total + int(text), True
            else:
                problems.append(f"grep could not search {name}: {text[:200] or 'no answer'}; check the pattern")
        problems += _unanswered(results, seen, problems)
        facts = (Fact("matching_lines", total, f"grep -c -E {self.pattern!r}", "lines"),) if seen else ()
        trap = trap_of(self.pattern)
        said = f"{total} lines match {self.pattern!r}" if seen else "not counted"
        return Parsed(said + (f"; mind: {trap}" if trap else ""), facts, problems=tuple(problems))


@probe
@dataclass(frozen=True)
class GrepLines:
    """The first ``limit`` lines that match an extended regular expression, with their numbers, and the facts they state.

    Equivalent: ``grep -n -m LIMIT -E -e PATTERN LOG``. Table: ``lines`` (file line text).
    """

    pattern: str
    path: str | None = None
    limit: int = 50

    name: ClassVar[str] = "grep_lines"
    cost: ClassVar[Cost] = Cost.READ_ONLY
    equivalent: ClassVar[str] = "grep -n -m LIMIT -E -e PATTERN LOG"

    @property
    def budget_s(self) -> float:
        return 60.0

    def collect(self, host: Host, known: Evidence, stop: threading.Event | None = None) -> tuple[CommandResult, ...]:
        paths = log_paths(self.path, known)
        return (host.run(LINES_SCRIPT, self.pattern, str(self.limit), *paths, timeout_s=self.budget_s, stop=stop),)

    def read(self, results: tuple[CommandResult, ...]) -> Parsed:
        problems: list[str] = []
        rows: list[dict[str, object]] = []
        facts = StartUp()
        answered = False
        for name, part in _marked(results, 2, problems):
            answered = True
            for text in part.data.decode("utf-8", "replace").splitlines():
                number, colon, rest = text.partition(":")
                if text.startswith("grep: "):
                    problems.append(f"grep could not search {name}: {text[:200]}; check the pattern")
                elif colon and number.isdecimal() and len(number) < 15:
                    rows.append({"file": name, "line": int(number), "text": rest})
                    facts.take(Line(rest, int(number), int(number)), name, before_metrics=True)
        problems += _unanswered(results, answered, problems)
        trap = trap_of(self.pattern)
        said = "no line matches" if not rows else f"{len(rows)} lines" + (f" (the first {self.limit})" if len(rows) >= self.limit else "")
        table = frame(rows, {"file": "str", "line": "Int64", "text": "str"})
        return Parsed(said + (f"; mind: {trap}" if trap else ""), tuple(facts.facts()), {"lines": table}, problems=tuple(problems))


def _marked(results: tuple[CommandResult, ...], skip: int, problems: list[str]):  # type: ignore[no-untyped-def]
    """(file name, part) of every answered file; sentences on the others go to ``problems``."""
    for result in results:
        names: Sequence[str] = asked_files(result, skip)
        for part in parts(result.stdout):
            index = part.number("file")
            name = names[index] if 0 <= index < len(names) else f"file {index + 1}"
            if part.kind == "problem":
                problems.append(problem_sentence(part, name))
            elif part.kind == "part":
                yield name, part


def _unanswered(results: tuple[CommandResult, ...], answered: bool, problems: list[str]) -> list[str]:
    if answered or problems:
        return []
    said = next((result.error_text for result in results if result.error_text), "no output")
    return [f"the log could not be searched: {said[:200]}; give another file with --log PATH"]


def trap_of(pattern: str) -> str:
    """What a pattern matches or misses against its author's intent; empty when nothing is known."""
    if re.search(r"(?i)epoch\W*\.?\*?\W*0(?!\d)", pattern) and not re.search(r"\\b|\[\^0-9\]|0,|0'|0\"", pattern):
        return "it also matches epochs 10, 20, ..., and misses records that a console wraps over several lines"
    return ""
