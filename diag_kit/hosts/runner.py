"""What runs on the other side: a small program that reads requests on its standard input and bounds everything it starts.

Where the host has a system Python that is the agent (``agent_program``), which runs commands side by side; else the loop in sh
below, one command at a time. Python is only looked for where the system keeps it: one on a network file system may hang.

One runner serves many commands, so that a heavy login profile is paid once. The login shell (bash, zsh, fish, csh, ...)
gets a single line that every one of them reads alike and that replaces it by ``sh``. What the profile prints before that
is told from our own output by a marker that is new for each command and never stands on a command line.

Each command runs in a session of its own, under ``timeout``, ``nice -n 19`` and ``ionice -c3`` where the host has them. The
runner watches its standard input meanwhile: a line, or the end of it (connection lost, client killed), ends that session.
"""

from __future__ import annotations

import math
import re
import secrets
import shlex
from dataclasses import dataclass

from diag_kit.errors import BadInput
from diag_kit.hosts.agent_program import AGENT_PROGRAM
from diag_kit.hosts.protocol import render

MAX_PART_BYTES = 120_000
"""Linux refuses a single argument over 128 KiB."""

HELLO = b"diag_kit-runner-ready"

# Functions of the loop below are the whole remote side. POSIX sh: dash, bash, busybox, ksh.
# dk_end ends a command's process group, then whatever moved to another group of the same session (nested `timeout`);
# without setsid there is no group to end, so it walks the tree of children.
# In dk_run, descriptor 3 is the runner's input, 4 its standard error: the shell's own notices on killed children are dropped.
_LOOP = r"""
dk_sweep() {
  if command -v pkill >/dev/null 2>&1; then pkill -KILL -s "$1"; return; fi
  for dk_f in /proc/[0-9]*/stat; do
    read -r dk_l <"$dk_f" || continue
    dk_p=${dk_f#/proc/}; dk_p=${dk_p%/stat}
    set -- "$1" ${dk_l##*\) }
    [ "$5" = "$1" ] && kill -s KILL "$dk_p"
  done
}
dk_kids() {
  for dk_f in /proc/[0-9]*/stat; do
    read -r dk_l <"$dk_f" || continue
    dk_p=${dk_f#/proc/}; dk_p=${dk_p%/stat}
    set -- "$1" ${dk_l##*\) }
    [ "$3" = "$1" ] && echo "$dk_p"
  done
}
dk_tree() {
  dk_k=$(dk_kids "$1")
  kill -s KILL "$1"
  for dk_p in $dk_k; do (dk_tree "$dk_p"); done
}
dk_end() {
  if [ -z "$dk_setsid" ]; then dk_tree "$1"; return; fi
  kill -s TERM -- "-$1" || kill -s TERM "$1"
  dk_n=0
  while [ "$dk_n" -lt 10 ] && kill -s 0 -- "-$1"; do
    dk_n=$((dk_n + 1)); sleep 0.1 || sleep 1
  done
  kill -s KILL -- "-$1" || kill -s KILL "$1"
  dk_sweep "$1"
}
dk_run() {
  dk_a=$1 dk_b=$2 dk_s=$3 dk_i=$4; shift 4
  [ "$dk_fine" = 1 ] || dk_s=$dk_i
  printf '%s%s\n' "$dk_a" "$dk_b"; printf '%s%s\n' "$dk_a" "$dk_b" >&4
  if [ -n "$dk_timeout" ]; then $dk_setsid $dk_timeout "$dk_s" sh -c "$@" </dev/null 2>&4 3<&- 4>&- &
  else $dk_setsid sh -c "$@" </dev/null 2>&4 3<&- 4>&- &
  fi
  dk_c=$!
  ( read -r dk_l <&3; trap '' TERM; dk_end "$dk_c"; exit 9 ) >/dev/null 4>&- &
  dk_w=$! dk_d=
  if [ -z "$dk_timeout" ]; then
    ( trap 'kill "$dk_z"; exit 0' TERM
      sleep "$dk_i" & dk_z=$!
      wait "$dk_z"; trap '' TERM; dk_end "$dk_c"; exit 8 ) >/dev/null </dev/null 3<&- 4>&- &
    dk_d=$!
  fi
  wait "$dk_c"; dk_x=$? dk_how=ended
  kill "$dk_w"; wait "$dk_w"; [ "$?" = 9 ] && dk_how=stopped
  if [ -n "$dk_d" ]; then kill "$dk_d"; wait "$dk_d"; [ "$?" = 8 ] && dk_how=timeout; fi
  kill -s KILL -- "-$dk_c"
  case $dk_x in 124|137) [ -n "$dk_setsid" ] && dk_sweep "$dk_c" >/dev/null ;; esac
  printf '%s%s' "$dk_b" "$dk_a"
  { printf '%s%s %s %s\n' "$dk_b" "$dk_a" "$dk_x" "$dk_how"; times; printf '%s%s' "$dk_b" "$dk_a"; } >&4
}
exec 3<&0 4>&2 2>/dev/null
printf '%s %s\n' diag_kit-runner-ready "setsid=$dk_setsid timeout=$dk_timeout pid=$$"
while read -r dk_verb dk_rest; do
  [ "$dk_verb" = run ] && eval "dk_run $(printf '%b' "$dk_rest")"
done
"""

# Finds out once what the host has, then becomes the loop, niced.
_START = r"""
LC_ALL=C; PATH=$PATH:/usr/sbin:/sbin; export LC_ALL PATH
dk_setsid= dk_timeout= dk_fine= dk_nice=
dk_agent=$2
setsid true 2>/dev/null && dk_setsid=setsid
timeout -k 2 5 true 2>/dev/null && dk_timeout='timeout -k 2'
[ -n "$dk_timeout" ] && timeout -k 2 5.5 true 2>/dev/null && dk_fine=1
nice -n 19 true 2>/dev/null && dk_nice='nice -n 19'
ionice -c3 true 2>/dev/null && dk_nice="$dk_nice ionice -c3"
[ -n "$dk_timeout" ] && [ -n "$dk_agent" ] && [ -x /bin/sh ] &&
for dk_p in /usr/bin/python3 /bin/python3 /usr/libexec/platform-python; do
  [ -x "$dk_p" ] || continue
  $dk_timeout 4 "$dk_p" -S -E -c 'import sys, _signal, select; sys.exit(sys.version_info < (3, 6))' >/dev/null 2>&1 \
    </dev/null || continue
  exec $dk_nice "$dk_p" -S -E -c "$dk_agent"
done
exec $dk_nice sh -c "dk_setsid='$dk_setsid' dk_timeout='$dk_timeout' dk_fine='$dk_fine'
$1" diag_kit
"""


def _literal(text: str) -> str:
    """Escape for ``printf %b`` so that what remains is plain in single quotes of every login shell, and is one line."""
    plain = b"".join(bytes([byte]) if 32 <= byte < 127 and byte not in b"'!\\" else b"\\0%03o" % byte for byte in text.encode())
    return plain.decode("ascii")


def _start(agent: bool) -> str:
    return f"set -- {shlex.quote(_LOOP)} {shlex.quote(AGENT_PROGRAM if agent else '')}\n{_START}"


def login_line(agent: bool = True) -> str:
    """The one line for the login shell. No quote, ``!``, newline or double backslash inside its single quotes: bash, zsh,
    fish, csh and dash read it alike. Without ``agent`` it is the loop in sh whatever the host has."""
    start = _start(agent)
    return f"exec sh -c 'eval \"$(printf %b \"$1\")\"' diag_kit '{_literal(start)}'"


def local_arguments(agent: bool = True) -> list[str]:
    """The runner as an argument list, for this machine."""
    return ["sh", "-c", _start(agent), "diag_kit"]


@dataclass(frozen=True, slots=True)
class Request:
    """One command for the runner: the bytes to send, and the marks around its output (``begin`` ends with a newline).

    ``parts``: the same for the agent, which needs no marks: script, name, arguments.
    """

    line: bytes
    begin: bytes
    end: bytes
    parts: tuple[bytes, ...]


STOP = b"stop\n"


def request(script: str, arguments: tuple[str, ...], timeout_s: float) -> Request:
    """Raises BadInput for a NUL byte, a part over ``MAX_PART_BYTES``, or a timeout that is not positive."""
    render(script, arguments)  # refuses NUL bytes
    longest = max(len(part.encode("utf-8", "surrogateescape")) for part in (script, *arguments))
    if longest > MAX_PART_BYTES:
        raise BadInput(
            f"a command or argument is {longest:,} bytes long; a host takes at most {MAX_PART_BYTES:,}",
            next_step="ask for fewer things at once",
        )
    if not timeout_s > 0:
        raise BadInput(f"a command's timeout must be positive, not {timeout_s!r} s", next_step="give seconds above 0")
    first, second = secrets.token_hex(8), secrets.token_hex(8)
    words = [first, second, f"{timeout_s:.3f}", str(math.ceil(timeout_s)), script, "diag_kit", *arguments]
    encoded = _literal(shlex.join(words))
    return Request(
        line=f"run {encoded}\n".encode("ascii"),
        begin=f"{first}{second}\n".encode("ascii"),
        end=f"{second}{first}".encode("ascii"),
        parts=tuple(part.encode("utf-8", "surrogateescape") for part in (script, "diag_kit", *arguments)),
    )


@dataclass(frozen=True, slots=True)
class Trailer:
    """How a command ended, as the runner saw it. ``cpu_s``: user + system seconds of this runner and all it started, so far."""

    exit_status: int
    how: str
    cpu_s: float | None


_TIME = re.compile(rb"(\d+)m([\d.]+)s")


def read_trailer(text: bytes) -> Trailer:
    """Parse `` STATUS HOW`` and the two lines of ``times``. Raises ValueError on anything else."""
    first, _, times = text.partition(b"\n")
    status, how = first.split()
    parts = _TIME.findall(times)
    cpu_s = sum(int(minutes) * 60 + float(seconds) for minutes, seconds in parts) if len(parts) == 4 else None
    return Trailer(int(status), how.decode("ascii"), cpu_s)
