"""Kinds of text about CPU, memory, disks, network and processes: by content, and by command where the content is a bare number.

Patterns begin a line and stay on it ([ \\t], never \\s): linear on any text. Layouts are those of sysstat, procps, util-linux,
busybox, iproute2 and of the kernel's Documentation/filesystems/proc.rst and admin-guide/cgroup-v1, cgroup-v2.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice


def has(pattern: str, least: int = 1, flags: int = 0) -> Callable[[str], bool]:
    """Whether a text has at least that many matches."""
    compiled = re.compile(pattern, re.M | flags)
    return lambda text: sum(1 for _ in islice(compiled.finditer(text), least)) >= least


def _is_environment(text: str) -> bool:
    lines = [line for line in re.split(r"[\n\0]", text[:65536]) if line.strip()]
    named = sum(bool(re.match(r"(?:export |declare -x )?[A-Za-z_]\w*=", line)) for line in lines)
    upper = sum(bool(re.match(r"(?:export |declare -x )?[A-Z_][A-Z0-9_]*=", line)) for line in lines)
    return named >= 3 and named >= 0.8 * len(lines) and upper >= 0.6 * named


_TOOL_ERROR = has(
    r"^(?:[\w./-]{1,60}: (?:line \d+: )?)?[\w./+-]{1,60}: (?:command )?not found[ \t\r]*$"
    r"|^(?:fish: Unknown command|zsh: command not found|bash: command not found)"
    r"|^[\w./-]{1,60}: (?:bad -o argument|unrecognized option|invalid option|unknown option|illegal option|applet not found)"
    r"|^BusyBox v[\d.]+ .*multi-call binary|^error: (?:unsupported option|unknown|unsupported|garbage|improper|TTY could)"
    r"|^Usage:[ \t]+(?:ps|top|free|iostat|vmstat|mpstat|pidstat|df|lsblk|nvidia-smi|ss|numactl)\b|^[ \t]*(?:ps|top) \[options\]"
    r"|^Command '[\w.-]+' not found|^The program '[\w.-]+' is currently not installed"
    r"|is not recognized as (?:an internal or external command|the name of a cmdlet)"
    r"|^[\w./-]{1,60}: No such file or directory[ \t\r]*$|^exec: \"?[\w./-]+\"?: executable file not found"
    r"|OCI runtime exec failed"
)


def _is_tool_error(text: str) -> bool:
    return len(text) < 8000 and _TOOL_ERROR(text)


PY_SPY_FAILED = (
    r"^Permission [Dd]enied(?:: Try running again with elevated permissions"
    r"|\n\nIt looks like you are running in a docker container)"
    r"|^(?:Error: )?Failed to (?:find python version|get process executable|open process|suspend process"
    r"|find a python interpreter"
    r"|copy PyInterpreterState|get python|merge|read|find PyInterpreterState)"
    r"|py-spy#how-do-i-run-py-spy|^Error: This program requires root on OSX|^Error: Couldn't find"
)

SYSTEM_KINDS: tuple[tuple[str, Callable[[str], bool]], ...] = (
    ("mpstat", has(r'"cpu-load"[ \t]*:')),
    ("pidstat", has(r"^#?[^\n]{0,60}?\b(?:UID|PID|TGID)[ \t][^\n]{0,400}?(?:%usr|%user|kB_rd/s|minflt/s|cswch/s|StkSize|fd-nr)")),
    ("mpstat", has(r"^[^\n]{0,40}?[ \t]CPU[ \t]+(?:NODE[ \t]+)?%usr[ \t]")),
    (
        "sar",
        has(
            r"^[^\n]{4,30}?[ \t](?:CPU[ \t]+%us[a-z]*|IFACE[ \t]+rx|runq-sz|kbmemfree|DEV[ \t]+tps|proc/s|pgpgin/s"
            r"|pswpin/s|tps[ \t]+rtps)"
        ),
    ),
    ("lsblk", has(r'"blockdevices"[ \t]*:|^NAME[ \t]+[^\n]*\b(?:MAJ:MIN|TYPE|SIZE|FSTYPE|ROTA|MOUNTPOINTS?)\b|^NAME="[^"\n]*" ')),
    ("lscpu", has(r'^"?CPU\(s\):[ \t]+\d|^Model name:[ \t]+\S|"field"[ \t]*:[ \t]*"Architecture:"|^NUMA node\d+ CPU\(s\):')),
    ("numactl", has(r"^available: \d+ nodes? \(|^node \d+ (?:cpus|size|free):|^node distances:")),
    ("numastat", has(r"^numa_hit[ \t]{2,}\d")),
    (
        "mounts",
        has(
            r"^\S+ /\S* [\w.-]+ (?:rw|ro)[\w,=.:/@+\-\[\]]* \d \d[ \t\r]*$|^\S+ on /.* type [\w.]+ \("
            r"|^TARGET[ \t]+SOURCE[ \t]+FSTYPE"
        ),
    ),
    ("mounts", has(r"^\d+ \d+ \d+:\d+ / /.* - [\w.]+ ")),
    ("df", has(r"^\S[^\n]*[ \t]\d+%[ \t]+/[^\n]*$")),
    ("net_dev", has(r"^Inter-\|[ \t]+Receive|^[ \t]*face \|bytes")),
    ("net_snmp", has(r"^(?:Tcp|TcpExt|Udp|Ip): [A-Z]\w+ [A-Z]")),
    ("netstat_s", has(r"^[ \t]+\d+ segments? (?:retransmit+ed|sent out|received)")),
    ("ss", has(r"^(?:Netid[ \t]+)?State[ \t]+Recv-Q[ \t]+Send-Q|^TCP:[ \t]+\d+ \(estab")),
    ("diskstats", has(r"^[ \t]*\d+[ \t]+\d+ [a-z][\w!-]* \d+ \d+ \d+ \d+ \d+ \d+ \d+ \d+ \d+ \d+ \d+", 1)),
    ("proc_stat", has(r"^cpu[ \t]+\d+ \d+ \d+ \d+")),
    ("pressure", has(r"^(?:some|full) avg10=\d")),
    ("proc_limits", has(r"^Limit[ \t]+Soft Limit[ \t]+Hard Limit")),
    (
        "ulimit",
        has(
            r"^(?:-\w: )?(?:open files|max locked memory|max user processes|core file size)[ \t]+[(\d]"
            r"|^nofiles?(?:\(\w+\))?[ \t]+\d"
        ),
    ),
    ("proc_io", has(r"^(?:rchar|read_bytes): \d")),
    ("cgroup", has(r"^nr_periods \d|^oom_kill \d|^usage_usec \d|^(?:anon|inactive_file|total_cache) \d", 1)),
    ("proc_cgroup", has(r"^\d+:[\w,=.-]*:/")),
    ("proc_vmstat", has(r"^(?:nr_free_pages|pgpgin|pgmajfault|thp_fault_alloc) \d")),
    ("proc_pid_stat", has(r"^\d+ \([^\n]{1,64}\) [RSDZTtWXxKPI] -?\d+ -?\d+ -?\d+ ")),
    ("open_files", has(r"^[l-][rwx-]{9}[^\n]* \d+ -> \S")),
    ("kernel_stack", has(r"^\[<[0-9a-f]+>\] \w[\w.]*\+0x")),
    ("thp", has(r"^(?:\[?always\]? )?(?:\[?\w+(?:\+\w+)?\]? )*\[?madvise\]? \[?never\]?[ \t\r]*$")),
    ("affinity", has(r"^pid \d+'s current affinity (?:mask|list): ")),
    ("vmstat", has(r"^[ \t]*\d+ (?:K|k|M|m)?[ \t]?total memory[ \t\r]*$")),
    ("dstat", has(r"^-+total-(?:cpu-)?usage-+|^[ \t]*usr[ \t]+sys[ \t]+idl[ \t]+wai")),
    (
        "uptime",
        has(
            r"\bup[ \t]+[^\n]{0,60}load averages?: [\d.,]+|^load averages?: [\d.,]+"
            r"|^\d+\.\d\d \d+\.\d\d \d+\.\d\d \d+/\d+ \d+[ \t\r]*$"
        ),
    ),
    ("host_numbers", has(r"^(?:nproc|cpu_count|os\.cpu_count\(\))[ \t]*[:=][ \t]*\d+[ \t\r]*$")),
    ("py_spy", has(PY_SPY_FAILED)),
    ("py_spy", has(r'"thread_name"[ \t]*:[^\n]*|"os_thread_id"[ \t]*:')),
    ("ps", has(r"^[ \t]*(?:\S+[ \t]+){0,12}(?:PID|SPID|LWP|TID)\b[^\n]*\b(?:COMMAND|CMD|ARGS|COMM|PSR|NLWP|%CPU|STAT)\b")),
    ("environment", _is_environment),
)
"""Looked at after the kinds that were there first. A text of one kind more: add a line at the end."""
LAST_KINDS: tuple[tuple[str, Callable[[str], bool]], ...] = (("tool_missing", _is_tool_error),)
"""Only where nothing else fits: a table with one error line above it is still a table."""

_NUMBERS = re.compile(r"[ \t\r\n]*(?:\d{1,19}|max|unlimited)(?:[ \t]+\d{1,19})*[ \t\r\n]*\Z")
_BY_COMMAND: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "cgroup",
        re.compile(r"\b(?:cpu\.(?:max|weight|shares|stat|cfs_quota_us|cfs_period_us)|cpuset\.cpus|memory\.(?:max|high|current|limit_in_bytes"
                   r"|usage_in_bytes|swap\.max|events|failcnt)|pids\.(?:max|current))"),
    ),
    ("proc_schedstat", re.compile(r"/schedstat\b")),
    ("host_numbers", re.compile(r"\bnproc\b|\bgetconf _NPROCESSORS|\bulimit -[a-zA-Z]\b|/proc/sys/|/sys/(?:block"
    r"|class|kernel|devices)/|\bTHREADS=?\b")),
    ("counted", re.compile(r"\bwc -l\b|\bgrep\b[^|]* -\w*c|\bpgrep\b[^|]* -\w*c|\bpgrep -\w*c")),
)  # fmt: skip


def kind_by_command(text: str, command: str) -> str | None:
    """The kind of a bare number, "max" or a wait channel: only the command (or the file's name) says what it counts."""
    if not command or len(text) > 4000:
        return None
    if _NUMBERS.match(text):
        return next((kind for kind, pattern in _BY_COMMAND if pattern.search(command)), None)
    if re.search(r"/wchan\b", command) and re.fullmatch(r"\s*[\w.]+\s*", text):
        return "kernel_stack"
    if re.search(r"cpuset\.cpus|/cpulist\b|\btaskset -\w*c\w* -?p", command) and re.fullmatch(r"\s*[\d,\-]+\s*", text):
        return "cgroup"
    return None
