"""The overlap statistics against simulated runs of every way of splitting, with missed opens, epoch ends and prefetch."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from diag_kit.verify.shared_reads import (
    Lag,
    attributed_overlap,
    boundaries_needed,
    poisson_at_least,
    poisson_at_most,
    unattributed_overlap,
)


def simulate(split, files, ranks, rate, window_s, rng, caught=1.0, workers=2):
    """Opens of a run seen at a random moment: (rank, t_s, path), one read a step and rank, reshuffled every epoch."""
    steps = int(window_s * rate) + 1
    per_rank = files // {"none": 1, "same": 1, "once": ranks, "twice": ranks * ranks}[split]
    start = int(rng.integers(0, per_rank))
    epochs = math.ceil((start + steps) / per_rank)
    orders = {rank: [] for rank in range(ranks)}
    fixed = rng.permutation(files)
    for _ in range(epochs):
        whole = rng.permutation(files)
        for rank in range(ranks):
            if split == "none":
                orders[rank].append(rng.permutation(files))
            elif split == "same":
                orders[rank].append(whole)
            elif split == "once":
                orders[rank].append(whole[rank::ranks][:per_rank])
            else:  # a fixed part of the rank, of which one in `ranks` is drawn each epoch
                orders[rank].append(rng.permutation(fixed[rank::ranks])[:per_rank])
    rows = []
    for rank, parts in orders.items():
        order = np.concatenate(parts)[start : start + steps]
        times = np.arange(steps) / rate + rng.normal(0, 0.1 / rate, steps) - rng.integers(0, 2 * workers + 1) / rate * 0.2
        keep = rng.random(steps) < caught
        rows.append(pd.DataFrame({"rank": rank, "t_s": times[keep], "path": order[keep].astype(str)}))
    return pd.concat(rows, ignore_index=True)


def possible(files, ranks, rate, window_s):
    return math.ceil(1.2 * window_s * rate * ranks / files) + 1


CASES = [(files, ranks, caught) for files in (100, 380, 1000, 10_000, 100_000) for ranks in (2, 4, 8) for caught in (1.0, 0.15)]


@pytest.mark.parametrize("split", ["once", "twice"])
def test_a_split_run_is_never_called_unsplit(split):
    rng = np.random.default_rng(7)
    called = tried = 0
    for files, ranks, caught in CASES:
        for _ in range(12):
            if split == "twice" and files < ranks * ranks * 4:
                continue
            opens = simulate(split, files, ranks, 8.0, 10.0, rng, caught)
            for overlap, epoch in ((attributed_overlap, files), (unattributed_overlap, files // ranks)):
                bound = possible(epoch, ranks, 8.0, 10.0)
                seen = overlap(opens, files, ranks, 10.0, 0.5, 5 / 8)
                tried += 1
                called += seen.refutes_split(bound) or seen.shows_same_order
    assert tried > 500
    assert called == 0


@pytest.mark.parametrize("files", [380, 1000, 4000])
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_independent_orders_are_seen_and_never_taken_for_the_same_order(files, ranks):
    rng = np.random.default_rng(11)
    found = same = 0
    window_s = 30.0 if files > 1000 or ranks == 2 else 15.0
    for _ in range(20):
        opens = simulate("none", files, ranks, 8.0, window_s, rng)
        seen = attributed_overlap(opens, files, ranks, window_s, 0.5, 5 / 8)
        found += seen.refutes_split(possible(files, ranks, 8.0, window_s))
        same += seen.shows_same_order or seen.refutes_independent
    assert same == 0
    if seen.expected_independent > 40:  # below that the window is too short to be sure, and the answer is "cannot tell"
        assert found >= 19


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("caught", [1.0, 0.3])
def test_the_same_order_is_seen(ranks, caught):
    rng = np.random.default_rng(13)
    shown = sum(
        attributed_overlap(
            simulate("same", 10_000, ranks, 8.0, 15.0, rng, caught), 10_000, ranks, 15.0, 0.5, 5 / 8
        ).shows_same_order
        for _ in range(20)
    )
    assert shown >= 19


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_a_split_run_refutes_independent_orders_once_enough_was_seen(ranks):
    rng = np.random.default_rng(17)
    seen = attributed_overlap(simulate("once", 1000, ranks, 20.0, 15.0, rng), 1000, ranks, 15.0, 0.5, 0.25)
    if seen.expected_independent > 60:
        assert seen.refutes_independent or seen.shared > 0


def test_boundaries_needed_is_the_least_number_of_moments():
    rng = np.random.default_rng(3)
    for _ in range(200):
        starts = rng.uniform(0, 10, 6)
        lags = [Lag(float(s), float(s + rng.uniform(0.1, 4))) for s in starts]
        assert boundaries_needed(lags, 0.0) == _by_trying(lags)


def _by_trying(lags):
    """Slow reference: try every set of end points, smallest first."""
    from itertools import combinations

    ends = [lag.later_s for lag in lags]
    for size in range(1, len(lags) + 1):
        for moments in combinations(ends, size):
            if all(any(lag.first_s <= m <= lag.later_s for m in moments) for lag in lags):
                return size
    return 0


def test_poisson_tails_match_the_sum():
    for mean in (0.1, 2.0, 9.2, 40.0):
        masses = [math.exp(-mean)]
        for k in range(1, 400):
            masses.append(masses[-1] * mean / k)
        for count in (0, 1, 5, 30):
            assert poisson_at_most(count, mean) == pytest.approx(sum(masses[: count + 1]), rel=1e-9)
            assert poisson_at_least(count, mean) == pytest.approx(sum(masses[count:]), rel=1e-6)
    assert all(a >= b for a, b in pairwise(poisson_at_least(k, 3.0) for k in range(20)))
