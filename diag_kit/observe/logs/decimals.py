"""Logs of a locale that writes the decimal point as a comma: ``loss: 2,3456 lr: 0,0001``.

"2,345" alone may be either, so the log decides as a whole: numbers behind a key that can only be decimals (a group that has not
three digits, or a leading zero) against numbers behind a key that have a point.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from diag_kit.observe.logs.line import Line

_LOOK_BYTES = 256 * 2**10
_KEYED = rb"(?<=[A-Za-z_)\]])\s{0,3}[:=]?\s{0,3}[-+]?"
_COMMA = re.compile(_KEYED + rb"(?:0,\d{1,12}|\d{1,9},(?:\d\d?|\d{4,12}))(?:[eE][-+]?\d{1,3})?(?!\d|[,.]\d)")
_POINT = re.compile(_KEYED + rb"\d{1,9}\.\d{1,12}(?![\d.])")
_NUMBER = re.compile(r"((?<=[A-Za-z_)\]])\s{0,3}[:=]?\s{0,3}[-+]?\d{1,9}),(\d{1,12})(?!\d|[,.]\d)")


def has_decimal_commas(data: bytes) -> bool:
    """Whether decimals are written with a comma: at least four of them, and more than with a point."""
    head = data[:_LOOK_BYTES]
    commas = sum(1 for _ in _COMMA.finditer(head))
    return commas >= 4 and commas > sum(1 for _ in _POINT.finditer(head))


def point_decimals(lines: Iterable[Line]) -> Iterator[Line]:
    """The same lines with a point in numbers that stand behind a key; the length does not change."""
    for line in lines:
        if "," in line.text:
            line.text = _NUMBER.sub(r"\1.\2", line.text)
        yield line
