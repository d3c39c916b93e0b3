"""Small questions to a syntax tree: what is called, how it is written, what stands under which condition. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from diag_kit.observe.python_source import parse

Function = ast.FunctionDef | ast.AsyncFunctionDef
Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Module


@dataclass(frozen=True, slots=True)
class Unit:
    """One parsed file. ``parents`` leads from a node upwards."""

    file: str
    text: str
    tree: ast.Module
    parents: Mapping[ast.AST, ast.AST]

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        current = self.parents.get(node)
        while current is not None:
            yield current
            current = self.parents.get(current)

    def function_of(self, node: ast.AST) -> Function | None:
        return next((each for each in self.above(node) if isinstance(each, Function)), None)

    def class_of(self, node: ast.AST) -> ast.ClassDef | None:
        return next((each for each in self.above(node) if isinstance(each, ast.ClassDef)), None)

    def statement_of(self, node: ast.AST) -> ast.AST:
        current = node
        while not isinstance(current, ast.stmt) and current in self.parents:
            current = self.parents[current]
        return current


def unit(file: str, text: str) -> Unit | None:
    tree = parse(text)
    if tree is None:
        return None
    _undo_renames(tree)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    return Unit(file, text, tree, parents)


def _undo_renames(tree: ast.Module) -> None:
    """``from torch.utils.data import DataLoader as DL``: call it by its own name everywhere."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names = {alias.asname: alias.name for node in imports for alias in node.names if alias.asname}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in names:
            node.id = names[node.id]


def called(node: ast.AST) -> str:
    """The dotted name of what a call calls ("torch.utils.data.DataLoader"); "" for anything computed."""
    target = node.func if isinstance(node, ast.Call) else node
    parts: list[str] = []
    while isinstance(target, ast.Attribute):
        parts.append(target.attr)
        target = target.value
    if isinstance(target, ast.Name):
        parts.append(target.id)
    elif parts:
        parts.append("")
    return ".".join(reversed(parts))


def short(node: ast.AST) -> str:
    return called(node).rpartition(".")[2]


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((each.value for each in call.keywords if each.arg == name), None)


def written(node: ast.AST | None, limit: int = 120) -> str:
    if node is None:
        return ""
    try:
        text = " ".join(ast.unparse(node).split())
    except (ValueError, RecursionError):
        return "?"
    return text if len(text) <= limit else text[: limit - 3] + "..."


def parameters_of(function: Function) -> list[ast.arg]:
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def default_of(function: Function, name: str) -> ast.expr | None:
    positional = [*function.args.posonlyargs, *function.args.args]
    for arg, default in zip(reversed(positional), reversed(function.args.defaults), strict=False):
        if arg.arg == name:
            return default
    for only, value in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True):
        if only.arg == name:
            return value
    return None


def value_for(node: ast.AST, name: str) -> ast.expr | None:
    """The value that an assignment gives to that name; of ``a, b = f()`` the whole call."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Name) and target.id == name:
                return node.value
            if isinstance(target, ast.Tuple | ast.List):
                for index, each in enumerate(target.elts):
                    if isinstance(each, ast.Name) and each.id == name:
                        pair = isinstance(node.value, ast.Tuple | ast.List) and len(node.value.elts) == len(target.elts)
                        return node.value.elts[index] if pair else node.value  # type: ignore[attr-defined]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
        return node.value
    if isinstance(node, ast.NamedExpr) and node.target.id == name:
        return node.value
    return None


def contains(node: ast.AST, inner: ast.AST) -> bool:
    return any(each is inner for each in ast.walk(node))


def leaves(body: Sequence[ast.stmt]) -> bool:
    last = body[-1] if body else None
    exits = isinstance(last, ast.Expr) and isinstance(last.value, ast.Call) and short(last.value) in ("exit", "_exit")
    return isinstance(last, ast.Return | ast.Raise | ast.Continue | ast.Break) or exits


def conditions(parent: ast.AST, child: ast.AST) -> Iterator[tuple[ast.expr, bool]]:
    """Tests that must hold for ``child`` of ``parent`` to run: its own branch, and earlier branches that leave the
    block.
    """
    if isinstance(parent, ast.If):
        if child in parent.body:
            yield parent.test, True
        elif child in parent.orelse:
            yield parent.test, False
    elif isinstance(parent, ast.IfExp) and child is not parent.test:
        yield parent.test, child is parent.body
    for name in ("body", "orelse", "finalbody"):
        block = getattr(parent, name, None)
        if isinstance(block, list) and child in block:
            for earlier in block[: block.index(child)]:
                if isinstance(earlier, ast.If) and leaves(earlier.body):
                    yield earlier.test, False
                elif isinstance(earlier, ast.If) and earlier.orelse and leaves(earlier.orelse):
                    yield earlier.test, True
