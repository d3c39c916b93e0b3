"""Before and after a repair: coverage, power and refusals, on simulated series with autocorrelation and rare stalls."""

from __future__ import annotations

import numpy as np
import pytest

from diag_kit.calculate.before_after import Verdict, compare, guards_of, steps_needed, student_quantile


def series(size: int, mean: float, seed: int, stalls: float = 0.0) -> list[float]:
    """Step times with 5 % noise, autocorrelated with 0.6, and stalls of 5 s with that probability."""
    generator = np.random.default_rng(seed)
    noise = np.empty(size)
    noise[0] = generator.normal()
    for place in range(1, size):
        noise[place] = 0.6 * noise[place - 1] + 0.8 * generator.normal()
    values = mean * (1 + 0.05 * noise)
    values[generator.random(size) < stalls] += 5.0
    return list(values)


@pytest.mark.parametrize("stalls", [0.0, 0.01])
@pytest.mark.parametrize("size", [300, 1000])
def test_the_interval_covers_the_true_ratio(size: int, stalls: float) -> None:
    tried = hit = 0
    for seed in range(300):
        effect = compare(series(size, 1.0, seed, stalls), series(size, 0.93, 5000 + seed, stalls))
        if effect.interval is not None:
            tried += 1
            hit += effect.interval.low <= 0.93 <= effect.interval.high
    assert tried >= 220
    assert hit / tried >= 0.92


def test_no_difference_is_rarely_called_one() -> None:
    wrong = sum(
        compare(series(400, 1.0, seed, 0.01), series(400, 1.0, 9000 + seed, 0.01)).verdict in (Verdict.FASTER, Verdict.SLOWER)
        for seed in range(150)
    )
    assert wrong <= 14


def test_a_tenth_is_found_in_three_hundred_steps_in_spite_of_stalls() -> None:
    found = sum(
        compare(series(300, 1.0, seed, 0.01), series(300, 0.9, 700 + seed, 0.01)).verdict is Verdict.FASTER for seed in range(50)
    )
    assert found >= 48


def test_stalls_are_counted_apart() -> None:
    before = series(500, 0.5, 1)
    before[100] += 20
    before[300] += 10
    effect = compare(before, series(500, 0.5, 2))
    assert (effect.stalls_before.count, effect.stalls_before.per_thousand) == (2, 4.0)
    assert effect.stalls_before.excess_s == pytest.approx(30, abs=0.3)
    assert effect.stalls_after.count == 0
    assert effect.verdict is not Verdict.FASTER


def test_another_batch_is_not_comparable_however_fast() -> None:
    guards = guards_of({"effective_batch": 64}, {"effective_batch": 32})
    effect = compare(series(500, 1.0, 1), series(500, 0.5, 2), guards)
    assert effect.verdict is Verdict.NOT_COMPARABLE
    assert effect.reason == "the global batch was 64 and is 32: a step is not the same work"


def test_what_nobody_could_check_is_named() -> None:
    guards = guards_of({"effective_batch": 64}, {"effective_batch": 64})
    effect = compare(series(500, 1.0, 1), series(500, 0.5, 2), guards)
    assert effect.verdict is Verdict.FASTER
    assert effect.unknown[0] == "the data that an epoch covers"


@pytest.mark.parametrize("few", [[], [1.0], [1.0] * 20, [float("nan")] * 50])
def test_too_few_steps_decide_nothing(few: list[float]) -> None:
    effect = compare(series(500, 1.0, 1), few)
    assert effect.verdict is Verdict.TOO_FEW
    assert effect.interval is None


def test_steps_needed_grow_with_the_square_of_the_effect() -> None:
    medians = np.exp(np.random.default_rng(0).normal(0, 0.03, 400))
    small, large = steps_needed(medians, 10, 0.01), steps_needed(medians, 10, 0.02)
    assert small is not None and large is not None
    assert small / large == pytest.approx(4, rel=0.1)
    assert steps_needed(medians, 10, 0.0) is None


@pytest.mark.parametrize(("freedom", "table"), [(7, 2.3646), (10, 2.2281), (30, 2.0423), (1000, 1.9623)])
def test_student_agrees_with_the_tables(freedom: int, table: float) -> None:
    assert student_quantile(freedom) == pytest.approx(table, rel=2e-3)
