"""The appendix: every observation, every command with its hash, versions, redactions, what was not understood."""

from __future__ import annotations

from diag_kit.postmortem.document import (
    Block,
    Bullets,
    Fold,
    Line,
    Paragraph,
    Section,
    Table,
    Verbatim,
    code,
    line,
    mark,
    strong,
)
from diag_kit.postmortem.ledger import Hold, Ledger, in_one_line, observation_hold
from diag_kit.postmortem.wording import counted, duration, number, shortened, time_text
from diag_kit.records import CommandResult, Cost, Observation

RAW_LINES = 12
RAW_CHARACTERS = 2000
NOT_UNDERSTOOD_SHOWN = 20
"""How much of raw outputs and of lines that were not understood is printed; the true counts always stand beside."""

VERSION_FACTS = ("framework", "library_version", "interpreter", "launcher", "script")


def appendix(ledger: Ledger, kit_version: str) -> tuple[Section, ...]:
    numbered = _numbered(ledger)
    return (
        Section("Appendix: observations", "observations", _observations(ledger, numbered)),
        Section("Appendix: commands", "commands", _commands(ledger, numbered)),
        Section("Appendix: versions", "versions", _versions(ledger, kit_version)),
        Section("Appendix: what was redacted", "redacted", _redacted(ledger)),
        Section("Appendix: what was not understood", "not-understood", _not_understood(ledger)),
    )


def _numbered(ledger: Ledger) -> dict[str, int]:
    """Each distinct command text with its number, in the order of first use."""
    numbers: dict[str, int] = {}
    for observation in ledger.observations:
        for result in observation.results:
            numbers.setdefault(result.command, len(numbers) + 1)
    return numbers


def _observations(ledger: Ledger, numbered: dict[str, int]) -> tuple[Block, ...]:
    if not ledger.observations:
        return (Paragraph(line("None.")),)
    return tuple(_observation(each, numbered) for each in ledger.observations)


def _observation(seen: Observation, numbered: dict[str, int]) -> Fold:
    hold, _ = observation_hold(seen)
    title = line(seen.id, " ", strong(seen.probe), f": {seen.parsed.summary}")
    if hold is not Hold.SOUND:
        title = line(title, " ", mark(hold.value))
    items = [line("by hand: ", code(seen.equivalent))] if seen.equivalent else []
    if seen.cost is not Cost.READ_ONLY:
        items.append(line(f"cost: {seen.cost.value}"))
    set_by_hand = ", ".join(f"{name} = {value}" for name, value in seen.parameters.items() if value not in (None, "", (), []))
    if set_by_hand:
        items.append(line("parameters: ", code(set_by_hand)))
    items += [line(mark("problem: "), shortened(in_one_line(problem))) for problem in seen.parsed.problems]
    items += [line("table ", code(name), f": {counted(len(table), 'row')}") for name, table in seen.parsed.tables.items()]
    blocks: list[Block] = [Bullets(tuple(items))] if items else []
    if seen.facts:
        facts = tuple(
            (line(code(fact.name)), line(number(fact.value)), line(fact.unit), line(shortened(fact.source)))
            for fact in seen.facts
        )
        blocks.append(Table(("fact", "value", "unit", "source"), facts))
    for result in seen.results:
        blocks += _raw(result, numbered[result.command])
    return Fold(title, tuple(blocks), seen.id)


def _raw(result: CommandResult, command_number: int) -> tuple[Block, ...]:
    """The first lines of what a command printed, with the true count; standard error where there is any."""
    lines = result.text.splitlines()
    shown = shortened("\n".join(lines[:RAW_LINES]), RAW_CHARACTERS)
    count = f"command {command_number} printed {counted(len(lines), 'line')}, {counted(len(result.stdout), 'byte')}"
    if len(lines) > RAW_LINES:
        count += f"; the first {RAW_LINES}"
    blocks: list[Block] = [Paragraph(line(count + ("; more was cut off at the host" if result.truncated else "") + ":"))]
    if lines:
        blocks.append(Verbatim(shown))
    if result.error_text:
        said = "\n".join(result.error_text.splitlines()[:RAW_LINES])
        blocks += [Paragraph(line("on standard error:")), Verbatim(shortened(said, RAW_CHARACTERS))]
    return tuple(blocks)


def _commands(ledger: Ledger, numbered: dict[str, int]) -> tuple[Block, ...]:
    rows: list[tuple[Line, ...]] = [
        _command(ledger, observation.id, result, numbered[result.command])
        for observation in ledger.observations
        for result in observation.results
    ]
    if not rows:
        return (Paragraph(line("No command was run.")),)
    header = (
        "command",
        "card",
        "host",
        "start (UTC)",
        "took",
        "exit",
        "bytes",
        "cut off",
        "SHA-256 of standard output",
    )
    blocks: list[Block] = [
        Paragraph(line("Every command, in the order of the cards; the exact text of each stands below under its number.")),
        Table(header, tuple(rows), numeric=(0, 4, 5, 6)),
    ]
    for text, command_number in numbered.items():
        blocks.append(Fold(line(strong(f"command {command_number}")), (Verbatim(text, "sh"),)))
    return tuple(blocks)


def _command(ledger: Ledger, card: str, result: CommandResult, command_number: int) -> tuple[Line, ...]:
    return (
        line(str(command_number)),
        ledger.link(card),
        line(code(result.host)),
        line(time_text(result.started)),
        line(duration(result.duration_s)),
        line("timed out" if result.timed_out else "none" if result.exit_status is None else str(result.exit_status)),
        line(str(len(result.stdout))),
        line("yes" if result.truncated else "no"),
        line(code(result.sha256)),
    )


def _versions(ledger: Ledger, kit_version: str) -> tuple[Block, ...]:
    rows: list[tuple[Line, ...]] = [(line("diag_kit"), line(kit_version), line("wrote this page"))]
    if ledger.case.recorded_by:
        rows.append((line("diag_kit"), line(ledger.case.recorded_by), line("made the recording")))
    for name in VERSION_FACTS:
        sourced = ledger.evidence.fact(name)
        if sourced is not None:
            value = shortened(str(sourced.fact.value))
            rows.append((line(name), line(value), line(f"{shortened(sourced.fact.source)}, ", ledger.link(sourced.id))))
    return (Table(("what", "version or path", "source"), tuple(rows)),)


def _redacted(ledger: Ledger) -> tuple[Block, ...]:
    blocks: list[Block] = []
    if ledger.case.redactions:
        rows = tuple((line(kind), line(str(count))) for kind, count in sorted(ledger.case.redactions.items()))
        how = "Each thing was replaced by the same stand-in wherever it stood, here and in the hashed outputs."
        blocks += [Paragraph(line(how)), Table(("kind", "places"), rows, numeric=(1,))]
    else:
        blocks.append(Paragraph(line("Nothing was found that had to be replaced.")))
    if ledger.case.kept:
        blocks.append(Paragraph(line(f"Left readable by choice: {', '.join(ledger.case.kept)}.")))
    return tuple(blocks)


def _not_understood(ledger: Ledger) -> tuple[Block, ...]:
    blocks: list[Block] = []
    for seen in ledger.observations:
        lost = seen.parsed.not_understood
        if not lost:
            continue
        rows = tuple(
            (line(each.where), line(code(shortened(each.text))), line(each.why or "not said"))
            for each in lost[:NOT_UNDERSTOOD_SHOWN]
        )
        head = line(ledger.cite(seen.id), f" {seen.probe}: {counted(len(lost), 'piece')}")
        if len(lost) > NOT_UNDERSTOOD_SHOWN:
            head = line(head, f", the first {NOT_UNDERSTOOD_SHOWN}")
        blocks += [Paragraph(head), Table(("where", "text", "why"), rows)]
    return tuple(blocks) or (Paragraph(line("Everything that was read was understood.")),)
