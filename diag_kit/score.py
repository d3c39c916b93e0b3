"""How often the kit is right on labelled cases: top-1, top-3, false alarms on healthy runs, abstentions, hours.

A case is a folder with ``expected.json`` (``cause``, ``inputs``: the files the kit may see; optional ``hours_won``), or a
recording ``NAME.diag.zip`` with ``NAME.expected.json`` beside it.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from diag_kit import hosts
from diag_kit.errors import BadInput
from diag_kit.investigation import Findings, Investigation
from diag_kit.records import Status

LABEL = (
    'put expected.json into each folder of a case, such as {"cause": "data.dup_no_sampler", "inputs": ["train.log"]} ("healthy" '
    "where nothing is wrong; inputs: the files that the kit may see, all others where it is left out; optional hours_won), or "
    "NAME.expected.json beside NAME.diag.zip"
)
"""What a label is, for who has none."""
NAMED = (Status.CONFIRMED, Status.SUPPORTED)


@dataclass(frozen=True, slots=True)
class Scored:
    """One case: what is true, what the kit put first, and at which place the truth stood (None: not among the findings)."""

    case: str
    truth: str
    first: str
    status: str
    place: int | None
    hours_ratio: float | None

    @property
    def abstained(self) -> bool:
        return self.status not in NAMED


@dataclass(frozen=True, slots=True)
class ScoreCard:
    """All cases of a folder."""

    cases: tuple[Scored, ...]

    def share(self, places: int) -> float | None:
        """Share of cases with a fault whose truth is among the first ``places`` findings."""
        faulty = [c for c in self.cases if c.truth != "healthy"]
        return sum(c.place is not None and c.place <= places for c in faulty) / len(faulty) if faulty else None

    @property
    def false_alarms(self) -> float | None:
        """Share of healthy cases in which a fault is named above ``healthy``."""
        healthy = [c for c in self.cases if c.truth == "healthy"]
        return sum(c.first != "healthy" and not c.abstained for c in healthy) / len(healthy) if healthy else None

    @property
    def abstentions(self) -> float:
        return sum(c.abstained for c in self.cases) / len(self.cases)

    def as_json(self) -> dict[str, Any]:
        return {
            "cases": [asdict(c) for c in self.cases],
            "top_1": self.share(1),
            "top_3": self.share(3),
            "false_alarms": self.false_alarms,
            "abstentions": self.abstentions,
        }

    def as_text(self) -> str:
        lines = [f"{c.case:28} truth {c.truth:26} first {c.first:26} {c.status}" for c in self.cases]
        shares = (("top-1", self.share(1)), ("top-3", self.share(3)), ("false alarms", self.false_alarms))
        lines += [f"{name}: {'no such case' if share is None else f'{share:.0%}'}" for name, share in shares]
        return "\n".join([*lines, f"abstentions: {self.abstentions:.0%} of {len(self.cases)} cases"])


def score_folder(folder: Path) -> ScoreCard:
    """Diagnose every labelled case below ``folder``. Raises BadInput where there is none."""
    if not folder.is_dir():
        raise BadInput(f"{folder} is not a folder", next_step="give a folder of labelled cases")
    cases = tuple(_score(*found) for found in _labelled(folder))
    if not cases:
        raise BadInput(f"{folder} holds no labelled case", next_step=LABEL)
    return ScoreCard(cases)


def _labelled(folder: Path) -> Iterator[tuple[str, Path, dict[str, Any]]]:
    for label in sorted(folder.rglob("*expected.json")):
        expected = _read_label(label)
        if "cause" not in expected or str(expected["cause"]).startswith("torture."):
            continue
        recording = label.with_name(label.name.replace(".expected.json", ".diag.zip"))
        target = label.parent if label.name == "expected.json" else recording
        yield target.name.removesuffix(".diag.zip"), target, expected


def _read_label(label: Path) -> dict[str, Any]:
    try:
        expected = json.loads(label.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(f"this label cannot be read: {error}", where=str(label), next_step=LABEL) from None
    if not isinstance(expected, dict):
        raise BadInput("this label is no JSON object", where=str(label), next_step=LABEL)
    return expected


def _score(name: str, target: Path, expected: dict[str, Any]) -> Scored:
    findings = _diagnose(target, expected)
    truth = str(expected["cause"])
    places = {found.cause: place for place, found in enumerate(findings, 1)}
    first = findings[0] if findings else None
    true_hours = expected.get("hours_won")
    won = first.hours_won if first else None
    return Scored(
        case=name,
        truth=truth,
        first=first.cause if first else "",
        status=first.status.value if first else "",
        place=places.get(truth),
        hours_ratio=(won.low + won.high) / 2 / true_hours if won and true_hours else None,
    )


def _diagnose(target: Path, expected: dict[str, Any]) -> Findings:
    if target.is_file():
        return Investigation(hosts.replay(str(target))).diagnose()
    if not target.is_dir():
        raise BadInput(f"there is a label and no recording {target.name} beside it", where=str(target.parent), next_step=LABEL)
    with tempfile.TemporaryDirectory() as shown:
        for name in expected.get("inputs") or [p.name for p in target.iterdir() if p.is_file() and p.name != "expected.json"]:
            if not (target / str(name)).is_file():
                raise BadInput(f"the label names the input {name}, which is not there", where=str(target), next_step=LABEL)
            shutil.copy(target / str(name), shown)
        return Investigation(hosts.files(shown)).diagnose()
