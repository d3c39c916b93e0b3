"""The probe ``log_facts``: what a training says about itself when it starts."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from diag_kit.evidence import Evidence
from diag_kit.hosts.protocol import Host
from diag_kit.observe.logs.pieces import CHECK, log_paths
from diag_kit.observe.logs.read import gather
from diag_kit.observe.logs.reading import understand
from diag_kit.observe.probe import probe
from diag_kit.records import CommandResult, Cost, Parsed

HEAD_BYTES = 256 * 2**10
SEARCH_BYTES = 64 * 2**20
MAX_MATCHES = 300
WORDS = (
    r"(samples|examples|files|rows|images|sequences|records|documents|tokens)[^0-9]{0,12}[:=] *[0-9]"
    r"|[0-9] (train|training|val|validation|eval) ?(samples|examples|files|rows|images)"
    r"|(batch|batches|steps|iterations|iters|updates)[ /_]*(per|/|each|in)[ _]*epoch|len\([a-z_.]*(loader|dataset|data)"
    r"|total[a-z ]*(steps|iterations|samples|examples)|batch[ _]size|world[ _]size|nproc|num[ _]processes|accumul"
    r"|num[ _](train[ _])?epochs|num[ _]workers|data(set|loader)[ _]*(size|len)|started distributed|starting with [0-9]"
    r"|resum|continuing from|trainable param|running (training|evaluation)|epoch .{0,30}(done|finished|completed|took)"
)
SKIP = r"loss.{0,6}[0-9]"

FACTS_SCRIPT = (
    CHECK
    + r"""
head_bytes=$1; search_bytes=$2; matches=$3; words=$4; not=$5; shift 5
printf '==diag_kit:host now=%s zone=%s==\n' "$(date +%s)" "$(date +%z)"
n=0
for f in "$@"; do
  i=$n; n=$((n + 1))
  check "$f" "$i" || continue
  size=$(($(wc -c < "$f"))) || continue
  mtime=$(stat -L -c %Y "$f" 2>/dev/null || stat -L -f %m "$f" 2>/dev/null || echo 0)
  top=$head_bytes; [ "$size" -lt "$top" ] && top=$size
  printf '==diag_kit:part file=%s kind=head offset=0 line=1 bytes=%s size=%s mtime=%s==\n' "$i" "$top" "$size" "$mtime"
  head -c "$top" < "$f"; echo
  [ "$size" -le "$top" ] && continue
  printf '==diag_kit:part file=%s kind=lines offset=0 size=%s mtime=%s==\n' "$i" "$size" "$mtime"
  head -c "$search_bytes" < "$f" | cut -b1-1000 | grep -n -a -i -E -e "$words" | grep -a -v -i -E -e "$not" | head -n "$matches"
done
"""
)


@probe
@dataclass(frozen=True)
class LogFacts:
    """Start-up lines of the log as facts: train_samples, batches_per_epoch, total_steps, world_size, batch sizes and so on.

    Equivalent: ``head -c 256K LOG; head -c 64M LOG | grep -n -i -E 'train files|batches/epoch|total training steps|...'``.
    Each fact's source is the file, the line number and the line. A fact is told from its words ("<train> <samples> = N"),
    weaker wordings come first, plain ones last. ``started_ranks``: distinct ranks that said they had started.
    """

    path: str | Sequence[str] | None = None

    name: ClassVar[str] = "log_facts"
    cost: ClassVar[Cost] = Cost.READ_ONLY
    equivalent: ClassVar[str] = (
        "head -c 256K LOG; grep -n -i -E 'train files|batches/epoch|total training steps|batch size|world size' LOG | head -n 300"
    )

    @property
    def budget_s(self) -> float:
        return 30.0

    def collect(self, host: Host, known: Evidence, stop: threading.Event | None = None) -> tuple[CommandResult, ...]:
        paths = log_paths(self.path, known)
        limits = (str(HEAD_BYTES), str(SEARCH_BYTES), str(MAX_MATCHES))
        result = host.run(
            FACTS_SCRIPT,
            *limits,
            WORDS,
            SKIP,
            *paths,
            timeout_s=self.budget_s,
            max_bytes=(HEAD_BYTES + 1100 * MAX_MATCHES) * len(paths) + 4096,
            stop=stop,
        )
        return (result,)

    def read(self, results: tuple[CommandResult, ...]) -> Parsed:
        found, problems = gather(results, skip=5)
        reading = understand(found)
        facts = tuple(reading.startup.facts())
        names = dict.fromkeys(fact.name for fact in facts)
        plain = ", ".join(f"{name} {next(f.value for f in reversed(facts) if f.name == name)}" for name in list(names)[:6])
        summary = f"{len(facts)} start-up facts: {plain}" if facts else "no start-up facts in the log"
        return Parsed(summary=summary if found else "no log could be read", facts=facts, problems=tuple(problems))
