"""Bytes and seconds of a step's collectives: the founding numbers, and beside each formula a slow simulation of the ring."""

from __future__ import annotations

from dataclasses import replace

import pytest
from evidence_cases import FOUNDING_TOLD, compute, founding, told

from diag_kit.calculate.collectives import (
    Job,
    bus_gb_per_s,
    exposed,
    one_gather_is_too_low,
    ring_factor,
    seconds_of,
    sent_per_step,
    why_impossible,
)
from diag_kit.calculate.sent_per_step import Communication, CommunicationParts
from diag_kit.evidence import Evidence

FOUNDING = Job(2.6e9, 1.2e9, 4)


def gb(job: Job) -> float:
    return sum(each.sent_gb for each in sent_per_step(job))


def seconds(job: Job, link: float) -> float:
    return sum(seconds_of(each, job, link) for each in sent_per_step(job))


def ring_by_hand(kind: str, ranks: int) -> float:
    """Pass chunks round a ring until everybody has what he needs; what one rank sent, in whole buffers."""
    chunk, sent = 1 / ranks, 0.0
    if kind != "all-gather":
        sums = [{r: {r} for r in range(ranks)} for _ in range(ranks)]  # sums[rank][chunk]: whose parts are in it
        for rank in range(ranks):
            sums[rank] = {c: {rank} for c in range(ranks)}
        for step in range(ranks - 1):
            moving = [(rank, (rank - step) % ranks) for rank in range(ranks)]
            parts = [set(sums[rank][c]) for rank, c in moving]
            for (rank, c), part in zip(moving, parts, strict=True):
                sums[(rank + 1) % ranks][c] |= part
            sent += chunk
        assert all(sums[(c - 1) % ranks][c] == set(range(ranks)) for c in range(ranks))
    if kind != "reduce-scatter":
        has = [{rank} for rank in range(ranks)]
        for step in range(ranks - 1):
            moving = [(rank, (rank - step) % ranks) for rank in range(ranks)]
            for rank, c in moving:
                has[(rank + 1) % ranks].add(c)
            sent += chunk
        assert all(each == set(range(ranks)) for each in has)
    return sent


@pytest.mark.parametrize("kind", ["all-gather", "reduce-scatter", "all-reduce"])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
def test_ring_factors_are_what_a_ring_sends(kind, ranks):
    assert ring_factor(kind, ranks) == pytest.approx(ring_by_hand(kind, ranks))


@pytest.mark.parametrize(
    ("ranks", "link", "gigabytes", "wanted"),
    [(4, 50, 11.4, 0.228), (8, 50, 13.3, 0.266), (4, 300, 11.4, 0.038), (4, 25, 11.4, 0.456)],
)
def test_the_founding_step(ranks, link, gigabytes, wanted):
    job = replace(FOUNDING, ranks=ranks)
    assert gb(job) == pytest.approx(gigabytes)
    assert seconds(job, link) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("link", "whole", "reduce_saves", "gather_saves"),
    [(600, 0.026, 0.0065, 0.0065), (300, 0.052, 0.013, 0.013), (50, 0.312, 0.078, 0.078), (25, 0.624, 0.156, 0.156)],
)
def test_the_table_that_counts_all_parameters_as_trained(link, whole, reduce_saves, gather_saves):
    job = Job(2.6e9, 2.6e9, 4)
    assert seconds(job, link) == pytest.approx(whole)
    assert seconds(job, link) - seconds(replace(job, reduce_bytes=2), link) == pytest.approx(reduce_saves)
    assert seconds(job, link) - seconds(replace(job, sharding="fsdp no reshard"), link) == pytest.approx(gather_saves)


def test_why_one_gather_is_too_low():
    rows = {row.name: (row.gb, row.seconds) for row in one_gather_is_too_low(FOUNDING, 50)}
    wanted = {
        "one gather, whole": (5.2, 0.104),
        "one gather, ring": (3.9, 0.078),
        "two gathers": (7.8, 0.156),
        "and gradients as bf16": (9.6, 0.192),
        "and gradients as fp32": (11.4, 0.228),
    }
    assert list(rows) == list(wanted)
    assert all(rows[name] == pytest.approx(value) for name, value in wanted.items())
    assert one_gather_is_too_low(replace(FOUNDING, ranks=8), 50)[-1].seconds == pytest.approx(0.266)


def by_hand(job: Job) -> float:
    """GB that one rank sends, each micro-batch walked through."""
    n, total = job.sharded_over, 0.0
    whole, trained = (count / 1e9 / job.tensor / job.pipeline for count in (job.parameters, job.trainable))
    for batch in range(job.microbatches):
        last = batch == job.microbatches - 1
        gathers = {"ddp": 0, "zero1": 0, "zero2": 0, "fsdp no reshard": 1}.get(job.sharding, 2)
        for _ in range(gathers):
            total += ring_by_hand("all-gather", n) * whole * job.parameter_bytes
        if last or not job.no_sync:
            kind = "all-reduce" if job.sharding == "ddp" else "reduce-scatter"
            total += ring_by_hand(kind, n) * trained * job.reduce_bytes
            if job.sharding == "hsdp":
                total += ring_by_hand("all-reduce", job.data_ranks // n) * trained * job.reduce_bytes / n
    if job.sharding.startswith("zero"):
        total += ring_by_hand("all-gather", n) * trained * job.parameter_bytes
    return total


@pytest.mark.parametrize("sharding", ["ddp", "zero1", "zero2", "fsdp", "fsdp no reshard", "hsdp"])
@pytest.mark.parametrize("no_sync", [False, True])
@pytest.mark.parametrize("microbatches", [1, 4])
def test_layouts_against_a_walk_through_the_step(sharding, no_sync, microbatches):
    job = Job(8e9, 6e9, 8, sharding, shard_ranks=4, no_sync=no_sync, microbatches=microbatches)
    assert gb(job) == pytest.approx(by_hand(job))


def test_ddp_and_zero_send_twice_the_gradients():
    """ZeRO paper, section 7: as much as data parallelism; ZeRO-3 1.5 times as much (all in one dtype)."""
    same = {"parameter_bytes": 2, "reduce_bytes": 2}
    ddp, zero2, zero3 = (gb(Job(1e9, 1e9, 64, kind, **same)) for kind in ("ddp", "zero2", "fsdp"))
    assert (ddp, zero2, zero3) == pytest.approx((2 * 2 * 63 / 64, 2 * 2 * 63 / 64, 1.5 * 2 * 2 * 63 / 64))


def test_tensor_parallel_activations_cannot_hide():
    job = Job(7e9, 7e9, 8, "ddp", tensor=8, layers=32, hidden_size=4096, tokens=4096)
    (only,) = sent_per_step(job)
    slow = sum(ring_by_hand("all-reduce", 8) * 4096 * 4096 * 2 / 1e9 for _ in range(32) for _ in range(4))
    assert only.sent_gb == pytest.approx(slow) and not only.can_hide
    assert gb(replace(job, recomputed=True)) == pytest.approx(1.5 * slow)
    span = exposed([(only, 0.1)], compute_s=10)
    assert (span.low_s, span.high_s) == (0.1, 0.1)


def test_pipeline_sends_activations_on_and_gradients_back():
    job = Job(7e9, 7e9, 4, "ddp", pipeline=4, microbatches=8, hidden_size=4096, tokens=2048)
    assert gb(job) == pytest.approx(8 * 2 * 2048 * 4096 * 2 / 1e9)
    assert sent_per_step(replace(job, tokens=None))[0].sent_gb is None


def test_the_network_limits_a_ring_that_leaves_the_host():
    """16 ranks on two hosts: one ring shares nothing; HSDP inside a host makes 8 rings that share its network."""
    whole = replace(FOUNDING, ranks=16, ranks_per_node=8)
    assert {bus_gb_per_s(each, whole, 300, 50) for each in sent_per_step(whole)} == {50}
    assert {bus_gb_per_s(each, whole, 40, 50) for each in sent_per_step(whole)} == {40}
    assert {bus_gb_per_s(each, whole, 300) for each in sent_per_step(whole)} == {None}
    hybrid = replace(whole, sharding="hsdp", shard_ranks=8)
    assert [bus_gb_per_s(each, hybrid, 300, 50) for each in sent_per_step(hybrid)] == [300, 300, 50 / 8]


def test_what_hides():
    parts = [(each, seconds_of(each, FOUNDING, 50)) for each in sent_per_step(FOUNDING)]
    span = exposed(parts, 1 / 6)
    assert (span.low_s, span.high_s) == pytest.approx((0.228 - 1 / 6, 0.228))
    assert exposed(parts).low_s == 0


@pytest.mark.parametrize(
    ("job", "says"),
    [
        (Job(1e9, 2e9, 4), "trainable"),
        (Job(1e9, 1e9, 4, "fdsp"), "is none of"),
        (Job(1e9, 1e9, 6, tensor=4), "no multiple of tensor"),
        (Job(1e9, 1e9, 8, "hsdp"), "shard group"),
        (Job(1e9, 1e9, 8, "hsdp", shard_ranks=3), "no multiple of 3"),
        (Job(1e9, 1e9, 0), "start at 1"),
    ],
)
def test_a_job_that_cannot_be_sends_nothing_that_is_known(job, says):
    assert says in why_impossible(job)
    assert sent_per_step(job) == ()


def calculations(maker, *facts, world: int = 4):
    entries = tuple(told(f"O{n}", name, value) for n, (name, value) in enumerate(facts, 1))
    return {made.name: made for made in maker.compute(Evidence((*entries, told("O99", "world_size", world))))}


SIZES = (("parameters", 2.6e9), ("trainable_parameters", 1.2e9), ("link_gb_per_s", 50.0))


def test_the_parts_of_the_founding_step():
    made = {each.name: each for each in CommunicationParts().compute(compute((*founding().entries(), *FOUNDING_TOLD)))}
    values = {name: each.value for name, each in made.items()}
    assert values == pytest.approx(
        {
            "comm_gathers_gb": 7.8,
            "comm_reductions_gb": 3.6,
            "comm_exposed_s_low": 0.228 - 1 / 6,
            "comm_exposed_s_high": 0.228,
            "comm_one_gather_s": 0.104,
        }
    )
    assert "two gathers: 7.8 GB, 0.156 s" in made["comm_one_gather_s"].note
    assert "11.4 GB, 0.228 s" in made["comm_one_gather_s"].note


@pytest.mark.parametrize(
    ("facts", "gigabytes"),
    [
        ((), 11.4),
        ((("sharding", "ddp"),), 7.2),
        ((("sharding", "fsdp no reshard"),), 7.5),
        ((("reduce_dtype", "bf16"),), 9.6),
        ((("sharding", "hsdp"),), None),
        ((("sharding", "hsdp"), ("shard_ranks", 2)), 0.5 * (2 * 5.2 + 4.8) + 2 * 0.5 * 2.4),
        ((("tensor_parallel_size", 4),), None),
    ],
)
def test_what_is_told_decides_the_sum(facts, gigabytes):
    made = calculations(Communication(), *SIZES, *facts)["comm_gb_per_step"]
    assert made.value == (None if gigabytes is None else pytest.approx(gigabytes))
    assert gigabytes is not None or "not known" in made.note
    assert not made.interval


def test_without_a_bandwidth_seconds_are_not_known():
    made = calculations(Communication(), *SIZES[:2])
    assert made["comm_gb_per_step"].value == pytest.approx(11.4)
    assert made["comm_s_per_step"].value is None and "link_gb_per_s" in made["comm_s_per_step"].note
    two_hosts = calculations(Communication(), *SIZES, ("ranks_per_node", 2))
    assert two_hosts["comm_s_per_step"].value is None and "node_link_gb_per_s" in two_hosts["comm_s_per_step"].note
    slow = calculations(Communication(), *SIZES, ("ranks_per_node", 2), ("node_link_gb_per_s", 12.5))
    assert slow["comm_s_per_step"].value == pytest.approx(11.4 / 12.5)


def test_no_module_hides_a_calculator_of_its_name():
    """Importing ``calculate.x`` sets x on the package, so that ``dk.calculate.x()`` would call a module."""
    import diag_kit.calculate as package
    from diag_kit.calculate.calculator import all_calculators

    assert all(getattr(package, name) is maker for name, maker in all_calculators().items())


def test_accumulation_reduces_each_time_or_once():
    facts = (*founding(accumulation=8, total=22155).entries(), *FOUNDING_TOLD)
    made = {each.name: each for each in Communication().compute(Evidence(facts))}
    gigabytes = made["comm_gb_per_step"]
    assert (gigabytes.value, gigabytes.interval.low) == pytest.approx((8 * 11.4, 8 * 7.8 + 3.6))
    once = Communication().compute(Evidence((*facts, told("O98", "gradient_sync", "once a step"))))[0]
    assert (once.value, once.interval) == (pytest.approx(66.0), None)
