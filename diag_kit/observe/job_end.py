"""Whether the training that was watched still runs: asked again at the end of a window."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar

from diag_kit.errors import NothingToObserve
from diag_kit.evidence import Evidence
from diag_kit.hosts.protocol import Host
from diag_kit.observe.opened_files import rank_arguments
from diag_kit.observe.probe import probe
from diag_kit.records import CommandResult, Cost, Fact, NotUnderstood, Parsed

_SCRIPT = r"""
[ -r /proc/self/stat ] || { echo "/proc cannot be read" >&2; exit 1; }
printf '==diag_kit:job_end now=%s==\n' "$(date +%s)"
for item in "$@"; do
  pid=${item#*:}
  if read -r line < "/proc/$pid/stat"; then rest=${line##*) }; echo "$item ${rest%% *}"; else echo "$item gone"; fi 2>/dev/null
done
echo end
"""
_ROW = re.compile(r"^(launcher|\d{1,9}):(\d{1,9}) (gone|[A-Za-z])$")
_NOW = re.compile(r"^==diag_kit:job_end now=(\d{1,11})==$")
_ENDED = {"gone", "Z", "X", "x"}
"""No entry in /proc, or a process that has exited and waits for its parent (proc(5))."""


@probe
@dataclass(frozen=True)
class JobEnd:
    """Whether each rank process, and the launcher, is still there. Equivalent: ``ps -o pid,stat -p PID,PID``.

    Fact ``job_ended`` (True) only when no rank is left: its source is the sentence for the reader. Fact ``ranks_ended``: how many
    of several are gone. A process number that the system gave away again is taken for the old one.
    """

    name: ClassVar[str] = "job_end"
    cost: ClassVar[Cost] = Cost.READ_ONLY
    equivalent: ClassVar[str] = "ps -o pid,stat,args -p PID   # of each rank and of the launcher"

    @property
    def budget_s(self) -> float:
        return 1.0

    def collect(self, host: Host, known: Evidence, stop: threading.Event | None = None) -> tuple[CommandResult, ...]:
        job = known.fact("job_pid")
        ranks = rank_arguments(known)
        if not ranks:
            raise NothingToObserve("no rank was seen running", where="table ranks", next_step="observe training_jobs() first")
        launcher = [f"launcher:{job.fact.value}"] if job is not None and f":{job.fact.value}" not in " ".join(ranks) else []
        return (host.run(_SCRIPT, *ranks, *launcher, timeout_s=10.0, stop=stop),)

    def read(self, results: tuple[CommandResult, ...]) -> Parsed:
        states: dict[str, tuple[str, str]] = {}
        strange: list[NotUnderstood] = []
        now, complete = "", False
        for number, line in enumerate((results[0].text if results else "").split("\n"), start=1):
            if found := _ROW.match(line):
                states[f"{found[1]}:{found[2]}"] = found[2], found[3]
            elif stamp := _NOW.match(line):
                now = f" at {datetime.fromtimestamp(int(stamp[1]), UTC):%H:%M:%S} UTC"
            elif line == "end":
                complete = True
            elif line and len(strange) < 50:
                strange.append(NotUnderstood(f"job_end line {number}", line[:200], "no process and its state"))
        if not complete or not states:
            problems = ("no answer for the ranks",)
            return Parsed("whether it still runs is not known", not_understood=tuple(strange), problems=problems)
        return _judged(states, now, tuple(strange))


def _judged(states: dict[str, tuple[str, str]], now: str, strange: tuple[NotUnderstood, ...]) -> Parsed:
    launcher = [state for key, state in states.items() if key.startswith("launcher:")]
    ranks = [state for key, state in states.items() if not key.startswith("launcher:")]
    gone = [pid for pid, state in ranks if state in _ENDED]
    if not ranks or not gone:
        return Parsed(f"{len(ranks)} of {len(ranks)} ranks still run{now}", not_understood=strange)
    named = f"pid {', '.join(gone[:4])}{' and more' if len(gone) > 4 else ''}"
    stated = [Fact("ranks_ended", len(gone), f"{named}: no process any more{now}", "ranks")]
    if len(gone) < len(ranks):
        text = f"{len(gone)} of {len(ranks)} ranks ({named}) ended while the training was watched, seen{now}"
        return Parsed(text, tuple(stated), not_understood=strange, problems=(f"{text}: the others wait for them or end too",))
    left = any(state not in _ENDED for _, state in launcher)
    after = f"; its launcher (pid {launcher[0][0]}) still runs and may start it again" if left else ""
    text = f"the training ended while it was watched: {named} {'is' if len(gone) == 1 else 'are'} gone{now}{after}"
    return Parsed(text, (*stated, Fact("job_ended", True, text)), not_understood=strange)
