"""The document as GitHub-flavoured Markdown: one block after the other, one table row a line, so that two diff well.

Every text is escaped: a log line can neither open a tag, a table cell, a link or a code block, nor mention a person.
"""

from __future__ import annotations

import re
from itertools import groupby

from diag_kit.postmortem.document import (
    Block,
    Bullets,
    Document,
    Fold,
    Line,
    Notice,
    Paragraph,
    Picture,
    Section,
    Span,
    Style,
    Table,
    Verbatim,
)
from diag_kit.postmortem.wording import one_line, verbatim

_SPECIAL = re.compile(r"[\\`*\[\]|~$]|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;"}
_BLOCK_START = re.compile(r"^(\s*)(#+|[-+=](?=\s|$|[-=])|\d+(?=[.)]))")


def render(document: Document) -> str:
    """The whole document, ending in one line end."""
    parts = [f"# {escape(document.title)}", *(_quote(each) for each in document.about)]
    parts += [_section(each) for each in document.first_page]
    parts += [_section(each) for each in document.sections]
    return "\n\n".join(parts) + "\n"


def _section(section: Section) -> str:
    return "\n\n".join([f"## {escape(section.title)}", *_blocks(section.blocks)])


def _blocks(blocks: tuple[Block, ...]) -> list[str]:
    return [_block(each) for each in blocks]


def _block(block: Block) -> str:
    match block:
        case Paragraph(text):
            return _at_start(inline(text))
        case Notice(text):
            return _quote(text)
        case Bullets(items):
            return "\n".join(f"- {_at_start(inline(item))}" for item in items)
        case Table():
            return _table(block)
        case Verbatim(text, language):
            return _fenced(text, language)
        case Picture(title, _, how_to_read):
            return f"*Chart, drawn in the HTML export:* {escape(title)}. {escape(how_to_read)}"
        case Fold(title, inner):
            return "\n\n".join([f"### {inline(title)}", *_blocks(inner)])


def _quote(text: Line) -> str:
    return f"> {_at_start(inline(text))}"


def _table(table: Table) -> str:
    rule = ["---:" if column in table.numeric else "---" for column in range(len(table.header))]
    rows = [[escape(name) for name in table.header], rule, *([inline(cell, in_table=True) for cell in row] for row in table.rows)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _fenced(text: str, language: str) -> str:
    body = verbatim(text)
    fence = "`" * max(3, _longest_run(body) + 1)
    return f"{fence}{language}\n{body}\n{fence}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def inline(text: Line, in_table: bool = False) -> str:
    """A line of spans; neighbours that are struck share one pair of tildes."""
    parts = []
    for is_struck, spans in groupby(text, key=lambda span: span.struck):
        inner = "".join(_span(span, in_table) for span in spans)
        parts.append(_wrapped(inner, "~~") if is_struck else inner)
    return "".join(parts)


def _span(span: Span, in_table: bool) -> str:
    match span.style:
        case Style.CODE if not (span.struck and "~" in span.text):  # simple renderers would end the strike inside the code
            return code(span.text, in_table)
        case Style.STRONG | Style.MARK:
            return _wrapped(escape(span.text), "**")
        case _:
            return escape(span.text)


def _wrapped(inner: str, sign: str) -> str:
    """The sign must touch the words: white space at the ends stays outside."""
    core = inner.strip()
    if not core:
        return inner
    before, after = inner[: len(inner) - len(inner.lstrip())], inner[len(inner.rstrip()) :]
    return f"{before}{sign}{core}{sign}{after}"


def code(text: str, in_table: bool = False) -> str:
    """A code span whose delimiter is longer than any run of backticks in it; a table needs its pipes escaped even here."""
    shown = one_line(text).replace("|", "\\|") if in_table else one_line(text)
    if not shown.strip():
        return ""
    delimiter = "`" * (_longest_run(shown) + 1)
    pad = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{delimiter}{pad}{shown}{pad}{delimiter}"


def escape(text: str) -> str:
    """Plain words in Markdown, whatever they hold: markup, HTML, links and mentions stay letters."""
    shown = "".join(_ENTITIES.get(sign, sign) for sign in one_line(text))
    shown = _SPECIAL.sub(lambda found: "\\" + found.group(), shown)
    return shown.replace("://", ":&#47;/").replace("www.", "www&#46;")


def _at_start(text: str) -> str:
    """At the start of a block a few more signs would open a heading, a list or a rule."""
    return _BLOCK_START.sub(lambda found: f"{found.group(1)}{_guarded(found.group(2))}", text, count=1)


def _guarded(signs: str) -> str:
    return f"{signs}\\" if signs.isdigit() else f"\\{signs}"
