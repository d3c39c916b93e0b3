"""From the numbers that a host picked out of a log to the rows of the table ``metrics``: by columns, with no loop over rows.

What the host shipped as text goes through the full parser; both are put in the order of the file and dated together.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from diag_kit.observe.logs.bars import Bar
from diag_kit.observe.logs.columns_rest import thinned
from diag_kit.observe.logs.file_ranks import ranks_of_files
from diag_kit.observe.logs.line import Line
from diag_kit.observe.logs.line_shape import RANK_COLUMN, STAMP_COLUMN, Shape
from diag_kit.observe.logs.pieces import Piece
from diag_kit.observe.logs.reading import BarState, Reading, _take_bar, understand
from diag_kit.observe.logs.stamps import DAY_US, date_without_year, read_stamp
from diag_kit.observe.logs.table import FIRST_COLUMNS

_HALF_DAY_US, _HOUR_US = DAY_US // 2, 3_600_000_000
_NO_TIME = np.iinfo("int64").min


@dataclass(slots=True)
class Picked:
    """The rows of one shape: numbers by column, printed learning rates, stamps and line numbers."""

    shape: Shape
    lines: np.ndarray
    values: dict[str, np.ndarray]
    stamps: np.ndarray
    lr_text: np.ndarray


@dataclass(slots=True)
class Whole:
    """Everything of one log: picked rows and the reading of the rest, which also counts for both."""

    picked: list[Picked] = field(default_factory=list)
    reading: Reading | None = None
    lines: int = 0

    @property
    def picked_rows(self) -> int:
        return sum(len(each.lines) for each in self.picked)


def split_lines(body: bytes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Starts and ends of the lines of an output, and the first byte of each."""
    data = np.frombuffer(body, dtype="uint8")
    ends = np.flatnonzero(data == 10)
    starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else np.array([], dtype="int64")
    return starts, ends, data[starts] if len(starts) else np.array([], dtype="uint8")


def _runs(places: np.ndarray) -> list[tuple[int, int]]:
    """Stretches of neighbours in a rising list of places: first and last of each."""
    if not len(places):
        return []
    breaks = np.flatnonzero(np.diff(places) != 1)
    firsts = np.concatenate([[0], breaks + 1])
    lasts = np.concatenate([breaks, [len(places) - 1]])
    return list(zip(places[firsts].tolist(), places[lasts].tolist(), strict=True))


def read_columns(body: bytes, shapes: Sequence[Shape], columns: Sequence[str], file: str, host: str, reference_us: int) -> Whole:
    """``body``: the lines between the marks, one per physical line of the log. Raises ValueError if they are not that."""
    starts, ends, first = split_lines(body)
    whole = Whole(lines=len(starts))
    for number, shape in enumerate(shapes):
        places = np.flatnonzero(first == 65 + number)
        if len(places):
            text = b"".join(body[starts[a] : ends[b] + 1] for a, b in _runs(places))
            whole.picked.append(_picked(text.replace(b"\n" + bytes([65 + number]), b"\n")[1:], shape, columns, places + 1))
    rest = np.flatnonzero(first == 58)
    if len(rest) + whole.picked_rows != len(starts):
        raise ValueError("lines of neither kind")
    left = thinned([body[starts[at] + 1 : ends[at]] for at in rest.tolist()], shapes, columns)
    for number, (behind, rows) in left.rows.items():
        whole.picked.append(_picked(b"\n".join([*rows, b""]), shapes[number], columns, rest[behind] + 1))
    numbers = tuple((rest[left.places] + 1).tolist())
    piece = Piece(file, host, b"".join(text + b"\n" for text in left.texts), None, reference_us, numbers=numbers)
    whole.reading = understand([piece], facts=False)
    whole.reading.lines += left.dropped + len(left.bars)
    _add_bars(whole.reading, [(int(rest[place]) + 1, bar) for place, bar in left.bars])
    return whole


def _add_bars(reading: Reading, bars: Sequence[tuple[int, Bar]]) -> None:
    """Put bars among those of the reading, in the order of the file; the same state again replaces the one before."""
    states = [BarState(0, Line("", line, line), bar) for line, bar in bars] + reading.bars
    reading.bars = []
    for state in sorted(states, key=lambda each: each.line.last):
        _take_bar(reading, 0, state.line, state.bar)


def _picked(text: bytes, shape: Shape, columns: Sequence[str], lines: np.ndarray) -> Picked:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    holes = shape.wanted(columns)
    names = [str(index) for index in range(len(holes))]
    as_text = {
        name: pa.string()
        for name, hole in zip(names, holes, strict=True)
        if hole.columns == (STAMP_COLUMN,) or set(shape.found.lr_columns) & set(hole.columns)
    }
    table = csv.read_csv(
        io.BytesIO(text),
        read_options=csv.ReadOptions(column_names=names, use_threads=False, block_size=8 * 2**20),
        parse_options=csv.ParseOptions(delimiter="\t", quote_char=False),
        convert_options=csv.ConvertOptions(
            column_types={name: as_text.get(name, pa.float64()) for name in names},
            null_values=[""],
            strings_can_be_null=True,
        ),
    )
    if table.num_rows != len(lines):
        raise ValueError("a row is missing")
    values: dict[str, np.ndarray] = {}
    texts: dict[str, np.ndarray] = {}
    stamps = np.full(len(lines), _NO_TIME, dtype="int64")
    for name, hole in zip(names, holes, strict=True):
        filled = pc.fill_null_forward(table[name].combine_chunks())
        if filled.null_count:
            raise ValueError("a number is missing")
        if name not in as_text:
            numbers = filled.to_numpy(zero_copy_only=False)
        else:
            coded = filled.dictionary_encode()
            codes, kinds = coded.indices.to_numpy(zero_copy_only=False), coded.dictionary.to_pylist()
            if hole.columns == (STAMP_COLUMN,):
                stamps = np.array([_stamp_us(kind, shape) for kind in kinds], dtype="int64")[codes]
                continue
            numbers = np.array([float(kind) for kind in kinds], dtype="float64")[codes]
            texts.update({column: np.array(kinds, dtype=object)[codes] for column in hole.columns})
        values.update(dict.fromkeys(hole.columns, numbers))
    return Picked(shape, lines, values, stamps, _lr_text(shape, texts, len(lines)))


def _stamp_us(text: str, shape: Shape) -> int:
    stamp = read_stamp(text)
    if stamp is None or stamp.kind != shape.line.stamp_kind:
        raise ValueError("a time that is none")
    return stamp.us


def _lr_text(shape: Shape, texts: dict[str, np.ndarray], size: int) -> np.ndarray:
    columns = [texts[name] for name in shape.found.lr_columns if name in texts]
    if not columns:
        return np.full(size, None, dtype=object)
    joined = columns[0]
    for column in columns[1:]:
        joined = joined + "|" + column
    return joined


def frame_of(whole: Whole, columns: Sequence[str], file: str, host: str, reference_us: int) -> tuple[pd.DataFrame, int]:
    """The table ``metrics`` with the wanted columns, in file order, and the midnights counted."""
    reading = whole.reading
    assert reading is not None
    stamps = [(np.array(reading.rows.lines, dtype="int64"), _stamp_array(reading), np.array(reading.rows.kinds, dtype=object))]
    for each in whole.picked:
        kinds = np.full(len(each.lines), each.shape.line.stamp_kind, dtype=object)
        stamps.append((each.lines, each.stamps, kinds))
    every = [np.concatenate(part) for part in zip(*stamps, strict=True)]
    order = np.argsort(every[0], kind="stable")
    times = np.full(len(order), _NO_TIME, dtype="int64")
    times[order], midnights = dated(every[1][order], every[2][order], reference_us)
    frames = []
    if any(each.shape.found.split == "train" for each in whole.picked):
        reading.rows._shapes = {key: s for key, s in reading.rows._shapes.items() if not s.from_bar}
    if reading.rows.count:
        few = reading.rows.frame(
            [int(us) if us != _NO_TIME else None for us in times[: reading.rows.count]], [file], [host], [True]
        )
        frames.append(few)
    at = reading.rows.count
    file_rank = ranks_of_files([file])[0]
    for each in whole.picked:
        frames.append(_frame(each, times[at : at + len(each.lines)], file, host, file_rank))
        at += len(each.lines)
    return _joined(frames, columns, whole), midnights


def _stamp_array(reading: Reading) -> np.ndarray:
    return np.array([_NO_TIME if us is None else us for us in reading.rows.stamps], dtype="int64")


def dated(stamps: np.ndarray, kinds: np.ndarray, reference_us: int) -> tuple[np.ndarray, int]:
    """``derived.row_times`` for one piece, without a loop: times of day get their dates, with midnights counted."""
    times = stamps.copy()
    midnights = 0
    clocks = np.flatnonzero((kinds == "time of day") & (stamps != _NO_TIME))
    if len(clocks):
        us = stamps[clocks]
        change = np.diff(us, prepend=us[:1])
        days = np.cumsum((change < -_HALF_DAY_US).astype("int64") - (change > _HALF_DAY_US).astype("int64"))
        last = int(us[-1] + days[-1] * DAY_US)
        shift = (reference_us + _HOUR_US - last) // DAY_US * DAY_US
        times[clocks] = us + days * DAY_US + shift
        midnights = int(days.max() - min(int(days.min()), 0)) if len(days) else 0
    for place in np.flatnonzero(kinds == "no year").tolist():
        if stamps[place] != _NO_TIME:
            times[place] = date_without_year(int(stamps[place]), reference_us)
    return times, midnights


def _frame(each: Picked, times: np.ndarray, file: str, host: str, file_rank: int | None) -> pd.DataFrame:
    size, values, line = len(each.lines), dict(each.values), each.shape.line
    tag = values.pop(RANK_COLUMN, None)
    rank = values.pop("rank", tag)
    if file_rank is not None and line.rank_kind in ("", "device") and "rank" not in each.values:
        rank = np.full(size, float(file_rank))
    return pd.DataFrame(
        {
            "rank": _integers(rank, size),
            "host": pd.array(np.full(size, host, dtype=object), dtype="str"),
            "t": pd.DatetimeIndex(times.view("datetime64[us]"), tz="UTC"),
            "epoch": pd.array(values.pop("epoch", np.full(size, np.nan)), dtype="Float64"),
            "step": _integers(values.pop("step", None), size),
            "micro_step": _integers(values.pop("micro_step", None), size),
            "split": pd.array(np.full(size, each.shape.found.split, dtype=object), dtype="str"),
            "line": pd.arrays.IntegerArray(each.lines.astype("int64"), np.zeros(size, dtype=bool)),
            "file": pd.array(np.full(size, file, dtype=object), dtype="str"),
            "lr": values.pop("lr", np.full(size, np.nan)),
            "loss": values.pop("loss", np.full(size, np.nan)),
            **values,
            "lr_text": pd.array(each.lr_text, dtype="str"),
        }
    )


def _integers(values: np.ndarray | None, size: int) -> pd.arrays.IntegerArray:
    if values is None:
        values = np.full(size, np.nan)
    known = np.isfinite(values) & (np.abs(values) < 2.0**62)
    known &= np.where(known, values, 0.5) == np.floor(np.where(known, values, 0.5))
    return pd.arrays.IntegerArray(np.where(known, values, 0).astype("int64"), ~known)


def _joined(frames: Sequence[pd.DataFrame], columns: Sequence[str], whole: Whole) -> pd.DataFrame:
    wanted = [*FIRST_COLUMNS, *(name for name in columns if name not in FIRST_COLUMNS)]
    if not frames:
        assert whole.reading is not None
        frames = [whole.reading.rows.frame([], [], [], [])]
    trimmed = [frame.reindex(columns=[*(n for n in wanted if n in frame.columns), "lr_text"]) for frame in frames]
    joined = pd.concat(trimmed, ignore_index=True) if len(trimmed) > 1 else trimmed[0]
    joined = joined.sort_values("line", kind="stable", ignore_index=True)
    if "loss" not in columns:
        joined["loss"] = np.nan  # some lines were shipped whole: known of a few rows only, it would mislead
    return joined[[*(name for name in wanted if name in joined.columns), "lr_text"]]


def printed_columns(whole: Whole) -> list[str]:
    """Every column that the log's records have, whether it was asked for or not."""
    assert whole.reading is not None
    names = [name for shape in whole.reading.rows._shapes.values() for name in shape.columns]
    names += [cell.column for each in whole.picked for cell in each.shape.found.cells]
    return list(dict.fromkeys(names))


def counted(whole: Whole, file: str) -> Reading:
    """The reading of the rest, with the picked rows in its counts, so that facts are derived from both."""
    reading = whole.reading
    assert reading is not None
    for each in whole.picked:
        found, line, size = each.shape.found, each.shape.line, len(each.lines)
        reading.forms[each.shape.framework, found.form, found.level] += size
        if found.counts and found.split == "train":
            reading.counts[9 if found.from_bar else found.level, found.counts] += size
        kind = line.rank_kind or found.rank_kind or ("file" if ranks_of_files([file])[0] is not None else "")
        if kind:
            reading.rank_kinds[kind] += size
        reading.rows.kinds.extend([line.stamp_kind] * size)
        if found.step_of:
            beside = any(cell.column == "epoch" for cell in found.cells)
            _earliest(reading, ("step of epoch" if beside else "step", found.step_of), file, int(each.lines[0]))
        if found.epoch_of:
            _earliest(reading, ("epoch", found.epoch_of), file, int(each.lines[0]))
    reading.lines += whole.picked_rows
    return reading


def _earliest(reading: Reading, total: tuple[str, int], file: str, line: int) -> None:
    """Where a total was printed first."""
    there = reading.totals.get(total, "").rpartition(" ")[2]
    if not there.isdigit() or int(there) > line:
        reading.totals[total] = f"{file} line {line}"
