"""Which processes of a dump form a training: launcher, ranks, loader processes. Pure.

A rank is a Python process below torchrun, accelerate, deepspeed and the like, or a Python script that has a training
library mapped and is no known server, notebook or tool. An interactive Python, a notebook kernel or ``vim train.py`` is
neither.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field

from diag_kit.observe.process_dump import Dump, Process

_LAUNCHERS = {
    "torchrun": "torchrun",
    "accelerate": "accelerate",
    "accelerate-launch": "accelerate",
    "deepspeed": "deepspeed",
    "deepspeed.pt": "deepspeed",
    "horovodrun": "horovodrun",
    "composer": "composer",
    "colossalai": "colossalai",
    "mpirun": "mpirun",
    "mpiexec": "mpirun",
    "mpiexec.hydra": "mpirun",
    "orterun": "mpirun",
    "prterun": "mpirun",
    "srun": "srun",
    "slurmstepd": "srun",
}
SPAWN = "mp.spawn"
_MODULES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "accelerate.commands.launch": "accelerate",
    "accelerate.commands.accelerate_cli": "accelerate",
    "deepspeed.launcher.runner": "deepspeed",
    "deepspeed.launcher.launch": "deepspeed",
    "horovod.runner": "horovodrun",
}
_ONLY_TRAININGS = {"torchrun", "accelerate", "deepspeed", "horovodrun", "composer", "colossalai"}
_PYTHON = re.compile(r"^(python|pypy)[\d.]*t?$")
_OPTIONS_WITH_VALUE = {"-W", "-X", "--check-hash-based-pycs"}
_TRAINING_LIBRARIES = {"libtorch_cpu", "libtorch_cuda", "libtorch_hip", "libtensorflow", "xla_extension", "libjax"}
_GPU_LIBRARIES = {"libtorch_cuda", "libcuda", "libcudart", "libtorch_hip", "libnccl", "librccl"}
_NOT_TRAINING = re.compile(
    r"(ipykernel|jupyter|ipython|notebook|spyder|vllm|sglang|uvicorn|gunicorn|hypercorn|tritonserver|text_generation|"
    r"tensorboard|ray|dask|celery|streamlit|gradio|pytest|pylint|mypy|pip|conda|debugpy|idlelib|pdb|wandb|"
    r"nvitop|gpustat)([\d._-].*|_launcher)?"
)
_HELPERS = re.compile(r"resource_tracker|semaphore_tracker|compile_worker|wandb|forkserver|torch_shm_manager|tensorboard")
_RANK_NAMES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
_LOCAL_RANK_NAMES = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
_WORLD_NAMES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
_SLURM_NAMES: dict[tuple[str, ...], str] = {
    _RANK_NAMES: "SLURM_PROCID",
    _LOCAL_RANK_NAMES: "SLURM_LOCALID",
    _WORLD_NAMES: "SLURM_NTASKS",
}


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank process and its loader processes. ``number`` is a guess by order of start where ``guessed``."""

    process: Process
    number: int
    local: int | None
    guessed: bool = False
    loaders: tuple[Process, ...] = ()


@dataclass(frozen=True, slots=True)
class Job:
    """One training on this host; ``top`` is the process that stands for it, ``above`` what that was started by."""

    top: Process
    launcher: str
    ranks: tuple[Rank, ...]
    world_size: int | None
    above: tuple[Process, ...] = field(default=(), repr=False)

    @property
    def pids(self) -> frozenset[int]:
        own = {rank.process.pid for rank in self.ranks} | {loader.pid for rank in self.ranks for loader in rank.loaders}
        return frozenset(own | {self.top.pid})

    @property
    def loader_processes(self) -> int:
        return sum(len(rank.loaders) for rank in self.ranks)

    @property
    def lead(self) -> Process:
        """The process whose script, folder and interpreter are the job's: rank 0's here, else the launcher."""
        return self.ranks[0].process if self.ranks and self.launcher != SPAWN else self.top


def is_python(process: Process) -> bool:
    names = (process.argv[0] if process.argv else "", process.exe)
    return process.name.startswith("pt_") or any(_PYTHON.match(posixpath.basename(name)) for name in names)


def program_of(process: Process) -> tuple[str, int]:
    """What a Python process runs, and its first argument's index: ("train.py", 2), ("-m pkg.mod", 3), ("", n)."""
    argv, index = process.argv, 1
    while index < len(argv):
        word = argv[index]
        if word == "-m" and index + 1 < len(argv):
            return f"-m {argv[index + 1]}", index + 2
        if word in ("-c", "-"):
            return word, index + 1
        if word in _OPTIONS_WITH_VALUE:
            index += 2
        elif word.startswith("-"):
            index += 1
        else:
            return word, index + 1
    return "", index


def launcher_of(process: Process) -> str:
    """The launcher that this process is, or ""."""
    if not process.argv:
        return ""
    first = posixpath.basename(process.argv[0])
    if process.name == "slurmstepd" or first.startswith("slurmstepd"):
        # the daemon of "sbatch" runs a shell script, not one process per rank
        return "" if ".batch" in " ".join(process.argv) else "srun"
    if not is_python(process):
        return _LAUNCHERS.get(first, "")
    program, start = program_of(process)
    if program.startswith("-m "):
        return _MODULES.get(program[3:], "")
    name = _LAUNCHERS.get(posixpath.basename(program), "")
    return "" if program.endswith("accelerate") and process.argv[start : start + 1] != ("launch",) else name


def _number(process: Process, names: tuple[str, ...], launcher: str = "") -> int | None:
    """Slurm's variables count only below srun: in a batch script every process inherits SLURM_PROCID=0."""
    for name in (*names, _SLURM_NAMES[names]) if launcher == "srun" else names:
        value = process.environment.get(name, "")
        if value.isdigit():
            return int(value)
    return None


def has_training_library(process: Process) -> bool:
    return bool(process.libraries & _TRAINING_LIBRARIES) or process.name.startswith("pt_")


def uses_gpu(process: Process) -> bool:
    return bool(process.libraries & _GPU_LIBRARIES) or any(f.target.startswith("/dev/nvidia") for f in process.files)


def _is_helper(process: Process) -> bool:
    return bool(_HELPERS.search(" ".join(process.argv[1:6])))


def _is_spawned(process: Process) -> bool:
    return "--multiprocessing-fork" in process.argv or "spawn_main" in " ".join(process.argv[1:4])


def _candidate(process: Process) -> bool:
    return is_python(process) and not launcher_of(process) and not process.is_reader and not _is_helper(process)


def _rank_processes(dump: Dump) -> list[Process]:
    """Topmost Python processes that are a rank; what runs below them are their helpers."""
    found: dict[int, Process] = {}
    for process in sorted(dump.processes.values(), key=lambda p: p.pid):
        if not _candidate(process):
            continue
        above = list(dump.ancestors(process))
        launched = any(launcher_of(parent) in _ONLY_TRAININGS for parent in above)
        if launched or _is_plain_training(process):
            found[process.pid] = process
    return [p for p in found.values() if not any(parent.pid in found for parent in dump.ancestors(p))]


def _is_plain_training(process: Process) -> bool:
    program, _ = program_of(process)
    if not has_training_library(process) or program in ("", "-", "-c") or process.is_worker or _is_spawned(process):
        return False
    return not _NOT_TRAINING.fullmatch(posixpath.basename(program.removeprefix("-m ")))


def _loaders(dump: Dump, rank: Process) -> tuple[Process, ...]:
    children = [child for child in dump.children(rank.pid) if not _is_helper(child)]
    named = [child for child in children if child.name == "pt_data_worker"]
    if named:
        return tuple(named)
    return tuple(child for child in children if child.argv == rank.argv or _is_spawned(child))


def _spawned_ranks(dump: Dump, process: Process) -> list[Process]:
    """Children started with ``mp.spawn`` that are ranks: with children of their own, or a GPU where the parent has
    none.
    """
    children = [child for child in dump.children(process.pid) if _is_spawned(child) and not _is_helper(child)]
    busy = [child for child in children if _loaders(dump, child) or (uses_gpu(child) and not uses_gpu(process))]
    return busy if len(busy) > 1 else []


def _numbered(dump: Dump, processes: list[Process], launcher: str) -> tuple[Rank, ...]:
    order = sorted(processes, key=lambda p: (p.started is None, p.started.timestamp() if p.started else 0.0, p.pid))
    numbers = [_number(p, _RANK_NAMES, launcher) for p in order]
    guessed = len(order) > 1 and (None in numbers or len(set(numbers)) < len(numbers))
    ranks = []
    for position, (process, number) in enumerate(zip(order, numbers, strict=True)):
        local = _number(process, _LOCAL_RANK_NAMES, launcher)
        value = position if guessed or number is None else number
        ranks.append(Rank(process, value, local if local is not None else value, guessed, _loaders(dump, process)))
    return tuple(sorted(ranks, key=lambda rank: rank.number))


def _world_size(ranks: tuple[Rank, ...], launcher: str, top: Process) -> int | None:
    """As the ranks' environment says, else as the launcher was told; None where other hosts may hold more ranks."""
    for rank in ranks:
        size = _number(rank.process, _WORLD_NAMES, launcher)
        if size is not None:
            return max(size, len(ranks))
    if not any(rank.process.blind for rank in ranks):
        return len(ranks) or None
    told = re.search(r"--nproc[-_]per[-_]node[= ](\d+)", " ".join(top.argv))
    several = re.search(r"--nnodes[= ](?!1\b)", " ".join(top.argv))
    return len(ranks) if told and int(told[1]) == len(ranks) and not several else None


def _job(dump: Dump, top: Process, launcher: str, processes: list[Process]) -> Job:
    spawned = _spawned_ranks(dump, processes[0]) if len(processes) == 1 and not launcher else []
    ranks = _numbered(dump, spawned or processes, launcher)
    name = launcher or (SPAWN if spawned else "python")
    return Job(top, name, ranks, _world_size(ranks, launcher, top), tuple(dump.ancestors(top)))


def _run_of_orphan(process: Process) -> tuple[str, ...]:
    """What ranks of one run without a launcher have in common: address, port, run id, number of ranks, user and script."""
    env = process.environment
    world = _number(process, _WORLD_NAMES)
    names = (env.get("MASTER_ADDR", ""), env["MASTER_PORT"], env.get("TORCHELASTIC_RUN_ID", ""))
    program, _ = program_of(process)
    script = program if program.startswith("-") or not program else process.path(program)
    return ("address", *names, str(world), str(process.uid), script)


def _apart(processes: list[Process]) -> list[list[Process]]:
    """Ranks that agree in everything else, told apart where a number occurs twice: by parent, then by the order of start."""
    if len({_number(p, _RANK_NAMES) for p in processes}) == len(processes):
        return [processes]
    by_parent: dict[int, list[Process]] = {}
    for process in processes:
        by_parent.setdefault(process.parent, []).append(process)
    if 1 < len(by_parent) < len(processes):
        return [run for family in by_parent.values() for run in _apart(family)]
    runs: list[dict[int | None, Process]] = []
    for process in sorted(processes, key=lambda p: (p.started is None, p.started.timestamp() if p.started else 0.0, p.pid)):
        number = _number(process, _RANK_NAMES)
        free = next((run for run in runs if number not in run), None)
        if free is None:
            runs.append({number: process})
        else:
            free[number] = process
    return [list(run.values()) for run in runs]


def find_jobs(dump: Dump) -> list[Job]:
    """All trainings of the dump, those with most ranks first."""
    groups: dict[tuple[str, ...], list[Process]] = {}
    tops: dict[tuple[str, ...], tuple[Process, str]] = {}
    for process in _rank_processes(dump):
        boss = next((parent for parent in dump.ancestors(process) if launcher_of(parent)), None)
        if boss is not None:
            key: tuple[str, ...] = ("launcher", str(boss.pid))
            tops[key] = (boss, launcher_of(boss))
        elif _number(process, _RANK_NAMES) is not None and process.environment.get("MASTER_PORT"):
            key = _run_of_orphan(process)
            tops.setdefault(key, (process, ""))
        else:
            key = ("process", str(process.pid))
            tops[key] = (process, "")
        groups.setdefault(key, []).append(process)
    jobs = []
    for key, processes in groups.items():
        top, launcher = tops[key]
        for run in [processes] if key[0] == "launcher" else _apart(processes):
            jobs.append(_job(dump, top if top in run or launcher else run[0], launcher, run))
    taken = {pid for job in jobs for pid in job.pids} | {p.pid for job in jobs for p in job.above}
    waiting = [p for p in dump.processes.values() if launcher_of(p) in _ONLY_TRAININGS and p.pid not in taken]
    jobs += [Job(p, launcher_of(p), (), None) for p in waiting if _is_outermost(dump, p, waiting)]
    return sorted(jobs, key=lambda job: (-len(job.ranks), job.top.pid))


def _is_outermost(dump: Dump, process: Process, others: list[Process]) -> bool:
    pids = {other.pid for other in others}
    return not any(parent.pid in pids for parent in dump.ancestors(process))
