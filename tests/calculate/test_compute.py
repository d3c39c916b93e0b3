"""Operations of a token, MFU and memory, each beside a slow count."""

from __future__ import annotations

import pandas as pd
import pytest
from evidence_cases import START, observation, told

from diag_kit.calculate.compute import attention_flops, flops_per_token, memory_per_rank, optimizer_bytes, utilization
from diag_kit.calculate.gpu_use import ModelFlops, RankMemory
from diag_kit.evidence import Evidence
from diag_kit.records import Calculation, Interval


def layer_by_layer(sizes: list[tuple[int, bool]], passes: bool) -> int:
    """Count multiplications and additions of a chain of weights for one token; ``passes``: gradients go through frozen ones."""
    count = 0
    for weights, trained in sizes:
        count += 2 * weights  # forward
        if trained:
            count += 2 * weights  # gradient of the weights
        if trained or passes:
            count += 2 * weights  # gradient of what goes in
    return count


@pytest.mark.parametrize(
    "sizes", [[(100, True)], [(100, True), (300, False)], [(100, False), (50, True), (10, False)], [(100, False)]]
)
def test_operations_of_a_token(sizes):
    whole, trained = sum(n for n, _ in sizes), sum(n for n, on in sizes if on)
    counted = flops_per_token(whole, trained)
    assert counted.low == layer_by_layer(sizes, passes=False)
    assert counted.high == layer_by_layer(sizes, passes=True)


def test_six_n_and_recomputation():
    assert flops_per_token(7e9).low == flops_per_token(7e9).high == 6 * 7e9
    assert flops_per_token(7e9, recompute="full").recomputed == 2 * 7e9
    with_attention = flops_per_token(7e9, None, 12e8, "selective")
    assert (with_attention.low, with_attention.recomputed) == (42e9 + 12e8, 4e8)
    assert flops_per_token(7e9, recompute="selective").recomputed is None
    assert flops_per_token(0) is None and flops_per_token(1, 2) is None and flops_per_token(1, 1, recompute="some") is None


def test_attention_by_loops():
    """Scores and weighted sum: for each layer and each of the T keys, H numbers twice; 2 operations each, backward twice that."""
    layers, hidden, length = 3, 8, 16
    forward = sum(2 * hidden + 2 * hidden for _ in range(layers) for _ in range(length))
    assert attention_flops(layers, hidden, length) == 3 * forward
    assert attention_flops(None, 8, 16) is None


def test_palm_540b():
    """arXiv:2204.02311, table 3 and appendix B: 540 B, 118 layers, 48 heads of 256, 2048 tokens, 238.3 thousand tokens/s on 6144
    TPUv4 of 275 TFLOP/s: 46.2 % with attention, 45.7 % without."""
    attention = attention_flops(118, 48 * 256, 2048)
    assert utilization(flops_per_token(540.35e9).low, 238.3e3, 1, 6144, 275) == pytest.approx(0.457, abs=0.001)
    assert utilization(flops_per_token(540.35e9, None, attention).low, 238.3e3, 1, 6144, 275) == pytest.approx(0.462, abs=0.005)


@pytest.mark.parametrize(
    ("sharding", "gigabytes"), [("ddp", 120.0), ("zero1", 31.4), ("zero2", 16.6), ("fsdp", 1.9), ("hsdp", 1.9)]
)
def test_memory_is_that_of_the_zero_paper(sharding, gigabytes):
    """arXiv:1910.02054 figure 1: 7.5 B parameters, 64 ranks, 2 + 2 + 12 bytes."""
    kept = memory_per_rank(7.5e9, 7.5e9, sharding, 64, 12, 2, 2)
    assert kept.states == pytest.approx(gigabytes, abs=0.05)
    assert kept.activations is None


def test_what_stands_whole():
    assert memory_per_rank(2.6e9, 1.2e9, "fsdp no reshard", 4, 8).gathered == pytest.approx(5.2)
    assert memory_per_rank(2.6e9, 1.2e9, "fsdp", 4, 8).gathered is None
    assert memory_per_rank(2.6e9, 1.2e9, "fsdp", 1, 8).gathered == 0
    assert memory_per_rank(1, 1, "other", 4, 8) is None


@pytest.mark.parametrize(("name", "each"), [("AdamW", 8), ("adamw 8-bit", 2.03125), ("sgd_momentum", 4), ("sgd", 0)])
def test_optimizers(name, each):
    assert optimizer_bytes(name) == each
    assert optimizer_bytes("adafactor") is None


def cards(*names: str, mig: str = "Disabled"):
    rows = [{"t": pd.Timestamp(START), "gpu": n, "name": name, "mig": mig} for n, name in enumerate(names)]
    return observation("O50", "gpus", gpus=pd.DataFrame(rows))


STEP = Calculation("step_time", "", 1.0, "s/step", interval=Interval(0.9, 1.1), id="C1")


def made(maker, *entries, **facts):
    told_facts = tuple(told(f"O{n}", name, value) for n, (name, value) in enumerate(facts.items(), 1))
    return {each.name: each for each in maker.compute(Evidence((*told_facts, *entries)))}


RUN = {"parameters": 7e9, "world_size": 8, "tokens_per_step": 65536}


def test_mfu_of_a_run():
    found = made(ModelFlops(), cards(*["NVIDIA H100 80GB HBM3"] * 8), STEP, **RUN)
    slow = sum(6 * 7e9 for _ in range(65536)) / (1.0 * 8 * 989.5e12)
    assert found["flops_per_token"].value == 42.0
    assert found["mfu"].value == pytest.approx(slow)
    assert (found["mfu"].interval.low, found["mfu"].interval.high) == pytest.approx((slow / 1.1, slow / 0.9))
    assert {a.name: a.value for a in found["mfu"].assumptions}["peak_tflops"] == 989.5
    assert "recomputation is not known" in found["mfu"].note


def test_recomputation_is_not_in_the_mfu():
    found = made(ModelFlops(), cards("NVIDIA H200"), STEP, **RUN, activation_recompute="full")
    assert found["hfu"].value == pytest.approx(found["mfu"].value * 8 / 6)


def test_frozen_parameters_give_two_bounds():
    found = made(ModelFlops(), cards("NVIDIA H200"), STEP, **{**RUN, "parameters": 2.6e9}, trainable_parameters=1.2e9)
    counted = found["flops_per_token"]
    assert (counted.value, counted.interval.low, counted.interval.high) == pytest.approx((10.0, 10.0, 12.8))
    assert "at least" in counted.note


@pytest.mark.parametrize(
    ("names", "mig", "change", "says"),
    [
        (["NVIDIA H100"], "Disabled", {}, "may be"),
        (["NVIDIA Something"], "Disabled", {}, "no card of the table"),
        (["NVIDIA H200", "NVIDIA L40S"], "Disabled", {}, "several kinds"),
        (["NVIDIA H200"], "Enabled", {}, "MIG"),
        (["Tesla V100-SXM2-32GB"], "Disabled", {}, "no public bf16 peak"),
        (["NVIDIA H200"], "Disabled", {"tokens_per_step": 1e9}, "cannot be"),
        ([], "Disabled", {}, "name of the GPU is not known"),
    ],
)
def test_no_mfu_without_a_peak(names, mig, change, says):
    seen = (cards(*names, mig=mig),) if names else ()
    found = made(ModelFlops(), *seen, STEP, **{**RUN, **change})
    assert found["mfu"].value is None and says in found["mfu"].note


def test_no_mfu_without_tokens_or_time():
    found = made(ModelFlops(), cards("NVIDIA H200"), parameters=7e9, world_size=8)
    assert found["mfu"].value is None
    assert "tokens of a step" in found["mfu"].note and "time of a step" in found["mfu"].note
    assert made(ModelFlops(), STEP) == {}


def test_memory_of_a_founding_rank():
    found = made(RankMemory(), parameters=2.6e9, trainable_parameters=1.2e9, world_size=4)["rank_states_gb"]
    assert found.value == pytest.approx((2.6 * 4 + 1.2 * 4 + 1.2 * 8) / 4)
    assert "activations are not known" in found.note
    assumed = {a.name: (a.value, a.source) for a in found.assumptions}
    assert assumed["sharding"] == ("fsdp", "assumed") and assumed["optimizer"] == ("adamw", "assumed")


def test_states_that_do_not_fit_say_so():
    found = made(RankMemory(), cards("NVIDIA L4"), parameters=7e9, world_size=2, sharding="ddp")["rank_states_gb"]
    assert found.value == pytest.approx(112) and "more than the 24 GB" in found.note
    none = made(RankMemory(), parameters=7e9, world_size=2, optimizer="adafactor")["rank_states_gb"]
    assert none.value is None and "adafactor" in none.note
