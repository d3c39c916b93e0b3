"""The shipped recordings, diagnosed as a user would: the numbers and verdicts that the project stands for."""

from __future__ import annotations

import json

import pytest

import diag_kit as dk
from diag_kit.cli import main


def diagnose(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert main(["diagnose", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def calculation(report, name):
    """The standing calculation of that name."""
    gone = {each["supersedes"] for each in report["calculations"]}
    return next(each for each in report["calculations"] if each["name"] == name and each["id"] not in gone)


def test_the_founding_case(capsys):
    report = diagnose(capsys, "eagle3-35h")
    assert report["about"] == "recorded (reconstruction)"
    first, second = report["findings"][:2]
    assert {first["cause"], second["cause"]} == {"data.dup_no_sampler", "data.same_order"}
    assert "own or same order: undecided" in first["claim"]
    assert (first["status"], second["status"]) == ("supported", "supported")
    numbers = first["numbers"]
    assert (numbers["train_samples"], numbers["batches_per_epoch"], numbers["printing_ranks"]) == (35446, 35446, 4)
    assert numbers["steps_done"] == 187
    for name, value, low, high in (
        ("step_rate", 1.4, 1.333, 1.467),
        ("run_hours", 35.16, 33.57, 36.92),
        ("run_hours_if_split", 8.79, 8.39, 9.23),
        ("hours_won_if_split", 26.37, 25.17, 27.69),
        ("read_gb_per_s_needed", 0.690, 0.657, 0.723),
    ):
        found = calculation(report, name)
        assert found["value"] == pytest.approx(value, rel=2e-3), name
        assert found["interval"] == pytest.approx([low, high], rel=2e-3), name
        assert found["level"] == 0.95
    assert first["hours_won"] == pytest.approx([25.17, 27.69], rel=1e-3)
    assert calculation(report, "start_up_s")["value"] == pytest.approx(136.6, abs=0.5)


def test_the_founding_case_names_the_second_fault_and_what_stays_blind(capsys):
    report = diagnose(capsys, "eagle3-35h")
    causes = {each["cause"]: each for each in report["findings"]}
    assert "one GPU 6" in " ".join(reason["text"] for reason in causes["data.dup_no_sampler"]["for"])
    storage = causes["io.slow_storage"]
    assert storage["status"] == "refuted"
    said = " ".join(reason["text"] for reason in storage["against"])
    assert "this window" in said and "0.69 GB/s" in said and "network mount" in said
    busy = " ".join(reason["text"] for reason in causes["comm.bound"]["for"])
    assert "250 W of 600 W" in busy and "not busy" in busy
    assert "confirmed" not in {each["status"] for each in report["findings"]}


@pytest.mark.parametrize(
    ("recording", "cause", "status"),
    [
        ("unsharded-two-gpus", "data.dup_no_sampler", "confirmed"),
        ("same-order-two-gpus", "data.same_order", "confirmed"),
        ("sharded-two-gpus", "healthy", "supported"),
    ],
)
def test_real_trainings_on_two_gpus(capsys, recording, cause, status):
    report = diagnose(capsys, recording)
    assert report["about"] == "recorded"
    assert (report["findings"][0]["cause"], report["findings"][0]["status"]) == (cause, status)
    assert calculation(report, "printing_ranks")["value"] == 2


def test_a_split_run_wins_no_hours_and_is_not_called_unsplit(capsys):
    report = diagnose(capsys, "sharded-two-gpus")
    states = {each["cause"]: each["status"] for each in report["findings"]}
    assert states["data.dup_no_sampler"] == states["data.same_order"] == "refuted"


def test_a_recording_answers_with_the_window_that_it_holds() -> None:
    """The board's Run button asks for another number of seconds than was recorded; a different question stays refused."""
    inv = dk.Investigation(dk.replay("unsharded-two-gpus"))
    inv.observe(dk.observe.training_jobs())
    seen = inv.observe(dk.observe.opened_files(seconds=6))
    assert seen.ok
    assert seen.parameters["seconds"] == 8
    assert not inv.observe(dk.observe.grep_count("no such pattern")).ok
