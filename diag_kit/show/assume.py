"""The fields of a calculation's assumptions: change one and a new calculation supersedes the old."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from diag_kit.calculate.calculator import all_calculators
from diag_kit.errors import BadInput
from diag_kit.records import Assumption, Calculation, Value
from diag_kit.show.format import number, visible
from diag_kit.show.html import trouble
from diag_kit.show.summary import label
from diag_kit.show.work import trouble_of

if TYPE_CHECKING:
    import ipywidgets

TRUE = {"yes", "true"}
FALSE = {"no", "false"}


def changeable(made: Calculation) -> tuple[Assumption, ...]:
    """What the calculation's calculator lets one set: the value assumed, or set by hand before, or None (as observed)."""
    maker = all_calculators().get(made.calculator)
    names = [field.name for field in dataclasses.fields(maker)] if maker else list(made.parameters)
    stated = {each.name: each for each in made.assumptions}
    by_hand = {name: value for name, value in made.parameters.items() if value is not None}
    return tuple(
        stated.get(name) or Assumption(name, by_hand.get(name), "set by hand" if name in by_hand else "the evidence")
        for name in names
    )


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


Change = Callable[[str, str, Value], None]


def fields(made: Calculation, change: Change) -> ipywidgets.VBox | None:
    """A box with a field per assumption, or None when nothing can be changed.

    ``change(id, name, value)`` is called on Enter or on leaving a field; what it raises is said below the fields.
    """
    import ipywidgets

    given = changeable(made)
    if not given:
        return None
    said = ipywidgets.HTML()
    hint = ipywidgets.HTML("Change an assumption, press Enter; empty: as observed")
    box = ipywidgets.VBox([hint, *(_field(made.id, each, change, said) for each in given), said])
    box.add_class("dk-fields")
    return box


def _field(id: str, given: Assumption, change: Change, said: ipywidgets.HTML) -> ipywidgets.Text:
    import ipywidgets

    unit = f" [{given.unit}]" if given.unit else ""
    field = ipywidgets.Text(
        value="" if given.value is None else _typed(given.value),
        description=f"{label(given.name)}{unit}",
        placeholder="as observed",
        tooltip=f"{given.name}, from {visible(given.source, 200)}; empty: as observed",
        continuous_update=False,
        style={"description_width": "auto"},
        layout=ipywidgets.Layout(width="98%"),
    )

    def changed(event: dict[str, Any]) -> None:
        try:
            change(id, given.name, read_value(event["new"], given.value))
            said.value = ""
        except Exception as error:
            said.value = str(trouble(trouble_of(error)))

    field.observe(changed, names="value")
    return field


def _typed(value: Value) -> str:
    if isinstance(value, float):
        shown = number(value, 6)
        return shown.rstrip("0").rstrip(".") if "." in shown else shown
    return number(value)


TELLABLE = {
    "steps/s that one GPU alone does": ("one_gpu_steps_per_s", "steps/s"),
    "bandwidth between GPUs, one way": ("link_gb_per_s", "GB/s"),
    "parameters": ("parameters", ""),
    "trainable parameters": ("trainable_parameters", ""),
    "bytes of the whole dataset": ("dataset_bytes", "bytes"),
    "samples of the whole dataset": ("dataset_samples", "samples"),
    "ranks (world size)": ("world_size", "ranks"),
    "batch size of a rank": ("batch_size_per_rank", "samples"),
    "accumulation steps": ("accumulation_steps", "steps"),
}
"""What the host cannot show and a person may know: the question, the fact's name, its unit."""


def tell_row(told: Callable[[str, Value, str], None]) -> ipywidgets.VBox:
    """Choose what you know, type the number, press the button: ``told(name, value, unit)`` enters it as a fact."""
    import ipywidgets

    which = ipywidgets.Dropdown(options=list(TELLABLE), description="You know", layout=ipywidgets.Layout(width="330px"))
    value = ipywidgets.Text(placeholder="a number", layout=ipywidgets.Layout(width="120px"))
    unit = ipywidgets.HTML(TELLABLE[which.value][1])
    button = ipywidgets.Button(
        description="Tell", tooltip="Enter it as a fact told by you, and compute again", layout=ipywidgets.Layout(width="auto")
    )
    said = ipywidgets.HTML()

    def tell(_: object) -> None:
        name, its_unit = TELLABLE[which.value]
        try:
            number_told = read_value(value.value, None)
            if number_told is None:
                raise BadInput("no number was typed", next_step="type the number, then press Tell")
            told(name, number_told, its_unit)
            said.value, value.value = "", ""
        except Exception as error:
            said.value = str(trouble(trouble_of(error)))

    def chosen(_: object) -> None:
        unit.value = TELLABLE[which.value][1]

    button.on_click(tell)
    which.observe(chosen, names="value")
    line = ipywidgets.HBox([which, value, unit, button], layout=ipywidgets.Layout(flex_flow="row wrap"))
    return ipywidgets.VBox([line, said])
