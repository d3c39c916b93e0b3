"""A card for each kind of record: one line when closed; open, everything behind it. HTML only, no kernel needed to read it."""

from __future__ import annotations

from collections.abc import Mapping

from markupsafe import Markup

from diag_kit.records import (
    Calculation,
    CommandResult,
    Cost,
    Entry,
    Hypothesis,
    Note,
    Observation,
    Status,
    Value,
    Verification,
)
from diag_kit.show.format import calculated, duration, hours_won, number, point_won, span, utc, visible, wins
from diag_kit.show.html import (
    EMPTY,
    GREY,
    RUST,
    TONE,
    badge,
    card,
    code,
    fill,
    fold,
    frame,
    join,
    link,
    links,
    pairs,
    raw_output,
    reasons,
    row,
    rows_table,
    section,
)
from diag_kit.show.summary import brief, label, one_line, short_note

FACTS_SHOWN = 40
NOT_UNDERSTOOD_SHOWN = 5
BLOCKS = 8


def card_of(entry: Entry, prefix: str = "", superseded_by: str = "") -> Markup:
    """The card of any record."""
    if isinstance(entry, Observation):
        return observation_card(entry, prefix)
    if isinstance(entry, Calculation):
        return calculation_card(entry, prefix, superseded_by)
    if isinstance(entry, Hypothesis):
        return hypothesis_card(entry, prefix)
    if isinstance(entry, Verification):
        return verification_card(entry, prefix)
    return note_line(entry)


# -- observe ---------------------------------------------------------------------------------------------------------


def state_of(seen: Observation) -> str:
    """``ok``; ``partly`` when something is missing; ``▨ blind`` when nothing was seen."""
    if seen.ok:
        return "ok"
    return "partly" if seen.parsed.facts or any(len(table) for table in seen.parsed.tables.values()) else "▨ blind"


def observation_card(seen: Observation, prefix: str = "") -> Markup:
    state = state_of(seen)
    head = fill(
        '<b>{id}</b> {probe} <span style="float:right">{state}</span><br>{summary}',
        id=seen.id,
        probe=label(seen.probe),
        state=state,
        summary=brief(one_line(seen.parsed.problems[0]) if state == "▨ blind" else seen.parsed.summary),
    )
    tone, dashed = (GREY, False) if state == "ok" else (RUST, True)
    return card(head, observation_body(seen), f"{prefix}{seen.id}", tone, dashed)


def observation_body(seen: Observation) -> Markup:
    """What went wrong, what was not understood, the facts and tables, then every command with its raw output."""
    parsed = seen.parsed
    given = {name: str(value) for name, value in seen.parameters.items() if value is not None}
    return join(
        (
            row("seen", parsed.summary if len(parsed.summary) > 140 else ""),
            section("could not be seen", _list(parsed.problems)),
            section(f"not understood: {len(parsed.not_understood)}", _not_understood(seen)),
            section("facts", _facts(seen)),
            *(section(name, frame(table)) for name, table in parsed.tables.items()),
            section("what you would type", code(seen.equivalent) if seen.equivalent else EMPTY),
            row("cost", seen.cost.value + (": asked before it ran" if seen.cost is Cost.CAREFUL else "")),
            row("parameters", ", ".join(f"{name} = {value}" for name, value in given.items())),
            *(command(result, place, len(seen.results)) for place, result in enumerate(seen.results)),
            row("all of it", f'inv["{seen.id}"].results[0].text' if seen.results and seen.id else ""),
        )
    )


def command(result: CommandResult, place: int = 0, count: int = 1) -> Markup:
    """One command: where, when, how it ended, what it printed, and the hash that ties a claim to these bytes."""
    ended = "did not end: stopped at its time limit" if result.timed_out else "did not end by itself"
    status = f"exit status {result.exit_status}" if result.exit_status is not None else ended
    about = f"{result.host}, {utc(result.started)}, took {duration(result.duration_s)}, {status}"
    return join(
        (
            section(f"command {place + 1} of {count}" if count > 1 else "command", fill("<div>{about}</div>", about=about)),
            fold("the exact command", code(result.command)),
            raw_output(result.stdout, result.truncated),
            section("on standard error", raw_output(result.stderr) if result.stderr.strip() else EMPTY),
            fill('<div style="overflow-wrap:anywhere">sha256 <code>{sha}</code></div>', sha=result.sha256),
        )
    )


def _facts(seen: Observation) -> Markup:
    shown = [(fact.name, number(fact.value) + (f" {fact.unit}" if fact.unit else ""), fact.source) for fact in seen.facts]
    more = f"and {len(shown) - FACTS_SHOWN} more" if len(shown) > FACTS_SHOWN else ""
    return (
        fill("{table}{more}", table=rows_table(("name", "value", "source"), shown[:FACTS_SHOWN]), more=more) if shown else EMPTY
    )


def _not_understood(seen: Observation) -> Markup:
    lost = seen.parsed.not_understood
    shown = [(each.where, each.text, each.why) for each in lost[:NOT_UNDERSTOOD_SHOWN]]
    more = f"first {len(shown)} of {len(lost)}" if len(lost) > len(shown) else ""
    return fill("{table}{more}", table=rows_table(("where", "text", "why"), shown, mono=True), more=more) if shown else EMPTY


def _list(sentences: tuple[str, ...]) -> Markup:
    items = join(fill('<li style="white-space:pre-wrap">{text}</li>', text=_lines(text)) for text in sentences)
    return fill('<ul style="margin:1px 0;padding-left:18px">{items}</ul>', items=items) if sentences else EMPTY


def _lines(text: str) -> Markup:
    return join((fill("{line}", line=line) for line in text.splitlines()[:6]), "\n")


# -- calculate -------------------------------------------------------------------------------------------------------


def calculation_card(made: Calculation, prefix: str = "", superseded_by: str = "") -> Markup:
    """A superseded one is struck through and still opens to how it was got."""
    said = calculated(made) if made.value is not None else "not known"
    text = fill("{name} <b>{value}</b>", name=label(made.name), value=said)
    if superseded_by:
        text = fill("<del>{text}</del> → {by}", text=text, by=link(superseded_by, prefix))
    elif made.note and (made.value is None or made.name.startswith("reading_")):
        text = fill("{text}<br>{note}", text=text, note=short_note(made.note))
    head = fill("<b>{id}</b> {text}", id=made.id, text=text)
    return card(head, calculation_body(made, prefix, superseded_by), f"{prefix}{made.id}", GREY, bool(superseded_by))


def calculation_body(made: Calculation, prefix: str = "", superseded_by: str = "") -> Markup:
    interval = ""
    if made.interval:
        low, high = number(made.interval.low, 4), number(made.interval.high, 4)
        interval = f"{low} to {high} {made.unit}, meant to hold the true value in {made.interval.level:.0%} of cases"
    assumed = [(each.name, number(each.value) + (f" {each.unit}" if each.unit else ""), each.source) for each in made.assumptions]
    return join(
        (
            row("formula", made.formula),
            row("value", f"{number(made.value, 5)} {made.unit}".strip()),
            row("interval", interval or ("none stated" if made.value is not None else "")),
            row("from", links(made.inputs, prefix)),
            section("assumptions", rows_table(("name", "value", "source"), assumed) if assumed else EMPTY),
            row("note", made.note),
            row("replaces", link(made.supersedes, prefix) if made.supersedes else ""),
            row("replaced by", link(superseded_by, prefix) if superseded_by else ""),
            row("calculator", made.calculator),
        )
    )


# -- hypothesize -----------------------------------------------------------------------------------------------------


def blocks(low: float, high: float, total: float) -> str:
    """Hours won as a bar of blocks: full up to the lower bound, open up to the upper, of the whole run."""
    if total <= 0:
        return ""
    full = int(BLOCKS * max(0.0, min(low, total)) / total + 0.5)
    up_to = max(full, int(BLOCKS * max(0.0, min(high, total)) / total + 0.5))
    return "■" * full + "□" * (up_to - full) + "·" * (BLOCKS - up_to)


def hypothesis_card(found: Hypothesis, prefix: str = "", total_hours: float | None = None) -> Markup:
    won = found.hours_won
    total = (won.total_hours if won else None) or total_hours
    bar = blocks(won.low, won.high, total) if won and total and found.status not in (Status.REFUTED, Status.NOT_TESTABLE) else ""
    head = fill(
        "<b>{id}</b> {badge} {title}{won}",
        id=found.id,
        badge=badge(found.status),
        title=found.title,
        won=fill("<br>{bar} {wins}", bar=bar, wins=wins(found)) if bar else EMPTY,
    )
    dashed = found.status is Status.NOT_TESTABLE
    return card(head, hypothesis_body(found, prefix), f"{prefix}{found.id}", TONE[found.status], dashed)


def hypothesis_body(found: Hypothesis, prefix: str = "") -> Markup:
    nothing = fill("<div>{what}</div>", what="nothing found")
    return join(
        (
            row("claim", found.claim),
            row("cause", fill("<code>{cause}</code>", cause=found.cause)),
            section("for", reasons(found.evidence_for, prefix) or nothing),
            section("against", reasons(found.evidence_against, prefix) or nothing),
            section("numbers", pairs(with_intervals(found.numbers))),
            row("hours won", hours_won(found.hours_won, point_won(found))),
            row("how got", found.hours_won.how if found.hours_won else ""),
            row("fix", found.fix),
            row("would decide", found.next_probe),
        )
    )


def with_intervals(numbers: Mapping[str, Value]) -> dict[str, Value]:
    """Numbers in words; ``x_low`` and ``x_high`` stand beside ``x`` as its interval."""
    said: dict[str, Value] = {}
    for name, value in numbers.items():
        low, high = numbers.get(f"{name}_low"), numbers.get(f"{name}_high")
        if isinstance(low, int | float) and isinstance(high, int | float):
            said[label(name)] = f"{number(value)} ({span(float(low), float(high))})"
        elif not (name.endswith(("_low", "_high")) and name.rsplit("_", 1)[0] in numbers):
            said[label(name)] = value
    return said


# -- verify ----------------------------------------------------------------------------------------------------------


def verification_card(tested: Verification, prefix: str = "") -> Markup:
    head = fill(
        "<b>{id}</b> {badge} {test}<br>{measured}",
        id=tested.id,
        badge=badge(tested.verdict),
        test=tested.test,
        measured=brief(tested.reason or tested.measured),
    )
    return card(head, verification_body(tested, prefix), f"{prefix}{tested.id}", TONE[tested.verdict])


def verification_body(tested: Verification, prefix: str = "") -> Markup:
    predicted = [(rival, what) for rival, what in tested.predicted.items()]
    return join(
        (
            row("tests", fill("<code>{cause}</code>", cause=tested.cause)),
            section("predicted by each rival", rows_table(("if", "then"), predicted) if predicted else EMPTY),
            row("measured", tested.measured),
            row("verdict", f"{tested.verdict.value}: {tested.reason}"),
            row("error rates", tested.error_rates or "not stated"),
            row("from", links(tested.inputs, prefix)),
            section("numbers", pairs(with_intervals(tested.numbers))),
        )
    )


def note_line(note: Note) -> Markup:
    return fill('<div style="margin:2px 0">{at} {text}</div>', at=utc(note.at), text=visible(note.text, 600))
