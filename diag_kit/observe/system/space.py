"""Free space and inodes of every mount, the disks behind them and whether they spin, and how file systems are mounted."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from diag_kit.evidence import Evidence
from diag_kit.hosts.protocol import Host
from diag_kit.observe.probe import probe
from diag_kit.observe.raw import part, parts, why_cut_short
from diag_kit.observe.system.found import Found
from diag_kit.observe.system.pasted import Reader, read_pasted
from diag_kit.observe.system.space_text import read_df, read_lsblk, read_mount_list
from diag_kit.observe.system.vocabulary import BLOCK_DEVICES, MOUNTS, SPACE
from diag_kit.records import CommandResult, Cost, Parsed

SCRIPT = r"""
export LC_ALL=C
bounded() { if command -v timeout >/dev/null 2>&1; then timeout "$@"; else shift; "$@"; fi; }
echo '==diag_kit:space=='
bounded 6 df -P -T -k 2>&1; status=$?
if [ $status -eq 124 ]; then echo '==diag_kit:hung=='; echo '==diag_kit:local_space=='; bounded 6 df -P -T -k -l 2>&1
elif [ $status -ne 0 ]; then echo '==diag_kit:plain_space=='; bounded 6 df -P -k 2>&1; fi
echo '==diag_kit:inodes=='
bounded 6 df -P -i -l 2>/dev/null
echo '==diag_kit:devices=='
command -v lsblk >/dev/null 2>&1 && bounded 5 lsblk -J -b -o NAME,TYPE,SIZE,MODEL,ROTA,MOUNTPOINT,FSTYPE 2>/dev/null
echo '==diag_kit:mounts=='
cat /proc/self/mounts
echo '==diag_kit:end=='
"""
READERS: Mapping[str, Reader] = {"df": read_df, "lsblk": read_lsblk, "mounts": read_mount_list}
TABLES = {"space": SPACE, "block_devices": BLOCK_DEVICES, "mounts": MOUNTS}


@probe
@dataclass(frozen=True)
class Space:
    """Space and inodes left, block devices, mounts. Equivalent: ``df -PTk; df -Pi; lsblk -J -b; cat /proc/mounts``, each
    bounded: a network mount that hangs is said, and the local ones are read alone.

    Reads pasted df (any language and option), lsblk (tree, -J, -P), mount, findmnt, /proc/mounts and mountinfo too. Tables:
    ``space`` (source fstype path size_bytes used_bytes available_bytes used_pct inodes inodes_used inodes_used_pct),
    ``block_devices`` (device parent type size_bytes rotational model path fstype), ``mounts`` (path source fstype kind
    options). Facts: fullest_path, fullest_used_pct (of mounts that hold files, by space or inodes).
    """

    name: ClassVar[str] = "space"
    cost: ClassVar[Cost] = Cost.READ_ONLY
    equivalent: ClassVar[str] = "df -PTk; df -Pi; lsblk -J -b -o NAME,TYPE,SIZE,MODEL,ROTA,MOUNTPOINT,FSTYPE; cat /proc/mounts"
    reads: ClassVar[tuple[str, ...]] = tuple(READERS)

    @property
    def budget_s(self) -> float:
        return 25.0

    def collect(self, host: Host, known: Evidence, stop: threading.Event | None = None) -> tuple[CommandResult, ...]:
        return (host.run(SCRIPT, timeout_s=self.budget_s, stop=stop),)

    def read(self, results: tuple[CommandResult, ...]) -> Parsed:
        found = Found()
        for result in results:
            pieces = parts(result.text)
            if part(pieces, "space") is None:
                read_pasted(result, READERS, found)
            else:
                _add_own(found, result, pieces)
                if cut := why_cut_short(result):
                    found.problems.append(cut)
        _fullest(found)
        return found.parsed(TABLES, "no space, device or mount could be read")


def _add_own(found: Found, result: CommandResult, pieces: Sequence[tuple[str, str]]) -> None:
    names = dict(pieces)
    if "hung" in names:
        found.problems.append("df did not answer within 6 s: a network mount hangs; only local file systems were read")
    for name, reader in (("space", read_df), ("local_space", read_df), ("plain_space", read_df), ("inodes", read_df),
                         ("devices", read_lsblk), ("mounts", read_mount_list)):  # fmt: skip
        text = part(pieces, name)
        if text and text.strip() and not (name == "space" and "plain_space" in names):
            reader(CommandResult(result.host, "", text.encode(), b"", 0, result.started, result.duration_s), found)


def _fullest(found: Found) -> None:
    """Of what holds files that somebody writes: images that are full by design (squashfs, iso9660) are left out."""
    shares = [
        (max(row.get("used_pct") or 0.0, row.get("inodes_used_pct") or 0.0), row["path"])
        for row in found.rows["space"]
        if row.get("fstype") not in ("squashfs", "iso9660", "erofs") and not str(row["path"]).startswith("/snap/")
    ]
    if shares:
        share, path = max(shares)
        found.fact("fullest_path", path, "df")
        found.fact("fullest_used_pct", share, "df", "%")
