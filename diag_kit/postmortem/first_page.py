"""Page one: question, answer, impact, what was done, what it won."""

from __future__ import annotations

from diag_kit.postmortem.document import (
    Block,
    Bullets,
    Line,
    Notice,
    Paragraph,
    Section,
    Table,
    code,
    joined,
    line,
    mark,
    strong,
)
from diag_kit.postmortem.impact import claimed_line, hours_line, ranks_of, realised, run_hours
from diag_kit.postmortem.ledger import Finding, Ledger
from diag_kit.postmortem.wording import STATUS_WORDS, counted, duration, first_sentence, sentence, time_text
from diag_kit.progress import STOPPED, stopped_early
from diag_kit.records import Cost, Status

OPEN = (Status.CONFIRMED, Status.SUPPORTED, Status.UNDECIDED)
MANY = 3
"""How many further findings page one names; all stand in the section on hypotheses."""

RECONSTRUCTION = "This is a reconstruction: the data behind it were rebuilt, not recorded on the host itself."


def about_lines(ledger: Ledger) -> tuple[Line, ...]:
    """The lines under the title: what kind of record this is, and of which host."""
    lines: list[Line] = []
    if ledger.is_reconstruction:
        said = f" {sentence(ledger.case.provenance_text)}" if ledger.case.provenance_text else ""
        lines.append(line(mark(RECONSTRUCTION), said))
    if stopped_early(ledger.entries):
        lines.append(line(mark(STOPPED)))
    kind = ledger.case.about or f"live, over {ledger.case.host_kind}"
    lines.append(line("Host ", code(ledger.case.host_name), f", {kind}. All times are UTC. ", window(ledger)))
    ended, several = (ledger.evidence.fact(name) for name in ("job_ended", "choice_of_training"))
    if several is not None:
        lines.append(line(f"{several.fact.value}. ", ledger.link(several.id)))
    if ended is not None:
        lines.append(line(f"{ended.fact.source[:1].upper()}{ended.fact.source[1:]}. ", ledger.link(ended.id)))
    return tuple(lines)


def title(ledger: Ledger) -> str:
    prefix = "Postmortem (reconstruction)" if ledger.is_reconstruction else "Postmortem"
    return f"{prefix}: {ledger.case.question or 'no question was noted'}"


def window(ledger: Ledger) -> str:
    starts = [result.started for each in ledger.observations for result in each.results]
    if not starts:
        return "No command was run."
    return f"Observed from {time_text(min(starts))} to {time_text(max(starts))}."


def first_page(ledger: Ledger) -> tuple[Section, ...]:
    return (
        Section("Question", "question", (Paragraph(line(strong(ledger.case.question or "No question was noted."))),)),
        Section("Answer", "answer", _answer(ledger)),
        Section("Impact", "impact", _impact(ledger)),
        Section("What was done", "done", (_done(ledger),)),
        Section("What it won", "won", _won(ledger)),
    )


def _answer(ledger: Ledger) -> tuple[Block, ...]:
    standing = ledger.with_status(*OPEN)
    if not ledger.findings:
        return (Paragraph(line("None yet: no hypotheses have been formed in this record.")),)
    if not standing:
        return (Paragraph(line("None yet: every cause that was considered is refuted or not testable here.")),)
    # Ranked by hours, an undecided cause can stand before a supported one: here the better established goes first.
    ordered = sorted(standing, key=lambda finding: OPEN.index(finding.status))
    top, rest = ordered[0], ordered[1:]
    blocks: list[Block] = [_claim(top, ledger)]
    unbacked = [each for each in top.hypothesis.evidence_for if not ledger.is_backed(each)]
    if unbacked or not top.hypothesis.evidence_for:
        blocks.append(Notice(_unbacked_text(len(unbacked), len(top.hypothesis.evidence_for))))
    if rest:
        also = [line(code(each.hypothesis.cause), f" {each.status.value}: {each.hypothesis.claim}") for each in rest[:MANY]]
        if len(rest) > MANY:
            also.append(line(f"and {len(rest) - MANY} more, in the section on hypotheses"))
        blocks += [Paragraph(line("Also standing:")), Bullets(tuple(also))]
    return tuple(blocks)


def _claim(finding: Finding, ledger: Ledger) -> Paragraph:
    decided = finding.decided_by or ledger.test_that_agrees(finding)
    by = line("; decided by ", ledger.cite(decided)) if decided else ()
    found = finding.hypothesis
    return Paragraph(
        line(
            strong(sentence(found.claim)),
            " ",
            code(found.cause),
            ": ",
            strong(finding.status.value),
            f" ({STATUS_WORDS[finding.status]}",
            by,
            ").",
        )
    )


def _unbacked_text(unbacked: int, given: int) -> Line:
    if not given:
        return line(mark("No evidence for this claim is written down in this record."))
    return line(mark(f"{unbacked} of {given} reasons for this claim cannot be traced to a card that stands: see Evidence."))


def _impact(ledger: Ledger) -> tuple[Block, ...]:
    ranks = ranks_of(ledger)
    run = run_hours(ledger)
    items: list[Line] = []
    if run is not None:
        whole = hours_line(float(run.value or 0), run.interval, ranks)
        items.append(line(strong("The run as it goes: "), whole, ", ", ledger.cite(run.id)))
    else:
        items.append(line(strong("The run as it goes: "), "not known: no projection stands in this record"))
    for rivals in by_same_hours(ledger.with_status(Status.CONFIRMED, Status.SUPPORTED)):
        won = rivals[0].hypothesis.hours_won
        if won is not None:
            claimed = claimed_line(rivals[0].hypothesis, ranks)
            how = f" ({won.how})" if won.how else ""
            items.append(line(strong("Of this avoidable, as claimed: "), claimed, ", ", _causes(rivals), how))
    note = "These hours are projected for the whole run if nothing changes; they are not hours already spent."
    if ranks is not None:
        gpu = ", one GPU each" if ranks.unit == "GPU-hours" else "; no GPU was seen"
        note += f" {ranks.unit[0].upper()}{ranks.unit[1:]} are hours x {counted(ranks.count, 'rank')}{gpu} ({ranks.source})."
        note += "".join(f" Beware: {name} says {count}." for name, count in ranks.others)
    return (Bullets(tuple(items)), Paragraph(line(note)))


def by_same_hours(findings: tuple[Finding, ...]) -> list[list[Finding]]:
    """Rivals that would win the very same hours, together: they are won once, whichever of them holds."""
    groups: list[list[Finding]] = []
    for finding in findings:
        won = finding.hypothesis.hours_won
        same = next((g for g in groups if won is not None and won.high > 0 and g[0].hypothesis.hours_won == won), None)
        if same is None:
            groups.append([finding])
        else:
            same.append(finding)
    return groups


def _causes(rivals: list[Finding]) -> Line:
    """``data.dup_no_sampler or data.same_order (the same hours, won once)``."""
    named = joined((line(code(each.hypothesis.cause)) for each in rivals), " or ")
    return line(named, " (the same hours, won once)") if len(rivals) > 1 else named


def _done(ledger: Ledger) -> Bullets:
    items = [_observed(ledger)]
    made = len(ledger.calculations)
    gone = len(ledger.superseded_by)
    if made:
        items.append(line(f"{counted(made, 'calculation')}, of which {gone} superseded and kept (see Calculations)."))
    if ledger.findings:
        tests = counted(len(ledger.verifications), "deciding test")
        items.append(line(f"{counted(len(ledger.findings), 'possible cause')} weighed, {tests} judged."))
    fixes = [each for each in ledger.with_status(Status.CONFIRMED, Status.SUPPORTED) if each.hypothesis.fix]
    for fix in dict.fromkeys(each.hypothesis.fix for each in fixes):
        causes = joined((line(code(each.hypothesis.cause)) for each in fixes if each.hypothesis.fix == fix), ", ")
        items.append(line("Fix proposed for ", causes, f": {first_sentence(fix)}"))
    return Bullets(tuple(items))


def _observed(ledger: Ledger) -> Line:
    results = [result for each in ledger.observations for result in each.results]
    careful = sum(each.cost is Cost.CAREFUL for each in ledger.observations)
    failed = sum(not each.ok for each in ledger.observations)
    text = f"{counted(len(ledger.observations), 'observation')} with {counted(len(results), 'command')}"
    text += f", {duration(sum(result.duration_s for result in results))} of command time in all"
    text += f"; {careful} of them paused or loaded something, with consent" if careful else "; all read-only"
    text += f"; {failed} incomplete or failed" if failed else ""
    return line(text + ". Nothing on the host was changed by the kit.")


def _won(ledger: Ledger) -> tuple[Block, ...]:
    rows: list[tuple[Line, ...]] = []
    for rivals in by_same_hours(ledger.with_status(Status.CONFIRMED, Status.SUPPORTED)):
        if rivals[0].hypothesis.hours_won is None:
            continue
        measured = next((found for each in rivals if (found := realised(ledger, each))), None)
        after = line(measured[0], ", ", ledger.cite(measured[1])) if measured else line("not measured yet")
        rows.append((_causes(rivals), claimed_line(rivals[0].hypothesis, ranks_of(ledger)), after))
    if not rows:
        return (Paragraph(line("Nothing is claimed, and nothing was measured: no cause with an estimate of its hours stands.")),)
    return (Table(("cause", "claimed", "realised"), tuple(rows)),)
