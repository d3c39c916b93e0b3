"""Training logs: raw bytes to metric rows, start-up facts and rates.

``read_log`` is the pure parser for a log that is already at hand; the probes ``LogFacts``, ``LogMetrics``, ``GrepCount``,
``GrepLines`` and ``LogRate`` ask a host. A log format is one module under ``formats/``.
"""

from diag_kit.observe.logs.facts import LogFacts
from diag_kit.observe.logs.grep import GrepCount, GrepLines
from diag_kit.observe.logs.metrics import LogMetrics
from diag_kit.observe.logs.rate import LogRate
from diag_kit.observe.logs.read import read_log

__all__ = ["GrepCount", "GrepLines", "LogFacts", "LogMetrics", "LogRate", "read_log"]
