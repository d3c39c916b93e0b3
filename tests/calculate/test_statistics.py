"""Statistics against slow, obvious twins and against simulated truth."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from evidence_cases import lr_texts
from hypothesis import given, settings
from hypothesis import strategies as st

from diag_kit.calculate.statistics import (
    autocorrelation_time,
    bootstrap_means,
    burst_ratio,
    common_size,
    counted_rate,
    distinct_value_sizes,
    excess_spread,
    multiplicity,
    printed_quantum,
    step_times,
)


def slow_multiplicity(keys):
    order = []
    for key in keys:
        if key not in order:
            order.append(key)
    sizes = [sum(1 for other in keys if other == key) for key in order][1:-2]
    if len(sizes) < 3:
        return None
    best = max(set(sizes), key=lambda size: (sizes.count(size), -sizes.index(size)))
    return best if sizes.count(best) / len(sizes) >= 0.9 else None


@given(st.lists(st.integers(0, 12), max_size=60))
@settings(max_examples=200, deadline=None)
def test_multiplicity_equals_its_slow_twin(keys):
    found = multiplicity(keys)
    assert (found.count if found else None) == slow_multiplicity(keys)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
def test_interleaved_ranks_a_step_apart_and_a_partial_end_are_counted(ranks):
    keys = [step for step in range(50) for _ in range(ranks)]
    for place in range(ranks - 1, len(keys) - 1, 2 * ranks):  # a fast rank prints the next step first
        keys[place], keys[place + 1] = keys[place + 1], keys[place]
    assert multiplicity(keys[: len(keys) - ranks // 2]).count == ranks


def test_two_groups_are_too_few_and_disagreement_is_no_answer():
    assert multiplicity([1, 1, 2, 2, 3, 3]) is None
    assert common_size([4, 4, 2, 2, 3]) is None
    assert common_size([4] * 9 + [3]).count == 4


@pytest.mark.parametrize(
    ("text", "quantum"),
    [
        ("1.05e-05", 1e-7),
        ("0.020", 0.001),
        ("3e-05", 1e-5),
        ("1.0496613995485328e-05", 1e-21),
        ("x", None),
        ("nan", None),
        ("", None),
    ],
)
def test_printed_quantum(text, quantum):
    found = printed_quantum(text)
    assert found == quantum or found == pytest.approx(quantum, rel=1e-9)


@pytest.mark.parametrize("form", ["repr", "flat"])
@pytest.mark.parametrize("ranks", [1, 4])
@pytest.mark.parametrize("first", [0, 100, 900])
def test_rounded_learning_rates_never_merge_steps(form, ranks, first):
    texts = [text for text in lr_texts(400, form=form, first=first) for _ in range(ranks)]
    sizes = distinct_value_sizes(texts)
    assert set(sizes) <= {ranks}
    if form == "repr":
        assert len(sizes) > 350


def test_burst_ratio_tells_ranks_from_micro_batches():
    ranks = [[step * 0.7 + 0.01 * rank for rank in range(4)] for step in range(20)]
    micro = [[step * 0.8 + 0.2 * part for part in range(4)] for step in range(20)]
    assert burst_ratio(ranks) < 0.1
    assert burst_ratio(micro) == pytest.approx(0.75)
    assert burst_ratio(ranks[:3]) is None


def test_counted_rate_of_the_founding_window():
    steps = counted_rate(42, 30, 1)
    assert (round(steps.low, 2), round(steps.high, 2)) == (1.33, 1.47)
    assert counted_rate(1, 10, 4).low == 0


def slow_autocorrelation_time(values):
    mean = sum(values) / len(values)
    centred = [v - mean for v in values]
    power = sum(v * v for v in centred)
    total = 1.0
    for lag in range(1, len(values) // 2):
        r = sum(centred[i] * centred[i - lag] for i in range(lag, len(values))) / power
        if r <= 0:
            break
        total += 2 * r
    return total


def test_autocorrelation_time_equals_its_slow_twin():
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 1, 200)
    series = [float(np.mean(noise[max(0, i - 5) : i + 1])) for i in range(200)]
    assert autocorrelation_time(series) == pytest.approx(slow_autocorrelation_time(series))
    assert autocorrelation_time([2.0] * 10) == 1.0


def test_bootstrap_means_are_means_of_blocks_and_repeatable():
    values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
    means = bootstrap_means(values, seed=3)
    assert np.array_equal(means, bootstrap_means(values, seed=3))
    assert abs(float(means.mean()) - 4.5) < 0.2
    assert bootstrap_means([2.5] * 20).std() == 0


def autocorrelated(rng, steps, stalls=0.0):
    """Step times around 1 s with correlated noise of 5 %, and rare stalls of 5 s on average."""
    noise = np.zeros(steps)
    for i in range(1, steps):
        noise[i] = 0.8 * noise[i - 1] + rng.normal(0, 0.03)
    values = np.maximum(1.0 + noise, 0.1)
    hit = rng.random(steps) < stalls
    return values + hit * rng.exponential(5.0, steps)


@pytest.mark.parametrize(("stalls", "true_mean", "least"), [(0.0, 1.0, 0.88), (0.01, 1.05, 0.9)])
def test_intervals_of_the_mean_step_time_cover_it(stalls, true_mean, least):
    rng = np.random.default_rng(5)
    covered = []
    for _ in range(150):
        found = step_times([float(v) for v in autocorrelated(rng, 600, stalls)])
        if stalls and not found.stalls:
            continue
        covered.append(found.interval.low <= true_mean <= found.interval.high)
    assert np.mean(covered) >= least


def test_excess_spread_is_zero_for_even_steps_and_grows_with_real_variation():
    even = [4.0, 8.0, 4.0, 4.0, 8.0, 4.0, 8.0, 4.0, 4.0, 8.0] * 3
    assert excess_spread(even, 4) == 0
    halting = [8.0] * 10 + [0.0] * 10 + [8.0] * 10
    assert excess_spread(halting, 4) > 0.1
    assert excess_spread([1.0, 2.0], 1) == 0
    assert excess_spread([0.0] * 30, 1) == 0


def test_counter_order_is_the_order_of_first_appearance():
    """``multiplicity`` relies on it."""
    assert list(Counter([3, 1, 3, 2])) == [3, 1, 2]
