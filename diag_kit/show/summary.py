"""What there is to say, in order of importance, before anybody decides how it looks. Pure: an investigation in, plain data out.

The screen, the board and its HTML copy all draw from this, so that they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from diag_kit.evidence import Evidence, Sourced
from diag_kit.progress import STOPPED, stopped_early
from diag_kit.records import Calculation, Entry, Hypothesis, Note, Observation, Reason, Status, Verification
from diag_kit.show.format import visible, wins
from diag_kit.show.offers import Offer, merged, offer

if TYPE_CHECKING:
    from diag_kit.investigation import Investigation

OPEN = (Status.CONFIRMED, Status.SUPPORTED, Status.UNDECIDED)
SHAPE = {
    Status.CONFIRMED: "●",
    Status.SUPPORTED: "◐",
    Status.UNDECIDED: "○",
    Status.REFUTED: "✕",
    Status.NOT_TESTABLE: "▨",
}
"""One shape for each status, beside its word: colour never carries a meaning alone."""
MEANING = {
    Status.CONFIRMED: "a deciding test says so",
    Status.SUPPORTED: "the evidence points to it; no deciding test yet",
    Status.UNDECIDED: "what was seen fits this and also its rivals",
    Status.REFUTED: "innocent: what was seen rules it out",
    Status.NOT_TESTABLE: "blind: could not have been seen from here",
}
LABEL = {
    "printing_ranks": "ranks that print",
    "steps_done": "steps done",
    "log_lines_per_s": "log lines",
    "step_rate": "step rate",
    "step_time": "time a step",
    "samples_per_s": "samples",
    "run_hours": "whole run",
    "epoch_hours": "one epoch",
    "reading_unsplit_hours": "reading: loader not split",
    "reading_split_hours": "reading: loader split",
    "reading_one_printer_hours": "reading: one rank prints",
    "reading_one_printer_split_hours": "reading: one rank prints, loader split",
    "lines_per_step": "lines a step",
    "reading_burst_hours": "reading: a burst of lines",
    "run_hours_if_split": "whole run, if split",
    "hours_won_if_split": "hours won, if split",
    "effective_batch": "effective batch",
    "effective_batch_if_split": "effective batch, if split",
    "steps_per_epoch_if_split": "steps an epoch, if split",
    "read_gb_per_s_needed": "reading needed",
    "one_gpu_run_hours": "whole run on one GPU",
    "speedup_over_one_gpu": "speed-up over one GPU",
    "start_up_s": "start-up, not stepping",
    "comm_gb_per_step": "sent a step",
    "comm_s_per_step": "sending a step",
}


@dataclass(frozen=True, slots=True)
class Superseded:
    """A calculation that no longer stands, and the one that replaced it."""

    old: Calculation
    new: Calculation


@dataclass(frozen=True, slots=True)
class Summary:
    """Everything that a view needs. ``findings`` are the open ones, best first; ``blind`` are sentences with ids;
    ``warnings`` are what a reader must know before the first number: a stop, or what the user named and could not be read."""

    question: str
    host: str
    about: str
    clock: datetime | None
    job: str
    findings: tuple[Hypothesis, ...]
    innocent: tuple[Hypothesis, ...]
    blind: tuple[Reason, ...]
    superseded: tuple[Superseded, ...]
    decides: Mapping[str, Offer]
    next_probes: tuple[Offer, ...]
    observations: tuple[Observation, ...]
    calculations: tuple[Calculation, ...]
    hypotheses: tuple[Hypothesis, ...]
    earlier: tuple[Hypothesis, ...]
    verifications: tuple[Verification, ...]
    notes: tuple[Note, ...]
    redactions: Mapping[str, int]
    warnings: tuple[str, ...] = ()

    def same_hours_as(self, found: Hypothesis) -> int | None:
        """The place (from 1) of an earlier finding that wins the very same hours: won once, whichever of the two holds."""
        for place, earlier in enumerate(self.findings, 1):
            if earlier is found:
                return None
            if found.hours_won is not None and found.hours_won.high > 0 and earlier.hours_won == found.hours_won:
                return place
        return None

    @property
    def best(self) -> Hypothesis | None:
        return self.findings[0] if self.findings else None


def summarise(inv: Investigation) -> Summary:
    """Sort an investigation's ledger into what a reader wants to know, in that order."""
    entries = inv.entries
    evidence = Evidence(entries)
    found = tuple(inv.findings)
    now = {each.id or id(each) for each in found}
    offers = _offers(inv)
    calculations = tuple(e for e in entries if isinstance(e, Calculation))
    return Summary(
        question=inv.question,
        host=inv.host.name,
        about=inv.about,
        clock=None if getattr(inv.host, "kind", "") == "files" else last_look(evidence),
        job=job_line(evidence),
        findings=tuple(each for each in found if each.status in OPEN),
        innocent=tuple(each for each in found if each.status is Status.REFUTED and is_fault(each.cause)),
        blind=blind_spots(evidence, found),
        superseded=superseded(calculations),
        decides={each.cause: each for each in reversed(offers)},
        next_probes=merged(offers),
        observations=evidence.observations,
        calculations=calculations,
        hypotheses=found,
        earlier=tuple(e for e in entries if isinstance(e, Hypothesis) and (e.id or id(e)) not in now),
        verifications=evidence.verifications,
        notes=tuple(e for e in entries if isinstance(e, Note)),
        redactions=dict(getattr(inv, "redactions", {}) or {}),
        warnings=warnings(entries),
    )


def _offers(inv: Investigation) -> tuple[Offer, ...]:
    if not inv.findings:
        return ()
    kind = getattr(inv.host, "kind", "")
    recording = getattr(inv.host, "recording", None)
    held = frozenset(e.probe for e in recording.entries if isinstance(e, Observation)) if recording is not None else None
    return tuple(offer(probe, kind, held or None, inv.evidence) for probe in inv.next_probes())


def is_fault(cause: str) -> bool:
    """Whether a cause is a fault; "healthy" and explanations that are not faults cannot be innocent."""
    from diag_kit.hypothesize.catalogue import all_causes

    known = all_causes().get(cause)
    return known.is_fault if known else cause != "healthy"


def last_look(evidence: Evidence) -> datetime | None:
    """When the host was last seen: the end of the newest command."""
    ends = [r.started + timedelta(seconds=r.duration_s) for o in evidence.observations for r in o.results]
    return max(ends, default=None)


def superseded(calculations: tuple[Calculation, ...]) -> tuple[Superseded, ...]:
    """Which calculation replaced which, in order."""
    by_id = {made.id: made for made in calculations}
    return tuple(Superseded(by_id[made.supersedes], made) for made in calculations if made.supersedes in by_id)


def warnings(entries: tuple[Entry, ...]) -> tuple[str, ...]:
    """A stop by the user; a log or a process that the user named and that could not be read."""
    evidence = Evidence(entries)
    said = [STOPPED] if stopped_early(entries) else []
    named = told_log(evidence)
    if named is not None:
        reads = [seen for probe in ("log_metrics", "log_facts") if (seen := evidence.observed(probe)) is not None]
        if reads and not any(seen.facts or any(len(table) for table in seen.parsed.tables.values()) for seen in reads):
            problems = [one_line(problem) for seen in reads for problem in seen.parsed.problems]
            problems += [f"{named.fact.value}: {seen.parsed.summary}" for seen in reads]
            said.append(f"The log that you named tells nothing: {problems[0]}")
    jobs = evidence.observed("training_jobs")
    pid = jobs.parameters.get("pid") if jobs is not None else None
    if jobs is not None and pid is not None and evidence.fact("job_pid") is None:
        said.append(f"No training holds the process that you named, pid {pid}.")
    return tuple(said)


def told_log(evidence: Evidence) -> Sourced | None:
    """The log that the user named: it counts more than one that was found."""
    told = {seen.id for seen in evidence.observations if seen.probe == "told"}
    by_user = [stated for stated in evidence.facts("log_path") if stated.id in told and stated.fact.value]
    return by_user[-1] if by_user else None


def blind_spots(evidence: Evidence, findings: tuple[Hypothesis, ...]) -> tuple[Reason, ...]:
    """What could not be seen: causes that cannot be tested here, and newest observations that failed, each with its reason."""
    spots = [
        Reason(f"{each.title}: {first_reason(each)}" if first_reason(each) else each.title, (each.id,) if each.id else ())
        for each in findings
        if each.status is Status.NOT_TESTABLE
    ]
    newest = {seen.probe: seen for seen in evidence.observations}
    absent = [seen for seen in newest.values() if not_recorded(seen)]
    if absent:
        names = ", ".join(label(seen.probe) for seen in absent)
        spots.append(Reason(f"not in this recording: {names}", tuple(seen.id for seen in absent if seen.id)))
    alike: dict[str, list[Observation]] = {}
    for seen in (each for each in newest.values() if not not_recorded(each)):
        for what in seen.parsed.problems:
            alike.setdefault(one_line(what), []).append(seen)
    for what, all_seen in alike.items():
        probes = ", ".join(dict.fromkeys(seen.probe for seen in all_seen))
        spots.append(Reason(f"{probes}: {what}", tuple(seen.id for seen in all_seen if seen.id)))
    return tuple(spots)


def not_recorded(seen: Observation) -> bool:
    """Whether a recording was asked for something that it does not hold."""
    return any(what.startswith(f"{seen.probe} was not recorded here") for what in seen.parsed.problems)


def one_line(problem: str) -> str:
    """A problem of several lines (what, where, next) as one sentence."""
    return "; ".join(" ".join(line.split()) for line in problem.splitlines() if line.strip())


def won_line(found: Hypothesis) -> str:
    """What a repair wins; nothing for a cause that is no fault and has no number."""
    return wins(found) if found.hours_won is not None or is_fault(found.cause) else ""


def first_reason(found: Hypothesis) -> str:
    """The first sentence against, else for, else the claim: why it is refuted or cannot be tested."""
    for reasons in (found.evidence_against, found.evidence_for):
        if reasons:
            return reasons[0].text
    return found.claim if found.claim != found.title else ""


def job_line(evidence: Evidence) -> str:
    """``torchrun, 4 ranks on GPUs 0-3, train.py since 22:27 (host clock), log train_4gpu.log``; empty when nothing is known.

    First that it has ended, where it has; last which of several trainings this is.
    """
    ended = evidence.fact("job_ended")
    several = _said(evidence, "choice_of_training")
    return "; ".join(filter(None, (ended.fact.source if ended else "", _what_runs(evidence), several)))


def _what_runs(evidence: Evidence) -> str:
    said: list[str] = []
    launcher, world, script = (_said(evidence, name) for name in ("launcher", "world_size", "script"))
    if launcher:
        said.append(launcher)
    if world:
        said.append(f"{world} rank{'s' if world != '1' else ''}{_gpus_used(evidence)}")
    started = _said(evidence, "job_started")
    since = f" since {_host_clock(started)}" if started else ""
    if script:
        said.append(f"{script.rsplit('/', 1)[-1]}{since}")
    if evidence.observed("training_jobs") is not None and evidence.fact("job_pid") is None and not said:
        said.append("no training found")
    log = told_log(evidence) or evidence.fact("log_path")
    if log:
        said.append(f"log {str(log.fact.value).rsplit('/', 1)[-1]} ({log.fact.source})")
    return ", ".join(said)


def _said(evidence: Evidence, name: str) -> str:
    sourced = evidence.fact(name)
    return "" if sourced is None else str(sourced.fact.value)


def _host_clock(iso: str) -> str:
    try:
        return f"{datetime.fromisoformat(iso):%H:%M} UTC"
    except ValueError:
        return iso


def _gpus_used(evidence: Evidence) -> str:
    ranks = evidence.table("ranks")
    if ranks is None or "gpu" not in ranks:
        return ""
    used = sorted({int(gpu) for gpu in ranks["gpu"].dropna() if str(gpu).strip().isdigit()})
    if not used:
        return ""
    if len(used) > 1 and used == list(range(used[0], used[-1] + 1)):
        return f" on GPUs {used[0]}-{used[-1]}"
    return f" on GPU{'s' if len(used) > 1 else ''} {', '.join(map(str, used))}"


def short_note(note: str, limit: int = 90) -> str:
    """The first clause of a note, for a line that has no room for all of it."""
    return brief(note.split(";")[0].strip(), limit)


def brief(text: str, limit: int = 140) -> str:
    """As much as a closed card has room for; the open card has it all."""
    shown = visible(text[: 4 * limit])
    return shown if len(shown) <= limit else f"{shown[: limit - 1].rstrip()}…"


def label(name: str) -> str:
    """A calculation's or number's name in words."""
    return LABEL.get(name, name.replace("_", " "))
