"""What to run next, ready to be shown: the line for a card, the code that runs it, or how a person finds it out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from diag_kit.evidence import Evidence
from diag_kit.progress import NextProbe
from diag_kit.records import Cost

_COST = {Cost.READ_ONLY: "read-only", Cost.CAREFUL: "careful: asks first", Cost.STATE_CHANGING: "changes the host"}


@dataclass(frozen=True, slots=True)
class Offer:
    """A next probe. ``run`` is the line for a cell; empty when the kit does not run it: ``by_hand`` then says what to do, and
    ``instead`` stands where the cost would."""

    probe: NextProbe
    run: str
    by_hand: str
    instead: str = "for you to find out"

    @property
    def cause(self) -> str:
        return self.probe.cause

    @property
    def careful(self) -> bool:
        return self.probe.cost is Cost.CAREFUL

    @property
    def line(self) -> str:
        """``files open per rank, 10 s, read-only``."""
        if not self.run:
            return f"{self.probe.title}, {self.instead}"
        seconds = f"{self.probe.budget_s:.0f} s, " if self.probe.budget_s else ""
        return f"{self.probe.title}, {seconds}{_COST[self.probe.cost]}"


def offer(
    probe: NextProbe, host_kind: str = "", held: frozenset[str] | None = None, evidence: Evidence | None = None
) -> Offer:
    """``host_kind`` "files": nothing can be run on a folder of pasted outputs, but one more output can be put there.

    ``held``: the probes that a recording holds; what needs another can be run on the live host only.
    """
    if host_kind == "files":
        return Offer(probe, "", _paste(probe))
    if held is not None and _run(probe) and not _needed(probe, evidence or Evidence()) <= held:
        return Offer(probe, "", f"on the live host {_run(probe)}", "not in this recording")
    return Offer(probe, _run(probe), f"by hand, the kit does not do this: {probe.what_it_decides}".rstrip(": "))


def _run(probe: NextProbe) -> str:
    from diag_kit.verify.decide import all_tests

    if probe.cost is Cost.STATE_CHANGING:
        return ""
    if probe.probe:
        return f"inv.observe(dk.observe.{probe.probe}())"
    if probe.cause not in all_tests():
        return ""
    return f'inv.verify("{probe.cause}"{", careful=True" if probe.cost is Cost.CAREFUL else ""})'


def _needed(probe: NextProbe, evidence: Evidence) -> set[str]:
    """The read-only probes behind an offer."""
    from diag_kit.verify.decide import all_tests

    if probe.probe:
        return {probe.probe}
    test = all_tests().get(probe.cause)
    return {each.name for each in test.probes(evidence) if each.cost is probe.cost} if test else set()


def _paste(probe: NextProbe) -> str:
    """What to add to the folder."""
    from diag_kit.observe.probe import all_probes

    known = all_probes().get(probe.probe) if probe.probe else None
    if known is not None and known.equivalent:
        return f"add to the folder the output of: {known.equivalent}"
    return "needs the running job: dk.connect(...) to its host, or add what you find out as inv.tell(...)"


def merged(offers: Iterable[Offer]) -> tuple[Offer, ...]:
    """One entry for each thing to run: rivals share a test, and its careful rungs are run together."""
    first: dict[tuple[str, str, Cost], Offer] = {}
    for each in offers:
        first.setdefault((each.probe.title, each.probe.probe, each.probe.cost), each)
    return tuple(first.values())
