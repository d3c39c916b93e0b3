"""The source of a function as the running job has it: whole, with file, lines and package version, and nothing
imported.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar

from diag_kit.errors import BadInput
from diag_kit.evidence import Evidence
from diag_kit.hosts.protocol import Host
from diag_kit.observe.probe import probe
from diag_kit.observe.python_source import Found, bases_of, find, find_anywhere, parse, reexport_of
from diag_kit.observe.raw import frame
from diag_kit.observe.remote_source import MAX_FILE_BYTES, MAX_FILES, SCRIPT
from diag_kit.records import CommandResult, Cost, Fact, NotUnderstood, Parsed

SOURCE = {
    "file": "string",
    "line_start": "Int64",
    "line_end": "Int64",
    "text": "string",
    "package": "string",
    "version": "string",
    "name": "string",
    "note": "string",
}


@dataclass(slots=True)
class SentFile:
    """One file as the host sent it. ``complete`` is False where it was longer than the limit."""

    path: str
    mtime: float | None
    size: int | None
    lines: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    @property
    def complete(self) -> bool:
        # one byte of slack for a missing newline at the end, and for line ends of two bytes
        return self.size is None or len(self.text.encode()) + len(self.lines) + 1 >= self.size


@dataclass(slots=True)
class Sent:
    """What ``remote_source.SCRIPT`` sent."""

    values: dict[str, list[str]] = field(default_factory=dict)
    problems: list[list[str]] = field(default_factory=list)
    files: list[SentFile] = field(default_factory=list)
    strange: list[NotUnderstood] = field(default_factory=list)
    ended: bool = False

    def value(self, name: str, position: int = 0) -> str:
        found = self.values.get(name, [])
        return found[position] if position < len(found) else ""


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def read_sent(text: str) -> Sent:
    """Pure: lines ``KEY<TAB>VALUE...``; lines behind "|" belong to the file named last."""
    sent = Sent()
    for number, line in enumerate(text.split("\n"), start=1):
        key, *values = line.split("\t")
        if line.startswith("|"):
            if sent.files:
                sent.files[-1].lines.append(line[1:])
        elif key == "file" and values:
            mtime = _whole(values[1]) if len(values) > 1 else None
            sent.files.append(SentFile(values[0], mtime, _whole(values[2]) if len(values) > 2 else None))
        elif key == "problem" and values:
            sent.problems.append(values)
        elif key == "end":
            sent.ended = True
        elif values:
            sent.values[key] = values
        elif line.strip() and not line.startswith("==diag_kit:") and len(sent.strange) < 20:
            sent.strange.append(NotUnderstood(f"source line {number}", line[:200], "not KEY, VALUE"))
    return sent


def job_arguments(known: Evidence) -> tuple[str, str, str]:
    """(interpreter, pid of a rank or of the job, start of the job in Unix seconds); empty where not known."""
    interpreter = known.fact("interpreter")
    ranks = known.table("ranks")
    pids = ranks["pid"].dropna().tolist() if ranks is not None else []
    job = known.fact("job_pid")
    pid = str(int(pids[0])) if pids else str(job.fact.value) if job else ""
    started = known.fact("job_started")
    seconds = ""
    if started is not None:
        try:
            moment = datetime.fromisoformat(str(started.fact.value))
            seconds = str(int(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()))
        except ValueError:
            seconds = ""
    return str(interpreter.fact.value) if interpreter else "", pid, seconds


@probe
@dataclass(frozen=True)
class Source:
    """The source of ``target``: "pkg.mod:Class.method", "pkg.mod:function", "pkg.mod", or "/path/file.py:name".

    The file is found through the job's own interpreter (``python``, else the fact ``interpreter``, else python3) from
    the places where that looks for packages, and read as text: no package code runs, no GPU is touched. The version
    comes from the package's metadata. A name that is not in the module asked for is looked up in the rest of the
    package, and that is said. ``dynamic=True`` asks ``inspect.getsource`` in a child of that interpreter (imports the
    package: seconds, memory), with its warnings kept apart. Table ``source``; facts library_version,
    source_changed_after_start.
    """

    target: str
    python: str | None = None
    dynamic: bool = False

    name: ClassVar[str] = "source"
    cost: ClassVar[Cost] = Cost.READ_ONLY
    equivalent: ClassVar[str] = (
        "PYTHON -c 'import importlib.util as u; print(u.find_spec(\"PKG\").origin)'; grep -n 'def NAME' FILE; sed -n 'A,Bp' FILE"
    )

    @property
    def budget_s(self) -> float:
        return 60.0 if self.dynamic else 10.0

    def collect(self, host: Host, known: Evidence, stop: threading.Event | None = None) -> tuple[CommandResult, ...]:
        module = self.target.partition(":")[0]
        if not module.startswith("/") and not all(part.isidentifier() for part in module.split(".")):
            raise BadInput(
                f"{self.target!r} names no source",
                where="source(target)",
                next_step='write "package.module:Class.method" or "/path/file.py:name"',
            )
        interpreter, pid, started = job_arguments(known)
        python = self.python or interpreter
        mode = "dynamic" if self.dynamic else "static"
        bounds = (str(MAX_FILE_BYTES), str(MAX_FILES))
        timeout_s = 90.0 if self.dynamic else 20.0
        arguments = (self.target, python, mode, pid, started, *bounds)
        return (host.run(SCRIPT, *arguments, timeout_s=timeout_s, stop=stop),)

    def read(self, results: tuple[CommandResult, ...]) -> Parsed:
        sent = read_sent(results[0].text if results else "")
        module, _, qualname = self.target.partition(":")
        rows, problems = _rows(sent, module, qualname, self.dynamic)
        problems += _sent_problems(sent, module, results)
        facts = _facts(sent, module)
        summary = _summary(rows, self.target, sent)
        return Parsed(summary, facts, {"source": frame(rows, SOURCE)}, tuple(sent.strange), tuple(problems))


def _row(sent: Sent, file: SentFile, found: Found, name: str, note: str) -> dict[str, Any]:
    lines = file.lines[found.start - 1 : found.end]
    return {
        "file": file.path,
        "line_start": found.start,
        "line_end": found.end,
        "text": "\n".join(lines),
        "package": sent.value("package") or None,
        "version": sent.value("version") or None,
        "name": name,
        "note": "; ".join(filter(None, (note, found.note))) or None,
    }


def _rows(sent: Sent, module: str, qualname: str, dynamic: bool) -> tuple[list[dict[str, Any]], list[str]]:
    if not sent.files:
        return [], []
    first, *others = sent.files
    if dynamic and sent.value("lines"):
        start, count = _whole(sent.value("lines")) or 1, len(first.lines)
        row = _row(sent, first, Found(1, count), qualname or module, "by inspect.getsource, after importing the package")
        row |= {"line_start": start, "line_end": start + count - 1}
        told = _whole(sent.value("lines", 1))
        return [row], [f"the source was cut: {count} of {told} lines came"] if told != count else []
    if not qualname:
        cut = [] if first.complete else [f"{first.path} is longer than {MAX_FILE_BYTES} bytes: cut"]
        return [_row(sent, first, Found(1, len(first.lines)), module, "")], cut
    direct = find(first.text, qualname)
    if direct is not None:
        return [_row(sent, first, direct, qualname, "")], []
    return _elsewhere(sent, first, others, module, qualname)


def _elsewhere(
    sent: Sent, first: SentFile, others: list[SentFile], module: str, qualname: str
) -> tuple[list[dict[str, Any]], list[str]]:
    """The object is not where it was asked for: a re-export, a base class, another module of the package."""
    tree = parse(first.text)
    head, _, method = qualname.rpartition(".")
    told = reexport_of(tree, qualname.split(".")[0]) if tree is not None else ""
    note = f"not defined in {module}" + (f", which takes it from {told}" if told else "")
    rows = [_row(sent, file, found, qualname, note) for file in others if (found := find(file.text, qualname)) is not None]
    if rows:
        return rows, []
    if head and tree is not None and (bases := bases_of(tree, head.split(".")[-1])):
        for file in (first, *others):
            for base in bases:
                if (found := find(file.text, f"{base.split('.')[-1]}.{method}")) is not None:
                    inherited = f"{head} has no own {method}: inherited from {base}"
                    return [_row(sent, file, found, f"{base}.{method}", inherited)], []
    name = qualname.split(".")[-1]
    rows = [
        _row(sent, file, found, name, f"{note}; another definition of that name")
        for file in (first, *others)
        if (found := find_anywhere(file.text, name)) is not None
    ]
    missing = f"{qualname} is not in {first.path}" + (f" (taken from {told})" if told else "")
    return rows, [] if rows else [f"{missing}, nor in the rest of the package"]


def _sent_problems(sent: Sent, module: str, results: tuple[CommandResult, ...]) -> list[str]:
    problems = []
    python = sent.value("interpreter")
    for kind, *rest in sent.problems:
        what = rest[0] if rest else ""
        if kind == "no-interpreter":
            problems.append(f"the interpreter {what} is not on the host: pass python=PATH; looked with the host's python3")
        elif kind == "no-dynamic":
            problems.append(f"{what or 'no interpreter'} cannot be run here (missing, or inside a container): use dynamic=False")
        elif kind == "no-module":
            where = f"the installed {what}" if what and what != module else f"the packages of {python or 'python3'}"
            problems.append(f"there is no module {module} in {where}: check the name, or pass python=PATH of the job")
        elif kind == "compiled":
            problems.append(f"{module} is compiled ({what}): there is no Python source")
        elif kind == "import":
            problems.append(f"importing {module} failed: {what}; dynamic=False reads the file without importing")
        else:
            problems.append(f"{kind}: {what}")
    if not sent.ended and not (sent.files and not module.startswith("/")):
        error = results[0].error_text.splitlines()[-1:] if results else []
        problems.append(f"the host's answer is incomplete: {error[0][:200] if error else 'no output'}")
    return problems


def _facts(sent: Sent, module: str) -> tuple[Fact, ...]:
    facts = []
    package, version = sent.value("package"), sent.value("version")
    if package and version:
        facts.append(Fact("library_version", f"{package} {version}", "package metadata on the host"))
    started = _whole(sent.value("started"))
    if started is not None and sent.files and sent.files[0].mtime is not None:
        changed = sent.files[0].mtime > started
        how = "edited after the training started: it may run other code" if changed else "unchanged since the start"
        facts.append(Fact("source_changed_after_start", changed, f"{sent.files[0].path}: {how}"))
    return tuple(facts)


def _summary(rows: list[dict[str, Any]], target: str, sent: Sent) -> str:
    if not rows:
        return f"{target}: not found"
    first = rows[0]
    version = f", {sent.value('package')} {sent.value('version')}" if sent.value("version") else ""
    more = f" (and {len(rows) - 1} more)" if len(rows) > 1 else ""
    return f"{first['name']}: {first['file']} lines {first['line_start']}-{first['line_end']}{version}{more}"
