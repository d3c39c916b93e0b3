"""Flat JSON objects written over several lines (``json.dump(..., indent=2)``) put on one line each.

So the ``log_history`` of a Hugging Face trainer_state.json reads like the dicts of its console, with ``step``
(huggingface/transformers src/transformers/trainer_callback.py, TrainerState.save_to_json).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from diag_kit.observe.logs.line import Line

_MEMBER = re.compile(r'\s{0,40}"[^"\n]{1,200}":\s{0,4}(?:"[^"\n]{0,400}"|[-+\w.]{1,60}),?\s{0,40}\Z')
_MAX_MEMBERS = 200


def join_objects(lines: Iterable[Line]) -> Iterator[Line]:
    """An opening brace alone on its line, members with plain values, a closing brace: one line; anything else stays as it is."""
    begun: list[Line] = []
    for line in lines:
        bare = line.text.strip() if len(line.text) < 700 else ""
        if begun and bare in ("}", "},"):
            members = " ".join(each.text.strip() for each in begun[1:])
            joined = line.piece("{" + members + "}")
            joined.first = begun[0].first
            begun = []
            yield joined
        elif begun and len(begun) < _MAX_MEMBERS and _MEMBER.match(line.text):
            begun.append(line)
        else:
            yield from begun
            begun = [line] if bare == "{" else []
            if not begun:
                yield line
    yield from begun
