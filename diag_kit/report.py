"""The machine-readable report: one JSON object with everything that a card shows. Its keys are public interface."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from diag_kit import __version__
from diag_kit.progress import stopped_early
from diag_kit.records import Calculation, Hypothesis, Observation, Reason, Verification
from diag_kit.report_tables import tables

if TYPE_CHECKING:
    from diag_kit.investigation import Investigation


def report(inv: Investigation) -> dict[str, Any]:
    """``question``, ``about``, ``partial`` (stopped by the user), ``warnings``, ``observations``, ``calculations``, ``findings``
    (best first), ``verifications``, ``resources`` (innocent, guilty, blind), ``not_understood``, ``version``. Superseded
    calculations are in it too. The tables of an observation are bounded as ``report_tables`` says.
    """
    from diag_kit.hypothesize.exoneration import exoneration
    from diag_kit.show.summary import warnings

    evidence = inv.evidence
    made = [_finite(_calculation(c)) for c in inv.entries if isinstance(c, Calculation)]
    return {
        "question": inv.question,
        "host": inv.host.name,
        "about": inv.about,
        "partial": stopped_early(inv.entries),
        "warnings": list(warnings(inv.entries)),
        "observations": [_finite(_observation(o)) for o in evidence.observations],
        "calculations": made,
        "findings": [_finite(_finding(h)) for h in inv.findings],
        "verifications": [_finite(_verification(v)) for v in evidence.verifications],
        "resources": [_finite(row) for row in exoneration(evidence).to_dict("records")],
        "not_understood": [
            {"id": o.id, "where": n.where, "text": n.text, "why": n.why}
            for o in evidence.observations
            for n in o.parsed.not_understood
        ],
        "version": __version__,
    }


def _observation(seen: Observation) -> dict[str, Any]:
    return {
        "id": seen.id,
        "probe": seen.probe,
        "parameters": dict(seen.parameters),
        "summary": seen.parsed.summary,
        "facts": [{"name": f.name, "value": f.value, "unit": f.unit, "source": f.source} for f in seen.facts],
        "tables": tables(seen.parsed.tables),
        "problems": list(seen.parsed.problems),
        "commands": [
            {
                "host": r.host,
                "command": r.command,
                "started": r.started.isoformat(),
                "duration_s": round(r.duration_s, 3),
                "exit_status": r.exit_status,
                "bytes": len(r.stdout),
                "sha256": r.sha256,
                "truncated": r.truncated,
            }
            for r in seen.results
        ],
    }


def _calculation(made: Calculation) -> dict[str, Any]:
    return {
        "id": made.id,
        "name": made.name,
        "formula": made.formula,
        "value": made.value,
        "unit": made.unit,
        "interval": [made.interval.low, made.interval.high] if made.interval else None,
        "level": made.interval.level if made.interval else None,
        "assumptions": [{"name": a.name, "value": a.value, "unit": a.unit, "source": a.source} for a in made.assumptions],
        "inputs": list(made.inputs),
        "supersedes": made.supersedes or None,
        "note": made.note,
    }


def _finding(found: Hypothesis) -> dict[str, Any]:
    won = found.hours_won
    return {
        "id": found.id,
        "cause": found.cause,
        "status": found.status.value,
        "claim": found.claim,
        "for": [_reason(r) for r in found.evidence_for],
        "against": [_reason(r) for r in found.evidence_against],
        "numbers": dict(found.numbers),
        "hours_won": [won.low, won.high] if won else None,
        "hours_won_how": won.how if won else "",
        "fix": found.fix,
        "next_probe": found.next_probe,
    }


def _reason(reason: Reason) -> dict[str, Any]:
    return {"text": reason.text, "ids": list(reason.ids)}


def _verification(test: Verification) -> dict[str, Any]:
    return {
        "id": test.id,
        "cause": test.cause,
        "test": test.test,
        "predicted": dict(test.predicted),
        "measured": test.measured,
        "verdict": test.verdict.value,
        "reason": test.reason,
        "numbers": dict(test.numbers),
        "error_rates": test.error_rates,
        "inputs": list(test.inputs),
    }


def _finite(value: Any) -> Any:
    """JSON has no infinity and no NaN: what is unbounded or unknown is null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return value
