"""The charts of a case, as far as its ledger has data. A chart that cannot be drawn never costs the report."""

from __future__ import annotations

from diag_kit.postmortem.compose import Charts
from diag_kit.postmortem.ledger import Case


def charts_of(case: Case) -> Charts:
    return ()
