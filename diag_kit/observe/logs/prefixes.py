"""What stands in front of a message: launcher tags, rank tags, time stamps, levels, logger names; all of them nest."""

from __future__ import annotations

import re

from diag_kit.observe.logs.line import Line, RankKind
from diag_kit.observe.logs.stamps import find_stamp, read_stamp

LEVELS = "DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL|TRACE|SUCCESS|NOTICE"
LAUNCHER = re.compile(
    r"\s{0,8}(?:\[(?P<role>[A-Za-z_]{1,20}?)(?P<local>\d{1,5})\]:"
    r"|\[\d{1,6},(?P<mpi>\d{1,6})\]<std(?:out|err)>: ?"
    r"|\([\w.]{1,60} pid=\d{1,10}(?:, ip=(?P<ip>[^)\s]{1,60}))?\) ?"
    r"|\[pod/(?P<pod>[^\]\s/]{1,200})(?:/[^\]\s]{0,200})?\] ?)"
)
RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d) ")
RAY_REPEATED = re.compile(r"\s?\[repeated \d{1,9}x across cluster\]\s*\Z")
"""Ray's note on lines of other workers that it left out: no metric."""
EMBEDDED = re.compile(r"\[(?:default|rank)(?P<local>\d{1,5})\]:")
"""A launcher's tag in mid-line: another rank wrote on before the line had ended."""
LABEL = re.compile(r"(?:P\d+ )? {0,5}(\d{1,5}): ")
"""``srun --label``: the task id, right-aligned. Only trusted when most lines have one."""

_RANK_KIND: dict[str, RankKind] = {"local": "local", "device": "device", "gpu": "device", "cuda": "device"}
RANK = re.compile(
    r"(?<![A-Za-z_])(?:(?P<scope>local|global|world|dist|dp|node)[_ -]?)?rank[\"']?\s{0,2}[:=#]?\s{0,2}"
    r"(?P<rank>\d{1,6})(?![\d.]*\w)",
    re.IGNORECASE,
)
_RANK_WORD = re.compile(
    r"[(<{]?\s?(?:(?P<scope>local|global|world|dist|dp)[_ -]?)?rank\s{0,2}[:=#]?\s{0,2}(?P<rank>\d{1,6})"
    r"(?:\s?/\s?\d{1,6})?\s?[)>}]?(?:\s{0,3}[:|>,-]\s|:|\s|(?=[\[{(])|\Z)",
    re.IGNORECASE,
)
_MPI = re.compile(r"\[\d{1,6},(?P<rank>\d{1,6})\]<std(?:out|err)>: ?")
"""Open MPI's tag behind its own time stamp (--timestamp-output with --tag-output)."""
_BRACKET = re.compile(r"\[([^\[\]\n]{1,80})\]:?")
_BRACKET_RANK = re.compile(
    r"(?:(?P<scope>local|global|world|gpu|cuda|device|dist|dp)?[_ :]?(?:rank|r|gpu|cuda|device)[_ :=#-]{0,2})(?P<rank>\d{1,6})"
    r"(?:\s?/\s?\d{1,6})?",
    re.IGNORECASE,
)
_NAME = re.compile(r"[A-Za-z_][\w.<>:|-]{0,79}")
_LEVEL = re.compile(rf"(?:{LEVELS})(?=[\s:|\]-])(?:\s{{0,8}}:(?P<logger>[A-Za-z_][\w.]{{0,60}}):|\s{{0,8}}:(?=\s))?")
_GLOG = re.compile(r"\s{1,8}\d{1,10} [\w./-]{1,80}:\d{1,6}\] ?")
_LOGURU = re.compile(r"[\w.<>]{1,80}:[\w<>]{1,60}:\d{1,6} - ")
_DOTTED = re.compile(r"(?P<name>[A-Za-z_]\w{0,40}(?:\.\w{1,40}){1,6}|__main__|root)\s{0,3}(?:[:|-](?=\s|\{|\[)|(?=\s-\s))")
_DASH_NAME = re.compile(rf"(?P<name>[A-Za-z_][\w.]{{0,40}}) - (?=(?:{LEVELS})\b)")
_SOURCE = re.compile(r"[\w./-]{1,80}\.py:\d{1,6}\]? {0,2}")
_SPLIT_WORDS = {"train", "training", "val", "valid", "validation", "eval", "evaluation", "test", "epoch", "step", "iter"}
_FILLER = " \t|>•-–—:=*#"
_MAX_PARTS = 16


def strip_launcher(line: Line) -> Line:
    """Take launcher tags off the front of a physical line, note the rank, and join or cut at tags in mid-line.

    A second tag of the same rank is a partial write and is removed; one of another rank stays for ``cut_records``.
    """
    text, position, role = line.text, 0, ""
    for _ in range(_MAX_PARTS):
        match = LAUNCHER.match(text, position)
        if not match:
            inner = RFC3339.match(text, position) if position else None  # kubectl logs --prefix --timestamps
            stamp = read_stamp(inner[0]) if inner else None
            if inner is None or stamp is None:
                break
            line.stamp_us, line.stamp_kind = stamp.us, "container"
            position = inner.end()
            continue
        position = match.end()
        if match["local"]:
            role = match["role"]
            line.tag(int(match["local"]), _role_kind(role, text, position))
            own = match[0].strip()
            if own in text[position:]:
                text = text[:position] + text[position:].replace(own, "")
        elif match["ip"] or match["pod"]:
            line.host = match["ip"] or match["pod"]
        elif match["mpi"]:
            line.tag(int(match["mpi"]), "global")
    if position:
        text = text[position:]
        line.text = RAY_REPEATED.sub("", text) if text.rstrip().endswith("]") and "[repeated " in text else text
    return line


def _role_kind(role: str, text: str, position: int) -> RankKind:
    """``[rank3]:`` is torch's own global rank or a script's, but torchtitan's launcher calls the LOCAL rank so (--role rank)."""
    named = role.lower().endswith("rank") and "local" not in role.lower()
    return "global" if named and not text.startswith("[titan]", position) else "local"


def strip_prefix(line: Line, start: int = 0) -> int:
    """Where the message begins: notes rank, time and logger on the line while skipping them."""
    text = line.text
    position, size = start, len(text)
    for _ in range(_MAX_PARTS):
        while position < size and text[position] in _FILLER:
            position += 1
        if position >= size:
            break
        after = _one_part(line, text, position)
        if after == position:
            break
        position = after
    return position


def _one_part(line: Line, text: str, position: int) -> int:
    first = text[position]
    if first == "[":
        return _bracket(line, text, position)
    if first.isdigit():
        return _stamp(line, text, position)
    if first == "(":
        return _rank_word(line, text, position)
    if first.isalpha() or first == "_":
        return _word(line, text, position)
    return position


def _stamp(line: Line, text: str, position: int) -> int:
    stamp = read_stamp(text, position)
    if stamp is None:
        source = _SOURCE.match(text, position)
        return source.end() if source else position
    if line.stamp_us is None or (line.stamp_kind == "time of day" and stamp.kind != "time of day"):
        line.stamp_us, line.stamp_kind = stamp.us, stamp.kind
    glog = _GLOG.match(text, stamp.end)
    return glog.end() if glog else stamp.end


def _bracket(line: Line, text: str, position: int) -> int:
    match = _BRACKET.match(text, position)
    if not match:
        return position
    if text[match.end() : match.end() + 4] == "<std" and (mpi := _MPI.match(text, position)):
        line.tag(int(mpi["rank"]), "global")
        return mpi.end()
    inner = match[1]
    if inner[0].isdigit() or ":" in inner:
        stamp = find_stamp(inner)
        if stamp:
            if line.stamp_us is None:
                line.stamp_us, line.stamp_kind = stamp.us, stamp.kind
            return match.end()
    tag = _BRACKET_RANK.fullmatch(inner)
    if tag:
        _tag(line, tag, inner)
        return match.end()
    if _NAME.fullmatch(inner) and inner.lower() not in _SPLIT_WORDS and not inner.lower().startswith(("epoch", "step")):
        if "." in inner and not line.logger:
            line.logger = inner
        return match.end()
    found = RANK.search(inner)
    if found and "=" not in inner.replace(found[0], ""):  # "[node0 cuda:5 rank 05]"
        _tag(line, found, "rank")
        return match.end()
    return position


def _tag(line: Line, match: re.Match[str], words: str) -> None:
    scope = (match["scope"] or "").lower()
    kind: RankKind = _RANK_KIND.get(scope, "global")
    if not scope and "rank" not in words.lower() and not words.lower().startswith("r"):
        kind = "device"
    line.tag(int(match["rank"]), kind)


def _rank_word(line: Line, text: str, position: int) -> int:
    match = _RANK_WORD.match(text, position)
    if not match:
        return position
    _tag(line, match, "rank")
    return match.end()


def _word(line: Line, text: str, position: int) -> int:
    level = _LEVEL.match(text, position)
    if level:
        if level["logger"]:
            line.logger = level["logger"]
        return level.end()
    if text[position] in "rRlLgGwWdD":
        after = _rank_word(line, text, position)
        if after != position:
            return after
    if text[position] in "IWEFDVJFMASONTD":
        after = _stamp(line, text, position)
        if after != position:
            return after
    for pattern in (_DOTTED, _DASH_NAME):
        match = pattern.match(text, position)
        if match:
            line.logger = line.logger or match["name"]
            return match.end()
    match = _LOGURU.match(text, position) or _SOURCE.match(text, position)
    return match.end() if match else position
