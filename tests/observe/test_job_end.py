"""The training ends, or dies, while it is watched: one fact, one sentence, and nothing offered that needs it."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import UTC, datetime

import pandas as pd
import pytest

from diag_kit.evidence import Evidence
from diag_kit.hosts.local import local
from diag_kit.hypothesize.ranking import ranked
from diag_kit.observe.job_end import JobEnd
from diag_kit.observe.probe import observe
from diag_kit.records import CommandResult, Cost, Fact, Observation, Parsed
from diag_kit.show.summary import job_line
from diag_kit.verify.next_probe import next_probes

HEAD = b"==diag_kit:job_end now=1764600000==\n"


def read(raw: bytes) -> Parsed:
    return JobEnd().read((CommandResult("trainbox", "sh", raw, b"", 0, datetime(2026, 12, 1, tzinfo=UTC), 0.1),))


def job(*pids: int) -> Observation:
    ranks = pd.DataFrame({"rank": range(len(pids)), "pid": pids})
    return Observation("training_jobs", {}, "", (), Parsed("", (Fact("launcher", "python", ""),), {"ranks": ranks}), id="O1")


@pytest.mark.parametrize(
    ("rows", "summary", "ended"),
    [
        (b"0:11 S\n1:12 R\nlauncher:10 S\n", "2 of 2 ranks still run at 14:40:00 UTC", None),
        (b"0:11 gone\n1:12 R\n", "1 of 2 ranks (pid 11) ended while the training was watched, seen at 14:40:00 UTC", None),
        (b"0:11 gone\n1:12 Z\n", "the training ended while it was watched: pid 11, 12 are gone at 14:40:00 UTC", True),
        (
            b"0:11 gone\nlauncher:10 S\n",
            "the training ended while it was watched: pid 11 is gone at 14:40:00 UTC; its launcher (pid 10) still runs "
            "and may start it again",
            True,
        ),
    ],
)
def test_states(rows: bytes, summary: str, ended: bool | None) -> None:
    parsed = read(HEAD + rows + b"end\n")
    assert parsed.summary == summary
    assert next((fact.value for fact in parsed.facts if fact.name == "job_ended"), None) is ended


@pytest.mark.parametrize("raw", [b"", HEAD, HEAD + b"0:11 gone\n", b"\xff\x00\n", HEAD + b"zero:11 S\nend\n"])
def test_an_answer_that_is_cut_ends_nothing(raw: bytes) -> None:
    parsed = read(raw)
    assert parsed.facts == ()
    assert parsed.problems == ("no answer for the ranks",)


@pytest.mark.parametrize("how", ["ends", "dies"])
def test_a_real_process(how: str) -> None:
    """Seen running, then gone; not reaped yet counts as gone."""
    seconds = 60 if how == "dies" else 1.5
    trains = subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({seconds})"])
    host = local()
    try:
        known = Evidence([job(trains.pid)])
        assert observe(JobEnd(), host, known).facts == ()
        if how == "dies":
            trains.kill()
        deadline = time.monotonic() + 10
        seen = observe(JobEnd(), host, known)
        while not seen.facts and time.monotonic() < deadline:
            time.sleep(0.1)
            seen = observe(JobEnd(), host, known)
        assert {fact.name: fact.value for fact in seen.facts} == {"ranks_ended": 1, "job_ended": True}
        trains.wait()
    finally:
        trains.kill()
        trains.wait()
        host.close()
    after = Evidence([*known.entries, seen])
    assert job_line(after).startswith(f"the training ended while it was watched: pid {trains.pid} is gone at ")
    offered = next_probes(after)
    assert all(each.probe == "source_of_script" or each.cost is Cost.STATE_CHANGING or not each.budget_s for each in offered)
    assert any(each.title.startswith("files open") or each.probe in ("gpus", "iostat") for each in next_probes(known))
    said = [each.next_probe for each in ranked(after) if each.next_probe]
    assert said
    assert all(text.startswith("not now, the training has ended; when it runs again: ") for text in said)
