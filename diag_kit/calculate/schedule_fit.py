"""Which learning-rate schedules fit the printed digits, and the steps at which they can end: bounded-error estimation.

A printed rate is the true one within half a unit of its last digit, so a curve either passes through all these bands or is
refuted. Every family below is linear in its height and floor once its end is chosen; the ends for which some height and floor
pass through all bands are the answer, and none is preferred to another. Families: linear, polynomial and cosine decay to a
floor (``get_*_schedule_with_warmup`` in huggingface/transformers src/transformers/optimization.py; ``CosineAnnealingLR`` in
pytorch torch/optim/lr_scheduler.py), 1 - sqrt decay after a plateau (WSD). Without an end: exponential, step, inverse square
root.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from diag_kit.calculate.statistics import Floats

STEP_SLACK = 1.0
"""A schedule may count from 0 or 1, and be printed before or after its step."""
FARTHEST = 300.0
"""Ends are looked for up to so many times the decay seen: one farther off cannot be told from none."""
POWERS = {"linear": 1.0, "polynomial (power 2)": 2.0, "polynomial (power 0.9)": 0.9, "polynomial (power 3)": 3.0}
MOST_POINTS = 60
GOLDEN = 0.6180339887


@dataclass(frozen=True, slots=True)
class Points:
    """Steps (ascending), printed rates, and the error of each (half a unit of the last digit)."""

    steps: Floats
    rates: Floats
    errors: Floats

    def __len__(self) -> int:
        return len(self.steps)

    def part(self, low: int, high: int) -> Points:
        return Points(self.steps[low:high], self.rates[low:high], self.errors[low:high])

    def thinned(self) -> Points:
        """Evenly chosen points, first and last among them: what is left out can only narrow the answer."""
        if len(self) <= MOST_POINTS:
            return self
        chosen = np.unique(np.linspace(0, len(self) - 1, MOST_POINTS).astype(int))
        return Points(self.steps[chosen], self.rates[chosen], self.errors[chosen])


@dataclass(frozen=True, slots=True)
class Fit:
    """A family that passes through all bands: the ends that it allows. ``end`` None: it has no end, or none can be told."""

    family: str
    low: float | None
    high: float | None
    end: float | None


def decimals_error(texts: Sequence[str]) -> Floats:
    """Half a unit of the last digit of each printed number, as one format prints them all.

    Trailing zeros may be dropped (``repr`` after ``round``, ``%g``): the finest decimal place and the most significant digits of
    the whole column are what the format has, and the coarser of both bounds each value.
    """
    places, digits = zip(*(_places_and_digits(text) for text in texts), strict=True)
    values = np.abs(np.array([float(text) for text in texts]))
    absolute = 10.0 ** -float(max(places))
    size = np.floor(np.log10(np.where(values > 0, values, absolute)))
    relative = 10.0 ** (size - max(digits) + 1)
    unit = np.where(values > 0, np.maximum(absolute, relative), absolute)
    return np.asarray(0.5 * unit * (1 + 1e-6) + 2e-7 * values, dtype=float)


def _places_and_digits(text: str) -> tuple[int, int]:
    """Decimal places (exponent counted in) and significant digits of a printed number."""
    mantissa, _, exponent = text.strip().lower().lstrip("+-").partition("e")
    whole, _, part = mantissa.partition(".")
    places = len(part) - (int(exponent) if exponent else 0)
    return places, max(1, len((whole + part).lstrip("0")))


def fits(decay: Points, starts: Sequence[float], floor: float | None = None, top: Points | None = None) -> list[Fit]:
    """Every family that passes through the bands of ``decay`` (points after the last one at the top).

    ``starts``: steps at which the decay may have begun. ``floor``: the rate at the end, if it is known; else 0 for straight and
    polynomial decays (their floor cannot be told from their end) and anything for a cosine. ``top``: points at the peak.
    """
    points = decay.thinned()
    with_top = _joined(top.thinned() if top is not None else None, points)
    found = [_shaped_fit(with_top, "cosine", _cosine, starts, floor)]
    for bottom in (0.0, *_settled(decay)) if floor is None else (floor,):
        found += [_power_fit(points, name, power, bottom) for name, power in POWERS.items()]
        found += [_shaped_fit(with_top, "1 - sqrt", _one_minus_root, starts, bottom)]
    found += [_endless(points, "exponential or step", np.log), _endless(points, "inverse square root", lambda y: y**-2.0)]
    return [each for each in found if each is not None]


def _settled(decay: Points) -> tuple[float, ...]:
    """The rate at which the log stays at its end, where it is not zero and at least three points show it."""
    last = float(decay.rates[-1])
    same = np.abs(decay.rates[-3:] - last) <= decay.errors[-3:] * 0.1
    return (last,) if last > decay.errors[-1] and len(decay) >= 6 and bool(same.all()) else ()


def _joined(top: Points | None, decay: Points) -> Points:
    if top is None or not len(top):
        return decay
    both = zip((top.steps, top.rates, top.errors), (decay.steps, decay.rates, decay.errors), strict=True)
    return Points(*(np.concatenate(pair) for pair in both))


def _ends_in_sight(points: Points) -> int:
    """How many points come before the floor is reached (rates that no longer change at the end of the log)."""
    last = points.rates[-1] + points.errors[-1]
    above = np.flatnonzero(points.rates - points.errors > last)
    return int(above[-1]) + 1 if len(above) else 0


def _power_fit(points: Points, family: str, power: float, floor: float) -> Fit | None:
    """(rate - floor)^(1/power) is a straight line that ends at zero: the lines through all bands, and where they end."""
    above = np.flatnonzero(points.rates - points.errors > floor)
    if len(above) < 3:
        return None
    before = points.part(0, int(above[-1]) + 2)  # the first point at the floor bounds the end from above
    low = np.maximum(before.rates - before.errors - floor, 0.0) ** (1 / power)
    high = np.maximum(before.rates + before.errors - floor, 0.0) ** (1 / power)
    origin = float(before.steps[0])

    def passes(ends: Floats) -> Floats:
        shape = ends[:, None] - before.steps[None, :]
        near, far = np.maximum(shape - STEP_SLACK, 1e-9), np.maximum(shape + STEP_SLACK, 1e-9)
        height_low, height_high = (low / far).max(axis=1), (high / near).min(axis=1)
        return np.asarray((height_high - height_low) / np.maximum(height_high + height_low, 1e-300), dtype=float)

    return _search(passes, family, origin, float(points.steps[above[-1]]), float(before.steps[-1]))


def _cosine(part: Floats) -> Floats:
    return np.asarray(0.5 * (1 + np.cos(np.pi * np.clip(part, 0, 1))), dtype=float)


def _one_minus_root(part: Floats) -> Floats:
    return np.asarray(1 - np.sqrt(np.clip(part, 0, 1)), dtype=float)


def _shaped_fit(
    points: Points, family: str, shape: Callable[[Floats], Floats], starts: Sequence[float], floor: float | None
) -> Fit | None:
    """rate = floor + height x shape((step - start) / (end - start)), for each start; the hull of the ends that pass."""
    ordered = _apart(sorted(set(starts)))
    gaps = np.diff(ordered)
    slack = STEP_SLACK + (float(gaps.max()) / 2 if len(gaps) else 0.0)
    settled = _ends_in_sight(points)
    found = []
    for start in ordered:
        passes = _passes(points, shape, start, slack, floor)
        nearest = float(points.steps[max(settled - 1, 0)])
        fit = _search(passes, family, start, nearest, float(points.steps[-1]))
        if fit is not None:
            found.append(fit)
    if not found:
        return None
    lows, highs = [each.low for each in found], [each.high for each in found]
    ends = [each.end for each in found if each.end is not None]
    if len(ends) < len(found):
        return Fit(family, None, None, None)
    return Fit(family, min(x for x in lows if x is not None), max(x for x in highs if x is not None), float(np.median(ends)))


def _apart(starts: list[float]) -> list[float]:
    """Starts nearer to each other than an eighth of their range say the same within the slack that the gaps give."""
    distance = max(STEP_SLACK, (starts[-1] - starts[0]) / 8)
    kept = starts[:1]
    for start in starts[1:-1]:
        if start - kept[-1] >= distance and starts[-1] - start >= distance / 2:
            kept.append(start)
    return kept if len(starts) == 1 else [*kept, starts[-1]]


def _passes(
    points: Points, shape: Callable[[Floats], Floats], start: float, slack: float, floor: float | None
) -> Callable[[Floats], Floats]:
    scale = float(points.rates.max())
    low, high = (points.rates - points.errors) / scale, (points.rates + points.errors) / scale
    least, most = (0.0, 1.0) if floor is None else (floor / scale * (1 - 1e-6), floor / scale * (1 + 1e-6) + 1e-7)

    def passes(ends: Floats) -> Floats:
        span = np.maximum(ends - start, 1e-9)[:, None]
        early = shape((points.steps[None, :] - slack - start) / span)
        late = shape((points.steps[None, :] + slack - start) / span)

        def gap(height: Floats) -> Floats:
            ceiling = np.minimum((high - height[:, None] * late).min(axis=1), most)
            bottom = np.maximum((low - height[:, None] * early).max(axis=1), least)
            return np.asarray(ceiling - bottom, dtype=float)

        left, right = np.zeros(len(ends)), np.full(len(ends), 1.5)
        # The gap is concave in the height: golden-section search, one evaluation a round.
        one, two = left + (right - left) * (1 - GOLDEN), left + (right - left) * GOLDEN
        at_one, at_two = gap(one), gap(two)
        for _ in range(30):
            better = at_one > at_two
            left, right = np.where(better, left, one), np.where(better, two, right)
            fresh = np.where(better, left + (right - left) * (1 - GOLDEN), left + (right - left) * GOLDEN)
            found = gap(fresh)
            one, two = np.where(better, fresh, two), np.where(better, one, fresh)
            at_one, at_two = np.where(better, found, at_two), np.where(better, at_one, found)
        return np.maximum(at_one, at_two)

    return passes


def _search(passes: Callable[[Floats], Floats], family: str, origin: float, nearest: float, last: float) -> Fit | None:
    """The hull of the ends where ``passes`` is not negative: a coarse grid, closer around its best, then outwards from there."""
    seen = max(last - origin, 1.0)
    begin = max(nearest - origin, 0.5)
    best, spread = np.geomspace(begin, FARTHEST * seen, 70), (FARTHEST * seen / begin) ** (1 / 69)
    place = 0.0
    everywhere: list[float] = []
    for _ in range(7):
        gaps = passes(origin + best)
        everywhere += [float(x) for x in best[gaps >= 0]]
        place = float(best[int(np.argmax(gaps))])
        low, high = max(place / spread**1.5, begin * 0.999), place * spread**1.5
        best, spread = np.geomspace(low, high, 20), (high / low) ** (1 / 19)
    if not everywhere:
        return None
    place = float(np.median(everywhere)) if place not in everywhere else place
    steps = np.geomspace(max(place, 1.0) * 1e-6, FARTHEST * seen, 90)
    around = np.concatenate([place - steps[steps < place - begin * 0.999], [place], place + steps])
    okay = np.concatenate([around[passes(origin + around) >= 0], everywhere])
    if float(okay.max()) >= 0.9 * FARTHEST * seen:
        return Fit(family, None, None, None)
    ordered = np.sort(around)
    below, above = ordered[ordered < okay.min()], ordered[ordered > okay.max()]
    low = float(below[-1]) if len(below) else float(okay.min())
    high = float(above[0]) if len(above) else float(okay.max())
    return Fit(family, origin + low, origin + high, origin + (float(okay.min()) + float(okay.max())) / 2)


def _endless(points: Points, family: str, straight: Callable[[Floats], Floats]) -> Fit | None:
    """Whether some straight line passes through all bands after the transformation."""
    if (points.rates - points.errors <= 0).any():
        return None
    one, two = straight(points.rates - points.errors), straight(points.rates + points.errors)
    low, high = np.minimum(one, two), np.maximum(one, two)
    x = points.steps - points.steps[0]
    slope = (high[-1] - low[0]) / max(float(x[-1]), 1.0)
    slack = abs(slope) * STEP_SLACK
    centre = (low[-1] + high[-1] - low[0] - high[0]) / 2 / max(float(x[-1]), 1.0)
    half = (high[-1] - low[-1] + high[0] - low[0]) / 2 / max(float(x[-1]), 1.0) + 4 * slack / max(float(x[-1]), 1.0)
    slopes = np.linspace(centre - half, centre + half, 201)
    room = (high + slack - slopes[:, None] * x).min(axis=1) - (low - slack - slopes[:, None] * x).max(axis=1)
    return Fit(family, None, None, None) if float(room.max()) >= 0 else None
