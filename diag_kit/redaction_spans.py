"""Spans of a text that are a value of some kind, and what becomes of those that overlap."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

KINDS = ("secret", "email", "ip", "mac", "gpu_uuid", "serial", "user", "host")


class Span(NamedTuple):
    """``text[start:end]`` is a value of that kind."""

    kind: str
    start: int
    end: int


Finders: TypeAlias = tuple[tuple[tuple[str, ...], Callable[[str], Iterator[Span]]], ...]
"""Each with what must be in the lowered text for it to be worth a search; the order is the precedence."""


def simple(kind: str, pattern: re.Pattern[str], accept: Callable[[str, re.Match[str]], bool] | None = None) -> Callable[
    [str], Iterator[Span]
]:  # fmt: skip
    """A finder that gives the group of the pattern that took part, or the whole match."""

    def finder(text: str) -> Iterator[Span]:
        for match in pattern.finditer(text):
            if accept is None or accept(text, match):
                group = match.lastgroup if match.lastgroup not in (None, "domain", "top") else 0
                yield Span(kind, match.start(group or 0), match.end(group or 0))

    return finder


def join(spans: list[Span]) -> list[Span]:
    """Overlapping secrets as one, so that no part of either stays."""
    joined: list[Span] = []
    for span in spans:
        if joined and span.start < joined[-1].end:
            joined[-1] = joined[-1]._replace(end=max(joined[-1].end, span.end))
        else:
            joined.append(span)
    return joined


def without_overlaps(spans: list[Span]) -> list[Span]:
    """In order of position; of two that overlap the earlier in the list stays (a stable greedy choice)."""
    ranked = sorted(enumerate(spans), key=lambda item: (item[1].start, item[0]))
    kept: list[tuple[int, Span]] = []
    for rank, span in ranked:
        while kept and kept[-1][1].end > span.start and rank < kept[-1][0]:
            kept.pop()
        if not kept or kept[-1][1].end <= span.start:
            kept.append((rank, span))
    return [span for _, span in kept]
