"""The tables that ``training_jobs`` gives: jobs, ranks, environment. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from diag_kit.observe.job_log import LogSearch
from diag_kit.observe.job_tree import Job, Rank, uses_gpu

_JOBS: dict[str, str] = {
    "pid": "Int64",
    "user": "string",
    "launcher": "string",
    "script": "string",
    "interpreter": "string",
    "working_dir": "string",
    "log_path": "string",
    "world_size": "Int64",
    "ranks": "Int64",
    "started": "datetime64[us, UTC]",
    "command_line": "string",
    "readable": "boolean",
    "why_blind": "string",
}
_RANKS: dict[str, str] = {
    "job_pid": "Int64",
    "pid": "Int64",
    "rank": "Int64",
    "local_rank": "Int64",
    "world_size": "Int64",
    "gpu": "Int64",
    "gpu_uuid": "string",
    "user": "string",
    "loader_processes": "Int64",
    "threads": "Int64",
    "cpus_allowed": "string",
    "log_path": "string",
    "rank_from": "string",
    "readable": "boolean",
}
_ENVIRONMENT: dict[str, str] = {"job_pid": "Int64", "rank": "Int64", "name": "string", "value": "string"}


def _frame(rows: list[dict[str, object]], columns: Mapping[str, str]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=list(columns))
    return frame.astype(dict(columns))


def gpu_of(rank: Rank) -> tuple[int | None, str | None]:
    """GPU index by nvidia-smi's numbering, or a UUID: the local rank's entry of CUDA_VISIBLE_DEVICES.

    Without that variable the local rank itself, if the process holds a GPU at all (what
    torch.cuda.set_device(LOCAL_RANK) gives); a script that picks its device otherwise is not seen here.
    """
    visible = rank.process.environment.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return (rank.local, None) if uses_gpu(rank.process) else (None, None)
    devices = [item.strip() for item in visible.split(",") if item.strip()]
    if not devices or rank.local is None:
        return None, None
    device = devices[rank.local] if rank.local < len(devices) else devices[0] if len(devices) == 1 else ""
    if device.isdigit():
        return int(device), None
    return None, device or None


def jobs_table(
    jobs: list[Job],
    searches: Mapping[int, LogSearch],
    interpreters: Mapping[int, str],
    blind: Mapping[int, str],
    scripts: Mapping[int, str],
) -> pd.DataFrame:
    """One row per training found on the host."""
    rows: list[dict[str, object]] = []
    for job in jobs:
        pid = job.top.pid
        logs = searches[pid].logs
        rows.append(
            {
                "pid": pid,
                "user": job.top.user,
                "launcher": job.launcher,
                "script": scripts[pid] or None,
                "interpreter": interpreters[pid],
                "working_dir": job.lead.cwd or None,
                "log_path": logs[0].path if logs else None,
                "world_size": job.world_size,
                "ranks": len(job.ranks),
                "started": job.top.started,
                "command_line": " ".join(job.top.argv),
                "readable": not blind[pid],
                "why_blind": blind[pid],
            }
        )
    return _frame(rows, _JOBS)


def ranks_table(job: Job, searches: Mapping[int, LogSearch]) -> pd.DataFrame:
    """One row per rank process of one job; ``rank_from`` is "environment" or "order of start" (a guess)."""
    known = {log.path: log for log in searches[job.top.pid].logs}
    rows: list[dict[str, object]] = []
    for rank in job.ranks:
        gpu, uuid = gpu_of(rank)
        own = [file.target for number in (1, 2) if (file := rank.process.descriptor(number)) and file.is_regular]
        paths = [path for path in known if any(path.endswith(target) for target in own)]
        rows.append(
            {
                "job_pid": job.top.pid,
                "pid": rank.process.pid,
                "rank": rank.number,
                "local_rank": rank.local,
                "world_size": job.world_size,
                "gpu": gpu,
                "gpu_uuid": uuid,
                "user": rank.process.user,
                "loader_processes": len(rank.loaders),
                "threads": rank.process.threads,
                "cpus_allowed": rank.process.cpus_allowed or None,
                "log_path": paths[0] if paths else next(iter(known), None),
                "rank_from": "order of start" if rank.guessed else "environment",
                "readable": rank.process.readable,
            }
        )
    return _frame(rows, _RANKS)


def environment_table(job: Job) -> pd.DataFrame:
    """The chosen variables of each rank: one row per rank and variable."""
    rows: list[dict[str, object]] = [
        {"job_pid": job.top.pid, "rank": rank.number, "name": name, "value": value}
        for rank in job.ranks
        for name, value in rank.process.environment.items()
    ]
    return _frame(rows, _ENVIRONMENT)
