"""Every DataLoader that a script builds on its training side, and whether it is split over the ranks. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from diag_kit.observe.script_arguments import batch_size_of, known_text, loader_arguments
from diag_kit.observe.script_model import Program
from diag_kit.observe.script_split import (
    ABSENT,
    PLAIN,
    RANK_AWARE,
    RANK_KEYWORDS,
    UNCLEAR,
    Lightning,
    Part,
    dataset_part,
    lightning,
    sampler_part,
    wrapped_by,
)
from diag_kit.observe.script_tree import Unit, called, keyword, short, written

_LOADER = re.compile(r"^\w*(?:Data[Ll]oader|WebLoader)$")
_NOT_LOADERS = {"prepare_dataloader", "prepare_data_loader", "get_train_dataloader", "train_dataloader"}
_VALIDATION = re.compile(r"(?:^|_|\b)(val|valid|validation|eval|evaluation|test|dev)(?:_|\b|\d|s?$|loader|data|set)", re.I)
_HF_TRAINER = re.compile(r"^(?!pl$|L$)\w*Trainer$")
_ONE_DRIVER = re.compile(r"^\s*(?:import|from)\s+(?:ray|verl)\b", re.M)


@dataclass(frozen=True, slots=True)
class Loader:
    """One construction. ``splits`` counts by how many means it is split; None where that cannot be told."""

    file: str
    line: int
    variable: str
    side: str
    text: str
    dataset: str = ""
    sampler: str = ""
    batch_sampler: str = ""
    batch_size: str = ""
    shuffle: str = ""
    num_workers: str = ""
    splits: int | None = None
    why: tuple[str, ...] = ()
    iterable: bool = False
    parts: tuple[Part, ...] = field(default=(), repr=False)

    @property
    def verdict(self) -> str:
        return "cannot tell" if self.splits is None else "split" if self.splits else "not split"


def find_loaders(program: Program) -> tuple[list[Loader], int]:
    """Loaders that run with the job's arguments, and how many others do not."""
    found: list[Loader] = []
    skipped = 0
    frame = lightning(program)
    for unit in program.units:
        for node in ast.walk(unit.tree):
            if not isinstance(node, ast.Call):
                continue
            if _is_loader(program, node):
                if program.called_at_all(unit, node):
                    found.append(_loader(program, unit, node, frame))
                else:
                    skipped += 1
    if not any(loader.side == "train" for loader in found):
        found += list(_made_by_framework(program, frame))
    return sorted(found, key=lambda each: (each.side != "train", each.file, each.line)), skipped


def _is_loader(program: Program, call: ast.Call) -> bool:
    name = short(call)
    if name in _NOT_LOADERS or not _LOADER.match(name) or name[0].islower():
        return False
    # a subclass's own super().__init__ is no construction; a call of a class of the script is, if it is a loader at all
    own = program.class_named(name)
    return own is None or any("oader" in written(base) for base in own[1].bases)


def _variable(where: Unit, call: ast.Call) -> str:
    """The name that the loader gets; of a returned one the function's name."""
    statement = where.statement_of(call)
    if isinstance(statement, ast.Assign):
        return written(statement.targets[0], 60)
    if isinstance(statement, ast.AnnAssign):
        return written(statement.target, 60)
    function = where.function_of(call)
    return function.name if function is not None and isinstance(statement, ast.Return) else ""


def _side(program: Program, where: Unit, call: ast.Call, variable: str, dataset: str) -> str:
    function = where.function_of(call)
    name = function.name if function is not None else ""
    if "train" in variable.lower() or "train" in name.lower():
        return "train"
    if _VALIDATION.search(variable) or _VALIDATION.search(name) or _VALIDATION.search(dataset):
        return "validation"
    if function is not None and isinstance(where.statement_of(call), ast.Return):
        places = [written(place.statement_of(site)) for place, site in program.calls(function.name)]
        if places and all(_VALIDATION.search(text.partition("=")[0]) for text in places):
            return "validation"
    return "train"


def _loader(program: Program, where: Unit, call: ast.Call, frame: Lightning) -> Loader:
    arguments, complete = loader_arguments(program, where, call)
    variable = _variable(where, call)
    dataset = arguments.get("dataset")
    splits, why, parts, iterable = _splits(program, where, call, arguments, complete, variable, frame)
    sampler, batches = arguments.get("sampler"), arguments.get("batch_sampler")
    shown = {"sampler": _sampler_text(program, where, sampler), "batch_sampler": _sampler_text(program, where, batches)}
    return Loader(
        file=where.file,
        line=call.lineno,
        variable=variable,
        side=_side(program, where, call, variable, written(dataset, 60)),
        text=written(call, 400),
        dataset=written(dataset, 80),
        batch_size=batch_size_of(program, where, arguments),
        shuffle=known_text(program, where, arguments.get("shuffle")) or "False",
        num_workers=known_text(program, where, arguments.get("num_workers")) or "0",
        splits=splits,
        why=tuple(dict.fromkeys(filter(None, why))),
        iterable=iterable,
        parts=tuple(parts),
        **shown,
    )


def _sampler_text(program: Program, where: Unit, node: ast.expr | None) -> str:
    if node is None:
        return ""
    names = {part.name or part.kind for part in sampler_part(program, where, node)}
    return " or ".join(sorted("" if name == ABSENT else name for name in names)).strip()


def _splits(
    program: Program,
    where: Unit,
    call: ast.Call,
    arguments: dict[str, ast.expr],
    complete: bool,
    variable: str,
    frame: Lightning,
) -> tuple[int | None, list[str], list[Part], bool]:
    """By how many means this loader is split, the sentences, the parts, and whether the dataset is an iterable."""
    parts: list[Part] = []
    for name in ("sampler", "batch_sampler"):
        node = arguments.get(name)
        ways = sampler_part(program, where, node) if node is not None else []
        parts += ways if any(way.kind != ABSENT for way in ways) else []
    if short(call) != "DataLoader" and RANK_KEYWORDS & set(arguments):
        parts.append(Part(RANK_AWARE, f"{short(call)} is given the rank", short(call)))
    dataset = arguments.get("dataset")
    data = dataset_part(program, where, dataset) if dataset is not None else Part(PLAIN, "")
    iterable = data.name == "iterable"
    framework = _framework(program, where, call, variable, frame, parts, iterable, "batch_sampler" in arguments)
    kinds = {part.kind for part in parts}
    why = [part.why for part in parts] or ["no sampler"]
    why += [data.why, framework.why]
    if not complete and not kinds & {RANK_AWARE}:
        return None, [*why, "some arguments come from a dictionary that could not be followed"], parts, iterable
    if UNCLEAR in kinds or data.kind == UNCLEAR or framework.kind == UNCLEAR:
        return None, why, parts, iterable
    if RANK_AWARE in kinds and kinds & {PLAIN, ABSENT}:
        return None, [*why, "which of them is used is not settled by the arguments"], parts, iterable
    count = int(RANK_AWARE in kinds) + int(data.kind == RANK_AWARE) + int(framework.kind == RANK_AWARE)
    if count == 0 and iterable:
        why.append("an iterable dataset that does not look at the rank gives everything to every rank")
    if count == 0 and not kinds - {ABSENT} and call.args and short(call) != "DataLoader" and program.class_named(short(call)):
        why.append(f"{short(call)} is a class of the script")
    return count, why, parts, iterable


def _framework(
    program: Program,
    where: Unit,
    call: ast.Call,
    variable: str,
    frame: Lightning,
    parts: list[Part],
    iterable: bool,
    batches: bool,
) -> Part:
    wrap = wrapped_by(program, where, call, variable)
    if wrap:
        return Part(RANK_AWARE, f"{wrap}() splits it over the ranks")
    if any(_ONE_DRIVER.search(unit.text) for unit in program.units):
        return Part(UNCLEAR, "with ray one driver may read for all ranks: not settled by the text")
    if not frame.used:
        return Part(PLAIN, "")
    if not frame.inserts:
        return Part(PLAIN, "Lightning is told not to insert a distributed sampler")
    if iterable:
        return Part(PLAIN, "Lightning does not split iterable datasets")
    if any(part.kind == RANK_AWARE and part.name.startswith("Distributed") for part in parts):
        return Part(PLAIN, "Lightning leaves a DistributedSampler alone")
    if batches:
        return Part(UNCLEAR, "Lightning tries to rebuild a batch sampler around its own: not settled by the text")
    return Part(RANK_AWARE, "Lightning inserts a DistributedSampler")


def _made_by_framework(program: Program, frame: Lightning) -> Iterator[Loader]:
    """Training loaders that no line of the script builds: Hugging Face's Trainer,
    deepspeed.initialize(training_data=).
    """
    for unit in program.units:
        for node in ast.walk(unit.tree):
            if not isinstance(node, ast.Call) or not program.called_at_all(unit, node):
                continue
            name = short(node)
            data = keyword(node, "train_dataset") or keyword(node, "training_data")
            if data is None:
                continue
            hugging = bool(_HF_TRAINER.match(name)) and not frame.used and keyword(node, "train_dataset") is not None
            deepspeed = called(node).startswith("deepspeed.initialize")
            if not hugging and not deepspeed:
                continue
            part = dataset_part(program, unit, data)
            maker = "the Hugging Face Trainer" if hugging else "deepspeed.initialize(training_data=)"
            why = (f"{maker} makes the loader and splits it over the ranks", part.why)
            count = 1 + int(part.kind == RANK_AWARE)
            yield Loader(
                unit.file, node.lineno, name, "train", written(node, 400), dataset=written(data, 80),
                splits=None if part.kind == UNCLEAR else count, why=tuple(filter(None, why)), iterable=part.name == "iterable",
            )  # fmt: skip
