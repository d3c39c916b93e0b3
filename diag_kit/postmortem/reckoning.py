"""The sections on calculations (superseded ones included), hypotheses, and deciding tests."""

from __future__ import annotations

from diag_kit.postmortem.document import (
    Block,
    Fold,
    Line,
    Paragraph,
    Section,
    Table,
    code,
    joined,
    line,
    plain,
    strong,
    struck,
)
from diag_kit.postmortem.ledger import Ledger
from diag_kit.postmortem.wording import STATUS_WORDS, hours_won, number, point_won, quantity, value_text
from diag_kit.records import Assumption, Calculation, Verification


def calculations(ledger: Ledger) -> Section:
    made = ledger.calculations
    if not made:
        return Section("Calculations", "calculations", (Paragraph(line("None were made.")),))
    rows = tuple(_calculation(ledger, each) for each in made)
    blocks: tuple[Block, ...] = (
        Paragraph(line("In the order they were made. Struck through: superseded, kept to be read; the remark says by what.")),
        Table(
            ("id", "name", "value", "how", "remark"),
            rows,
            tuple(each.id for each in made),
            widths=(6, 18, 20, 31, 25),
        ),
    )
    return Section("Calculations", "calculations", blocks)


def _calculation(ledger: Ledger, made: Calculation) -> tuple[Line, ...]:
    cells = (line(made.id), line(code(made.name)), line(value_text(made)), _how(ledger, made))
    remarks = [made.note] if made.note else []
    if made.supersedes:
        remarks.insert(0, f"supersedes {made.supersedes}")
    later = ledger.superseded_by.get(made.id)
    if later is None:
        return (*cells, line("; ".join(remarks)))
    remarks.insert(0, f"superseded by {later}")
    return (cells[0], *(struck(cell) for cell in cells[1:]), line("; ".join(remarks)))


def _how(ledger: Ledger, made: Calculation) -> Line:
    """The formula, the cards it took its numbers from, and what it assumed."""
    sources = line("; from ", ledger.cites(made.inputs)) if made.inputs else ()
    assumed = line("; with ", joined((_assumption(each) for each in made.assumptions), ", ")) if made.assumptions else ()
    return line(made.formula, sources, assumed)


def _assumption(each: Assumption) -> Line:
    return line(code(each.name), f" = {quantity(each.value, each.unit)} ({each.source})")


def hypotheses(ledger: Ledger) -> Section:
    if not ledger.findings:
        return Section("Hypotheses", "hypotheses", (Paragraph(line("None were formed.")),))
    rows = []
    for finding in ledger.findings:
        found = finding.hypothesis
        status = line(strong(finding.status.value), f" (was {found.status.value}, then " if finding.decided_by else "")
        if finding.decided_by:
            status = line(status, ledger.link(finding.decided_by), ")")
        former = ", ".join(f"{each.id} {each.status.value}" for each in ledger.earlier(found.cause))
        status = line(status, f"; earlier: {former}" if former else "")
        rows.append(
            (
                line(found.id),
                line(code(found.cause)),
                line(found.claim),
                status,
                line(hours_won(found.hours_won, point_won(found)) if found.hours_won else "not estimated"),
            )
        )
    blocks: list[Block] = [
        Paragraph(line("All causes that were weighed, best first.")),
        Table(
            ("id", "cause", "claim", "status", "hours won"),
            tuple(rows),
            tuple(row[0][0].text if row[0] else "" for row in rows),
        ),
        Paragraph(line("; ".join(f"{status.value}: {words}" for status, words in STATUS_WORDS.items()), ".")),
    ]
    hows = [
        line(code(each.hypothesis.cause), f": {each.hypothesis.hours_won.how}")
        for each in ledger.findings
        if each.hypothesis.hours_won is not None and each.hypothesis.hours_won.how
    ]
    if hows:
        blocks.append(Paragraph(line("How the hours were got: ", joined(hows, "; "), ".")))
    return Section("Hypotheses", "hypotheses", tuple(blocks))


def verification(ledger: Ledger) -> Section:
    if not ledger.verifications:
        text = "No deciding test was run; the status of each hypothesis rests on the evidence alone."
        return Section("Verification", "verification", (Paragraph(line(text)),))
    return Section("Verification", "verification", tuple(block for each in ledger.verifications for block in _test(ledger, each)))


def _test(ledger: Ledger, test: Verification) -> tuple[Block, ...]:
    rivals = tuple((line(rival), line(says)) for rival, says in test.predicted.items())
    facts = [
        (line("measured"), line(test.measured or "nothing")),
        (line("verdict"), line(strong(f"{test.verdict.value}"), f": {test.reason}" if test.reason else "")),
        (line("error rates"), line(test.error_rates or "not stated")),
        (line("from"), ledger.cites(test.inputs) or line("no card named")),
    ]
    if test.numbers:
        listed = ", ".join(f"{name} = {number(value)}" for name, value in test.numbers.items())
        facts.append((line("numbers"), line(listed)))
    title = line(test.id, " ", strong(test.test), " for ", code(test.cause), f": {test.verdict.value}")
    return (
        Fold(
            title,
            (
                Table(("if this were so", "one would see"), rivals)
                if rivals
                else Paragraph(line(plain("No rival predictions."))),
                Table(("", "what was found"), tuple(facts)),
            ),
            test.id,
        ),
    )
