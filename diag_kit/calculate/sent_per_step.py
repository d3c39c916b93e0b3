"""What a step sends, from what was seen and told: the sum, its parts, and what of it can stand in the way of compute."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

from diag_kit.calculate.calculator import calculator
from diag_kit.calculate.collectives import (
    BYTES,
    Job,
    Sent,
    exposed,
    one_gather_is_too_low,
    seconds_of,
    sent_per_step,
    why_impossible,
)
from diag_kit.calculate.inputs import ASSUMED, BY_HAND, Known, ids_of, known, parameters, sentences, text_fact
from diag_kit.calculate.parallel import model_parallel_sizes
from diag_kit.calculate.split_arithmetic import split_arithmetic
from diag_kit.evidence import Evidence
from diag_kit.figures import figure
from diag_kit.records import Assumption, Calculation, Interval

_LEFT_OUT = "latency and late ranks are not in it"


@dataclass(frozen=True, slots=True)
class _Told:
    """The job as the evidence has it, the bandwidths, and where each number comes from."""

    job: Job
    link: Known
    node_link: Known
    assumptions: tuple[Assumption, ...]
    ids: tuple[str, ...]
    sync_known: bool

    @property
    def all_ids(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*self.ids, *self.link.ids, *self.node_link.ids]))

    def timed(self, job: Job) -> list[tuple[Sent, float]] | None:
        """Each collective with its seconds; None where one is not known."""
        found = [(each, seconds_of(each, job, self.link.value, self.node_link.value)) for each in sent_per_step(job)]
        known_ones = [(each, seconds) for each, seconds in found if seconds is not None]
        return known_ones if len(known_ones) == len(found) else None


@dataclass(frozen=True)
class _Inputs:
    parameters: float | None = None
    trainable_parameters: float | None = None
    world_size: int | None = None
    link_gb_per_s: float | None = None
    gathers: float | None = None
    sharding: str | None = None
    compute_dtype: str | None = None
    reduce_dtype: str | None = None
    shard_ranks: int | None = None
    ranks_per_node: int | None = None
    node_link_gb_per_s: float | None = None

    def told(self, evidence: Evidence) -> _Told | None:
        """None where parameters or ranks are not known."""
        whole = known(evidence, "parameters", self.parameters)
        trained = known(evidence, "trainable_parameters", self.trainable_parameters, whole.value)
        link = known(evidence, "link_gb_per_s", self.link_gb_per_s, unit="GB/s")
        node_link = known(evidence, "node_link_gb_per_s", self.node_link_gb_per_s, unit="GB/s")
        arithmetic = split_arithmetic(evidence)
        world = arithmetic.parallel.world_size if arithmetic.parallel else None
        ranks = self.world_size or (int(world.value) if world and world.value else None)
        if not whole.value or not trained.value or not ranks:
            return None
        sharding = _word(evidence, "sharding", self.sharding, "fsdp")
        gathered = _word(evidence, "compute_dtype", self.compute_dtype, "bf16")
        reduced = _word(evidence, "reduce_dtype", self.reduce_dtype, "fp32")
        shard, node = (known(evidence, name, getattr(self, name)) for name in ("shard_ranks", "ranks_per_node"))
        sizes, sync = model_parallel_sizes(evidence), text_fact(evidence, "gradient_sync")
        layers, hidden, length = (known(evidence, name) for name in ("layers", "hidden_size", "max_seq_len"))
        batch = arithmetic.batch.size.value
        job = Job(
            whole.value, trained.value, ranks, str(sharding.value),
            parameter_bytes=BYTES.get(str(gathered.value), 2), reduce_bytes=BYTES.get(str(reduced.value), 4),
            shard_ranks=_whole(shard), gathers=self.gathers, microbatches=max(1, arithmetic.accumulation),
            no_sync=sync == "once a step", tensor=sizes.get("tensor", 1), pipeline=sizes.get("pipeline", 1),
            ranks_per_node=_whole(node), layers=_whole(layers), hidden_size=_whole(hidden),
            tokens=batch * length.value if batch and length.value else None,
            recomputed=text_fact(evidence, "activation_recompute") == "full",
        )  # fmt: skip
        one_host = Assumption("ranks_per_node", ranks, ASSUMED, "ranks")
        assumed = [whole.assumption, trained.assumption, link.assumption, sharding, gathered, reduced]
        assumed += [node.assumption, node_link.assumption] if node.value else [one_host]
        ids = ids_of(whole, trained, world)
        return _Told(job, link, node_link, tuple(assumed), ids, bool(sync) or job.microbatches == 1)


def _word(evidence: Evidence, name: str, by_hand: str | None, default: str) -> Assumption:
    if by_hand is not None:
        return Assumption(name, by_hand, BY_HAND)
    found = evidence.fact(name)
    return Assumption(name, default, ASSUMED) if found is None else Assumption(name, str(found.fact.value), found.fact.source)


def _whole(value: Known) -> int | None:
    return int(value.value) if value.value and value.value >= 1 else None


def _sum(job: Job) -> float | None:
    parts = [each.sent_gb for each in sent_per_step(job)]
    found = [each for each in parts if each is not None]
    return sum(found) if len(found) == len(parts) else None


@calculator
@dataclass(frozen=True)
class Communication(_Inputs):
    """What a step sends from each rank, before any overlap with compute (formulas and sources: ``calculate.collectives``).

    Fully sharded, the default: (N-1)/N x (2 gathers x 2 bytes x parameters + 4 bytes x trainable parameters): every group is
    gathered twice in bf16 (forward, backward), gradients reduced once in fp32, frozen parameters gathered but not reduced. Groups
    that are gathered once, or layers called several times a step, change it: count them in a trace. ``link_gb_per_s`` is one way.
    With accumulation and nothing known of ``gradient_sync``: the value reduces at each micro-batch, the interval reaches down to
    once a step.
    """

    name: ClassVar[str] = "communication"

    def compute(self, evidence: Evidence) -> tuple[Calculation, ...]:
        told = self.told(evidence)
        if told is None:
            return ()
        job = told.job
        sent, timed, wrong = _sum(job), told.timed(job), why_impossible(job)
        missing = sentences(wrong, *(each.note for each in sent_per_step(job)))
        made: dict[str, Any] = {"assumptions": told.assumptions, "calculator": self.name, "parameters": parameters(self)}
        if wrong or sent is None:
            return (
                Calculation("comm_gb_per_step", _formula(job), None, "GB", told.ids, note=missing, **made),
                Calculation("comm_s_per_step", _SECONDS, None, "s", told.all_ids, note=missing, **made),
            )
        seconds = sum(each for _, each in timed) if timed is not None else None
        note = _says(job)
        slow = note if seconds is not None else _bandwidth_missing(told)
        low, least = _least(told)
        return (
            Calculation("comm_gb_per_step", _formula(job), sent, "GB", told.ids, _span(low, sent), note=note, **made),
            Calculation(
                "comm_s_per_step", _SECONDS, seconds, "s", told.all_ids, _span(least, seconds), note=slow, **made
            ),
        )  # fmt: skip


_SECONDS = "GB per step / one-way bandwidth of the link"


def _least(told: _Told) -> tuple[float | None, float | None]:
    """GB and seconds if gradients are reduced once a step; None where that is known already."""
    if told.sync_known:
        return None, None
    once = dataclasses.replace(told.job, no_sync=True)
    timed = told.timed(once)
    return _sum(once), sum(each for _, each in timed) if timed is not None else None


def _span(low: float | None, high: float | None) -> Interval | None:
    return Interval(low, high) if low is not None and high is not None and low < high else None


def _formula(job: Job) -> str:
    n, plain = job.sharded_over, job.microbatches == 1 and job.tensor == job.pipeline == 1
    if plain and job.sharding in ("fsdp", "fsdp no reshard"):
        gathers = job.gathers if job.gathers is not None else 2 if job.sharding == "fsdp" else 1
        once = f"{gathers:g} gathers x {job.parameter_bytes:g} bytes x parameters"
        return f"({n} - 1) / {n} x ({once} + {job.reduce_bytes:g} bytes x trainable ones)"
    return " + ".join(each.formula for each in sent_per_step(job)) or "collectives x bytes x ring factor"


def _says(job: Job) -> str:
    if job.ranks == 1:
        return "one rank sends nothing"
    if job.sharding == "fsdp" and job.gathers in (None, 2):
        return "fully sharded, every group gathered twice, each layer called once; before overlap"
    return f"{job.sharding}, each layer called once; before overlap"


def _bandwidth_missing(told: _Told) -> str:
    if told.link.value is None:
        return "needs the bandwidth of the link (link_gb_per_s), best measured"
    return "needs the bandwidth of a host's network (node_link_gb_per_s), best measured"


@calculator
@dataclass(frozen=True)
class CommunicationParts(_Inputs):
    """The parts of ``comm_gb_per_step``, how much of it can be hidden, and why one gather is too low an estimate.

    ``comm_gathers_gb``, ``comm_reductions_gb``, ``comm_activations_gb``; ``comm_exposed_s_low``: everything that can runs beside
    compute (that of one GPU alone where ``one_gpu_steps_per_s`` is known: the same batch on a rank); ``comm_exposed_s_high``:
    nothing does. ``comm_one_gather_s``: the usual first estimate (parameters x bytes / bandwidth); the note says what it lacks.
    """

    one_gpu_steps_per_s: float | None = None

    name: ClassVar[str] = "communication_parts"

    def compute(self, evidence: Evidence) -> tuple[Calculation, ...]:
        told = self.told(evidence)
        if told is None or why_impossible(told.job) or told.job.ranks == 1:
            return ()
        made: dict[str, Any] = {"assumptions": told.assumptions, "calculator": self.name, "parameters": parameters(self)}
        parts = sent_per_step(told.job)
        kinds = (("comm_gathers_gb", "all-gather"), ("comm_reductions_gb", "of gradient"), ("comm_activations_gb", "activations"))
        found: list[Calculation] = []
        for name, words in kinds:
            chosen = [each for each in parts if words in each.name or (name == "comm_activations_gb" and "stages" in each.name)]
            if chosen:
                sizes = [each.sent_gb for each in chosen if each.sent_gb is not None]
                value = sum(sizes) if len(sizes) == len(chosen) else None
                formula = " + ".join(each.formula for each in chosen)
                note = sentences("; ".join(each.name for each in chosen), *(each.note for each in chosen))
                found.append(Calculation(name, formula, value, "GB", told.ids, note=note, **made))
        return (*found, *self._exposed(evidence, told, made), *_too_low(told, made))

    def _exposed(self, evidence: Evidence, told: _Told, made: dict[str, Any]) -> tuple[Calculation, ...]:
        alone = known(evidence, "one_gpu_steps_per_s", self.one_gpu_steps_per_s, unit="steps/s")
        timed = told.timed(told.job)
        beside = 1 / alone.value if alone.value else None
        span = exposed(timed, beside) if timed is not None else None
        low = f"beside {figure(beside)} s of compute (one GPU alone)" if beside else "compute is not known: all of it may hide"
        why = "" if span else _bandwidth_missing(told)
        ids = tuple(dict.fromkeys([*told.all_ids, *alone.ids]))
        rest = {**made, "assumptions": (*told.assumptions, alone.assumption)}
        return (
            Calculation(
                "comm_exposed_s_low", "what cannot hide + max(0, what can hide - compute)", span.low_s if span else None, "s",
                ids, note=sentences(why or low, _LEFT_OUT), **rest,
            ),
            Calculation(
                "comm_exposed_s_high", "all collectives of a step, one after the other, beside nothing",
                span.high_s if span else None, "s", ids, note=sentences(why, _LEFT_OUT), **rest,
            ),
        )  # fmt: skip


def _too_low(told: _Told, made: dict[str, Any]) -> tuple[Calculation, ...]:
    job, link = told.job, told.link.value
    if not link or job.sharding != "fsdp" or job.ranks_per_node or job.microbatches > 1 or job.tensor * job.pipeline > 1:
        return ()
    first, *rest = one_gather_is_too_low(job, link)
    says = "; ".join(f"{row.name}: {figure(row.gb)} GB, {figure(row.seconds)} s ({row.why})" for row in rest)
    formula = "parameters x bytes / one-way bandwidth of the link"
    note = f"no step sends so little: {says}"
    return (Calculation("comm_one_gather_s", formula, first.seconds, "s", told.all_ids, note=note, **made),)
