"""Whether a DataLoader, as a script builds it, is split over the ranks: sampler, dataset and framework, each followed.
Pure.

A name proves nothing in either direction: a class without "Distributed" in it may split by rank, one with it may serve
the validation loader only. So the argument of the training loader is followed to where it is made.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from diag_kit.observe.script_model import UNKNOWN, Program
from diag_kit.observe.script_rank import chosen_by_rank, mentions_rank, uses_rank, value_nodes
from diag_kit.observe.script_tree import Unit, called, keyword, short, written

RANK_AWARE, PLAIN, ABSENT, UNCLEAR = "rank-aware", "plain", "none", "unclear"

RANK_KEYWORDS = {"rank", "num_replicas", "world_size", "dp_rank", "shard_id", "num_shards", "process_index", "num_processes"}
_SAMPLER_NAME = re.compile(r"Distributed\w*Sampler|Sampler\w*Distributed|^(MegatronPretraining|DP|Elastic|Sharded)\w*Sampler$")
_PLAIN_SAMPLERS = {"RandomSampler", "SequentialSampler", "WeightedRandomSampler"}
_SPLITTERS = {"split_dataset_by_node", "split_by_node"}
_STREAMING = re.compile(r"^\w*Streaming\w*Dataset$")
_CHECK_ITERABLE = re.compile(r"Iterable|Streaming")


@dataclass(frozen=True, slots=True)
class Part:
    """What one argument contributes, and the sentence for it."""

    kind: str
    why: str
    name: str = ""


def _passes_rank(program: Program, where: Unit, call: ast.Call) -> bool:
    if any(each.arg in RANK_KEYWORDS and not _is_one(program, where, each.value) for each in call.keywords):
        return True
    return any(mentions_rank(program, where, arg, depth=1) for arg in call.args)


def _is_one(program: Program, where: Unit, node: ast.expr) -> bool:
    """``num_replicas=1`` or ``rank=0`` written out: no split at all."""
    return isinstance(node, ast.Constant) and program.evaluate(where, node) in (0, 1, None)


def sampler_part(program: Program, where: Unit, node: ast.expr, depth: int = 0) -> list[Part]:
    """What a ``sampler=`` or ``batch_sampler=`` may be: one part for each way that the arguments leave open."""
    if isinstance(node, ast.Constant) and node.value is None:
        return [Part(ABSENT, "no sampler")]
    if isinstance(node, ast.Call):
        return _made_sampler(program, where, node, depth)
    followed = program.values(where, node) if depth < 8 else []
    if followed:
        return [part for place, value in followed for part in sampler_part(program, place, value, depth + 1)]
    return [Part(UNCLEAR, f"the sampler {written(node, 60)} could not be followed")]


def _made_sampler(program: Program, where: Unit, call: ast.Call, depth: int) -> list[Part]:
    name = short(call)
    own = uses_rank(program, name)
    if name in ("get_sampler",) or (_SAMPLER_NAME.search(name) and own is not False):
        if any(each.arg == "num_replicas" and _is_one(program, where, each.value) for each in call.keywords):
            return [Part(PLAIN, f"{name} for one replica", name)]
        return [Part(RANK_AWARE, f"{name} gives each rank its part", name)]
    if name == "BatchSampler" and (call.args or keyword(call, "sampler")):
        inner = call.args[0] if call.args else keyword(call, "sampler")
        return sampler_part(program, where, inner, depth + 1) if inner is not None and depth < 8 else []
    if name in _PLAIN_SAMPLERS:
        return [Part(PLAIN, f"{name} runs over the whole dataset on each rank", name)]
    if own is False:
        return [Part(PLAIN, f"{name} (its class does not look at the rank)", name)]
    if _passes_rank(program, where, call):
        return [Part(RANK_AWARE, f"{name} is given the rank", name)]
    if own is True:
        return [Part(RANK_AWARE, f"{name} looks at the rank itself", name)]
    if name == "SubsetRandomSampler":
        return [Part(PLAIN, f"{name} with the same indices on each rank", name)]
    returned = list(_returned(program, name)) if depth < 4 else []
    if returned:
        return [part for place, value in returned for part in sampler_part(program, place, value, depth + 2)]
    return [Part(UNCLEAR, f"{name} is defined elsewhere and is not given the rank", name)]


def _returned(program: Program, name: str) -> Iterator[tuple[Unit, ast.expr]]:
    """The values that a function of the script returns, in branches that run."""
    for place, function in program.functions(name):
        for node in ast.walk(function):
            if isinstance(node, ast.Return) and node.value is not None and program.reached(place, node) is not False:
                yield place, node.value


def dataset_part(program: Program, where: Unit, node: ast.expr, depth: int = 0) -> Part:
    """Whether the dataset itself holds one rank's part only."""
    for each in value_nodes(node):
        part = _splitting_node(program, where, each)
        if part is not None:
            return part
    if depth > 6:
        return Part(PLAIN, "")
    changed = _changed_by_rank(program, where, node)
    if changed is not None:
        return changed
    iterable = False
    for ways in _feeding(program, where, node):
        parts = [dataset_part(program, place, value, depth + 1) for place, value in ways]
        kinds = {part.kind for part in parts}
        if UNCLEAR in kinds or (RANK_AWARE in kinds and len(kinds) == 1):
            return next(part for part in parts if part.kind in (UNCLEAR, RANK_AWARE))
        if RANK_AWARE in kinds:
            cut = next(part for part in parts if part.kind == RANK_AWARE)
            return Part(UNCLEAR, f"in one branch {cut.why}, in another not: the arguments do not settle which runs")
        iterable = iterable or any(part.name == "iterable" for part in parts)
    return Part(PLAIN, "", "iterable" if iterable or _is_iterable(program, node) else "")


def _changed_by_rank(program: Program, where: Unit, node: ast.expr) -> Part | None:
    """The dataset changed in place after it was made: ``ds.items = ds.items[rank::world]``, ``ds.set_shard(rank, world)``."""
    names = {written(each) for each in value_nodes(node) if isinstance(each, ast.Name | ast.Attribute)}
    for each in ast.walk(where.tree) if names else ():
        if isinstance(each, ast.Assign | ast.AugAssign) and each.value is not None:
            targets = each.targets if isinstance(each, ast.Assign) else [each.target]
            within = [t.value for t in targets if isinstance(t, ast.Attribute | ast.Subscript)]
            if any(written(t) in names for t in within) and mentions_rank(program, where, each.value):
                return Part(UNCLEAR, f"the dataset is changed by rank: {written(each, 60)}")
        if isinstance(each, ast.Expr) and isinstance(each.value, ast.Call) and isinstance(each.value.func, ast.Attribute):
            call = each.value
            if written(each.value.func.value) in names and _rank_in_call(program, where, call):
                return Part(UNCLEAR, f"the dataset is given the rank: {written(call, 60)}")
    return None


def _feeding(program: Program, where: Unit, node: ast.expr) -> Iterator[list[tuple[Unit, ast.expr]]]:
    """Where the parts of an expression come from, each with all its ways: names followed, functions of the script entered."""
    for each in value_nodes(node):
        if isinstance(each, ast.Name | ast.Attribute | ast.IfExp):
            yield program.values(where, each)
        elif isinstance(each, ast.Call) and program.class_named(short(each)) is None:
            yield list(_returned(program, short(each)))


def _splitting_node(program: Program, where: Unit, node: ast.AST) -> Part | None:
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        bounds = [bound for bound in (node.slice.lower, node.slice.upper) if bound is not None]
        if any(mentions_rank(program, where, bound) for bound in bounds):
            return Part(RANK_AWARE, f"the dataset is cut by rank: {written(node, 60)}")
    if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Slice) and mentions_rank(program, where, node.slice):
        return Part(RANK_AWARE, f"each rank takes its part: {written(node, 60)}")
    if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp):
        return _filtered(program, where, node, [test for each in node.generators for test in each.ifs])
    if isinstance(node, ast.JoinedStr) and mentions_rank(program, where, node):
        return Part(UNCLEAR, f"the data's name holds the rank ({written(node, 60)}): what is in each is not in the text")
    if not isinstance(node, ast.Call):
        return None
    name = short(node)
    if name == "filter":
        return _filtered(program, where, node, [each.body for each in node.args if isinstance(each, ast.Lambda)])
    if name in _SPLITTERS or (name in ("shard", "islice", "range", "Subset") and _rank_in_call(program, where, node)):
        return Part(RANK_AWARE, f"the dataset is split by {written(node, 60)}")
    own = uses_rank(program, name)
    if own is True or (own is None and _STREAMING.match(name)):
        return Part(RANK_AWARE, f"{name} looks at the rank itself")
    if name == "WebDataset":
        return _webdataset(node)
    if own is None and program.class_named(name) is not None:
        return Part(UNCLEAR, f"{name} has the rank; what it does with it is not settled by its text")
    if own is None and any(each.arg in RANK_KEYWORDS for each in node.keywords) and not name.endswith("Sampler"):
        return Part(UNCLEAR, f"{name} is given the rank; what it does with it is defined elsewhere")
    return None


def _filtered(program: Program, where: Unit, node: ast.AST, tests: list[ast.expr]) -> Part | None:
    """Items kept by a condition on the rank."""
    kept = [chosen_by_rank(program, where, test) for test in tests]
    if True in kept:
        return Part(RANK_AWARE, f"the dataset is filtered by rank: {written(node, 60)}")
    if None in kept:
        return Part(UNCLEAR, f"a condition with the rank keeps items, and is not understood: {written(node, 60)}")
    return None


def _webdataset(call: ast.Call) -> Part | None:
    """WebDataset refuses several nodes without a nodesplitter, so one that runs has one, or draws with replacement."""
    if keyword(call, "nodesplitter") is not None:
        return Part(RANK_AWARE, f"WebDataset splits its shards: nodesplitter={written(keyword(call, 'nodesplitter'), 40)}")
    resampled = keyword(call, "resampled")
    if isinstance(resampled, ast.Constant) and resampled.value is True:
        return Part(UNCLEAR, "WebDataset(resampled=True) draws with replacement: there is nothing to split")
    return Part(UNCLEAR, "WebDataset without a nodesplitter: how its shards are split is not settled by the text")


def _rank_in_call(program: Program, where: Unit, call: ast.Call) -> bool:
    first = 1 if short(call) == "Subset" else 0  # what a Subset is taken from is followed on its own
    values = [*call.args[first:], *(each.value for each in call.keywords if each.arg != "dataset")]
    return any(mentions_rank(program, where, value) for value in values)


def _is_iterable(program: Program, node: ast.expr) -> bool:
    for each in ast.walk(node):
        if not isinstance(each, ast.Call):
            continue
        streaming = keyword(each, "streaming")
        if isinstance(streaming, ast.Constant) and streaming.value is True:
            return True
        found = program.class_named(short(each))
        if found is not None and any(_CHECK_ITERABLE.search(written(base)) for base in found[1].bases):
            return True
    return False


def wrapped_by(program: Program, where: Unit, call: ast.Call, variable: str) -> str:
    """The framework call that splits this loader ("accelerator.prepare"), or "". The loader is its argument, or in a
    variable.
    """
    parent = next((each for each in where.above(call) if isinstance(each, ast.Call)), None)
    if parent is not None and _wraps(parent):
        return called(parent)
    if not variable:
        return ""
    names = {variable.rpartition(".")[2], *_receivers(program, where, call)}
    for place in program.units:
        for node in ast.walk(place.tree):
            if isinstance(node, ast.Call) and _wraps(node) and program.reached(place, node) is not False:
                given = {written(arg).rpartition(".")[2] for arg in (*node.args, *(k.value for k in node.keywords))}
                if names & given:
                    return called(node)
    return ""


def _receivers(program: Program, where: Unit, call: ast.Call) -> set[str]:
    """Names that the loader has where the function that returns it is called."""
    function = where.function_of(call)
    names: set[str] = set()
    for place, site in program.calls(function.name) if function is not None else ():
        statement = place.statement_of(site)
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        for target in targets:
            items = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
            names |= {written(item).rpartition(".")[2] for item in items}
    return names


def _wraps(call: ast.Call) -> bool:
    name, full = short(call), called(call)
    prepare = name == "prepare" and ("accelerator" in full.lower() or full == "prepare")
    return (
        prepare
        or name in ("prepare_data_loader", "setup_dataloaders", "prepare_dataloader", "skip_first_batches_prepare")
        or (name == "setup_dataloader" and "strategy" in full)
    )


@dataclass(frozen=True, slots=True)
class Lightning:
    """How Lightning is used here: it inserts a DistributedSampler into map-style loaders unless told not to."""

    used: bool = False
    inserts: bool = True


def lightning(program: Program) -> Lightning:
    imported = any(
        re.search(r"^\s*(?:import|from)\s+(?:pytorch_lightning|lightning)\b", unit.text, re.M) for unit in program.units
    )
    trainers = [(place, call) for place, call in program.calls("Trainer") if program.reached(place, call) is not False]
    if not imported or not (
        trainers or any("LightningModule" in unit.text or "LightningDataModule" in unit.text for unit in program.units)
    ):
        return Lightning()
    for place, call in trainers:
        for name in ("use_distributed_sampler", "replace_sampler_ddp"):
            value = keyword(call, name)
            if value is not None and program.evaluate(place, value) is not UNKNOWN and not program.evaluate(place, value):
                return Lightning(True, False)
    return Lightning(True, True)
