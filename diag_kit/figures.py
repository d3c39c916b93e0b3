"""How a number is written in a sentence: significant digits, never powers of ten. The one place for it, below every layer."""

from __future__ import annotations

import math


def decimals(value: float, digits: int = 3) -> int:
    """Decimal places that show ``digits`` significant digits of ``value``; 0 for large ones, and for what is no number."""
    if value == 0 or not math.isfinite(value):
        return 0
    return max(0, digits - 1 - math.floor(math.log10(abs(value))))


def figure(value: float | None, digits: int = 3) -> str:
    """``360``, ``0.69``, ``1.4``, ``3``: at most ``digits`` significant digits, without zeros that say nothing."""
    if value is None or not math.isfinite(value):
        return "not known"
    text = f"{value:.{min(decimals(value, digits), 12)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
