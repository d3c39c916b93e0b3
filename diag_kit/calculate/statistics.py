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
    """Mean time of a step with a 95 % interval; how many ``stalls`` were seen (their cost is in mean and interval).

    ``abstained``: why the interval does not bound the mean of the run; empty where it does.
    """

    mean_s: float
    interval: Interval
    stalls: int
    steps: int
    abstained: str = ""


FEWEST_STEPS = 20
"""Steps below which neither the autocorrelation nor the tail of the step times is known."""
MOST_STALLS = 0.1
"""Share of steps beyond which long steps are no rare stalls but the usual spread of the work."""


def stall_limit(values: Floats, resolution_s: float = 0.0) -> float:
    """Beyond it a step is a stall: median + 6 scaled median absolute deviations, at least a fifth of the median and two ticks.

    Where more than a tenth of the steps lie beyond, the work itself varies: then 5 medians and 1 s beyond the median.
    """
    middle = float(np.median(values))
    spread = 1.4826 * float(np.median(np.abs(values - middle)))
    limit = middle + max(6 * spread, 0.2 * middle, 2 * resolution_s)
    if float((values > limit).mean()) > MOST_STALLS:
        limit = max(5 * middle, middle + 1.0 + 2 * resolution_s)
    return limit


def mean_error(values: Floats) -> tuple[float, float]:
    """Standard error of the mean of correlated values, and its degrees of freedom.

    Correlations estimated from few values are too small: that of neighbours is corrected by (1 + 3 r) / n (Marriott and Pope,
    Biometrika 41, 1954) and by half its own standard error, sqrt((1 - r^2) / n), since too wide is better than too narrow. The
    larger of the sum of correlations and of what neighbours alone imply, (1 + r) / (1 - r), counts.
    """
    size = len(values)
    centred = values - values.mean()
    power = float((centred**2).sum())
    if size < 4 or power == 0:
        return 0.0, float(max(size - 1, 1))
    neighbours = float((centred[1:] * centred[:-1]).sum()) / power
    doubt = math.sqrt(max(1 - neighbours**2, 0.0) / size) / 2
    neighbours = min(max(neighbours + (1 + 3 * neighbours) / size + doubt, 0.0), 0.99)
    together = min(max(autocorrelation_time(list(values)), (1 + neighbours) / (1 - neighbours)), size / 3)
    variance = power / (size - together)
    return math.sqrt(variance * together / size), max(size / together - 1, 2.0)


def step_times(seconds: Sequence[float], resolution_s: float = 0.0, seed: int = 0, rare_stalls: bool = False) -> StepTimes:
    """Steady part by block bootstrap, rare stalls as a Gamma-Poisson process with exponential sizes.

    The bootstrap is widened to the error that ``mean_error`` gives: blocks of a short window hide part of the correlation.
    ``rare_stalls``: stalls are known to occur (evaluation, checkpoints, an earlier window); with none seen the mean cannot be
    bounded then, and ``abstained`` says so. Without that knowledge the interval holds only for runs without stalls: a window
    with none looks the same in both.
    """
    values = np.asarray(seconds, dtype=float)
    middle = float(np.median(values))
    stalled = values > stall_limit(values, resolution_s)
    steady = values[~stalled]
    means = _widened(bootstrap_means(list(steady), seed), steady)
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
    why = ""
    if len(values) < FEWEST_STEPS:
        why = f"{len(values)} steps are too few"
    elif rare_stalls and not count:
        why = f"stalls are known to occur and none fell in these {len(values)} steps: their cost cannot be bounded"
    return StepTimes(mean, Interval(min(low, mean) - slack, max(high, mean) + slack), count, len(values), why)


def _widened(means: Floats, steady: Floats) -> Floats:
    """Bootstrap means spread about their own mean so that their 95 % are Student's with the error of ``mean_error``."""
    error, freedom = mean_error(steady)
    spread = float(means.std())
    if spread <= 0 or error <= 0:
        return means
    centre = float(means.mean())
    wanted = error * student_quantile(freedom) / 1.959964
    return np.asarray(centre + (means - centre) * max(1.0, wanted / spread), dtype=float)


def student_quantile(freedom: float, normal: float = 1.959964) -> float:
    """Student's t at 97.5 % by the expansion of Cornish and Fisher (Abramowitz and Stegun 26.7.5); 0.1 % off at 7."""
    z, v = normal, max(freedom, 3.0)
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)
    return z + (z**3 + z) / (4 * v) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2) + third
