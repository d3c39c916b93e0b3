"""Did the repair win anything: step times before and after, compared so that a rare stall or a lucky window cannot decide.

The steady part is compared by medians of blocks longer than the autocorrelation; stalls are a process of their own. Nothing is
called faster when the global batch, the schedule or the data covered are not the same, or when too few steps were seen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from diag_kit.calculate.statistics import Floats, autocorrelation_time, student_quantile
from diag_kit.records import Interval, Value

MIN_BLOCKS = 12
"""Blocks on each side below which nothing is said: their spread is not known well enough."""
MIN_BLOCK = 5
"""Steps in a block: a median of fewer is moved by a single stall."""
NEGLIGIBLE = 0.01
"""An effect below that share is not worth a restart; an interval within it says "the same"."""
GUARDS = {
    "effective_batch": "the global batch",
    "distinct_samples_per_epoch": "the data that an epoch covers",
    "schedule_steps": "the steps over which the learning rate is scheduled, times the global batch",
    "tokens_per_sample": "the length of a sample",
    "trainable_parameters": "what is trained",
}
"""What must be the same on both sides before a shorter step means a faster run (mission_anchors 4.10)."""


class Verdict(StrEnum):
    """What may be said of a comparison."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "the same"
    TOO_FEW = "too few steps"
    NOT_COMPARABLE = "not comparable"


@dataclass(frozen=True, slots=True)
class Guard:
    """One condition of comparability: its value on both sides; ``same`` is None where a side is not known."""

    name: str
    before: Value
    after: Value
    same: bool | None


@dataclass(frozen=True, slots=True)
class Stalls:
    """Steps far longer than the median: how many of how many, and the seconds that they cost beyond a usual step."""

    count: int
    steps: int
    excess_s: float

    @property
    def per_thousand(self) -> float:
        return 1000 * self.count / self.steps if self.steps else 0.0


@dataclass(frozen=True, slots=True)
class Effect:
    """``ratio``: steady step time after / before, with a 95 % interval; ``steps_needed``: on each side, for an effect this size
    to be told from none with 80 % power. ``unknown``: guards that nobody could check."""

    verdict: Verdict
    reason: str
    ratio: float | None
    interval: Interval | None
    before_s: float | None
    after_s: float | None
    stalls_before: Stalls
    stalls_after: Stalls
    steps_needed: int | None
    guards: tuple[Guard, ...]

    @property
    def unknown(self) -> tuple[str, ...]:
        return tuple(GUARDS.get(each.name, each.name) for each in self.guards if each.same is None)


def compare(before_s: Sequence[float], after_s: Sequence[float], guards: Sequence[Guard] = ()) -> Effect:
    """Two series of step times in seconds, in order, start-up and evaluation already left out."""
    first, second = _clean(before_s), _clean(after_s)
    steady_first, stalls_first = _apart(first)
    steady_second, stalls_second = _apart(second)
    medians_first, block = _block_medians(steady_first)
    medians_second, block_after = _block_medians(steady_second)
    known = min(len(medians_first), len(medians_second)) >= MIN_BLOCKS
    ratio = interval = needed = None
    if len(medians_first) and len(medians_second):
        ratio = float(medians_second.mean() / medians_first.mean())
        needed = steps_needed(medians_first, max(block, block_after), abs(math.log(ratio)) if ratio > 0 else 0.0)
    if known:
        interval = _ratio_interval(medians_first, medians_second)
    verdict, reason = _verdict(guards, known, ratio, interval, min(len(first), len(second)))
    return Effect(
        verdict, reason, ratio, interval,
        float(medians_first.mean()) if len(medians_first) else None,
        float(medians_second.mean()) if len(medians_second) else None,
        stalls_first, stalls_second, needed, tuple(guards),
    )  # fmt: skip


def guards_of(before: Mapping[str, Value], after: Mapping[str, Value]) -> tuple[Guard, ...]:
    """Every guard with what both sides say; numbers that differ by less than 0.1 % are the same."""
    return tuple(Guard(name, before.get(name), after.get(name), _same(before.get(name), after.get(name))) for name in GUARDS)


def _same(one: Value, other: Value) -> bool | None:
    if one is None or other is None:
        return None
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=1e-3)
    return one == other


def _clean(seconds: Sequence[float]) -> Floats:
    values = np.asarray(list(seconds), dtype=float)
    return np.asarray(values[np.isfinite(values) & (values >= 0)], dtype=float)


def _apart(values: Floats) -> tuple[Floats, Stalls]:
    """The steady steps, and the stalls: longer than 5 medians and 1 s beyond the median."""
    if not len(values):
        return values, Stalls(0, 0, 0.0)
    middle = float(np.median(values))
    stalled = values > max(5 * middle, middle + 1.0)
    excess = float((values[stalled] - middle).sum())
    return np.asarray(values[~stalled], dtype=float), Stalls(int(stalled.sum()), len(values), excess)


def _block_medians(values: Floats) -> tuple[Floats, int]:
    """Medians of blocks at least three times as long as the autocorrelation, and the block's length in steps."""
    if len(values) < MIN_BLOCK:
        return np.asarray([], dtype=float), MIN_BLOCK
    block = max(MIN_BLOCK, math.ceil(3 * autocorrelation_time(list(values))))
    count = len(values) // block
    if not count:
        return np.asarray([], dtype=float), block
    return np.asarray(np.median(values[: count * block].reshape(count, block), axis=1), dtype=float), block


def _ratio_interval(first: Floats, second: Floats) -> Interval:
    """Welch's interval on the logarithms of block medians (B. L. Welch, Biometrika 34, 1947), back as a ratio."""
    logs = [np.log(side.clip(1e-12)) for side in (first, second)]
    errors = [_squared_error(side) for side in logs]
    error = sum(errors)
    spread = sum(each**2 / (len(side) - 1) for each, side in zip(errors, logs, strict=True))
    freedom = error**2 / spread if spread > 0 else float(len(first) + len(second) - 2)
    half = student_quantile(freedom) * math.sqrt(error)
    middle = float(logs[1].mean() - logs[0].mean())
    return Interval(math.exp(middle - half), math.exp(middle + half))


def _squared_error(values: Floats) -> float:
    """Squared standard error of the mean; neighbouring blocks that still agree count for less."""
    centred = values - values.mean()
    power = float((centred**2).sum())
    neighbours = float((centred[1:] * centred[:-1]).sum()) / power if power > 0 else 0.0
    return power / (len(values) - 1) / len(values) * (1 + 2 * max(0.0, min(neighbours, 0.5)))


def steps_needed(block_medians: Floats, block: int, effect: float) -> int | None:
    """Steps on each side for 80 % power at 5 % (two-sided): 2 x (1.96 + 0.84)^2 x (spread / effect)^2 blocks of ``block`` steps.

    ``effect``: as the logarithm of a ratio. None where there is no effect to look for or no spread known.
    """
    if effect <= 0 or len(block_medians) < 2:
        return None
    spread = float(np.log(block_medians.clip(1e-12)).std(ddof=1))
    return block * max(MIN_BLOCKS, math.ceil(2 * (1.96 + 0.84) ** 2 * (spread / effect) ** 2))


def _verdict(
    guards: Sequence[Guard], known: bool, ratio: float | None, interval: Interval | None, steps: int
) -> tuple[Verdict, str]:
    changed = [each for each in guards if each.same is False]
    if changed:
        what = "; ".join(f"{GUARDS.get(each.name, each.name)} was {each.before} and is {each.after}" for each in changed)
        return Verdict.NOT_COMPARABLE, f"{what}: a step is not the same work"
    if not known or interval is None or ratio is None:
        return Verdict.TOO_FEW, f"{steps} steps on the shorter side: fewer than {MIN_BLOCKS} blocks beyond the autocorrelation"
    said = f"a steady step takes {ratio:.3f} of the time ({interval.low:.3f}-{interval.high:.3f})"
    if interval.high < 1:
        return Verdict.FASTER, said
    if interval.low > 1:
        return Verdict.SLOWER, said
    if interval.low > 1 - NEGLIGIBLE and interval.high < 1 + NEGLIGIBLE:
        return Verdict.SAME, said
    return Verdict.TOO_FEW, f"{said}: no difference can be told from this many steps"
