"""What processes may use, as people paste it: cgroup files, /proc/PID/limits, ulimit, THP, affinity, and bare numbers by
command. Pure."""

from __future__ import annotations

import re

from diag_kit.observe.memory_limits import cgroup_facts, list_size
from diag_kit.observe.raw import show, whole
from diag_kit.observe.system.found import Found, numbered
from diag_kit.records import CommandResult

_NO_LIMIT_BYTES = 2**60
_CGROUP_FILE = re.compile(
    r"\b(cpu\.max|cpu\.stat|cpu\.weight|cpu\.cfs_quota_us|cpu\.cfs_period_us|memory\.max|memory\.high|memory\.current|memory\.events"
    r"|memory\.stat|memory\.limit_in_bytes|memory\.usage_in_bytes|memory\.swap\.max|memory\.failcnt|cpuset\.cpus(?:\.effective)?"
    r"|cpuset\.effective_cpus|pids\.max|pids\.current|cpulist)\b"
)
_BYTES = {
    "memory.max": "memory_limit_bytes",
    "memory.limit_in_bytes": "memory_limit_bytes",
    "memory.high": "memory_high_bytes",
    "memory.current": "memory_used_bytes",
    "memory.usage_in_bytes": "memory_used_bytes",
    "memory.swap.max": "swap_limit_bytes",
}
_LISTS = ("cpuset.cpus", "cpuset.cpus.effective", "cpuset.effective_cpus", "cpulist")


def read_cgroup(result: CommandResult, found: Found) -> None:
    """cgroup v1 and v2 files: the name from the command, a heading above, or ``NAME:`` before; key-value files by their keys.

    "max", -1 and numbers near 2**63 are "no limit": no fact. cpu.max and the cfs pair give cpu_quota_cores, cpu.stat gives
    cpu_throttled_fraction (throttled of all periods, since the cgroup began), memory.events its counts.
    """
    named = _CGROUP_FILE.findall(result.command)
    name = named[0] if len(named) == 1 else ""
    queue = list(named) if len(named) > 1 else []
    pairs: dict[str, int] = {}
    quotas: list[str] = []
    for at, line in numbered(result.text):
        text = line.strip()
        if heading := re.match(r"^(?:\S*/)?" + _CGROUP_FILE.pattern + r"[ \t]*(?:[:=][ \t]*)?", text):
            name, text = heading[1], text[heading.end() :]
        if not text:
            continue
        if match := re.fullmatch(r"([a-z_][\w.]*) (\d{1,19})", text):
            pairs.setdefault(match[1], int(match[2]))
            continue
        if queue and not heading:
            name = queue.pop(0)
        if not _value(found, name, text, quotas):
            found.strange(f"line {at}", line, "the cgroup file that this comes from is not named")
    if quotas:
        found.facts.extend(cgroup_facts("\n".join(quotas), "the pasted text"))
    _pairs(found, pairs, result.command)


def _value(found: Found, name: str, text: str, quotas: list[str]) -> bool:
    source = name or "cgroup"
    number = whole(text.split()[0])
    if name == "cpu.max" or (not name and re.fullmatch(r"(?:max|\d{3,9}) 100000", text)):
        quotas.append(f"cpu.max {text}")
    elif name in ("cpu.cfs_quota_us", "cpu.cfs_period_us"):
        quotas.append(f"{name} {text}")
    elif name in _BYTES:
        limited = number is not None and 0 <= number < _NO_LIMIT_BYTES
        found.fact(_BYTES[name], number if limited else None, source, "bytes")
        if not limited:
            found.said.append(f"{name}: no limit")
    elif name in _LISTS:
        found.fact("cpus_allowed", list_size(text), source)
    elif name == "memory.failcnt":
        found.fact("memory_limit_hits", number, source)
    elif name in ("pids.max", "pids.current", "cpu.weight"):
        found.fact(name.replace(".", "_"), number, source)
    else:
        return False
    return True


def _pairs(found: Found, pairs: dict[str, int], command: str) -> None:
    periods, throttled = pairs.get("nr_periods"), pairs.get("nr_throttled")
    if periods is not None or "usage_usec" in pairs:
        if periods and throttled is not None:
            found.fact("cpu_throttled_fraction", round(min(1.0, throttled / periods), 4), "cpu.stat, since the cgroup began")
        micro = pairs.get("throttled_usec", pairs["throttled_time"] // 1000 if "throttled_time" in pairs else None)
        found.fact("cpu_throttled_s", None if micro is None else micro / 1e6, "cpu.stat, since the cgroup began", "s")
    if "oom_kill" in pairs and not {"pgfault", "nr_free_pages"} & pairs.keys():
        found.fact("memory_oom_kills", pairs["oom_kill"], "memory.events")
        found.fact("memory_limit_hits", pairs.get("max"), "memory.events")
    source = "memory.stat" if "pgfault" in pairs or "anon" in pairs else show(command, 60)
    found.rows["counters"].extend({"source": source, "name": name, "value": value} for name, value in pairs.items())


_UNITS = {"bytes": 1, "kbytes": 1024, "blocks": 512, "512-byte blocks": 512}
_ULIMIT = re.compile(r"^(?:(-\w): )?([a-zA-Z][\w ./+-]*?)[ \t]*\((?:([\w -]+), )?(-?\w)?\)[ \t]+(\d{1,19}|unlimited|hard|soft)$")
_DASH_ULIMIT = re.compile(r"^(?:-\w: )?([a-z][a-z -]{2,30}?)(?:\((\w[\w -]*)\))?[ \t]+(\d{1,19}|unlimited)$")
_FACTS = {
    "open files": "open_files_limit",
    "nofile": "open_files_limit",
    "nofiles": "open_files_limit",
    "Max open files": "open_files_limit",
    "max locked memory": "locked_memory_limit_bytes",
    "Max locked memory": "locked_memory_limit_bytes",
    "locked memory": "locked_memory_limit_bytes",
    "max user processes": "processes_limit",
    "Max processes": "processes_limit",
    "process": "processes_limit",
}


def read_limits(result: CommandResult, found: Found, pid: int | None = None) -> None:
    """``ulimit -a`` of bash, dash, zsh (soft limits) and /proc/PID/limits: table ``limits``, in bytes where the unit is one of
    size."""
    owner = re.search(r"/proc/(\d{1,9})/limits", result.command)
    pid = int(owner[1]) if owner else pid
    for at, line in numbered(result.text):
        text = line.strip()
        if match := re.fullmatch(r"(Max [a-z -]+?)[ \t]{2,}(\d{1,19}|unlimited)[ \t]+(\d{1,19}|unlimited)(?:[ \t]+(\w+))?", text):
            _limit(found, pid, match[1], match[2], match[3], match[4] or "", "/proc/PID/limits")
        elif match := _ULIMIT.match(text):
            _limit(found, pid, match[2], match[5], None, match[3] or "", "ulimit")
        elif match := _DASH_ULIMIT.match(text):
            _limit(found, pid, match[1].strip(), match[3], None, match[2] or "", "ulimit")
        elif text and not text.startswith("Limit "):
            found.strange(f"limits line {at}", line, "no limit")


def _limit(found: Found, pid: int | None, name: str, soft: str, hard: str | None, unit: str, source: str) -> None:
    factor = _UNITS.get(unit.strip(), 1)
    values = [None if text is None or (value := whole(text)) is None else value * factor for text in (soft, hard)]
    row = {"pid": pid, "name": name, "soft": values[0], "hard": values[1], "unlimited": soft == "unlimited"}
    found.rows["limits"].append(row | {"unit": "bytes" if factor > 1 or unit == "bytes" else unit or None})
    if name in _FACTS:
        found.fact(_FACTS[name], values[0], f"{source}: {name}")


def read_thp(result: CommandResult, found: Found) -> None:
    """/sys/kernel/mm/transparent_hugepage/enabled or defrag: the word in brackets."""
    for at, line in numbered(result.text):
        if match := re.search(r"\[([\w+]+)\]", line):
            defrag = "defer" in line or "defrag" in result.command
            found.fact("thp_defrag" if defrag else "thp_enabled", match[1], "/sys/kernel/mm/transparent_hugepage")
        elif line.strip():
            found.strange(f"line {at}", line, "no word in brackets")


def read_affinity(result: CommandResult, found: Found) -> None:
    """``taskset -p`` and ``taskset -cp`` (util-linux): a mask in hexadecimal, or a list."""
    for at, line in numbered(result.text):
        if match := re.match(r"^pid (\d{1,9})'s (?:current|new) affinity (mask|list): (\S{1,600})[ \t]*$", line):
            listed = match[2] == "list"
            mask = match[3].replace(",", "")
            cpus = match[3] if listed else _mask_list(mask)
            found.rows["affinity"].append({"pid": int(match[1]), "cpus": cpus, "cpu_count": list_size(cpus or "")})
            found.fact("cpus_allowed", list_size(cpus or ""), f"affinity of pid {match[1]}")
        elif line.strip():
            found.strange(f"line {at}", line, "no line of taskset")


def _mask_list(mask: str) -> str | None:
    if not re.fullmatch(r"[0-9a-fA-F]{1,512}", mask):
        return None
    bits = int(mask, 16)
    runs: list[str] = []
    at = 0
    while bits >> at:
        if not bits >> at & 1:
            at += 1
            continue
        end = at
        while bits >> (end + 1) & 1:
            end += 1
        runs.append(str(at) if end == at else f"{at}-{end}")
        at = end + 1
    return ",".join(runs) or None


_BY_COMMAND = (
    (r"\bnproc\b|_NPROCESSORS_ONLN|/cpu/online", "cpu_count"),
    (r"\bulimit -\w*n", "open_files_limit"),
    (r"\bulimit -\w*u", "processes_limit"),
    (r"OMP_NUM_THREADS", "omp_num_threads"),
    (r"swappiness", "swappiness"),
    (r"dirty_ratio", "dirty_ratio_pct"),
    (r"numa_balancing", "numa_balancing"),
    (r"/rotational", "rotational"),
    (r"read_ahead_kb", "read_ahead_kib"),
    (r"nr_requests", "nr_requests"),
    (r"/(?:net/\w+)/speed", "link_mbit_per_s"),
    (r"scaling_cur_freq", "cpu_khz"),
    (r"/sys/.*/numa_node", "numa_node"),
)


def read_host_numbers(result: CommandResult, found: Found) -> None:
    """One bare number whose meaning the command gives (``nproc``), or ``nproc: 48``."""
    for at, line in numbered(result.text):
        text = line.strip()
        if not text:
            continue
        named = re.fullmatch(r"(nproc|cpu_count|os\.cpu_count\(\))[ \t]*[:=][ \t]*(\d{1,9})", text)
        value = whole(named[2] if named else text.split()[0])
        name = "cpu_count" if named else next((name for pattern, name in _BY_COMMAND if re.search(pattern, result.command)), None)
        if name is not None and (value is not None or text in ("unlimited", "max")):
            found.fact(name, value, show(result.command, 100))
            found.said.append(f"{name} {'no limit' if value is None else value}")
        else:
            found.strange(f"line {at}", line, f"what {show(result.command, 60)} counts is not known")


def read_counted(result: CommandResult, found: Found) -> None:
    """What ``grep -c``, ``wc -l`` or ``pgrep -c`` counted. Threads where ps listed threads (-L, -T, -m) or /proc/PID/task was
    listed."""
    command = result.command
    value = whole(result.text.strip().split(" ")[0]) if result.text.strip() else None
    if re.search(r"\bps\b[^|]*[ \t]-?\w*[LTm]|\bps -[a-zA-Z]*[LT]", command):
        name = "threads_counted"
    elif re.search(r"/task\b", command):
        name = "threads_of_process"
    elif re.search(r"/proc/\w+/fd\b", command):
        name = "open_files_of_process"
    elif re.search(r"\bps\b|\bpgrep\b", command):
        name = "processes_counted"
    elif re.search(r"\b(?:ls|find)\b", command):
        name = "files_counted"
    else:
        name = "lines_counted"
    if value is None:
        found.strange("line 1", result.text, "no number")
        return
    header = name in ("threads_counted", "processes_counted") and "wc -l" in command and "grep" not in command
    found.fact(name, value, show(command, 100) + (" (its header line counts too)" if header else ""))
    found.said.append(f"{show(command, 60)}: {value}")
