"""The loop unattended: what to look at first, what in parallel, what to compute, and which test to run at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from diag_kit.calculate.standard import standard_calculators
from diag_kit.disturbance import rate_move
from diag_kit.errors import Cancelled, DiagError
from diag_kit.hosts.files import FilesHost
from diag_kit.hosts.recorded import RecordedHost
from diag_kit.observe.disk import Iostat
from diag_kit.observe.documents import observe_documents
from diag_kit.observe.gpu import Gpus
from diag_kit.observe.job_end import JobEnd
from diag_kit.observe.jobs import TrainingJobs
from diag_kit.observe.logs.facts import LogFacts
from diag_kit.observe.logs.metrics import LogMetrics
from diag_kit.observe.logs.rate import LogRate
from diag_kit.observe.memory import Memory
from diag_kit.observe.probe import Probe, all_probes
from diag_kit.observe.processes import Processes
from diag_kit.observe.rank_io import RankIo
from diag_kit.observe.script import SourceOfScript
from diag_kit.progress import STOPPED, WHOLE_AGAIN, stopped_early
from diag_kit.records import Cost, Observation, Status
from diag_kit.verify.decide import all_tests

if TYPE_CHECKING:
    from diag_kit.investigation import Findings, Investigation

AT_ONCE = 8
"""Probes that run at the same time on one host: all of one window, below sshd's default limit of ten sessions a connection."""

LIVE = ("ssh", "openssh", "local")


def diagnose(inv: Investigation, *, seconds: float, log: str | None, pid: int | None) -> Findings:
    """Fill the ledger of ``inv`` and return its findings; a cancel or Ctrl-C keeps what was seen and ranks that."""
    if log:
        inv.tell("log_path", log, source="given by the user")
    unless_stopped(inv, lambda: look(inv, seconds, pid))
    if not unless_stopped(inv, lambda: weigh(inv)):
        weigh(inv)  # it takes a moment and contacts nothing; a second Ctrl-C ends it
    if not inv.stop.is_set():
        unless_stopped(inv, lambda: decide(inv, inv.findings))
    seen_in_part = isinstance(inv.host, RecordedHost) and stopped_early(inv.host.recording.entries)
    if inv.stop.is_set() or seen_in_part:
        inv.note(STOPPED)
    elif inv.partial:
        inv.note(WHOLE_AGAIN)
    account(inv)
    return inv.findings


def unless_stopped(inv: Investigation, work: Callable[[], object]) -> bool:
    """Do the work; False, with the stop event set, when the user ended it first."""
    try:
        work()
    except (Cancelled, KeyboardInterrupt):
        inv.cancel()
        return False
    return True


def look(inv: Investigation, seconds: float, pid: int | None) -> None:
    """Everything that there is to see behind this host, by its kind."""
    if isinstance(inv.host, FilesHost):
        read_documents(inv, inv.host)
    elif isinstance(inv.host, RecordedHost) and inv.host.recording.entries:
        ask_again(inv, inv.host)
    else:
        sweep(inv, seconds, pid)


def weigh(inv: Investigation) -> None:
    """Compute what follows from what was seen, and rank the causes."""
    inv.calculate(*standard_calculators(inv.evidence))
    inv.hypothesize()


def sweep(inv: Investigation, seconds: float, pid: int | None) -> None:
    """Find the training, then everything cheap at the same time, then the log as it stands at the end of the window."""
    inv.observe(TrainingJobs(pid=pid))
    if inv.stop.is_set():
        return
    has_job = inv.evidence.fact("job_pid") is not None
    observe_together(inv, window_probes(seconds, has_job=has_job))
    if inv.stop.is_set():
        return
    inv.observe(LogMetrics())
    if has_job and inv.evidence.table("ranks") is not None:
        inv.observe(JobEnd())


def window_probes(seconds: float, *, has_job: bool) -> tuple[Probe, ...]:
    """The probes that share one sampling window."""
    always: tuple[Probe, ...] = (
        LogFacts(),
        LogRate(seconds=seconds),
        Gpus(seconds=seconds),
        Iostat(seconds=seconds),
        Memory(),
        Processes(),
    )
    return (*always, SourceOfScript(), RankIo(seconds=seconds)) if has_job else always


def observe_together(inv: Investigation, probes: Sequence[Probe]) -> tuple[Observation, ...]:
    """Run probes at the same time; enter them in the order given, so that equal runs get equal ids.

    Ctrl-C, or a cancel, ends those that run and drops those that wait; what had come back is entered before it is raised again.
    """
    known = inv.evidence
    pool = ThreadPoolExecutor(max_workers=AT_ONCE, thread_name_prefix="diag_kit")
    running = [pool.submit(inv.look, probe, known) for probe in probes]
    interrupted: BaseException | None = None
    try:
        wait(running)
    except KeyboardInterrupt as stopped:
        interrupted = stopped
        inv.cancel()
    pool.shutdown(wait=True, cancel_futures=True)
    ended = [each for each in running if not each.cancelled()]
    seen = tuple(inv.enter(each.result()) for each in ended if each.exception() is None)
    failures = [failure for each in ended if (failure := each.exception()) is not None]
    for failure in [interrupted, *failures]:
        if failure is not None:
            raise failure
    return seen


def ask_again(inv: Investigation, host: RecordedHost) -> None:
    """A recording: every probe that was run then, with its parameters, read by the parsers of today."""
    probes = all_probes()
    for entry in host.recording.entries:
        if isinstance(entry, Observation) and entry.probe in probes:
            try:
                asked = probes[entry.probe](**entry.parameters)
            except TypeError:  # a parameter that this version does not have any more
                inv.enter(entry)
            else:
                inv.observe(asked)


def read_documents(inv: Investigation, folder: FilesHost) -> None:
    """A folder of pasted outputs: every file goes to the parser of its kind; what no parser knows is listed."""
    for problem in folder.problems:
        inv.note(problem)
    for seen in observe_documents(folder.documents):
        inv.enter(seen)


def decide(inv: Investigation, findings: Findings) -> None:
    """Run the deciding test of the best finding that is still open. Only read-only rungs, and none when looking has slowed
    the job down."""
    move = rate_move(inv.evidence) if inv.host.kind in LIVE else None
    if move is not None:
        inv.note(move.sentence)
        if move.slowed:
            inv.note("The deciding test was left out, so as not to slow the job down further; run it with inv.verify(cause).")
            return
    tests = all_tests()
    for found in findings:
        if found.status in (Status.SUPPORTED, Status.UNDECIDED) and found.cause in tests:
            ended = inv.evidence.fact("job_ended") is not None
            read_only = not ended and any(p.cost is Cost.READ_ONLY for p in tests[found.cause].probes(inv.evidence))
            try:
                if read_only or isinstance(inv.host, FilesHost):
                    inv.verify(found.cause)
                    for sibling, test in tests.items():  # the same rungs decide it: no second window
                        if sibling != found.cause and test.probes is tests[found.cause].probes:
                            inv.judge(sibling)
                    return
            except DiagError as error:
                inv.note(f"The deciding test for {found.cause} was not run: {error.args[0]}")
                return


def account(inv: Investigation) -> None:
    """Say what the kit itself cost the host."""
    cost = getattr(inv.host, "cost", None)
    if cost is not None:
        inv.note(
            f"What the kit cost {inv.host.name}: {cost.commands} commands, {cost.cpu_s:.2f} s of CPU, "
            f"{cost.bytes_received / 1e6:.2f} MB received"
        )
