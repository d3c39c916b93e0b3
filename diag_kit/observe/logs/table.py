"""Rows of metric records, collected column-wise and in bounded memory, and the frame made of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from diag_kit.observe.logs.found import Found
from diag_kit.observe.logs.guess import MIN_ROWS, step_counter
from diag_kit.observe.logs.line import Line
from diag_kit.observe.logs.numbers import to_float

FIRST_COLUMNS = ("rank", "host", "t", "epoch", "step", "micro_step", "split", "line", "file", "lr", "loss")
_INTEGER = ("rank", "step", "micro_step")
_CHUNK = 20_000
TIMERS = 3
"""The level of ``Found`` from which a record says nothing of a step but how long its parts took."""
MAX_SHAPES = 400
MAX_GUESSED = 100_000
MAX_LEARNED_SHAPES = 8
"""A training prints in few ways; a log full of different lines that count is something else."""


@dataclass(slots=True)
class _Shape:
    """Rows that share split, columns and form."""

    columns: tuple[str, ...]
    split: str
    from_bar: bool
    guessed: bool
    level: int
    lr_at: tuple[int, ...]
    texts: list[tuple[str, ...]] = field(default_factory=list)
    done: list[dict[str, np.ndarray]] = field(default_factory=list)
    sequence: list[int] = field(default_factory=list)
    lr_text: list[str] = field(default_factory=list)

    def flush(self) -> None:
        if not self.texts:
            return
        columns = zip(*self.texts, strict=True)
        self.done.append({name: _floats(texts) for name, texts in zip(self.columns, columns, strict=True)})
        self.texts = []

    def column(self, name: str) -> np.ndarray:
        """All values of one column."""
        self.flush()
        return np.concatenate([chunk[name] for chunk in self.done])

    def is_learned(self) -> bool:
        """Whether guessed lines behave like records: a column counts up, and another one changes.

        A counter without a telling name (of shards, of layers) needs company that is no whole number, as metrics are.
        """
        if len(self.sequence) < MIN_ROWS:
            return False
        columns = {name: self.column(name) for name in self.columns}
        counter = step_counter(columns)
        if counter is None:
            return False
        others = [values for name, values in columns.items() if name != counter.column and len(np.unique(values)) > 1]
        return any(counter.named or (values != np.floor(values)).any() for values in others)


def _floats(texts: tuple[str, ...]) -> np.ndarray:
    try:
        return np.array(list(map(float, texts)), dtype="float64")
    except ValueError:
        values = (to_float(text) for text in texts)
        return np.array([np.nan if value is None else value for value in values], dtype="float64")


class Rows:
    """Takes records in file order; ``frame()`` gives the table ``metrics`` (see the contract of ``log_metrics``)."""

    def __init__(self) -> None:
        self._shapes: dict[tuple[object, ...], _Shape] = {}
        self.count = 0
        self.learned = False
        self._firm = False
        self.lines: list[int] = []
        self.line_known: list[bool] = []
        self.ranks: list[int] = []
        self.stamps: list[int | None] = []
        self.kinds: list[str] = []
        self.pieces: list[int] = []
        self.hosts: list[str] = []

    def add(self, found: Found, texts: tuple[str, ...], line: Line, piece: int, guessed: bool = False) -> int:
        """One record; ``texts`` are the numbers as printed, in the order of ``found.cells``. ``guessed``: see ``guess``.

        Returns how many records of its shape there are.
        """
        columns = tuple([cell.column for cell in found.cells])
        key = (columns, found.split, found.from_bar, found.level, found.lr_columns, guessed)
        shape = self._shapes.get(key)
        if guessed and (len(shape.sequence) >= MAX_GUESSED if shape else len(self._shapes) >= MAX_SHAPES):
            return 0
        if shape is None:
            at = tuple(columns.index(name) for name in found.lr_columns if name in columns)
            shape = self._shapes[key] = _Shape(columns, found.split, found.from_bar, guessed, found.level, at)
        if found.split == "train" and not found.from_bar and not guessed and found.level < TIMERS:
            self._firm = True
        shape.texts.append(texts)
        shape.sequence.append(self.count)
        shape.lr_text.append(texts[shape.lr_at[0]] if len(shape.lr_at) == 1 else "|".join(texts[i] for i in shape.lr_at))
        if len(shape.texts) >= _CHUNK:
            shape.flush()
        self.count += 1
        self.lines.append(line.last)
        self.ranks.append(-1 if line.rank is None else line.rank)
        self.stamps.append(line.stamp_us)
        self.kinds.append(line.stamp_kind)
        self.pieces.append(piece)
        self.hosts.append(line.host)
        return len(shape.sequence)

    @property
    def bars_only(self) -> bool:
        """No train record but those that bars carry, guessed ones, and timers."""
        return not self._firm

    @property
    def main_level(self) -> int:
        """The lowest level of train records (no bars, no timers) up to which a step is known; few records make no level."""
        count, stepped = Counter[int](), Counter[int]()
        for shape in self._shapes.values():
            if shape.split == "train" and not shape.from_bar and not shape.guessed and shape.level < TIMERS:
                count[shape.level] += len(shape.sequence)
                stepped[shape.level] += len(shape.sequence) * ("step" in shape.columns)
        enough = 0.1 * max(count.values(), default=0)
        levels = sorted(level for level, records in count.items() if records >= enough)
        return next((level for level in levels if stepped[level]), min(levels, default=0))

    @property
    def has_beside(self) -> bool:
        """Whether train records stand beside main ones."""
        main = self.main_level
        return any(s.level > main for s in self._shapes.values() if s.split == "train" and not s.from_bar)

    def _kept(self) -> list[_Shape]:
        """Known records; where there are none, guessed ones that behave like records; where there are none, bars."""
        shapes = list(self._shapes.values())
        if not self.bars_only:
            return [shape for shape in shapes if not shape.from_bar and not shape.guessed]
        learned = [shape for shape in shapes if shape.guessed and shape.is_learned()]
        self.learned = 0 < len(learned) <= MAX_LEARNED_SHAPES
        if self.learned:
            return [shape for shape in shapes if not shape.from_bar and not shape.guessed] + learned
        return [shape for shape in shapes if not shape.guessed]

    def frame(
        self, t_us: list[int | None], files: list[str], hosts: list[str], numbered: list[bool], beside: bool = False
    ) -> pd.DataFrame:
        """All rows in file order. ``files``, ``hosts`` and ``numbered`` (are its line numbers known) go by piece; a host that the
        line itself names counts more.

        ``beside``: instead of the main records those that stand beside them (see ``Found.level``).
        """
        main = self.main_level
        shapes = [s for s in self._kept() if (s.split == "train" and not s.from_bar and s.level > main) == beside]
        for shape in shapes:
            shape.flush()
        order = np.concatenate([np.array(s.sequence, dtype="int64") for s in shapes]) if shapes else np.array([], "int64")
        sorter = np.argsort(order, kind="stable")
        index = order[sorter]
        names = list(dict.fromkeys(name for shape in shapes for name in shape.columns))
        values = {name: _column(shapes, name)[sorter] for name in names}
        pieces = np.array(self.pieces, dtype="int64")[index]
        tagged = np.array(self.ranks, dtype="int64")[index]
        named = np.array(self.hosts, dtype=object)[index]
        of_piece = np.array(hosts, dtype=object)[pieces]
        printed = values.pop("rank", None)
        split = np.concatenate([np.repeat(s.split, len(s.sequence)) for s in shapes]) if shapes else np.array([], dtype=object)
        lr_text = [text for shape in shapes for text in shape.lr_text]
        times = np.array([np.iinfo("int64").min if us is None else us for us in t_us], dtype="int64")
        frame = pd.DataFrame(
            {
                "rank": _rank(tagged, printed),
                "host": pd.array(np.where(named == "", of_piece, named), dtype="str"),
                "t": pd.DatetimeIndex(times[index].view("datetime64[us]"), tz="UTC"),
                "epoch": pd.array(values.pop("epoch", np.full(len(index), np.nan)), dtype="Float64"),
                "step": _integers(values.pop("step", None), len(index)),
                "micro_step": _integers(values.pop("micro_step", None), len(index)),
                "split": pd.array(split[sorter].astype(object), dtype="str"),
                "line": _numbers(np.array(self.lines, dtype="int64")[index], np.array(numbered, dtype=bool)[pieces]),
                "file": pd.array(np.array(files, dtype=object)[pieces], dtype="str"),
                "lr": values.pop("lr", np.full(len(index), np.nan)),
                "loss": values.pop("loss", np.full(len(index), np.nan)),
                **values,
                "lr_text": pd.array([lr_text[i] or None for i in sorter], dtype="str"),
            }
        )
        return _last_states(frame) if self.bars_only and not self.learned and not beside else frame


def _last_states(bars: pd.DataFrame) -> pd.DataFrame:
    """Of a bar that was drawn several times at one count (its postfix changes with every micro-batch) only the last state."""
    named = bars[["file", "rank", "split", "epoch", "step"]]
    following = named.shift(-1)
    both_missing = named.isna().to_numpy() & following.isna().to_numpy()
    same = named.eq(following).fillna(False).to_numpy(dtype=bool) | both_missing
    keep = ~same.all(axis=1) | named["step"].isna().to_numpy()
    keep[-1:] = True
    return bars if keep.all() else bars[keep].reset_index(drop=True)


def _column(shapes: list[_Shape], name: str) -> np.ndarray:
    parts: list[np.ndarray] = []
    for shape in shapes:
        if name in shape.columns:
            parts.extend(chunk[name] for chunk in shape.done)
        else:
            parts.append(np.full(len(shape.sequence), np.nan))
    return np.concatenate(parts) if parts else np.array([], dtype="float64")


def _integers(values: np.ndarray | None, length: int) -> pd.arrays.IntegerArray:
    if values is None:
        values = np.full(length, np.nan)
    known = np.isfinite(values) & (np.abs(values) < 2.0**62)
    known &= np.where(known, values, 0.5) == np.floor(np.where(known, values, 0.5))
    return pd.arrays.IntegerArray(np.where(known, values, 0).astype("int64"), ~known)


def _numbers(values: np.ndarray, known: np.ndarray) -> pd.arrays.IntegerArray:
    return pd.arrays.IntegerArray(values, ~known)


def _rank(tagged: np.ndarray, printed: np.ndarray | None) -> pd.arrays.IntegerArray:
    """A rank printed inside the record beats the tag in front of it (a launcher's may be local)."""
    tags = pd.arrays.IntegerArray(np.where(tagged < 0, 0, tagged), tagged < 0)
    if printed is None:
        return tags
    inner = _integers(printed, len(tagged))
    missing = np.asarray(inner.isna())
    both = np.where(missing, np.asarray(tags.fillna(0)), np.asarray(inner.fillna(0))).astype("int64")
    return pd.arrays.IntegerArray(both, missing & np.asarray(tags.isna()))
