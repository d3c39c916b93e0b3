"""The fields of a known line: ``key: value unit (mean)`` with the place of every number, and the record made of them.

Grammar: a key of up to four words, ":" or "=" (or only blanks), a number or a duration, a unit glued on or behind one blank, and
possibly a second number in brackets (a running mean). Every part is bounded, so the cost is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from diag_kit.observe.logs.found import Cell, Found, Split
from diag_kit.observe.logs.line import RankKind
from diag_kit.observe.logs.names import RESERVED, printed_name, with_unit
from diag_kit.observe.logs.numbers import DURATION, NUMBER

_WORD = r"[A-Za-z_][\w./@%+-]{0,79}"
_KEY = rf"(?<![\w./@%+-])(?P<key>{_WORD}(?: {_WORD}){{0,3}}(?:\s?\((?:[A-Za-z/%_][\w/% .-]{{0,19}}|1e-?\d{{1,2}})\))?)"
_GLUED = r"%|[A-Za-z]{1,8}(?:/[A-Za-z]{1,10}){0,2}(?!\w)|/[A-Za-z]{1,10}(?:/[A-Za-z]{1,10})?(?!\w)"
_SPACED = (
    r"(?:s|ms|us|sec|secs|seconds|[KMG]i?B|samples?|images?|imgs?|tokens?|sequences?|instances?|ins|steps?|batch(?:es)?|it|iters?)"
    r"(?:\s?/\s?(?:s|sec|step|it|gpu|device)){0,2}(?![\w/(=:])(?!\s?[:=])"
)
_WRAPPED = r"(?:(?:np\.|numpy\.)?(?:tensor|array|float\d\d|int\d\d)\()?"
_VALUE = rf"{_WRAPPED}(?:(?P<duration>{DURATION})|(?P<number>{NUMBER})(?P<unit>{_GLUED}|\s(?:{_SPACED}))?)(?![\w:]|\.\d)"
_MEAN = rf"(?:\s{{0,2}}\(\s{{0,6}}(?P<mean>{NUMBER})\s?(?:ms|us|s|%|[KMGkmg]i?[Bb])?\s{{0,2}}\))?"
MARKED = re.compile(rf"{_KEY}\s{{0,2}}[:=]\s{{0,12}}{_VALUE}{_MEAN}")
"""``key: value`` and ``key=value``."""
SPACED = re.compile(rf"{_KEY}(?:\s{{0,2}}[:=]\s{{0,12}}|\s{{1,12}}){_VALUE}{_MEAN}")
"""Also ``key value``, with blanks only."""
_CANONICAL = {"loss": "loss", "lr": "lr", "learning_rate": "lr", "learning rate": "lr", "epoch": "epoch"}
_SECONDS = {"s", "sec", "secs", "seconds"}
_TIME_UNITS = {"ms", "us", "min", "h"}
_MEAN_BEFORE = re.compile(r"_(?:s|ms|us|mib|gib|percent|per_s)\Z")


@dataclass(frozen=True, slots=True)
class Number:
    """A number as printed, and where: ``unit`` as printed behind it."""

    text: str
    start: int
    end: int
    unit: str = ""
    duration: bool = False

    @classmethod
    def of(cls, match: re.Match[str], group: str, unit: str = "") -> Number:
        return cls(match[group], match.start(group), match.end(group), unit)


@dataclass(frozen=True, slots=True)
class Field:
    """One field; ``mean``: the number in brackets behind the value."""

    key: str
    value: Number
    mean: Number | None
    end: int


def fields(text: str, start: int, end: int, form: re.Pattern[str] = MARKED) -> Iterator[Field]:
    """All fields between two places of the text, left to right."""
    for match in form.finditer(text, start, end):
        if match["duration"]:
            value = Number(match["duration"], match.start("duration"), match.end("duration"), "s", duration=True)
        else:
            value = Number.of(match, "number", (match["unit"] or "").strip())
        yield Field(match["key"], value, Number.of(match, "mean", value.unit) if match["mean"] else None, match.end())


def column_of(key: str, unit: str, columns: Mapping[str, str]) -> str:
    """The column of a key: by the format's own list (lower case), else as printed; a unit that says otherwise is heard."""
    known = columns.get(key.lower())
    if known is not None:
        seconds = known.endswith("_s") and not known.endswith("_per_s")
        return f"{known[:-1]}{unit.lower()}" if seconds and unit.lower() in _TIME_UNITS else known
    if key.lower() in _CANONICAL:
        return _CANONICAL[key.lower()]
    unit = "s" if unit.lower() in _SECONDS else unit
    name = printed_name(key)
    if unit.startswith("/"):
        name = f"{name}{unit.replace('/', '_per_', 1).replace('/', '_per_').lower()}"
    elif "/" in unit:
        name = f"{name}_{unit.replace(' ', '').replace('/', '_per_').lower()}"
    else:
        name = f"{name}_percent" if unit == "%" else with_unit(name, unit)
    return f"{name}_printed" if name in RESERVED else name


def mean_of(column: str) -> str:
    """``step_time_s`` -> ``step_time_mean_s``, ``loss`` -> ``loss_mean``."""
    unit = _MEAN_BEFORE.search(column)
    return f"{column[: unit.start()]}_mean{unit[0]}" if unit else f"{column}_mean"


class Record:
    """Cells of one record in the order they came; the first of a name stays."""

    def __init__(self) -> None:
        self.cells: dict[str, Cell] = {}
        self.end = 0

    def put(self, column: str, number: Number) -> None:
        if column and column not in self.cells and not number.text.isspace():
            self.cells[column] = Cell(column, number.text, number.start, number.end, number.duration)
        self.end = max(self.end, number.end)

    def add(self, field: Field, columns: Mapping[str, str]) -> None:
        """A field and its mean under the format's names; a column of "" drops it."""
        column = column_of(field.key, field.value.unit, columns)
        if column.startswith(("lr-", "lr/", "lr_")) and "lr" not in self.cells:
            column = "lr"
        self.put(column, field.value)
        if field.mean and column:
            self.put(mean_of(column), field.mean)
        self.end = max(self.end, field.end)

    def found(
        self,
        form: str,
        start: int,
        split: Split = "train",
        *,
        end: int = 0,
        step_of: int | None = None,
        epoch_of: int | None = None,
        from_bar: bool = False,
        rank_kind: RankKind = "",
        run_steps: int | None = None,
        counts: str = "",
        samples_of: int | None = None,
        whole_loss: bool = False,
    ) -> Found:
        """The record; its loss is the first column that is called a loss, unless ``whole_loss``: only one plainly called so."""
        if "loss" not in self.cells and not whole_loss:
            first = next((cell for name, cell in self.cells.items() if _is_loss(name)), None)
            if first:
                self.cells["loss"] = Cell("loss", first.text, first.start, first.end)
        rates = ("lr",) if "lr" in self.cells else ()
        cells = tuple(self.cells.values())
        end = max(end, self.end)
        return Found(
            form,
            split,
            cells,
            start,
            end,
            rates,
            step_of,
            epoch_of,
            from_bar,
            rank_kind,
            counts=counts,
            run_steps=run_steps,
            samples_of=samples_of,
        )


def _is_loss(name: str) -> bool:
    lowered = name.lower()
    return "loss" in lowered and "scale" not in lowered and not lowered.endswith("_mean")
