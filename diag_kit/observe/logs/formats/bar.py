"""Counters and postfix of a tqdm bar: ``Steps: 3%|..| 450/15000 [05:12<2:47:55, 1.44it/s, lr=1e-5, step_loss=0.0813]``.

A bar's counter is what its script makes it (micro batches of an epoch, optimizer steps of the run), so these rows are
kept only where a log has no other metric record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from diag_kit.observe.logs.bars import Bar, find_bars
from diag_kit.observe.logs.found import Found, Split
from diag_kit.observe.logs.line import Line
from diag_kit.observe.logs.names import VAL_WORDS, assemble
from diag_kit.observe.logs.pairs import Pair, pairs_between


@dataclass(frozen=True, slots=True)
class ProgressBar:
    name: str = "progress bar"
    framework: str = ""
    order: int = 90

    def find(self, text: str, line: Line) -> Sequence[Found]:
        return [found for bar in find_bars(text) if (found := _found(text, bar))]


def _found(text: str, bar: Bar) -> Found | None:
    words = {word.strip(":[](),").lower() for word in bar.description.split()}
    if {"class", "images"} <= words:  # a validation of Ultralytics
        return None
    if not bar.n.is_integer() or words & {"rollout", "loading", "downloading", "tokenizing", "map", "filter", "saving"}:
        return None
    pairs = bar_pairs(text, bar)
    split: Split | None = "val" if words & VAL_WORDS else None
    return assemble("bar", pairs, bar.start, bar.end, split, from_bar=True)


def bar_pairs(text: str, bar: Bar) -> list[Pair]:
    """Numbers of a bar: of its postfix, of its description (``Epoch 3``, or metrics that some scripts put there), its counter."""
    begin = text.find(bar.postfix, bar.count_end, bar.end) if bar.postfix else -1
    pairs = pairs_between(text, begin, begin + len(bar.postfix)) if begin >= 0 else []
    if bar.description:
        pairs += pairs_between(text, bar.start, bar.percent_at)
    if not {pair.key for pair in pairs} & {"step", "global_step"}:
        pairs.append(Pair("step", text[bar.count_at : bar.count_end], bar.count_at, bar.count_end))
    return pairs


FORMAT = ProgressBar()
