"""Where one pasted text holds the output of several commands: the prompts, ``set -x`` marks and headings that part it. Pure.

Prompts known: bash, zsh, fish, root, conda and virtual environments, PowerShell, containers (``/ # ps``, ``bash-5.1#``), Jupyter
(``!cmd``). A mark that ordinary text uses too (``#``, ``+``, ``%``, ``>``, a ruled heading) counts only before a word of
``TOOLS``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOOLS = (
    "iostat mpstat vmstat pidstat sar sadf top htop atop ps pstree pgrep free df du lsblk mount findmnt uptime nproc lscpu lspci "
    "numactl numastat dstat ss netstat ip ethtool ibstat ibstatus nvidia-smi nvtop dcgmi rocm-smi py-spy "
    "dmesg journalctl cat head "
    "tail grep egrep zgrep sed awk ls find wc ulimit taskset lsof strace perf sudo watch env printenv uname hostname date which "
    "sysctl getconf squeue sinfo scontrol nfsstat nfsiostat mountstats lsmod nccl-tests all_reduce_perf docker kubectl timeout w "
    "command stat dd fio hdparm smartctl xxd tr sort time echo"
)
TOOLS = frozenset(_TOOLS.split())
"""Programs whose output people paste."""
_LAUNCHERS = (
    "python python3 torchrun accelerate deepspeed mpirun mpiexec srun sbatch horovodrun colossalai uv conda "
    "source export cd module "
    "set unset exec bash sh ssh pip mkdir cp mv rm ln tar rsync sleep test [ [[ true false wait kill . tee ray wandb"
)
LAUNCHERS = frozenset(_LAUNCHERS.split())
_ENV = r"(?:\([\w./-]{1,60}\) ?){0,3}(?:\[[\d:. -]{4,25}\] ?)?"
_SURE = re.compile(
    r"^" + _ENV + r"(?:"
    r"[\w.-]+@[\w.-]+[: ][^\n$#]{0,80}[$#]"  # user@host:~/x$
    r"|\[[\w.-]+@[\w.-]+ [^\]\n]{0,80}\][$#]"  # [user@host x]$
    r"|[\w.-]+@[\w.-]+[: ]?[^\n>%]{0,80}%"  # zsh
    r"|[\w.-]+@[\w.-]+ [~/][^\n>]{0,80}>"  # fish
    r"|PS [A-Za-z]:[^\n>]{0,120}>|PS /[^\n>]{0,120}>"  # PowerShell
    r"|[\w.-]+:[~/]\S{0,80} [\w.-]+[$#]"  # macOS
    r"|(?:ba|z|da|k)?sh-\d[\d.]*[$#]"
    r"|[➜❯λ] .{0,60}?(?: [✗✔$]|(?=  ))|[❯λ]"
    r")(?:[ \t]+(\S.*)|[ \t]*)$"
)
_PLAIN = re.compile(r"^" + _ENV + r"(?:\$|>>>) (\S.*)$")
_BEFORE_A_TOOL = re.compile(r"^(?:" + _ENV + r"(?:[#%>]|[~/][^\s#$]{0,80} [#$])[ \t]+|(?:In \[\d{0,5}\]: ?)?!)(\S.*)$")
_RULED = re.compile(r"^(?:[=#*\-]{2}|>>)")
_NUMBER = re.compile(r"^\d{1,2}[.)][ \t]+")
_BRACKETS = re.compile(r"^\[([a-z][\w -]{1,60})\]$")
_TRACED = re.compile(r"^\+{1,3} (\S.*)$")
_HEADING = re.compile(r"^==> (\S.*) <==$")
"""What ``head`` and ``tail`` print above each of several files."""
_ENGLISH = frozenset(
    (
        "top",
        "free",
        "date",
        "time",
        "watch",
        "command",
        "find",
        "which",
        "sort",
        "head",
        "tail",
        "echo",
        "stat",
        "cat",
        "perf",
        "sudo",
        "w",
    )
)
_ASSIGNMENT = re.compile(r"^[A-Za-z_]\w*=\S*$")


@dataclass(frozen=True, slots=True)
class Cut:
    """A line that begins another output: its index, the command or file name it states, and whether that is a file."""

    at: int
    command: str
    is_file: bool = False
    sure: bool = True


def first_program(command: str) -> str:
    """The program that a command line runs: without ``sudo``, ``timeout 5``, ``watch -n 1``, assignments and folders."""
    words = command[:400].split()
    while words:
        word = words.pop(0).rpartition("/")[2]
        if word in ("sudo", "watch", "timeout", "time", "env", "nohup", "stdbuf", "command", "exec", "nice") and words:
            while words and (words[0].startswith("-") or re.fullmatch(r"[\d.]+[smh]?|[A-Za-z_]\w*=\S*", words[0])):
                words.pop(0)
            if not words:
                return word
            continue
        if not _ASSIGNMENT.match(word):
            return word.rstrip(":")
    return ""


def is_tool(command: str) -> bool:
    """Whether a command line, or a path of /proc or /sys, names something whose output people paste."""
    return first_program(command) in TOOLS or command.startswith(("/proc/", "/sys/"))


def cuts(lines: list[bytes]) -> list[Cut]:
    """All lines that begin another output, in order. Linear: each line is looked at once, its first 400 bytes."""
    found: list[Cut] = []
    traced: list[Cut] = []
    for at, raw in enumerate(lines):
        if raw[:1].isdigit() or not raw.strip():  # no mark begins with a digit; most lines of tables do
            continue
        text = raw[:400].decode("utf-8", "replace").rstrip("\r")
        cut = _cut(at, text)
        if cut is not None:
            found.append(cut)
        elif mark := _TRACED.match(text):
            traced.append(Cut(at, mark[1].strip(), sure=False))
    known = [cut for cut in traced if is_tool(cut.command) or first_program(cut.command) in LAUNCHERS]
    if known and 2 * len(known) >= len(traced):  # else it is a diff or a list
        found = sorted([*found, *traced], key=lambda cut: cut.at)
    return found


def _cut(at: int, text: str) -> Cut | None:
    if heading := _HEADING.match(text):
        return Cut(at, heading[1].strip(), is_file=True)
    if found := _SURE.match(text):
        return Cut(at, (found[1] or "").strip())
    if found := _PLAIN.match(text):
        return Cut(at, found[1].strip())
    command = _before_a_tool(text)
    if not command or len(command) >= 200 or not is_tool(command) or _is_sentence(command):
        return None
    return Cut(at, command, sure=False)


def _before_a_tool(text: str) -> str:
    """What stands behind a mark or between rules: ``# free -m``, ``!nproc``, ``===== df -h =====``, ``--- 2) top ---``,
    ``[uptime]``."""
    if _RULED.match(text):
        inner = text.strip("=#*-<> \t").rstrip(": \t")
        return _NUMBER.sub("", inner).strip("`'\"")
    found = _BEFORE_A_TOOL.match(text) or _BRACKETS.match(text)
    return found[1].strip(" `'\"") if found else ""


def _is_sentence(command: str) -> bool:
    """``# top of the list``: a tool whose name is an English word, and another word after it."""
    words = command.split()
    return words[0] in _ENGLISH and len(words) > 1 and bool(re.match(r"^[A-Za-z]+[,.:;]?$", words[1]))
