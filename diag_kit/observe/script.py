"""What the running job's script says about its data: where each DataLoader is built, with which sampler, split or
not.
"""

from __future__ import annotations

import posixpath
import re
import shlex
import threading
from dataclasses import dataclass
from typing import Any, ClassVar

from diag_kit.errors import NothingToObserve
from diag_kit.evidence import Evidence
from diag_kit.hosts.protocol import Host
from diag_kit.observe.job_tree import program_of
from diag_kit.observe.probe import probe
from diag_kit.observe.process_dump import Process
from diag_kit.observe.raw import frame
from diag_kit.observe.remote_script import MAX_BYTES, SCRIPT
from diag_kit.observe.script_launch import ranks_started, shared_data
from diag_kit.observe.script_loaders import Loader, find_loaders
from diag_kit.observe.script_model import Program
from diag_kit.observe.script_traps import Seed, Trap, find_seeds, find_traps, printed_length
from diag_kit.observe.script_tree import unit
from diag_kit.observe.source import Sent, SentFile, job_arguments, read_sent
from diag_kit.records import CommandResult, Cost, Fact, NotUnderstood, Parsed

DATALOADERS = {
    "file": "string",
    "line": "Int64",
    "variable": "string",
    "side": "string",
    "dataset": "string",
    "sampler": "string",
    "batch_sampler": "string",
    "batch_size": "string",
    "shuffle": "string",
    "num_workers": "string",
    "verdict": "string",
    "why": "string",
    "text": "string",
}
TRAPS = {"file": "string", "line": "Int64", "trap": "string", "text": "string"}
_LOADER_WORD = re.compile(r"\b\w*(?:Data[Ll]oader|WebLoader)\s*\(")
_LOCAL_TORCH = re.compile(r"\bDataLoader\b|\bTrainer\b|Sampler|load_dataset")


@probe
@dataclass(frozen=True)
class SourceOfScript:
    """Reads the running job's script (``path``: another file) and the modules beside it that it imports, as text.

    Each DataLoader of the training side is followed: its sampler, batch sampler and dataset through variables,
    functions and ``if`` branches (settled by the job's own arguments and world size), and the framework calls that
    split it. Verdict "split", "not split" or "cannot tell", with the reason; source alone never confirms. Tables
    ``dataloaders``, ``traps``; facts split_by_source (once, twice, none, cannot tell), seeds, order_by_source,
    batch_size_per_rank, printed_length_is.
    """

    path: str | None = None

    name: ClassVar[str] = "source_of_script"
    cost: ClassVar[Cost] = Cost.READ_ONLY
    equivalent: ClassVar[str] = (
        "cat SCRIPT; grep -nE 'DataLoader|Sampler|\\.shard\\(|prepare\\(|manual_seed|set_epoch' SCRIPT *.py"
    )
    reads: ClassVar[tuple[str, ...]] = ("python_source",)

    @property
    def budget_s(self) -> float:
        return 10.0

    def collect(self, host: Host, known: Evidence, stop: threading.Event | None = None) -> tuple[CommandResult, ...]:
        stated = known.fact("script")
        path = self.path or (str(stated.fact.value) if stated else "")
        if not path:
            raise NothingToObserve(
                "the script of the training is not known",
                where="fact script",
                next_step="observe training_jobs() first, or name it: source_of_script(path=...)",
            )
        interpreter, pid, started = job_arguments(known)
        folder = known.fact("working_dir")
        world = known.fact("world_size")
        where = str(folder.fact.value) if folder else ""
        ranks = str(world.fact.value) if world else ""
        arguments = (path, where, pid, started, ranks, interpreter, str(MAX_BYTES))
        return (host.run(SCRIPT, *arguments, timeout_s=20.0, stop=stop),)

    def read(self, results: tuple[CommandResult, ...]) -> Parsed:
        sent = _all_sent(results)
        if not sent.files:
            problems = [_problem(each) for each in sent.problems] or ["the script could not be read"]
            return Parsed("the script was not read", problems=tuple(problems), not_understood=tuple(sent.strange))
        return _read_program(sent)


def _all_sent(results: tuple[CommandResult, ...]) -> Sent:
    """Our own script's output, or pasted Python files (one result each)."""
    whole = Sent()
    for result in results:
        text = result.text
        if "==diag_kit:script==" in text[:200]:
            sent = read_sent(text)
            whole.values |= sent.values
            whole.problems += sent.problems
            whole.files += sent.files
            whole.strange += sent.strange
        elif text.strip():
            whole.files.append(SentFile(_pasted_name(result.command), None, None, text.split("\n")))
    return whole


def _pasted_name(command: str) -> str:
    """The last Python file named in the command: of a part of a session, in the command pasted above it."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    words = [word for word in words if word.endswith(".py")]
    return words[-1] if words else "script.py"


def _problem(values: list[str]) -> str:
    kind, *rest = values
    what = rest[0] if rest else ""
    if kind == "unreadable":
        return f"{what} cannot be read on the host (missing, or another user's): name it with source_of_script(path=...)"
    return f"{kind}: {what}"


def _arguments(sent: Sent) -> dict[str, str | bool] | None:
    """The job's own command line as name -> value; a flag without value is True. None: no command line is known."""
    if not sent.value("cmd"):
        return None
    argv = tuple(sent.value("cmd").split("\x1f"))
    _, start = program_of(Process(0, argv=argv))
    found: dict[str, str | bool] = {}
    position = start
    while position < len(argv):
        word = argv[position]
        name, equals, value = word.partition("=")
        if word.startswith("-") and not re.fullmatch(r"-[\d.]+", word):
            key = name.lstrip("-").replace("-", "_")
            following = argv[position + 1] if position + 1 < len(argv) else ""
            takes = not equals and following and (not following.startswith("-") or re.fullmatch(r"-[\d.]+", following))
            found[key] = value if equals else following if takes else True
            position += 1 if takes else 0
        elif equals:
            found[name.rpartition(".")[2].replace("-", "_")] = value
        position += 1
    return found


def _read_program(sent: Sent) -> Parsed:
    units = []
    strange: list[NotUnderstood] = list(sent.strange)
    rows: list[dict[str, Any]] = []
    for file in sent.files:
        parsed = unit(file.path, file.text)
        if parsed is not None:
            units.append(parsed)
        elif _LOCAL_TORCH.search(file.text):
            strange.append(NotUnderstood(file.path, file.text[:200], "does not parse as Python here: searched by words"))
            rows += _by_words(file)
    world = sent.value("world")
    program = Program(units, _arguments(sent), int(world) if world.isdecimal() and len(world) < 8 else None)
    loaders, skipped = find_loaders(program)
    seeds, traps = find_seeds(program, loaders), find_traps(program, loaders)
    rows = [_row(loader) for loader in loaders] + rows
    train = [loader for loader in loaders if loader.side == "train"]
    facts = tuple(_facts(sent, program, train, seeds, traps, bool(rows)))
    facts += tuple(fact for fact in (ranks_started(units), shared_data(units)) if fact is not None)
    tables = {"dataloaders": frame(rows, DATALOADERS)}
    if traps:
        tables["traps"] = frame([{"file": t.file, "line": t.line, "trap": t.trap, "text": t.text} for t in traps], TRAPS)
    problems = [_problem(each) for each in sent.problems]
    if not rows:
        names = ", ".join(posixpath.basename(file.path) for file in sent.files[:6])
        problems.append(f"no DataLoader is built in {names}: it is made in a library, which the text alone does not show")
    return Parsed(_summary(train, skipped, sent), facts, tables, tuple(strange), tuple(problems))


def _row(loader: Loader) -> dict[str, Any]:
    return {
        "file": loader.file,
        "line": loader.line,
        "variable": loader.variable or None,
        "side": loader.side,
        "dataset": loader.dataset or None,
        "sampler": loader.sampler or None,
        "batch_sampler": loader.batch_sampler or None,
        "batch_size": loader.batch_size or None,
        "shuffle": loader.shuffle or None,
        "num_workers": loader.num_workers or None,
        "verdict": loader.verdict,
        "why": "; ".join(loader.why),
        "text": loader.text,
    }


def _by_words(file: SentFile) -> list[dict[str, Any]]:
    """For a file that does not parse here: where the word stands, and nothing concluded."""
    found = []
    for number, line in enumerate(file.lines, start=1):
        if _LOADER_WORD.search(line) and not line.lstrip().startswith(("#", "def ", "class ", "from ", "import ")):
            why = "the file does not parse here, so nothing was followed"
            side = "validation" if re.search(r"val|eval|test", line, re.I) else "train"
            row = {"file": file.path, "line": number, "side": side, "verdict": "cannot tell", "why": why}
            found.append(row | {"text": line.strip()[:400]})
    return found


def split_by_source(train: list[Loader]) -> str:
    """ "once", "twice", "none" or "cannot tell" over all training loaders that run."""
    counts = {loader.splits for loader in train}
    if not counts or None in counts:
        return "cannot tell"
    if counts == {0}:
        return "none"
    if min(count for count in counts if count is not None) == 0:
        return "cannot tell"
    return "twice" if any(count is not None and count > 1 for count in counts) else "once"


def order_by_source(train: list[Loader], seeds: list[Seed]) -> tuple[str, str]:
    """Of loaders that are not split: "same", "own" or "cannot tell" order on each rank, and why."""
    if not train or any(loader.splits != 0 for loader in train):
        return "", ""
    shuffles = {loader.shuffle for loader in train}
    if any(loader.iterable for loader in train):
        return "cannot tell", "an iterable dataset decides its own order"
    if any(part.kind != "none" for loader in train for part in loader.parts):
        return "cannot tell", "a sampler of its own decides the order"
    if shuffles == {"False"}:
        return "same", "shuffle is off: every rank reads in the dataset's order"
    if shuffles != {"True"}:
        return "cannot tell", "shuffle is not settled by the arguments"
    equal = [seed for seed in seeds if not seed.by_rank]
    if any(seed.by_rank for seed in seeds):
        return "own", "torch is seeded by rank"
    if equal:
        last = equal[-1]
        after = ", after the loader was built" if last.after_loader else ""
        return "same", f"{last.text} at line {last.line}{after} makes every rank shuffle alike"
    return "own", "torch is not seeded in these files: every rank draws its own order"


def _facts(sent: Sent, program: Program, train: list[Loader], seeds: list[Seed], traps: list[Trap], any_rows: bool) -> list[Fact]:
    where = f"{posixpath.basename(train[0].file)}:{train[0].line}" if train else posixpath.basename(sent.files[0].path)
    facts = []
    if any_rows:
        facts.append(Fact("split_by_source", split_by_source(train), where))
    order, why = order_by_source(train, seeds)
    if order:
        facts.append(Fact("order_by_source", order, f"{where}: {why}"))
    if seeds:
        text = "; ".join(f"{'by rank' if s.by_rank else 'same on every rank'}: {s.text}" for s in seeds[:4])
        facts.append(Fact("seeds", text, ", ".join(f"{posixpath.basename(s.file)}:{s.line}" for s in seeds[:4])))
    elif train:
        facts.append(Fact("seeds", "torch is not seeded in these files", where))
    sizes = {loader.batch_size for loader in train}
    if len(sizes) == 1 and (size := next(iter(sizes))).isdecimal():
        facts.append(Fact("batch_size_per_rank", int(size), f"{where}, DataLoader(batch_size=), in every rank"))
    if printed := printed_length(program, train):
        facts.append(Fact("printed_length_is", printed[0], f"{posixpath.basename(printed[1])}:{printed[2]}"))
    if traps:
        facts.append(Fact("source_traps", ", ".join(sorted({trap.trap for trap in traps})), where))
    started, mtime = sent.value("started"), sent.files[0].mtime
    if started.isdecimal() and len(started) < 13 and mtime is not None:
        changed = mtime > int(started)
        how = "edited after the training started: it may not be what runs" if changed else "unchanged since the start"
        facts.append(Fact("source_changed_after_start", changed, f"{sent.files[0].path}: {how}"))
    return facts


def _summary(train: list[Loader], skipped: int, sent: Sent) -> str:
    if not train:
        return f"{posixpath.basename(sent.files[0].path)}: no training DataLoader found in {len(sent.files)} files"
    first = train[0]
    more = f", {len(train) - 1} more" if len(train) > 1 else ""
    other = f"; {skipped} others not run with these arguments" if skipped else ""
    return f"{posixpath.basename(first.file)}:{first.line} {first.verdict}: {'; '.join(first.why)}{more}{other}"
