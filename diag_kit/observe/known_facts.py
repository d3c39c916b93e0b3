"""What a person may tell the kit: every fact that a calculation, a rule or a test asks for and that no host has to show.

One list, in one place: ``python -m diag_kit facts`` prints it, ``inv.tell`` and ``--fact`` check against it. A name that nobody
asks for would be taken silently and change nothing, so it is refused unless the caller says that it is meant.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from diag_kit.errors import BadInput
from diag_kit.records import Value


@dataclass(frozen=True, slots=True)
class KnownFact:
    """A name, its unit, what it means. ``whole``: a count; ``at_least``: the smallest value that can be, itself included unless
    ``above``; ``text``: no number, one of ``choices`` where there are any."""

    name: str
    unit: str
    meaning: str
    whole: bool = False
    at_least: float = 0.0
    above: bool = True
    text: bool = False
    choices: tuple[str, ...] = ()

    @property
    def what(self) -> str:
        """What a value must be, in words."""
        if self.choices:
            return f"one of {', '.join(map(repr, self.choices))}"
        if self.text:
            return "a text"
        kind = f"{'a whole number' if self.whole else 'a number'} of {self.unit}".removesuffix(" of ")
        return f"{kind}, {'above' if self.above else 'at least'} {self.at_least:g}"


def _count(name: str, unit: str, meaning: str, at_least: float = 1) -> KnownFact:
    return KnownFact(name, unit, meaning, whole=True, at_least=at_least, above=False)


def _amount(name: str, unit: str, meaning: str) -> KnownFact:
    return KnownFact(name, unit, meaning)


def _text(name: str, meaning: str, *choices: str) -> KnownFact:
    return KnownFact(name, "", meaning, text=True, choices=choices)


FACTS: tuple[KnownFact, ...] = (
    _amount("one_gpu_steps_per_s", "steps/s", "optimizer steps a second that the same training does on one GPU alone"),
    _amount("steps_per_s", "steps/s", "the step rate that somebody believes in, to be checked against the log"),
    _amount("expected_hours", "h", "the length of the whole run that somebody expects, to be checked against the log"),
    _amount("elapsed_s", "s", "how long the run has been running, where neither the log nor the process says it"),
    _count("world_size", "ranks", "processes of the training, all kinds of parallelism together"),
    _count(
        "data_parallel_size", "ranks", "ranks that share out the data (world size / tensor, pipeline and context parallelism)"
    ),
    _count("tensor_parallel_size", "ranks", "ranks over which each layer is divided"),
    _count("pipeline_parallel_size", "ranks", "ranks over which the layers are divided"),
    _count("context_parallel_size", "ranks", "ranks over which each sequence is divided"),
    _count("sequence_parallel_size", "ranks", "ranks over which each sequence is divided"),
    _count("batch_size_per_rank", "samples", "samples in one batch of one rank, before accumulation"),
    _count("global_batch_size", "samples", "samples of one optimizer step, all ranks and accumulation together"),
    _count("accumulation_steps", "steps", "batches whose gradients are added up for one optimizer step"),
    _count("train_samples", "samples", "samples of the training part of the dataset"),
    _count("val_samples", "samples", "samples of the validation part", 0),
    _count("dataset_samples", "samples", "samples of the whole dataset, all parts"),
    _amount("dataset_bytes", "bytes", "size of the whole dataset where it is stored"),
    _count("batches_per_epoch", "batches", "length of the training loader on one rank"),
    _count("total_steps", "steps", "steps of the whole run, as the training counts them"),
    _amount("epochs", "", "passes over the dataset"),
    _count("resume_step", "steps", "the step at which this run was resumed from a checkpoint", 0),
    _count("log_every_steps", "steps", "steps between two lines of the log"),
    _count("started_ranks", "ranks", "ranks that said in the log that they started"),
    _count("num_workers", "", "loader processes of each rank; 0: the rank loads by itself", 0),
    _amount("parameters", "", "parameters of the model, the frozen ones too"),
    _amount("trainable_parameters", "", "parameters that are trained: what the ranks send one another"),
    _amount("link_gb_per_s", "GB/s", "bandwidth between two GPUs, one way, in gigabytes (not gigabits)"),
    _amount("node_link_gb_per_s", "GB/s", "bandwidth of a host's network for the training, all adapters, one way, in gigabytes"),
    _count("ranks_per_node", "ranks", "ranks of the training on one host"),
    _count("shard_ranks", "ranks", "ranks of one shard group in hybrid sharding (HSDP)"),
    _text("sharding", "how the ranks share the model", "ddp", "zero1", "zero2", "fsdp", "fsdp no reshard", "hsdp"),
    _text("gradient_sync", "how often accumulated gradients are reduced", "each micro-batch", "once a step"),
    _text("compute_dtype", "the type that the model computes in", "fp32", "tf32", "bf16", "fp16", "fp8"),
    _text("reduce_dtype", "the type that gradients are reduced in", "fp32", "bf16", "fp16"),
    _text("activation_recompute", "what the backward computes again (gradient checkpointing)", "none", "selective", "full"),
    _text("optimizer", "the optimizer, such as adamw, adamw 8-bit, sgd momentum, lion"),
    _text("gpu_name", "the GPU as nvidia-smi prints it, such as NVIDIA A100-SXM4-80GB"),
    _amount("active_parameters", "", "parameters that one token passes, of a mixture of experts"),
    _amount("tokens_per_step", "tokens", "tokens of one optimizer step, all ranks together"),
    _count("layers", "", "layers of the model"),
    _count("hidden_size", "", "width of the model: what one token's activation is"),
    _count("max_seq_len", "tokens", "the greatest length of a sequence"),
    _text("nvlink", "whether the GPUs are linked by NVLink", "present", "none"),
    _text("log_path", "the training's log on the host"),
    _text("data_dir", "the folder of the dataset on the host"),
    _text("data_mount_type", "the file system that the dataset is on, such as ext4, nfs4, lustre"),
    _text("script", "the training script on the host"),
    _text("interpreter", "the Python that runs the training"),
    _text("job_started", "when the training was started, such as 2026-03-02T09:00:00+00:00"),
    _text("working_dir", "the folder that the training was started in"),
    _text("command_line", "the command line of the training: parallel sizes are read from it"),
    _text("framework", "what the training is written with, such as accelerate, lightning, megatron"),
    _text("rank_filter", "which ranks print, where only some do", "rank 0 only"),
    _text("ranks_by_source", "how many ranks the script starts by itself: a number, or one for each GPU"),
    _text("shared_data_by_source", "the call that builds groups of ranks which share data by design, such as init_device_mesh"),
    _text("split_by_source", "how often the code splits the data over the ranks", "none", "once", "twice", "cannot tell"),
    _text(
        "order_by_source", "whether the ranks go through the data in the same order, by the code", "same", "own", "cannot tell"
    ),
    _text("printed_length_is", "what the epoch length in the log counts", "len(dataset)", "len(loader)"),
)
KNOWN: dict[str, KnownFact] = {fact.name: fact for fact in FACTS}
_SAME_UNIT = {"B": "bytes", "byte": "bytes", "step/s": "steps/s", "hours": "h", "hour": "h", "seconds": "s", "sec": "s"}


def checked(name: Any, value: Any, unit: str = "", *, other: bool = False) -> tuple[Value, str]:
    """The value and its unit as they go into the ledger. Raises BadInput for a name that nobody asks for (unless ``other``), a
    value that cannot be, or another unit."""
    if not isinstance(name, str) or not name.strip():
        raise BadInput(f"{name!r} is no name of a fact", next_step='inv.tell("one_gpu_steps_per_s", 6)')
    known = KNOWN.get(name)
    if known is None:
        return _unknown(name, value, unit, other)
    if unit and known.unit and _SAME_UNIT.get(unit, unit) != known.unit:
        raise BadInput(f"{name} is in {known.unit}, not in {unit}", next_step=f"convert it to {known.unit}")
    return (_text_of(known, value) if known.text else _number_of(known, value)), unit or known.unit


def typed(name: str, text: str) -> Value:
    """What was typed for a fact, as the kind of value that it has; for an unknown one a number where it is one."""
    known = KNOWN.get(name)
    if known is not None and known.text:
        return text
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _unknown(name: str, value: Any, unit: str, other: bool) -> tuple[Value, str]:
    if not other:
        near = " or ".join(get_close_matches(name, KNOWN, n=2, cutoff=0.6))
        hint = f"is {near} meant? " if near else ""
        raise BadInput(
            f"no calculation asks for a fact called {name[:80]!r}",
            next_step=f"{hint}python -m diag_kit facts lists the names; to keep it on "
            "record all the same: --other-fact NAME=VALUE, or inv.tell(..., other=True)",
        )
    plain = _plain_number(value)
    if isinstance(plain, float) and not math.isfinite(plain):
        raise BadInput(f"{name}={value!r} is not a finite number", next_step="None says that it is not known")
    if plain is None and not isinstance(value, str | bool | None):
        raise BadInput(f"{name}={value!r} is neither a number nor a text", next_step=f'inv.tell("{name}", "...", other=True)')
    return (plain if plain is not None else value), unit


def _plain_number(value: Any) -> int | float | None:
    """A number, numpy's included; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, numbers.Integral):
        return int(value)
    return float(value) if isinstance(value, numbers.Real) else None


def _number_of(known: KnownFact, value: Any) -> int | float:
    number = _plain_number(value)
    if number is None or not math.isfinite(number):
        raise BadInput(f"{known.name}={value!r}: it is {known.what}", next_step=_example(known))
    too_small = number <= known.at_least if known.above else number < known.at_least
    if too_small or (known.whole and number != int(number)):
        raise BadInput(f"{known.name}={number:g} cannot be: it is {known.what}", next_step=f"{known.name} means: {known.meaning}")
    return int(number) if known.whole else number


def _text_of(known: KnownFact, value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or (known.choices and value not in known.choices):
        raise BadInput(f"{known.name}={value!r}: it is {known.what}", next_step=f"{known.name} means: {known.meaning}")
    return value


def _example(known: KnownFact) -> str:
    number = max(known.at_least, 2)
    return f'inv.tell("{known.name}", {number:g}), or --fact {known.name}={number:g}: {known.meaning}'
