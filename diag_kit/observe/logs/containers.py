"""Log records as container runtimes store them: Docker's json-file, CRI, and the plain RFC 3339 prefix of ``logs -t``.

The runtime's stamp is UTC with a date, so it is the best clock a log can have and is kept for every record inside.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

from diag_kit.observe.logs.line import Line
from diag_kit.observe.logs.stamps import read_stamp

_DOCKER = re.compile(r'\{\s?"(?:log|stream|time|attrs)"\s?:.*"log"\s?:|\{\s?"log"\s?:')
_RFC3339 = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,9}(?:Z|[+-]\d\d:\d\d)"
_CRI = re.compile(rf"({_RFC3339}) (stdout|stderr) ([PF]) (.*)\Z", re.DOTALL)
_PLAIN = re.compile(rf"({_RFC3339}) (.*)\Z", re.DOTALL)


def unwrap_containers(lines: Iterable[Line]) -> Iterator[Line]:
    """Take container wrappers off, joining records that the runtime cut (per stream)."""
    open_parts: dict[str, Line] = {}
    for line in lines:
        text = line.text
        if text[:1] == "{" and _DOCKER.match(text):
            yield from _docker(line, open_parts)
        elif text[:1] == "2" and (match := _CRI.match(text)):
            yield from _part(line, match[2], match[4], match[1], match[3] == "F", open_parts)
        elif text[:1] == "2" and (match := _PLAIN.match(text)):
            yield _stamped(line, match[2], match[1])
        else:
            yield line
    yield from open_parts.values()


def _docker(line: Line, open_parts: dict[str, Line]) -> Iterator[Line]:
    try:
        record = json.loads(line.text)
        text, stamp = str(record["log"]), str(record.get("time", ""))
    except (ValueError, KeyError, TypeError, RecursionError):
        yield line
        return
    yield from _part(line, str(record.get("stream", "")), text.removesuffix("\n"), stamp, text.endswith("\n"), open_parts)


def _part(line: Line, stream: str, text: str, stamp: str, complete: bool, open_parts: dict[str, Line]) -> Iterator[Line]:
    begun = open_parts.pop(stream, None)
    if begun is None:
        begun = _stamped(line, text, stamp)
    else:
        begun.text += text
        begun.last = line.last
    if complete:
        yield begun
    else:
        open_parts[stream] = begun


def _stamped(line: Line, text: str, stamp: str) -> Line:
    inner = line.piece(text)
    read = read_stamp(stamp)
    if read:
        inner.stamp_us, inner.stamp_kind = read.us, "container"
    return inner
