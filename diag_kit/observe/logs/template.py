"""Reading the next line like the last: a line once understood becomes a pattern with its numbers as holes.

Everything but the numbers must be the same, so a template can only say what the full reading would have said; a line that
fits none is read in full. This is what makes 100 MB of one form quick.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from diag_kit.observe.logs.found import Found
from diag_kit.observe.logs.numbers import DURATION, PLAIN, THOUSANDS

_VALUE = rf"({PLAIN}|nan|-?inf)"
_WITH_THOUSANDS = rf"({THOUSANDS}|{PLAIN}|nan|-?inf)"
_DURATION = rf"({DURATION})"
MAX_TEMPLATES = 24
MAX_LEARNED = 200


@dataclass(frozen=True, slots=True)
class Template:
    pattern: re.Pattern[str]
    found: Found
    framework: str
    cell_of_group: tuple[tuple[int, ...], ...]
    """For each hole, the cells that it fills (a loss and its own column may be one number)."""


class Templates:
    """The templates of one log, the last used first. Bounded, and given up when lines never repeat."""

    def __init__(self) -> None:
        self._known: list[Template] = []
        self._learned = 0
        self._last: tuple[str, tuple[Template, tuple[str, ...]] | None] = ("", None)

    def fits(self, text: str) -> bool:
        """Whether a template fits the whole text."""
        return self.match(text) is not None

    def match(self, text: str) -> tuple[Template, tuple[str, ...]] | None:
        """The template that fits the whole text, and the cells' texts in the order of ``found.cells``."""
        if self._last[0] is not text:
            self._last = (text, self._match(text))
        return self._last[1]

    def _match(self, text: str) -> tuple[Template, tuple[str, ...]] | None:
        for index, template in enumerate(self._known):
            match = template.pattern.fullmatch(text)
            if match:
                if index:
                    self._known.insert(0, self._known.pop(index))
                groups = match.groups()
                if len(groups) == len(template.found.cells):
                    return template, groups
                cells = [""] * len(template.found.cells)
                for text_of, places in zip(groups, template.cell_of_group, strict=True):
                    for place in places:
                        cells[place] = text_of
                return template, tuple(cells)
        return None

    def learn(self, text: str, found: Found, framework: str) -> None:
        """Remember a text in which exactly this record was found."""
        if self._learned >= MAX_LEARNED or len(text) > 4000 or len(found.cells) > 90:
            return
        template = _template(text, found, framework)
        if template is not None:
            self._learned += 1
            self._known.insert(0, template)
            del self._known[MAX_TEMPLATES:]


def _template(text: str, found: Found, framework: str) -> Template | None:
    holes: dict[tuple[int, int], list[int]] = {}
    for index, cell in enumerate(found.cells):
        if text[cell.start : cell.end] != cell.text:
            return None
        holes.setdefault((cell.start, cell.end), []).append(index)
    parts: list[str] = []
    position = 0
    groups: list[tuple[int, ...]] = []
    for (start, end), cells in sorted(holes.items()):
        if start < position:
            return None
        cell = found.cells[cells[0]]
        parts.append(re.escape(text[position:start]))
        parts.append(_DURATION if cell.duration else _WITH_THOUSANDS if "," in cell.text else _VALUE)
        groups.append(tuple(cells))
        position = end
    parts.append(re.escape(text[position:]))
    try:
        pattern = re.compile("".join(parts))
    except (re.error, OverflowError):
        return None
    match = pattern.fullmatch(text)
    if match is None or any(match[i] != found.cells[cells[0]].text for i, cells in enumerate(groups, 1)):
        return None
    if len(groups) == len(found.cells):  # one hole per cell: keep the cells in the order of the holes
        found = replace(found, cells=tuple(found.cells[cells[0]] for cells in groups))
        groups = [(index,) for index in range(len(groups))]
    return Template(pattern, found, framework, tuple(groups))
