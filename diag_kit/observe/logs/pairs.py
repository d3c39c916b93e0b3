"""Key and value pairs in a text, with the place of each value: from dicts (Python's repr or JSON) and from free text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from diag_kit.observe.logs.numbers import DURATION, NUMBER

_DICT_TOKEN = re.compile(
    r"""(?P<quote>['"])(?P<key>[^'"\n]{0,200})(?P=quote)\s{0,4}:\s{0,4}"""
    rf"""(?:(?P<open>\{{)|['"]?(?P<number>{NUMBER})['"]?(?=\s{{0,4}}[,}}\]])"""
    rf"""|(?:tensor|array|np\.float\d\d|Decimal)\(\s{{0,4}}['"\[]?(?P<wrapped>{NUMBER})[^()]{{0,80}}\)"""
    rf"""|\[\s{{0,4}}(?P<first>{NUMBER})(?=\s{{0,4}}[,\]])"""
    rf"""|['"](?P<clock>{DURATION})['"](?=\s{{0,4}}[,}}\]])"""
    r"""|(?P<other>'[^'\n]{0,2000}'|"[^"\n]{0,2000}"|[A-Za-z_][\w.]{0,40}|\())"""
    r"""|(?P<close>\})|(?P<stray>\{)"""
)
MAX_DEPTH = 6
MAX_PAIRS = 400

_UNIT = r"%|[A-Za-z]{1,8}/[A-Za-z]{1,12}(?:/[A-Za-z]{1,12}){0,2}|[A-Za-z]{1,4}(?![\w/])"
_SPACED_UNIT = (
    r"(?:s|sec|secs|seconds?|ms|us|it|iters?|steps?|samples?|tokens?|tok|imgs?|images?|examples?|batch(?:es)?|sequences?)"
    r"\s?/\s?(?:s|sec|seconds?|it|iters?|steps?|batch|sample|example|gpu|rank)(?![\w])"
)
_TEXT_TOKEN = re.compile(
    rf"(?P<duration>(?<![\w:.]){DURATION}(?![\d:]))"
    r"|len\(\s{0,2}(?P<length>[\w.]{1,60})\s{0,2}\)"
    rf"|(?:tensor|array)\(\s{{0,4}}\[?(?P<wrapped>{NUMBER})[^()]{{0,80}}\)"
    r"|(?P<device>(?<![\w])(?:cuda|npu|xpu|hpu):(?P<index>\d{1,3})(?![\w.]))"
    rf"|(?P<number>(?<![\w.])(?<!\d')(?:{NUMBER}))(?:(?P<unit>{_UNIT}|\s(?:{_SPACED_UNIT})(?!\s?[=:]))|(?!\w|\.\d|'\d))(?:\s{{0,3}}/\s{{0,8}}(?P<of>\d[\d,]{{0,14}})(?![\w.]))?"
    r"|(?P<group>\([A-Za-z/%]{1,12}\))"
    r"|(?P<word>[^\W\d][\w./@-]{0,119})"
    r"|(?P<compare>[=!<>]=)"
    r"|(?P<equals>[=:])"
    r"|(?P<list>\[(?=\s{0,6}[-+]?\d))"
    r"|(?P<gap>[ ]{2,}|\t)"
    r"|(?P<stop>[,;|{}\[\]()\n])"
)


@dataclass(slots=True)
class Pair:
    """``key`` as printed (a dict's nesting joined with "/"); ``text[start:end]`` is the value.

    ``explicit``: "=" or ":" stood between. ``unit`` as glued to the number, ``of`` the total in ``17/8862``. ``after``:
    words that follow the number directly ("35446 training files").
    """

    key: str
    value: str
    start: int
    end: int
    explicit: bool = True
    unit: str = ""
    of: str = ""
    after: list[str] = field(default_factory=list)
    duration: bool = False


def dict_pairs(text: str, start: int) -> tuple[list[Pair], int] | None:
    """Numeric pairs of the dict that opens at ``start``, and where it ends; None when it is cut off or no dict."""
    pairs: list[Pair] = []
    path: list[str] = []
    position, depth = start + 1, 1
    while position < len(text):
        match = _DICT_TOKEN.search(text, position)
        if match is None:
            return None
        position = match.end()
        group = match.lastgroup
        if match["close"]:
            depth -= 1
            if path:
                path.pop()
            if depth == 0:
                return pairs, position
        elif match["open"] or match["stray"]:
            depth += 1
            path.append(match["key"] or "")
            if depth > MAX_DEPTH:
                return None
        elif group in ("number", "wrapped", "first", "clock"):
            key = "/".join([*path, match["key"]])
            pairs.append(Pair(key, match[group], match.start(group), match.end(group), duration=group == "clock"))
            if len(pairs) > MAX_PAIRS:
                return None
    return None


def find_dicts(text: str, start: int = 0) -> list[tuple[int, int, list[Pair]]]:
    """All complete dicts in the text with at least one numeric pair: (start, end, pairs)."""
    found: list[tuple[int, int, list[Pair]]] = []
    position = text.find("{", start)
    for _ in range(64):
        if position < 0:
            break
        inner = text[position + 1 : position + 4].lstrip()
        read = dict_pairs(text, position) if inner[:1] in ("'", '"') else None
        if read:
            pairs, end = read
            if pairs:
                found.append((position, end, pairs))
            position = text.find("{", end)
        else:
            position = text.find("{", position + 1)
    return found


class _Walk:
    """State of the walk over one text: the words since the last value, and what was found."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.equals = False
        self.gap = False
        self.pairs: list[Pair] = []
        self.devices: list[Pair] = []
        self.open: Pair | None = None

    def stop(self) -> None:
        self.words = []
        self.equals = self.gap = False
        self.open = None

    def word(self, word: str) -> None:
        if (self.gap and self.words) or (self.equals and self.words):
            self.words = []
        self.equals = self.gap = False
        if self.open is not None and len(self.open.after) < 6:
            self.open.after.append(word)
        self.words.append(word)
        if len(self.words) > 8:
            del self.words[0]

    def value(self, text: str, start: int, end: int, unit: str = "", of: str = "", duration: bool = False) -> None:
        key = " ".join(self.words)
        pair = Pair(key, text, start, end, self.equals, unit, of, duration=duration)
        self.pairs.append(pair)
        self.words = []
        self.equals = self.gap = False
        self.open = pair


def text_pairs(text: str) -> tuple[list[Pair], list[Pair]]:
    """Pairs in free text, in order, and the devices named (``cuda:3``).

    The key of a value is the run of words before it, back to the previous value or a separator; a value without words
    keeps an empty key. Understands ``a=1, b: 2``, ``step 17/8862 loss 3.1``, ``consumed samples:  30720 |``,
    ``len(loader) = 8862``, ``3.4 sec/step``, ``1 day, 2:03:04``.
    """
    walk = _Walk()
    for match in _TEXT_TOKEN.finditer(text):
        kind = match.lastgroup
        if kind == "word":
            walk.word(match["word"])
        elif kind in ("number", "unit", "of"):
            _number(walk, match)
        elif kind == "equals":
            walk.equals = bool(walk.words)
            walk.open = None
        elif kind == "gap":
            walk.gap = True
        elif kind in ("stop", "compare"):
            walk.stop()
        elif kind == "group":
            if walk.words and not walk.equals:
                walk.words.append(match["group"])
        elif kind == "length":
            walk.word("len " + match["length"])
        elif kind == "duration":
            walk.value(match["duration"], match.start(), match.end(), duration=True)
        elif kind == "wrapped":
            walk.value(match["wrapped"], match.start("wrapped"), match.end("wrapped"))
        elif kind == "device":
            walk.devices.append(Pair("device", match["index"], match.start("index"), match.end("index")))
        if len(walk.pairs) > MAX_PAIRS:
            break
    return walk.pairs, walk.devices


def _number(walk: _Walk, match: re.Match[str]) -> None:
    unit = (match["unit"] or "").strip()
    if unit == "%" and not walk.words:
        walk.open = None
        return
    walk.value(match["number"], match.start("number"), match.end("number"), unit, match["of"] or "")


_SEGMENT = re.compile(
    rf"\s*(?P<key>[^:|]{{1,120}}(?::[^:|]{{1,80}})?):\s*(?P<value>{NUMBER})\s?(?P<unit>%|[A-Za-z/]{{1,12}})?\s*\Z"
)


def pairs_between(text: str, start: int, end: int) -> list[Pair]:
    """The named pairs of free text between two places, counted in the whole text."""
    pairs, _ = text_pairs(text[start:end])
    for pair in pairs:
        pair.start += start
        pair.end += start
    return [pair for pair in pairs if pair.key]


def segment_pairs(text: str, start: int, separator: str = "|") -> list[Pair]:
    """``key: value | key: value |`` from ``start`` on, one number in each; keys may hold blanks, brackets and slashes."""
    pairs: list[Pair] = []
    while start < len(text) and len(pairs) < MAX_PAIRS:
        stop = text.find(separator, start)
        stop = len(text) if stop < 0 else stop
        match = _SEGMENT.match(text[start:stop]) if stop - start < 300 else None
        if match:
            value = (start + match.start("value"), start + match.end("value"))
            pairs.append(Pair(match["key"].strip(), match["value"], *value, unit=match["unit"] or ""))
        start = stop + len(separator)
    return pairs


def renamed(pairs: Sequence[Pair], names: Mapping[str, str]) -> list[Pair]:
    """The pairs with the keys of ``names`` (lower case) called otherwise; a name that is given says its unit itself."""
    for pair in pairs:
        name = names.get(pair.key.lower())
        if name is not None:
            pair.key, pair.unit = name, ""
    return [pair for pair in pairs if pair.key]
