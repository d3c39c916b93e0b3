"""What a pasted text is, told from its content; a name is only a hint. Pure, and never raises."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

LOOK_BYTES = 256 * 1024
"""How much of the start of a text is looked at."""
_PROMPT = re.compile(
    r"^(?:\([\w.-]+\) )?(?:[\w.-]+@[\w.-]+[: ][^\n$#]{0,80}[$#]|\[[\w.-]+@[\w.-]+ [^\]\n]{0,80}\][$#]|root@[\w.-]+:[^\n]{0,80}#|\$|>>>) (\S.*)$"
)
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True, slots=True)
class Part:
    """A section of one kind in a pasted text: its first line (from 1), its bytes, and the command of the prompt before it."""

    kind: str
    line: int
    data: bytes
    command: str = ""


def _has(pattern: str, least: int = 1) -> Callable[[str], bool]:
    compiled = re.compile(pattern, re.M)

    def matches(text: str) -> bool:
        found = 0
        for _ in compiled.finditer(text):
            found += 1
            if found >= least:
                return True
        return False

    return matches


def _is_json_iostat(text: str) -> bool:
    return '"sysstat"' in text and '"statistics"' in text and ('"disk"' in text or '"avg-cpu"' in text)


def _is_config(text: str) -> bool:
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    yaml = sum(bool(re.match(r"^\s*(?:- )?[\w./-]+:(?:\s|$)", line)) for line in lines)
    return len(lines) >= 2 and yaml >= 0.8 * len(lines) and len(lines) < 2000


_PYTHON = _has(r"^(?:import \w|from [\w.]+ import |def \w+\(|class \w+[(:]|@\w[\w.]*|if __name__ ==)", 2)
_LOG = _has(
    r"\bloss\b\W{0,6}[\d.]|'lr':|\blr[=:]|\b(?:global_)?step[=: ]+\d|\bepoch\W{0,3}\d|\d+%\||\bit/s\b|s/it\b|Num examples|Started distributed"
    r"|Train (?:files|batches)|train_loss|\[rank\s?\d+\]|iteration\s+\d+/|\bNCCL (?:INFO|WARN)|Total (?:training|optimization) steps",
    1,
)

_KINDS: tuple[tuple[str, Callable[[str], bool]], ...] = (
    ("iostat", _is_json_iostat),
    ("iostat", _has(r"^Device:?\s+.*(?:r/s|tps|rkB/s|kB_read/s)")),
    ("nvidia_smi_csv", _has(r"^(?:#\s*)?[a-z_.]+(?: \[\S+\])?, .*(?:utilization|memory\.|power\.|uuid|index|pid)")),
    ("nvidia_smi_table", _has(r"\| NVIDIA-SMI [\d.]+|^\|\s+\d+\s+\S.*\| *[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:")),
    ("nvidia_smi_query", _has(r"^=+\s*NVSMI LOG\s*=+|<nvidia_smi_log>")),
    ("nvidia_smi_dmon", _has(r"^#\s*gpu\s+(?:pwr|pid|sm)\b")),
    ("topo", _has(r"^\s*(?:\x1b\[\d+m)?\s*GPU0\s+(?:GPU1|NIC0|CPU Affinity)|^GPU0\s+X\s")),
    ("py_spy", _has(r"^Process \d+: .*|^Thread (?:0x[0-9A-Fa-f]+|\d+) \((?:active|idle)", 2)),
    ("dmesg", _has(r"^\[\s*\d+\.\d{6}\] \w|NVRM: Xid", 2)),
    ("top", _has(r"^top - \d|^Mem: \d+K used")),
    ("ps", _has(r"^\s*(?:USER\s+PID|PID\s+(?:PPID|USER|TTY|STAT)|UID\s+PID|F\s+S\s+UID)\b")),
    ("free", _has(r"^\s+total\s+used\s+free\s+shared")),
    ("vmstat", _has(r"^\s*r\s+b\s+swpd\s+free")),
    ("df", _has(r"^Filesystem\s+.*(?:Use%|IUse%|Capacity)")),
    ("lspci", _has(r"LnkSta:|^[0-9a-f]{2}:[0-9a-f]{2}\.\d (?:3D|VGA|PCI)")),
    ("meminfo", _has(r"^MemTotal:\s+\d+ kB")),
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
    for kind, matches in _KINDS:
        if matches(text):
            return kind
    if _PYTHON(text) and _parses_or_looks_like_python(text):
        return "python_source"
    if _is_table(text):
        return "table"
    if _LOG(text):
        return "training_log"
    return "config" if _is_config(text) or _is_json(text) else "text"


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
    prompts = [(i, found[1]) for i, line in enumerate(lines) if (found := _PROMPT.match(line[:400].decode("utf-8", "replace")))]
    if not prompts or (len(prompts) < 2 and prompts[0][0] > 0):
        return (Part(kind_of(data, name), 1, data),)
    found_parts = []
    if prompts[0][0] > 0 and any(line.strip() for line in lines[: prompts[0][0]]):
        head = b"\n".join(lines[: prompts[0][0]])
        found_parts.append(Part(kind_of(head), 1, head))
    for (start, command), (end, _) in zip(prompts, [*prompts[1:], (len(lines), "")], strict=True):
        body = b"\n".join(lines[start + 1 : end])
        found_parts.append(Part(kind_of(body), start + 2, body, command.strip()))
    return tuple(found_parts)
