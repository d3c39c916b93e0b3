"""A training script as a tree to ask: which assignments reach a name, which branches run with the job's arguments.
Pure.

Three-valued throughout: what the arguments and the number of ranks do not settle is ``UNKNOWN``, and both ways are
followed.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from diag_kit.observe.script_tree import (
    Function,
    Scope,
    Unit,
    called,
    conditions,
    contains,
    default_of,
    keyword,
    parameters_of,
    short,
    value_for,
    written,
)

UNKNOWN = object()
"""A value that the text does not settle."""
RANK = object()
"""Some rank: a number from 0 on that differs between processes."""
_MAX_DEPTH = 8
_ARGUMENT_HOLDERS = {"args", "arg", "opt", "opts", "options", "cfg", "config", "hparams", "flags", "FLAGS", "params"}
_WORLD_NAMES = {"world_size", "worldsize", "num_replicas", "dp_size", "dp_world_size", "n_gpus", "num_gpus", "ngpus"}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}


@dataclass
class Program:
    """All files of a script with what is known of its run: arguments (None: not known, so no default counts), ranks."""

    units: Sequence[Unit]
    arguments: Mapping[str, str | bool] | None = None
    world_size: int | None = None
    _defaults: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for each in self.units:
            for node in ast.walk(each.tree):
                if isinstance(node, ast.Call) and short(node) == "add_argument":
                    self._enter_argument(node)

    def _enter_argument(self, call: ast.Call) -> None:
        names = [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        dest = keyword(call, "dest")
        longest = max(names, key=lambda name: (name.startswith("--"), len(name)), default="")
        key = dest.value if isinstance(dest, ast.Constant) else longest.lstrip("-").replace("-", "_")
        if not isinstance(key, str) or not key:
            return
        if self.arguments is None:
            self._defaults[key] = UNKNOWN
            return
        keys = [name.lstrip("-").replace("-", "_") for name in names]
        given = next((self.arguments[name] for name in keys if name in self.arguments), None)
        action = keyword(call, "action")
        flag = action.value if isinstance(action, ast.Constant) else None
        default = keyword(call, "default")
        if flag in ("store_true", "store_false"):
            value: Any = (given is None) == (flag == "store_false")
        elif given is not None:
            value = _typed(given, written(keyword(call, "type")))
        else:
            value = default.value if isinstance(default, ast.Constant) else None if default is None else UNKNOWN
        self._defaults[key] = value

    def argument(self, name: str) -> Any:
        if name in self._defaults:
            return self._defaults[name]
        if self.arguments is not None and name in self.arguments:
            return _typed(self.arguments[name], "")
        return UNKNOWN

    # -- definitions ---------------------------------------------------------------------------------------------

    def functions(self, name: str) -> list[tuple[Unit, Function]]:
        return [(u, n) for u in self.units for n in ast.walk(u.tree) if isinstance(n, Function) and n.name == name]

    def class_named(self, name: str) -> tuple[Unit, ast.ClassDef] | None:
        found = [(u, n) for u in self.units for n in ast.walk(u.tree) if isinstance(n, ast.ClassDef) and n.name == name]
        return found[0] if found else None

    def calls(self, name: str) -> list[tuple[Unit, ast.Call]]:
        return [(u, n) for u in self.units for n in ast.walk(u.tree) if isinstance(n, ast.Call) and short(n) == name]

    # -- names ---------------------------------------------------------------------------------------------------

    def values(self, where: Unit, node: ast.expr, depth: int = 0) -> list[tuple[Unit, ast.expr]]:
        """The expressions that a name, ``self.x`` or a conditional expression may stand for at that place; [] if
        unknown.
        """
        if depth > _MAX_DEPTH:
            return []
        if isinstance(node, ast.IfExp):
            test = self.evaluate(where, node.test, depth + 1)
            ways = [node.body, node.orelse] if test is UNKNOWN else [node.body if test else node.orelse]
            return [found for way in ways for found in (self.values(where, way, depth + 1) or [(where, way)])]
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            return self._attribute(where, node)
        if not isinstance(node, ast.Name):
            return []
        found: list[tuple[Unit, ast.expr]] = []
        function = where.function_of(node)
        while function is not None:
            more, sure = self._assigned(where, function, node)
            found += more
            if sure:
                return found
            if any(arg.arg == node.id for arg in parameters_of(function)):
                return found + self._passed(where, function, node.id, depth + 1)
            function = where.function_of(function)
        return found + self._assigned(where, where.tree, node)[0]

    def _attribute(self, where: Unit, node: ast.Attribute) -> list[tuple[Unit, ast.expr]]:
        owner = where.class_of(node)
        found: list[tuple[Unit, ast.expr]] = []
        for each in ast.walk(owner) if owner is not None else ():
            targets = each.targets if isinstance(each, ast.Assign) else [each.target] if isinstance(each, ast.AnnAssign) else []
            same = any(isinstance(t, ast.Attribute) and written(t) == f"self.{node.attr}" for t in targets)
            value = getattr(each, "value", None)
            if same and value is not None and self.reached(where, each) is not False:
                found.append((where, value))
        return found

    def _assigned(self, where: Unit, scope: Scope, use: ast.Name) -> tuple[list[tuple[Unit, ast.expr]], bool]:
        """Assignments in that scope which may be in force at the use, from the last one back to one that surely ran (True)."""
        own = []
        for node in ast.walk(scope):
            value = value_for(node, use.id)
            inner = where.function_of(node)
            at_home = inner is scope or (inner is None and isinstance(scope, ast.Module))
            if value is not None and at_home and node.lineno <= use.lineno and not contains(node, use):  # type: ignore[attr-defined]
                own.append((node, value))
        blocks = {use, *where.above(use)}
        found: list[tuple[Unit, ast.expr]] = []
        for node, value in sorted(own, key=lambda pair: -pair[0].lineno):  # type: ignore[attr-defined]
            reached = self.reached(where, node)
            if reached is False:
                continue
            found.append((where, value))
            if reached is True or where.parents.get(node) in blocks:
                return found, True
        return found, False

    def _passed(self, where: Unit, function: Function, name: str, depth: int) -> list[tuple[Unit, ast.expr]]:
        """What callers hand to a parameter; its default where no caller does."""
        parameters = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]
        method = where.class_of(function) is not None and parameters[:1] in (["self"], ["cls"])
        owner = where.class_of(function)
        name_called = owner.name if owner is not None and function.name == "__init__" else function.name
        found: list[tuple[Unit, ast.expr]] = []
        for place, call in self.calls(name_called):
            if self.reached(place, call) is False:
                continue
            value = keyword(call, name)
            if value is None and name in parameters:
                index = parameters.index(name) - (1 if method else 0)
                value = call.args[index] if 0 <= index < len(call.args) else None
            if value is not None:
                found += self.values(place, value, depth + 1) or [(place, value)]
        default = default_of(function, name)
        return found or ([(where, default)] if default is not None else [])

    # -- conditions ----------------------------------------------------------------------------------------------

    def reached(self, where: Unit, node: ast.AST, depth: int = 0) -> bool | None:
        """True or False where the arguments settle whether that node runs; None where they do not."""
        sure = True
        child: ast.AST = node
        for parent in where.above(node):
            for test, wanted in conditions(parent, child):
                value = self.evaluate(where, test, depth + 1)
                if value is UNKNOWN:
                    sure = False
                elif bool(value) is not wanted:
                    return False
            if isinstance(parent, Function):
                break
            child = parent
        return True if sure else None

    def called_at_all(self, where: Unit, node: ast.AST, depth: int = 0) -> bool:
        """False when every call of the function around the node sits in a branch that does not run."""
        function = where.function_of(node)
        if self.reached(where, node) is False:
            return False
        if function is None or depth > 3:
            return True
        places = self.calls(function.name)
        return not places or any(self.called_at_all(place, call, depth + 1) for place, call in places)

    def evaluate(self, where: Unit, node: ast.expr, depth: int = 0) -> Any:
        """The value of an expression where constants, arguments and the number of ranks settle it, else UNKNOWN."""
        if depth > _MAX_DEPTH:
            return UNKNOWN
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            items = [self.evaluate(where, item, depth + 1) for item in node.elts]
            return UNKNOWN if any(item is UNKNOWN for item in items) else tuple(items)
        if isinstance(node, ast.UnaryOp):
            value = self.evaluate(where, node.operand, depth + 1)
            if isinstance(node.op, ast.Not):
                return UNKNOWN if value is UNKNOWN else False if value is RANK else not value
            return -value if isinstance(node.op, ast.USub) and isinstance(value, int | float) else UNKNOWN
        if isinstance(node, ast.BoolOp):
            return self._bool(where, node, depth)
        if isinstance(node, ast.Compare):
            return self._compare(where, node, depth)
        if isinstance(node, ast.Call):
            return self._call(where, node, depth)
        if isinstance(node, ast.Subscript):
            key = node.slice.value if isinstance(node.slice, ast.Constant) else ""
            if called(node.value).endswith("environ"):
                return self._environment(str(key))
            return self.argument(str(key)) if called(node.value) in _ARGUMENT_HOLDERS else UNKNOWN
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in _ARGUMENT_HOLDERS:
            value = self.argument(node.attr)
            if value is UNKNOWN and node.attr in _WORLD_NAMES:
                return self._world()
            return value
        return self._name(where, node, depth)

    def _name(self, where: Unit, node: ast.expr, depth: int) -> Any:
        values = {id(expr): self.evaluate(place, expr, depth + 1) for place, expr in self.values(where, node, depth + 1)}
        found = list(values.values())
        if found and all(value is not UNKNOWN for value in found):
            same = all(value is found[0] or value == found[0] for value in found)
            return found[0] if same else UNKNOWN
        return self._world() if written(node).rpartition(".")[2].lower() in _WORLD_NAMES else UNKNOWN

    def _world(self) -> Any:
        return UNKNOWN if self.world_size is None else self.world_size

    def _environment(self, name: str) -> Any:
        if name in ("RANK", "LOCAL_RANK"):
            return RANK if (self.world_size or 0) > 1 else UNKNOWN
        return self._world() if name == "WORLD_SIZE" else UNKNOWN

    def _bool(self, where: Unit, node: ast.BoolOp, depth: int) -> Any:
        values = [self.evaluate(where, value, depth + 1) for value in node.values]
        settles = isinstance(node.op, ast.Or)
        for value in values:
            if value is not UNKNOWN and bool(value) is settles:
                return value
        return UNKNOWN if UNKNOWN in values else values[-1]

    def _compare(self, where: Unit, node: ast.Compare, depth: int) -> Any:
        if len(node.ops) != 1:
            return UNKNOWN
        op = node.ops[0]
        right_text = written(node.comparators[0])
        if isinstance(op, ast.In | ast.NotIn) and right_text.endswith("environ"):
            present = self._environment(str(getattr(node.left, "value", ""))) is not UNKNOWN
            return isinstance(op, ast.In) if present else UNKNOWN
        left = self.evaluate(where, node.left, depth + 1)
        right = self.evaluate(where, node.comparators[0], depth + 1)
        if UNKNOWN in (left, right):
            return UNKNOWN
        if RANK in (left, right):
            return _compare_rank(op, right if left is RANK else left)
        try:
            return _COMPARE[type(op)](left, right)
        except (TypeError, ValueError):
            return UNKNOWN

    def _call(self, where: Unit, node: ast.Call, depth: int) -> Any:
        name = short(node)
        if name in ("get_world_size", "get_dp_size", "get_data_parallel_world_size"):
            return self._world()
        if name in ("is_initialized", "is_dist_avail_and_initialized", "is_distributed", "is_torchelastic_launched"):
            return UNKNOWN if self.world_size is None else self.world_size > 1
        if name in ("get_rank", "get_local_rank", "get_global_rank"):
            return RANK if (self.world_size or 0) > 1 else UNKNOWN
        if name in ("get", "getenv") and node.args and ("environ" in called(node) or name == "getenv"):
            return self._environment(str(getattr(node.args[0], "value", "")))
        if name in ("int", "bool", "str", "float") and len(node.args) == 1:
            value = self.evaluate(where, node.args[0], depth + 1)
            return value if value in (UNKNOWN, RANK) else _convert(name, value)
        return UNKNOWN


def _typed(value: str | bool, kind: str) -> Any:
    if isinstance(value, bool):
        return value
    if kind in ("int", "float", ""):
        for convert in (int, float):
            try:
                return convert(value)
            except ValueError:
                continue
    return value


def _convert(name: str, value: Any) -> Any:
    try:
        return {"int": int, "bool": bool, "str": str, "float": float}[name](value)
    except (TypeError, ValueError):
        return UNKNOWN


def _compare_rank(op: ast.cmpop, other: Any) -> Any:
    """A rank is a number from 0 on: it is never None nor negative; against others it differs between processes."""
    if other is None:
        return isinstance(op, ast.IsNot | ast.NotEq)
    if isinstance(other, int) and other < 0:
        return isinstance(op, ast.NotEq | ast.Gt | ast.GtE)
    return UNKNOWN
