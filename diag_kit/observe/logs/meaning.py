"""What a printed counter and a printed speed mean, by framework: told by the source of the framework, not by the line."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Meaning:
    """Said once per format, and handed on as facts with ``source``.

    ``counts``: what one count of the column ``step`` is. ``starts_at``: its first value (0 or 1; None: not known or by version).
    ``printed_by``: the ranks that print. ``speed``: unit and window of the printed times and rates. ``source``: upstream
    repository:path and version.
    """

    counts: str = ""
    starts_at: int | None = None
    printed_by: str = ""
    speed: str = ""
    source: str = ""


OPTIMIZER_STEPS = "optimizer steps"
MICRO_BATCHES = "micro-batches of one rank"
RL_ITERATIONS = "RL iterations, each with many optimizer steps"
SAMPLES = "samples"

UNKNOWN = Meaning()
