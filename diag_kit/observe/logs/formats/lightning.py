"""PyTorch Lightning's bars, on tqdm and on a rich console. (Its CSVLogger is read as CSV: see ``csv_rows``.)

tqdm: ``Epoch 0:  12%|#2  | 138/1150 [01:02<07:37,  2.21it/s, v_num=3, train_loss=0.512]``; rich: ``Epoch 0/9 ━━━ 12/100
0:00:12 • 0:01:30 7.92it/s v_num: 3.000 train_loss: 0.512``, where the number behind the slash is the LAST epoch (max_epochs -
1).
Counts micro-batches of this rank in this epoch, epochs from 0; 1.x added the batches of validation to the total. Always it/s
with two digits, so a slow step says little there: use n and elapsed. Rank 0 only. ``v_num`` is the logger's version.
Source: Lightning-AI/pytorch-lightning src/lightning/pytorch/callbacks/progress/tqdm_progress.py, rich_progress.py (2.2.0,
2.6.6); thread official-stockfish/nnue-pytorch#83.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from diag_kit.observe.logs.bars import Bar, find_bars
from diag_kit.observe.logs.formats.bar import bar_pairs
from diag_kit.observe.logs.found import Found
from diag_kit.observe.logs.line import Line
from diag_kit.observe.logs.names import assemble
from diag_kit.observe.logs.pairs import Pair, pairs_between, renamed

_EPOCH = re.compile(r"\bEpoch (?P<n>\d{1,9})(?:/(?P<last>\d{1,9}))?\s*:?\s*\Z")
_EVALUATION = re.compile(r"\b(?:Sanity Checking|Validation|Testing|Predicting) DataLoader \d{1,6}\s*\Z")
_NAMES = {"v_num": ""}


@dataclass(frozen=True, slots=True)
class Lightning:
    name: str = "Lightning"
    framework: str = "Lightning"
    order: int = 85

    def find(self, text: str, line: Line) -> Sequence[Found]:
        if " DataLoader " in text:
            return [found for bar in find_bars(text) if (found := _evaluation(text, bar))]
        if "Epoch " not in text or ("v_num" not in text and " • " not in text):
            return ()
        return [found for bar in find_bars(text) if (found := _found(text, bar))]


def _found(text: str, bar: Bar) -> Found | None:
    rich = "%|" not in text[bar.start : bar.count_at] and " • " in text[bar.count_end : bar.end]
    epoch = _EPOCH.search(bar.description)
    if not epoch or not bar.n.is_integer() or not (rich or "v_num" in bar.postfix):
        return None
    if rich:
        begin = text.find(bar.postfix, bar.count_end) if bar.postfix else bar.end
        pairs = pairs_between(text, begin, bar.end)
        at = text.find(epoch[0].rstrip(": "), bar.start) + len("Epoch ")
        of = str(int(epoch["last"]) + 1) if epoch["last"] else ""
        pairs.append(Pair("epoch", epoch["n"], at, at + len(epoch["n"]), of=of))
        pairs.append(Pair("step", text[bar.count_at : bar.count_end], bar.count_at, bar.count_end))
    else:
        pairs = bar_pairs(text, bar)
    counts = "micro-batches of one rank in the epoch"
    return assemble("bar", renamed(pairs, _NAMES), bar.start, bar.end, "train", from_bar=True, counts=counts)


def _evaluation(text: str, bar: Bar) -> Found | None:
    """Bars of validation, test and the check before the first epoch; their number is the loader's, not a metric."""
    if not _EVALUATION.search(bar.description) or not bar.n.is_integer():
        return None
    pairs = [pair for pair in bar_pairs(text, bar) if not pair.key.lower().endswith("dataloader")]
    return assemble("bar", renamed(pairs, _NAMES), bar.start, bar.end, "val", from_bar=True)


FORMAT = Lightning()
