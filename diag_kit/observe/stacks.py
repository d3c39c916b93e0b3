"""Where each rank is in its code, with the sampler's class and fields where a frame holds them: py-spy, with consent only."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from diag_kit.evidence import Evidence
from diag_kit.hosts.protocol import Host
from diag_kit.observe.opened_files import rank_arguments
from diag_kit.observe.probe import probe
from diag_kit.observe.raw import frame, parts, show, why_cut_short
from diag_kit.records import CommandResult, Cost, Fact, NotUnderstood, Parsed

SCRIPT = r"""
beside=$1; shift
tool=$(command -v py-spy 2>/dev/null)
[ -n "$tool" ] || { [ -x "$beside/py-spy" ] && tool=$beside/py-spy; }
[ -n "$tool" ] || { echo '==diag_kit:missing=='; exit 0; }
limit() { if command -v timeout >/dev/null 2>&1; then timeout "$@"; else shift; "$@"; fi; }
for pair in "$@"; do
    echo "==diag_kit:rank_${pair%%:*}_pid_${pair##*:}=="
    limit 10 "$tool" dump --locals --pid "${pair##*:}" 2>&1
done
"""
STACKS = {
    "rank": "Int64",
    "pid": "Int64",
    "thread": "string",
    "state": "string",
    "depth": "Int64",
    "function": "string",
    "file": "string",
    "line": "Int64",
}
THREADS = {"rank": "Int64", "pid": "Int64", "thread_id": "string", "thread": "string", "state": "string", "frames": "Int64"}
_PART = re.compile(r"^rank_(\d{1,9})_pid_(\d{1,9})$")
_PROCESS = re.compile(r"^Process (\d{1,9}): ")
_THREAD = re.compile(r"^Thread (0[xX][0-9A-Fa-f]+|\d+) \(([a-z+]+)\)(?:: \"(.*)\")?")
_AFTER_COMMAND = re.compile(r"^(?:Python v\d|Thread (?:0[xX][0-9A-Fa-f]+|\d+) \(|[ \t]*$)")
_FRAME = re.compile(r"^ {4}(\S.*?) \((.+?)(?::(\d{1,9}))?\)$")
_VALUE = re.compile(r"^ {12}(\w+): (.*)$")
_SAMPLER = re.compile(r"<(?:\w+\.)*(\w*Sampler\w*)")
_FIELDS = ("num_replicas", "rank", "world_size", "num_shards", "shard_id", "shuffle", "seed", "drop_last")
_REFUSED = re.compile(r"(?i)permission|not permitted|ptrace|failed to|no such process|error:")


@probe
@dataclass(frozen=True)
class Stacks:
    """The Python stack of each rank, once, with local variables. Pauses each process for a moment: asks first.

    Equivalent: ``py-spy dump --locals --pid PID``. Needs py-spy on the host (on the PATH, or beside the job's interpreter) and
    the permission to trace. Tables: ``stacks`` (rank pid thread state depth function file line; depth 0 is the innermost frame)
    and ``stack_threads`` (rank pid thread_id thread state frames), also for a thread without frames. Reads ``--json`` too. A
    failure of py-spy is a problem, never an idle process. Facts: stack_processes, stack_threads, threads_with_gil,
    sampler_in_memory (the class of a sampler that a frame holds) and its fields, such as sampler_num_replicas. A sampler is on
    the stack only while it draws: not seeing one says nothing.
    """

    name: ClassVar[str] = "stacks"
    cost: ClassVar[Cost] = Cost.CAREFUL
    equivalent: ClassVar[str] = "py-spy dump --locals --pid PID"
    reads: ClassVar[tuple[str, ...]] = ("py_spy",)

    @property
    def budget_s(self) -> float:
        return 60.0

    def collect(self, host: Host, known: Evidence, stop: threading.Event | None = None) -> tuple[CommandResult, ...]:
        interpreter = known.fact("interpreter")
        beside = str(interpreter.fact.value).rpartition("/")[0] if interpreter else ""
        return (host.run(SCRIPT, beside, *rank_arguments(known), timeout_s=self.budget_s, stop=stop),)

    def read(self, results: tuple[CommandResult, ...]) -> Parsed:
        seen = _Seen()
        for result in results:
            for name, text in parts(result.text):
                if name == "missing":
                    seen.problems.append(f"no py-spy on {result.host}: the ranks' stacks stay blind; pip install py-spy there")
                    continue
                part = _PART.match(name)
                _read_dump(seen, text, int(part[1]) if part else None, int(part[2]) if part else None)
            if cut := why_cut_short(result):
                seen.problems.append(cut)
        return _parsed(seen)


@dataclass(slots=True)
class _Seen:
    rows: list[dict[str, object]] = field(default_factory=list)
    threads: list[dict[str, object]] = field(default_factory=list)
    processes: set[int] = field(default_factory=set)
    samplers: dict[str, str] = field(default_factory=dict)
    fields: dict[str, str] = field(default_factory=dict)
    odd: list[NotUnderstood] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def _read_dump(seen: _Seen, text: str, rank: int | None, pid: int | None) -> None:
    if text.lstrip()[:1] in ("[", "{") and _read_json(seen, text, rank, pid):
        return
    thread = state = ""
    depth, holder = 0, ""
    naming = False  # the process's command line, which may hold line ends
    before = len(seen.rows)
    for number, line in enumerate(text.splitlines(), 1):
        if found := _PROCESS.match(line):
            pid, naming = int(found[1]), True
            thread = state = ""
            seen.processes.add(pid)
        elif naming and not _AFTER_COMMAND.match(line):
            continue
        elif found := _THREAD.match(line):
            thread, state, depth, holder, naming = found[3] or "", found[2], 0, "", False
            seen.threads.append({"rank": rank, "pid": pid, "thread_id": found[1], "thread": thread, "state": state, "frames": 0})
        elif (found := _FRAME.match(line)) and (thread or state):
            row: dict[str, object] = {"rank": rank, "pid": pid, "thread": thread, "state": state, "depth": depth}
            seen.rows.append(row | {"function": found[1], "file": found[2], "line": int(found[3]) if found[3] else None})
            depth, holder = depth + 1, ""
            seen.threads[-1]["frames"] = depth
        elif found := _VALUE.match(line):
            holder = _read_value(seen, found[1], found[2], holder, f"rank {rank}" if rank is not None else f"pid {pid}")
        elif line.startswith("Python v"):
            naming = False
        elif line.strip() and not line.startswith(("Python v", "        ")) and len(seen.odd) < 20:
            seen.odd.append(NotUnderstood(f"py-spy line {number}", line[:200], "no thread, frame or value"))
    if len(seen.rows) == before and (failure := _failure(text)):
        who = f"rank {rank}" if rank is not None else "the process"
        seen.problems.append(f"py-spy could not read {who}: {show(text)}; {failure}")
        seen.odd = [odd for odd in seen.odd if odd.text.strip() not in text]


def _failure(text: str) -> str:
    """The next step for an error text of py-spy; empty where it is none. No data is not an idle process."""
    if re.search(r"(?i)find python version|python interpreter|PyInterpreterState|PyThreadState", text):
        return "this py-spy is too old for that Python, or the process is no Python; nothing was seen of it"
    if re.search(r"(?i)no such process", text):
        return "the process has ended"
    return "it needs root or the right to trace (ptrace)" if _REFUSED.search(text) else ""


def _read_json(seen: _Seen, text: str, rank: int | None, pid: int | None) -> bool:
    """``py-spy dump --json``: a list of threads, each with its frames, innermost first. False where it is no such list."""
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError):
        seen.odd.append(NotUnderstood("py-spy dump --json", text[-80:], "the JSON is cut or broken"))
        return True
    if not isinstance(listed, list):
        return False
    for thread in (each for each in listed if isinstance(each, dict)):
        own = thread.get("pid")
        process = own if isinstance(own, int) and not isinstance(own, bool) and 0 < own < 2**31 else pid
        state = ("active" if thread.get("active") else "idle") + ("+gil" if thread.get("owns_gil") else "")
        head: dict[str, object] = {"rank": rank, "pid": process, "thread": str(thread.get("thread_name") or ""), "state": state}
        frames = thread.get("frames")
        kept = [each for each in frames if isinstance(each, dict)] if isinstance(frames, list) else []
        for depth, each in enumerate(kept):
            line = each.get("line")
            place: dict[str, object] = {"depth": depth, "function": str(each.get("name", ""))[:300]}
            place |= {"file": str(each.get("short_filename") or each.get("filename") or "")[:500]}
            seen.rows.append(head | place | {"line": line if isinstance(line, int) and 0 < line < 2**31 else None})
        if process is not None:
            seen.processes.add(process)
        seen.threads.append(head | {"thread_id": str(thread.get("thread_id", ""))[:40], "frames": len(kept)})
    return True


def _read_value(seen: _Seen, name: str, text: str, holder: str, who: str) -> str:
    """Note a sampler, or a field in a frame whose ``self`` is one. Gives the sampler that this frame belongs to."""
    sampler = _SAMPLER.search(text)
    if sampler:
        seen.samplers.setdefault(sampler[1], who)
        return sampler[1] if name == "self" else holder
    if holder and name in _FIELDS and len(text) < 40:
        seen.fields.setdefault(name, text)
    return holder


def _parsed(seen: _Seen) -> Parsed:
    facts = [Fact("sampler_in_memory", name, f"a frame of {who}") for name, who in seen.samplers.items()]
    facts += [Fact(f"sampler_{name}", text, "a frame of the sampler") for name, text in seen.fields.items()]
    if seen.threads:
        facts.append(Fact("stack_processes", len(seen.processes) or None, "py-spy dump"))
        facts.append(Fact("stack_threads", len(seen.threads), "py-spy dump"))
        gil = sum("gil" in str(thread["state"]) for thread in seen.threads)
        facts.append(Fact("threads_with_gil", gil, "py-spy dump"))
    places = list(_innermost(seen.rows))
    said = f"{len(places)} main threads: {', '.join(places[:4])}" if places else f"{len(seen.rows)} frames"
    return Parsed(
        (seen.problems[0] if seen.problems and not seen.rows else said)
        + (f"; sampler {', '.join(seen.samplers)}" if seen.samplers else ""),
        tuple(fact for fact in facts if fact.value is not None),
        {"stacks": frame(seen.rows, STACKS), "stack_threads": frame(seen.threads, THREADS)},
        tuple(seen.odd),
        tuple(dict.fromkeys(seen.problems)),
    )


def _innermost(rows: Iterable[dict[str, object]]) -> Iterable[str]:
    return (str(row["function"]) for row in rows if row["thread"] == "MainThread" and row["depth"] == 0)
