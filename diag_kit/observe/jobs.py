"""Which trainings run on a host: launcher, ranks, GPUs, script, interpreter, loader processes, and where the log is."""

from __future__ import annotations

import posixpath
import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from diag_kit.evidence import Evidence
from diag_kit.hosts.protocol import Host
from diag_kit.observe.job_log import LogSearch, arguments, find_data_dir, find_logs
from diag_kit.observe.job_tables import environment_table, jobs_table, ranks_table
from diag_kit.observe.job_tree import Job, find_jobs, launcher_of, program_of
from diag_kit.observe.probe import probe
from diag_kit.observe.process_dump import Dump, Process, read_dump
from diag_kit.observe.remote_proc import SCRIPT
from diag_kit.records import CommandResult, Cost, Fact, Parsed, Value

_ARGUMENT_FACTS: dict[str, tuple[str, type]] = {
    "epochs": ("epochs", int),
    "num-epochs": ("epochs", int),
    "num-train-epochs": ("epochs", float),
    "num-workers": ("num_workers", int),
    "dataloader-num-workers": ("num_workers", int),
    "per-device-train-batch-size": ("batch_size_per_rank", int),
    "micro-batch-size": ("batch_size_per_rank", int),
    "gradient-accumulation-steps": ("accumulation_steps", int),
    "lr": ("base_lr", float),
    "learning-rate": ("base_lr", float),
    "max-seq-len": ("max_seq_len", int),
    "max-seq-length": ("max_seq_len", int),
    "warmup-steps": ("warmup_steps", int),
}


def interpreter_of(process: Process, site_packages: str = "") -> str:
    """The Python that a process was started with: its own name where that is a path, so that a virtual environment is
    kept.

    /proc/PID/exe is the resolved binary, which does not see the environment's packages; it is the last resort.
    """
    first = process.argv[0] if process.argv else ""
    if "/" in first:
        return process.path(first)
    found = re.match(r"(/.*)/lib(?:64)?/python3[^/]*/(?:site|dist)-packages", site_packages)
    if found and found[1] not in ("/usr", "/usr/local"):
        return f"{found[1]}/bin/{first or 'python3'}"
    return process.exe or first


def script_of(job: Job) -> str:
    """Absolute path of the running script, "-m module", or what the launcher was told to start."""
    if job.ranks:
        program, _ = program_of(job.lead)
        return program if program.startswith("-") or not program else job.lead.path(program)
    words = [word for word in job.top.argv[1:] if word.endswith(".py")]
    return job.top.path(words[0]) if words else ""


def _site_packages(dump: Dump, job: Job) -> str:
    own = [dump.processes[pid].site_packages for pid in job.pids if pid in dump.processes]
    return next(filter(None, own), "") or next(filter(None, (p.site_packages for p in dump.processes.values())), "")


def choose(jobs: list[Job], pid: int | None) -> Job | None:
    """The job that holds that process; without a pid the one with most ranks."""
    if pid is None:
        return jobs[0] if jobs else None
    return next((job for job in jobs if pid in job.pids or any(p.pid == pid for p in job.above)), None)


def choice(jobs: list[Job], job: Job) -> str:
    """``1 of 2 trainings: pid 4242 (train.py); the other: pid 5151 (old.py, 2 ranks, ml); choose with --pid``; "" for one."""
    if len(jobs) < 2:
        return ""
    others = [other for other in jobs if other is not job]
    listed = [
        f"pid {other.top.pid} ({', '.join(filter(None, (_name(other), _ranks(other), other.top.user)))})" for other in others[:4]
    ]
    more = f" and {len(others) - 4} more" if len(others) > 4 else ""
    word = "the other" if len(others) == 1 else "the others"
    named = f"pid {job.top.pid} ({_name(job) or job.launcher})"
    return f"1 of {len(jobs)} trainings: {named}; {word}: {', '.join(listed)}{more}; choose with --pid"


def _name(job: Job) -> str:
    return posixpath.basename(script_of(job))


def _ranks(job: Job) -> str:
    return f"{len(job.ranks)} rank{'' if len(job.ranks) == 1 else 's'}"


def blind_spot(dump: Dump, job: Job) -> str:
    """Empty where everything could be read; else whose processes these are and what stays unknown."""
    hidden = [process for process in (job.lead, job.top) if process.blind]
    if not hidden:
        return ""
    owner = hidden[0].user or "another user"
    me = "root" if dump.host.uid == 0 else f"uid {dump.host.uid}"
    return (
        f"pid {hidden[0].pid} belongs to {owner} and the kit runs as {me}: its environment (rank numbers, GPUs), open files "
        f"(log, data) and libraries cannot be read; connect as {' or '.join(dict.fromkeys((owner, 'root')))} to see them"
    )


@probe
@dataclass(frozen=True)
class TrainingJobs:
    """Running trainings, from /proc alone.

    Equivalent: ``ps -eo pid,ppid,user,lstart,args --forest; ls -l /proc/PID/fd; tr '\\0' '\\n' < /proc/PID/environ``.
    Tables ``jobs`` (all), ``ranks`` and ``environment`` (of the chosen job; a fixed list of variables only). Facts of
    the chosen job only: ``pid`` chooses (launcher, rank or loader process), else the one with most ranks.
    Needs nothing on the host but sh; python3 makes it ten times faster. Reads no variable outside
    ``remote_proc.ENVIRONMENT``.
    """

    pid: int | None = None

    name: ClassVar[str] = "training_jobs"
    cost: ClassVar[Cost] = Cost.READ_ONLY
    equivalent: ClassVar[str] = (
        "ps -eo pid,ppid,user,lstart,args --forest; ls -l /proc/PID/fd /proc/PID/cwd /proc/PID/exe; "
        "tr '\\0' '\\n' < /proc/PID/environ | grep -E '^(RANK|WORLD_SIZE|CUDA_VISIBLE_DEVICES|...)='"
    )

    @property
    def budget_s(self) -> float:
        return 10.0

    def collect(self, host: Host, known: Evidence, stop: threading.Event | None = None) -> tuple[CommandResult, ...]:
        return (host.run(SCRIPT, timeout_s=30.0, stop=stop),)

    def read(self, results: tuple[CommandResult, ...]) -> Parsed:
        text = results[0].text if results else ""
        dump = read_dump(text)
        problems = list(_dump_problems(dump, results))
        jobs = find_jobs(dump)
        searches = {job.top.pid: find_logs(dump, job) for job in jobs}
        chosen = choose(jobs, self.pid)
        interpreters = {job.top.pid: interpreter_of(job.lead, _site_packages(dump, job)) for job in jobs}
        blind = {job.top.pid: blind_spot(dump, job) for job in jobs}
        tables = {"jobs": jobs_table(jobs, searches, interpreters, blind, {j.top.pid: script_of(j) for j in jobs})}
        if chosen is None:
            wanted = f"no training holds pid {self.pid}" if self.pid is not None and jobs else "no training is running"
            problems.append(f"{wanted}: looked for torchrun, accelerate, deepspeed, mpirun, srun, scripts with torch")
            return Parsed(wanted, tables=tables, not_understood=dump.not_understood, problems=tuple(problems))
        problems += _job_problems(dump, jobs, chosen, searches[chosen.top.pid], self.pid)
        tables |= {"ranks": ranks_table(chosen, searches), "environment": environment_table(chosen)}
        facts = tuple(_facts(dump, chosen, searches[chosen.top.pid], interpreters[chosen.top.pid]))
        if several := choice(jobs, chosen):
            facts = (*facts, Fact("choice_of_training", several, "trainings found in /proc"))
        summary = _summary(chosen, facts)
        return Parsed(summary, facts, tables, dump.not_understood, tuple(problems))


def _dump_problems(dump: Dump, results: Iterable[CommandResult]) -> Iterable[str]:
    for result in results:
        if not dump.complete:
            error = result.error_text
            reason = error.splitlines()[-1][:200] if error else f"exit status {result.exit_status}"
            yield f"the list of processes is incomplete ({reason}): a training may be missing"
    if dump.host.hidden:
        yield "/proc is mounted with hidepid: other users' processes are hidden; connect as root or the training's user"


def _job_problems(dump: Dump, jobs: list[Job], job: Job, logs: LogSearch, pid: int | None) -> Iterable[str]:
    if pid is None and len(jobs) > 1:
        yield choice(jobs, job)
    if blind := blind_spot(dump, job):
        yield blind
    elif not job.ranks:
        yield f"{job.launcher} (pid {job.top.pid}) has started no rank yet: look again in some seconds"
    elif not logs.logs:
        where = ", ".join(logs.ends) or "no file that could be found"
        yield f"the log was not found: the output goes to {where}; name it with --log PATH"


def _number(text: str, kind: type) -> Value:
    try:
        value = kind(text)
    except ValueError:
        return None
    return value if isinstance(value, int | float) else None


def _argument_facts(job: Job) -> Iterable[Fact]:
    seen = set()
    for name, text in arguments(job.lead):
        key, kind = _ARGUMENT_FACTS.get(name.lstrip("-").replace("_", "-").lower(), ("", int))
        value = _number(text, kind) if key else None
        if key and value is not None and key not in seen:
            seen.add(key)
            yield Fact(key, value, f"argument {name} of pid {job.lead.pid}")


def _facts(dump: Dump, job: Job, search: LogSearch, interpreter: str) -> Iterable[Fact]:
    lead, top = job.lead, job.top
    yield Fact("job_pid", top.pid, f"/proc/{top.pid}")
    yield Fact("launcher", job.launcher, f"/proc/{top.pid}/cmdline")
    yield Fact("command_line", " ".join(top.argv), f"/proc/{top.pid}/cmdline")
    if script := script_of(job):
        yield Fact("script", script, f"/proc/{lead.pid}/cmdline")
    if interpreter:
        yield Fact("interpreter", interpreter, f"/proc/{lead.pid}/cmdline and exe")
    if lead.cwd:
        yield Fact("working_dir", lead.cwd, f"/proc/{lead.pid}/cwd")
    if top.started is not None:
        yield Fact("job_started", top.started.isoformat(timespec="seconds"), f"/proc/{top.pid}/stat")
    if job.world_size is not None:
        stated = job.ranks and job.ranks[0].process.environment.get("WORLD_SIZE")
        source = f"WORLD_SIZE of pid {job.ranks[0].process.pid}" if stated else "ranks counted in /proc"
        yield Fact("world_size", job.world_size, source)
    yield Fact("ranks_running", len(job.ranks), "processes counted in /proc")
    if job.ranks:
        yield Fact("loader_processes", job.loader_processes, "children of the ranks counted in /proc")
    for position, log in enumerate(search.logs):
        yield Fact("log_path" if position == 0 else "log_path_other", log.path, log.how)
    if data := find_data_dir(dump, job):
        yield Fact("data_dir", *data)
    yield from _argument_facts(job)
    packages = {name: version for p in dump.processes.values() for name, version in p.packages.items()}
    if torch := packages.get("torch"):
        yield Fact("torch_version", torch, "package metadata beside the mapped libraries")
    if any(f.target.startswith("/dev/nvidia") for r in job.ranks for f in r.process.files):
        yield Fact("gpu_processes", len(job.ranks), "ranks with /dev/nvidia* open")


def _summary(job: Job, facts: tuple[Fact, ...]) -> str:
    values = {fact.name: fact.value for fact in reversed(facts)}
    world = f" of {job.world_size}" if job.world_size not in (None, len(job.ranks)) else ""
    parts = [f"{job.launcher}, {len(job.ranks)}{world} ranks"]
    if script := str(values.get("script") or ""):
        parts.append(posixpath.basename(script))
    if job.top.started is not None:
        parts[-1] += f" since {job.top.started:%H:%M:%S} UTC"
    log = str(values.get("log_path") or "")
    parts.append(f"log {posixpath.basename(log)} (found through the process)" if log else "log not found")
    return ", ".join(parts)


__all__ = ["TrainingJobs", "choose", "find_jobs", "interpreter_of", "launcher_of", "script_of"]
