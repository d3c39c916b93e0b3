"""The device cannot deliver the bytes that the run needs."""

from __future__ import annotations

from diag_kit.evidence import Evidence
from diag_kit.figures import figure
from diag_kit.hypothesize.cards import bytes_per_s, calculated_numbers, reason, value
from diag_kit.hypothesize.catalogue import cause
from diag_kit.hypothesize.resources import DISK_UTIL_PCT, DISK_WAIT_MS, Disks, data_mount, disks
from diag_kit.hypothesize.waits import loader_share
from diag_kit.records import HoursWon, Hypothesis, Reason, Status, Value


def disk_sentence(seen: Disks, need_gb_per_s: float | None, network: bool | None) -> str:
    """``local disks, this window: 3 kB/s, 0.04 % iowait; 0.69 GB/s needed: from the page cache or an unseen mount``."""
    text = f"local disks, this window: {bytes_per_s(seen.read_mb_per_s)} read"
    if seen.iowait_pct is not None:
        text += f", {figure(seen.iowait_pct, 2)} % iowait"
    if need_gb_per_s is None:
        return text
    text += f"; {figure(need_gb_per_s, 2)} GB/s needed"
    if seen.read_mb_per_s / 1000 < 0.5 * need_gb_per_s:
        text += ": the bytes come from the page cache" + ("" if network is False else " or from a mount that it cannot see")
    return text


@cause("io.slow_storage", "The storage device cannot deliver the bytes needed")
def slow_storage(evidence: Evidence) -> Hypothesis:
    """A local device is saturated and the training waits for it.

    Signature: high wait per request with the device busy, or high iowait, while the step waits for data.

    Thresholds: wait over 10 ms and busy over 80 % (AWS MFU guide); iowait over 50 % (SageMaker). Busy time means little on SSDs.
    The average since boot never counts. Acquitted, for the window seen only: busy below 40 %, iowait below 5 %.

    Look-alikes: the page cache answers (nothing on the device while GB/s are read); a network mount, which no local device
    shows (io.nfs); metadata of many small files (io.small_files); decoding.

    Fails where the data lie on a network mount: not testable here. Quiet disks do not refute starvation by data, only
    these devices, and only while the cache holds.

    Hours won: remaining hours x share of the step that waits for data; not known without timings.
    """
    seen = disks(evidence)
    mount, network = data_mount(evidence)
    need = value(evidence, "read_gb_per_s_needed")
    share = loader_share(evidence)
    made = evidence.calculation("read_gb_per_s_needed")
    good: list[Reason] = []
    bad: list[Reason] = []
    if seen is None:
        status, claim = Status.NOT_TESTABLE, "the local disks were not watched"
        bad.append(Reason("no disk statistics of this window"))
    elif network and not seen.guilty:
        status, claim = Status.NOT_TESTABLE, f"the data lie on {mount}, which no local device shows"
        bad.append(reason(disk_sentence(seen, need, network), seen.id, made))
    elif seen.guilty:
        waits = share is not None and not share.innocent
        status = Status.SUPPORTED if waits else Status.UNDECIDED
        claim = "a local disk is saturated" + (" and the step waits for data" if waits else "")
        good.append(reason(_guilt(seen), seen.id))
        if share is not None and share.innocent:
            status, claim = Status.REFUTED, "a disk is busy, but the step does not wait for data"
            bad.append(reason(share.says, share.id))
    elif seen.idle:
        status, claim = Status.REFUTED, disk_sentence(seen, need, network)
        bad.append(reason(f"{claim}; for this window and while the cache holds, not for a network mount", seen.id, made))
    else:
        status, claim = Status.UNDECIDED, "the local disks are neither idle nor saturated"
        bad.append(reason(_guilt(seen), seen.id))
    if share is not None and status in (Status.SUPPORTED, Status.UNDECIDED):
        good.append(reason(share.says, share.id))
    alive = status in (Status.SUPPORTED, Status.UNDECIDED)
    return Hypothesis(
        cause="io.slow_storage",
        title="The storage device cannot deliver the bytes needed",
        claim=claim,
        status=status,
        evidence_for=tuple(good),
        evidence_against=tuple(bad),
        numbers=_numbers(evidence, seen),
        hours_won=_won(evidence, share.share) if alive and share is not None else None,
        fix="Stage the data on faster local storage, or read fewer and larger files." if alive else "",
        next_probe="bytes read per rank, rchar against read_bytes, read-only: inv.observe(dk.observe.rank_io())" if alive else "",
    )


def _numbers(evidence: Evidence, seen: Disks | None) -> dict[str, Value]:
    numbers = dict(calculated_numbers(evidence, ("read_gb_per_s_needed",)))
    if seen is not None:
        figures = {"disk_read_mb_per_s": seen.read_mb_per_s, "disk_wait_ms": seen.wait_ms, "disk_util_pct": seen.util_pct}
        numbers |= {name: figure for name, figure in {**figures, "iowait_pct": seen.iowait_pct}.items() if figure is not None}
    return numbers


def _won(evidence: Evidence, waiting_share: float) -> HoursWon | None:
    left = value(evidence, "remaining_hours") or value(evidence, "run_hours")
    how = "remaining hours x share of the step that waits for data"
    return None if left is None else HoursWon(0.0, left * waiting_share, how, left)


def _guilt(seen: Disks) -> str:
    parts = [f"{bytes_per_s(seen.read_mb_per_s)} read"]
    if seen.wait_ms is not None:
        parts.append(f"{figure(seen.wait_ms)} ms a request (limit {DISK_WAIT_MS:.0f})")
    if seen.util_pct is not None:
        parts.append(f"busy {seen.util_pct:.0f} % (limit {DISK_UTIL_PCT:.0f})")
    if seen.iowait_pct is not None:
        parts.append(f"iowait {figure(seen.iowait_pct, 2)} %")
    return f"local disks, this window: {', '.join(parts)}"
