"""The fields of a calculation's assumptions: change one and a new calculation supersedes the old."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from diag_kit.calculate.calculator import all_calculators
from diag_kit.errors import BadInput
from diag_kit.records import Assumption, Calculation, Value
from diag_kit.show.format import number, visible
from diag_kit.show.summary import label

if TYPE_CHECKING:
    import ipywidgets

TRUE = {"yes", "true"}
FALSE = {"no", "false"}


def changeable(made: Calculation) -> tuple[Assumption, ...]:
    """The assumptions that the calculation's calculator lets one set."""
    maker = all_calculators().get(made.calculator)
    fields = {field.name for field in dataclasses.fields(maker)} if maker else set(made.parameters)
    return tuple(each for each in made.assumptions if each.name in fields)


def read_value(text: str, before: Value) -> Value:
    """What was typed, as the kind of value that stood there. BadInput says what is wrong."""
    said = text.strip()
    if said == "":
        return None
    if isinstance(before, bool):
        if said.lower() in TRUE | FALSE:
            return said.lower() in TRUE
        raise BadInput(f"{said!r} is neither yes nor no", next_step="type yes or no")
    if isinstance(before, str):
        return said
    try:
        value = float(said.replace(",", "").replace("_", ""))
    except ValueError:
        raise BadInput(f"{said!r} is not a number", next_step="type a number, such as 1.4") from None
    if value != value or value in (float("inf"), float("-inf")):
        raise BadInput(f"{said!r} is not a finite number", next_step="type a number, such as 1.4")
    return int(value) if value == int(value) and not isinstance(before, float) else value


def fields(
    made: Calculation, change: Callable[[str, str, Value], None], failed: Callable[[Exception], None]
) -> ipywidgets.VBox | None:
    """A box with a field per assumption, or None when nothing can be changed. ``change(id, name, value)`` is called on Enter or leaving."""
    import ipywidgets

    given = changeable(made)
    if not given:
        return None
    boxes = [_field(made.id, each, change, failed) for each in given]
    hint = ipywidgets.Label("change an assumption, press Enter:")
    box = ipywidgets.VBox([hint, *boxes])
    box.add_class("dk-fields")
    return box


def _field(
    id: str, given: Assumption, change: Callable[[str, str, Value], None], failed: Callable[[Exception], None]
) -> ipywidgets.Text:
    import ipywidgets

    unit = f" [{given.unit}]" if given.unit else ""
    field = ipywidgets.Text(
        value="" if given.value is None else visible(_typed(given.value)),
        description=f"{label(given.name)}{unit}",
        tooltip=f"{given.name}: from {visible(given.source, 200)}",
        continuous_update=False,
        style={"description_width": "auto"},
        layout=ipywidgets.Layout(width="98%"),
    )

    def changed(event: dict[str, Any]) -> None:
        try:
            change(id, given.name, read_value(event["new"], given.value))
        except Exception as error:
            failed(error)

    field.observe(changed, names="value")
    return field


def _typed(value: Value) -> str:
    return number(value, 6).rstrip("0").rstrip(".") if isinstance(value, float) else number(value)
