"""What a pasted text is, told from its content; a name is only a hint. Pure, and never raises."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from diag_kit.hosts.kinds_hardware import HARDWARE_PATTERNS, mostly_nccl
from diag_kit.hosts.kinds_system import LAST_KINDS, SYSTEM_KINDS, kind_by_command
from diag_kit.hosts.kinds_system import has as _has
from diag_kit.hosts.outputs import begins
from diag_kit.hosts.sessions import Cut, cuts, is_tool

LOOK_BYTES = 256 * 1024
"""How much of the start of a text is looked at."""
MAX_PARTS = 500
"""A text with more prompts than that is no terminal session."""
_WHOLE = ("training_log", "python_source", "config", "table", "binary", "empty", "profile")
"""Kinds that are never cut where an output seems to begin."""
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True, slots=True)
class Part:
    """A section of one kind in a pasted text: its first line (from 1), its bytes, and the command above it.

    ``is_file``: not a command but a file's name stood there (``==> NAME <==``).
    """

    kind: str
    line: int
    data: bytes
    command: str = ""
    is_file: bool = False


def _is_json_iostat(text: str) -> bool:
    return '"sysstat"' in text and '"statistics"' in text and ('"disk"' in text or '"avg-cpu"' in text)


def _is_config(text: str) -> bool:
    words = text[:65536].split()
    if words and words[0].startswith("--") and sum(_FLAG.match(word) is not None for word in words) >= max(2, 0.3 * len(words)):
        return True  # the arguments of a command, pasted without it
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    keys = [found[1] for line in lines if (found := re.match(r"\s*(?:- )?([\w./-]+):(?:\s|$)", line))]
    different = len(set(keys)) >= 0.5 * len(keys)  # "INFO: ..." on every line is a log
    return 2 <= len(lines) < 2000 and len(keys) >= 0.8 * len(lines) and different and not _METRIC.search(text)


_FLAG = re.compile(r"--[A-Za-z][\w.-]*(?:=|$)")
_PYTHON = _has(r"^(?:import \w|from [\w.]+ import |def \w+\(|class \w+[(:]|@\w[\w.]*|if __name__ ==)", 2)
_METRIC = re.compile(r"loss\b\W{0,6}[\d.]|'lr':|\d%\||\bit/s\b|\ds/it\b", re.I)
_LOG = _has(
    r"\bloss\b\W{0,6}[\d.]|'lr':|\blr[=:]|\b(?:global_)?step[=: ]+\d|\bepoch\W{0,3}\d|\d%\||\bit/s\b|s/it\b|train_loss"
    r"|\bNum examples|\bStarted distributed|\bTrain (?:files|batches)|\[rank\s?\d+\]|\biteration\s+\d+/"
    r"|\bNCCL (?:INFO|WARN)|\bTotal (?:training|optimization) steps"
    r"|^Traceback \(most recent call last\)|^[A-Za-z_.]{1,80}Error: |CUDA (?:out of memory|error)",
    flags=re.I,
)

# Blanks at a line's start are [ \t]*, never \s*: that would run over line ends, and a file of blank lines would take for ever.
_KINDS: tuple[tuple[str, Callable[[str], bool]], ...] = (
    ("iostat", _is_json_iostat),
    ("iostat", _has(r"^Device:?[ \t]+.*(?:r/s|tps|rkB/s|kB_read/s)")),
    *((kind, _has(pattern, least)) for kind, pattern, least in HARDWARE_PATTERNS),
    ("nccl", mostly_nccl),
    ("py_spy", _has(r"^Process \d+: .*|^Thread (?:0x[0-9A-Fa-f]+|\d+) \((?:active|idle)", 2)),
    ("top", _has(r"^top - \d|^Mem: \d+K used")),
    ("ps", _has(r"^[ \t]*(?:USER[ \t]+PID|PID[ \t]+(?:PPID|USER|TTY|STAT)|UID[ \t]+PID|F[ \t]+S[ \t]+UID)\b")),
    ("ps", _has(r"^[ \t]*PID\b.*\b(?:COMMAND|CMD|ARGS)[ \t]*$")),
    ("free", _has(r"^[ \t]+total[ \t]+used[ \t]+free[ \t]+shared")),
    ("vmstat", _has(r"^[ \t]*r[ \t]+b[ \t]+swpd[ \t]+free")),
    ("df", _has(r"^Filesystem[ \t]+.*(?:Use%|IUse%|Capacity)")),
    ("meminfo", _has(r"^MemTotal:[ \t]+\d+ kB")),
    ("proc_status", _has(r"^(?:Name|Threads|VmRSS|Cpus_allowed_list|voluntary_ctxt_switches):\t", 2)),
    ("profile", _has(r"Self CPU %|^[ \t]*ncalls[ \t]+tottime|^\|[ \t]+Action[ \t]+\|[ \t]+Mean duration")),
    ("profile", _has(r"^[^\n:]{1,130}:[ \t]{1,60}mean: {0,20}[\d.]{1,20} ?m?s\b[ ,]{1,20}std: {0,20}[\d.]{1,20} ?m?s\b", 2)),
    ("uptime", _has(r"^[ \t]*\d\d:\d\d:\d\d up .*load average: ")),
    *SYSTEM_KINDS,
)
KINDS: tuple[str, ...] = tuple(
    dict.fromkeys(
        [
            *(kind for kind, _ in (*_KINDS, *LAST_KINDS)),
            *("cgroup", "proc_schedstat", "host_numbers", "counted"),
            *("training_log", "python_source", "config", "table", "text", "binary", "empty"),
        ]
    )
)


def kind_of(data: bytes, name: str = "", command: str = "") -> str:
    """The kind of a text, one of KINDS. ``name`` (of the file) and ``command`` (that printed it) are hints only."""
    head = data[:LOOK_BYTES]
    if not head.strip():
        return "empty"
    if b"\0" in head[:8192] and not head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "binary"
    text = _ANSI.sub("", head.decode("utf-8", "replace"))
    if name.endswith(".py") and _parses_or_looks_like_python(text):
        return "python_source"
    if by_command := kind_by_command(text, command or name):
        return by_command
    if _mostly_metrics(text):  # a script that prints nvidia-smi first still writes a training log
        return "training_log"
    for kind, matches in _KINDS:
        if matches(text):
            return kind
    if _PYTHON(text) and _parses_or_looks_like_python(text):
        return "python_source"
    if _is_table(text):
        return "table"
    if _is_config(text):
        return "config"
    for kind, matches in LAST_KINDS:
        if matches(text):
            return kind
    if _LOG(text):
        return "training_log"
    return "config" if _is_json(text) else "text"


def _mostly_metrics(text: str) -> bool:
    lines = [line for line in re.split(r"[\r\n]+", text) if line.strip()]
    metrics = sum(bool(_METRIC.search(line[:2000])) for line in lines)
    return metrics >= 3 and metrics >= 0.3 * len(lines)


def _parses_or_looks_like_python(text: str) -> bool:
    import ast
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
        return bool(_PYTHON(text)) or "=" in text
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _has(r"^(?:import \w|from [\w.]+ import )")(text) and _has(r"^\s+(?:self\.|return |for |if )", 2)(text)


def _is_table(text: str) -> bool:
    """Comma-separated metrics: a header with step or epoch, then rows of numbers."""
    lines = [line for line in text.splitlines()[:20] if line.strip()]
    if len(lines) < 3 or "," not in lines[0]:
        return False
    words = lines[0].lower().split(",")
    return any(word.strip() in ("step", "epoch", "iter", "iteration", "global_step") for word in words) and all(
        line.count(",") == lines[0].count(",") for line in lines[1:4]
    )


def _is_json(text: str) -> bool:
    if not text.lstrip().startswith(("{", "[")):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def split_parts(data: bytes, name: str = "") -> tuple[Part, ...]:
    """A pasted terminal session cut at its prompts and headings; any other text is one part."""
    whole = Part(kind_of(data, name), 1, data)
    if len(data) > 4 * 2**20 or whole.kind in ("binary", "empty", "python_source"):
        return (whole,)
    lines = data.split(b"\n")
    found = cuts(lines)
    if not found or len(found) > MAX_PARTS or not _is_session(found, lines):
        return _outputs(whole)
    parts = []
    if found[0].at > 0 and any(line.strip() for line in lines[: found[0].at]):
        head = b"\n".join(lines[: found[0].at])
        parts.append(Part(kind_of(head), 1, head))
    for cut, end in zip(found, [*(each.at for each in found[1:]), len(lines)], strict=True):
        body = b"\n".join(lines[cut.at + 1 : end])
        if cut.command or body.strip():  # else the prompt that waits at the end
            names = (cut.command, "") if cut.is_file else ("", cut.command)
            parts.extend(_outputs(Part(kind_of(body, *names), cut.at + 2, body, cut.command, cut.is_file)))
    return tuple(parts) or (whole,)


def _outputs(part: Part) -> tuple[Part, ...]:
    """A part that holds outputs of several tools one after the other, cut where each begins; a log stays whole."""
    starts = begins(part.data) if part.kind not in _WHOLE else []
    if not starts or len(starts) > MAX_PARTS:
        return (part,)
    lines = part.data.split(b"\n")
    if any(line.strip() for line in lines[: starts[0]]):
        starts = [0, *starts]
    bodies = [(start, b"\n".join(lines[start:end])) for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)]
    return tuple(Part(kind_of(body, "", part.command), part.line + at, body, part.command, part.is_file) for at, body in bodies)


def _is_session(found: list[Cut], lines: list[bytes]) -> bool:
    """One mark in the middle of a text may be chance, unless a known tool stands behind it or nothing stands before it."""
    if len(found) > 1:
        return True
    return found[0].at == 0 or is_tool(found[0].command) or not any(line.strip() for line in lines[: found[0].at])
