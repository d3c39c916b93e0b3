"""The board as HTML without kernel or widget: what a notebook shows when opened and not run, and what exports hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup

from diag_kit.records import Calculation, Hypothesis, Reason, Status
from diag_kit.show.cards import (
    calculation_card,
    hypothesis_card,
    note_line,
    observation_card,
    verification_card,
)
from diag_kit.show.format import utc, visible, wins
from diag_kit.show.html import EMPTY, GREY, TONE, badge, card, fill, fold, join, reasons, row
from diag_kit.show.summary import Summary, first_reason, summarise, won_line

if TYPE_CHECKING:
    from diag_kit.investigation import Investigation
    from diag_kit.show.offers import Offer

_COLUMNS = "display:grid;grid-template-columns:repeat(auto-fit,minmax(245px,1fr));gap:8px;align-items:start"


def page(inv: Investigation) -> str:
    """The whole board: head, answer, four columns of cards, what is innocent, what stays blind. Self-contained."""
    told = summarise(inv)
    columns = join(
        fill(
            '<div style="min-width:0;border-top:2px solid {grey};padding-top:2px">{head}{cards}</div>',
            grey=GREY,
            head=column_head(name, column_count(told, name)),
            cards=join(cards) or nothing_yet(name),
        )
        for name, cards in columns_of(told).items()
    )
    return str(
        fill(
            '<div style="border:1px solid {grey};border-radius:4px;padding:8px 10px;line-height:1.45;font-size:13px">'
            '{head}{answer}<div style="{grid}">{columns}</div>{foot}</div>',
            grey=GREY,
            head=head(told),
            answer=join((answer(told), decides_line(told))),
            grid=_COLUMNS,
            columns=columns,
            foot=foot(told),
        )
    )


def head(told: Summary) -> Markup:
    """Question, host, what kind of record this is, and the clock."""
    about = (
        fill(' · <span style="border:1px solid {grey};padding:0 4px">{about}</span>', grey=GREY, about=told.about)
        if told.about
        else EMPTY
    )
    return fill(
        '<div style="display:flex;flex-wrap:wrap;justify-content:space-between;gap:2px 16px">'
        '<div style="font-size:15px"><b>{question}</b></div><div>{host}{about}{clock}</div></div>{job}{warnings}',
        question=visible(told.question, 300),
        host=told.host,
        about=about,
        clock=fill(" · seen {at}", at=utc(told.clock)) if told.clock else EMPTY,
        job=fill("<div>{job}</div>", job=visible(told.job, 700)) if told.job else EMPTY,
        warnings=join(fill('<div role="status"><b>{what}</b></div>', what=visible(each, 600)) for each in told.warnings),
    )


def answer(told: Summary) -> Markup:
    """The best finding in one line with what it wins, the next one below; or why there is none."""
    best = told.best
    if best is None:
        return fill('<div style="margin:8px 0;font-size:14px">{why}</div>', why=_why_none(told))
    return fill(
        '<div style="margin:6px 0 4px 0;padding:6px 8px;border:1px solid {tone};border-left:6px solid {tone}">'
        '<div style="font-size:15px;display:flex;flex-wrap:wrap;gap:2px 14px;align-items:baseline">'
        "<b>{claim}</b> <span>{badge}</span> <b>{won}</b> <code>{cause}</code></div>{rivals}</div>",
        tone=TONE[best.status],
        claim=visible(best.claim or best.title, 300),
        badge=badge(best.status),
        cause=best.cause,
        won=won_line(best),
        rivals=_rivals(told),
    )


def _rivals(told: Summary) -> Markup:
    others = [
        fill("{badge} {title}{won}", badge=badge(each.status), title=visible(each.title, 120), won=_won(each, told))
        for each in told.findings[1:4]
    ]
    return fill('<div style="margin-top:3px">then: {others}</div>', others=join(others, " &nbsp; ")) if others else EMPTY


def _won(found: Hypothesis, told: Summary) -> str:
    if told.same_hours_as(found):
        return " (the same hours)"
    return f" ({wins(found)})" if found.hours_won else ""


def _why_none(told: Summary) -> str:
    if not told.observations:
        return "Nothing has been observed yet."
    if not told.hypotheses:
        return "The evidence has not been weighed yet."
    return "No known cause fits what was seen. See what stays blind, below."


def decides_line(told: Summary) -> Markup:
    """What to run next, for a reader who has no button."""
    if not told.next_probes:
        return EMPTY
    first = told.next_probes[0]
    return fill(
        '<div style="margin:2px 0 8px 0">Decides next: <b>{line}</b>{what}<br>{how}</div>',
        line=first.line,
        what=fill(" ({what})", what=visible(first.probe.what_it_decides, 160))
        if first.run and first.probe.what_it_decides
        else EMPTY,
        how=how_to(first),
    )


def how_to(given: Offer) -> Markup:
    return fill("<code>{run}</code>", run=given.run) if given.run else fill("{by_hand}", by_hand=visible(given.by_hand, 300))


def column_count(told: Summary, name: str) -> str:
    """How many cards; of tests, how many were run."""
    count = {
        "Observe": told.observations,
        "Calculate": told.calculations,
        "Hypothesize": told.hypotheses,
        "Verify": told.verifications,
    }
    waiting = f", {len(told.next_probes)} not run" if name == "Verify" and told.next_probes else ""
    return f"{len(count[name])}{waiting}"


def column_head(name: str, count: str) -> Markup:
    return fill('<div style="padding:2px 0 4px 0"><b>{name}</b> {count}</div>', name=name, count=count)


def nothing_yet(name: str) -> Markup:
    says = {
        "Observe": "nothing looked at yet",
        "Calculate": "nothing computed yet",
        "Hypothesize": "nothing claimed yet",
        "Verify": "no test run yet",
    }
    return fill("<div>{what}</div>", what=says.get(name, "nothing yet"))


def columns_of(told: Summary, prefix: str = "") -> dict[str, list[Markup]]:
    """The cards of the four columns."""
    return {
        "Observe": [observation_card(seen, prefix) for seen in told.observations],
        "Calculate": [calculation_card(made, prefix, by) for made, by in in_order(told)],
        "Hypothesize": [hypothesis_card(found, prefix) for found in told.hypotheses],
        "Verify": [verification_card(tested, prefix) for tested in told.verifications]
        + [probe_card(probe) for probe in told.next_probes],
    }


def in_order(told: Summary) -> list[tuple[Calculation, str]]:
    """Standing calculations, each followed by those it replaced, with the id of what replaced them ("" if it stands).

    A replacement takes the place of the oldest that it replaces, so that a changed number appears where the eye was.
    """
    replaced = {pair.old.id: pair.new.id for pair in told.superseded}
    by_new = {pair.new.id: pair.old for pair in told.superseded}
    chains: list[list[Calculation]] = []
    for made in told.calculations:
        if made.id and made.id in replaced:
            continue
        chain, seen = [made], {made.id}
        while (old := by_new.get(chain[-1].id)) is not None and old.id not in seen:
            chain.append(old)
            seen.add(old.id)
        chains.append(chain)
    place = {id(made): at for at, made in enumerate(told.calculations)}
    chains.sort(key=lambda chain: place[id(chain[-1])])
    return [(made, replaced.get(made.id, "") if made is not chain[0] else "") for chain in chains for made in chain]


def probe_card(given: Offer) -> Markup:
    """A test not run yet."""
    head = fill("○ not run: {line}", line=given.line)
    body = join(
        (
            row("would decide", given.probe.what_it_decides),
            row("for", fill("<code>{cause}</code>", cause=given.cause)),
            row("run it", how_to(given)),
        )
    )
    return card(head, body, "", GREY, dashed=True)


def foot(told: Summary, prefix: str = "") -> Markup:
    """Innocent and blind side by side, equally visible; then the rest of the ledger."""
    innocent = tuple(
        Reason(f"{each.title}: {first_reason(each)}", each.evidence_against[0].ids if each.evidence_against else ())
        for each in told.innocent
    )
    return join(
        (
            fill(
                '<div style="{grid};margin-top:8px">{innocent}{blind}</div>',
                grid=_COLUMNS,
                innocent=_side(Status.REFUTED, "not the cause", innocent, prefix),
                blind=_side(Status.NOT_TESTABLE, "blind here", told.blind, prefix),
            ),
            fold(f"earlier answers: {len(told.earlier)}", join(_earlier(each) for each in told.earlier))
            if told.earlier
            else EMPTY,
            fold(f"notes: {len(told.notes)}", join(note_line(each) for each in told.notes)) if told.notes else EMPTY,
            row("replaced before saving", ", ".join(f"{count} {kind}" for kind, count in told.redactions.items())),
        )
    )


def _side(status: Status, name: str, given: tuple[Reason, ...], prefix: str) -> Markup:
    return fill(
        '<div style="border:1px {line} {tone};padding:4px 8px;min-width:0;overflow-wrap:anywhere">'
        "{badge} <b>{name}</b> {list}</div>",
        line="dashed" if status is Status.NOT_TESTABLE else "solid",
        tone=TONE[status],
        badge=badge(status),
        name=f"{name}: {len(given)}",
        list=reasons(given, prefix) or fill("<div>{what}</div>", what="nothing"),
    )


def _earlier(found: Hypothesis) -> Markup:
    return fill(
        "<div>{id} {badge} <del>{claim}</del></div>", id=found.id, badge=badge(found.status), claim=visible(found.claim, 200)
    )
