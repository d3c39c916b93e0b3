"""Which column a printed key means: the few names that every framework spells differently, learned once here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from diag_kit.observe.logs.found import Cell, Found, Split
from diag_kit.observe.logs.line import RankKind
from diag_kit.observe.logs.pairs import Pair

STEP = (
    "global_step", "globalstep", "global_train_step", "num_updates", "optimizer_step", "step", "current_steps", "current_step",
    "train_step", "training_step", "iteration", "iter", "it", "itr", "update", "steps", "iters", "cur_step",
)  # fmt: skip
MICRO_STEP = ("micro_step", "microstep", "local_step", "batch", "batch_idx", "batch_index", "minibatch", "batch_i", "i")
EPOCH = ("epoch", "ep", "train_epoch", "training_epoch", "current_epoch", "cur_epoch", "epoch_idx", "ep_train", "epoch_train")
LR = ("lr", "learning_rate", "train_lr", "current_lr", "learningrate", "lr_0", "last_lr", "cur_lr")
LOSS = (
    "loss", "train_loss", "training_loss", "total_loss", "lm_loss", "reduced_train_loss", "step_loss", "batch_loss",
    "losses/total_loss", "loss/train/total", "loss_total", "nll_loss", "ce_loss", "loss_epoch", "val_loss", "eval_loss",
    "valid_loss", "validation_loss", "test_loss", "gpt_loss", "policy_loss", "ce", "nll", "avg_loss", "mean_loss",
)  # fmt: skip
RANK: dict[str, RankKind] = {
    "rank": "global",
    "global_rank": "global",
    "world_rank": "global",
    "proc_rank": "global",
    "local_rank": "local",
    "device": "device",
}
VAL_WORDS = {"val", "valid", "validation", "validating", "eval", "evaluation", "evaluating", "test", "testing", "dev"}
TRAIN_WORDS = {"train", "training", "trn"}
RESERVED = {"host", "t", "split", "line", "file", "lr_text", "seen_at"}
"""Columns of the table itself: a metric that is printed under such a name gets "_printed" behind it."""
CONFIG_KEYS = {
    "epochs", "num_epochs", "max_epochs", "num_train_epochs", "seed", "warmup_steps", "max_steps", "log_interval",
    "hidden_size", "num_workers", "vocab_size", "weight_decay", "logging_steps", "total_steps", "max_train_steps",
}  # fmt: skip
_UNITS = {"s", "ms", "us", "sec", "secs", "gb", "gib", "g", "mb", "mib", "m", "kb", "w"}
_JUNK = re.compile(r"\.(?:py|cpp|cc|cu|h|rs|pt|json|yaml|log|txt|safetensors)\Z|\A(?:line|port|pid|version|http\w*)\Z")


@lru_cache(maxsize=4096)
def column_name(key: str) -> str:
    """A key as a column: lower case, blanks to "_", units in brackets to a suffix, ``train/`` and ``val/`` taken off."""
    return printed_name(key).lower()


@lru_cache(maxsize=4096)
def printed_name(key: str) -> str:
    """As ``column_name``, but in the case in which it was printed, unless it is made of several words."""
    name = key.strip()
    name = name.lower() if " " in name else name
    for prefix in ("train/", "training/", "val/", "valid/", "eval/"):
        if name.lower().startswith(prefix) and len(name) > len(prefix):
            name = name[len(prefix) :]
    name = re.sub(r"[()\[\]]", " ", name)
    return re.sub(r"[\s-]+", "_", name.strip()).strip("_.:")


def is_junk(key: str) -> bool:
    """Keys that are file names or other things that no metric is called."""
    return bool(_JUNK.search(key.lower()))


def with_unit(name: str, unit: str) -> str:
    """A glued unit becomes a suffix, unless the name already says it."""
    unit = unit.lower()
    if unit in _UNITS and not name.lower().endswith(f"_{unit}"):
        return f"{name}_{unit}"
    return name


def split_of(names: Sequence[str]) -> Split:
    """ "val" when a key says so and none is a train key."""
    heads = [re.split(r"[/_ .-]", name.lower(), maxsplit=1)[0] for name in names]
    if any(head in VAL_WORDS for head in heads) and not any(head in TRAIN_WORDS for head in heads):
        return "val"
    return "train"


def assemble(
    form: str,
    pairs: Sequence[Pair],
    start: int,
    end: int,
    split: Split | None = None,
    from_bar: bool = False,
    level: int = 0,
    counts: str = "",
) -> Found:
    """Give every pair its column: canonical ones (rank, epoch, step, micro_step, lr, loss) by name, the rest as printed."""
    split = split or split_of([pair.key for pair in pairs])
    named = [(with_unit(column_name(pair.key), "s" if pair.duration else pair.unit), pair) for pair in pairs if pair.key]
    cells: dict[str, Cell] = {}
    used: set[int] = set()
    totals: dict[str, int | None] = {}

    def take(column: str, names: Sequence[str]) -> None:
        for wanted in names:
            for index, (name, pair) in enumerate(named):
                if index not in used and name == wanted:
                    cells[column] = Cell.of(column, pair)
                    totals[column] = int(pair.of.replace(",", "")) if pair.of else None
                    used.add(index)
                    return

    take("rank", tuple(RANK))
    rank_kind = RANK.get(next((name for i, (name, _) in enumerate(named) if i in used), ""), "")
    take("epoch", EPOCH)
    take("step", STEP)
    take("micro_step", MICRO_STEP)
    lr_columns = _rates(named, cells, used)
    take("loss", LOSS)
    for index, (name, pair) in enumerate(named):
        if index not in used and name and not is_junk(name):
            column = with_unit(printed_name(pair.key), "s" if pair.duration else pair.unit)
            column = f"{column}_printed" if column in RESERVED else column
            if column not in cells:
                cells[column] = Cell.of(column, pair)
    if "loss" not in cells:
        first = next((name for name in cells if "loss" in name.lower() and "scale" not in name.lower()), None)
        if first:
            cells["loss"] = Cell("loss", cells[first].text, cells[first].start, cells[first].end)
    return Found(
        form,
        split,
        tuple(cells.values()),
        start,
        end,
        lr_columns,
        totals.get("step"),
        totals.get("epoch"),
        from_bar,
        rank_kind,
        level,
        counts,
    )


def _rates(named: Sequence[tuple[str, Pair]], cells: dict[str, Cell], used: set[int]) -> tuple[str, ...]:
    """``lr``, or of several optimizers (``lr/Muon``, ``lr-AdamW``) the first; all of them make up the printed digits."""
    several: list[tuple[str, Pair]] = []
    for index, (name, pair) in enumerate(named):
        if name in LR and "lr" not in cells:
            cells["lr"] = Cell.of("lr", pair)
            used.add(index)
        elif name.startswith(("lr/", "lr_", "learning_rate/")) and name not in LR:
            several.append((printed_name(pair.key), pair))
    if "lr" in cells or not several:
        return ("lr",) if "lr" in cells else ()
    cells["lr"] = Cell.of("lr", several[0][1])
    return tuple(dict.fromkeys(name for name, _ in several))
