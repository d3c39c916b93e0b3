"""The one document that every export of a postmortem is drawn from: sections, tables and lines of marked text.

No markup and no escaping here: a renderer (``markdown``, ``html``) makes its own syntax of these and escapes every text. A
text may hold anything that a host printed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar, TypeAlias


class Style(StrEnum):
    """How a span is set."""

    PLAIN = "plain"
    STRONG = "strong"
    CODE = "code"
    MARK = "mark"  # a warning about the claim beside it
    CITE = "cite"  # the id of a card; ``Span.target`` names it


@dataclass(frozen=True, slots=True)
class Span:
    """A run of text in one style. ``struck``: superseded, kept readable. ``target``: the id a citation leads to."""

    text: str
    style: Style = Style.PLAIN
    struck: bool = False
    target: str = ""


Line: TypeAlias = tuple[Span, ...]


def plain(text: str) -> Span:
    return Span(text)


def strong(text: str) -> Span:
    return Span(text, Style.STRONG)


def code(text: str) -> Span:
    return Span(text, Style.CODE)


def mark(text: str) -> Span:
    return Span(text, Style.MARK)


def line(*parts: str | Span | Line) -> Line:
    """A line from strings, spans and lines; empty strings are left out."""
    spans: list[Span] = []
    for part in parts:
        if isinstance(part, str):
            spans.extend([Span(part)] if part else [])
        elif isinstance(part, Span):
            spans.append(part)
        else:
            spans.extend(part)
    return tuple(spans)


def joined(lines: Iterable[Line], separator: str) -> Line:
    """Lines one after the other in one line."""
    spans: list[Span] = []
    for number, each in enumerate(lines):
        if number:
            spans.append(Span(separator))
        spans.extend(each)
    return tuple(spans)


def struck(spans: Line) -> Line:
    """The same line, struck through."""
    return tuple(replace(span, struck=True) for span in spans)


def text_of(spans: Line) -> str:
    """The words of a line without any marking."""
    return "".join(span.text for span in spans)


@dataclass(frozen=True, slots=True)
class Paragraph:
    kind: ClassVar[str] = "paragraph"
    text: Line


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that the reader must not miss (a reconstruction, a claim without evidence)."""

    kind: ClassVar[str] = "notice"
    text: Line


@dataclass(frozen=True, slots=True)
class Bullets:
    kind: ClassVar[str] = "bullets"
    items: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """``anchors``: one per row (an id that citations lead to), or none. ``numeric``: columns set to the right.

    ``widths``: percent of the page for each column, where a browser's own choice reads badly.
    """

    kind: ClassVar[str] = "table"
    header: tuple[str, ...]
    rows: tuple[tuple[Line, ...], ...]
    anchors: tuple[str, ...] = ()
    numeric: tuple[int, ...] = ()
    widths: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Verbatim:
    """Text exactly as a machine printed it or as it was sent, line ends included."""

    kind: ClassVar[str] = "verbatim"
    text: str
    language: str = "text"


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart as PNG, with the sentence on how to read it. Only the HTML export draws it."""

    kind: ClassVar[str] = "picture"
    title: str
    png: bytes
    how_to_read: str


@dataclass(frozen=True, slots=True)
class Fold:
    """Details under a title: closed at first in HTML, a small heading in Markdown."""

    kind: ClassVar[str] = "fold"
    title: Line
    blocks: tuple[Block, ...]
    anchor: str = ""


Block: TypeAlias = Paragraph | Notice | Bullets | Table | Verbatim | Picture | Fold


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    anchor: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """``first_page`` stands alone (a printed page breaks after it); ``sections`` follow."""

    title: str
    about: tuple[Line, ...]
    first_page: tuple[Section, ...]
    sections: tuple[Section, ...]
