"""A made-up investigation with the figures of the 35-hour run, and a stand-in for Investigation with the same attributes."""

from __future__ import annotations

import dataclasses
import threading
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pandas as pd

from diag_kit.evidence import Evidence
from diag_kit.progress import NextProbe, Progress
from diag_kit.records import (
    Assumption,
    Calculation,
    CommandResult,
    Cost,
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

T0 = datetime(2026, 2, 14, 22, 31, 40, tzinfo=UTC)
HOSTILE = "<script>alert(1)</script></details></pre><img src=x onerror=alert(1)> \x1b[31mred\x1b[0m \u202eevil\u202c {braces} %s"


def result(command: str, out: bytes, after_s: float = 0.0, **more: Any) -> CommandResult:
    given: dict[str, Any] = {
        "host": "trainbox",
        "command": command,
        "stdout": out,
        "stderr": b"",
        "exit_status": 0,
        "started": T0 + timedelta(seconds=after_s),
        "duration_s": 1.25,
    }
    return CommandResult(**{**given, **more})


def metrics_table(ranks: int = 4, steps: int = 187) -> pd.DataFrame:
    rows = [
        {
            "rank": rank,
            "t": T0 - timedelta(seconds=0.714 * (steps - step)),
            "step": step,
            "lr": 3e-5 * step / 1000,
            "loss": 5.0 - step / 100,
        }
        for step in range(steps)
        for rank in range(ranks)
    ]
    table = pd.DataFrame(rows, columns=["rank", "t", "step", "lr", "loss"]).astype({"rank": "Int64", "step": "Int64"})
    table["t"] = table["t"].astype("datetime64[us, UTC]")
    return table


def window_table(seconds: int = 30, per_s: float = 5.6) -> pd.DataFrame:
    counts = [int(per_s * s) for s in range(seconds + 1)]
    t = pd.Series([T0 + timedelta(seconds=s) for s in range(seconds + 1)]).astype("datetime64[us, UTC]")
    return pd.DataFrame({"t": t, "lines_total": counts, "records_total": counts, "bytes_total": [c * 120 for c in counts]})


def gpu_table(gpus: int = 4, seconds: int = 30) -> pd.DataFrame:
    rows = [
        {
            "t": T0 + timedelta(seconds=s),
            "gpu": gpu,
            "name": "RTX PRO 6000",
            "util_pct": 100.0,
            "power_w": 250.0 + 12 * ((s * 7 + gpu * 3) % 5) - 20,
            "power_limit_w": 600.0,
        }
        for s in range(seconds)
        for gpu in range(gpus)
    ]
    table = pd.DataFrame(rows).astype({"gpu": "Int64"})
    table["t"] = table["t"].astype("datetime64[us, UTC]")
    return table


def disk_table() -> pd.DataFrame:
    rows = [
        {
            "t": T0 + timedelta(seconds=s),
            "device": "nvme0n1",
            "read_mb_per_s": 0.003,
            "write_mb_per_s": 0.2,
            "wait_ms": 0.4,
            "util_pct": 0.3,
        }
        for s in range(1, 30)
    ]
    table = pd.DataFrame(rows)
    table["t"] = table["t"].astype("datetime64[us, UTC]")
    return table


def opens_table(ranks: int = 4, files: int = 20, shared: int = 2) -> pd.DataFrame:
    rows = []
    for rank in range(ranks):
        for place in range(files):
            path = f"/data/hidden/data_{place}.pt" if place < shared else f"/data/hidden/data_{10_000 * (rank + 1) + place}.pt"
            rows.append(
                {
                    "t": T0 + timedelta(seconds=0.5 * place + 0.1 * rank),
                    "rank": rank,
                    "pid": 4000 + rank,
                    "path": path,
                    "via": "poll",
                }
            )
    table = pd.DataFrame(rows, columns=["t", "rank", "pid", "path", "via"]).astype({"rank": "Int64", "pid": "Int64"})
    table["t"] = table["t"].astype("datetime64[us, UTC]")
    return table


def observations() -> list[Observation]:
    log = b"".join(b"[22:31:%02d] INFO {'train': {'loss': 4.1, 'lr': 3e-05}, 'epoch': 0}\n" % (i % 60) for i in range(748))
    ranks = pd.DataFrame({"job_pid": [4000] * 4, "rank": [0, 1, 2, 3], "gpu": [0, 1, 2, 3]})
    facts = (
        Fact("launcher", "torchrun", "command line of pid 4000"),
        Fact("world_size", 4, "command line of pid 4000", "ranks"),
        Fact("script", "/tmp/04_train.py", "command line of pid 4000"),
        Fact("job_started", "2026-02-14T22:27:10+00:00", "/proc/4000/stat"),
        Fact("log_path", "/data/logs/train_4gpu.log", "found through the process"),
    )
    start = (
        Fact("train_samples", 35446, "train_4gpu.log line 12", "samples"),
        Fact("batches_per_epoch", 35446, "train_4gpu.log line 14", "steps"),
        Fact("total_steps", 177230, "train_4gpu.log line 15", "steps"),
    )
    return [
        Observation(
            "training_jobs",
            {"pid": None},
            "ps -eo pid,args",
            (result("sh -c 'ps' diag_kit", b"4000 torchrun\n"),),
            Parsed("torchrun, 4 ranks, 04_train.py", facts, {"ranks": ranks}),
            id="O1",
        ),
        Observation(
            "log_facts",
            {},
            "grep 'Total training' LOG | head -5",
            (result("sh -c 'grep' diag_kit", b"Train files: 35446\n"),),
            Parsed("35446 files, 177230 steps", start),
            id="O2",
        ),
        Observation(
            "log_metrics",
            {"path": None},
            "tail -c 2M LOG",
            (result('sh -c \'tail -c "$2" -- "$1"\' diag_kit /data/logs/train_4gpu.log 2097152', log),),
            Parsed(
                "748 records, 4 of each step",
                (),
                {"metrics": metrics_table()},
                (NotUnderstood("line 3", HOSTILE, "no metric form"),),
            ),
            id="O3",
        ),
        Observation(
            "log_rate",
            {"seconds": 30},
            "tail -f LOG | pv -l",
            (result("sh -c 'loop' diag_kit", b"0 0\n30 168\n"),),
            Parsed("168 lines in 30.0 s", (), {"log_window": window_table()}),
            id="O4",
        ),
        Observation(
            "gpus",
            {"seconds": 30},
            "nvidia-smi --query-gpu=... --format=csv -l 1",
            (result("sh -c 'nvidia-smi' diag_kit", b"gpu, power\n0, 250\n"),),
            Parsed("4 GPUs: 100 % utilised, 250 W of 600 W", (), {"gpus": gpu_table()}),
            id="O5",
        ),
        Observation(
            "iostat",
            {"seconds": 30},
            "iostat -o JSON -x -d -c -t 1 30",
            (result("sh -c 'iostat' diag_kit", b"{}\n"),),
            Parsed("3 kB/s read, 0.04 % iowait", (), {"disk": disk_table()}),
            id="O6",
        ),
        Observation(
            "rank_io",
            {},
            "cat /proc/PID/io",
            (result("sh -c 'cat' diag_kit", b"", exit_status=1, stderr=b"cat: /proc/4001/io: Permission denied\n"),),
            Parsed(
                "not observed",
                (),
                {},
                (),
                ("/proc/4001/io cannot be read by this user\nnext:  log in as the user of the training",),
            ),
            id="O7",
        ),
    ]


def calculations() -> list[Calculation]:
    window = Assumption("window_s", 30.0, "log_rate (O4)", "s")
    old = Calculation(
        "run_hours",
        "total steps / step rate / ranks",
        8.79,
        "h",
        ("O2", "O4"),
        Interval(8.3, 9.3),
        (Assumption("split", True, "assumed"),),
        "made_up_projection",
        {"split": True},
        note="assumed that the loader is split",
        id="C3",
    )
    return [
        Calculation(
            "printing_ranks", "times each step stands in the log", 4, "ranks", ("O3",), None, (), "printing_ranks", id="C1"
        ),
        Calculation(
            "step_rate",
            "new metric lines / ranks that print / window",
            1.4,
            "steps/s",
            ("O4", "C1"),
            Interval(1.33, 1.47),
            (window,),
            "made_up_rates",
            {"window_s": 30.0},
            id="C2",
        ),
        old,
        Calculation(
            "run_hours",
            "total steps / step rate",
            35.17,
            "h",
            ("O2", "C2"),
            Interval(33.5, 37.0),
            (Assumption("steps", 177230, "train_4gpu.log line 15", "steps"),),
            "made_up_projection",
            {"steps": None},
            supersedes="C3",
            id="C4",
        ),
        Calculation(
            "reading_unsplit_hours",
            "4 ranks print, the loader is not split",
            35.17,
            "h",
            ("C2",),
            Interval(33.5, 37.0),
            (),
            "readings",
            id="C5",
        ),
        Calculation(
            "reading_split_hours",
            "4 ranks print, the loader is split, the printed length is the dataset's",
            8.79,
            "h",
            ("C2",),
            Interval(8.4, 9.25),
            (),
            "readings",
            id="C6",
        ),
        Calculation(
            "reading_one_printer_hours",
            "one rank prints",
            8.79,
            "h",
            ("C2",),
            Interval(8.4, 9.25),
            (),
            "readings",
            note="ruled out by C1: each step stands in 4 lines",
            id="C7",
        ),
        Calculation(
            "reading_burst_hours",
            "the window caught a burst",
            None,
            "h",
            ("O4",),
            None,
            (),
            "readings",
            note="one window cannot tell; look again for 60 s",
            id="C8",
        ),
        Calculation(
            "hours_won_if_split",
            "whole run - whole run, if split",
            26.38,
            "h",
            ("C4", "C6"),
            Interval(25.2, 27.7),
            (),
            "projection",
            id="C9",
        ),
        Calculation(
            "read_gb_per_s_needed", "bytes a sample x samples/s", 0.691, "GB/s", ("O2", "C2"), None, (), "reading", id="C10"
        ),
    ]


def hypotheses() -> list[Hypothesis]:
    return [
        Hypothesis(
            "data.dup_no_sampler",
            "each rank trains on the whole dataset",
            "each rank trains on the whole dataset (own or same order: undecided)",
            Status.SUPPORTED,
            (
                Reason("loader length 35446 = files 35446, one split by 4 would print 8861 or 8862", ("O2", "C4")),
                Reason("every learning rate of the warm-up stands in 4 lines: 4 ranks print", ("O3", "C1")),
            ),
            (),
            {"hours_won_if_split": 26.38, "batches_per_epoch": 35446},
            HoursWon(25.2, 27.7, "35.2 h less 8.8 h, if steps a rank fall by 4 and a step stays as long", 35.17),
            "give the loader a DistributedSampler; then the schedule is 4x too long: see the traps",
            "files open per rank",
            id="H1",
        ),
        Hypothesis(
            "comm.bound",
            "communication dominates the step",
            "communication dominates the step",
            Status.UNDECIDED,
            (Reason("0.71 s a step against 0.17 s on one GPU", ("C2",)),),
            (),
            {},
            HoursWon(0, 11, "0 if overlapped", 35.17),
            "",
            'tell the bandwidth: inv.tell("link_gb_per_s", 50)',
            id="H2",
        ),
        Hypothesis(
            "io.slow_storage",
            "local disks",
            "the disks cannot deliver",
            Status.REFUTED,
            (),
            (
                Reason(
                    "3 kB/s, 0.04 % iowait in this window; 0.7 GB/s are needed: page cache or a mount that iostat cannot see",
                    ("O6", "C10"),
                ),
            ),
            id="H3",
        ),
        Hypothesis(
            "input.too_few_workers",
            "too few loader workers",
            "the loader cannot keep up",
            Status.NOT_TESTABLE,
            (),
            (Reason("bytes read per rank cannot be read by this user", ("O7",)),),
            id="H4",
        ),
        Hypothesis(
            "healthy", "nothing is wrong", "nothing is wrong", Status.REFUTED, (), (Reason("H1 stands", ("H1",)),), id="H5"
        ),
    ]


def verifications() -> list[Verification]:
    return [
        Verification(
            "acct.lines_times_ranks",
            "ranks that print",
            {"4 ranks print": "each step 4 times", "one rank prints": "each step once"},
            "each of 187 steps 4 times",
            Status.CONFIRMED,
            "no step occurs once",
            ("O3",),
            {"printing_ranks": 4},
            "wrong below 10 steps; 187 seen",
            id="V1",
        ),
    ]


NEXT = NextProbe("data.dup_no_sampler", "files open per rank", Cost.READ_ONLY, 10.0, "own order, same order or split")
CAREFUL = NextProbe("data.same_order", "strace of the ranks", Cost.CAREFUL, 5.0, "own order or the same")


class StandIn:
    """What a view needs of an Investigation, with a ledger given as it is."""

    def __init__(
        self, entries: list[Entry] | None = None, about: str = "", question: str = "Why will this run take 35 hours?"
    ) -> None:
        self.question = question
        self.host = SimpleNamespace(name="trainbox", kind="recorded", about=about)
        self.about = about
        self.redactions: dict[str, int] = {}
        self.stop = threading.Event()
        self._entries: list[Entry] = list(entries or [])
        self._listeners: list[Any] = []
        self.probes: tuple[NextProbe, ...] = (NEXT, CAREFUL)
        self.asked: list[tuple[str, bool]] = []
        self.observed: list[Any] = []
        self.fails: Exception | None = None
        self.pause_s = 0.0

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(self._entries)

    @property
    def evidence(self) -> Evidence:
        return Evidence(self._entries)

    @property
    def findings(self) -> tuple[Hypothesis, ...]:
        newest = {e.cause: e for e in self._entries if isinstance(e, Hypothesis)}
        return tuple(newest.values())

    def next_probes(self) -> tuple[NextProbe, ...]:
        return self.probes

    def subscribe(self, listener: Any) -> Any:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def tell_listeners(self, event: Any) -> None:
        for listener in tuple(self._listeners):
            listener(event)

    def enter(self, entry: Entry) -> Entry:
        self._entries.append(entry)
        self.tell_listeners(entry)
        return entry

    def verify(self, cause: str, careful: bool = False) -> Verification:
        self.asked.append((cause, careful))
        self.tell_listeners(Progress("opened_files", 10.0))
        self.stop.wait(self.pause_s)
        if self.fails:
            raise self.fails
        self.tell_listeners(Progress("opened_files", 10.0, self.pause_s, True))
        tested = Verification(
            cause,
            "files open per rank",
            {"split": "no file at two ranks", "own order": "few", "same order": "all"},
            "2 of 42 files at two ranks",
            Status.CONFIRMED,
            "a split predicts none",
            ("O1",),
            {},
            "1 in 400 by chance",
            id=f"V{2 + len(self.asked)}",
        )
        self.probes = self.probes[1:]
        self.enter(tested)
        return tested

    def recalculate(self, id: str, **assumptions: Any) -> tuple[Calculation, ...]:
        old = next(e for e in self._entries if getattr(e, "id", "") == id)
        assert isinstance(old, Calculation)
        made = dataclasses.replace(
            old,
            value=float(old.value or 0) * 2,
            interval=None,
            supersedes=old.id,
            id=f"C{11 + len(self._entries)}",
            assumptions=tuple(
                dataclasses.replace(a, value=assumptions.get(a.name, a.value), source="assumed") for a in old.assumptions
            ),
        )
        self.enter(made)
        return (made,)

    def diagnose(self, seconds: float = 20) -> tuple[Hypothesis, ...]:
        for entry in (*observations(), *calculations(), *hypotheses(), *verifications()):
            self.enter(entry)
        return self.findings

    def hypothesize(self) -> tuple[Hypothesis, ...]:
        return self.findings

    def tell(self, name: str, value: Any, unit: str = "") -> Observation:
        seen = Observation(
            "told",
            {"fact": name},
            "",
            (),
            Parsed(f"{name} = {value} {unit}", (Fact(name, value, "told by the user", unit),)),
            id=f"O{len(self._entries) + 50}",
        )
        self.enter(seen)
        return seen

    def observe(self, probe: Any) -> None:
        self.observed.append(probe)

    def calculate(self, *calculators: Any) -> tuple[Calculation, ...]:
        return ()

    def cancel(self) -> None:
        self.stop.set()


def founding(about: str = "recorded (reconstruction)") -> StandIn:
    entries: list[Entry] = [
        *observations(),
        *calculations(),
        *hypotheses(),
        *verifications(),
        Note("What the kit cost trainbox: 0.4 CPU s", T0),
    ]
    return StandIn(entries, about)
