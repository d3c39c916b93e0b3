"""A run's configuration as people paste it: YAML, INI, JSON, or the arguments of its command. What was set, not what was run."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from diag_kit.errors import NothingToObserve
from diag_kit.evidence import Evidence
from diag_kit.hosts.protocol import Host
from diag_kit.observe.probe import probe
from diag_kit.observe.raw import frame, why_cut_short
from diag_kit.records import CommandResult, Cost, NotUnderstood, Parsed

COLUMNS = {"line": "Int64", "section": "str", "key": "str", "value": "str", "number": "float64"}
MAX_ROWS = 5000
MAX_LINE = 4000
MAX_DEPTH = 40
_MAX_NOT_UNDERSTOOD = 50
_PAIR = re.compile(
    r"^(?P<indent>[ \t]*)(?P<item>- )?(?P<key>[\w./-][\w./ -]{0,118}|`[^`:]{1,80}`[\w ]{0,40}) ?[:=](?:[ \t]+(?P<value>\S.*)?)?$"
)
_ASSIGNED = re.compile(r"^(?P<indent>[ \t]*)(?P<item>- )?(?P<key>[A-Za-z_][\w.-]{0,118})=(?P<value>.*)$")
_HEAD = re.compile(r"^\[{1,2}([^\[\]]{1,120})\]{1,2}$")
_COMMENT = re.compile(r"(?:^|\s)#.*$")
_NUMBER = re.compile(r"[+-]?(?:\d[\d_]{0,30}(?:\.\d{0,20})?|\.\d{1,20})(?:[eE][+-]?\d{1,3})?")


@probe
@dataclass(frozen=True)
class Settings:
    """The settings of a run that stand in a pasted file; the kit looks for none on a host, since which was used is not known.

    Equivalent, for you to run: ``cat config.yaml``.

    Table ``settings``: line (none in JSON), section (the keys above, joined by a dot), key, value (as written, without quotes and
    comment), number (where the value is one; YAML 1.2 core schema, with ``_`` between digits as Python and YAML 1.1 have it). No
    facts: a setting says what was asked for, and another of the command line may stand above it.
    """

    name: ClassVar[str] = "settings"
    cost: ClassVar[Cost] = Cost.READ_ONLY
    equivalent: ClassVar[str] = "cat config.yaml (for you to run)"
    reads: ClassVar[tuple[str, ...]] = ("config",)

    @property
    def budget_s(self) -> float:
        return 0.0

    def collect(self, host: Host, known: Evidence, stop: threading.Event | None = None) -> tuple[CommandResult, ...]:
        raise NothingToObserve("which file configured the run is not known", next_step="paste it")

    def read(self, results: tuple[CommandResult, ...]) -> Parsed:
        rows: list[dict[str, Any]] = []
        odd: list[NotUnderstood] = []
        problems: list[str] = []
        for result in results:
            rows += _of_text(result.text, result.command[:80], odd)
            problems.extend(filter(None, [why_cut_short(result)]))
        named = ", ".join(str(row["key"]) for row in rows[:4])
        summary = f"{len(rows)} settings" + (f": {named}{', ...' if len(rows) > 4 else ''}" if rows else "")
        tables = {"settings": frame(rows[:MAX_ROWS], COLUMNS)} if rows else {}
        return Parsed(summary, tables=tables, not_understood=tuple(odd), problems=tuple(problems))


def _of_text(text: str, where: str, odd: list[NotUnderstood]) -> list[dict[str, Any]]:
    if text.lstrip().startswith(("{", "[")):
        try:
            return list(_of_json(json.loads(text), ()))[:MAX_ROWS]
        except (ValueError, RecursionError):
            pass  # an INI file begins with [section]
    if text.lstrip().startswith("--"):
        return list(_of_arguments(text))[:MAX_ROWS]
    return _of_lines(text, where, odd)


def _of_json(value: Any, above: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict) and len(above) < MAX_DEPTH:
        for key, each in value.items():
            yield from _of_json(each, (*above, str(key)[:120]))
    elif above:
        said = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield _row(None, ".".join(above[:-1]), above[-1], said)


def _of_arguments(text: str) -> Iterator[dict[str, Any]]:
    """``--name value``, ``--name=value``; a flag without a value has none."""
    for count, line in enumerate(text.splitlines(), start=1):
        words = line[: 16 * MAX_LINE].replace("\\", " ").split()
        for at, word in enumerate(words):
            if not word.startswith("--") or len(word) < 3:
                continue
            key, equals, value = word[2:].partition("=")
            following: list[str] = []
            for other in words[at + 1 :]:
                if other.startswith("--") or len(following) >= 20:
                    break
                following.append(other)
            yield _row(count, "", key[:120], value if equals else " ".join(following))


def _of_lines(text: str, where: str, odd: list[NotUnderstood]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    above: list[tuple[int, str]] = []
    head = ""
    for count, raw in enumerate(text.splitlines(), start=1):
        line = _COMMENT.sub("", raw[:MAX_LINE].expandtabs(4)).rstrip()
        if not line.strip() or line.strip() in ("---", "..."):
            continue
        if named := _HEAD.match(line.strip()):
            head, above = named[1].strip(), []
            continue
        found = _PAIR.match(line) or _ASSIGNED.match(line)
        if found is None:
            if not line.lstrip().startswith("- ") and len(odd) < _MAX_NOT_UNDERSTOOD:
                odd.append(NotUnderstood(f"{where} line {count}", line[:200], "not a setting"))
            continue
        depth = len(found["indent"]) + (2 if found["item"] else 0)
        while above and above[-1][0] >= depth:
            above.pop()
        key, value = found["key"].strip().replace("`", ""), (found["value"] or "").strip()
        if value and len(rows) < MAX_ROWS:
            section = ".".join([*([head] if head else []), *(name for _, name in above)])
            rows.append(_row(count, section, key, value))
        elif not value and len(above) < MAX_DEPTH:
            above.append((depth, key))
    return rows


def _row(line: int | None, section: str, key: str, value: str) -> dict[str, Any]:
    plain = value.strip().rstrip(",")
    if len(plain) > 1 and plain[0] == plain[-1] and plain[0] in "\"'":
        plain = plain[1:-1]
    number = float(plain.replace("_", "")) if _NUMBER.fullmatch(plain) else None
    known = number is not None and abs(number) != float("inf")
    return {"line": line, "section": section[:300], "key": key, "value": plain[:500], "number": number if known else None}
