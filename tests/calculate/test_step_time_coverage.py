"""Intervals of the mean step time against simulated truth: coverage, abstention and width, with slow twins of the parts.

The anchors: nominal 95 % intervals that cover at least 92 %, abstentions at most 45 / 12 / 3 % at 100 / 300 / 1000 steps where
stalls are known to occur, median width at most 1.5 times 1.59 / 0.35 / 0.11 s on a mean of 1.05 s.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from diag_kit.calculate.statistics import mean_error, stall_limit, step_times

TRIALS = 120
WIDTHS_S = {100: 1.59, 300: 0.35, 1000: 0.11}
ABSTAIN = {100: 0.45, 300: 0.12, 1000: 0.03}
CORRELATION = {"weak": 0.5, "strong": 0.8, "drift": 0.5}


def series(rng, steps, kind, stalls):
    """1 s a step, 5 % correlated noise; ``drift``: a rise of 20 % over the window; stalls of 5 s on average."""
    rho = CORRELATION[kind]
    noise = rng.normal(0, 0.05 * math.sqrt(1 - rho**2), steps)
    values = np.zeros(steps)
    values[0] = rng.normal(0, 0.05)
    for i in range(1, steps):
        values[i] = rho * values[i - 1] + noise[i]
    values += 1.0 + (np.linspace(-0.1, 0.1, steps) if kind == "drift" else 0.0)
    return np.maximum(values, 0.1) + (rng.random(steps) < stalls) * rng.exponential(5.0, steps)


@pytest.mark.parametrize("kind", ["weak", "strong", "drift"])
@pytest.mark.parametrize("stalls", [0.0, 0.01])
@pytest.mark.parametrize("steps", [100, 300, 1000])
def test_intervals_cover_the_mean_of_the_process(steps, stalls, kind):
    rng = np.random.default_rng(11)
    covered, widths = [], []
    for _ in range(TRIALS):
        found = step_times(series(rng, steps, kind, stalls).tolist(), rare_stalls=stalls > 0)
        if not found.abstained:
            covered.append(found.interval.low <= 1 + 5 * stalls <= found.interval.high)
            widths.append(found.interval.high - found.interval.low)
    assert np.mean(covered) >= 0.92
    assert 1 - len(covered) / TRIALS <= (ABSTAIN[steps] if stalls else 0.05)
    # A drift is not noise about a mean: its interval is as wide as the range that the drift covers.
    widest = 1.5 * WIDTHS_S[steps] if kind != "drift" else max(1.5 * WIDTHS_S[steps], 0.3)
    assert np.median(widths) <= widest


def test_a_window_without_the_known_stalls_says_that_it_bounds_nothing():
    steady = [1.0 + 0.01 * (i % 7) for i in range(100)]
    assert step_times(steady).abstained == ""
    assert "none fell in these 100 steps" in step_times(steady, rare_stalls=True).abstained
    assert step_times([*steady, 9.0], rare_stalls=True).abstained == ""
    assert step_times(steady[:12]).abstained == "12 steps are too few"


def slow_limit(values, resolution):
    ordered = sorted(values)

    def median(numbers):
        numbers = sorted(numbers)
        half = len(numbers) // 2
        return numbers[half] if len(numbers) % 2 else (numbers[half - 1] + numbers[half]) / 2

    middle = median(ordered)
    spread = 1.4826 * median([abs(value - middle) for value in ordered])
    limit = middle + max(6 * spread, 0.2 * middle, 2 * resolution)
    beyond = sum(1 for value in values if value > limit) / len(values)
    return limit if beyond <= 0.1 else max(5 * middle, middle + 1.0 + 2 * resolution)


@pytest.mark.parametrize("seed", range(6))
def test_the_stall_limit_equals_its_slow_twin(seed):
    rng = np.random.default_rng(seed)
    for spread in (0.05, 0.6):
        values = rng.lognormal(0, spread, 150)
        assert stall_limit(values, 0.1) == pytest.approx(slow_limit(list(values), 0.1))


def slow_mean_error(values):
    n, mean = len(values), sum(values) / len(values)
    power = sum((value - mean) ** 2 for value in values)

    def correlation(lag):
        return sum((values[i] - mean) * (values[i - lag] - mean) for i in range(lag, n)) / power

    together = 1.0
    for lag in range(1, n // 2):
        if correlation(lag) <= 0:
            break
        together += 2 * correlation(lag)
    r = correlation(1)
    r = min(max(r + (1 + 3 * r) / n + math.sqrt((1 - r * r) / n) / 2, 0.0), 0.99)
    together = min(max(together, (1 + r) / (1 - r)), n / 3)
    return math.sqrt(power / (n - together) * together / n), max(n / together - 1, 2.0)


@pytest.mark.parametrize("seed", range(4))
def test_the_error_of_a_mean_equals_its_slow_twin(seed):
    values = series(np.random.default_rng(seed), 80, "strong", 0.0)
    assert mean_error(values) == pytest.approx(slow_mean_error(list(values)))
    assert mean_error(np.ones(50)) == (0.0, 49.0)
