"""The PCIe links of GPUs, network cards and NVMe disks, and whether ACS sends peer-to-peer traffic through the CPU."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from diag_kit.evidence import Evidence
from diag_kit.hosts.protocol import Host
from diag_kit.observe.pcie_lspci import DEVICE_COLUMNS, read_lspci, read_sysfs
from diag_kit.observe.probe import probe
from diag_kit.observe.raw import frame, part, parts, why_cut_short
from diag_kit.records import CommandResult, Cost, Fact, NotUnderstood, Parsed

SCRIPT = r"""
bounded() { if command -v timeout >/dev/null 2>&1; then timeout "$@"; else shift; "$@"; fi; }
one() { value=; [ -r "$1" ] && read -r value < "$1" 2>/dev/null; printf '|%s=%s' "$2" "$value"; }
total() { printf '|%s=' "$2"; [ -r "$1" ] && grep -m1 '^TOTAL_ERR' "$1" 2>/dev/null | tr -dc '0-9' ; }
echo '==diag_kit:sysfs=='
for path in /sys/bus/pci/devices/*; do
    class=; [ -r "$path/class" ] && read -r class < "$path/class" || continue
    case $class in 0x03*|0x12*|0x02*|0x0108*|0x0604*) ;; *) continue;; esac
    printf 'address=%s' "${path##*/}"
    one "$path/class" class; one "$path/vendor" vendor; one "$path/device" device; one "$path/numa_node" numa
    one "$path/current_link_speed" speed; one "$path/max_link_speed" speed_max
    one "$path/current_link_width" width; one "$path/max_link_width" width_max
    total "$path/aer_dev_correctable" aer_corrected; total "$path/aer_dev_fatal" aer_fatal
    total "$path/aer_dev_nonfatal" aer_nonfatal
    driver=$(readlink "$path/driver" 2>/dev/null); printf '|driver=%s' "${driver##*/}"
    up=$(readlink -f "$path/.." 2>/dev/null); printf '|parent=%s\n' "${up##*/}"
done
if command -v lspci >/dev/null 2>&1; then
    echo '==diag_kit:lspci=='
    bounded 15 lspci -D -vv 2>/dev/null | grep -E '^[0-9a-f]|LnkCap:|LnkSta:|ACSCtl:|NUMA node|driver in use|access denied'
fi
exit 0
"""


@probe
@dataclass(frozen=True)
class PcieLinks:
    """Speed and width of each link against its most, without root from /sys; ACS and lspci's words where lspci may see them.

    Equivalent: ``grep . /sys/bus/pci/devices/*/{current,max}_link_{speed,width}``; ``lspci -D -vv``.

    Table ``pcie_devices``: address class name is_gpu is_network numa_node driver speed_gt_per_s speed_max_gt_per_s width
    width_max acs_redirect acs_control aer_corrected aer_uncorrected (since boot) parent says. 2.5, 5, 8, 16, 32, 64 GT/s are
    Gen1 to Gen6. The most of a device is its own: a x16 card in a x8 slot shows 8 of 16. Speed falls while a device is idle.

    Facts: pcie_gpus, pcie_gpus_width_reduced, pcie_gpus_speed_low (judge under load), pcie_network_width_reduced,
    pcie_acs_bridges (devices whose ACSCtl redirects requests or completions), pcie_acs_redirect (any; None where no ACSCtl was
    shown: not known), pcie_aer_uncorrected.
    """

    name: ClassVar[str] = "pcie_links"
    cost: ClassVar[Cost] = Cost.READ_ONLY
    equivalent: ClassVar[str] = "grep . /sys/bus/pci/devices/*/{current,max}_link_{speed,width}; lspci -D -vv"
    reads: ClassVar[tuple[str, ...]] = ("lspci",)

    @property
    def budget_s(self) -> float:
        return 40.0

    def collect(self, host: Host, known: Evidence, stop: threading.Event | None = None) -> tuple[CommandResult, ...]:
        return (host.run(SCRIPT, timeout_s=self.budget_s, stop=stop),)

    def read(self, results: tuple[CommandResult, ...]) -> Parsed:
        rows: list[dict[str, Any]] = []
        not_understood: list[NotUnderstood] = []
        problems: list[str] = []
        for result in results:
            pieces = parts(result.text)
            sysfs = part(pieces, "sysfs")
            if sysfs is None:
                seen = [read_lspci(result.text, result.command[:80])]
            else:
                seen = [read_sysfs(sysfs), read_lspci(part(pieces, "lspci") or "")]
            rows = _merged([*rows, *(row for each in seen for row in each.rows)])
            not_understood.extend(line for each in seen for line in each.not_understood)
            if any(each.denied for each in seen) and not any(row.get("acs_control") for row in rows):
                problems.append(
                    f"lspci on {result.host} may not show link and ACS control as this user: sudo lspci -vv shows them"
                )
            problems.extend(filter(None, [why_cut_short(result)]))
        facts = _facts(rows)
        said = ", ".join(f"{fact.name.removeprefix('pcie_').replace('_', ' ')} {fact.value}" for fact in facts)
        return Parsed(
            summary=said or "no PCIe device was seen",
            facts=facts,
            tables={"pcie_devices": frame(rows, DEVICE_COLUMNS)},
            not_understood=tuple(not_understood[:200]),
            problems=tuple(dict.fromkeys(problems)),
        )


def _merged(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row an address: what /sys says first, filled up by lspci; lspci's names are the readable ones."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        known = found.setdefault(str(row["address"]), {})
        for name, value in row.items():
            if value is not None and (known.get(name) is None or name in ("class", "name")):
                known[name] = value
    return list(found.values())


def _facts(rows: Sequence[Mapping[str, Any]]) -> tuple[Fact, ...]:
    if not rows:
        return ()
    source = f"{len(rows)} PCIe devices"
    gpus = [row for row in rows if row.get("is_gpu")]
    facts = [Fact("pcie_gpus", len(gpus), source, "devices")] if gpus else []
    for name, pool, word in (
        ("pcie_gpus_width_reduced", gpus, "width "),
        ("pcie_gpus_speed_low", gpus, "speed "),
        ("pcie_network_width_reduced", [row for row in rows if row.get("is_network")], "width "),
    ):
        told = [row for row in pool if row.get("says")]
        low = [row for row in told if word in str(row["says"])]
        if told:
            said = "; ".join(f"{row['address']} {row['says']}" for row in low[:8])
            facts.append(Fact(name, len(low), f"{source}{': ' + said if said else ''}", "devices"))
    shown = [row for row in rows if row.get("acs_redirect") is not None]
    if shown:
        on = [str(row["address"]) for row in shown if row["acs_redirect"]]
        where = f"ACSCtl of {len(shown)} devices" + (f": {', '.join(on[:8])}" if on else "")
        facts += [Fact("pcie_acs_redirect", bool(on), where), Fact("pcie_acs_bridges", len(on), where, "devices")]
    errors = [row for row in rows if row.get("aer_uncorrected")]
    if any(row.get("aer_uncorrected") is not None for row in rows):
        said = ", ".join(f"{row['address']} {row['aer_uncorrected']}" for row in errors[:8])
        count = sum(int(row["aer_uncorrected"]) for row in errors)
        facts.append(Fact("pcie_aer_uncorrected", count, f"{source}, since boot{': ' + said if said else ''}", "errors"))
    return tuple(facts)
