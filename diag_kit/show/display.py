"""How IPython shows the kit's records: a card for one, a list of cards for several, plain text in a terminal.

``register`` tells IPython's formatters by type name, so that importing the kit costs nothing and has no effect outside IPython.
The records themselves know nothing about display.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from diag_kit.progress import STOPPED
from diag_kit.records import Calculation, CommandResult, Fact, Hypothesis, Note, Observation, Verification
from diag_kit.show.cards import card_of, command, note_line
from diag_kit.show.format import calculated, duration, number, size, utc, visible, wins
from diag_kit.show.html import card, fill, join
from diag_kit.show.summary import label, one_line

CARDS = (Observation, Calculation, Hypothesis, Verification)
RECORDS = (*CARDS, Note, CommandResult, Fact)
MANY = 60
"""More cards than this in one output are counted, not drawn."""


def register(shell: Any = None) -> bool:
    """Make IPython show records as cards. True when there was an IPython to tell; safe to call again."""
    shell = shell if shell is not None else _shell()
    if shell is None:
        return False
    html = shell.display_formatter.formatters["text/html"]
    plain = shell.display_formatter.formatters["text/plain"]
    for kind in RECORDS:
        html.for_type(kind, to_html)
        plain.for_type(kind, _pretty)
    html.for_type_by_name("diag_kit.investigation", "Findings", many_to_html)
    plain.for_type_by_name("diag_kit.investigation", "Findings", _pretty)
    html.for_type(tuple, many_to_html)
    before = plain.for_type(tuple)
    if getattr(before, "records_too", False):
        return True
    plain.for_type(tuple, _tuple_printer(before))
    return True


def _shell() -> Any:
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


def to_html(record: object) -> str:
    """A record as a self-contained fragment; everything that came from a host is escaped and bounded."""
    if isinstance(record, CommandResult):
        head = fill("<b>{host}</b> {said}", host=record.host, said=_result_line(record))
        return str(_outer(card(head, command(record))))
    if isinstance(record, Fact):
        return str(
            _outer(
                fill(
                    "<b>{name}</b> = {value} <span>({source})</span>",
                    name=record.name,
                    value=_value(record),
                    source=visible(record.source, 200),
                )
            )
        )
    if isinstance(record, Note):
        return str(_outer(note_line(record)))
    return str(_outer(card_of(record)))  # type: ignore[arg-type]


def many_to_html(records: tuple[object, ...]) -> str | None:
    """Cards below one another; None (IPython then shows it as usual) for a tuple of anything else."""
    if not records or not all(isinstance(each, CARDS) for each in records):
        return None
    gone = {each.supersedes: each.id for each in records if isinstance(each, Calculation) and each.supersedes}
    shown = [each for each in records[:MANY] if isinstance(each, CARDS)]
    cards = [card_of(each, superseded_by=gone.get(each.id, "") if each.id else "") for each in shown]
    more = fill("<div>and {n} more</div>", n=len(records) - MANY) if len(records) > MANY else ""
    stopped = fill('<div role="status"><b>{what}</b></div>', what=STOPPED) if getattr(records, "partial", False) else ""
    return str(_outer(fill("{stopped}{cards}{more}", stopped=stopped, cards=join(cards), more=more)))


def _outer(what: Any) -> Any:
    return fill('<div style="font-size:13px;line-height:1.45;max-width:960px">{what}</div>', what=what)


def to_text(record: object) -> str:
    """One line for a terminal, two where a second says why."""
    if isinstance(record, Observation):
        problems = "".join(f"\n    could not be seen: {visible(one_line(each), 300)}" for each in record.parsed.problems)
        lost = len(record.parsed.not_understood)
        unread = f"\n    not understood: {lost} line{'s' if lost != 1 else ''}" if lost else ""
        return f"{record.id} {label(record.probe)}: {visible(record.parsed.summary, 300)}{problems}{unread}".strip()
    if isinstance(record, Calculation):
        why = f"\n    {visible(record.note, 300)}" if record.note else ""
        old = f"  (replaces {record.supersedes})" if record.supersedes else ""
        return f"{record.id} {label(record.name)}: {calculated(record)}{old}\n    = {visible(record.formula, 300)}{why}".strip()
    if isinstance(record, Hypothesis):
        won = f", {wins(record)}" if record.hours_won else ""
        return f"{record.id} {record.status.value}: {visible(record.claim or record.title, 300)}{won}".strip()
    if isinstance(record, Verification):
        head = f"{record.id} {record.verdict.value}: {visible(record.test)}: {visible(record.measured, 300)}"
        return f"{head}\n    {visible(record.reason, 300)}".strip()
    if isinstance(record, CommandResult):
        return f"{visible(record.host)}: {_result_line(record)}"
    if isinstance(record, Fact):
        return f"{visible(record.name)} = {_value(record)} ({visible(record.source, 200)})"
    if isinstance(record, Note):
        return f"{utc(record.at)} {visible(record.text, 600)}"
    return repr(record)


def _value(fact: Fact) -> str:
    return f"{visible(number(fact.value), 300)} {visible(fact.unit, 40)}".strip()


def _result_line(result: CommandResult) -> str:
    status = f"exit status {result.exit_status}" if result.exit_status is not None else "did not end by itself"
    return f"{status}, {size(len(result.stdout))}, {duration(result.duration_s)}, {utc(result.started)}"


def _pretty(record: object, printer: Any, cycle: bool) -> None:
    if isinstance(record, tuple):
        printer.text(f"!! {STOPPED}\n" if getattr(record, "partial", False) else "")
        printer.text("\n".join(to_text(each) for each in record))
    else:
        printer.text(to_text(record))


def _tuple_printer(before: Callable[[object, Any, bool], None] | None) -> Callable[[Any, Any, bool], None]:
    """IPython's own printer for tuples, except for tuples of records."""

    def show(record: Any, printer: Any, cycle: bool) -> None:
        if record and type(record) is tuple and all(isinstance(each, CARDS) for each in record):
            _pretty(record, printer, cycle)
        elif before is not None:
            before(record, printer, cycle)
        else:
            printer.text(repr(record))

    show.records_too = True  # type: ignore[attr-defined]
    return show
