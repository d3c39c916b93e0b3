"""Records and tables come back from JSON as they went in; what is malformed is named by file and line."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recording_cases import NOON, entries, frames, ledger, metrics, observation, result, same_entries, same_frames

from diag_kit.errors import BadInput
from diag_kit.recording_codec import dump_line, entry_from_json, entry_to_json, from_json, load_lines, to_json
from diag_kit.recording_tables import table_from_bytes, table_to_bytes
from diag_kit.records import Calculation, CommandResult, Fact, Note


def through_json(entry: Any) -> Any:
    members: dict[str, bytes] = {}
    ((document, where),) = load_lines(dump_line(entry_to_json(entry, members)), "ledger.jsonl")
    return entry_from_json(document, members, where)


@given(entries)
@settings(max_examples=150, deadline=None)
def test_any_entry_comes_back_equal(entry: Any) -> None:
    same_entries((entry,), (through_json(entry),))


@given(frames)
@settings(max_examples=100, deadline=None)
def test_any_table_comes_back_with_its_dtypes(frame: pd.DataFrame) -> None:
    same_frames(frame, table_from_bytes(table_to_bytes(frame), "t"))


def test_the_ledger_of_every_record_type_comes_back() -> None:
    same_entries(ledger(), tuple(through_json(entry) for entry in ledger()))


def test_not_a_number_and_infinity_survive_and_stay_apart_from_missing() -> None:
    fact = through_json(observation(facts=(Fact("x", float("nan"), "s"), Fact("y", float("-inf"), "s")))).facts
    assert math.isnan(fact[0].value) and fact[1].value == -math.inf
    back = table_from_bytes(table_to_bytes(metrics()), "t")
    assert back["epoch"].isna().tolist() == metrics()["epoch"].isna().tolist()
    assert math.isnan(back["loss"][1]) and back["loss"][2] == math.inf


def test_nan_and_missing_stay_apart_in_a_nullable_column() -> None:
    column = pd.arrays.FloatingArray(np.array([math.nan, 1.0, 0.0]), np.array([False, False, True]))
    back = table_from_bytes(table_to_bytes(pd.DataFrame({"x": pd.Series(column)})), "t")["x"]
    assert back.astype(object)[2] is pd.NA and isinstance(back.astype(object)[0], float) and math.isnan(back.astype(object)[0])


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame(),
        pd.DataFrame({"a": pd.Series([], dtype="Int64")}),
        pd.DataFrame({"a": [1, 2]}, index=[5, 7]),
        pd.DataFrame({"a": [1, 2]}, index=pd.Index(["x", "y"], name="device")),
        pd.DataFrame({"a": [1.5]}, index=pd.to_datetime(["2026-11-30T12:00Z"])),
        pd.DataFrame({"mixed": pd.Series([1, "a", None, 2.5, True], dtype=object)}),
        pd.DataFrame({"d": pd.to_timedelta([1, None], unit="s").astype("timedelta64[ms]")}),
        pd.DataFrame({"t": pd.to_datetime(["2026-11-30", None]).astype("datetime64[ns]")}),
        pd.DataFrame({"t": pd.to_datetime(["2026-11-30T12:00Z"]).tz_convert("Europe/Berlin")}),
        pd.DataFrame({"s": pd.array(["a", None], dtype=pd.StringDtype("python"))}),
        pd.DataFrame({"f": pd.Series([1.5, None], dtype="float32"), "u": pd.Series([1, 2], dtype="uint8")}),
        pd.DataFrame([[1, 2]], columns=["same", "same"]),
    ],
    ids=lambda frame: "+".join(map(str, frame.dtypes)) or "empty",
)
def test_tables_of_other_shapes(frame: pd.DataFrame) -> None:
    back = table_from_bytes(table_to_bytes(frame), "t")
    pd.testing.assert_frame_equal(back, frame, check_exact=True, check_index_type=False, check_column_type=len(frame.columns) > 0)


def test_unknown_keys_are_ignored_and_missing_ones_take_their_default() -> None:
    document = {"type": "Calculation", "name": "step_rate", "formula": "n / t", "value": 1.4, "unit": "steps/s", "new": {"a": 1}}
    assert entry_from_json(document, {}, "line 1") == Calculation("step_rate", "n / t", 1.4, "steps/s")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"type": "Comment"}, "unknown type 'Comment'"),
        ({"type": None}, "unknown type"),
        ({"value": [1]}, "value"),
        ({"unit": 3}, "unit: expected text, got int"),
        ({"inputs": "O1"}, "inputs: expected a list, got str"),
        ({"inputs": [1]}, "inputs[0]: expected text"),
        ({"interval": {"low": "a", "high": 1}}, "interval.low: expected a number, got str"),
        ({"interval": {"low": 1}}, "interval.high is missing"),
        ({"name": ...}, "name is missing"),
        ({"parameters": [1]}, "parameters: expected an object"),
    ],
)
def test_a_malformed_entry_names_file_line_and_place(change: dict[str, Any], says: str) -> None:
    document = {"type": "Calculation", "name": "a", "formula": "b", "value": 1, "unit": "h"} | change
    document = {key: value for key, value in document.items() if value is not ...}
    with pytest.raises(BadInput) as caught:
        entry_from_json(document, {}, "case.diag.zip: ledger.jsonl line 3")
    assert says in caught.value.what
    assert caught.value.where == "case.diag.zip: ledger.jsonl line 3"


def test_a_line_that_is_not_json_is_named() -> None:
    with pytest.raises(BadInput) as caught:
        load_lines(b'{"a": 1}\n\n{"b": \n', "ledger.jsonl")
    assert caught.value.where == "ledger.jsonl line 3"


@pytest.mark.parametrize("deep", [b"[" * 100_000, b'{"a":' * 100_000])
def test_a_deeply_nested_line_is_refused(deep: bytes) -> None:
    with pytest.raises(BadInput, match="malformed"):
        load_lines(deep, "ledger.jsonl")


def test_a_reference_to_bytes_that_are_not_there_is_refused() -> None:
    document = to_json(result(), {})
    with pytest.raises(BadInput, match="does not hold"):
        from_json(CommandResult, document, {}, "commands.jsonl line 1")


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "type",
                        "name",
                        "value",
                        "results",
                        "parsed",
                        "tables",
                        "float",
                        "time",
                        "blob",
                        "table",
                        "mapping",
                        "rows",
                        "columns",
                        "dtype",
                        "values",
                    ]
                ),
                inner,
                max_size=5,
            )
        ),
    )
)
@settings(max_examples=200, deadline=None)
def test_any_json_is_either_an_entry_or_refused(document: Any) -> None:
    for kind in ("Observation", "Calculation", "Note"):
        try:
            entry_from_json({**document, "type": kind} if isinstance(document, dict) else document, {}, "line 1")
        except BadInput:
            pass
    try:
        table_from_bytes(json.dumps(document).encode(), "t")
    except BadInput:
        pass


def test_a_table_that_claims_other_rows_is_refused() -> None:
    for document in ({"rows": 10**9, "columns": []}, {"rows": 1, "columns": [{"name": "a", "dtype": "int64", "values": [1, 2]}]}):
        with pytest.raises(BadInput, match="malformed table"):
            table_from_bytes(json.dumps(document).encode(), "tables/x.json")


def test_what_cannot_be_saved_is_named() -> None:
    with pytest.raises(BadInput, match="without time zone"):
        entry_to_json(Note("x", NOON.replace(tzinfo=None)), {})
    with pytest.raises(BadInput, match="complex"):
        entry_to_json(Calculation("a", "b", 1j, ""), {})  # type: ignore[arg-type]
    odd = observation()
    assert through_json(type(odd)(odd.probe, {"path": Path("/a")}, "", (), odd.parsed)).parameters == {"path": "/a"}
