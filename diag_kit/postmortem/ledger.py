"""A ledger as a postmortem reads it: cards by id, what stands, what was superseded, how well each citation holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from diag_kit.evidence import Evidence
from diag_kit.postmortem.document import Line, Span, Style, joined, line, mark
from diag_kit.postmortem.snapshot import Snapshot
from diag_kit.postmortem.wording import shortened
from diag_kit.records import Calculation, Entry, Hypothesis, Observation, Reason, Status, Verification

FAR = 8
"""Steps of inputs that a citation is followed back before it is taken as sound (ledgers are shallow)."""


class Hold(StrEnum):
    """How well a cited card holds."""

    SOUND = ""
    MISSING = "not in this record"
    FAILED = "failed"
    PARTIAL = "incomplete"
    SUPERSEDED = "superseded"
    UNKNOWN = "no value"


@dataclass(frozen=True, slots=True)
class Finding:
    """A hypothesis with the status it has now: a verdict that came after it counts."""

    hypothesis: Hypothesis
    status: Status
    decided_by: str = ""


class Ledger:
    """Read-only view over a case."""

    def __init__(self, case: Snapshot) -> None:
        self.case = case
        self.entries = case.entries
        self.evidence = Evidence(case.entries)
        self.cards = {entry.id: entry for entry in case.entries if not _is_note(entry) and entry.id}  # type: ignore[union-attr]
        self.superseded_by = {
            entry.supersedes: entry.id for entry in case.entries if isinstance(entry, Calculation) and entry.supersedes
        }
        self._places = {_key(entry): place for place, entry in enumerate(case.entries)}
        self.findings = tuple(self._finding(each) for each in _latest(case.findings, case.entries))

    @property
    def observations(self) -> tuple[Observation, ...]:
        return self.evidence.observations

    @property
    def calculations(self) -> tuple[Calculation, ...]:
        """All of them, superseded ones included, in the order they were made."""
        return tuple(entry for entry in self.entries if isinstance(entry, Calculation))

    @property
    def verifications(self) -> tuple[Verification, ...]:
        return self.evidence.verifications

    @property
    def is_reconstruction(self) -> bool:
        return "reconstruct" in self.case.about.lower()

    def with_status(self, *statuses: Status) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.status in statuses)

    def earlier(self, cause: str) -> tuple[Hypothesis, ...]:
        """The former cards of that cause, oldest first, without the one that stands."""
        standing = {_key(finding.hypothesis) for finding in self.findings}
        return tuple(
            entry
            for entry in self.entries
            if isinstance(entry, Hypothesis) and entry.cause == cause and _key(entry) not in standing
        )

    def test_that_agrees(self, finding: Finding) -> str:
        """The id of the newest deciding test with the same verdict; empty if there is none."""
        agreeing = [t.id for t in self.verifications if t.cause == finding.hypothesis.cause and t.verdict is finding.status]
        return agreeing[-1] if agreeing and finding.status in (Status.CONFIRMED, Status.REFUTED) else ""

    def _finding(self, hypothesis: Hypothesis) -> Finding:
        place = self._places.get(_key(hypothesis), -1)
        later = [
            entry
            for entry in self.entries[place + 1 :]
            if isinstance(entry, Verification)
            and entry.cause == hypothesis.cause
            and entry.verdict in (Status.CONFIRMED, Status.REFUTED)
        ]
        if later:
            return Finding(hypothesis, later[-1].verdict, later[-1].id)
        return Finding(hypothesis, hypothesis.status)

    def hold(self, card_id: str, depth: int = 0) -> tuple[Hold, str]:
        """How well that card holds, and why not. A card that rests on a missing or failed one does not hold either."""
        entry = self.cards.get(card_id)
        if entry is None:
            return Hold.MISSING, ""
        if isinstance(entry, Observation):
            return observation_hold(entry)
        if card_id in self.superseded_by:
            return Hold.SUPERSEDED, f"see {self.superseded_by[card_id]}"
        if isinstance(entry, Calculation) and entry.value is None:
            return Hold.UNKNOWN, entry.note
        if depth < FAR and isinstance(entry, Calculation | Verification):
            for source in entry.inputs:
                hold, _ = self.hold(source, depth + 1)
                if hold in (Hold.MISSING, Hold.FAILED):
                    return hold, f"it rests on {source}"
        return Hold.SOUND, ""

    def link(self, card_id: str) -> Line:
        """The id as a link to its card, if there is one."""
        return line(Span(card_id, Style.CITE, target=card_id if card_id in self.cards else ""))

    def cite(self, card_id: str) -> Line:
        """The id as a link, with a mark where the card does not hold."""
        hold, why = self.hold(card_id)
        if hold is Hold.SOUND:
            return self.link(card_id)
        return line(self.link(card_id), " ", mark(f"{hold.value}: {short_problem(why)}" if why else hold.value))

    def cites(self, ids: Iterable[str]) -> Line:
        return joined((self.cite(each) for each in ids), ", ")

    def reason(self, reason: Reason) -> Line:
        """The sentence and the cards behind it; a sentence that names none says so."""
        if not reason.ids:
            return line(reason.text, " ", mark("no card named"))
        return line(reason.text, " (", self.cites(reason.ids), ")")

    def is_backed(self, reason: Reason) -> bool:
        """True if at least one cited card exists and did not fail, be it partly."""
        lost = (Hold.MISSING, Hold.FAILED, Hold.SUPERSEDED, Hold.UNKNOWN)
        return any(self.hold(each)[0] not in lost for each in reason.ids)


def observation_hold(observation: Observation) -> tuple[Hold, str]:
    """Failed: problems and nothing read. Incomplete: problems beside results, or output that was cut."""
    parsed = observation.parsed
    empty = not parsed.facts and all(len(table) == 0 for table in parsed.tables.values())
    if parsed.problems:
        return (Hold.FAILED if empty else Hold.PARTIAL), parsed.problems[0]
    if observation.results and empty and not any(result.ok for result in observation.results):
        return Hold.FAILED, "no command succeeded"
    if any(result.truncated for result in observation.results):
        return Hold.PARTIAL, "output was cut"
    return Hold.SOUND, ""


def in_one_line(problem: str) -> str:
    """What happened, where and the next step, one after the other."""
    return "; ".join(part.strip() for part in problem.splitlines() if part.strip())


def short_problem(problem: str) -> str:
    """The first line of a problem: what happened, without where and the next step."""
    return shortened(problem.split("\n", 1)[0], 120)


def _key(entry: Entry) -> str | int:
    """What tells one entry from another: its id, or the object itself where a ledger gave none."""
    return getattr(entry, "id", "") or id(entry)


def _is_note(entry: Entry) -> bool:
    return not hasattr(entry, "id")


def _latest(findings: Sequence[Hypothesis], entries: Sequence[Entry]) -> tuple[Hypothesis, ...]:
    """The ranked findings, followed by the newest card of every cause that the ranking does not hold."""
    ranked = {each.cause: each for each in findings}
    newest = {entry.cause: entry for entry in entries if isinstance(entry, Hypothesis)}
    return (*ranked.values(), *(each for cause, each in newest.items() if cause not in ranked))
