"""The deciding test for slow storage: how much of what the ranks read comes from a device, and whether that device is busy."""

from __future__ import annotations

from diag_kit.evidence import Evidence
from diag_kit.hypothesize.cards import bytes_per_s, value
from diag_kit.hypothesize.resources import data_mount, disks
from diag_kit.hypothesize.storage import disk_sentence
from diag_kit.hypothesize.waits import loader_share
from diag_kit.observe.probe import Probe
from diag_kit.records import Status, Value, Verification
from diag_kit.verify.decide import DecidingTest, deciding_test

CAUSE = "io.slow_storage"
FROM_CACHE = 0.05
"""Share of the bytes asked for that comes from storage, below which the page cache answers."""


def read_rates(evidence: Evidence) -> tuple[float, float, str] | None:
    """(MB/s that the ranks asked for, MB/s of it from storage, card) over the window of ``rank_io``; None without one."""
    sourced = evidence.sourced_table("rank_io")
    if sourced is None:
        return None
    table, card = sourced
    asked = stored = 0.0
    for _, rows in table.groupby(["rank", "pid"]):
        rows = rows.sort_values("t")
        seconds = (rows["t"].iloc[-1] - rows["t"].iloc[0]).total_seconds()
        if seconds <= 0:
            continue
        # A loader process that ends takes its counters with it: a fall is not a read.
        asked += max(0.0, float(rows["rchar"].iloc[-1] - rows["rchar"].iloc[0])) / seconds / 1e6
        stored += max(0.0, float(rows["read_bytes"].iloc[-1] - rows["read_bytes"].iloc[0])) / seconds / 1e6
    return asked, stored, card


def judge(evidence: Evidence) -> Verification:
    """Guilty: a device is saturated, the ranks read from it, and the step waits for data. Innocent: any of these is not so."""
    seen, rates, share = disks(evidence), read_rates(evidence), loader_share(evidence)
    mount, network = data_mount(evidence)
    need = value(evidence, "read_gb_per_s_needed")
    numbers: dict[str, Value] = {}
    parts, inputs = [], []
    if seen is not None:
        parts.append(disk_sentence(seen, need, network))
        inputs.append(seen.id)
        numbers |= {"disk_read_mb_per_s": seen.read_mb_per_s, "disk_util_pct": seen.util_pct, "disk_wait_ms": seen.wait_ms}
    if rates is not None:
        parts.append(f"the ranks ask for {bytes_per_s(rates[0])}, {bytes_per_s(rates[1])} of it from storage")
        inputs.append(rates[2])
        numbers |= {"asked_mb_per_s": rates[0], "from_storage_mb_per_s": rates[1]}
    if share is not None:
        parts.append(share.says)
        inputs.append(share.id)
        numbers["loader_share_of_step"] = share.share
    cached = rates is not None and rates[0] > 1 and rates[1] < FROM_CACHE * rates[0]
    waits = share is not None and not share.innocent
    if share is not None and share.innocent:
        verdict, why = Status.REFUTED, "a step hardly waits for data"
    elif network:
        verdict, why = Status.NOT_TESTABLE, f"the data lie on {mount}, which no local device shows"
    elif seen is not None and seen.guilty:
        verdict = (
            Status.CONFIRMED if waits and rates is not None and not cached else Status.SUPPORTED if waits else Status.UNDECIDED
        )
        why = "a local disk is saturated" + (", the ranks read from it, and a step waits" if verdict is Status.CONFIRMED else "")
    elif seen is not None and seen.idle:
        verdict = Status.REFUTED
        why = "the local disks are idle" + (": the page cache answers, while it holds the data" if cached else ", in this window")
    elif cached:
        verdict, why = Status.REFUTED, "the page cache answers, while it holds the data"
    else:
        verdict = Status.UNDECIDED if inputs else Status.NOT_TESTABLE
        why = "what was seen tells neither" if inputs else "neither disks nor reads were watched"
    return Verification(
        cause=CAUSE,
        test="Bytes the ranks ask for, bytes from storage, and how busy the disks are",
        predicted={
            "slow local storage": "a busy device (over 80 %, over 10 ms a request), as many bytes from storage as are asked for",
            "page cache": "idle devices, hardly a byte from storage",
            "network mount": "idle local devices, bytes from storage nevertheless",
        },
        measured="; ".join(parts) or "nothing",
        verdict=verdict,
        reason=why,
        inputs=tuple(dict.fromkeys(each for each in inputs if each)),
        numbers=numbers,
        error_rates="none stated: the verdict holds for the window seen",
    )


def rungs(evidence: Evidence) -> tuple[Probe, ...]:
    """Disks and reads, ten seconds each, read-only."""
    from diag_kit.observe.disk import Iostat
    from diag_kit.observe.rank_io import RankIo

    reads: tuple[Probe, ...] = (RankIo(seconds=10),) if evidence.table("ranks") is not None else ()
    return (*reads, Iostat(seconds=10))


deciding_test(DecidingTest(CAUSE, "bytes from storage against bytes asked for", rungs, judge))
