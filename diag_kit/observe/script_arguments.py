"""What a DataLoader is given: arguments through dictionaries, settled values, and the samples of a batch. Pure."""

from __future__ import annotations

import ast

from diag_kit.observe.script_model import UNKNOWN, Program
from diag_kit.observe.script_tree import Unit, called, keyword, short, written

_POSITIONS = ("dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers")


def loader_arguments(program: Program, where: Unit, call: ast.Call) -> tuple[dict[str, ast.expr], bool]:
    """Arguments by name, ``**options`` included where the dictionary is written out; False if some could not be
    seen.
    """
    found = dict(zip(_POSITIONS, call.args, strict=False))
    complete = True
    for each in call.keywords:
        if each.arg is not None:
            found[each.arg] = each.value
            continue
        inner, whole = _dictionary(program, where, each.value)
        found = {**inner, **found}
        complete = complete and whole
    return found, complete


def _dictionary(program: Program, where: Unit, node: ast.expr) -> tuple[dict[str, ast.expr], bool]:
    values = program.values(where, node) or ([(where, node)] if not isinstance(node, ast.Name | ast.Attribute) else [])
    found: dict[str, ast.expr] = {}
    whole = bool(values)
    for place, value in values:
        if isinstance(value, ast.Dict):
            for key, item in zip(value.keys, value.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    found[key.value] = item
                elif key is None:
                    inner, more = _dictionary(program, place, item)
                    found |= inner
                    whole = whole and more
        elif isinstance(value, ast.Call) and short(value) == "dict" and not value.args:
            found |= {each.arg: each.value for each in value.keywords if each.arg}
        else:
            whole = False
    if isinstance(node, ast.Name):
        found |= _later_entries(program, where, node)
    return found, whole


def _later_entries(program: Program, where: Unit, name: ast.Name) -> dict[str, ast.expr]:
    """``options.update(sampler=s)`` and ``options["sampler"] = s`` in the same function."""
    found: dict[str, ast.expr] = {}
    scope = where.function_of(name) or where.tree
    for node in ast.walk(scope):
        if isinstance(node, ast.Call) and called(node) == f"{name.id}.update" and program.reached(where, node) is not False:
            found |= {each.arg: each.value for each in node.keywords if each.arg}
        if isinstance(node, ast.Assign) and program.reached(where, node) is not False:
            for target in node.targets:
                entry = isinstance(target, ast.Subscript) and written(target.value) == name.id
                key = target.slice if entry else None  # type: ignore[attr-defined]
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    found[key.value] = node.value
    return found


def known_text(program: Program, where: Unit, node: ast.expr | None) -> str:
    """The value where it is settled, else the text."""
    if node is None:
        return ""
    value = program.evaluate(where, node)
    simple = value is None or isinstance(value, int | float | str | bool)
    return str(value) if value is not UNKNOWN and simple else written(node, 60)


def batch_size_of(program: Program, where: Unit, arguments: dict[str, ast.expr]) -> str:
    """Samples a batch: the loader's own argument (1 by default), else what its batch sampler is given; "" if not settled."""
    batches = arguments.get("batch_sampler")
    if batches is None or (isinstance(batches, ast.Constant) and batches.value is None):
        return known_text(program, where, arguments.get("batch_size")) or "1"
    made = [(where, batches)] if isinstance(batches, ast.Call) else program.values(where, batches)
    sizes = {_given_batch_size(program, place, call) for place, call in made if isinstance(call, ast.Call)}
    return sizes.pop() if len(sizes) == 1 and len(made) == 1 else ""


def _given_batch_size(program: Program, where: Unit, call: ast.Call) -> str:
    """The ``batch_size`` of a batch sampler's call; by position for BatchSampler and for a class of the script."""
    named = keyword(call, "batch_size")
    if named is not None:
        return known_text(program, where, named)
    parameters = ["sampler", "batch_size"] if short(call) == "BatchSampler" else _parameters_of(program, short(call))
    index = parameters.index("batch_size") if "batch_size" in parameters else len(call.args)
    return known_text(program, where, call.args[index]) if index < len(call.args) else ""


def _parameters_of(program: Program, name: str) -> list[str]:
    found = program.class_named(name)
    for node in found[1].body if found is not None else ():
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            return [arg.arg for arg in (*node.args.posonlyargs, *node.args.args)][1:]
    return []
