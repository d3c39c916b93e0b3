"""The probe ``log_sample``: how far a huge log has come, from small blocks of it; the rest is never read.

First and last come from the ends of the file. In between, blocks far apart tell midnights and restarts. What it says rests on
blocks being like their neighbourhood, so counts carry an error, and a counter that fell between two blocks is said, not added up.
"""

from __future__ import annotations

import statistics
import threading
from dataclasses import dataclass
from typing import ClassVar

import pandas as pd

from diag_kit.evidence import Evidence
from diag_kit.hosts.packed import PACK
from diag_kit.hosts.protocol import Host
from diag_kit.observe.logs.pieces import CHECK, Piece, _zone_us, asked_files, log_paths, parts, problem_sentence
from diag_kit.observe.logs.read import metrics_frame
from diag_kit.observe.logs.reading import understand
from diag_kit.observe.logs.stamps import microseconds
from diag_kit.observe.probe import probe
from diag_kit.records import CommandResult, Cost, Parsed

BLOCK_BYTES = 16 * 2**10
MAX_BLOCKS = 256
MOST_APART_S = 6 * 3600
"""A clock without a date is read right across gaps of less than half a day; half of that is kept in reserve."""

SAMPLED_SCRIPT = (
    CHECK
    + PACK
    + r"""
block=$1; most=$2; file=$3
check "$file" 0 || exit 0
size=$(($(wc -c < "$file"))) || exit 0
mtime=$(stat -L -c %Y "$file" 2>/dev/null || stat -L -f %m "$file" 2>/dev/null || echo 0)
step=$((size / most / block + 1))
{
  printf '==diag_kit:sampled file=0 size=%s mtime=%s now=%s zone=%s==\n' "$size" "$mtime" "$(date +%s)" "$(date +%z)"
  n=0
  while [ "$((n * block))" -lt "$size" ]; do
    printf '==diag_kit:block file=0 offset=%s==\n' "$((n * block))"
    dd if="$file" bs="$block" skip="$n" count=1 2> /dev/null; echo
    n=$((n + step))
  done
  from=$((size > block ? size - block : 0))
  printf '==diag_kit:block file=0 offset=%s==\n' "$from"
  tail -c "+$((from + 1))" "$file" | head -c "$((size - from))"; echo
} | pack
"""
)


@probe
@dataclass(frozen=True)
class LogSample:
    """Where each rank stands in a log of any size, from at most ``blocks`` blocks of 16 KiB spread over it.

    Equivalent: ``head -c 16K LOG; dd if=LOG bs=16K skip=N count=1 ...; tail -c 16K LOG``. Reads at most 4 MiB whatever the size.

    Table ``log_sample``: rank(Int64) first_t last_t(datetime64[us, UTC]) first_step last_step(Int64) seconds steps_per_s(Float64;
    NA where a counter fell between two blocks, no time passed, or blocks lie so far apart that a midnight may be missed). Table
    ``log_sample_size``: size_bytes read_bytes blocks records(an estimate) records_error(95 %, by the spread between blocks)
    step_falls (Int64).
    """

    path: str | None = None
    blocks: int = MAX_BLOCKS

    name: ClassVar[str] = "log_sample"
    cost: ClassVar[Cost] = Cost.READ_ONLY
    equivalent: ClassVar[str] = "head -c 16K LOG; dd if=LOG bs=16K skip=N count=1; tail -c 16K LOG"

    @property
    def budget_s(self) -> float:
        return 30.0

    def collect(self, host: Host, known: Evidence, stop: threading.Event | None = None) -> tuple[CommandResult, ...]:
        path = log_paths(self.path, known)[0]
        most = max(2, min(MAX_BLOCKS, self.blocks))
        limit = (most + 4) * (BLOCK_BYTES + 200)
        arguments = (str(BLOCK_BYTES), str(most), path)
        return (host.run(SAMPLED_SCRIPT, *arguments, timeout_s=self.budget_s, max_bytes=limit, stop=stop),)

    def read(self, results: tuple[CommandResult, ...]) -> Parsed:
        found = [part for result in results for part in parts(result.stdout)]
        file = (asked_files(results[0], 2) or ["log"])[0] if results else "log"
        problems = [problem_sentence(part, file) for part in found if part.kind == "problem"]
        head = next((part for part in found if part.kind == "sampled"), None)
        blocks = {part.number("offset"): part.data.removesuffix(b"\n") for part in found if part.kind == "block"}
        if head is None or not any(blocks.values()):
            said = results[0].error_text if results else ""
            return Parsed(
                "no log could be sampled", problems=tuple(problems or [f"{file} could not be read: {said or 'it is empty'}"])
            )
        written = head.number("mtime") * 1_000_000 or microseconds(results[0].started)
        size, reference = head.number("size"), written + _zone_us(head.fields.get("zone", ""))
        pieces = [
            Piece(file, results[0].host, data, None, reference, cut=offset > 0, growing=True)
            for offset, data in sorted(blocks.items())
        ]
        metrics, _ = metrics_frame(understand(pieces, facts=False))
        train = metrics[metrics["split"] == "train"].reset_index(drop=True)
        if not len(train):
            return Parsed(f"no metric records in {len(blocks)} blocks of {file}", problems=tuple(problems))
        falls = _falls(train)
        apart = [_train(piece) for piece in pieces]
        counts = [len(block) for block in apart]
        ranks = _ranks(train, falls)
        if _longest_gap_s(train, apart) > MOST_APART_S:
            ranks[["seconds", "steps_per_s"]] = pd.NA
            problems.append(f"{file}: hours lie between the blocks, so midnights may be missed: take more blocks, or log_columns")
        sizes = _sizes(size, pieces, counts, int(sum(falls.values())))
        estimate = int(sizes["records"].iloc[0])
        summary = f"about {estimate:,} train records in {size / 2**20:,.1f} MiB, {len(ranks)} ranks, from {len(pieces)} blocks"
        return Parsed(summary, tables={"log_sample": ranks, "log_sample_size": sizes}, problems=tuple(problems))


def _train(piece: Piece) -> pd.DataFrame:
    frame, _ = metrics_frame(understand([piece], facts=False))
    return frame[frame["split"] == "train"]


def _longest_gap_s(train: pd.DataFrame, blocks: list[pd.DataFrame]) -> float:
    """The time between two blocks by the pace inside of blocks, which no midnight falsifies much."""
    paces = []
    for block in blocks:
        steps, times = block["step"].dropna(), block["t"].dropna()
        if len(steps) > 1 and len(times) > 1 and int(steps.iloc[-1]) > int(steps.iloc[0]):
            paces.append((times.iloc[-1] - times.iloc[0]).total_seconds() / (int(steps.iloc[-1]) - int(steps.iloc[0])))
    jumps = train["step"].dropna().astype("int64").diff()
    return float(jumps.max()) * statistics.median(paces) if paces and len(jumps) > 1 else 0.0


def _falls(train: pd.DataFrame) -> dict[object, int]:
    """How often the step of a rank went back."""
    return {
        rank: int((group["step"].dropna().astype("int64").diff() < 0).sum())
        for rank, group in train.groupby("rank", dropna=False, sort=True)
    }


def _ranks(train: pd.DataFrame, falls: dict[object, int]) -> pd.DataFrame:
    rows = []
    for rank, group in train.groupby("rank", dropna=False, sort=True):
        times, steps = group["t"].dropna(), group["step"].dropna()
        seconds = (times.iloc[-1] - times.iloc[0]).total_seconds() if len(times) else float("nan")
        counted = len(steps) and not falls.get(rank, 0) and seconds > 0
        rate = (int(steps.iloc[-1]) - int(steps.iloc[0])) / seconds if counted else None
        ends = (times.iloc[0], times.iloc[-1]) if len(times) else (pd.NaT, pd.NaT)
        first_last = (steps.iloc[0], steps.iloc[-1]) if len(steps) else (pd.NA, pd.NA)
        rows.append((rank, *ends, *first_last, seconds, rate))
    names = ["rank", "first_t", "last_t", "first_step", "last_step", "seconds", "steps_per_s"]
    frame = pd.DataFrame(rows, columns=names)
    kinds = {"rank": "Int64", "first_step": "Int64", "last_step": "Int64", "seconds": "Float64", "steps_per_s": "Float64"}
    return frame.astype(kinds)


def _sizes(size: int, pieces: list[Piece], counts: list[int], falls: int) -> pd.DataFrame:
    read = sum(len(piece.data) for piece in pieces)
    whole = read >= size
    per_byte = [count / len(piece.data) for count, piece in zip(counts, pieces, strict=True) if piece.data]
    # a block loses on average one record, cut at its two ends
    lost = 0.0 if whole else len(pieces) - 1
    records = sum(counts) if whole else round((sum(counts) + lost) / max(read, 1) * size)
    spread = statistics.stdev(per_byte) if len(per_byte) > 2 else 0.0
    error = 0 if whole else round(size * (1.96 * spread / len(per_byte) ** 0.5 + len(pieces) / max(read, 1)))
    values = [size, min(read, size), len(pieces), records, error, falls]
    names = ["size_bytes", "read_bytes", "blocks", "records", "records_error", "step_falls"]
    return pd.DataFrame([values], columns=names).astype("Int64")
