"""Small records and strategies that the tests of recording share."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
from hypothesis import strategies as st

from diag_kit.hosts.protocol import render
from diag_kit.records import (
    Assumption,
    Calculation,
    CommandResult,
    Cost,
    Fact,
    HoursWon,
    Hypothesis,
    Interval,
    Note,
    NotUnderstood,
    Observation,
    Parsed,
    Reason,
    Status,
    Verification,
)

NOON = datetime(2026, 11, 30, 12, 0, 0, 250000, tzinfo=UTC)
LIST_JOBS = "for d in /proc/[0-9]*; do tr '\\0' ' ' < \"$d/cmdline\"; done"
GREP = 'grep -c -e "$1" -- "$2"'


def result(
    script: str = "uptime",
    *arguments: str,
    out: bytes = b"ok\n",
    host: str = "trainbox",
    after_s: float = 0.0,
    **more: Any,
) -> CommandResult:
    fields: dict[str, Any] = {"stderr": b"", "exit_status": 0, "duration_s": 0.01} | more
    return CommandResult(
        host=host,
        command=render(script, arguments),
        stdout=out,
        started=NOON + timedelta(seconds=after_s),
        **fields,
    )


def metrics() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "rank": pd.array([0, 1, None], dtype="Int64"),
            "host": pd.Series(["trainbox", "trainbox", None], dtype="str"),
            "t": pd.to_datetime(["2026-11-30T12:00:00.000001Z", None, "1969-12-31T23:59:59Z"], format="ISO8601").astype(
                "datetime64[us, UTC]"
            ),
            "epoch": pd.array([0.1, float("nan"), None], dtype="Float64"),
            "loss": [2.5, float("nan"), float("inf")],
            "readable": pd.array([True, None, False], dtype="boolean"),
            "split": pd.Categorical(["train", "val", "train"], categories=["train", "val"], ordered=True),
        }
    )


def observation(*results: CommandResult, **parsed: Any) -> Observation:
    fields: dict[str, Any] = {
        "summary": "3 records",
        "facts": (Fact("batches_per_epoch", 35446, "train.log line 12"), Fact("base_lr", 1e-4, "line 3")),
        "tables": {"metrics": metrics()},
        "not_understood": (NotUnderstood("line 7", "???", "no number"),),
        "problems": ("iostat is not installed",),
    } | parsed
    return Observation("log_metrics", {"path": None, "lines": (1, 2)}, "grep loss LOG", results, Parsed(**fields), id="O1")


def ledger() -> tuple[Any, ...]:
    return (
        observation(result(out=b"\x00\xff raw bytes\n"), result("false", exit_status=None, timed_out=True, truncated=True)),
        Calculation(
            "run_hours",
            "steps / rate",
            35.2,
            "h",
            ("O1",),
            Interval(33.1, 37.4),
            (Assumption("epochs", 10, "assumed"),),
            "projection",
            {"epochs": 10},
            "C0",
            "",
            "C1",
        ),
        Calculation("step_time", "cannot be known", None, "s/step", note="too few steps", id="C2"),
        Hypothesis(
            "data.dup_no_sampler",
            "whole dataset",
            "each rank reads all",
            Status.SUPPORTED,
            (Reason("35446 = 35446", ("O1",)),),
            (),
            {"hours": 26.4, "split": False},
            HoursWon(25.2, 27.7, "by C1"),
            "a sampler",
            "opened_files",
            "H1",
        ),
        Verification(
            "data.dup_no_sampler", "overlap", {"split": "0", "own order": "0.25"}, "0.24", Status.CONFIRMED, "near", ("O1",)
        ),
        Note("told: epochs = 10", NOON),
    )


def same_frames(left: pd.DataFrame, right: pd.DataFrame) -> None:
    """Equal in values, dtypes, columns and index; NaN and NA are told apart."""
    pd.testing.assert_frame_equal(left, right, check_exact=True)
    assert [str(dtype) for dtype in left.dtypes] == [str(dtype) for dtype in right.dtypes]
    assert left.isna().equals(right.isna())


def same_entries(left: tuple[Any, ...], right: tuple[Any, ...]) -> None:
    """Equal entry by entry; frames by content."""
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        if not isinstance(one, Observation):
            assert one == other
            continue
        assert (one.id, one.probe, one.parameters, one.equivalent, one.cost) == (
            other.id, other.probe, other.parameters, other.equivalent, other.cost,
        )  # fmt: skip
        assert one.results == other.results
        assert (one.parsed.summary, one.parsed.facts, one.parsed.not_understood, one.parsed.problems) == (
            other.parsed.summary, other.parsed.facts, other.parsed.not_understood, other.parsed.problems,
        )  # fmt: skip
        assert list(one.parsed.tables) == list(other.parsed.tables)
        for name, table in one.parsed.tables.items():
            same_frames(table, other.parsed.tables[name])


# Strategies

moments = st.datetimes(datetime(1970, 1, 2), datetime(2100, 1, 1), timezones=st.just(UTC))
texts = st.text(max_size=30)
floats = st.floats(allow_nan=False)  # NaN is not equal to itself; it has its own test
values = st.none() | st.booleans() | st.integers() | floats | texts
plain = st.recursive(values, lambda inner: st.lists(inner, max_size=3).map(tuple) | st.dictionaries(texts, inner, max_size=3))
ids = st.lists(texts, max_size=3).map(tuple)
results = st.builds(
    CommandResult,
    host=texts,
    command=texts,
    stdout=st.binary(max_size=60),
    stderr=st.binary(max_size=20),
    exit_status=st.none() | st.integers(0, 255),
    started=moments,
    duration_s=st.floats(0, 1e6),
    truncated=st.booleans(),
    timed_out=st.booleans(),
)
facts = st.builds(Fact, name=texts, value=values, source=texts, unit=texts)
frames = st.builds(
    lambda rows: pd.DataFrame(
        {
            "rank": pd.array([row[0] for row in rows], dtype="Int64"),
            "loss": pd.array([row[1] for row in rows], dtype="Float64"),
            "lr": pd.Series([row[2] for row in rows], dtype="float64"),
            "file": pd.Series([row[3] for row in rows], dtype="str"),
            "t": pd.Series(pd.to_datetime([row[4] for row in rows], utc=True)).astype("datetime64[us, UTC]"),
            "pid": pd.Series([row[5] for row in rows], dtype="int64"),
        }
    ),
    st.lists(
        st.tuples(
            st.none() | st.integers(-(2**63), 2**63 - 1),
            st.none() | st.floats(),
            st.floats(),
            st.none() | texts,
            st.none() | moments,
            st.integers(-(2**63), 2**63 - 1),
        ),
        max_size=6,
    ),
)
observations = st.builds(
    Observation,
    probe=texts,
    parameters=st.dictionaries(texts, plain, max_size=3),
    equivalent=texts,
    results=st.lists(results, max_size=3).map(tuple),
    parsed=st.builds(
        Parsed,
        summary=texts,
        facts=st.lists(facts, max_size=3).map(tuple),
        tables=st.dictionaries(texts, frames, max_size=2),
        not_understood=st.lists(st.builds(NotUnderstood, where=texts, text=texts, why=texts), max_size=2).map(tuple),
        problems=ids,
    ),
    cost=st.sampled_from(Cost),
    id=texts,
)
reasons = st.lists(st.builds(Reason, text=texts, ids=ids), max_size=2).map(tuple)
numbers = st.dictionaries(texts, values, max_size=3)
others = st.one_of(
    st.builds(
        Calculation,
        name=texts,
        formula=texts,
        value=values,
        unit=texts,
        inputs=ids,
        interval=st.none() | st.builds(Interval, low=floats, high=floats, level=st.floats(0, 1)),
        assumptions=st.lists(st.builds(Assumption, name=texts, value=values, source=texts, unit=texts), max_size=2).map(tuple),
        parameters=numbers,
    ),
    st.builds(
        Hypothesis,
        cause=texts,
        title=texts,
        claim=texts,
        status=st.sampled_from(Status),
        evidence_for=reasons,
        evidence_against=reasons,
        numbers=numbers,
        hours_won=st.none() | st.builds(HoursWon, low=floats, high=floats, how=texts, total_hours=st.none() | floats),
    ),
    st.builds(
        Verification,
        cause=texts,
        test=texts,
        predicted=st.dictionaries(texts, texts, max_size=3),
        measured=texts,
        verdict=st.sampled_from(Status),
        reason=texts,
        inputs=ids,
        numbers=numbers,
    ),
    st.builds(Note, text=texts, at=moments),
)
entries = st.one_of(observations, others)
