"""How a script lays out its ranks: how many it starts by itself, and whether some of them share data by design.

``mp.spawn(run, nprocs=N)`` starts N, a number or the number of GPUs; a launcher (torchrun, accelerate) decides from outside, and
then the script says nothing. Ranks of one tensor, pipeline or context parallel group must see the same samples.
"""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Iterable

from diag_kit.observe.script_tree import Unit
from diag_kit.records import Fact

PER_GPU = "one for each GPU"
"""``nprocs=torch.cuda.device_count()``."""


def ranks_started(units: Iterable[Unit]) -> Fact | None:
    """The fact ``ranks_by_source``: a number, or PER_GPU; None where no rank is started, or several places differ."""
    found: dict[int | str, str] = {}
    for unit in units:
        for node in ast.walk(unit.tree):
            if isinstance(node, ast.Call) and _last_name(node.func) == "spawn":
                count = _count(_nprocs(node), unit)
                if count is None:
                    return None
                found.setdefault(count, f"{posixpath.basename(unit.file)}:{node.lineno}")
    if len(found) != 1:
        return None
    (count, where), *_ = found.items()
    return Fact("ranks_by_source", count, f"{where}: spawns {count if count == PER_GPU else f'{count} processes'}")


SHARING_DIMS = frozenset(
    {"tp", "tensor", "tensor_parallel", "pp", "pipe", "pipeline", "cp", "context", "sp", "sequence", "mp", "model"}
)
"""Names of mesh dimensions whose ranks share samples (``init_device_mesh(..., mesh_dim_names=("dp", "tp"))``)."""
SHARING_CALLS = frozenset(
    {"parallelize_module", "initialize_model_parallel", "PipelineStage", "context_parallel", "TensorParallelPlugin"}
)
"""torch.distributed.tensor.parallel, Megatron core, torch.distributed.pipelining, torch.distributed.tensor.experimental."""


def shared_data(units: Iterable[Unit]) -> Fact | None:
    """The fact ``shared_data_by_source``: the first call that builds groups of ranks which share data; None without one."""
    for unit in units:
        for node in ast.walk(unit.tree):
            if isinstance(node, ast.Call) and (what := _shares(node)):
                return Fact("shared_data_by_source", what, f"{posixpath.basename(unit.file)}:{node.lineno}")
    return None


def _shares(call: ast.Call) -> str:
    name = _last_name(call.func)
    if name in SHARING_CALLS:
        return name
    if name not in ("init_device_mesh", "DeviceMesh"):
        return ""
    texts = [each.value for each in ast.walk(call) if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return next((f"{name} with a dimension {text}" for text in texts if text.lower() in SHARING_DIMS), "")


def _nprocs(call: ast.Call) -> ast.expr | None:
    """``torch.multiprocessing.spawn(fn, args=(), nprocs=1, ...)``."""
    named = {keyword.arg: keyword.value for keyword in call.keywords}
    if "nprocs" in named:
        return named["nprocs"]
    return call.args[2] if len(call.args) > 2 else None


def _count(value: ast.expr | None, unit: Unit, depth: int = 0) -> int | str | None:
    if value is None or depth > 4:
        return None
    if isinstance(value, ast.Constant) and isinstance(value.value, int) and not isinstance(value.value, bool):
        return value.value if value.value > 0 else None
    if isinstance(value, ast.Call) and _last_name(value.func) == "device_count":
        return PER_GPU
    if isinstance(value, ast.Name):
        assigned = _assigned(value.id, unit)
        return _count(assigned, unit, depth + 1)
    return None


def _assigned(name: str, unit: Unit) -> ast.expr | None:
    """What the only assignment to a name gives it; None where there are several, or none."""
    values = [
        node.value
        for node in ast.walk(unit.tree)
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
    ]
    return values[0] if len(values) == 1 else None


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
