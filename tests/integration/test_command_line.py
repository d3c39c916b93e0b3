"""What a user mistypes is one sentence with the next step, and an exit status; never a traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from diag_kit.cli import main


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["diagnose", "eagle3-35h", "-o", "x.pdf"], 2, "end its name in .md or .html"),
        (["diagnose", "eagle3-35h", "--fact", "foo"], 2, "is not NAME=VALUE"),
        (["record", "local", "-o", "x.zip"], 2, "end its name in .diag.zip"),
        (["report", "nowhere.diag.zip", "-o", "a.md"], 2, "there is no recording"),
        (["diagnose", "127.0.0.1:1"], 1, "does not answer on port 1"),
        (["diagnose", "no-such-host.invalid"], 1, "cannot be resolved"),
    ],
)
def test_a_mistake_is_one_sentence(capsys, arguments, status, said):
    assert main(arguments) == status
    shown = capsys.readouterr()
    assert said in shown.err and "next:" in shown.err and "Traceback" not in shown.err


def test_an_empty_folder_and_a_folder_without_labels(capsys, tmp_path):
    assert main(["diagnose", str(tmp_path)]) == 2
    assert main(["score", str(tmp_path)]) == 2
    assert "holds no readable file" in capsys.readouterr().err


def test_a_missing_log_says_so_and_the_rest_is_still_shown(capsys):
    assert main(["diagnose", "local", "--log", "/nowhere/train.log", "--seconds", "1", "--json"]) == 1
    shown = capsys.readouterr()
    assert "/nowhere/train.log does not exist" in shown.err and "next:" in shown.err
    report = json.loads(shown.out)
    problems = {seen["probe"]: " ".join(seen["problems"]) for seen in report["observations"]}
    assert "/nowhere/train.log does not exist" in problems["log_metrics"]
    assert "--log PATH" in problems["log_metrics"]
    assert any(seen["probe"] == "memory" and seen["facts"] for seen in report["observations"])


def test_the_json_report_has_every_key(capsys):
    assert main(["diagnose", "eagle3-35h", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert {"question", "observations", "calculations", "findings", "not_understood", "version"} <= report.keys()
    for made in report["calculations"]:
        assert {"id", "name", "formula", "value", "unit", "interval", "level", "assumptions", "supersedes"} <= made.keys()
    for found in report["findings"]:
        keys = {"cause", "status", "claim", "for", "against", "numbers", "hours_won", "fix", "next_probe"}
        assert keys <= found.keys()


def test_record_report_and_replay(capsys, tmp_path):
    case = tmp_path / "case.diag.zip"
    assert main(["record", "unsharded-two-gpus", "-o", str(case)]) == 0
    assert main(["report", str(case), "-o", str(tmp_path / "postmortem.md")]) == 0
    assert main(["report", str(case), "-o", str(tmp_path / "postmortem.html")]) == 0
    assert "each rank trains on the whole dataset" in (tmp_path / "postmortem.md").read_text(encoding="utf-8")
    capsys.readouterr()
    assert main(["diagnose", str(case), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["findings"][0]["cause"] == "data.dup_no_sampler"


def test_the_list_of_probes(capsys):
    assert main(["probes"]) == 0
    names = {line.split()[0] for line in capsys.readouterr().out.splitlines()}
    assert {"training_jobs", "log_rate", "iostat", "gpus", "opened_files", "source"} <= names


def log_of(ranks: int, samples: int, length: int, batch: int) -> str:
    """A start-up line and 60 tagged steps, half a second apart."""
    lines = [f"world_size={ranks} per_device_batch_size={batch}", f"Train files: {samples}", f"Train batches/epoch: {length}"]
    lines.append(f"Total training steps: {5 * length}")
    for step in range(60):
        for rank in range(ranks):
            at = f"2026-03-02 09:00:{step // 2:02d},{500 * (step % 2) + rank:03d}"
            lines.append(f"[rank{rank}] {at} epoch 0 step {step} loss {3 - step / 100:.4f} lr {3e-8 * step:.3e}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("ranks", "samples", "batch", "times", "cause"),
    [
        (4, 9000, 1, 0, "data.dup_no_sampler"),
        (8, 8000, 2, 0, "data.dup_no_sampler"),
        (2, 5000, 4, 1, None),
        (8, 8000, 2, 1, None),
        (4, 16000, 1, 2, "data.double_shard"),
    ],
)
def test_pasted_logs(capsys, tmp_path: Path, ranks, samples, batch, times, cause):
    (tmp_path / "train.log").write_text(log_of(ranks, samples, samples // batch // ranks**times, batch), encoding="utf-8")
    assert main(["diagnose", str(tmp_path), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    claimed = {each["cause"] for each in report["findings"] if each["status"] in ("supported", "confirmed")}
    unsplit = {"data.dup_no_sampler", "data.same_order"}
    if cause is None:
        assert not claimed & (unsplit | {"data.double_shard"})
    else:
        assert report["findings"][0]["cause"] == cause
        assert cause in claimed
        if cause == "data.double_shard":
            assert not claimed & unsplit
