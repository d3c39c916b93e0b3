"""How many operations a token costs, what share of the GPUs' peak that is, and what a rank keeps in memory. Pure arithmetic.

Operations for a token (a multiplication and an addition are two):

- forward 2 N for N parameters that a token passes (of a mixture of experts only the active ones), backward 4 N: 2 N for the
  gradients of what goes in, 2 N for those of the weights. 6 N in all (arXiv:2001.08361 section 2.1, arXiv:2204.02311 appendix B).
  An embedding that is looked up costs none, but is counted in N by the usual formula: leave large ones out of N.
- frozen parameters get no weight gradients; the gradient of what goes in passes them only where something trained stands before.
  With T trainable of N: from 2 N + 4 T (frozen parts stand first) to 4 N + 2 T (the gradient passes everything).
- attention: 12 x layers x hidden size x sequence length (arXiv:2204.02311 appendix B, scores and weighted sum, the causal half
  not taken off); a third of it forward.
- recomputing activations adds the forward once more ("full"), or that of attention alone ("selective", arXiv:2205.05198). The
  model FLOPs utilization (MFU) leaves it out, the hardware FLOPs utilization (HFU) counts it.

MFU = operations for a token x tokens of a step (all ranks) / (seconds of the step x ranks x peak of a GPU in that dtype).
Published: 25 % "seriously wrong", 40-55 % well tuned on several hosts (AWS); peaks are in ``hardware``.

Memory of a rank (arXiv:1910.02054, section 3.1 and figure 1): parameters as stored, gradients, optimizer states, each divided by
the ranks that share them. Activations, fragmentation, buffers of collectives and the CUDA context (about half a GB) are not in
it: activations depend on batch, sequence length, kernels and recomputation, and are "not known" unless somebody measured them.
"""

from __future__ import annotations

from dataclasses import dataclass

GB = 1e9
RECOMPUTE = ("none", "selective", "full")

OPTIMIZER_BYTES = {
    "adam": 8.0,
    "adamw": 8.0,
    "lion": 4.0,
    "sgd momentum": 4.0,
    "sgd": 0.0,
    "adam 8-bit": 2.03125,
    "adamw 8-bit": 2.03125,
}
"""State bytes of a trained parameter, in fp32 unless named: Adam keeps two moments, Lion (arXiv:2302.06675) and momentum one,
each 4 bytes. 8-bit Adam (bitsandbytes, blocks of 256) keeps 1 byte a moment and a 4-byte scale a block: 2 x (1 + 4 / 256).
Adafactor keeps row and column sums: needs the shapes, so it is not here. States kept in bf16 are half: give the bytes."""


@dataclass(frozen=True, slots=True)
class Flops:
    """Operations for one token: the least and the most they can be, and what recomputation adds (None: not known)."""

    low: float
    high: float
    recomputed: float | None = 0.0
    attention: float | None = None


def attention_flops(layers: int | None, hidden_size: int | None, sequence_length: int | None) -> float | None:
    """12 x layers x hidden size x sequence length; None where one is not known."""
    if not layers or not hidden_size or not sequence_length:
        return None
    return 12.0 * layers * hidden_size * sequence_length


def flops_per_token(
    parameters: float, trainable: float | None = None, attention: float | None = None, recompute: str = "none"
) -> Flops | None:
    """Operations for a token; None for counts that cannot be. Without ``attention`` its part is left out of both ends."""
    trained = parameters if trainable is None else trainable
    if not parameters > 0 or not 0 <= trained <= parameters or recompute not in RECOMPUTE:
        return None
    extra = attention or 0.0
    forward = 2 * parameters + extra / 3
    again = {"none": 0.0, "full": forward, "selective": None if attention is None else attention / 3}[recompute]
    return Flops(2 * parameters + 4 * trained + extra, 4 * parameters + 2 * trained + extra, again, attention)


def utilization(flops: float, tokens: float, seconds: float, ranks: int, peak_tflops: float) -> float | None:
    """MFU from 0 to 1; None for counts that are none."""
    if min(flops, tokens, seconds, ranks, peak_tflops) <= 0:
        return None
    return flops * tokens / (seconds * ranks * peak_tflops * 1e12)


@dataclass(frozen=True, slots=True)
class Memory:
    """GB (10**9 bytes) of one rank. ``gathered``: parameters that stand whole in a step on top of the shards, None: not known
    (the largest group of fully sharded training decides). ``activations``: None unless somebody says."""

    parameters: float
    gradients: float
    optimizer: float
    gathered: float | None
    activations: float | None = None

    @property
    def states(self) -> float:
        """Parameters, gradients and optimizer: what is sure to be there in the optimizer step."""
        return self.parameters + self.gradients + self.optimizer


def optimizer_bytes(name: str) -> float | None:
    """State bytes of a trained parameter by the optimizer's name; None where not known."""
    return OPTIMIZER_BYTES.get(" ".join(name.lower().replace("_", " ").split()))


def memory_per_rank(
    parameters: float,
    trainable: float,
    sharding: str,
    ranks: int,
    state_bytes: float,
    stored_bytes: float = 4,
    gradient_bytes: float = 4,
    compute_bytes: float = 2,
) -> Memory | None:
    """What a rank keeps; None for a sharding that is not known.

    ``ranks``: those that share (one HSDP group). ``stored_bytes``: of a parameter as the optimizer updates it, 4 with autocast or
    FSDP's mixed precision; ``state_bytes``: of the optimizer for a trained parameter (and the fp32 master copy, where a library
    keeps one beside 2-byte parameters: ZeRO's 2 + 2 + 12). ``compute_bytes``: of a gathered one.

    Divided by the ranks: zero1 optimizer; zero2 gradients too; fsdp and hsdp parameters too. "fsdp no reshard" keeps what it
    gathered between forward and backward: all parameters, in the compute dtype.
    """
    if sharding not in ("ddp", "zero1", "zero2", "fsdp", "fsdp no reshard", "hsdp") or ranks < 1:
        return None
    fully = sharding in ("fsdp", "fsdp no reshard", "hsdp")
    kept = parameters * stored_bytes / GB / (ranks if fully else 1)
    gradients = trainable * gradient_bytes / GB / (ranks if fully or sharding == "zero2" else 1)
    states = trainable * state_bytes / GB / (1 if sharding == "ddp" else ranks)
    whole = parameters * compute_bytes / GB if ranks > 1 else 0.0
    gathered = 0.0 if not fully or ranks == 1 else whole if sharding == "fsdp no reshard" else None
    return Memory(kept, gradients, states, gathered)
