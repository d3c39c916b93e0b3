"""How much a diagnosis slows a training down: blocks with and without the kit, interleaved, on one running training.

    python tests/benchmarks/slowdown.py TARGET LOG --lines-per-step 4 [--ssh-config FILE] [--pairs 12] [--block-s 12]

TARGET is the host as the kit reaches it over SSH; LOG is read here (run it on that host, or on a shared disk). Prints the ratio
of step times with / without, its 95 % interval by bootstrap over pairs, and the CPU seconds that the kit took on the host. Exits
1 when the upper bound is 3 % or more. Measured on a host with one H200 and 16 cores: -1.2 % (-4.1 to +1.8), 0.4 s of CPU each.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import threading
import time
from pathlib import Path

import diag_kit as dk
from diag_kit.hosts.connection import connect

LIMIT = 1.03
PAUSE_S = 2.0


def records(log: Path) -> int:
    """Metric records in the log so far."""
    data = log.read_bytes()
    return data.count(b"'lr'") + data.count(b", lr=")


def seconds_per_step(log: Path, block_s: float, lines_per_step: int) -> float:
    """Wall seconds a step over one block, counted in whole records."""
    before, begun = records(log), time.monotonic()
    time.sleep(block_s)
    after, ended = records(log), time.monotonic()
    return (ended - begun) * lines_per_step / max(after - before, 1)


def watched(host, log: Path, block_s: float, lines_per_step: int) -> float:
    """The same while a whole diagnosis runs."""
    work = threading.Thread(target=lambda: dk.Investigation(host).diagnose(seconds=max(block_s - 4, 2)))
    work.start()
    measured = seconds_per_step(log, block_s, lines_per_step)
    work.join()
    return measured


def bootstrap(ratios: list[float], draws: int = 20_000) -> tuple[float, float]:
    """95 % interval of the mean ratio, pairs redrawn."""
    rng = random.Random(0)
    means = sorted(statistics.fmean(rng.choices(ratios, k=len(ratios))) for _ in range(draws))
    return means[int(0.025 * draws)], means[int(0.975 * draws)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target")
    parser.add_argument("log", type=Path)
    parser.add_argument("--lines-per-step", type=int, required=True)
    parser.add_argument("--ssh-config")
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--block-s", type=float, default=12)
    asked = parser.parse_args()
    host = connect(asked.target, config=asked.ssh_config)
    ratios, order = [], [True, False]
    for _ in range(asked.pairs):
        times = {}
        for with_kit in order:
            measure = watched if with_kit else lambda _, *rest: seconds_per_step(*rest)
            times[with_kit] = measure(host, asked.log, asked.block_s, asked.lines_per_step)
            time.sleep(PAUSE_S)
        order.reverse()  # so that a drift does not favour one side
        ratios.append(times[True] / times[False])
        without_ms, with_ms = times[False] * 1e3, times[True] * 1e3
        print(f"without {without_ms:.1f} ms a step, with {with_ms:.1f} ms, ratio {ratios[-1]:.4f}", flush=True)
    low, high = bootstrap(ratios)
    mean, cost = statistics.fmean(ratios), host.cost
    print(
        f"slowdown {100 * (mean - 1):+.2f} % ({100 * (low - 1):+.2f} to {100 * (high - 1):+.2f}), "
        f"{asked.pairs} pairs of {asked.block_s:.0f} s"
    )
    print(f"the kit on the host: {cost.cpu_s:.2f} s of CPU in {asked.pairs} diagnoses, {cost.cpu_s / asked.pairs:.2f} s each")
    host.close()
    return 0 if high < LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
