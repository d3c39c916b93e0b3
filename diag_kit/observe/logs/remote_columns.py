"""The probe ``log_columns``: some columns of a log of any size, picked out on the host; the log itself stays there."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar

import pandas as pd

from diag_kit.evidence import Evidence
from diag_kit.hosts.protocol import Host
from diag_kit.observe.logs.column_script import COLUMNS_SCRIPT, SAMPLE_SCRIPT, awk_program, can_be_cut, python_arguments
from diag_kit.observe.logs.columns_read import Whole, counted, frame_of, printed_columns, read_columns
from diag_kit.observe.logs.derived import derived_facts, progress_frame
from diag_kit.observe.logs.learn_shapes import learn
from diag_kit.observe.logs.line_shape import Shape
from diag_kit.observe.logs.pieces import Part, _zone_us, asked_files, log_paths, parts, problem_sentence
from diag_kit.observe.logs.read import not_understood, summarise
from diag_kit.observe.logs.stamps import microseconds
from diag_kit.observe.probe import probe
from diag_kit.records import CommandResult, Cost, Parsed

SAMPLE_BYTES = 96 * 2**10
MAX_OUTPUT_BYTES = 512 * 2**20


@probe
@dataclass(frozen=True)
class LogColumns:
    """The metric records of one log with the columns that are asked for, whatever the log's size.

    Equivalent: ``awk -F"[:,}]" '/loss/ {print $2, $5}' LOG | zstd``. Two steps: three samples of the log teach the kit what its
    metric lines look like; then awk or Python on the host ships the wanted numbers of such lines and every other line as it is,
    compressed. The rows are those of ``log_metrics`` with fewer columns. ``columns``: besides rank, t, epoch, step, micro_step,
    split, line, file, lr; loss stays empty unless it is named. ``max_mib``: of a larger log the last so many. ``processes``:
    how many parts of the log are looked through at the same time; each takes one core of the host at the lowest priority.

    Tables and facts as in ``log_metrics``.
    """

    path: str | None = None
    columns: tuple[str, ...] = ("loss",)
    max_mib: float = 4096
    processes: int = 1
    tool: str = "auto"

    name: ClassVar[str] = "log_columns"
    cost: ClassVar[Cost] = Cost.READ_ONLY
    equivalent: ClassVar[str] = "awk '/loss/ {print $2, $5, $9}' LOG | zstd"

    @property
    def budget_s(self) -> float:
        return 60.0

    def collect(self, host: Host, known: Evidence, stop: threading.Event | None = None) -> tuple[CommandResult, ...]:
        path = log_paths(self.path, known)[0]
        sample = host.run(SAMPLE_SCRIPT, str(SAMPLE_BYTES), path, timeout_s=30.0, max_bytes=4 * SAMPLE_BYTES, stop=stop)
        size = next((part.number("size") for part in parts(sample.stdout) if part.kind == "sample"), 0)
        if not size:
            return (sample,)
        shapes, columns = _shapes(sample, self.columns), tuple(self.columns)
        first = max(0, size - int(self.max_mib * 2**20))
        share = max(1, -(-(size - first) // max(1, min(8, self.processes))))
        ranges = [(start, min(size, start + share)) for start in range(first, size, share)]
        ask = [awk_program(shapes, columns), path, *python_arguments(shapes, columns)]

        def run(span: tuple[int, int]) -> CommandResult:
            arguments = [str(span[0]), str(span[1]), self.tool if shapes else "awk", *ask]
            return host.run(COLUMNS_SCRIPT, *arguments, timeout_s=self.budget_s, max_bytes=MAX_OUTPUT_BYTES, stop=stop)

        if len(ranges) == 1:
            return (sample, run(ranges[0]))
        with ThreadPoolExecutor(len(ranges), thread_name_prefix="diag_kit") as pool:
            return (sample, *pool.map(run, ranges))

    def read(self, results: tuple[CommandResult, ...]) -> Parsed:
        if not results:
            return Parsed("no log could be read", problems=("nothing was asked",))
        file = _file(results[0])
        problems = [problem_sentence(part, file) for part in parts(results[0].stdout) if part.kind == "problem"]
        shapes = _shapes(results[0], self.columns)
        body, said, head = _body(results[1:], file)
        if head is None:
            problems += said or ([] if problems else [f"{file} could not be read: {results[0].error_text or 'no output'}"])
            return Parsed("no log could be read", problems=tuple(problems))
        written = head.number("mtime") * 1_000_000
        reference = (written or microseconds(results[0].started)) + _zone_us(head.fields.get("zone", ""))
        try:
            whole = read_columns(body, shapes, self.columns, file, results[0].host, reference)
        except ValueError as error:
            problems.append(f"{file}: the host's answer cannot be read ({error}); ask with log_metrics")
            return Parsed("no log could be read", problems=tuple(problems))
        metrics, midnights = frame_of(whole, self.columns, file, results[0].host, reference)
        return _parsed(whole, metrics, midnights, file, [*problems, *said])


def _parsed(whole: Whole, metrics: pd.DataFrame, midnights: int, file: str, problems: Sequence[str]) -> Parsed:
    reading = counted(whole, file)
    missing = [name for name in printed_columns(whole) if name not in metrics.columns]
    named = metrics.assign(**dict.fromkeys(missing, float("nan")))  # which columns there are says which release printed them
    facts = derived_facts(reading, named, midnights)
    tables = {"metrics": metrics, "progress": progress_frame(reading)}
    return Parsed(
        summary=summarise(reading, metrics, facts),
        facts=tuple(facts),
        tables={name: table for name, table in tables.items() if len(table)},
        not_understood=tuple(not_understood(reading)),
        problems=tuple(problems),
    )


def _file(result: CommandResult) -> str:
    return (asked_files(result, 1) or ["log"])[0]


def _shapes(sample: CommandResult, columns: Sequence[str]) -> tuple[Shape, ...]:
    """Learned again from the sample at each reading, so that a recording is read like the host."""
    whole: list[bytes] = []
    for part in parts(sample.stdout):
        if part.kind == "part":
            data = part.data.removesuffix(b"\n")
            begin = data.find(b"\n") + 1 if part.number("offset") else 0
            whole.append(data[begin : data.rfind(b"\n") + 1])
    shapes = learn(b"".join(whole), tuple(columns))
    return tuple(shape for shape in shapes if can_be_cut(shape, tuple(columns)))


def _body(results: Sequence[CommandResult], file: str) -> tuple[bytes, list[str], Part | None]:
    """What the parts of the log brought, in order; up to the first that is not whole."""
    bodies: list[bytes] = []
    problems: list[str] = []
    head: Part | None = None
    expected = -1
    for result in results:
        found = {part.kind: part for part in parts(result.stdout)}
        here, end = found.get("columns"), found.get("end")
        if here is None:
            problems.append(f"{file} could not be read: {result.error_text or 'no output'}")
            break
        if expected >= 0 and here.number("from") != expected:
            problems.append(f"{file} changed while it was read; read it again")
            break
        head = head or here
        expected = here.number("to")
        data = here.data
        if end is None or result.truncated or result.timed_out:
            bodies.append(data[: data.rfind(b"\n") + 1])
            problems.append(f"{file}: reading was ended early ({'time' if result.timed_out else 'size'}): the rest is missing")
            break
        if here.fields.get("ended") == "0" and data:  # a line that is still being written
            data = data[: data.rfind(b"\n", 0, len(data) - 1) + 1]
        bodies.append(data)
    if head is not None and head.number("from") > 0:
        problems.insert(0, f"{file}: the first {head.number('from') / 2**20:,.1f} MiB were not read; ask with a larger max_mib")
    return b"".join(bodies), problems, head
