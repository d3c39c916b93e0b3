"""Profilers' tables, as each prints them: other values and shapes than anybody's case."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from diag_kit.hosts.kinds import kind_of
from diag_kit.observe.profile_text import Profile, read_profile, seconds
from diag_kit.observe.profiles import Profiles
from diag_kit.records import CommandResult, Parsed

TORCH = """\
----------------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------
                  Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg     Self CUDA    # of Calls
----------------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------
 cudaDeviceSynchronize        40.00%       2.000ms        40.00%       2.000ms       1.000ms       0.000us             2
       ProfilerStep* 1        10.00%     500.000us       100.00%       5.000ms       2.500ms            --             2
----------------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------
Self CPU time total: 5.000ms
Self CUDA time total: 1.250ms
"""
LIGHTNING = """\
Profiler Report

Action                |
|  Action             |  Mean duration (s)\t|  Num calls\t|  Total time (s) \t|  Percentage %   \t|
----------------------------------------------------------------------
|  Total              |  -              \t|  7          \t|  4.5            \t|  100 %          \t|
|  train_dataloader_next|  0.75      \t|  4          \t|  3.0            \t|  66.667         \t|
"""
CPROFILE = """\
         197 function calls (192 primitive calls) in 0.250 seconds

   Ordered by: cumulative time

   ncalls  tottime  percall  cumtime  percall filename:lineno(function)
      4/1    0.020    0.005    0.250    0.250 train.py:12(step)
"""
TIMERS = """\
Average execution time over 5 steps:
  Waiting for batch (5/5):   mean:  1.5s    std:  20ms
  Forward (5/5):             mean:  400ms   std:  3ms
  Backward (5/5):            mean:  100ms   std:  1ms
"""


def read(text: str) -> Parsed:
    result = CommandResult("files", "cat a.txt", text.encode(), b"", 0, datetime(2024, 1, 1, tzinfo=UTC), 0.0)
    return Profiles().read((result,))


def facts(parsed: Parsed) -> dict[str, object]:
    return {fact.name: fact.value for fact in parsed.facts}


def test_torch():
    parsed = read(TORCH)
    rows = parsed.tables["profile"].to_dict("records")
    assert [(row["name"], row["calls"], row["mean_ms"], row["share"]) for row in rows] == [
        ("cudaDeviceSynchronize", 2, 1.0, 0.4),
        ("ProfilerStep* 1", 2, 2.5, 0.1),
    ]
    assert (
        rows[1]["total_s"] == 0.005 and rows[0]["device_self_s"] == 0.0 and rows[1]["device_self_s"] != rows[1]["device_self_s"]
    )
    assert facts(parsed) == {
        "profile_self_cpu_s": 0.005,
        "profile_self_device_s": 0.00125,
        "profile_sync_s": 0.002,
        "profile_sync_calls": 2,
        "profile_ms_per_sync": 2.5,
        "profile_sync_share": 0.4,
        "profile_top": "cudaDeviceSynchronize",
        "profile_top_share": 0.4,
    }
    assert parsed.not_understood == ()


def test_lightning_lists_what_is_no_row():
    parsed = read(LIGHTNING)
    rows = parsed.tables["profile"].to_dict("records")
    assert [(row["name"], row["calls"], row["total_s"]) for row in rows] == [("Total", 7, 4.5), ("train_dataloader_next", 4, 3.0)]
    assert rows[1]["mean_ms"] == 750.0 and rows[1]["share"] == 0.66667
    assert facts(parsed)["profile_total_s"] == 4.5
    assert [each.text for each in parsed.not_understood] == ["Action                |"]


def test_cprofile_and_timers():
    row = read(CPROFILE).tables["profile"].to_dict("records")[0]
    assert (row["calls"], row["self_s"], row["total_s"], row["name"]) == (4, 0.02, 0.25, "train.py:12(step)")
    assert facts(read(CPROFILE)) == {"profile_total_s": 0.25}
    parsed = read(TIMERS)
    assert facts(parsed) == {"profile_phases_ms": 2000.0, "profile_top": "Waiting for batch", "profile_top_share": 0.75}
    assert parsed.tables["profile"]["std_ms"].tolist() == [20.0, 3.0, 1.0]


@pytest.mark.parametrize("text", [TORCH, LIGHTNING[LIGHTNING.index("|  Action") :], CPROFILE, TIMERS])
def test_told_from_its_content(text):
    assert kind_of(text.encode()) == "profile"


@pytest.mark.parametrize("text", ["Loss: mean: 0.5 std: 0.1\nLoss: mean: 0.4 std: 0.1\n", "epoch 1: mean: 3s\n"])
def test_statistics_of_a_loss_are_no_profile(text):
    assert kind_of(text.encode()) != "profile"


@pytest.mark.parametrize(("text", "value"), [("1.5s", 1.5), ("12us", 1.2e-5), ("--", None), ("1.2.3ms", None), ("9" * 40, None)])
def test_a_duration_has_a_unit(text, value):
    assert seconds(text) == pytest.approx(value) if value is not None else seconds(text) is None


@pytest.mark.parametrize(
    "text", ["|" * 200_000, "a: mean: " * 50_000, TORCH[:500] + " x" * 300_000, "1/" * 100_000, ": \t" * 90_000]
)
def test_hostile_text_is_read_in_time(text):
    began = time.process_time()
    read_profile(Profile(), TORCH + text + "\n" + LIGHTNING + text, "x")
    assert time.process_time() - began < 2.0
