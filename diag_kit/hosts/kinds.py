"""What a pasted text is, told from its content; a name is only a hint. Pure, and never raises."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

from diag_kit.hosts.kinds_hardware import HARDWARE_PATTERNS, mostly_nccl

LOOK_BYTES = 256 * 1024
"""How much of the start of a text is looked at."""
MAX_PARTS = 500
"""A text with more prompts than that is no terminal session."""
_PROMPT = re.compile(
    r"^(?:\([\w.-]+\) )?(?:[\w.-]+@[\w.-]+[: ][^\n$#]{0,80}[$#]|\[[\w.-]+@[\w.-]+ [^\]\n]{0,80}\][$#]"
    r"|root@[\w.-]+:[^\n]{0,80}#|\$|>>>) (\S.*)$"
)
_HEADING = re.compile(r"^==> (\S.*) <==$")
"""What ``head`` and ``tail`` print above each of several files."""
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True, slots=True)
class Part:
    """A section of one kind in a pasted text: its first line (from 1), its bytes, and the command or file name above it."""

    kind: str
    line: int
    data: bytes
    command: str = ""


def _has(pattern: str, least: int = 1, flags: int = 0) -> Callable[[str], bool]:
    compiled = re.compile(pattern, re.M | flags)
    return lambda text: sum(1 for _ in islice(compiled.finditer(text), least)) >= least


def _is_json_iostat(text: str) -> bool:
    return '"sysstat"' in text and '"statistics"' in text and ('"disk"' in text or '"avg-cpu"' in text)


def _is_config(text: str) -> bool:
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    keys = [found[1] for line in lines if (found := re.match(r"\s*(?:- )?([\w./-]+):(?:\s|$)", line))]
    different = len(set(keys)) >= 0.5 * len(keys)  # "INFO: ..." on every line is a log
    return 2 <= len(lines) < 2000 and len(keys) >= 0.8 * len(lines) and different and not _METRIC.search(text)


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
    ("profile", _has(r"Self CPU %|^[ \t]*ncalls[ \t]+tottime")),
    ("uptime", _has(r"^[ \t]*\d\d:\d\d:\d\d up .*load average: ")),
)
KINDS: tuple[str, ...] = tuple(
    dict.fromkeys([*(kind for kind, _ in _KINDS), "training_log", "python_source", "config", "table", "text", "binary", "empty"])
)


def kind_of(data: bytes, name: str = "") -> str:
    """The kind of a text, one of KINDS."""
    head = data[:LOOK_BYTES]
    if not head.strip():
        return "empty"
    if b"\0" in head[:8192] and not head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "binary"
    text = _ANSI.sub("", head.decode("utf-8", "replace"))
    if name.endswith(".py") and _parses_or_looks_like_python(text):
        return "python_source"
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
    """A pasted terminal session cut at its prompts; any other text is one part."""
    if len(data) > 4 * 2**20 or kind_of(data, name) in ("binary", "empty", "python_source"):
        return (Part(kind_of(data, name), 1, data),)
    lines = data.split(b"\n")
    prompts = [(at, command) for at, line in enumerate(lines) if (command := _command_above(line))]
    if not prompts or len(prompts) > MAX_PARTS or (len(prompts) < 2 and prompts[0][0] > 0):
        return (Part(kind_of(data, name), 1, data),)
    found_parts = []
    if prompts[0][0] > 0 and any(line.strip() for line in lines[: prompts[0][0]]):
        head = b"\n".join(lines[: prompts[0][0]])
        found_parts.append(Part(kind_of(head), 1, head))
    for (start, command), (end, _) in zip(prompts, [*prompts[1:], (len(lines), "")], strict=True):
        body = b"\n".join(lines[start + 1 : end])
        found_parts.append(Part(kind_of(body), start + 2, body, command.strip()))
    return tuple(found_parts)


def _command_above(line: bytes) -> str:
    """The command of a prompt, or the file name of a ``==> NAME <==`` heading; empty for any other line."""
    text = line[:400].decode("utf-8", "replace").rstrip("\r")
    found = _PROMPT.match(text) or _HEADING.match(text)
    return found[1].strip() if found else ""
