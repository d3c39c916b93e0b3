"""The sections that tell how the answer was reached: timeline, evidence, what it was not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby

from diag_kit.hypothesize.exoneration import resources
from diag_kit.postmortem.document import Block, Bullets, Line, Paragraph, Section, Table, code, joined, line, strong
from diag_kit.postmortem.ledger import Finding, Hold, Ledger, in_one_line, observation_hold
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
    rows = [(line(time_text(each.at) if each.at else "then"), each.what, each.source) for each in _in_order(_moments(ledger))]
    if not rows:
        return Section("Timeline", "timeline", (Paragraph(line("Nothing was noted.")),))
    how = 'From the start of each command and the time of each note. "then": after the row above, its hour was not noted.'
    return Section("Timeline", "timeline", (Paragraph(line(how)), Table(("time (UTC)", "what", "card"), tuple(rows))))


def _moments(ledger: Ledger) -> Iterable[Moment]:
    started = ledger.evidence.fact("job_started")
    at = _iso(started.fact.value) if started else None
    if started is not None and at is not None:
        yield Moment(at, line("the training job started"), ledger.link(started.id))
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
        return Moment(None, line(f"tested {entry.cause}: {entry.verdict.value}"), ledger.link(entry.id))
    if isinstance(entry, Observation):
        starts = [result.started for result in entry.results]
        took = sum(result.duration_s for result in entry.results)
        what = line(strong(entry.probe), f": {entry.parsed.summary}", f" ({duration(took)})" if starts else "")
        return Moment(min(starts) if starts else None, what, ledger.link(entry.id))
    return Moment(None, line("noted"), ())


def _ids(ledger: Ledger, group: list[Entry]) -> Line:
    ids = [entry.id for entry in group if not isinstance(entry, Note) and entry.id]
    if len(ids) > 2:
        return line(ledger.link(ids[0]), " to ", ledger.link(ids[-1]))
    return joined((ledger.link(each) for each in ids), ", ")


def _ranking(group: list[Entry]) -> Line:
    held = [entry for entry in group if isinstance(entry, Hypothesis) and entry.status is not Status.NOT_TESTABLE]
    text = "; ".join(f"{entry.cause} {entry.status.value}" for entry in held[:4])
    return line(f"{counted(len(group), 'cause')} weighed", f": {text}" if text else "", "; ..." if len(held) > 4 else "")


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
    """Each resource and each cause with its verdict and reason; what could not be seen is as visible as what was cleared."""
    watched = tuple(
        (
            line(each.resource),
            line(strong(each.verdict)),
            line(each.reason, _cited(ledger, each.ids)),
            line(each.blind if each.blind != each.resource else ""),
        )
        for each in resources(ledger.evidence)
    )
    causes = (
        *_suspects(ledger, Status.REFUTED, "innocent"),
        *_suspects(ledger, Status.UNDECIDED, "open"),
        *_suspects(ledger, Status.NOT_TESTABLE, "blind"),
        *_blind_probes(ledger),
    )
    how = (
        "innocent: what was seen clears it, for the time observed. guilty: what was seen speaks against it. blind: it could not "
        "have been seen, so it is not cleared. open: what was seen does not tell."
    )
    blocks: list[Block] = [Paragraph(line(how)), Table(("resource", "verdict", "reason", "stays unseen"), watched)]
    if causes:
        blocks.append(Table(("cause", "verdict", "reason"), causes))
    return Section("What it was not", "exoneration", tuple(blocks))


def _cited(ledger: Ledger, ids: tuple[str, ...]) -> Line:
    return line(" (", ledger.cites(ids), ")") if ids else ()


def _suspects(ledger: Ledger, status: Status, verdict: str) -> list[tuple[Line, ...]]:
    rows: list[tuple[Line, ...]] = []
    for finding in ledger.with_status(status):
        found = finding.hypothesis
        if is_fault(found.cause):  # "healthy" refuted clears no suspect
            rows.append((line(f"{found.title} ", code(found.cause)), line(strong(verdict)), _why(ledger, finding)))
    return rows


def _why(ledger: Ledger, finding: Finding) -> Line:
    found = finding.hypothesis
    if finding.decided_by:
        test = ledger.cards[finding.decided_by]
        said = test.reason if isinstance(test, Verification) else ""
        return line(said, " (", ledger.cite(finding.decided_by), ")")
    if finding.status is Status.NOT_TESTABLE:
        # A lack has no card to name, so its reasons stand without one.
        reasons = (*found.evidence_against, *found.evidence_for)
        lacks = [line(each.text, _cited(ledger, each.ids)) for each in reasons]
        return joined(lacks, "; ") or line(found.claim)
    given: tuple[Reason, ...] = found.evidence_against or found.evidence_for
    return joined((ledger.reason(reason) for reason in given), "; ") or line(found.claim)


def _blind_probes(ledger: Ledger) -> list[tuple[Line, ...]]:
    """Observations that failed and were not repeated with success."""
    rows: list[tuple[Line, ...]] = []
    for entry in ledger.observations:
        hold, _ = observation_hold(entry)
        if ledger.evidence.observed(entry.probe) is not entry or not entry.parsed.problems:
            continue
        problems = shortened("; ".join(in_one_line(each) for each in entry.parsed.problems))
        verdict = "blind" if hold is Hold.FAILED else "partly blind"
        what = line("what ", code(entry.probe), " would show")
        rows.append((what, line(strong(verdict)), line(problems, " (", ledger.link(entry.id), ")")))
    return rows
