"""Numbers as training logs print them."""

from __future__ import annotations

from diag_kit.observe.logs.bars import clock_s

PLAIN = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
THOUSANDS = r"[-+]?\d{1,3}(?:(?:,\d{3})+|(?:_\d{3})+)(?![\d,_])(?:\.\d+)?"
SPECIAL = r"[-+]?(?:nan|NaN|NAN|infinity|Infinity|inf|Inf|INF)(?![\w/])"
NUMBER = rf"(?:{THOUSANDS}|{PLAIN}|{SPECIAL})"
DURATION = r"(?:\d{1,4} days?, )?\d{1,5}:[0-5]\d:[0-5]\d(?:\.\d{1,9})?"

_SCALE = {"k": 1e3, "K": 1e3, "M": 1e6, "m": 1e6, "B": 1e9, "b": 1e9, "G": 1e9, "T": 1e12}


def to_float(text: str) -> float | None:
    """``12,345``, ``1e-5``, ``nan``, ``-inf``, ``10.``, ``1 day, 2:03:04`` (seconds); None when it is no number."""
    try:
        return float(text)
    except ValueError:
        pass
    if ":" in text:
        return clock_s(text)
    try:
        return float(text.replace(",", "").replace("_", "") if text.count(".") < 2 else "")
    except ValueError:
        return None


def scaled(value: float, suffix: str) -> float:
    """Apply a count's suffix: ``87.8M``, ``2.6B``, ``50k``."""
    return value * _SCALE.get(suffix, 1.0)
