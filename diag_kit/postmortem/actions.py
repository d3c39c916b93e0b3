"""Actions to prevent, detect and mitigate, with owner and ticket left to the team."""

from __future__ import annotations

from diag_kit.postmortem.document import Block, Bullets, Line, Paragraph, Section, Table, code, joined, line
from diag_kit.postmortem.ledger import Finding, Ledger
from diag_kit.records import Status

PREVENT = {
    "data": "At start-up, have every rank report its samples per epoch, and stop if they do not add up to the dataset.",
    "launch": "At start-up, log world size, ranks and the GPU of each, and stop if they are not what was asked for.",
    "acct": "Print steps, samples and epochs from one rank, with units, and the number of ranks beside them.",
    "ui": "Print steps, samples and epochs from one rank, with units, and the number of ranks beside them.",
    "input": "Log the time that each step waits for data beside the step time, from the first run on.",
    "io": "Before a long run, measure what the storage delivers with a cold cache against what the job needs.",
    "cpu": "Fix the number of threads and the CPUs of each rank in the launch script, and log both.",
    "mem": "Log free memory and swap use from the first run on, and stop early when swap is used.",
    "compute": "Time a few steps on one GPU before the long run, and keep the figure as the reference for it.",
    "comm": "Before choosing the number of GPUs, set bytes a step against the measured bandwidth, and time one GPU.",
    "gpu": "Check clocks, power limits and throttle reasons of every GPU before a long run.",
}
"""What would have prevented it, by family of causes (the part of the id before the point)."""

PREVENT_OTHER = "Time a few hundred steps before a long run and compare the projection with an independent reading of the work."

DETECT = (
    "In the first ten minutes of each long run, diagnose the host (python -m diag_kit diagnose HOST): steps, ranks and "
    "batch must agree with the dataset's size."
)


def actions(ledger: Ledger) -> Section:
    rows: list[tuple[Line, ...]] = []
    for finding in ledger.with_status(Status.CONFIRMED, Status.SUPPORTED):
        rows += _for(finding)
    rows += [
        _row("decide", each.hypothesis.next_probe, each)
        for each in ledger.with_status(Status.UNDECIDED, Status.SUPPORTED)
        if each.hypothesis.next_probe
    ]
    if not rows:
        text = "No cause is established, so there is nothing to prevent or mitigate yet."
        return Section("Actions", "actions", (Paragraph(line(text)), *_left_to_team()))
    table = Table(("kind", "action", "for", "owner", "ticket"), tuple(_unique(rows)))
    return Section(
        "Actions",
        "actions",
        (Paragraph(line("Owner and ticket are for the team to fill in.")), table, *_left_to_team()),
    )


def _for(finding: Finding) -> list[tuple[Line, ...]]:
    family = finding.hypothesis.cause.split(".")[0]
    rows = [
        _row("prevent", PREVENT.get(family, PREVENT_OTHER), finding),
        _row("detect", DETECT, finding),
    ]
    if finding.hypothesis.fix:
        rows.append(_row("mitigate", finding.hypothesis.fix, finding))
    rows.append(_row("mitigate", "After the fix, measure again and enter the hours won beside the claim.", finding))
    return rows


def _row(kind: str, action: str, finding: Finding) -> tuple[Line, ...]:
    return line(kind), line(action), line(code(finding.hypothesis.cause)), (), ()


def _unique(rows: list[tuple[Line, ...]]) -> list[tuple[Line, ...]]:
    """Rows of the same kind and action become one, which names all its causes; ordered by kind."""
    merged: dict[tuple[Line, Line], list[Line]] = {}
    for kind, action, cause, _, _ in rows:
        causes = merged.setdefault((kind, action), [])
        if cause not in causes:
            causes.append(cause)
    order = ["prevent", "detect", "mitigate", "decide"]
    items = sorted(merged.items(), key=lambda item: order.index(item[0][0][0].text))
    return [(kind, action, joined(causes, ", "), (), ()) for (kind, action), causes in items]


def _left_to_team() -> tuple[Block, ...]:
    return (
        Paragraph(line("Left to the team to write, about conditions and not about persons:")),
        Bullets(
            (
                line("how it was noticed:"),
                line("what went well:"),
                line("what made it hard to see:"),
                line("where luck helped:"),
            )
        ),
    )
