"""The charts of a case, as far as its ledger has data. A chart that cannot be drawn never costs the report."""

from __future__ import annotations

from collections.abc import Callable

from diag_kit.errors import DiagError
from diag_kit.evidence import Evidence
from diag_kit.postmortem.compose import Charts
from diag_kit.postmortem.snapshot import Snapshot
from diag_kit.show.picture import Figure


def charts_of(case: Snapshot) -> Charts:
    """Title, PNG and how to read it; a chart that lacks data has no bytes, and the sentence says why."""
    from diag_kit.show import charts

    evidence = Evidence(case.entries)
    return tuple(
        _drawn(name, draw)
        for name, draw in (
            ("Readings", lambda: charts.readings(evidence)),
            ("Hours won", lambda: charts.hours_won(evidence, case.findings)),
            ("Steps over time", lambda: charts.steps(evidence)),
            ("What the machine did", lambda: charts.machine(evidence)),
            ("Who read what", lambda: charts.who_read_what(evidence)),
        )
    )


def _drawn(name: str, draw: Callable[[], Figure]) -> tuple[str, bytes, str]:
    try:
        figure = draw()
        if figure.chart is None:
            return figure.title, b"", figure.why_none
        return figure.title, figure.png, figure.how_to_read
    except DiagError as error:
        return name, b"", error.what
    except Exception as error:  # a fault in a drawing library must not cost the report; it is said in the chart's place
        return name, b"", f"it could not be drawn ({type(error).__name__}: {error})"
