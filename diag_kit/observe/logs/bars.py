"""Progress bars of tqdm and of Lightning on a rich console: states of one, found anywhere in a text."""

from __future__ import annotations

import re
from dataclasses import dataclass

_COUNT = r"\d[\d.,]{0,14}[kMGTP]?"
_CLOCK = r"(?:\d{1,5}:)?\d{1,2}:\d\d"
BAR = re.compile(
    rf"(?P<pct>\d{{1,4}})%\|(?P<drawn>[^|\n]{{0,400}})\|\s{{0,3}}(?P<n>{_COUNT})/(?P<total>{_COUNT})\s{{0,3}}"
    rf"\[(?P<elapsed>{_CLOCK})<(?P<left>{_CLOCK}|\?|\d{{1,4}} days?, {_CLOCK})"
    r"(?:,\s{0,5}(?P<rate>[\d.]{1,12}[kMGT]?|\?)\s?(?P<unit>[A-Za-z]{1,20}/s|s/[A-Za-z]{1,20}))?"
    r"(?P<postfix>[^\[\]|\r\n]{0,2000})\]"
)
"""Some scripts leave the rate out (NeMo 1)."""
OPEN_BAR = re.compile(
    rf"(?<![\w.])(?P<n>{_COUNT})it \[(?P<elapsed>{_CLOCK}),\s{{0,5}}(?P<rate>[\d.]{{1,12}}[kMGT]?|\?)\s?"
    r"(?P<unit>[A-Za-z]{1,20}/s|s/[A-Za-z]{1,20})(?P<postfix>[^\[\]|\r\n]{0,2000})\]"
)
RICH_BAR = re.compile(
    rf"[━╸╺─]{{2,400}}\s{{1,4}}(?P<n>{_COUNT})/(?P<total>{_COUNT}|--)\s{{1,4}}(?P<elapsed>{_CLOCK}|-:--:--) •\s{{1,4}}"
    rf"(?P<left>{_CLOCK}|-:--:--)\s{{1,4}}(?P<rate>[\d.]{{1,12}}|--)\s?(?P<unit>it/s)(?P<postfix>[^\r\n|]{{0,2000}})"
)
"""Lightning's rich bar: lightning/pytorch/callbacks/progress/rich_progress.py; metrics behind it up to the end of the line."""
_DESCRIPTION = re.compile(r"(?:[^\[\]{}|\r\n%<]{0,120}|\[[^\[\]\r\n]{0,400}\]:\s{0,3}|\d+\|\d+\|[^\[\]{}|%]{0,60})\Z")
_CUT_BAR = re.compile(r"\A\d+:\d\d|it/s|s/it")
"""What is left of a bar that was overwritten before its end."""
_SCALE = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}


@dataclass(frozen=True, slots=True)
class Bar:
    """``n`` of ``total`` done after ``elapsed_s``; ``rate_per_s`` is tqdm's smoothed rate; places in the text."""

    description: str
    n: float
    total: float | None
    elapsed_s: float
    left_s: float | None
    rate_per_s: float | None
    postfix: str
    start: int
    end: int
    percent_at: int
    count_at: int
    count_end: int


def clock_s(text: str) -> float | None:
    """``[D days, ][H:]MM:SS[.fff]`` in seconds; None for "?" or anything else."""
    days = 0.0
    if "day" in text:
        head, _, text = text.partition(",")
        try:
            days = float(head.split()[0]) * 86_400
        except (ValueError, IndexError):
            return None
    seconds = 0.0
    try:
        for part in text.strip().split(":"):
            seconds = seconds * 60 + float(part)
    except ValueError:
        return None
    return days + seconds


def _count(text: str) -> float:
    scale = _SCALE.get(text[-1], 1.0)
    return float((text[:-1] if scale != 1.0 else text).replace(",", "").rstrip(".") or "nan") * scale


def find_bars(text: str) -> list[Bar]:
    """Every complete bar state in the text, left to right. Cheap when there is none."""
    if "%|" in text:
        pattern = BAR
    elif "it [" in text:
        pattern = OPEN_BAR
    elif " • " in text:
        pattern = RICH_BAR
    else:
        return []
    bars: list[Bar] = []
    end = 0
    for match in pattern.finditer(text):
        bar = _bar(text, end, match)
        if bar:
            bars.append(bar)
            end = match.end()
    return bars


def _bar(text: str, after: int, match: re.Match[str]) -> Bar | None:
    groups = match.groupdict()
    try:
        n = _count(groups["n"])
        total = _count(groups["total"]) if groups.get("total") not in (None, "--") else None
        rate = None if groups["rate"] in (None, "?", "--") else _count(groups["rate"])
    except ValueError:
        return None
    if rate and groups["unit"] and groups["unit"].startswith("s/"):
        rate = 1 / rate
    before = _DESCRIPTION.search(text, max(after, match.start() - 480), match.start())
    start = before.start() if before else match.start()
    said = text[start : match.start()].strip(" :\t\r")
    return Bar(
        description="" if _CUT_BAR.search(said) else said,
        n=n,
        total=total,
        elapsed_s=clock_s(groups["elapsed"]) or 0.0,
        left_s=clock_s(groups["left"]) if groups.get("left") else None,
        rate_per_s=rate,
        postfix=groups["postfix"].strip(" ,"),
        start=start,
        end=match.end(),
        percent_at=match.start(),
        count_at=match.start("n"),
        count_end=match.end("n"),
    )
