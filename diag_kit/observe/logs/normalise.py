"""From raw bytes to logical lines, before any format is looked for: one function per stage, in a fixed order.

decode -> physical lines -> container records -> colours and cursor moves off -> decimal commas -> JSON objects of several
lines -> CSV rows -> host names -> launcher prefixes (nested, embedded) -> carriage-return segments and backspaces -> rich
continuation lines joined -> glued bars and records cut apart -> logger prefix with its time stamp. Colours go before launcher
prefixes because Ray colours its own, and after containers because Docker's records spell the escape character in JSON.

Every stage keeps the numbers of the physical lines that a logical line came from, and none looks further than its
neighbours, so that a line repeated, cut or interleaved changes only its own rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from diag_kit.observe.logs.bars import find_bars
from diag_kit.observe.logs.containers import unwrap_containers
from diag_kit.observe.logs.csv_rows import csv_rows
from diag_kit.observe.logs.decimals import has_decimal_commas, point_decimals
from diag_kit.observe.logs.host_names import host_names, strip_hosts
from diag_kit.observe.logs.json_objects import join_objects
from diag_kit.observe.logs.line import Line
from diag_kit.observe.logs.prefixes import EMBEDDED, LABEL, LAUNCHER, LEVELS, strip_launcher, strip_prefix

BLOCK_BYTES = 4 * 2**20
MAX_TEXT = 64 * 2**10
"""A logical line is cut here: no training record is longer, and a hostile one must not cost more."""

_CURSOR = re.compile(r"\x1b\[(?:\d{0,4}[ABCDEFGHJ]|2K)")
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]{0,64}[ -/]{0,4}[@-~]|\][^\x07\x1b]{0,256}(?:\x07|\x1b\\)|[()][0-9A-Za-z]|[ -~])?")
_BACKSPACES = re.compile("\x08+")
_RICH_HEAD = re.compile(rf"(?:\[[^\[\]\n]{{5,40}}\]|\s{{8,40}})\s(?:{LEVELS}) {{1,10}}")
_RICH_SOURCE = re.compile(r"\s{1,}[\w.<>-]{1,60}\.\w{1,4}:\d{1,6}\s*\Z")
_MIN_INDENT = 11
_MAX_JOINED = 400
_GLUED = re.compile(
    r"\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d"
    rf"|(?:{LEVELS}):[A-Za-z_][\w.]{{0,60}}:"
    r"|\[\d\d:\d\d:\d\d(?: [AP]M)?\] "
    r"|\[(?:rank|RANK|Rank|default)[ :=]?\d{1,6}\]"
)


def nothing_is_whole(text: str) -> bool:
    """No message is known in advance."""
    return False


def decode(block: bytes) -> str:
    """UTF-8 with replacement; NUL bytes (holes of a file truncated under its writer) are dropped."""
    text = block.decode("utf-8", "replace")
    return text.replace("\0", "") if "\0" in text else text


def blocks(data: bytes, size: int = BLOCK_BYTES) -> Iterator[bytes]:
    """Cut at line ends into blocks of about that many bytes, so that memory does not grow with the file."""
    start = 0
    while start < len(data):
        end = data.rfind(b"\n", start, start + size) + 1
        if end <= start:
            end = data.find(b"\n", start + size) + 1 or len(data)
        yield data[start:end]
        start = end


def physical_lines(data: bytes, first: int = 1) -> Iterator[Line]:
    """Split at LF (a CR before it belongs to the line end), numbered from ``first``."""
    number = first
    for block in blocks(data):
        text = decode(block)
        for part in text.removesuffix("\n").split("\n"):
            yield Line(part[:-1] if part.endswith("\r") else part, number, number)
            number += 1


def strip_escapes(lines: Iterable[Line]) -> Iterator[Line]:
    """Colours go, moves of the cursor become carriage returns (a multi-bar display draws over itself)."""
    for line in lines:
        if "\x1b" in line.text:
            line.text = _ESCAPE.sub("", _CURSOR.sub("\r", line.text))
        yield line


def strip_launchers(lines: Iterable[Line], labelled: bool = False) -> Iterator[Line]:
    """torchrun, MPI, Ray, kubectl tags; with ``labelled`` also ``srun --label``'s bare numbers."""
    for line in lines:
        if labelled and (match := LABEL.match(line.text)):
            line.tag(int(match[1]), "task")
            line.text = line.text[match.end() :]
        if line.text[:1] in "[( " and LAUNCHER.match(line.text):
            strip_launcher(line)
        yield line


def split_returns(lines: Iterable[Line]) -> Iterator[Line]:
    """Each segment between carriage returns is a state of its own; so is what a run of backspaces draws over."""
    for line in lines:
        text = line.text
        if "\x08" in text:
            text = _BACKSPACES.sub(lambda run: "\r" if len(run[0]) > 3 else run[0], text)
            text = _rub_out(text) if "\x08" in text else text
            line.text = text
        if "\r" not in text:
            yield line
            continue
        for segment in text.split("\r"):
            if segment and not segment.isspace():
                yield line.piece(segment)


def _rub_out(text: str) -> str:
    kept: list[str] = []
    for character in text:
        if character == "\x08":
            if kept:
                kept.pop()
        else:
            kept.append(character)
    return "".join(kept)


def join_rich(lines: Iterable[Line]) -> Iterator[Line]:
    """Put records back together that a rich console wrapped, and take its right-hand file column out of the middle.

    A continuation is indented to the message column (at least 11 spaces), has no level word, and follows a rich head of
    the same rank. Where rich left the time blank, the time of the record before it holds.
    """
    heads: dict[int | None, tuple[Line, int]] = {}
    stamps: dict[int | None, str] = {}
    for line in lines:
        text = line.text
        if text[:1] not in " [":
            if line.rank in heads:
                yield heads.pop(line.rank)[0]
            yield line
            continue
        head = _RICH_HEAD.match(text)
        if head:
            if line.rank in heads:
                yield heads.pop(line.rank)[0]
            heads[line.rank] = (_rich_head(line, head, stamps), head.end())
            continue
        begun = heads.get(line.rank)
        if begun:
            indent = len(text) - len(text.lstrip(" "))
            if indent >= _MIN_INDENT and abs(indent - begun[1]) <= 1 and len(begun[0].text) < _MAX_JOINED * 80:
                begun[0].text += " " + text.strip()
                begun[0].last = line.last
                continue
            yield heads.pop(line.rank)[0]
        yield line
    for begun_line, _ in heads.values():
        yield begun_line


def _rich_head(line: Line, head: re.Match[str], stamps: dict[int | None, str]) -> Line:
    source = _RICH_SOURCE.search(line.text, head.end())
    text = line.text[: source.start()] if source else line.text.rstrip()
    if text.startswith("["):
        stamps[line.rank] = text[: text.index("]") + 1]
    elif line.rank in stamps:
        text = stamps[line.rank] + text
    line.text, line.rich = text, bool(source)
    return line


def cut_records(lines: Iterable[Line], is_whole: Callable[[str], bool] = nothing_is_whole) -> Iterator[Line]:
    """Take the logger prefix off, and cut the rest where another record or a progress bar is glued on.

    Yields messages without prefix; a bar is a line of its own. ``is_whole`` says of a message that it is one record and need
    not be looked through.
    """
    for line in lines:
        whole = _fresh(line, line.text)
        message = line.text[strip_prefix(whole, 0) :]
        if is_whole(message):
            _inherit_stamp(whole, line)
            whole.text = message
            yield whole
        else:
            yield from _cut(line)


def _cut(line: Line) -> Iterator[Line]:
    if len(line.text) > MAX_TEXT:
        line.text = line.text[:MAX_TEXT]
    start = 0
    for _ in range(MAX_TEXT):
        rest = _fresh(line, line.text)
        if start and (tag := EMBEDDED.match(line.text, start)):
            rest.rank, rest.rank_kind = int(tag["local"]), line.rank_kind
        begin = strip_prefix(rest, start)
        _inherit_stamp(rest, line)
        glued = _GLUED.search(line.text, begin + 1)
        end = glued.start() if glued else len(line.text)
        if end > begin:
            rest.text = line.text[begin:end]
            yield from _cut_bars(rest)
        if not glued:
            return
        start = end
        line.rich = False
        line.stamp_us, line.stamp_kind = rest.stamp_us, rest.stamp_kind


def _cut_bars(line: Line) -> Iterator[Line]:
    bars = find_bars(line.text)
    if not bars:
        yield line
        return
    text, position = line.text, 0
    for bar in bars:
        yield from _part(line, text[position : bar.start])
        yield line.piece(text[bar.start : bar.end])
        position = bar.end
    yield from _part(line, text[position:])


def _part(line: Line, text: str) -> Iterator[Line]:
    if text and not text.isspace():
        part = _fresh(line, text)
        begin = strip_prefix(part)
        _inherit_stamp(part, line)
        part.text = text[begin:]
        if part.text:
            yield part


def _fresh(line: Line, text: str) -> Line:
    """A part that may bring its own stamp; a container's stamp always stays."""
    part = line.piece(text)
    if part.stamp_kind != "container":
        part.stamp_us, part.stamp_kind = None, ""
    return part


def _inherit_stamp(part: Line, line: Line) -> None:
    if part.stamp_us is None:
        part.stamp_us, part.stamp_kind = line.stamp_us, line.stamp_kind


def is_labelled(data: bytes) -> bool:
    """Whether ``srun --label`` wrote this: at least four of five of the first 200 lines carry a task number."""
    head = [decode(part) for part in data[: 64 * 2**10].split(b"\n")[:200] if part.strip()]
    return len(head) >= 2 and sum(bool(LABEL.match(part)) for part in head) >= 0.8 * len(head)


def logical_lines(data: bytes, first: int = 1, is_whole: Callable[[str], bool] = nothing_is_whole) -> Iterator[Line]:
    """All stages. ``first`` is the number of the first physical line; ``is_whole`` as in ``cut_records``."""
    lines = strip_escapes(unwrap_containers(physical_lines(data, first)))
    if has_decimal_commas(data):
        lines = point_decimals(lines)
    lines = csv_rows(join_objects(lines))
    hosts = host_names(data)
    launched = strip_launchers(strip_hosts(lines, hosts) if hosts else lines, is_labelled(data))
    return cut_records(join_rich(split_returns(launched)), is_whole)
