"""What else a script's text says about its data: seeds, set_epoch, wrong rank, what a printed length is. Pure.

The traps are those of sharding in practice: none of them is a verdict, each names a line to look at.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from diag_kit.observe.script_loaders import Loader
from diag_kit.observe.script_model import Program
from diag_kit.observe.script_rank import mentions_rank
from diag_kit.observe.script_split import RANK_AWARE
from diag_kit.observe.script_tree import Unit, called, keyword, short, written

_SEEDS_TORCH = {"manual_seed", "set_seed", "seed_everything", "seed_all", "set_random_seed", "fix_seed", "setup_seed"}
_LOCAL_RANK = re.compile(r"^(?:\w+\.)*local_rank$|LOCAL_RANK")


@dataclass(frozen=True, slots=True)
class Trap:
    """One line to look at, by a short stable name."""

    file: str
    line: int
    trap: str
    text: str


@dataclass(frozen=True, slots=True)
class Seed:
    """One call that seeds torch's generator, from which an unseeded sampler takes its order."""

    file: str
    line: int
    by_rank: bool
    after_loader: bool
    text: str


def find_seeds(program: Program, loaders: list[Loader]) -> list[Seed]:
    """Seeding calls that run. ``after_loader``: below the training loader in the same file, so meant for something
    else.
    """
    found = []
    for unit in program.units:
        lines = [loader.line for loader in loaders if loader.file == unit.file and loader.side == "train"]
        built = min([*lines, *_call_lines(program, unit, loaders)], default=None)
        for node in ast.walk(unit.tree):
            if isinstance(node, ast.Call) and _seeds_torch(program, node) and program.called_at_all(unit, node):
                values = [*node.args, *(each.value for each in node.keywords)]
                device = keyword(node, "device_specific")
                special = isinstance(device, ast.Constant) and device.value is True
                by_rank = special or any(mentions_rank(program, unit, value) for value in values)
                same_scope = built is not None and not _is_generator(node)
                after = same_scope and built is not None and node.lineno > built
                found.append(Seed(unit.file, node.lineno, by_rank, after, written(node, 80)))
    return found


def _call_lines(program: Program, unit: Unit, loaders: list[Loader]) -> Iterator[int]:
    """Lines where a function that builds a training loader is called."""
    for loader in loaders:
        home = next((each for each in program.units if each.file == loader.file), None)
        if home is None or loader.side != "train":
            continue
        for node in ast.walk(home.tree):
            if isinstance(node, ast.Call) and node.lineno == loader.line and (function := home.function_of(node)):
                yield from (site.lineno for place, site in program.calls(function.name) if place is unit)
                break


def _is_generator(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Call)


def _seeds_torch(program: Program, call: ast.Call) -> bool:
    name, full = short(call), called(call)
    if name not in _SEEDS_TORCH or program.functions(name):
        return False
    return not re.search(r"\b(cuda|numpy|np|random)\b", full.rpartition(".")[0]) and not _is_generator(call)


def find_traps(program: Program, loaders: list[Loader]) -> list[Trap]:
    """Everything worth a line: see the module's head."""
    return [*_no_set_epoch(program, loaders), *_local_rank(program), *_framework_traps(program, loaders)]


def _no_set_epoch(program: Program, loaders: list[Loader]) -> Iterator[Trap]:
    calls = any(
        short(node) == "set_epoch" for unit in program.units for node in ast.walk(unit.tree) if isinstance(node, ast.Call)
    )
    for loader in loaders:
        distributed = any(part.kind == RANK_AWARE and "Sampler" in part.name for part in loader.parts)
        if loader.side == "train" and distributed and not calls:
            text = "set_epoch is never called here: unless a library does, every epoch has the same order"
            yield Trap(loader.file, loader.line, "no_set_epoch", text)
        if loader.side == "validation" and distributed:
            text = "a distributed sampler on the validation loader repeats samples to fill up"
            yield Trap(loader.file, loader.line, "distributed_validation", text)


def _local_rank(program: Program) -> Iterator[Trap]:
    for unit in program.units:
        for node in ast.walk(unit.tree):
            if not isinstance(node, ast.Call) or "ampler" not in short(node):
                continue
            value = keyword(node, "rank")
            followed = [value] if value is not None else []
            followed += [expr for _, expr in program.values(unit, value)] if value is not None else []
            if any(_LOCAL_RANK.search(written(each)) for each in followed):
                text = f"{short(node)} gets the local rank: right on one node, on several the shards repeat"
                yield Trap(unit.file, node.lineno, "local_rank", text)


def _framework_traps(program: Program, loaders: list[Loader]) -> Iterator[Trap]:
    for loader in loaders:
        if loader.splits is not None and loader.splits > 1 and loader.side == "train":
            yield Trap(loader.file, loader.line, "double_split", "split by two means: each rank sees 1/N of its 1/N")
    for unit, function in program.functions("get_train_dataloader"):
        if "prepare" not in (ast.get_source_segment(unit.text, function) or ""):
            text = "get_train_dataloader is overridden and does not prepare its loader: the Trainer will not split it"
            yield Trap(unit.file, function.lineno, "unprepared_override", text)
    for unit in program.units:
        for node in ast.walk(unit.tree):
            if not isinstance(node, ast.keyword) or node.arg not in ("use_distributed_sampler", "replace_sampler_ddp"):
                continue
            if isinstance(node.value, ast.Constant) and node.value.value is False:
                text = f"{node.arg}=False: the script must split the data itself"
                yield Trap(unit.file, node.value.lineno, "sampler_switched_off", text)


def printed_length(program: Program, loaders: list[Loader]) -> tuple[str, str, int] | None:
    """What "batches/epoch" prints: ("len(loader)" or "len(dataset)", file, line), from the print or log call that says
    so.
    """
    names = {loader.variable.rpartition(".")[2] for loader in loaders} - {""}
    for unit in program.units:
        for node in ast.walk(unit.tree):
            if not isinstance(node, ast.Call) or not re.search(r"batches|steps[ /_]*(per)?[ /_]*epoch", written(node, 300), re.I):
                continue
            if short(node) not in ("print", "info", "log", "warning", "print_rank_0", "rank0_print", "log0", "debug"):
                continue
            for inner in ast.walk(node):
                if isinstance(inner, ast.Call) and called(inner) == "len" and inner.args:
                    what = _kind_of_length(program, unit, inner.args[0], names)
                    if what:
                        return what, unit.file, node.lineno
    return None


def _kind_of_length(program: Program, unit: Unit, node: ast.expr, loaders: set[str]) -> str:
    text = written(node)
    last = text.rpartition(".")[2]
    if last in loaders or re.search(r"loader|batches", last, re.I):
        return "len(loader)"
    if re.search(r"dataset|files|samples|data|_ds|_set$", last, re.I):
        return "len(dataset)"
    for _, value in program.values(unit, node):
        if re.search(r"oader", written(value)):
            return "len(loader)"
    return ""
