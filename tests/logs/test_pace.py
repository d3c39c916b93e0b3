"""What a log says of its own pace: means, shares, levels, the last state of its bar."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from diag_kit.observe.logs.metrics import LogMetrics
from diag_kit.records import CommandResult


def facts(text: str) -> dict[str, object]:
    result = CommandResult("files", "cat a.txt", text.encode(), b"", 0, datetime(2024, 1, 1, tzinfo=UTC), 0.0)
    return {fact.name: fact.value for fact in LogMetrics().read((result,)).facts}


def log(times: list[float], data: float | None = None, start: int = 0) -> str:
    waited = "" if data is None else f" data_time {data}"
    return "".join(f"step {start + n} loss 1.5 lr 0.001 step_time {each}{waited}\n" for n, each in enumerate(times))


def test_means_and_the_share_of_data():
    known = facts(log([0.5, 0.25, 0.75, 0.5], data=0.125, start=11))
    assert (known["first_step"], known["last_step"]) == (11, 14)
    assert [known[f"printed_step_{name}_s"] for name in ("mean", "median", "min", "max")] == [0.5, 0.5, 0.25, 0.75]
    assert known["printed_data_mean_s"] == 0.125 and known["printed_data_share"] == 0.25


def test_slow_steps_at_equal_distances():
    known = facts(log([2.0 if n % 6 == 5 else 0.5 for n in range(36)]))
    assert (known["slow_step_every"], known["slow_step_s"], known["other_step_s"]) == (6, 2.0, 0.5)
    assert known["slow_step_extra_share"] == pytest.approx(1.5 / 4.5, rel=1e-6)


def test_one_change_of_level():
    known = facts(log([0.5] * 13 + [1.25] * 9, start=100))
    assert (known["step_time_changes_at_step"], known["step_time_change_ratio"]) == (113, 2.5)
    assert (known["step_time_before_s"], known["step_time_after_s"]) == (0.5, 1.25)


def test_a_single_slow_step_has_no_distance():
    assert "slow_step_every" not in facts(log([0.5] * 20 + [9.0] + [0.5] * 20)) | facts(log([0.5 + 0.02 * n for n in range(9)]))


def test_steady_times_have_no_change():
    assert "step_time_change_ratio" not in facts(log([0.5, 0.51] * 20)) | facts(log([0.5] * 20 + [9.0] + [0.5] * 20))


def test_the_bar_that_took_longest():
    text = "Loading shards: 100%|####| 900/900 [00:03<00:00, 300.00it/s]\n 10%|#   | 7/70 [02:20<21:00, 20.00s/it, loss=2.5]\n"
    known = facts(text)
    assert (known["bar_n"], known["bar_total"], known["bar_elapsed_s"], known["bar_left_s"]) == (7, 70, 140.0, 1260.0)
    assert known["bar_s_per_step"] == 20.0
    assert "bar_n" not in facts(text.splitlines()[0])


def test_epochs_of_a_summary():
    text = "".join(
        f"DLL 2024-03-01 10:0{n}:00 - Epoch: {n} Summary train.time : {t}  train.data_time : {d}  train.loss : 2.5\n"
        for n, (t, d) in enumerate([(400.0, 300.0), (100.0, 5.0), (100.0, 4.0)])
    )
    known = facts(text)
    assert (known["first_epoch_s"], known["later_epochs_s"], known["first_epoch_ratio"]) == (400.0, 100.0, 4.0)
    assert (known["first_epoch_data_share"], known["last_epoch_data_share"]) == (0.75, 0.04)


def test_flushes_and_faults_of_the_device():
    text = (
        "[2024-03-01 10:00:00,123] [WARNING] [stage3.py:1850:step] 4 pytorch allocator cache flushes since last step. this\n"
        "HW Exception by GPU node-2 (Agent handle: 0x55) reason :GPU Hang\n"
        "HW Exception by GPU node-3 (Agent handle: 0x56) reason :GPU Hang\n"
    )
    known = facts(text)
    assert known["allocator_cache_flushes_per_step"] == 4
    assert (known["gpu_exceptions"], known["gpu_exception_reason"]) == (2, "GPU Hang")


@pytest.mark.parametrize(
    ("text", "known"),
    [
        (
            "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB (GPU 1; 15.75 GiB total capacity; "
            "12.00 GiB already allocated; 512.00 MiB free; 14.25 GiB reserved in total by PyTorch)",
            {"tried": 2560.0, "total": 16128.0, "allocated": 12288.0, "free": 512.0, "reserved": 14592.0},
        ),
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 64.00 MiB. GPU 3 has a total capacity of 39.50 GiB of "
            "which 8.25 MiB is free. Process 77 has 39.25 GiB memory in use. Of the allocated memory 30.00 GiB is allocated by "
            "PyTorch, and 256.00 MiB is reserved by PyTorch but unallocated.",
            {"tried": 64.0, "total": 40448.0, "allocated": 30720.0, "free": 8.25, "reserved_unused": 256.0},
        ),
    ],
)
def test_out_of_memory_in_both_wordings(text, known):
    said = facts(text + "\n")
    assert {name: value for name, value in said.items() if name.startswith("oom_")} == {
        f"oom_{k}_mib": v for k, v in known.items()
    }


def test_the_time_of_a_run_and_of_a_step_of_an_epoch():
    assert facts("Total training time: 1 day, 2:03:04 (0:00:05 on hooks)\n")["run_s"] == 93784.0
    assert facts("Training finished, total time taken: 0:10:30.5\n")["run_s"] == 630.5
    assert "run_s" not in facts("Total time: 126.42s\nTraining time limit is 1:00\n")
    assert facts("epoch 3 finished, 250 steps, took 100.0 s\n")["epoch_step_s"] == 0.4
