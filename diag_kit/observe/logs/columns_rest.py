"""The lines that fitted no shape, made fewer before the full parser reads them: what says nothing is read once per form.

Two lines are of one form when they differ in digits only. A form without a record or a progress bar has none in any of its
lines; a record that stands behind a bar on one physical line is the bar and the record. Both are tried with the full parser
on the first line of each form, and only what is the same there is taken.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from diag_kit.observe.logs.bars import Bar, find_bars
from diag_kit.observe.logs.line_shape import Shape, pattern_of
from diag_kit.observe.logs.normalise import _RICH_HEAD, decode
from diag_kit.observe.logs.pieces import Piece
from diag_kit.observe.logs.reading import Reading, understand

MAX_FORMS = 4000
_ZEROS = bytes(48 if 48 <= byte < 58 else byte for byte in range(256))
_HANGS_TOGETHER = re.compile(rb"[{2]")  # container records may go on in the next line


@dataclass(slots=True)
class Rest:
    """What is left for the full parser: places among the lines, and texts. ``rows``: per shape, places and numbers of records
    that stood behind a bar. ``bars``: places and bars of what stood in front of those."""

    places: list[int] = field(default_factory=list)
    texts: list[bytes] = field(default_factory=list)
    rows: dict[int, tuple[list[int], list[bytes]]] = field(default_factory=dict)
    bars: list[tuple[int, Bar]] = field(default_factory=list)
    dropped: int = 0


def thinned(lines: Sequence[bytes], shapes: Sequence[Shape], columns: Sequence[str]) -> Rest:
    """See the module. Where no shape was learned, and for lines of a rich console, lines may hang together: all are kept."""
    if not shapes or any(line[:1] in b"[ " and _RICH_HEAD.match(line[:120].decode("utf-8", "replace")) for line in lines if line):
        return Rest(list(range(len(lines))), list(lines))
    glued = [_Glued(shape, columns) for shape in shapes]
    silent: dict[bytes, bool] = {}
    rest = Rest()
    for place, line in enumerate(lines):
        for number, each in enumerate(glued):
            row = each.split(line)
            if row is not None:
                head, text = row
                places, texts = rest.rows.setdefault(number, ([], []))
                places.append(place)
                texts.append(text)
                rest.bars += [(place, bar) for bar in _bars_of(head)]
                break
        else:
            if not _HANGS_TOGETHER.match(line):
                form = line.translate(_ZEROS)
                known = silent.get(form)
                if known is None and len(silent) < MAX_FORMS:
                    known = silent[form] = _says_nothing(_alone(line))
                if known:
                    rest.dropped += 1
                    continue
            rest.places.append(place)
            rest.texts.append(line)
    return rest


def _alone(line: bytes) -> Reading:
    return understand([Piece("log", "host", line + b"\n", 1, 0)], facts=False)


def _says_nothing(reading: Reading) -> bool:
    return not (reading.rows.count or reading.bars or reading.missed_count)


class _Glued:
    """Cuts a record of one shape off a line that begins with something else."""

    def __init__(self, shape: Shape, columns: Sequence[str]) -> None:
        wanted = shape.wanted(columns)
        self._start = shape.literals[0].encode()
        self._pattern = re.compile(pattern_of(shape, wanted).encode())
        self._proved: dict[bytes, bool] = {}

    def split(self, line: bytes) -> tuple[bytes, bytes] | None:
        """What stands before, and the wanted numbers; None when that would not be the same."""
        at = line.rfind(self._start) if len(self._start) > 1 else 0
        if at <= 0:
            return None
        match = self._pattern.fullmatch(line, at)
        if match is None:
            return None
        head = line[:at]
        form = head.translate(_ZEROS)
        proved = self._proved.get(form)
        if proved is None and len(self._proved) < MAX_FORMS:
            parts = (_alone(line), _alone(head), _alone(line[at:]))
            proved = self._proved[form] = _is_sum(*parts) and _bars(parts[1]) == [_plain(bar) for bar in _bars_of(head)]
        return (head, b"\t".join(match.groups())) if proved else None


def _is_sum(both: Reading, head: Reading, record: Reading) -> bool:
    """Whether a line says what its two parts say."""
    if not head.rows.bars_only or record.bars or both.missed_count or head.missed_count:
        return False
    return bool(_rows(both) == _rows(record) and _bars(both) == _bars(head))


def _rows(reading: Reading) -> Any:
    """The records, without those that are a bar's counter: they do not count where there are others."""
    rows = reading.rows
    shapes = [(key, shape.texts, shape.sequence) for key, shape in rows._shapes.items() if not shape.from_bar]
    said = [(key, texts, [(rows.ranks[i], rows.stamps[i], rows.kinds[i]) for i in at]) for key, texts, at in shapes]
    return said, reading.rank_kinds, reading.forms


def _bars(reading: Reading) -> Any:
    return [(*_says(s.bar), s.line.rank, s.line.stamp_us, s.line.stamp_kind, s.line.rank_kind) for s in reading.bars]


def _plain(bar: Bar) -> Any:
    return *_says(bar), None, None, "", ""


def _says(bar: Bar) -> tuple[Any, ...]:
    return bar.description, bar.n, bar.total, bar.elapsed_s, bar.left_s, bar.rate_per_s, bar.postfix


def _bars_of(head: bytes) -> list[Bar]:
    """The bars of a text that holds nothing else: the last of each state that it was drawn in."""
    bars = []
    for segment in decode(head).split("\r"):
        bars += find_bars(segment)
    return bars
