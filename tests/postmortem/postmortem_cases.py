"""Hand-written cases for the tests of the postmortem: a small one in the shape of a real story, a hostile one, an empty one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pandas as pd

from diag_kit.records import (
    Assumption,
    Calculation,
    CommandResult,
    Entry,
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

BEGAN = datetime(2026, 2, 14, 22, 31, 5, tzinfo=UTC)


@dataclass
class StubHost:
    """As much of a host as a report asks for."""

    name: str = "trainbox"
    kind: str = "recorded"
    about: str = "recorded (reconstruction)"


@dataclass
class StubCase:
    """As much of an investigation as a report asks for."""

    question: str
    entries: tuple[Entry, ...]
    host: StubHost = field(default_factory=StubHost)
    redactions: Mapping[str, int] = field(default_factory=dict)
    ranked: Sequence[Hypothesis] | None = None

    @property
    def about(self) -> str:
        return self.host.about

    @property
    def findings(self) -> Sequence[Hypothesis]:
        if self.ranked is not None:
            return self.ranked
        newest = {entry.cause: entry for entry in self.entries if isinstance(entry, Hypothesis)}
        return tuple(newest.values())


def result(command: str, stdout: str, at_s: float = 0, **others: object) -> CommandResult:
    values = {"stderr": b"", "exit_status": 0, "duration_s": 0.25, **others}
    return CommandResult("host1", command, stdout.encode(), started=BEGAN + timedelta(seconds=at_s), **values)  # type: ignore[arg-type]


HEAD_LOG = """Train files: 35446
Val files: 1866
Train batches/epoch: 35446
Total training steps: 177230
"""


def small_case() -> StubCase:
    """Two observations that succeeded, one that failed, a superseded projection, three hypotheses, one deciding test."""
    facts = Observation(
        "log_facts",
        {"path": "/data/run/train.log", "lines": None},
        "head -200 /data/run/train.log",
        (result('sh -c \'head -n "$2" -- "$1"\' diag_kit /data/run/train.log 200', HEAD_LOG, 10),),
        Parsed(
            "4 facts",
            facts=(
                Fact("train_samples", 35446, "train.log line 1", "samples"),
                Fact("batches_per_epoch", 35446, "train.log line 3"),
                Fact("total_steps", 177230, "train.log line 4", "steps"),
                Fact("world_size", 4, "train.log line 9", "ranks"),
                Fact("job_started", "2026-02-14T22:27:00+00:00", "start of the process"),
                Fact("library_version", "0.3.0", "metadata of the interpreter"),
            ),
            not_understood=(NotUnderstood("train.log line 5", "UserWarning: `torch_dtype` is deprecated!", "no known form"),),
        ),
        id="O1",
    )
    rate = Observation(
        "log_rate",
        {"seconds": 30},
        "tail -f /data/run/train.log",
        (
            result(
                'sh -c \'tail -c +"$2" -- "$1"\' diag_kit /data/run/train.log 80211',
                "step=1 lr=3e-05\n" * 14,
                45,
                duration_s=30.02,
            ),
        ),
        Parsed("168 metric lines in 30 s", tables={"log_window": pd.DataFrame({"lines_total": [0, 168]})}),
        id="O2",
    )
    disks = Observation(
        "iostat",
        {"seconds": 3},
        "iostat -xty -o JSON 1 3",
        (result("sh -c 'iostat -xty -o JSON 1 3' diag_kit", "", 80, stderr=b"sh: iostat: not found\n", exit_status=127),),
        Parsed("not observed", problems=("iostat is not installed on the host; install sysstat to see the disks.",)),
        id="O3",
    )
    first = Calculation(
        "run_hours",
        "total steps / step rate",
        8.79,
        "h",
        ("O1", "O2"),
        assumptions=(Assumption("printing_ranks", 1, "assumed", "ranks"),),
        id="C1",
    )
    stands = Calculation(
        "run_hours",
        "total steps / step rate",
        35.163,
        "h",
        ("O1", "O2"),
        Interval(33.5, 37.0),
        (Assumption("printing_ranks", 4, "C2", "ranks"),),
        supersedes="C1",
        note="one line of each rank and step",
        id="C3",
    )
    ranks = Calculation("printing_ranks", "how often each learning rate of the warm-up occurs", 4, "ranks", ("O2",), id="C2")
    before = Hypothesis("data.dup_no_sampler", "no sampler", "each rank trains on the whole dataset", Status.UNDECIDED, id="H1")
    split = Hypothesis(
        "data.dup_no_sampler",
        "the data are not split over the ranks",
        "Each rank trains on the whole dataset.",
        Status.SUPPORTED,
        (
            Reason("loader length 35446 = files 35446; one split by 4 would print 8861 or 8862", ("O1", "C3")),
            Reason("the script builds the loader with no sampler", ("O9",)),
            Reason("the disks are idle", ("O3",)),
        ),
        (Reason("an earlier projection said 8.79 h", ("C1",)),),
        {"hours_won": 26.4},
        HoursWon(25.2, 27.7, "run as it goes minus run if split", 35.163),
        "Give the DataLoader a DistributedSampler and call set_epoch on it.",
        "files open per rank, 10 s",
        id="H2",
    )
    comm = Hypothesis(
        "comm.bound",
        "communication dominates the step",
        "Communication takes most of each step.",
        Status.UNDECIDED,
        (Reason("250 W of 600 W at 100 % utilisation", ("O2",)),),
        next_probe="measure the bandwidth between two GPUs",
        hours_won=HoursWon(0, 11, "step time against one GPU", 35.163),
        id="H3",
    )
    storage = Hypothesis(
        "io.slow_storage",
        "the disks are too slow",
        "The disks cannot deliver the bytes needed.",
        Status.NOT_TESTABLE,
        evidence_against=(Reason("iostat is not installed, so the disks were not seen"),),
        id="H4",
    )
    test = Verification(
        "data.dup_no_sampler",
        "files open per rank",
        {"own order": "overlap of 4 ranks as by chance", "split": "no file seen on two ranks"},
        "11 of 40 files seen on two ranks or more",
        Status.CONFIRMED,
        "a split cannot share files",
        ("O2",),
        {"shared_files": 11, "files": 40},
        "misses a split in 0 of 1000, calls a split unsplit in 2 of 1000",
        id="V1",
    )
    return StubCase(
        "Why will this run take 35 hours?",
        (
            Note("log given by the user: /data/run/train.log", BEGAN),
            facts,
            before,
            rate,
            disks,
            first,
            ranks,
            stands,
            split,
            comm,
            storage,
            Note("user: the run stays up while we look", BEGAN + timedelta(seconds=95)),
            test,
        ),
        redactions={"user name": 3, "IP address": 2},
        ranked=(split, comm, storage),
    )


HOSTILE = (
    "<script>alert(1)</script><img src=http://evil.example/x onerror=alert(1)> | pipe `tick` ``` ~~gone~~ **loud** "
    "[link](http://evil.example) @someone www.evil.example &amp; {{ 7*7 }} {% raw %} \x1b[31mred\x1b[0m \u202eturned\n"
    "# heading\n- item\n| a | b |\n```\nout\n</pre></body>"
)


def hostile_case() -> StubCase:
    """The same hostile text in every place that a host, a log or a user can fill."""
    seen = Observation(
        HOSTILE,
        {HOSTILE: HOSTILE},
        HOSTILE,
        (result(HOSTILE, HOSTILE * 2, 1, stderr=HOSTILE.encode(), exit_status=None, truncated=True, timed_out=True),),
        Parsed(
            HOSTILE,
            (Fact("script", HOSTILE, HOSTILE, HOSTILE), Fact(HOSTILE, HOSTILE, HOSTILE)),
            {HOSTILE: pd.DataFrame({"x": [1]})},
            (NotUnderstood(HOSTILE, HOSTILE, HOSTILE),),
            (HOSTILE,),
        ),
        id='O1"><script>',
    )
    made = Calculation(
        HOSTILE, HOSTILE, HOSTILE, HOSTILE, (HOSTILE,), None, (Assumption(HOSTILE, HOSTILE, HOSTILE),), note=HOSTILE, id="C1"
    )
    again = Calculation(HOSTILE, HOSTILE, 1.5, HOSTILE, (), Interval(1, 2, 0.9), supersedes="C1", note=HOSTILE, id="C2")
    claim = Hypothesis(
        HOSTILE,
        HOSTILE,
        HOSTILE,
        Status.SUPPORTED,
        (Reason(HOSTILE, ("O1", HOSTILE)),),
        (Reason(HOSTILE),),
        {HOSTILE: HOSTILE},
        HoursWon(1, 2, HOSTILE, 3),
        HOSTILE,
        HOSTILE,
        id="H1",
    )
    tested = Verification(
        HOSTILE, HOSTILE, {HOSTILE: HOSTILE}, HOSTILE, Status.UNDECIDED, HOSTILE, (HOSTILE,), {HOSTILE: HOSTILE}, HOSTILE, "V1"
    )
    return StubCase(
        HOSTILE,
        (Note(HOSTILE, BEGAN), seen, made, again, claim, tested),
        StubHost(HOSTILE, "ssh", HOSTILE),
        {HOSTILE: 1},
    )


def empty_case() -> StubCase:
    return StubCase("", (), StubHost("trainbox", "ssh", ""))
