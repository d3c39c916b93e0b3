"""NCCL's debug output, in its own file or among the lines of a training log."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from diag_kit.errors import NothingToObserve
from diag_kit.evidence import Evidence
from diag_kit.hosts.protocol import Host
from diag_kit.observe.nccl_lines import CHANNEL_COLUMNS, RANK_COLUMNS, SETTING_COLUMNS, WARNING_COLUMNS, Nccl, read_nccl
from diag_kit.observe.probe import probe
from diag_kit.observe.raw import frame, why_cut_short
from diag_kit.records import CommandResult, Cost, Fact, Parsed, Value

if TYPE_CHECKING:
    import pandas as pd

SCRIPT = r"""
if command -v timeout >/dev/null 2>&1; then bounded='timeout 20'; else bounded=; fi
$bounded grep -a -m "$2" -E 'NCCL (INFO|WARN)|NCCL version' -- "$1" | cut -c 1-4000
exit 0
"""


@probe
@dataclass(frozen=True)
class NcclLog:
    """NCCL's lines in the run's log: which network, which transport between which ranks, which warnings.

    Equivalent: ``grep -m 20000 -E 'NCCL (INFO|WARN)|NCCL version' LOG``. Needs NCCL_DEBUG=INFO in the run to say much.

    Tables: ``nccl_ranks`` (line host pid device comm rank nranks nnodes bus_id state: START, COMPLETE), ``nccl_channels``
    (line host channel rank_a rank_b direction transport path; transport is P2P, SHM, NET/IB, NET/Socket, ...),
    ``nccl_warnings`` (line host pid device place text), ``nccl_settings`` (line host name value: what was set by environment).

    Facts: nccl_version, nccl_nranks (of the largest communicator), nccl_nnodes, nccl_network (Socket, IB, a plugin),
    nccl_processes (that wrote a line: all ranks where each has its own process),
    nccl_interfaces, nccl_bootstrap_interface, nccl_no_ib (NET/IB found no device), nccl_net_plugin, nccl_transports,
    nccl_p2p_in_use, nccl_gdrdma (of the connections over NET), nccl_coll_channels, nccl_p2p_disabled_pairs, nccl_ranks_not_ready
    (init began and did not complete), nccl_warnings, nccl_first_warning, nccl_other_lines. Bootstrap's interface carries only the
    meeting of the ranks, not their data. That P2P is in use does not say that it works.
    """

    path: str | None = None
    lines: int = 20_000

    name: ClassVar[str] = "nccl_log"
    cost: ClassVar[Cost] = Cost.READ_ONLY
    equivalent: ClassVar[str] = "grep -a -m 20000 -E 'NCCL (INFO|WARN)|NCCL version' LOG"
    reads: ClassVar[tuple[str, ...]] = ("nccl",)
    also_reads: ClassVar[tuple[str, ...]] = ("training_log",)

    @property
    def budget_s(self) -> float:
        return 30.0

    def collect(self, host: Host, known: Evidence, stop: threading.Event | None = None) -> tuple[CommandResult, ...]:
        found = known.fact("log_path")
        path = self.path or (str(found.fact.value) if found else None)
        if not path:
            raise NothingToObserve("no log of the run is known", next_step="name it: nccl_log(path=...)")
        return (host.run(SCRIPT, path, str(max(1, self.lines)), timeout_s=self.budget_s, stop=stop),)

    def read(self, results: tuple[CommandResult, ...]) -> Parsed:
        pasted = all(result.command.startswith("cat ") for result in results)
        seen = Nccl()
        problems: list[str] = []
        for result in results:
            text = result.text
            only = pasted and _mostly(text)
            _add(seen, read_nccl(text, result.command[:80], only_nccl=only))
            problems.extend(filter(None, [why_cut_short(result)]))
        tables: dict[str, pd.DataFrame] = {
            "nccl_ranks": frame(seen.ranks, RANK_COLUMNS),
            "nccl_channels": frame(seen.channels, CHANNEL_COLUMNS),
            "nccl_warnings": frame(seen.warnings, WARNING_COLUMNS),
            "nccl_settings": frame(seen.settings, SETTING_COLUMNS),
        }
        facts = _facts(seen)
        return Parsed(
            summary=_summary(seen, facts),
            facts=facts,
            tables={name: table for name, table in tables.items() if len(table)},
            not_understood=tuple(seen.not_understood),
            problems=tuple(problems),
        )


def _mostly(text: str) -> bool:
    lines = [line for line in text.splitlines() if line.strip()]
    return sum("NCCL" in line for line in lines) >= 0.5 * len(lines)


def _add(seen: Nccl, more: Nccl) -> None:
    for name in ("ranks", "channels", "warnings", "settings", "not_understood"):
        getattr(seen, name).extend(getattr(more, name))
    for name in ("versions", "networks", "with_devices", "interfaces", "bootstrap", "plugin"):
        getattr(seen, name).extend(each for each in getattr(more, name) if each not in getattr(seen, name))
    seen.processes |= more.processes
    seen.lines, seen.other = seen.lines + more.lines, seen.other + more.other
    seen.no_ib, seen.p2p_disabled = seen.no_ib or more.no_ib, seen.p2p_disabled + more.p2p_disabled
    seen.coll_channels = more.coll_channels if seen.coll_channels is None else seen.coll_channels


def _facts(seen: Nccl) -> tuple[Fact, ...]:
    if not seen.lines:
        return ()
    transports = list(dict.fromkeys(str(row["transport"]) for row in seen.channels))
    over_net = [str(row["path"]) for row in seen.channels if str(row["transport"]).startswith("NET/")]
    begun = {(row["comm"], row["rank"]) for row in seen.ranks if row["state"] == "START"}
    done = {(row["comm"], row["rank"]) for row in seen.ranks if row["state"] == "COMPLETE"}
    values: list[tuple[str, Value, str]] = [
        ("nccl_version", ", ".join(seen.versions) or None, ""),
        ("nccl_nranks", max((int(row["nranks"]) for row in seen.ranks), default=None), "ranks"),
        ("nccl_nnodes", max((int(row["nnodes"]) for row in seen.ranks if row["nnodes"]), default=None), "nodes"),
        ("nccl_network", ", ".join(seen.networks or _old_networks(seen)) or None, ""),
        ("nccl_processes", len(seen.processes) or None, "processes"),
        ("nccl_interfaces", ", ".join(seen.interfaces) or None, ""),
        ("nccl_bootstrap_interface", ", ".join(seen.bootstrap) or None, ""),
        ("nccl_no_ib", True if seen.no_ib else None, ""),
        ("nccl_net_plugin", "; ".join(seen.plugin) or None, ""),
        ("nccl_transports", ", ".join(transports) or None, ""),
        ("nccl_p2p_in_use", "P2P" in transports if transports else None, ""),
        ("nccl_gdrdma", all("GDRDMA" in path for path in over_net) if over_net else None, ""),
        ("nccl_coll_channels", seen.coll_channels, "channels"),
        ("nccl_p2p_disabled_pairs", seen.p2p_disabled or None, "pairs"),
        ("nccl_ranks_not_ready", len(begun - done) if begun else None, "ranks"),
        ("nccl_warnings", len(seen.warnings), "lines"),
        ("nccl_first_warning", seen.warnings[0]["text"] if seen.warnings else None, ""),
        ("nccl_other_lines", seen.other or None, "lines"),
    ]
    source = f"NCCL output, {seen.lines} lines"
    return tuple(Fact(name, value, source, unit) for name, value, unit in values if value is not None)


def _old_networks(seen: Nccl) -> list[str]:
    """Before 2.7 no line said "Using network": the first network that finds a device is taken, IB before sockets (net.cc)."""
    return seen.with_devices if len(seen.with_devices) == 1 or "IB" not in seen.with_devices else ["IB"]


def _summary(seen: Nccl, facts: Sequence[Fact]) -> str:
    if not seen.lines:
        return "no line of NCCL"
    known = {fact.name: fact.value for fact in facts}
    said = [f"NCCL {known.get('nccl_version', 'of unknown version')}"]
    for name, words in (("nccl_nranks", "{} ranks"), ("nccl_network", "network {}"), ("nccl_transports", "joined by {}")):
        said.extend([words.format(known[name])] if name in known else [])
    if seen.warnings:
        said.append(f"{len(seen.warnings)} warnings, first: {seen.warnings[0]['text'][:80]}")
    return ", ".join(said)
