"""Opens as a probe would see them, simulated for each way of splitting: the ground truth for the overlap test."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diag_kit.verify.shared_reads import Setting, Visit

LABELS = ("split", "own", "same")


@dataclass(frozen=True)
class Truth:
    """A training whose split is known. ``rate``: samples per second and rank; ``caught``: share of opens that a poll sees.

    ``workers``: how many steps the opens of one rank may be out of order; ``skew``: how many steps ranks are apart at most.
    """

    label: str
    ranks: int
    files: int
    rate: float
    window_s: float
    caught: float = 1.0
    batch: int = 1
    workers: int = 2
    skew: int = 2
    set_epoch: bool = True
    opens_each: int = 1

    @property
    def step_s(self) -> float:
        return self.batch / self.rate

    def setting(self, *, knows_rate: bool = True, knows_files: bool = True) -> Setting:
        return Setting(
            self.ranks,
            self.files if knows_files else None,
            self.rate if knows_rate else None,
            self.step_s if knows_rate else None,
            self.window_s,
        )


def _stream(truth: Truth, rank: int, count: int, start: int, seed: int) -> np.ndarray:
    """The files that a rank opens, ``count`` of them from position ``start`` of its first epoch."""
    parts, have, epoch = [], 0, 0
    while have < start + count:
        order_seed = [seed, epoch if truth.set_epoch else 0, rank if truth.label == "own" else 10**6]
        order = np.random.default_rng(order_seed).permutation(truth.files)
        mine = order[rank :: truth.ranks][: truth.files // truth.ranks] if truth.label == "split" else order
        parts.append(mine)
        have += len(mine)
        epoch += 1
    return np.concatenate(parts)[start : start + count]


def simulate(truth: Truth, seed: int) -> list[Visit]:
    """Opens in one window that begins at a random place of an epoch; each rank a little ahead or behind."""
    rng = np.random.default_rng([seed, 99])
    count = int(truth.rate * truth.window_s)
    per_epoch = truth.files // truth.ranks if truth.label == "split" else truth.files
    start = int(rng.integers(0, max(per_epoch, 1)))
    steps = rng.gamma(20.0, truth.step_s / 20.0, count // truth.batch + 2)
    at_step = np.cumsum(steps) - steps[0]
    found = []
    for rank in range(truth.ranks):
        ahead = int(rng.integers(0, truth.skew + 1))
        files = _stream(truth, rank, count, start + ahead * truth.batch, seed)
        times = at_step[np.arange(count) // truth.batch] + rng.uniform(0, truth.workers * truth.step_s, count)
        seen = rng.random(count) < truth.caught
        for t, file in zip(times[seen], files[seen], strict=True):
            for again in range(truth.opens_each):
                found.append(Visit(float(t) + 0.002 * again, rank, int(file)))
    return found
