"""Reading a page back: its words, its tags, what it refers to."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "img", "br", "hr", "link", "input", "base", "area", "col", "embed", "source", "track", "wbr"}


@dataclass
class Page:
    text: str = ""
    tags: set[str] = field(default_factory=set)
    attributes: list[tuple[str, str, str]] = field(default_factory=list)
    unbalanced: list[str] = field(default_factory=list)
    styles: str = ""

    @property
    def words(self) -> list[str]:
        return self.text.split()


class _Reader(HTMLParser):
    def __init__(self, leave_out: set[str]) -> None:
        super().__init__(convert_charrefs=True)
        self.page, self.open, self.leave_out = Page(), [], leave_out

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.page.tags.add(tag)
        self.page.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)
        if tag not in {"code", "strong", "s", "a", "mark", "em", "del", "wbr"}:
            self.page.text += " "

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.page.unbalanced.append(tag)
        if tag not in {"code", "strong", "s", "a", "mark", "em", "del", "wbr"}:
            self.page.text += " "

    def handle_data(self, data: str) -> None:
        if "style" in self.open:
            self.page.styles += data
        elif not self.leave_out & set(self.open):
            self.page.text += data


def read(html: str, leave_out: tuple[str, ...] = ()) -> Page:
    """The page; the words inside ``leave_out`` tags are not counted."""
    reader = _Reader(set(leave_out))
    reader.feed(html)
    reader.close()
    reader.page.unbalanced += reader.open
    return reader.page
