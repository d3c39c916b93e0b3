"""Pure statistics on plain sequences: multiplicity, rates with intervals, step times with rare stalls.

Each function has a slow, obvious twin in its test. Random draws use a fixed seed, so that equal data give equal intervals.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diag_kit.records import Interval

Floats = npt.NDArray[np.float64]
MIN_GROUPS = 3
"""Complete groups that a multiplicity needs: with fewer, one odd group decides."""
MIN_SHARE = 0.9
"""Share of groups that must have the same size; the rest is a partial group or a lost line."""
DRAWS = 600


@dataclass(frozen=True, slots=True)
class Multiplicity:
    """How often each distinct key occurs: the usual ``count``, over how many complete ``groups``, in what ``share`` of them."""

    count: int
    groups: int
    share: float


def multiplicity(keys: Sequence[Hashable]) -> Multiplicity | None:
    """How often each key occurs, in order of first appearance; the first group and the last two may be partial and are left out.

    The last two, because ranks that print for themselves are up to one step apart. None with fewer than 3 complete groups, or
    where less than 90 % of them agree.
    """
    return common_size(list(Counter(keys).values())[1:-2])


def common_size(sizes: Sequence[int]) -> Multiplicity | None:
    """The size that at least 90 % of at least 3 groups have."""
    if len(sizes) < MIN_GROUPS:
        return None
    count, hits = Counter(sizes).most_common(1)[0]
    share = hits / len(sizes)
    return Multiplicity(count, len(sizes), share) if share >= MIN_SHARE else None


def printed_quantum(text: str) -> float | None:
    """The value of one unit in the last printed digit: 1e-07 for "1.05e-05", 0.001 for "0.020". None for what is no number."""
    mantissa, _, exponent = text.strip().lower().partition("e")
    try:
        value, power = float(text), int(exponent) if exponent else 0
    except (ValueError, OverflowError):
        return None
    if not math.isfinite(value) or abs(power) > 300:
        return None
    digits = mantissa.partition(".")[2]
    return math.pow(10.0, power - len(digits))


def distinct_value_sizes(texts: Sequence[str]) -> list[int]:
    """How often each printed value occurs, where every step surely has a text of its own.

    A value that changes at every step (a learning rate in warm-up) marks the step. Rounding merges neighbours: a step smaller
    than the last printed digit shows as values exactly one digit apart. Kept are therefore only values that stand at least two
    units of the last digit from both neighbours; the first and the last two are left out as in ``multiplicity``.
    """
    sizes = Counter(texts)
    order = list(sizes)
    quanta = [printed_quantum(text) for text in order]
    kept = []
    for place in range(1, len(order) - 2):
        near = quanta[place - 1 : place + 2]
        if any(quantum is None for quantum in near):
            continue
        # Trailing zeros are dropped by repr: the finest neighbour tells how many digits there are.
        quantum = min(float(each or 0.0) for each in near)
        gaps = [abs(float(order[place]) - float(order[other])) for other in (place - 1, place + 1)]
        if min(gaps) >= 1.99 * quantum:
            kept.append(sizes[order[place]])
    return kept


def burst_ratio(groups: Sequence[Sequence[float]]) -> float | None:
    """Spread of times within a group over the distance between groups (medians). Near 0: lines of one step, from several ranks.

    Near (k-1)/k for groups of k: evenly spaced lines, such as one rank's micro-batches. None with fewer than 5 groups of two.
    """
    groups = [sorted(group) for group in groups if len(group) > 1]
    if len(groups) < 5:
        return None
    within = float(np.median([group[-1] - group[0] for group in groups]))
    between = float(np.median(np.diff([group[0] for group in groups])))
    return within / between if between > 0 else None


def counted_rate(count: float, window_s: float, end_error: float) -> Interval:
    """The rate of ``count`` events in a window when up to ``end_error`` of them may be wrong at each end."""
    return Interval(max(count - 2 * end_error, 0.0) / window_s, (count + 2 * end_error) / window_s)


def excess_spread(increments: Sequence[float], grain: float, blocks: int = 6) -> float:
    """Standard error of the mean increment beyond what counting explains, as a share of the mean.

    The window is cut into blocks; a block's sum may differ from its share by ``grain`` at each end for counting alone, and only
    what goes beyond that is spread. Blocks keep neighbouring seconds together, so that autocorrelation widens the result.
    """
    values = np.asarray(increments, dtype=float)
    if len(values) < 2 * blocks or values.sum() <= 0:
        return 0.0
    sums = np.array([part.sum() * len(values) / blocks / len(part) for part in np.array_split(values, blocks)])
    beyond = np.maximum(np.abs(sums - sums.mean()) - 2 * grain, 0.0)
    error = math.sqrt(float((beyond**2).sum()) / (blocks - 1) / blocks)
    return error / float(sums.mean())


def autocorrelation_time(values: Sequence[float]) -> float:
    """1 + 2 x the sum of autocorrelations up to the first that is not positive: how many values make one independent one."""
    series = np.asarray(values, dtype=float)
    series = series - series.mean()
    power = float((series**2).sum())
    if len(series) < 4 or power == 0:
        return 1.0
    total = 1.0
    for lag in range(1, len(series) // 2):
        correlation = float((series[lag:] * series[:-lag]).sum()) / power
        if correlation <= 0:
            break
        total += 2 * correlation
    return total


def bootstrap_means(values: Sequence[float], seed: int = 0, draws: int = DRAWS) -> Floats:
    """Means of circular block resamples; blocks are longer than the autocorrelation, and at least n^(1/3)."""
    series = np.asarray(values, dtype=float)
    size = len(series)
    block = min(size, max(1, math.ceil(max(2 * autocorrelation_time(values), size ** (1 / 3)))))
    generator = np.random.default_rng(seed)
    starts = generator.integers(0, size, (draws, math.ceil(size / block)))
    wrapped = np.concatenate([[0.0], np.cumsum(np.concatenate([series, series[:block]]))])
    sums = wrapped[starts + block] - wrapped[starts]
    return np.asarray(sums.sum(axis=1) / (starts.shape[1] * block), dtype=float)


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Mean time of a step with a 95 % interval; how many ``stalls`` were seen (their cost is in mean and interval)."""

    mean_s: float
    interval: Interval
    stalls: int
    steps: int


def step_times(seconds: Sequence[float], resolution_s: float = 0.0, seed: int = 0) -> StepTimes:
    """Steady part by block bootstrap, rare stalls as a Gamma-Poisson process with exponential sizes.

    A stall is a step longer than 5 medians and 1 s beyond the median (and beyond the clock's resolution). With none seen the
    interval holds only for runs without: stalls rarer than one in ``steps`` cannot be bounded.
    """
    values = np.asarray(seconds, dtype=float)
    middle = float(np.median(values))
    limit = max(5 * middle, middle + 1.0 + 2 * resolution_s)
    stalled = values > limit
    steady = values[~stalled]
    means = bootstrap_means(list(steady), seed)
    count = int(stalled.sum())
    if count:
        generator = np.random.default_rng(seed + 1)
        excess = float((values[stalled] - middle).sum())
        frequency = generator.gamma(count + 0.5, 1.0, len(means)) / len(values)
        size = excess / generator.gamma(count, 1.0, len(means))
        means = means + frequency * size
    low, high = (float(each) for each in np.quantile(means, (0.025, 0.975)))
    slack = resolution_s / max(len(values), 1)
    mean = float(values.mean())
    return StepTimes(mean, Interval(min(low, mean) - slack, max(high, mean) + slack), count, len(values))
