"""The screen: one page of plain text, the answer first. What ``diagnose`` prints and a terminal shows."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

from diag_kit.records import Hypothesis, Reason, Status
from diag_kit.show.format import calculated, clock, visible
from diag_kit.show.summary import Summary, first_reason, label, summarise, won_line

if TYPE_CHECKING:
    from diag_kit.investigation import Investigation

WIDTH = 118
_INDENT = 15


def screen(inv: Investigation, width: int = WIDTH) -> str:
    """Ranked findings with evidence on both sides and hours with intervals; then innocent, blind and superseded."""
    told = summarise(inv)
    lines = _head(told, width)
    said: dict[str, int] = {}
    for place, found in enumerate(told.findings, 1):
        lines += _finding(place, found, told, width, said)
    if not told.findings:
        lines += _row("no finding", _why_none(told), width)
    lines += _rows("not the cause", [_short(each) for each in told.innocent], width)
    lines += _rows("blind", [_with_ids(each) for each in told.blind], width)
    lines += _rows("superseded", _replaced(told), width)
    lines += _rows("not read", [_not_read(told)], width)
    return "\n".join(lines)


def _head(told: Summary, width: int) -> list[str]:
    job = visible(told.job, 700) or _what_there_is(told)
    about = f" [{visible(told.about)}]" if told.about else ""
    seen = f", seen {clock(told.clock)}" if told.clock else ""
    return [
        f"{visible(told.question, 300)}",
        *textwrap.wrap(f"{visible(told.host)}{about}: {job}{seen}", width, subsequent_indent="  "),
        *(line for each in told.warnings for line in textwrap.wrap(f"!! {visible(each, 600)}", width, subsequent_indent="   ")),
    ]


def _what_there_is(told: Summary) -> str:
    """Where no job is known: the pasted files that were read, or that there was none to see."""
    commands = [result.command for seen in told.observations for result in seen.results]
    if told.about == "pasted files" and commands:
        names = dict.fromkeys(re.sub(r"^cat |^.* # |, line \d+$| # line \d+: .*$", "", each).strip("'") for each in commands)
        shown = ", ".join(list(names)[:6])
        return f"{len(names)} file{'s' if len(names) > 1 else ''} read: {visible(shown, 300)}{', ...' if len(names) > 6 else ''}"
    return "no training found" if told.observations else "nothing observed yet"


def _finding(place: int, found: Hypothesis, told: Summary, width: int, said: dict[str, int]) -> list[str]:
    """``said``: the sentences printed so far and under which finding; rivals share much, and nothing is printed twice."""
    same = told.same_hours_as(found)
    won = f"the same hours as {same}" if same else won_line(found)
    head = f"{place:<2} {found.status:<10} "
    what = f"{visible(found.claim or found.title, 400)} [{visible(found.cause, 60)}]"
    claim = textwrap.wrap(what, max(30, width - len(head) - len(won) - 2))
    first = f"{head}{claim[0]}"
    lines = [f"{first}{' ' * max(2, width - len(first) - len(won))}{won}"]
    lines += [" " * len(head) + rest for rest in claim[1:]]
    again: list[int] = []
    against = found.evidence_against or (Reason("nothing found"),)
    how = found.hours_won.how if found.hours_won else ""
    for name, text in (
        *(("for", _with_ids(each)) for each in found.evidence_for),
        *(("against", _with_ids(each)) for each in against),
        ("decides", _decides(found, told)),
        ("hours", visible(how, 400)),
        *_fix(found),
    ):
        if text in said and name != "against":
            again.append(said[text])
            continue
        lines += _row(f"     {name}", text, width)
        if text:
            said[text] = place
    if again:
        more = f"{len(again)} more sentence{'s' if len(again) > 1 else ''}"
        lines += _row("     also", f"{more} as under {', '.join(map(str, sorted(set(again))))}", width)
    return lines


def _fix(found: Hypothesis) -> tuple[tuple[str, str], ...]:
    """The repair, and its traps on their own; what the evidence has said already is not said again."""
    said = " ".join(each.text for each in found.evidence_for)
    fix, _, traps = found.fix.partition(" Traps: ")
    traps, _, rest = traps.partition(" Not the whole answer: ")
    if rest and rest.rstrip(".") not in said:
        traps = f"{traps} Not the whole answer: {rest}"
    return ("fix", visible(fix, 600)), ("traps", visible(traps, 800))


def _decides(found: Hypothesis, told: Summary) -> str:
    if found.status is Status.CONFIRMED:
        return ""
    given = told.decides.get(found.cause)
    if given is None:
        return visible(found.next_probe, 300)
    return f"{visible(given.line)}: {visible(given.run or given.by_hand, 300)}"


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
    counts: dict[tuple[str, int], list[str]] = {}
    for seen in told.observations:
        if seen.parsed.not_understood:
            counts.setdefault((seen.probe, len(seen.parsed.not_understood)), []).append(seen.id)
    parts = [
        f"{count} line{'s' if count > 1 else ''} of {'each ' if len(ids) > 1 else ''}{label(probe)} ({', '.join(ids)})"
        for (probe, count), ids in counts.items()
    ]
    return ", ".join(parts)


def _why_none(told: Summary) -> str:
    if not told.observations:
        return "nothing has been observed: inv.diagnose() looks at everything cheap and ranks what it finds"
    if not told.hypotheses:
        return "the evidence has not been weighed yet: inv.hypothesize()"
    return "no known cause fits what was seen; see what stays blind, and the cards"
