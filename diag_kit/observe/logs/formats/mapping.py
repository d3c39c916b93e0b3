"""Any dict or JSON object with metrics in it: ``{'loss': 2.3, 'learning_rate': 4.9e-05, 'epoch': 0.02}``.

The Hugging Face Trainer prints these (from release 5 on with quoted numbers), and so do most scripts that log JSON lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from diag_kit.observe.logs.found import Found
from diag_kit.observe.logs.line import Line
from diag_kit.observe.logs.names import CONFIG_KEYS, assemble, column_name
from diag_kit.observe.logs.pairs import Pair, find_dicts, text_pairs

_SUMMARY = ("train_runtime", "train_samples_per_second")


@dataclass(frozen=True, slots=True)
class Mapping:
    name: str = "mapping"
    framework: str = ""
    order: int = 80

    def find(self, text: str, line: Line) -> Sequence[Found]:
        if "{" not in text:
            return ()
        found = []
        for start, end, pairs in find_dicts(text):
            outside = _outside(text[:start]) if start else []
            if is_metric_dict(pairs, bool(outside)):
                found.append(assemble("dict", [*outside, *pairs], 0 if outside else start, end))
        return found


def _outside(before: str) -> list[Pair]:
    """``epoch 0: {...}``, ``Step 7: {...}``, ``Global step 7: {...}``: the counters that stand in front of the dict."""
    if len(before) > 200 or "{" in before:
        return []
    pairs, _ = text_pairs(before)
    wanted = {"epoch", "step", "global_step", "iteration", "iter", "rank", "ep"}
    named = [(column_name(pair.key.split(" ")[-1]), pair) for pair in pairs if pair.key]
    return [Pair(name, p.value, p.start, p.end, of=p.of) for name, p in named if name in wanted]


def is_metric_dict(pairs: Sequence[Pair], counted: bool) -> bool:
    """A loss, or a counter beside other numbers; not a configuration, not the summary at the end of a run."""
    names = [column_name(pair.key) for pair in pairs]
    if any(name in _SUMMARY for name in names):
        return False
    tails = {name.rsplit("/", 1)[-1] for name in names}
    if tails & CONFIG_KEYS and not any(name == "loss" for name in tails):
        return False
    counters = counted or any(name in ("epoch", "step", "global_step", "iteration", "iter", "current_steps") for name in names)
    has_loss = any("loss" in name and "scale" not in name for name in names)
    return (has_loss and (counters or len(names) > 1)) or (counters and len(names) > 1 - int(counted))


FORMAT = Mapping()
