"""Files of /proc/PID as people paste them: status, io, stat, cgroup, schedstat, wchan, stack, fd, environ. Pure; proc(5)."""

from __future__ import annotations

import re

from diag_kit.observe.memory_limits import list_size
from diag_kit.observe.raw import number, show, whole
from diag_kit.observe.remote_proc import ENVIRONMENT
from diag_kit.observe.system.found import Found, numbered
from diag_kit.records import CommandResult

CHOSEN = frozenset(ENVIRONMENT) | {
    "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "KMP_AFFINITY", "GOMP_CPU_AFFINITY", "OMP_PROC_BIND",
    "OMP_PLACES", "TORCH_NCCL_BLOCKING_WAIT", "TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_BUFFSIZE", "NCCL_NTHREADS",
    "NCCL_IB_GID_INDEX",
    "NCCL_IB_TC", "NCCL_TOPO_FILE", "NCCL_NVLS_ENABLE", "NCCL_P2P_NET_CHUNKSIZE", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME",
    "CUDA_DEVICE_MAX_CONNECTIONS", "CUDNN_BENCHMARK", "TORCH_CUDNN_V8_API_ENABLED", "NVIDIA_TF32_OVERRIDE",
    "TORCHINDUCTOR_CACHE_DIR",
    "PYTORCH_JIT", "HF_DATASETS_OFFLINE", "HF_HUB_OFFLINE", "WANDB_MODE", "MALLOC_ARENA_MAX", "LD_PRELOAD", "SLURM_CPUS_ON_NODE",
    "SLURM_GPUS_ON_NODE", "SLURM_NODELIST", "SLURM_JOB_NUM_NODES", "SLURM_CPU_BIND",
}  # fmt: skip
"""Variables that say how a training runs. No other is read: the rest of an environment may hold secrets."""
_STATUS = {
    "Threads": ("threads", ""),
    "VmRSS": ("rss_bytes", "bytes"),
    "VmSwap": ("swap_bytes", "bytes"),
    "VmSize": ("virtual_bytes", "bytes"),
    "VmHWM": ("rss_peak_bytes", "bytes"),
    "voluntary_ctxt_switches": ("voluntary_switches", ""),
    "nonvoluntary_ctxt_switches": ("involuntary_switches", ""),
}


def pid_of(command: str) -> int | None:
    """The process that a command looks at: /proc/4711/..., ``-p 4711``."""
    found = re.search(r"/proc/(\d{1,9})\b|-p[ \t]*(\d{1,9})\b|--pid[ =](\d{1,9})\b", command)
    return int(next(group for group in found.groups() if group)) if found else None


def read_status(result: CommandResult, found: Found) -> None:
    """/proc/PID/status, of one process or several after each other; whole or grepped."""
    pid = pid_of(result.command)
    for at, line in numbered(result.text):
        text = line.strip()
        match = re.fullmatch(r"(?:/proc/(\d{1,9})/(?:task/\d{1,9}/)?status:)?([A-Za-z_]\w*(?: \w+)?):[ \t]*(.*)", text)
        if not match:
            if text:
                found.strange(f"status line {at}", line, "no line of /proc/PID/status")
            continue
        pid = int(match[1]) if match[1] else pid
        name, value = match[2], match[3].strip()
        if name == "Pid" and (own := whole(value)) is not None:
            pid = own
        found.rows["process_details"].append({"pid": pid, "name": name, "value": value[:200]})
        source = f"/proc/{pid if pid is not None else 'PID'}/status"
        if name in _STATUS:
            _status_fact(found, *_STATUS[name], value, source)
        elif name == "Cpus_allowed_list":
            found.fact("cpus_allowed", list_size(value), source)
        elif name == "State" and value[:1] == "D":
            found.said.append(f"pid {pid} waits in uninterruptible sleep")


def _status_fact(found: Found, name: str, unit: str, value: str, source: str) -> None:
    words = value.split()
    amount = whole(words[0]) if words else None
    if unit == "bytes":
        amount = amount * 1024 if amount is not None and words[1:] == ["kB"] else None
    found.fact(f"process_{name}", amount, source, unit)
    if name == "threads" and amount is not None:
        found.said.append(f"{amount} threads")


def read_io(result: CommandResult, found: Found) -> None:
    """/proc/PID/io: totals since the process began. rchar counts the page cache and pipes too, read_bytes what storage gave."""
    pid = pid_of(result.command)
    for at, line in numbered(result.text):
        match = re.fullmatch(r"(?:/proc/(\d{1,9})/io:)?(\w+): (\d{1,19})", line.strip())
        if match:
            pid = int(match[1]) if match[1] else pid
            found.rows["counters"].append({"source": f"/proc/{pid or 'PID'}/io", "name": match[2], "value": int(match[3])})
        elif line.strip():
            found.strange(f"io line {at}", line, "no line of /proc/PID/io")


def read_pid_stat(result: CommandResult, found: Found) -> None:
    """/proc/PID/stat: the name may hold anything, so the fields count from its last ")". Times in clock ticks, 100 a second."""
    for at, line in numbered(result.text):
        head, _, rest = line.rpartition(")")
        pid, fields = whole(head.partition("(")[0]), rest.split()
        if pid is None or len(fields) < 22:
            if line.strip():
                found.strange(f"stat line {at}", line, "no line of /proc/PID/stat")
            continue
        row = {
            "pid": pid,
            "ppid": whole(fields[1]),
            "state": fields[0],
            "threads": whole(fields[17]),
            "command": head.partition("(")[2],
        }
        found.rows["processes"].append(row)


def read_schedstat(result: CommandResult, found: Found) -> None:
    """/proc/PID/schedstat: ns on a CPU, ns waiting for one, times it ran (Documentation/scheduler/sched-stats.rst)."""
    values = [whole(word) for word in result.text.split()[:3]]
    if len(values) < 3 or any(value is None for value in values):
        found.strange("line 1", result.text, "not the three numbers of schedstat")
        return
    on_cpu, waiting = (value / 1e9 for value in values[:2] if value is not None)
    source = show(result.command, 80)
    found.fact("process_cpu_s", round(on_cpu, 3), source, "s")
    found.fact("process_wait_for_cpu_s", round(waiting, 3), source, "s")


def read_stack(result: CommandResult, found: Found) -> None:
    """/proc/PID/stack (innermost first) and /proc/PID/wchan: where in the kernel a process waits."""
    pid = pid_of(result.command)
    depth = 0
    for at, line in numbered(result.text):
        text = line.strip()
        if match := re.match(r"^(?:/proc/(\d{1,9})/\w+:)?\[<[0-9a-f]+>\] ([\w.]+)", text):
            pid = int(match[1]) if match[1] else pid
            found.rows["process_details"].append({"pid": pid, "name": f"kernel_stack_{depth}", "value": match[2]})
            depth += 1
        elif re.fullmatch(r"[\w.]+", text):
            found.rows["process_details"].append({"pid": pid, "name": "wchan", "value": None if text == "0" else text})
        elif text:
            found.strange(f"line {at}", line, "no frame of a kernel stack")
    first = next((row["value"] for row in found.rows["process_details"] if row["value"]), None)
    if first:
        found.said.append(f"waits in {first}")


def read_cgroup_path(result: CommandResult, found: Found) -> None:
    """/proc/PID/cgroup: the groups of a process, v2 as ``0::/path``."""
    pid = pid_of(result.command)
    for at, line in numbered(result.text):
        match = re.fullmatch(r"(\d{1,4}):([\w,=.-]*):(/.*)", line.strip())
        if match:
            found.rows["process_details"].append({"pid": pid, "name": f"cgroup {match[2] or 'v2'}", "value": match[3][:200]})
        elif line.strip():
            found.strange(f"cgroup line {at}", line, "no line of /proc/PID/cgroup")


def read_open_files(result: CommandResult, found: Found) -> None:
    """``ls -l /proc/PID/fd``."""
    pid = pid_of(result.command)
    for at, line in numbered(result.text):
        text = line.strip()
        if heading := re.fullmatch(r"/proc/(\d{1,9})/fd/?:", text):
            pid = int(heading[1])
        elif match := re.match(r"^[l-][rwx-]{9}\S?[^\n]*? (\d{1,9}) -> (\S.*)$", text):
            found.rows["open_files"].append({"pid": pid, "fd": int(match[1]), "target": match[2][:500]})
        elif text and not re.match(r"^(?:total|insgesamt) \d+$", text):
            found.strange(f"fd line {at}", line, "no link of /proc/PID/fd")
    found.said.append(f"{len(found.rows['open_files'])} open files")


def read_environment(result: CommandResult, found: Found) -> None:
    """``env``, ``export``, /proc/PID/environ: the chosen variables only; the others are counted, never kept."""
    others = 0
    for line in re.split(r"[\n\0]", result.text):
        match = re.match(r"^(?:export |declare -x |set -gx )?([A-Za-z_]\w*)=(.*)$", line.rstrip("\r"))
        if match and match[1] in CHOSEN:
            value = match[2].strip().strip("\"'")[:200]
            found.rows["environment"].append({"name": match[1], "value": value})
            if match[1] in ("OMP_NUM_THREADS", "WORLD_SIZE"):
                amount = number(value)
                found.fact(match[1].lower(), int(amount) if amount is not None else None, "environment")
        elif match:
            others += 1
    if others:
        found.said.append(f"{len(found.rows['environment'])} variables kept, {others} others not looked at")
