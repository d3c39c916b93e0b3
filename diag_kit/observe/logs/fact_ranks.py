"""Rules of ``fact_rules`` on ranks: how many there are, on how many nodes, how they are divided, and their loader processes."""

from __future__ import annotations

from diag_kit.observe.logs.fact_words import (
    ASIDE,
    DEVICE,
    ELSEWHERE,
    LARGEST,
    LOADER,
    NOTHING,
    SAMPLE,
    STEP,
    TRAIN,
    VAL,
    Phrase,
    Stated,
)

_NUMBER_OF = {"num", "number", "n", "total", "#"}
LAYOUT = {"data": "data", "dp": "data", "tensor": "tensor", "tp": "tensor", "pipeline": "pipeline", "pp": "pipeline",
          "context": "context", "cp": "context", "sequence": "sequence", "sp": "sequence"}  # fmt: skip


def layout(p: Phrase) -> Stated | None:
    """``tensor_parallel_size=4``, ``tensor-model-parallel-size 2``, ``dp_size: 8``: how the ranks are divided."""
    kinds = [LAYOUT[word] for word in LAYOUT if word in p.words]
    named = "parallel" in p.words or "parallelism" in p.words or bool(p.words & {"dp", "tp", "pp", "cp", "sp"})
    if len(kinds) == 1 and named and p.has({"size", "degree", "dim"}) and p.whole is not None:
        return Stated(f"{kinds[0]}_parallel_size", p.whole, "ranks")
    return None


def world_size(p: Phrase) -> Stated | None:
    """The number must stand beside the word for a process or a device: torchrun's "OMP_NUM_THREADS environment variable for
    each process to be 1" (torch/distributed/run.py) is none."""
    if not p.whole:
        return None
    if {"world", "size"} <= p.words:
        plain = p.behind("size") <= {"is", "of", "set", "to"} and p.lacks({"local", "group", "old", "previous"} | set(LAYOUT))
        return Stated("world_size", p.whole, "ranks") if plain else NOTHING
    if p.has({"nproc"}) or (p.has({"process", "rank"}, {"per"}, _NODE) and p.ordered[-1:] and p.ordered[-1] in _NODE):
        counted = p.has({"nproc"}) or p.has(_NUMBER_OF) or p.ordered[0] in {"process", "rank"}
        return Stated("ranks_per_node", p.whole, "ranks", 2 if p.has({"nproc"}) else 1) if counted else NOTHING
    if p.ordered[-1:] in (("nnode",), ("nnodes",)) or (p.ordered[-1:] and p.ordered[-1] in _NODE and p.has(_NUMBER_OF)):
        return Stated("nodes", p.whole, "nodes") if p.lacks({"min", "minimum", "per"}, LARGEST) else NOTHING
    if not p.has(DEVICE):
        return None
    counted = p.has(_NUMBER_OF) and p.ordered[-1] in DEVICE | {"used"} and p.behind(*_NUMBER_OF) <= DEVICE | _OF_ALL
    if counted and p.lacks(SAMPLE, STEP, ELSEWHERE, ASIDE, {"epoch"}, _NODE):
        return Stated("world_size", p.whole, "ranks", 1)
    return None


_NODE = {"node", "machine", "host"}
_OF_ALL = {"of", "the", "all", "used", "total", "training", "train", "distributed", "data", "parallel", "cuda", "worker"}


def workers(p: Phrase) -> Stated | None:
    """Loader processes: ``num_workers``, "DataLoader workers"; not those of a tokenizer, of validation, nor "worker 3"."""
    if not p.has({"worker"}):
        return None
    named = p.ordered[-2:] == ("num", "worker") and p.lacks(VAL, LARGEST, {"preprocessing", "tokenizer", "tokenize", "map"})
    if not (named or p.words <= _OF_WORKERS | _NUMBER_OF | LOADER | DEVICE | TRAIN):
        return None
    ranked = p.has({"rank"}) and not {"num", "per"} <= p.words
    countable = p.value == int(p.value) and 0 <= p.value < 2**31
    if countable and not ranked:
        return Stated("num_workers", int(p.value), "", 2 if p.has(_NUMBER_OF) else 1)
    return None


_OF_WORKERS = {"worker", "of", "the", "data", "loading", "per", "using", "use", "with", "torch", "count"}


def devices_first(p: Phrase, near: set[str]) -> Stated:
    """Of the run: "Training on 4 GPUs", "Starting with 4 processes"; not "averaged over 4 ranks", "a group of 4 GPUs"."""
    if "per" in near and near & _NODE and p.after[0] in {"process", "rank"}:
        return Stated("ranks_per_node", p.whole or 0, "ranks", 1)
    beside = p.ordered[-1:] and p.ordered[-1] in {"with", "on", "using", "use", "across", "over", "of", "launching"}
    part = near & ({"each", "per", "of", "failed", "available", "visible", "for"} | _NODE) or p.has(_GROUPS | ELSEWHERE | ASIDE)
    stated = p.has(_STARTS | TRAIN) and beside and not part
    return Stated("world_size", p.whole or 0, "ranks", 1) if stated else NOTHING


_STARTS = {"using", "use", "starting", "started", "start", "launching", "launched", "distributed", "ddp", "fsdp", "world"}
_GROUPS = {"group", "expert", "tensor", "pipeline", "tp", "pp", "cp", "sp", "loss", "averaged", "waiting", "batch"}
