"""What ``diagnose`` computes, in the order in which one result needs another."""

from __future__ import annotations

from diag_kit.calculate.calculator import Calculator
from diag_kit.calculate.demand import OneGpu, ReadNeed
from diag_kit.calculate.ranks_that_print import PrintingRanks
from diag_kit.calculate.rates import StepRate
from diag_kit.calculate.rival_readings import Readings
from diag_kit.calculate.run_projection import IfSplit, Projection
from diag_kit.calculate.sent_per_step import Communication
from diag_kit.calculate.steps_and_start import StepsDone
from diag_kit.evidence import Evidence


def standard_calculators(evidence: Evidence) -> tuple[Calculator, ...]:
    """Every calculator with its inputs taken from the evidence; what does not apply gives no result."""
    return (
        PrintingRanks(),
        StepRate(),
        StepsDone(),
        Readings(),
        Projection(),
        IfSplit(),
        ReadNeed(),
        OneGpu(),
        Communication(),
    )
