"""Records that fill several lines, put into one: the last stage before the formats.

Four shapes, told from how they are printed, per rank and only over neighbouring lines:

- a head in brackets and a line per metric: ``[batch=20/4800]:`` / ``Train loss: 9.8`` (Composer), ``[step=10/500,epoch=0]`` /
  ``train/CE loss=5.1`` (OLMo);
- a box: ``| rollout/ |  |`` / ``|    ep_len_mean | 195 |`` (stable-baselines3 and baselines);
- ``Learning iteration 20/1500`` and a line per number (rsl_rl); ``wandb: Run summary:`` and a line per number;
- a line that says what the next ones hold: a header of columns (Ultralytics) or ``Epoch 3/10`` (Keras). It is put in front of
  each of them, for it holds until the next such line.

The parts are joined by line feeds, which no single message contains. A line that belongs to no block passes as it is; a
joined one keeps its parts, for the case that no format knows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from diag_kit.observe.logs.line import Line

MAX_PARTS = 400
_HEAD = re.compile(r"(?:\[(?:Eval )?[A-Za-z_]{1,20}=\d[^\[\]\n]{0,120}\]){1,3}(?: Eval on [\w./-]{1,80} data)?:?\s*\Z")
_HOST = re.compile(r"[A-Za-z_][\w.-]{0,80}:(\d{1,4})\t")
_UNDER_HEAD = re.compile(r"(?:(?:Train|Eval) )?[A-Za-z_][^=:\n]{0,120}(?:=|: ?)\s{0,8}(?:[-+]?[\d.]|nan|inf|-inf)[^=]{0,60}\Z")
_ITERATION = re.compile(r"Learning iteration \d{1,10}/\d{1,10}\s*\Z")
_UNDER_ITERATION = re.compile(r"[A-Za-z][^:\n]{0,80}:\s{1,60}\S[^\n]{0,200}\Z")
_SUMMARY = "Run summary:"
_UNDER_SUMMARY = re.compile(r"wandb:\s{1,40}\S{1,120} \S{1,60}\s*\Z")
_ROW = re.compile(r"[A-Za-z_][\w/. @%()-]{0,60}\|\s{0,40}[^|\n]{0,60}\|\s*\Z")
_COLUMNS = re.compile(r"Epoch {2,40}(?:GPU_mem|gpu_mem)(?: {1,40}[\w()-]{1,30}){2,14}\s*\Z")
_UNDER_COLUMNS = re.compile(r"\d{1,6}/\d{1,6} {2,40}[\d.]{1,10}[GMK]?(?: {1,40}\S)")
_EPOCH = re.compile(r"Epoch \d{1,6}/\d{1,6}\s*\Z")
_UNDER_EPOCH = re.compile(r"\d{1,12}/(?:\d{1,12}|Unknown) (?:\[|━|- |\x1b)")


@dataclass(slots=True)
class _State:
    """Of one rank: the block that is open, and the line that says what the next ones hold."""

    parts: list[Line] = field(default_factory=list)
    kind: str = ""
    above: str = ""


def join_blocks(lines: Iterable[Line]) -> Iterator[Line]:
    """Lines in order, each block as one line that spans its parts."""
    states: dict[int | None, _State] = {}
    for line in lines:
        state = states.get(line.rank)
        text = line.text
        if state is not None and state.parts:
            if _continues(state, line):
                state.parts.append(line)
                continue
            yield from _close(state)
        kind = opens_block(text)
        if kind:
            if state is None:
                state = states[line.rank] = _State()
            _cut_host(line)
            if kind == "above":
                state.above = text.strip()
                if text[6] != " ":
                    yield line
            else:
                state.parts, state.kind = [line], kind
            continue
        if state is not None and state.above and text[:1].isdigit():
            _put_above(state, line)
        yield line
    for state in states.values():
        yield from _close(state)


def _cut_host(line: Line) -> None:
    """OLMo's prefix ``host:3\tlogger:line\tLEVEL\t`` goes: the number is the local rank."""
    place = _HOST.match(line.text)
    if place:
        line.tag(int(place[1]), "local")
        line.text = line.text[line.text.rindex("\t[") + 1 :] if "\t[" in line.text else line.text


def opens_block(text: str) -> str:
    """Which block a line opens; "" for none. Cheap for all others."""
    first = text[:1]
    if first == "[":
        return "head" if text.rstrip().endswith(("]", "]:", "data", "data:")) and _HEAD.match(text) else ""
    if text.endswith("]") and "\t[" in text:
        return "head" if _HEAD.match(text, text.rindex("\t[") + 1) else ""
    if first == "E":
        return "above" if text.startswith("Epoch ") and (_COLUMNS.match(text) or _EPOCH.match(text)) else ""
    if first == "L":
        return "iteration" if _ITERATION.match(text) else ""
    if first == "w" and text.startswith("wandb:"):
        return "summary" if text.rstrip().endswith(_SUMMARY) else ""
    return "box" if text.endswith("|") and _ROW.match(text) else ""


def _continues(state: _State, line: Line) -> bool:
    last, text = state.parts[-1], line.text
    gap = line.first - last.last
    if len(state.parts) >= MAX_PARTS or gap < 0:
        return False
    if state.kind == "head":
        return gap <= 1 and bool(_UNDER_HEAD.match(text)) and not _HEAD.match(text)
    if state.kind == "box":
        return gap <= 1 and text.endswith("|") and bool(_ROW.match(text))
    if state.kind == "iteration":
        return gap <= 3 and not last.text.startswith("ETA:") and bool(_UNDER_ITERATION.match(text))
    return gap <= 1 and bool(_UNDER_SUMMARY.match(text))


def _close(state: _State) -> Iterator[Line]:
    parts, state.parts = state.parts, []
    if len(parts) > (2 if state.kind == "box" else 1):
        whole = parts[0].piece("\n".join(part.text for part in parts))
        whole.last = parts[-1].last
        whole.parts = tuple(parts)
        yield whole
    else:
        yield from parts


def _put_above(state: _State, line: Line) -> None:
    below = _UNDER_EPOCH if state.above[6] != " " else _UNDER_COLUMNS
    if below.match(line.text):
        line.parts = (line.piece(line.text),)
        line.text = f"{state.above}\n{line.text}"
