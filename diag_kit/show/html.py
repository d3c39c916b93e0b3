"""Small pieces of HTML that survive everywhere: live, in a notebook opened but not run, in an exported page.

A notebook that has not been run drops ``<style>``, scripts, inline SVG and CSS variables, so these pieces carry plain inline
styles in mid-tones that read on light and on dark, and fold with ``<details>``. ``fill`` is the only way text gets in: whatever
is not already ``Markup`` is made visible (no control or bidirectional characters) and escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from diag_kit.records import Reason, Status, Value
from diag_kit.show.format import number, size, utc, visible
from diag_kit.show.summary import MEANING, SHAPE

if TYPE_CHECKING:
    import pandas as pd

    from diag_kit.show.work import Trouble

RAW_LINES = 12
RAW_LINE_CHARS = 240
RAW_BYTES = 64 * 1024
TABLE_ROWS = 5
CELL_CHARS = 120

GREY = "#808080"
BLUE = "#3b82b8"
RUST = "#c8642a"
GREEN = "#2f8f6b"
OCHRE = "#9a7b1c"
TONE = {
    Status.CONFIRMED: RUST,
    Status.SUPPORTED: RUST,
    Status.UNDECIDED: OCHRE,
    Status.REFUTED: GREEN,
    Status.NOT_TESTABLE: GREY,
}
_MONO = "font-family:monospace;font-size:12px;white-space:pre-wrap;overflow-wrap:anywhere"
_PRE = f"{_MONO};margin:2px 0 6px 0;padding:4px 6px;border:1px solid {GREY};max-height:260px;overflow:auto;line-height:1.35"


def fill(template: str, **values: object) -> Markup:
    """The template with every value made visible and escaped; values that are ``Markup`` already go in as they are."""
    safe = {name: each if isinstance(each, Markup) else escape(visible(each)) for name, each in values.items()}
    return Markup(template).format(**safe)


def join(parts: Iterable[Markup], between: str = "") -> Markup:
    return Markup(between).join(parts)


EMPTY = Markup("")


def card(head: Markup, body: Markup, anchor: str = "", tone: str = GREY, dashed: bool = False) -> Markup:
    """A card that opens in place, by mouse or keyboard, with or without a kernel."""
    return fill(
        '<details class="dk-card" id="{anchor}" style="margin:0 0 4px 0;border-left:4px {line} {tone};padding:0">'
        '<summary style="cursor:pointer;padding:3px 6px;overflow-wrap:anywhere">{head}</summary>'
        '<div style="padding:2px 6px 8px 10px;font-size:12.5px">{body}</div></details>',
        anchor=anchor,
        line="dashed" if dashed else "solid",
        tone=tone,
        head=head,
        body=body,
    )


def badge(status: Status) -> Markup:
    """The status as shape and word, its meaning as tooltip."""
    return fill(
        '<span title="{meaning}" style="white-space:nowrap;border:1px {line} {tone};border-radius:3px;padding:0 4px">'
        "{shape} {word}</span>",
        meaning=MEANING[status],
        line="dashed" if status is Status.NOT_TESTABLE else "solid",
        tone=TONE[status],
        shape=SHAPE[status],
        word=status.value,
    )


def row(name: str, what: object) -> Markup:
    """One labelled line of a card's body; nothing for an empty value."""
    if what is None or what == "":
        return EMPTY
    return fill('<div style="margin:1px 0"><b>{name}</b> {what}</div>', name=name, what=what)


def section(name: str, what: Markup) -> Markup:
    """A labelled block; nothing for an empty one."""
    return fill('<div style="margin:5px 0 1px 0"><b>{name}</b></div>{what}', name=name, what=what) if what else EMPTY


def link(id: str, prefix: str = "") -> Markup:
    """A card's id, as a link to the card where anchors work and as plain text elsewhere."""
    return fill('<a href="#{anchor}" class="dk-link">{id}</a>', anchor=f"{prefix}{id}", id=id)


def links(ids: Sequence[str], prefix: str = "") -> Markup:
    return join((link(id, prefix) for id in ids), ", ")


def reasons(given: Sequence[Reason], prefix: str = "") -> Markup:
    """A list of sentences, each with the cards behind it."""
    items = [
        fill("<li>{text}{ids}</li>", text=each.text, ids=fill(" ({links})", links=links(each.ids, prefix)) if each.ids else EMPTY)
        for each in given
    ]
    return fill('<ul style="margin:1px 0 4px 0;padding-left:18px">{items}</ul>', items=join(items)) if items else EMPTY


def pairs(given: Mapping[str, Value | str]) -> Markup:
    """Names and values, one a line."""
    return rows_table(("", ""), [(name, number(value)) for name, value in given.items()]) if given else EMPTY


def rows_table(head: Sequence[str], rows: Sequence[Sequence[object]], mono: bool = False) -> Markup:
    """A small table with its own scroll bar, so that a wide one never widens the page."""
    cell = f"padding:1px 8px 1px 0;text-align:left;vertical-align:top;border-bottom:1px solid {GREY}"
    cell += ";white-space:nowrap" if mono else ""
    heads = join(fill('<th style="{style}">{name}</th>', style=cell, name=name) for name in head) if any(head) else EMPTY
    body = join(
        fill(
            "<tr>{cells}</tr>", cells=join(fill('<td style="{style}">{what}</td>', style=cell, what=_cell(each)) for each in one)
        )
        for one in rows
    )
    return fill(
        '<div style="overflow-x:auto;max-width:100%"><table style="border-collapse:collapse;margin:1px 0 4px 0;{font}">'
        "{heads}{body}</table></div>",
        font="font-family:monospace;font-size:12px" if mono else "font-size:12px",
        heads=fill("<tr>{heads}</tr>", heads=heads) if heads else EMPTY,
        body=body,
    )


def _cell(value: object) -> object:
    return value if isinstance(value, Markup) else visible(value, CELL_CHARS)


def frame(table: pd.DataFrame) -> Markup:
    """The first rows of a table and its true size."""
    shown = table.head(TABLE_ROWS)
    columns = [str(name) for name in shown.columns]
    rows = [[_plain(value) for value in record] for record in shown.itertuples(index=False, name=None)]
    more = (
        f"first {len(rows)} of {len(table)} rows"
        if len(table) > len(rows)
        else f"{len(table)} row{'s' if len(table) != 1 else ''}"
    )
    return fill("{table}<div>{more}</div>", table=rows_table(columns, rows, mono=True), more=more)


def _plain(value: Any) -> str:
    import pandas as pd

    if value is None or value is pd.NaT or (not isinstance(value, list | tuple | dict) and pd.isna(value)):
        return "–"
    if isinstance(value, datetime):
        return utc(value) if value.tzinfo else str(value)
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


def raw_output(data: bytes, truncated: bool = False) -> Markup:
    """The first lines of raw bytes, with the true number of lines and bytes. Bounded whatever comes."""
    if not data:
        return fill("<div>{what}</div>", what="no output")
    total = data.count(b"\n") + (not data.endswith(b"\n"))
    head = data[:RAW_BYTES].split(b"\n")[:RAW_LINES]
    if len(head) > total:
        head = head[:total]
    lines = [visible(line.decode("utf-8", "replace").rstrip("\r"), RAW_LINE_CHARS) for line in head]
    said = f"first {len(lines)} of {total} lines" if total > len(lines) else f"{total} line{'s' if total != 1 else ''}"
    cut = ", cut at the probe's limit: more came" if truncated else ""
    return fill(
        '<pre style="{style}" tabindex="0">{text}</pre><div>{said}, {size}{cut}</div>',
        style=_PRE,
        text=Markup("\n").join(escape(line) for line in lines),
        said=said,
        size=size(len(data)),
        cut=cut,
    )


def code(text: str, limit: int = 4000) -> Markup:
    """A command as it was sent, wrapped, bounded."""
    return fill(
        '<pre style="{style}" tabindex="0">{text}</pre>', style=_PRE, text=Markup(escape(visible(text, limit, keep_lines=True)))
    )


def fold(name: str, what: Markup) -> Markup:
    """A part of a card that few need to open."""
    return fill(
        '<details style="margin:2px 0"><summary style="cursor:pointer">{name}</summary>{what}</details>', name=name, what=what
    )


def trouble(said: Trouble) -> Markup:
    """An error as the panel shows it: what, where, what to do next."""
    return fill(
        '<div role="alert" style="border:1px solid {tone};padding:4px 8px"><b>⚠ {what}</b>{where}{next}</div>',
        tone=RUST,
        what=visible(said.what, 600),
        where=row("where:", visible(said.where, 400) if said.where else ""),
        next=row("next:", visible(said.next_step, 600) if said.next_step else ""),
    )
