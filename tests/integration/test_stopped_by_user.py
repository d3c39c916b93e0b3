"""Ctrl-C, sent as a real SIGINT to a real process: what was seen by then is ranked, shown, saved, and said to be partial."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from programs import ROOT_OF_PROJECT as ROOT
from real_sshd import Sshd, descendants

import diag_kit as dk
from diag_kit.errors import Cancelled
from diag_kit.observe.disk import Iostat
from diag_kit.observe.jobs import TrainingJobs
from diag_kit.observe.memory import Memory
from diag_kit.observe.probe import as_far_as_it_came
from diag_kit.progress import STOPPED, WHOLE_AGAIN, Progress, stopped_early
from diag_kit.records import CommandResult, Fact, Observation, Parsed, Verification
from diag_kit.show.text import screen
from diag_kit.sweep import observe_together


def stopped(*arguments: str, after_s: float = 2.0, **environment: str) -> tuple[int, str, str]:
    """Run the command line until its window has begun, wait a little, press Ctrl-C: exit status and both outputs."""
    process = subprocess.Popen(
        [sys.executable, "-m", "diag_kit", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    timer = threading.Timer(after_s, process.send_signal, (signal.SIGINT,))
    try:
        assert process.stderr is not None
        said = ""
        if "--json" not in arguments:  # which prints no progress
            while "looking at memory" not in said:
                said += process.stderr.readline()
        timer.start()
        out, err = process.communicate(timeout=60)
        return process.returncode, out, said + err
    finally:
        timer.cancel()
        process.kill()


def test_ctrl_c_prints_what_was_seen() -> None:
    begun = time.monotonic()
    status, out, err = stopped("diagnose", "local", "--seconds", "60")
    assert time.monotonic() - begun < 40, "it must not wait for the end of the window"
    assert status == 130
    assert "Traceback" not in out + err
    assert out.splitlines()[2] == f"!! {STOPPED}"
    assert "training_jobs: no training is running" in out or "torchrun" in out
    assert "partial" in err


def test_ctrl_c_saves_what_was_seen_and_the_recording_says_that_it_is_partial(tmp_path: Path) -> None:
    case = tmp_path / "case.diag.zip"
    status, out, err = stopped("record", "local", "--seconds", "60", "-o", str(case))
    assert status == 130, err
    assert "wrote" in out and " kB;" in out
    opened = dk.Investigation.open(case)
    assert opened.partial and opened.findings.partial
    assert {"training_jobs", "memory"} <= {seen.probe for seen in opened.evidence.observations}
    assert STOPPED in opened.postmortem(tmp_path / "case.md").read_text("utf-8")
    again = dk.Investigation(dk.replay(str(case)))
    assert again.diagnose().partial and again.partial
    assert f"!! {STOPPED}" in screen(again) and repr(again.findings).startswith(f"!! {STOPPED}")


def test_ctrl_c_keeps_standard_output_one_json_object() -> None:
    for after_s in (4.0, 12.0, 40.0):  # it says nothing meanwhile; a busy machine may still be loading it
        status, out, err = stopped("diagnose", "local", "--seconds", "60", "--json", after_s=after_s)
        assert status == 130 and "Traceback" not in err
        if out:
            break
    report = json.loads(out)
    assert report["partial"] and report["warnings"] == [STOPPED]


@pytest.mark.needs("sshd")
def test_ctrl_c_ends_what_runs_on_the_host(sshd: Sshd) -> None:
    assert sshd.process is not None
    before = set(descendants(sshd.process.pid))
    begun = time.monotonic()
    status, out, err = stopped("diagnose", "trainbox", "--seconds", "60", DIAG_KIT_SSH_CONFIG=str(sshd.config))
    assert time.monotonic() - begun < 40
    assert (status, "Traceback" in out + err) == (130, False), err
    assert out.splitlines()[2] == f"!! {STOPPED}"
    until = time.monotonic() + 10
    while (left := set(descendants(sshd.process.pid)) - before) and time.monotonic() < until:
        time.sleep(0.2)
    assert not left, "the window's commands must not go on"


class Host:
    """Answers at once, but for the window probe, in which the user presses Ctrl-C (``main``) or Cancel."""

    kind, about, name = "local", "", "here"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def run(self, script: str, *arguments: str, stop: threading.Event | None = None, **_: object) -> CommandResult:
        self.asked.append(script)
        assert stop is not None
        if "iostat" in script:
            assert stop.wait(20)
            return result(b"", None)
        return result(b"nothing\n", 0)

    def close(self) -> None: ...


def result(stdout: bytes, exit_status: int | None) -> CommandResult:
    from datetime import UTC, datetime

    return CommandResult("here", "sh", stdout, b"", exit_status, datetime(2026, 3, 2, tzinfo=UTC), 0.1)


def test_a_cancel_enters_what_has_ended_and_drops_the_rest() -> None:
    inv = dk.Investigation(Host())
    inv.subscribe(lambda event: inv.cancel() if isinstance(event, Progress) and event.done and event.doing == "memory" else None)
    with pytest.raises(Cancelled):
        observe_together(inv, (Iostat(seconds=20), Memory()))
    assert [seen.probe for seen in inv.evidence.observations] == ["memory"]


def test_a_cancel_anywhere_leaves_findings_and_the_next_diagnosis_is_whole() -> None:
    inv = dk.Investigation(dk.replay("unsharded-two-gpus"))

    def press(event: object) -> None:
        if isinstance(event, Observation) and event.probe == "training_jobs":
            raise KeyboardInterrupt

    ending = inv.subscribe(press)
    found = inv.diagnose()
    ending()
    assert found and found.partial and inv.partial
    assert not inv.stop.is_set(), "what the user asks for next must run"
    assert not inv.diagnose().partial
    assert not inv.partial and screen(inv).count(STOPPED) == 0
    assert any(getattr(entry, "text", "") == WHOLE_AGAIN for entry in inv.entries)
    assert not stopped_early(inv.entries)


def test_ctrl_c_during_the_deciding_test_keeps_the_findings() -> None:
    inv = dk.Investigation(dk.replay("unsharded-two-gpus"))

    def press(event: object) -> None:
        if isinstance(event, Verification):
            raise KeyboardInterrupt

    inv.subscribe(press)
    found = inv.diagnose()
    assert found.partial and found[0].cause == "data.dup_no_sampler"


@pytest.mark.parametrize(
    ("parameters", "facts", "problem"),
    [
        ({"seconds": 20.0}, 1, "what came until then is kept"),  # samples are samples, however many
        ({"pid": None}, 0, "the raw output is kept and was not read"),  # half of a list passes for all of it
    ],
)
def test_what_a_stop_cut_short(parameters: dict[str, object], facts: int, problem: str) -> None:
    seen = Observation(
        TrainingJobs.name, parameters, "", (result(b"half", None),), Parsed("s", (Fact("world_size", 2, "counted"),))
    )
    cut = as_far_as_it_came(seen)
    assert len(cut.facts) == facts and problem in cut.parsed.problems[-1]
    whole = dataclasses.replace(seen, results=(result(b"all", 0),))
    assert as_far_as_it_came(whole) is whole
    with pytest.raises(Cancelled):
        as_far_as_it_came(dataclasses.replace(seen, results=(result(b"", None),)))
