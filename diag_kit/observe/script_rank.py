"""Whether a value in a script depends on the process's rank, and whether a class chooses its samples by it. Pure.

A script names the rank for many things that split nothing: a log on rank 0 only, the device, a seed, an output file, a download
that one rank makes. So the value is followed, not the test beside it: of ``a if rank == 0 else b`` the two values, of ``x and y``
the last, of ``len(part)`` nothing, since a number of items is no item.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from diag_kit.observe.script_model import Program
from diag_kit.observe.script_tree import Unit, called, short, written

_RANK_NAME = re.compile(
    r"^(?:global_|ddp_|dp_|local_|node_|proc_|process_|data_parallel_|self_)?(rank|process_index|shard_id|shard_index|host_index|host_id)$"
    r"|^(RANK|LOCAL_RANK|GLOBAL_RANK|dataloading_host_index)$"
)
_RANK_CALL = re.compile(r"^(get_(?:global_|local_|dp_|data_parallel_)?rank|get_process_index|process_index)$")
_RANK_VARIABLES = ("RANK", "LOCAL_RANK", "SLURM_PROCID")
_BESIDE = re.compile(
    r"^_?(len|print|log|info|debug|warning|warn|error|exception|tqdm|manual_seed\w*|seed\w*|set_seed|Random|RandomState|default_rng"
    r"|Generator|device|set_device|to|cuda|barrier|SummaryWriter|isinstance|hasattr|makedirs|mkdir|basicConfig|getLogger)$"
)
"""Calls whose arguments do not choose data: lengths, messages, seeds, devices."""
_BESIDE_KEYWORDS = re.compile(
    r"^(\w*device|gpu|gpu_id|\w*seed|generator|rng|logger|verbose|quiet|desc|position|disable\w*|download|cache_dir|log_\w+|port)$"
)
_CHOOSING = {"range", "islice", "shard", "Subset", "array_split", "split_dataset_by_node", "split_by_node"}
_CONSTANTS = (ast.Constant, ast.Tuple, ast.List, ast.Set, ast.UnaryOp, ast.unaryop, ast.expr_context)
_KNOWN_BASES = {"Dataset", "IterableDataset", "MapDataPipe", "Sampler", "BatchSampler", "object", "ABC", "Generic"}


def value_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below an expression that its value is made of; tests, lengths, messages, seeds and devices are left out."""
    yield node
    if isinstance(node, ast.Compare):
        return
    for child in _value_children(node):
        yield from value_nodes(child)


def _value_children(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.IfExp):
        yield from (node.body, node.orelse)
    elif isinstance(node, ast.BoolOp):
        yield from node.values[-1:] if isinstance(node.op, ast.And) else node.values
    elif isinstance(node, ast.Call) and not _BESIDE.match(short(node)):
        yield from (node.func, *node.args)
        yield from (each.value for each in node.keywords if not _BESIDE_KEYWORDS.match(each.arg or ""))
    elif not isinstance(node, ast.Call) and not (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)):
        yield from ast.iter_child_nodes(node)


def is_rank(node: ast.AST) -> bool:
    """A name, call or variable of the environment that is the rank itself."""
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    if _RANK_NAME.match(name) or (isinstance(node, ast.Call) and _RANK_CALL.match(short(node))):
        return True
    return isinstance(node, ast.Constant) and node.value in _RANK_VARIABLES


def mentions_rank(program: Program, where: Unit, node: ast.AST, depth: int = 0) -> bool:
    """Whether an expression's value depends on the process's rank, names followed."""
    for each in value_nodes(node):
        if is_rank(each):
            return True
        if isinstance(each, ast.Name) and depth < 3 and isinstance(each.ctx, ast.Load):
            for place, value in program.values(where, each):
                if value is not node and mentions_rank(program, place, value, depth + 1):
                    return True
    return False


def chosen_by_rank(program: Program, where: Unit, test: ast.AST) -> bool | None:
    """Whether a condition keeps an item by rank (``i % world == rank``). None: the rank stands in it in a way that is not
    understood; False: it does not, or only as in ``rank == 0``.
    """
    found: bool | None = False
    for node in ast.walk(test):
        if not isinstance(node, ast.Compare):
            continue
        sides = [node.left, *node.comparators]
        ranked = [side for side in sides if mentions_rank(program, where, side)]
        if not ranked:
            continue
        others = [side for side in sides if side not in ranked]
        if any(isinstance(each, ast.BinOp) and isinstance(each.op, ast.Mod) for side in sides for each in ast.walk(side)):
            return True
        if not all(_is_constant(side) for side in others):
            found = None
    return found


def _is_constant(node: ast.AST) -> bool:
    return all(isinstance(each, _CONSTANTS) for each in ast.walk(node))


def uses_rank(program: Program, name: str) -> bool | None:
    """Whether a class of the script's own files chooses samples by the rank; None when that is not among them, or not clear."""
    found = program.class_named(name)
    if found is None:
        return None
    place, node = found
    uses = {_use(program, place, each, node) for each in ast.walk(node) if is_rank(each)}
    if True in uses:
        return True
    inherits = any(written(base).rpartition(".")[2].partition("[")[0] not in _KNOWN_BASES for base in node.bases)
    kept_only = uses == {"kept"}
    return None if None in uses or kept_only or ("kept" in uses and inherits) else False


def _use(program: Program, where: Unit, leaf: ast.AST, owner: ast.AST) -> bool | str | None:
    """What one mention of the rank is for: True (chooses), False (beside the data), "kept" (stored), None (not understood)."""
    child = leaf
    for parent in where.above(leaf):
        if parent is owner or isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef | ast.arguments):
            return "kept"
        if isinstance(parent, ast.Compare):
            return chosen_by_rank(program, where, parent)
        if isinstance(parent, ast.Call) and child is not parent.func:
            if _BESIDE.match(short(parent)) or called(parent).startswith(("logging.", "logger.", "torch.device")):
                return False
            if short(parent) in _CHOOSING:
                return True
            if short(parent) not in ("int", "get", "getenv", "max", "min", "list", "enumerate", "zip"):
                return None
        if isinstance(parent, ast.keyword) and _BESIDE_KEYWORDS.match(parent.arg or ""):
            return False
        if isinstance(parent, ast.Subscript) and child is not parent.value and not called(parent.value).endswith("environ"):
            return True
        if isinstance(parent, ast.JoinedStr | ast.FormattedValue):
            return _in_message(where, parent)
        if isinstance(parent, ast.BinOp):
            return not _beside_target(where, parent)
        if isinstance(parent, ast.Assign | ast.AnnAssign | ast.AugAssign):
            return "kept"
        if isinstance(parent, ast.If | ast.IfExp | ast.While) and child is parent.test:
            return False
        if isinstance(parent, ast.Return | ast.Yield):
            return None
        child = parent
    return "kept"


def _in_message(where: Unit, node: ast.AST) -> bool | None:
    """A text that names the rank: for a message it is beside the data, else it may be a path."""
    for parent in where.above(node):
        if isinstance(parent, ast.Call) and _BESIDE.match(short(parent)):
            return False
        if isinstance(parent, ast.stmt):
            break
    return None


def _beside_target(where: Unit, node: ast.AST) -> bool:
    """Whether arithmetic with the rank ends in a seed, a device or a port."""
    for parent in where.above(node):
        if isinstance(parent, ast.Call) and _BESIDE.match(short(parent)):
            return True
        if isinstance(parent, ast.keyword) and _BESIDE_KEYWORDS.match(parent.arg or ""):
            return True
        if isinstance(parent, ast.Assign):
            return all(_BESIDE_KEYWORDS.match(written(target).rpartition(".")[2]) is not None for target in parent.targets)
        if isinstance(parent, ast.stmt):
            return False
    return False
