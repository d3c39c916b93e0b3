"""How much of the GPUs' peak a step uses (MFU), and what a rank keeps in memory, from what was seen and told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from diag_kit.calculate.calculator import calculator
from diag_kit.calculate.collectives import BYTES
from diag_kit.calculate.compute import (
    OPTIMIZER_BYTES,
    Flops,
    attention_flops,
    flops_per_token,
    memory_per_rank,
    optimizer_bytes,
    utilization,
)
from diag_kit.calculate.hardware import gpus_fitting, peak_tflops, why_unknown
from diag_kit.calculate.inputs import (
    ASSUMED,
    BY_HAND,
    Known,
    calculated,
    ids_of,
    known,
    number_of,
    parameters,
    sentences,
    text_fact,
)
from diag_kit.calculate.parallel import model_parallel_sizes, world_size
from diag_kit.evidence import Evidence
from diag_kit.figures import figure
from diag_kit.records import Assumption, Calculation, Interval


def gpu_name(evidence: Evidence, by_hand: str | None = None) -> tuple[str, tuple[str, ...], str]:
    """The name of the GPUs, the ids behind it, and why it is not known: by hand, told, else the one name in the ``gpus`` table.

    A card that is divided (MIG) keeps its name, and a slice of it has no peak of its own here.
    """
    if by_hand:
        return by_hand, (), ""
    told = [s for s in evidence.facts("gpu_name") if s.id in {o.id for o in evidence.observations if o.probe == "told"}]
    if told:
        return str(told[-1].fact.value), (told[-1].id,), ""
    seen = evidence.sourced_table("gpus")
    if seen is None or "name" not in seen[0].columns:
        return "", (), "the name of the GPU is not known"
    table, card = seen
    if "mig" in table.columns and table["mig"].astype("string").str.lower().str.startswith("enabled").any():
        return "", (card,), "the GPU is divided (MIG): the peak of a slice is not known"
    names = sorted({str(name) for name in table["name"].dropna() if str(name).strip()})
    if len(names) > 1:
        return "", (card,), f"GPUs of several kinds: {', '.join(names[:4])}"
    return (names[0], (card,), "") if names else ("", (card,), "the name of the GPU is not known")


def _tokens(evidence: Evidence, by_hand: float | None) -> tuple[Known, str]:
    """Tokens of a step over all ranks: stated, else samples of a step x the longest sequence, with what that assumes."""
    stated = known(evidence, "tokens_per_step", by_hand, unit="tokens")
    if stated.value:
        return stated, ""
    length, batch = known(evidence, "max_seq_len", unit="tokens"), calculated(evidence, "effective_batch")
    samples = number_of(batch) or known(evidence, "global_batch_size").value
    if not length.value or not samples:
        return stated, "tokens of a step are not known (tokens_per_step)"
    ids = ids_of(length, batch)
    return Known(
        "tokens_per_step", samples * length.value, ASSUMED, ids, "tokens"
    ), "every sample taken as of the greatest length"


@calculator
@dataclass(frozen=True)
class ModelFlops:
    """``flops_per_token`` and ``mfu``: formulas and sources in ``calculate.compute``, peaks in ``calculate.hardware``.

    With frozen parameters the operations of a token have two bounds; the value is the lower, so that an MFU is "at least".
    Nothing is given for a GPU or a dtype whose peak is not known, and for a share above 1, which says that an input is wrong.
    """

    parameters: float | None = None
    trainable_parameters: float | None = None
    active_parameters: float | None = None
    tokens_per_step: float | None = None
    step_time: float | None = None
    world_size: int | None = None
    gpu_name: str | None = None
    compute_dtype: str | None = None

    name: ClassVar[str] = "model_flops"

    def compute(self, evidence: Evidence) -> tuple[Calculation, ...]:
        whole = known(evidence, "parameters", self.parameters)
        if not whole.value:
            return ()
        active = known(evidence, "active_parameters", self.active_parameters, whole.value)
        trained = known(evidence, "trainable_parameters", self.trainable_parameters, whole.value)
        each = self._each(evidence, active, trained)
        made: dict[str, Any] = {"calculator": self.name, "parameters": parameters(self)}
        ids = ids_of(whole, active, trained)
        assumed = (active.assumption, trained.assumption)
        if each is None:
            note = f"{figure(trained.value)} trainable of {figure(active.value)} parameters cannot be"
            return (Calculation("flops_per_token", _FLOPS, None, "GFLOP", ids, None, assumed, note=note, **made),)
        span = Interval(each.low / 1e9, each.high / 1e9) if each.high > each.low else None
        note = sentences(
            "at least: gradients may have to pass frozen parameters" if span else "",
            "" if each.attention else "attention not counted: layers, hidden_size or max_seq_len is not known",
        )
        counted = Calculation("flops_per_token", _FLOPS, each.low / 1e9, "GFLOP", ids, span, assumed, note=note, **made)
        return (counted, *self._shares(evidence, each, ids, assumed, made))

    def _each(self, evidence: Evidence, active: Known, trained: Known) -> Flops | None:
        sizes = [known(evidence, name).value for name in ("layers", "hidden_size", "max_seq_len")]
        layers, hidden, length = (int(size) if size else None for size in sizes)
        recompute = text_fact(evidence, "activation_recompute") or "none"
        count = min(trained.value or 0.0, active.value or 0.0) if not active.assumed else trained.value
        return flops_per_token(active.value or 0.0, count, attention_flops(layers, hidden, length), recompute)

    def _shares(
        self, evidence: Evidence, each: Flops, ids: tuple[str, ...], assumed: tuple[Assumption, ...], made: dict[str, Any]
    ) -> tuple[Calculation, ...]:
        tokens, tokens_note = _tokens(evidence, self.tokens_per_step)
        timed, world = calculated(evidence, "step_time"), world_size(evidence, self.world_size)
        seconds = self.step_time or number_of(timed)
        name, name_ids, why_no_name = gpu_name(evidence, self.gpu_name)
        dtype = self.compute_dtype or text_fact(evidence, "compute_dtype") or "bf16"
        dtype_source = BY_HAND if self.compute_dtype else "stated" if text_fact(evidence, "compute_dtype") else ASSUMED
        peak = peak_tflops(name, dtype) if name else None
        all_ids = tuple(dict.fromkeys([*ids, *tokens.ids, *ids_of(timed, world), *name_ids]))
        inputs = (
            *assumed, tokens.assumption, Assumption("step_time", seconds, BY_HAND if self.step_time else "the log", "s"),
            world.assumption, Assumption("gpu_name", name or None, "nvidia-smi"),
            Assumption("compute_dtype", dtype, dtype_source), Assumption("peak_tflops", peak, _source(name), "TFLOP/s"),
        )  # fmt: skip
        missing = sentences(
            tokens_note if not tokens.value else "",
            "" if seconds else "the time of a step is not known",
            "" if world.value else "the number of ranks is not known",
            (why_no_name or why_unknown(name, dtype)) if peak is None else "",
        )
        if missing or not tokens.value or not seconds or not world.value or not peak:
            return (Calculation("mfu", _MFU, None, "", all_ids, None, inputs, note=missing, **made),)
        low, high = (utilization(f, tokens.value, seconds, int(world.value), peak) or 0.0 for f in (each.low, each.high))
        if low > 1:
            note = f"{low:.3g} of the peak cannot be: one of the inputs is wrong"
            return (Calculation("mfu", _MFU, None, "", all_ids, None, inputs, note=note, **made),)
        step = timed.interval if timed and not self.step_time else None
        span = Interval(low * seconds / step.high, high * seconds / step.low) if step and step.low > 0 else None
        span = span or (Interval(low, high) if high > low else None)
        recompute = text_fact(evidence, "activation_recompute")
        unsaid = "" if recompute else "recomputation is not known and not in it"
        share = Calculation("mfu", _MFU, low, "", all_ids, span, inputs, note=sentences(tokens_note, unsaid), **made)
        if not each.recomputed:
            return (share,)
        whole = utilization(each.low + each.recomputed, tokens.value, seconds, int(world.value), peak)
        formula = f"{_MFU}, with what is recomputed"
        return (share, Calculation("hfu", formula, whole, "", all_ids, None, inputs, note="not what the model needs", **made))


_FLOPS = "2 x parameters + 4 x trainable ones (6 N where all are trained) + 12 x layers x hidden size x sequence length"
_MFU = "operations of a token x tokens of a step / (s/step x ranks x peak of a GPU)"


def _source(name: str) -> str:
    found = gpus_fitting(name) if name else ()
    return found[0].source if found else "not known"


@calculator
@dataclass(frozen=True)
class RankMemory:
    """``rank_states_gb``: parameters, gradients and optimizer states of one rank (formulas and sources: ``calculate.compute``).

    Activations are not in it and not guessed. Compared with the memory of the GPU where that is known: states that do not fit
    say that an input is wrong, for the training runs.
    """

    parameters: float | None = None
    trainable_parameters: float | None = None
    world_size: int | None = None
    sharding: str | None = None
    optimizer: str | None = None
    stored_bytes: float | None = None
    gradient_bytes: float | None = None

    name: ClassVar[str] = "rank_memory"

    def compute(self, evidence: Evidence) -> tuple[Calculation, ...]:
        whole = known(evidence, "parameters", self.parameters)
        trained = known(evidence, "trainable_parameters", self.trainable_parameters, whole.value)
        world = world_size(evidence, self.world_size)
        if not whole.value or not trained.value or not world.value:
            return ()
        how = self.sharding or text_fact(evidence, "sharding") or "fsdp"
        optimizer = self.optimizer or text_fact(evidence, "optimizer") or "adamw"
        stored, gradient = self.stored_bytes or 4.0, self.gradient_bytes or self.stored_bytes or 4.0
        shares = 1
        for kind in ("tensor", "pipeline"):
            shares *= model_parallel_sizes(evidence).get(kind, 1)
        group = known(evidence, "shard_ranks").value if how == "hsdp" else world.value / shares
        states = optimizer_bytes(optimizer)
        compute = BYTES.get(text_fact(evidence, "compute_dtype") or "bf16", 2)
        assumed = (
            whole.assumption, trained.assumption, world.assumption,
            _choice("sharding", how, self.sharding, evidence), _choice("optimizer", optimizer, self.optimizer, evidence),
            Assumption("stored_bytes", stored, BY_HAND if self.stored_bytes else ASSUMED, "bytes"),
            Assumption("gradient_bytes", gradient, BY_HAND if self.gradient_bytes else ASSUMED, "bytes"),
        )  # fmt: skip
        made: dict[str, Any] = {"assumptions": assumed, "calculator": self.name, "parameters": parameters(self)}
        ids = ids_of(whole, trained, world)
        if states is None or not group:
            names = ", ".join(OPTIMIZER_BYTES)
            note = sentences(
                f"{optimizer!r} is none of {names}" if states is None else "",
                "" if group else "the size of a shard group is not known (shard_ranks)",
            )
            return (Calculation("rank_states_gb", _MEMORY, None, "GB", ids, note=note, **made),)
        kept = memory_per_rank(
            whole.value / shares, trained.value / shares, how, max(1, int(group)), states, stored, gradient, compute
        )
        if kept is None:
            return (Calculation("rank_states_gb", _MEMORY, None, "GB", ids, note=f"sharding {how!r} is not known", **made),)
        parts = f"parameters {figure(kept.parameters)}, gradients {figure(kept.gradients)}, optimizer {figure(kept.optimizer)} GB"
        more = "; the largest group is gathered on top" if kept.gathered is None else ""
        if kept.gathered:
            more = f"; {figure(kept.gathered)} GB of gathered parameters on top"
        note = f"{parts}{more}; activations are not known and not in it"
        return (
            Calculation(
                "rank_states_gb", _MEMORY, kept.states, "GB", ids, note=sentences(note, _fits(evidence, kept.states)), **made
            ),
        )


_MEMORY = "parameters x stored bytes + trainable ones x (gradient bytes + optimizer bytes), each / the ranks that share them"


def _choice(name: str, value: str, by_hand: str | None, evidence: Evidence) -> Assumption:
    found = evidence.fact(name)
    return Assumption(name, value, BY_HAND if by_hand else found.fact.source if found else ASSUMED)


def _fits(evidence: Evidence, states_gb: float) -> str:
    name, _, _ = gpu_name(evidence)
    sizes = {gpu.memory_gb for gpu in gpus_fitting(name)} if name else set()
    if len(sizes) != 1 or states_gb <= (size := sizes.pop()):
        return ""
    return f"more than the {figure(size)} GB of the GPU: one of the inputs is wrong"
