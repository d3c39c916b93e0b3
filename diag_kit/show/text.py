"""The screen: one page of plain text, the answer first. What ``diagnose`` prints and a terminal shows."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from diag_kit.records import Cost, Hypothesis, Reason, Status
from diag_kit.show.format import calculated, clock, visible, wins
from diag_kit.show.summary import Summary, first_reason, label, probe_line, summarise

if TYPE_CHECKING:
    from diag_kit.investigation import Investigation

WIDTH = 118
_INDENT = 15


def screen(inv: Investigation, width: int = WIDTH) -> str:
    """Ranked findings with evidence on both sides and hours with intervals; then innocent, blind and superseded."""
    told = summarise(inv)
    lines = _head(told, width)
    for place, found in enumerate(told.findings, 1):
        lines += _finding(place, found, told, width)
    if not told.findings:
        lines += _row("no finding", _why_none(told), width)
    lines += _rows("not the cause", [_short(each) for each in told.innocent], width)
    lines += _rows("blind", [_with_ids(each) for each in told.blind], width)
    lines += _rows("superseded", _replaced(told), width)
    lines += _rows("not read", [_not_read(told)], width)
    return "\n".join(lines)


def _head(told: Summary, width: int) -> list[str]:
    job = visible(told.job, 300) or ("no training found" if told.observations else "nothing observed yet")
    about = f" [{visible(told.about)}]" if told.about else ""
    seen = f", seen {clock(told.clock)}" if told.clock else ""
    return [
        f"{visible(told.question, 300)}",
        *textwrap.wrap(f"{visible(told.host)}{about}: {job}{seen}", width, subsequent_indent="  "),
    ]


def _finding(place: int, found: Hypothesis, told: Summary, width: int) -> list[str]:
    won = wins(found)
    head = f"{place:<2} {found.status:<10} "
    claim = textwrap.wrap(visible(found.claim or found.title, 400), max(30, width - len(head) - len(won) - 2)) or [""]
    first = f"{head}{claim[0]}"
    lines = [f"{first}{' ' * max(2, width - len(first) - len(won))}{won}"]
    lines += [" " * len(head) + rest for rest in claim[1:]]
    for reason in found.evidence_for:
        lines += _row("     for", _with_ids(reason), width)
    against = found.evidence_against or (Reason("nothing found"),)
    for reason in against:
        lines += _row("     against", _with_ids(reason), width)
    lines += _row("     decides", _decides(found, told), width)
    lines += _row("     hours", visible(found.hours_won.how, 400) if found.hours_won and found.hours_won.how else "", width)
    lines += _row("     fix", visible(found.fix, 600), width)
    return lines


def _decides(found: Hypothesis, told: Summary) -> str:
    probe = told.decides.get(found.cause)
    if found.status is Status.CONFIRMED:
        return ""
    if probe is None:
        return visible(found.next_probe, 300)
    careful = ", careful=True" if probe.cost is Cost.CAREFUL else ""
    return f'{visible(probe_line(probe))}: inv.verify("{visible(found.cause)}"{careful})'


def _row(name: str, text: str, width: int) -> list[str]:
    """One labelled paragraph with a hanging indent; nothing for an empty text."""
    if not text:
        return []
    return textwrap.wrap(text, width, initial_indent=f"{name:<{_INDENT}}", subsequent_indent=" " * _INDENT)


def _rows(name: str, texts: list[str], width: int) -> list[str]:
    """A label once, then one paragraph for each text."""
    given = [text for text in texts if text]
    return [line for place, text in enumerate(given) for line in _row("" if place else name, text, width)]


def _with_ids(reason: Reason) -> str:
    ids = f" ({', '.join(visible(each, 20) for each in reason.ids)})" if reason.ids else ""
    return f"{visible(reason.text, 400)}{ids}"


def _short(found: Hypothesis) -> str:
    reason = first_reason(found)
    ids = found.evidence_against[0].ids if found.evidence_against else ()
    return _with_ids(Reason(f"{found.title}: {reason}" if reason else found.title, ids))


def _replaced(told: Summary) -> list[str]:
    return [
        f"{pair.old.id} {label(pair.old.name)} {calculated(pair.old)} -> {pair.new.id} {calculated(pair.new)}"
        for pair in told.superseded
    ]


def _not_read(told: Summary) -> str:
    counts = [(seen.id, seen.probe, len(seen.parsed.not_understood)) for seen in told.observations]
    parts = [f"{count} line{'s' if count > 1 else ''} of {probe} ({id})" for id, probe, count in counts if count]
    return ", ".join(parts)


def _why_none(told: Summary) -> str:
    if not told.observations:
        return "nothing has been observed: inv.diagnose() looks at everything cheap and ranks what it finds"
    if not told.hypotheses:
        return "the evidence has not been weighed yet: inv.hypothesize()"
    return "no known cause fits what was seen; see what stays blind, and the cards"
