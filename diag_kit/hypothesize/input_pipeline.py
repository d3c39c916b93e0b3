"""The loader cannot keep up."""

from __future__ import annotations

from diag_kit.calculate.inputs import Known, known
from diag_kit.evidence import Evidence
from diag_kit.hypothesize.cards import reason, value
from diag_kit.hypothesize.catalogue import cause
from diag_kit.hypothesize.resources import gpus
from diag_kit.hypothesize.waits import LoaderShare, loader_share
from diag_kit.records import HoursWon, Hypothesis, Reason, Status, Value

FEW = 2
"""Loader processes per rank up to which "too few" is the first explanation of a wait (a default of 0 or 1 left in place)."""
BUSY_WORKER_PCT = 85.0
"""Mean CPU of a loader process from which it is the bottleneck itself."""


@cause("input.too_few_workers", "The loader has too few workers to keep up")
def too_few_workers(evidence: Evidence) -> Hypothesis:
    """The step waits for data because too few loader processes prepare them.

    Signature: a large share of the step is waiting for the loader, with few loader processes that are busy, and idle CPUs; or no
    loader process at all (open_clip#13: 66 % waiting with one worker).

    Thresholds: the loader's share of a step, profile "TraceML, TrainLens" (10 % warn, 20 % critical); TensorBoard's plugin says
    5 %, gpuprof 15 and 30 %. Below 5 % every profile acquits. Busy worker: 85 % CPU (ours).

    Look-alikes: slow storage (workers in state D), decoding that no number of workers feeds (all CPUs busy), one worker slower
    than the rest, a wait for another rank in a collective. With log_freq > 1 speculators' fetch_ms absorbs GPU backlog.

    Fails where the log has no timings: neither 100 % GPU utilisation nor quiet disks refute starvation, since ranks that wait in
    a collective for a starved one show 100 %. Then: not testable here.

    Hours won: remaining hours x share waiting; lower bound 0, since what feeds the workers may be next.
    """
    share = loader_share(evidence)
    workers = _workers_per_rank(evidence)
    busy = _worker_cpu(evidence)
    good: list[Reason] = []
    bad: list[Reason] = []
    if workers.value is not None:
        text = f"{workers.value:.0f} loader processes per rank ({workers.source})"
        (good if workers.value <= FEW else bad).append(reason(text, *workers.ids))
    if busy is not None:
        (good if busy[0] >= BUSY_WORKER_PCT else bad).append(reason(f"a loader process uses {busy[0]:.0f} % of a CPU", busy[1]))
    idle = _cpus_idle(evidence)
    if idle is not None and share is not None and share.critical:
        good.append(idle)
    status = _status(share, workers, busy)
    if share is not None:
        (bad if share.innocent else good).insert(0, reason(share.says, share.id))
    else:
        bad.insert(0, Reason("the log does not say how long a step waits for data"))
    seen = gpus(evidence)
    if seen is not None and (seen.util_pct or 0) >= 90 and status in (Status.UNDECIDED, Status.NOT_TESTABLE):
        bad.append(reason("high GPU utilisation does not refute it: a rank that waits in a collective shows 100 %", seen.id))
    alive = status in (Status.SUPPORTED, Status.UNDECIDED)
    return Hypothesis(
        cause="input.too_few_workers",
        title="The loader has too few workers to keep up",
        claim=_claim(status, share, workers),
        status=status,
        evidence_for=tuple(good),
        evidence_against=tuple(bad),
        numbers=_numbers(share, workers, busy),
        hours_won=_hours(evidence, share) if alive else None,
        fix="Raise num_workers to the knee of a short sweep on a copy of the job, not to the number of cores." if alive else "",
        next_probe="stacks of the main process while it waits: py-spy dump, careful" if alive or share is None else "",
    )


def _status(share: LoaderShare | None, workers: Known, busy: tuple[float, str] | None) -> Status:
    if share is not None and share.innocent:
        return Status.REFUTED
    few = workers.value is not None and workers.value <= FEW
    hot = busy is not None and busy[0] >= BUSY_WORKER_PCT
    if share is not None and share.critical:
        return Status.SUPPORTED if few or hot else Status.UNDECIDED
    if share is not None:
        return Status.UNDECIDED
    return Status.UNDECIDED if (workers.value is not None and workers.value == 0) or hot else Status.NOT_TESTABLE


def _claim(status: Status, share: LoaderShare | None, workers: Known) -> str:
    if status is Status.REFUTED:
        return "the loader keeps up"
    if share is not None:
        return f"a step waits {share.share:.0%} of its time for data"
    if status is Status.UNDECIDED and workers.value == 0:
        return "the data are loaded in the training process itself; how long a step waits for them was not seen"
    return "the log does not say how long a step waits for data"


def _workers_per_rank(evidence: Evidence) -> Known:
    """Loader children seen, over ranks; else num_workers as stated."""
    seen, ranks = known(evidence, "loader_processes"), known(evidence, "ranks_running")
    if ranks.value is None:
        ranks = known(evidence, "world_size")
    if seen.value is not None and ranks.value:
        return Known("workers", seen.value / ranks.value, "seen running", (*seen.ids, *ranks.ids))
    stated = known(evidence, "num_workers")
    return Known("workers", stated.value, stated.source, stated.ids)


def _worker_cpu(evidence: Evidence) -> tuple[float, str] | None:
    """Mean CPU of the processes that look like loader workers of the job; None where they cannot be told."""
    sourced = evidence.sourced_table("processes")
    if sourced is None:
        return None
    table, card = sourced
    ranks = evidence.table("ranks")
    if ranks is None or not {"ppid", "cpu_pct", "command"} <= set(table.columns):
        return None
    children = table[table["ppid"].isin(ranks["pid"].dropna().tolist())]
    workers = children[children["command"].astype(str).str.contains("python|pt_data", case=False)]["cpu_pct"].dropna()
    return (float(workers.astype("float64").mean()), card) if len(workers) else None


def _cpus_idle(evidence: Evidence) -> Reason | None:
    sourced = evidence.sourced_table("cpu")
    if sourced is None or "idle_pct" not in sourced[0]:
        return None
    idle = sourced[0]["idle_pct"].dropna()
    if not len(idle) or float(idle.mean()) < 50:
        return None
    return reason(f"the CPUs are {float(idle.mean()):.0f} % idle: there is room for more workers", sourced[1])


def _numbers(share: LoaderShare | None, workers: Known, busy: tuple[float, str] | None) -> dict[str, Value]:
    found: dict[str, Value] = {}
    if share is not None:
        found["loader_share_of_step"] = share.share
    if workers.value is not None:
        found["workers_per_rank"] = workers.value
    if busy is not None:
        found["worker_cpu_pct"] = busy[0]
    return found


def _hours(evidence: Evidence, share: LoaderShare | None) -> HoursWon | None:
    left = value(evidence, "remaining_hours") or value(evidence, "run_hours")
    if share is None or left is None:
        return None
    return HoursWon(0.0, left * share.share, "remaining hours x share of the step that waits for data", left)
