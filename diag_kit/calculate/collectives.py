"""What each rank sends in an optimizer step, collective by collective, and how long that takes. Pure arithmetic.

Bytes (ring algorithm, nccl-tests doc/PERFORMANCE.md, which defines the bus bandwidth by them): over N ranks and a whole buffer of
S bytes an all-gather or a reduce-scatter sends (N-1)/N x S from each rank, an all-reduce 2 (N-1)/N x S. Seconds = bytes sent /
bus bandwidth **one way**; latency is not in it, so many small collectives take longer. NVLink SHARP sends less in an all-reduce.

Which collectives (b_p, b_r: bytes of a gathered and of a reduced element; M: micro-batches per optimizer step):

- ``ddp`` (arXiv:2006.15704): an all-reduce of the trainable gradients for each micro-batch, once a step under ``no_sync``.
- ``zero1``, ``zero2`` (arXiv:1910.02054): gradients reduced to their owner, updated trainable parameters gathered once a step.
- ``fsdp`` = ZeRO-3 = reshard_after_forward=True, FULL_SHARD (arXiv:2304.11277): all parameters, the frozen ones too, gathered for
  the forward and again for the backward of each micro-batch; the trainable gradients reduce-scattered. FSDP2's root group stays
  gathered after the forward, so that its second gather is not made; a layer called twice may be gathered twice: count in a trace.
- ``fsdp no reshard`` = reshard_after_forward=False, SHARD_GRAD_OP: gathered once for each micro-batch. Under FSDP1's no_sync they
  stay gathered between micro-batches (torch.distributed.fsdp.ShardingStrategy): pass ``gathers=1/M``.
- ``hsdp`` (hybrid): the same inside a shard group of S ranks, then an all-reduce of each shard over the R replicas.
- tensor parallelism (arXiv:1909.08053): in each layer two all-reduces of the activations forward and two backward, two more where
  the forward is recomputed; with sequence parallelism (arXiv:2205.05198) a gather and a scatter each, of the same bytes.
- pipeline (arXiv:2104.04473): a middle stage sends its activations on and its gradients back, once each for a micro-batch.

Where a group spans hosts, its ring enters and leaves a host once: the host's network, shared by the rings that leave it, is then
the limit if it is slower than the link between GPUs.

What hides: gathers and gradient reductions can run beside compute, those of tensor parallelism and the pipeline stand in its way.
So the exposed time is bounded: from max(0, what can hide - compute) + what cannot, to the sum. Nothing says where between.

**Calibration on GPUs: not measured yet.** Predicted against measured seconds of a step on real hosts (bus bandwidth from
nccl-tests, DDP and FSDP, one and two hosts) are still to be put here; until then every number is arithmetic, not a measurement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

GB = 1e9
SHARDINGS = ("ddp", "zero1", "zero2", "fsdp", "fsdp no reshard", "hsdp")
BYTES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1}


@dataclass(frozen=True, slots=True)
class Job:
    """What decides the traffic. ``parameters``: of the whole model; ``shard_ranks``: of one HSDP shard group;
    ``gathers``: of each parameter for a micro-batch, None: as the sharding says; ``ranks_per_node`` None: all on one host;
    ``layers``, ``hidden_size``, ``tokens``: of one micro-batch of one rank, for tensor and pipeline parallelism."""

    parameters: float
    trainable: float
    ranks: int
    sharding: str = "fsdp"
    parameter_bytes: float = 2
    reduce_bytes: float = 4
    shard_ranks: int | None = None
    gathers: float | None = None
    microbatches: int = 1
    no_sync: bool = False
    tensor: int = 1
    pipeline: int = 1
    ranks_per_node: int | None = None
    layers: int | None = None
    hidden_size: int | None = None
    tokens: float | None = None
    recomputed: bool = False
    activation_bytes: float = 2

    @property
    def data_ranks(self) -> int:
        return self.ranks // (self.tensor * self.pipeline)

    @property
    def sharded_over(self) -> int:
        return self.shard_ranks if self.sharding == "hsdp" and self.shard_ranks else self.data_ranks

    @property
    def reductions(self) -> int:
        return 1 if self.no_sync else self.microbatches


@dataclass(frozen=True, slots=True)
class Sent:
    """One kind of collective: ``sent_gb`` a rank sends in a step over ``group`` ranks that stand ``stride`` apart; None where
    something is not known (``note`` says what). ``times``: how often a step; ``can_hide``: beside compute."""

    name: str
    group: int
    stride: int
    times: float
    sent_gb: float | None
    can_hide: bool
    formula: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Exposed:
    """Seconds of a step that communication adds: fully hidden where it can, and fully exposed."""

    low_s: float
    high_s: float


def ring_factor(kind: str, ranks: int) -> float:
    """Bytes that each rank sends per byte of the whole buffer: (N-1)/N, twice that for an all-reduce."""
    once = (ranks - 1) / ranks if ranks > 1 else 0.0
    return 2 * once if kind == "all-reduce" else once


def why_impossible(job: Job) -> str:
    """What contradicts itself in a job; empty if nothing does."""
    if job.sharding not in SHARDINGS:
        return f"{job.sharding!r} is none of {', '.join(SHARDINGS)}"
    if min(job.ranks, job.tensor, job.pipeline, job.microbatches, job.ranks_per_node or 1) < 1:
        return "counts start at 1"
    if job.ranks % (job.tensor * job.pipeline):
        return f"{job.ranks} ranks are no multiple of tensor {job.tensor} x pipeline {job.pipeline}"
    if job.trainable > job.parameters:
        return f"{job.trainable:g} trainable parameters of {job.parameters:g}"
    if job.sharding == "hsdp" and not job.shard_ranks:
        return "the size of a shard group is not known (shard_ranks)"
    if job.data_ranks % job.sharded_over:
        return f"{job.data_ranks} data-parallel ranks are no multiple of {job.sharded_over} in a shard group"
    return ""


def sent_per_step(job: Job) -> tuple[Sent, ...]:
    """Every collective of a step; those of one rank alone are left out. () for a job that cannot be (``why_impossible``)."""
    if why_impossible(job):
        return ()
    made = (*_data_parallel(job), *_tensor(job), *_pipeline(job))
    return tuple(each for each in made if each.group > 1)


def _data_parallel(job: Job) -> tuple[Sent, ...]:
    shares = job.tensor * job.pipeline  # a rank holds its share of the model; the shares are taken as equal
    whole, trained = job.parameters / shares, job.trainable / shares
    over, stride = job.sharded_over, job.tensor
    gradients = trained * job.reduce_bytes / GB
    if job.sharding == "ddp":
        return (_collective("gradients", "all-reduce", over, stride, job.reductions, gradients),)
    if job.sharding in ("zero1", "zero2"):
        updated = trained * job.parameter_bytes / GB
        return (
            _collective("gradients", "reduce-scatter", over, stride, job.reductions, gradients),
            _collective("updated parameters", "all-gather", over, stride, 1, updated),
        )
    gathers = job.gathers if job.gathers is not None else 1 if job.sharding == "fsdp no reshard" else 2
    made = [
        _collective("parameters", "all-gather", over, stride, gathers * job.microbatches, whole * job.parameter_bytes / GB),
        _collective("gradients", "reduce-scatter", over, stride, job.reductions, gradients),
    ]
    if job.sharding == "hsdp":
        replicas = job.data_ranks // over
        shard = gradients / over
        made.append(_collective("gradient shards", "all-reduce", replicas, stride * over, job.reductions, shard))
    return tuple(made)


def _collective(what: str, kind: str, group: int, stride: int, times: float, gb: float, hides: bool = True) -> Sent:
    factor = "2 x " if kind == "all-reduce" else ""
    formula = f"{factor}({group} - 1) / {group} x {gb:.4g} GB x {times:g} a step"
    return Sent(f"{kind} of {what}", group, stride, times, ring_factor(kind, group) * gb * times, hides, formula)


def _tensor(job: Job) -> tuple[Sent, ...]:
    if job.tensor == 1:
        return ()
    each_layer = 6 if job.recomputed else 4
    name = "all-reduce of activations"
    if not job.layers or not job.hidden_size or not job.tokens:
        return (_unknown(name, job.tensor, 1, "layers, hidden size or tokens of a micro-batch are not known"),)
    gb = job.tokens * job.hidden_size * job.activation_bytes / GB
    times = each_layer * job.layers / job.pipeline * job.microbatches
    return (_collective("activations", "all-reduce", job.tensor, 1, times, gb, hides=False),)


def _pipeline(job: Job) -> tuple[Sent, ...]:
    if job.pipeline == 1:
        return ()
    stride = job.tensor * job.data_ranks  # Megatron's order of ranks: tensor, data, pipeline
    if not job.hidden_size or not job.tokens:
        return (_unknown("sends between stages", job.pipeline, stride, "hidden size or tokens of a micro-batch are not known"),)
    gb = job.tokens * job.hidden_size * job.activation_bytes / GB
    sends = (2 if job.pipeline > 2 else 1) * job.microbatches  # of a middle stage; with two stages each sends one way
    formula = f"{gb:.4g} GB x {sends} a step"
    return (Sent("sends between stages", job.pipeline, stride, sends, gb * sends, False, formula),)


def _unknown(name: str, group: int, stride: int, note: str) -> Sent:
    return Sent(name, group, stride, 0, None, False, "activations of a micro-batch x collectives", note)


def bus_gb_per_s(sent: Sent, job: Job, link_gb_per_s: float | None, node_gb_per_s: float | None = None) -> float | None:
    """Bandwidth that the group of a collective has: of the link between GPUs, or of the host's network (all its adapters, one
    way) divided by the rings that leave the host, whichever is less. None where the one that matters is not known."""
    local = job.ranks_per_node
    if local is None or (sent.group - 1) * sent.stride < local:
        return link_gb_per_s
    if node_gb_per_s is None:
        return None
    network = node_gb_per_s / min(sent.stride, local)
    inside = sent.stride < local  # some neighbours in the ring are on one host
    if inside and link_gb_per_s is None:
        return None
    return min(network, link_gb_per_s) if inside and link_gb_per_s is not None else network


def seconds_of(sent: Sent, job: Job, link_gb_per_s: float | None, node_gb_per_s: float | None = None) -> float | None:
    """Bytes sent / bus bandwidth."""
    speed = bus_gb_per_s(sent, job, link_gb_per_s, node_gb_per_s)
    return None if not speed or sent.sent_gb is None else sent.sent_gb / speed


def exposed(parts: Sequence[tuple[Sent, float]], compute_s: float | None = None) -> Exposed:
    """From everything hidden that can be (behind ``compute_s``, any amount where it is not known) to everything in the way."""
    hides = sum(seconds for sent, seconds in parts if sent.can_hide)
    stands = sum(seconds for sent, seconds in parts if not sent.can_hide)
    left = 0.0 if compute_s is None else max(0.0, hides - compute_s)
    return Exposed(stands + left, stands + hides)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the explanation why an estimate is too low: what is added, GB of a step so far, seconds so far."""

    name: str
    gb: float
    seconds: float
    why: str


def one_gather_is_too_low(job: Job, link_gb_per_s: float) -> tuple[Row, ...]:
    """From "one gather of the parameters" to what a fully sharded step sends, a named row for each thing that is left out.

    2.6 B parameters, 1.2 B trained, 4 ranks, 50 GB/s: 5.2 GB and 0.104 s; then 3.9, 7.8 and 11.4 GB, 0.228 s (8 ranks: 0.266).
    """
    n = job.sharded_over
    whole, trained = job.parameters / GB, job.trainable / GB
    once = ring_factor("all-gather", n) * whole * job.parameter_bytes
    reduced = ring_factor("reduce-scatter", n) * trained
    steps = (
        ("one gather, whole", whole * job.parameter_bytes, "the estimate: parameters x bytes over the link"),
        ("one gather, ring", once, f"a rank holds 1/{n} of them already: ({n} - 1) / {n}"),
        ("two gathers", 2 * once, "gathered for the forward, and again for the backward"),
        ("and gradients as bf16", 2 * once + reduced * 2, "trainable gradients are reduced; frozen parameters are not"),
        ("and gradients as fp32", 2 * once + reduced * 4, "reduced in fp32 they are twice as many bytes"),
    )
    return tuple(Row(name, gb, gb / link_gb_per_s, why) for name, gb, why in steps)
