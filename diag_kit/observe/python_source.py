"""Finding a function or class in Python text without running it: by ``ast``, and by indentation where that fails.
Pure.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True)
class Found:
    """Lines ``start`` to ``end`` (1-based, inclusive, decorators included) hold the object asked for."""

    start: int
    end: int
    note: str = ""


def parse(text: str) -> ast.Module | None:
    """The syntax tree, or None. Warnings of the parser (a stray escape) are the file's, not ours."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _definitions(body: list[ast.stmt]) -> Iterator[Definition | ast.Assign | ast.AnnAssign]:
    """What a block defines, also inside if, try and with."""
    for node in body:
        if isinstance(node, Definition | ast.Assign | ast.AnnAssign):
            yield node
        elif isinstance(node, ast.If | ast.For | ast.While | ast.With | ast.Try):
            for name in ("body", "orelse", "finalbody"):
                yield from _definitions(getattr(node, name, []))
            for handler in getattr(node, "handlers", []):
                yield from _definitions(handler.body)


def _named(node: Definition | ast.Assign | ast.AnnAssign, name: str) -> bool:
    if isinstance(node, Definition):
        return node.name == name
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(isinstance(target, ast.Name) and target.id == name for target in targets)


def _span(node: Definition | ast.Assign | ast.AnnAssign, note: str = "") -> Found:
    decorators = getattr(node, "decorator_list", [])
    start = min([node.lineno, *(each.lineno for each in decorators)])
    return Found(start, node.end_lineno or node.lineno, note)


def bases_of(tree: ast.Module, name: str) -> list[str]:
    """Names of the bases of a class, as written."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == name:
            return [ast.unparse(base) for base in node.bases]
    return []


def reexport_of(tree: ast.Module, name: str) -> str:
    """``from .utils import name`` in this module: where the name comes from, as written; else ""."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    dots = "." * node.level
                    return f"{dots}{node.module}.{alias.name}" if node.module else f"{dots}{alias.name}"
    return ""


def find(text: str, qualname: str) -> Found | None:
    """``Class.method``, ``function``, nested ones (``outer.<locals>.inner`` or ``outer.inner``), or an assigned
    name.
    """
    tree = parse(text)
    names = [name for name in qualname.split(".") if name and name != "<locals>"]
    if tree is None or not names:
        return _by_indentation(text, names) if names else None
    body, node = tree.body, None
    for name in names:
        # of several with one name (overloads, an if/else) the last stands, as it would when run
        node = next((each for each in reversed(list(_definitions(body))) if _named(each, name)), None)
        if node is None:
            return None
        body = getattr(node, "body", [])
    return _span(node) if node is not None else None


def find_anywhere(text: str, name: str) -> Found | None:
    """A definition of that bare name at any depth."""
    tree = parse(text)
    if tree is None:
        return _by_indentation(text, [name])
    for node in ast.walk(tree):
        if isinstance(node, Definition) and node.name == name:
            return _span(node)
    return None


def _by_indentation(text: str, names: list[str]) -> Found | None:
    """For text that this Python cannot parse: the block below ``def name`` as far as it stays indented."""
    lines = text.split("\n")
    start, low, high = 0, 0, len(lines)
    for name in names:
        head = re.compile(rf"^(\s*)(?:async\s+def|def|class)\s+{re.escape(name)}\b")
        at = next((i for i in range(low, high) if head.match(lines[i])), None)
        if at is None:
            return None
        indent = len(lines[at]) - len(lines[at].lstrip())
        end = at + 1
        while end < high and (
            not lines[end].strip() or len(lines[end]) - len(lines[end].lstrip()) > indent or lines[end].strip().startswith(")")
        ):
            end += 1
        start, low, high = at, at + 1, end
    while high > low and not lines[high - 1].strip():
        high -= 1
    while start > 0 and lines[start - 1].lstrip().startswith("@"):
        start -= 1
    return Found(start + 1, high, "the file does not parse here, so the end was taken from the indentation")
