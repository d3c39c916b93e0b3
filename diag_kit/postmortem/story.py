"""The sections that tell how the answer was reached: timeline, evidence, what it was not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby

from diag_kit.postmortem.document import Block, Bullets, Line, Paragraph, Section, Table, code, joined, line, strong
from diag_kit.postmortem.ledger import Finding, Hold, Ledger, observation_hold
from diag_kit.postmortem.wording import counted, duration, shortened, time_text
from diag_kit.records import Calculation, Entry, Hypothesis, Note, Observation, Reason, Status, Verification
from diag_kit.show.summary import is_fault


@dataclass(frozen=True, slots=True)
class Moment:
    """A row of the timeline; ``at`` None: it came after the row before it, the hour was not noted."""

    at: datetime | None
    what: Line
    source: Line


def timeline(ledger: Ledger) -> Section:
    rows = [
        (line(time_text(each.at) if each.at else "then"), each.what, each.source)
        for each in _in_order(_moments(ledger))
    ]
    if not rows:
        return Section("Timeline", "timeline", (Paragraph(line("Nothing was noted.")),))
    how = (
        'From the start of each command and the time of each note. "then": after the row above, its hour was not noted.'
    )
    return Section("Timeline", "timeline", (Paragraph(line(how)), Table(("time (UTC)", "what", "card"), tuple(rows))))


def _moments(ledger: Ledger) -> Iterable[Moment]:
    started = ledger.evidence.fact("job_started")
    at = _iso(started.fact.value) if started else None
    if started is not None and at is not None:
        yield Moment(at, line("the training job started"), ledger.cite(started.id))
    for kind, entries in groupby(ledger.entries, key=type):
        group = list(entries)
        if kind is Calculation:
            yield Moment(None, line(f"{counted(len(group), 'calculation')} made"), _ids(ledger, group))
        elif kind is Hypothesis:
            yield Moment(None, _ranking(group), _ids(ledger, group))
        else:
            yield from (_moment(ledger, entry) for entry in group)


def _moment(ledger: Ledger, entry: Entry) -> Moment:
    if isinstance(entry, Note):
        return Moment(entry.at, line(entry.text), line("note"))
    if isinstance(entry, Verification):
        return Moment(None, line(f"tested {entry.cause}: {entry.verdict.value}"), ledger.cite(entry.id))
    if isinstance(entry, Observation):
        starts = [result.started for result in entry.results]
        took = sum(result.duration_s for result in entry.results)
        what = line(strong(entry.probe), f": {entry.parsed.summary}", f" ({duration(took)})" if starts else "")
        return Moment(min(starts) if starts else None, what, ledger.cite(entry.id))
    return Moment(None, line("noted"), ())


def _ids(ledger: Ledger, group: list[Entry]) -> Line:
    ids = [entry.id for entry in group if not isinstance(entry, Note) and entry.id]
    if len(ids) > 2:
        return line(ledger.cite(ids[0]), " to ", ledger.cite(ids[-1]))
    return ledger.cites(ids)


def _ranking(group: list[Entry]) -> Line:
    held = [entry for entry in group if isinstance(entry, Hypothesis) and entry.status is not Status.NOT_TESTABLE]
    text = "; ".join(f"{entry.cause} {entry.status.value}" for entry in held[:4])
    return line(
        f"{counted(len(group), 'cause')} weighed", f": {text}" if text else "", "; ..." if len(held) > 4 else ""
    )


def _in_order(moments: Iterable[Moment]) -> list[Moment]:
    """By time; a moment without one stays behind the moment it followed."""
    blocks: list[list[Moment]] = []
    for moment in moments:
        if moment.at is not None or not blocks:
            blocks.append([moment])
        else:
            blocks[-1].append(moment)
    first = datetime.min.replace(tzinfo=UTC)
    return [moment for block in sorted(blocks, key=lambda block: _aware(block[0].at) or first) for moment in block]


def _aware(at: datetime | None) -> datetime | None:
    return at.replace(tzinfo=UTC) if at is not None and at.tzinfo is None else at


def _iso(value: object) -> datetime | None:
    try:
        return _aware(datetime.fromisoformat(str(value)))
    except ValueError:
        return None


def evidence(ledger: Ledger) -> Section:
    """For and against every cause that is not yet settled against."""
    blocks: list[Block] = []
    for finding in ledger.with_status(Status.CONFIRMED, Status.SUPPORTED, Status.UNDECIDED):
        found = finding.hypothesis
        blocks += [
            Paragraph(line(strong(found.title), " ", code(found.cause), f", {finding.status.value}")),
            Bullets(_sided(ledger, found)),
        ]
    if not blocks:
        blocks.append(Paragraph(line("No cause stands, so there is no evidence to weigh.")))
    return Section("Evidence for and against", "evidence", tuple(blocks))


def _sided(ledger: Ledger, found: Hypothesis) -> tuple[Line, ...]:
    sides: list[Line] = [line(strong("for: "), ledger.reason(each)) for each in found.evidence_for]
    sides += [line(strong("against: "), ledger.reason(each)) for each in found.evidence_against]
    if not found.evidence_for:
        sides.insert(0, line(strong("for: "), "nothing is written down"))
    if not found.evidence_against:
        sides.append(line(strong("against: "), "nothing found"))
    return tuple(sides)


def exoneration(ledger: Ledger) -> Section:
    """Each suspect with its verdict and the reason; what could not be seen is as visible as what was cleared."""
    rows = [
        *_suspects(ledger, Status.REFUTED, "innocent"),
        *_suspects(ledger, Status.UNDECIDED, "open"),
        *_suspects(ledger, Status.NOT_TESTABLE, "blind"),
        *_blind_probes(ledger),
        *_suspects(ledger, Status.SUPPORTED, "suspected"),
        *_suspects(ledger, Status.CONFIRMED, "guilty"),
    ]
    how = (
        "innocent: what was seen contradicts it, for the time observed. blind: it could not have been seen, so it is not "
        "cleared. open: what was seen does not tell. suspected and guilty: see Evidence."
    )
    if not rows:
        return Section("What it was not", "exoneration", (Paragraph(line("Nothing was cleared.")),))
    return Section(
        "What it was not", "exoneration", (Paragraph(line(how)), Table(("suspect", "verdict", "reason"), tuple(rows)))
    )


def _suspects(ledger: Ledger, status: Status, verdict: str) -> list[tuple[Line, ...]]:
    rows: list[tuple[Line, ...]] = []
    for finding in ledger.with_status(status):
        found = finding.hypothesis
        if status in (Status.REFUTED, Status.NOT_TESTABLE) and not is_fault(found.cause):
            continue  # "healthy" refuted is not a suspect cleared
        rows.append((line(f"{found.title} ", code(found.cause)), line(verdict), _why(ledger, finding)))
    return rows


def _why(ledger: Ledger, finding: Finding) -> Line:
    found = finding.hypothesis
    if finding.decided_by:
        test = ledger.cards[finding.decided_by]
        said = test.reason if isinstance(test, Verification) else ""
        return line(said, " (", ledger.cite(finding.decided_by), ")")
    if finding.status in (Status.SUPPORTED, Status.CONFIRMED):
        return line(found.claim)
    reasons: tuple[Reason, ...] = found.evidence_against or found.evidence_for
    if finding.status is Status.NOT_TESTABLE:
        reasons = (*found.evidence_against, *found.evidence_for)
    if not reasons:
        return line(found.claim)
    if finding.status is Status.NOT_TESTABLE and not any(reason.ids for reason in reasons):
        return line("; ".join(reason.text for reason in reasons))  # a lack has no card to name
    return joined((ledger.reason(reason) for reason in reasons), "; ")


def _blind_probes(ledger: Ledger) -> list[tuple[Line, ...]]:
    """Observations that failed and were not repeated with success."""
    rows: list[tuple[Line, ...]] = []
    for entry in ledger.observations:
        hold, _ = observation_hold(entry)
        newest = ledger.evidence.observed(entry.probe)
        if hold not in (Hold.FAILED, Hold.PARTIAL) or newest is not entry or not entry.parsed.problems:
            continue
        problems = shortened(" ".join(entry.parsed.problems))
        verdict = "blind" if hold is Hold.FAILED else "partly blind"
        rows.append((line("what ", code(entry.probe), " would show"), line(verdict), line(f"{problems} ({entry.id})")))
    return rows
