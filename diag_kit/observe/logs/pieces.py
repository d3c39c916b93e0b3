"""What was read of which log file: whole, or head and tail of a large one; fetched by one script, bounded.

The output of the script is a run of parts, each behind a line ``==diag_kit:part ...==`` that gives its place in the file
and its length. A plain ``cat FILE`` (a pasted log) is one whole piece.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from diag_kit.errors import NothingToObserve
from diag_kit.evidence import Evidence
from diag_kit.observe.logs.stamps import microseconds
from diag_kit.records import CommandResult

CHECK = r"""
check() {
  what=
  if [ -d "$1" ]; then what=directory
  elif [ -f "$1" ]; then [ -r "$1" ] || what=unreadable
  elif [ -e "$1" ]; then what=special
  elif [ -L "$1" ]; then what=dangling
  else what=missing
  fi
  [ -z "$what" ] && return 0
  printf '==diag_kit:problem file=%s what=%s==\n' "$2" "$what"
  if [ "$what" = directory ]; then ls -t -- "$1" 2>&1 | head -n 8 | cut -b1-200
  else ls -ld -- "$1" 2>&1 | head -n 2 | cut -b1-400
  fi
  return 1
}
"""
"""sh function: is ``$1`` (file number ``$2``) a readable regular file? Else a problem part. Never opens a pipe."""

READ_SCRIPT = (
    CHECK
    + r"""
limit=$1; shift
printf '==diag_kit:host now=%s zone=%s==\n' "$(date +%s)" "$(date +%z)"
n=0
for f in "$@"; do
  i=$n; n=$((n + 1))
  check "$f" "$i" || continue
  size=$(($(wc -c < "$f"))) || continue
  mtime=$(stat -L -c %Y "$f" 2>/dev/null || stat -L -f %m "$f" 2>/dev/null || echo 0)
  if [ "$size" -le "$limit" ]; then
    printf '==diag_kit:part file=%s kind=whole offset=0 line=1 bytes=%s size=%s mtime=%s==\n' "$i" "$size" "$size" "$mtime"
    head -c "$size" < "$f"; echo
    continue
  fi
  top=$((limit / 4)); rest=$((limit - top)); offset=$((size - rest))
  printf '==diag_kit:part file=%s kind=head offset=0 line=1 bytes=%s size=%s mtime=%s==\n' "$i" "$top" "$size" "$mtime"
  head -c "$top" < "$f"; echo
  line=0
  if [ "$offset" -le 2147483648 ]; then line=$(($(head -c "$offset" < "$f" | wc -l) + 1)); fi
  printf '==diag_kit:part file=%s kind=tail offset=%s line=%s bytes=%s size=%s mtime=%s==\n' \
    "$i" "$offset" "$line" "$rest" "$size" "$mtime"
  tail -c "$rest" < "$f" | head -c "$rest"; echo
done
"""
)

_MARK = re.compile(rb"^==diag_kit:([a-z]+)((?: [a-z_]+=[^\s=]*)*)==\n", re.MULTILINE)
_NEXT_STEP = {
    "missing": "check the name on the host, or give the log with --log PATH",
    "dangling": "the link points to nothing: give the real file with --log PATH",
    "unreadable": "log in as the user who owns it, or have it made readable",
    "directory": "give one file in it with --log PATH",
    "special": "it is a pipe or device, and reading it would take data from its reader: give the file that its reader writes",
}
_WHAT = {
    "missing": "does not exist",
    "dangling": "is a link to a file that does not exist",
    "unreadable": "may not be read by this user",
    "directory": "is a directory",
    "special": "is no regular file",
}


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of one log. ``first_line`` None: its line numbers are not known. ``numbers``: of picked lines, one by one.

    ``reference_us``: the host's wall clock (microseconds, labelled UTC) when the file was last written, for stamps without
    a date. ``left_out``: bytes of the file that were not read, before this piece. ``cut``: it may begin in mid-line;
    ``growing``: it may end in mid-line, because a writer is at work or more of the file follows.
    """

    file: str
    host: str
    data: bytes
    first_line: int | None
    reference_us: int
    left_out: int = 0
    cut: bool = False
    growing: bool = False
    numbers: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """One marked part of an output: its kind ("part", "problem", "tick"), its fields, its bytes."""

    kind: str
    fields: dict[str, str]
    data: bytes

    def number(self, name: str, default: int = 0) -> int:
        try:
            return int(float(self.fields.get(name, default)))
        except (ValueError, OverflowError):
            return default


def parts(output: bytes) -> Iterator[Part]:
    """The marked parts. The stated length is believed if the next mark stands there; else the next mark ends the part
    (redaction may have changed lengths)."""
    match = _MARK.search(output)
    while match:
        kind = match[1].decode("ascii")
        fields = dict(pair.split("=", 1) for pair in match[2].decode("utf-8", "replace").split())
        start = match.end()
        part = Part(kind, fields, b"")
        end = start + max(0, part.number("bytes")) + 1
        following = _MARK.match(output, end) if "bytes" in fields and end <= len(output) else None
        if following is None and not ("bytes" in fields and end == len(output)):
            following = _MARK.search(output, start)
        stop = following.start() if following else len(output)
        data = output[start:stop]
        yield Part(kind, fields, data[:-1] if "bytes" in fields and data.endswith(b"\n") else data)
        match = following


def asked_files(result: CommandResult, skip: int) -> list[str]:
    """The paths that a command was given: after ``skip`` other arguments of a script of the kit, or the end of ``cat PATH``."""
    try:
        words = shlex.split(result.command, comments=result.command.startswith("cat "))
    except ValueError:
        words = result.command.split()
    if len(words) > 4 and words[1] == "-c" and words[3] == "diag_kit":
        return words[4 + skip :]
    return words[-1:]


def problem_sentence(part: Part, name: str) -> str:
    """What is wrong with a file, and the next step."""
    what = part.fields.get("what", "missing")
    said = part.data.decode("utf-8", "replace").strip()
    if what == "missing" and "ermission denied" in said:
        what = "unreadable"
    sentence = f"{name} {_WHAT.get(what, 'could not be read')}"
    if what == "directory" and said:
        sentence += " (newest in it: " + ", ".join(said.splitlines()[:5]) + ")"
    elif what == "unreadable" and said:
        sentence += f" ({said.splitlines()[0]})"
    return f"{sentence}: {_NEXT_STEP.get(what, 'give another file with --log PATH')}"


def log_paths(path: str | Sequence[str] | None, known: Evidence) -> tuple[str, ...]:
    """The files to read: the parameter, or what the newest observation that knows a ``log_path`` says.

    Raises NothingToObserve when no log is known.
    """
    if path:
        return (path,) if isinstance(path, str) else tuple(path)
    stated = [found for found in known.facts("log_path") if isinstance(found.fact.value, str) and found.fact.value]
    if not stated:
        raise NothingToObserve(
            "no training log is known",
            where="log_path",
            next_step="give it: --log PATH on the command line, path=... in a notebook; or observe training_jobs() first",
        )
    told = {seen.id for seen in known.observations if seen.probe == "told"}
    by_user = [found for found in stated if found.id in told]
    newest = (by_user or stated)[-1].id  # what the user names counts more than what was found
    return tuple(dict.fromkeys(str(found.fact.value) for found in stated if found.id == newest))


def pieces(result: CommandResult, skip: int = 1) -> tuple[list[Piece], list[str]]:
    """What one result holds, and sentences on what could not be read."""
    names = asked_files(result, skip)
    if not _MARK.match(result.stdout):
        return _pasted(result, names[0] if names else "log")
    found: list[Piece] = []
    problems: list[str] = []
    zone_us = 0
    seen_end: dict[int, int] = {}
    for part in parts(result.stdout):
        index = part.number("file")
        name = names[index] if 0 <= index < len(names) else f"file {index + 1}"
        if part.kind == "host":
            zone_us = _zone_us(part.fields.get("zone", ""))
        elif part.kind == "problem":
            problems.append(problem_sentence(part, name))
        elif part.kind == "part":
            written = part.number("mtime") * 1_000_000
            reference = (written or microseconds(result.started)) + zone_us
            kind, offset = part.fields.get("kind", ""), part.number("offset")
            line = part.number("line") or None
            left_out = max(0, offset - seen_end.get(index, 0)) if kind == "tail" else 0
            found.append(_piece(part, name, result.host, line, reference, left_out, kind))
            seen_end[index] = offset + len(part.data)
    if result.truncated:
        problems.append("the output was cut at the kit's limit: the last lines are missing; ask with a smaller max_mib")
    if result.timed_out:
        problems.append("reading the log took too long and was stopped: what came until then is shown")
    if not found and not problems:
        problems.append(f"the log could not be read: {result.error_text or 'no output'}; give another file with --log PATH")
    return found, problems


def _piece(part: Part, name: str, host: str, line: int | None, reference: int, left_out: int, kind: str) -> Piece:
    data, numbers = part.data, None
    if kind == "lines":
        data, numbers = _numbered(data)
    return Piece(name, host, data, line, reference, left_out, kind == "tail", kind != "lines", numbers)


def _numbered(data: bytes) -> tuple[bytes, tuple[int, ...]]:
    """``grep -n``'s output: the texts, and their numbers."""
    texts: list[bytes] = []
    numbers: list[int] = []
    for line in data.split(b"\n"):
        number, colon, text = line.partition(b":")
        if colon and number.isdigit() and len(number) < 15:
            texts.append(text)
            numbers.append(int(number))
    return b"\n".join(texts), tuple(numbers)


def _pasted(result: CommandResult, name: str) -> tuple[list[Piece], list[str]]:
    if not result.stdout:
        why = result.error_text or ("the file is empty" if result.ok else "no output")
        return [], [f"{name} could not be read: {why}; give another file with --log PATH"]
    if result.stdout[:2] == b"\x1f\x8b" or result.stdout[:4] == b"\x28\xb5\x2f\xfd":
        return [], [f"{name} is compressed: unpack it first (zcat, zstdcat) and give the text"]
    return [Piece(name, result.host, result.stdout, 1, microseconds(result.started))], []


def _zone_us(zone: str) -> int:
    if not re.fullmatch(r"[+-]\d{4}", zone):
        return 0
    offset = (int(zone[1:3]) * 60 + int(zone[3:])) * 60_000_000
    return -offset if zone[0] == "-" else offset
