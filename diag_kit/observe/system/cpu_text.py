"""CPU shares, load, topology and quota as people paste them: mpstat, sar, /proc/stat, uptime, lscpu, numactl, pressure, cgroup.
Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import Any

from diag_kit.observe.memory_limits import list_size
from diag_kit.observe.raw import number, whole
from diag_kit.observe.system.found import Found, numbered, size
from diag_kit.observe.system.sysstat import Row, read_json, read_rows
from diag_kit.records import CommandResult

_SHARES = {
    "user_pct": ("usr", "user"),
    "nice_pct": ("nice",),
    "system_pct": ("sys", "system"),
    "iowait_pct": ("iowait",),
    "steal_pct": ("steal",),
    "idle_pct": ("idle",),
}
_CPU_KNOWN = {"CPU", "NODE", "cpu", "node", "intr/s"} | {"usr", "user", "nice", "sys", "system", "iowait", "irq", "soft", "steal"}
_CPU_KNOWN |= {"guest", "gnice", "idle"}


def read_mpstat(result: CommandResult, found: Found) -> None:
    """mpstat -P ALL (text or JSON) and ``sar -u``: rows ``cpu`` (all) and ``cpu_per_core``; the averages at the end are left out.

    A single report without an average line is what ``mpstat`` prints without an interval: the average since boot (man mpstat).
    """
    text = result.text
    if re.search(r'"cpu-load"[ \t]*:', text):
        for t, rows in read_json(text, "cpu-load", found, "mpstat -o JSON"):
            for each in rows:
                _add_cpu(found, {str(name): str(value) for name, value in each.items()}, t, "")
        return
    averages = False
    for row in read_rows(text, "mpstat", found):
        averages = averages or row.average
        _add_row(found, row)
    stamps = {row["t"] for row in found.rows["cpu"]}
    if (
        len(stamps) == 1
        and len(found.rows["cpu"]) == 1
        and not averages
        and not re.search(r"mpstat[^|;\n]*[ \t]\d+", result.command)
    ):
        found.rows["cpu_since_boot"], found.rows["cpu"] = found.rows["cpu"], []
        found.rows["cpu_per_core_since_boot"], found.rows["cpu_per_core"] = found.rows["cpu_per_core"], []
        found.problems.append("the only report is the average since boot: it says nothing about now (run mpstat -P ALL 1 5)")


def _add_row(found: Found, row: Row) -> None:
    values = {name.lstrip("%"): value for name, value in row.values.items()}
    if row.average:
        return
    if "idle" in values and ("CPU" in values):
        _add_cpu(found, values, row.t, f"line {row.line}")
    elif "ldavg-1" in values:
        names = {"load_1min": "ldavg-1", "load_5min": "ldavg-5", "load_15min": "ldavg-15"}
        load: dict[str, Any] = {name: number(values.get(key, "")) for name, key in names.items()}
        load |= {"t": row.t, "running": whole(values.get("runq-sz", "")), "threads": whole(values.get("plist-sz", ""))}
        found.rows["load"].append(load | {"blocked": whole(values.get("blocked", ""))})
    elif "IFACE" in values and ("rxkB/s" in values or "rxbyt/s" in values):
        found.rows["network"].append(_interface(values) | {"t": row.t})
    elif "kbmemfree" in values:
        found.rows["memory"].append(_memory(values))
    elif not {"IFACE", "DEV", "CPU", "TTY"} & values.keys() and "read" in values:
        found.strange(f"line {row.line}", " ".join(values), "a table of sar that is not used")


def _add_cpu(found: Found, values: Mapping[str, str], t: Any, where: str) -> None:
    row: dict[str, Any] = {"t": t}
    for name, printed in _SHARES.items():
        row[name] = next((number(values[each]) for each in printed if each in values), None)
    irq = [number(values.get(each, "")) for each in ("irq", "soft")]
    interrupt = sum(each for each in irq if each is not None) if any(each is not None for each in irq) else None
    which = values.get("CPU", values.get("cpu", ""))
    if which in ("all", "-1"):
        both = row["system_pct"] is not None and interrupt is not None
        found.rows["cpu"].append(row | ({"system_pct": round(row["system_pct"] + interrupt, 2)} if both else {}))
    elif (cpu := whole(which)) is not None:
        guest = number(values.get("guest", ""))
        found.rows["cpu_per_core"].append(row | {"cpu": cpu, "interrupt_pct": interrupt, "guest_pct": guest})
    unknown = sorted(values.keys() - _CPU_KNOWN)
    if unknown and where:
        found.strange(where, " ".join(unknown), "columns that are not known")


def _interface(values: Mapping[str, str]) -> dict[str, Any]:
    factor = 1024 / 1e6 if "rxkB/s" in values else 1 / 1e6  # sysstat's kB is 1024 bytes
    received, sent = (number(values.get(f"{way}kB/s", values.get(f"{way}byt/s", ""))) for way in ("rx", "tx"))
    return {
        "interface": values["IFACE"],
        "received_mb_per_s": None if received is None else received * factor,
        "sent_mb_per_s": None if sent is None else sent * factor,
        "received_packets_per_s": number(values.get("rxpck/s", "")),
        "sent_packets_per_s": number(values.get("txpck/s", "")),
        "used_pct": number(values.get("ifutil", "")),
    }


def _memory(values: Mapping[str, str]) -> dict[str, Any]:
    kib = {name: whole(values.get(key, "")) for name, key in (
        ("free_bytes", "kbmemfree"), ("available_bytes", "kbavail"), ("cached_bytes", "kbcached"), ("dirty_bytes", "kbdirty"),
    )}  # fmt: skip
    return {name: None if value is None else value * 1024 for name, value in kib.items()}


def read_proc_stat(result: CommandResult, found: Found) -> None:
    """/proc/stat (proc(5)): one reading is the share since boot; two or more readings in one text give the shares between
    them."""
    readings: list[dict[str, tuple[int, ...]]] = []
    for at, line in numbered(result.text):
        words = line.split()
        if not words or not re.fullmatch(r"cpu\d*", words[0]):
            continue
        counts = [whole(word) for word in words[1:]]
        if len(counts) < 4 or any(count is None for count in counts):
            found.strange(f"/proc/stat line {at}", line, "no line of /proc/stat")
            continue
        if not readings or words[0] in readings[-1]:
            readings.append({})
        readings[-1][words[0]] = tuple(count for count in counts if count is not None)
    for before, after in itertools.pairwise(readings):
        add_shares(found, before, after, None)
    if len(readings) == 1:
        nothing = {name: (0,) * len(counts) for name, counts in readings[0].items()}
        add_shares(found, nothing, readings[0], None, suffix="_since_boot")
        found.problems.append("one reading of /proc/stat is the average since boot: it says nothing about now")
    cores = max((len([name for name in reading if name != "cpu"]) for reading in readings), default=0)
    found.fact("cpu_count", cores or None, "/proc/stat")


def add_shares(
    found: Found, before: Mapping[str, tuple[int, ...]], after: Mapping[str, tuple[int, ...]], t: Any, suffix: str = ""
) -> None:
    """Shares between two readings of the ``cpu`` lines. user holds guest, system holds both kinds of interrupts, as in iostat."""
    for name, counts in after.items():
        earlier = before.get(name)
        if earlier is None:
            continue
        grown = [max(0, b - a) for a, b in zip(earlier[:8], counts[:8], strict=False)]
        grown += [0] * (8 - len(grown))
        total = sum(grown)
        if not total:
            continue
        user, nice, system, idle, iowait, irq, softirq, steal = (100 * each / total for each in grown)
        row = {"t": t, "user_pct": user, "nice_pct": nice, "system_pct": system + irq + softirq, "idle_pct": idle}
        row |= {"iowait_pct": iowait, "steal_pct": steal}
        if name == "cpu":
            found.rows[f"cpu{suffix}"].append(row)
        else:
            guest = 100 * max(0, counts[8] - earlier[8]) / total if len(counts) > 8 and len(earlier) > 8 else None
            each = row | {"cpu": whole(name[3:]), "system_pct": system, "interrupt_pct": irq + softirq, "guest_pct": guest}
            found.rows[f"cpu_per_core{suffix}"].append(each)


_LOAD = re.compile(r"load averages?: *([\d.,]+?),? +([\d.,]+?),? +([\d.,]+?)(?=,?(?:\s|$))")
_LOADAVG = re.compile(r"^(\d+\.\d\d) (\d+\.\d\d) (\d+\.\d\d) (\d+)/(\d+) \d+$")
_UP = re.compile(r"\bup +(?:(\d+) days?,? *)?(?:(\d+):(\d\d)|(\d+) (min|mins|minutes|hours?))?")


def read_uptime(result: CommandResult, found: Found) -> None:
    """``uptime``, ``w``, /proc/loadavg, and lines such as ``nproc: 32`` beside them. The load counts tasks that run or wait for a
    disk, of all CPUs together (proc(5))."""
    for at, line in numbered(result.text):
        text = line.strip()
        if load := _LOAD.search(text):
            add_load(found, load.groups(), "uptime")
            if up := _UP.search(text[: load.start()]):
                days, hours, minutes = (int(group or 0) for group in up.groups()[:3])
                seconds = 86400 * days + 3600 * hours + 60 * minutes
                seconds += int(up[4] or 0) * (60 if (up[5] or "").startswith("min") else 3600)
                found.fact("uptime_s", seconds or None, "uptime", "s")
        elif load := _LOADAVG.match(text):
            add_load(found, load.groups()[:3], "/proc/loadavg")
            found.rows["load"][-1] |= {"running": int(load[4][:15]), "threads": int(load[5][:15])}
        elif count := re.fullmatch(
            r"(?:nproc|cpu_count|os\.cpu_count\(\)|CPU\(s\)|cores|CPUs|cpus)[ \t]*[:=][ \t]*(\d{1,6})", text
        ):
            found.fact("cpu_count", int(count[1]), f"line {at}: {text}")
        elif text and not text.startswith("USER ") and not re.match(r"^\S+ +(?:pts|tty|:\d|\d)", text):
            found.strange(f"line {at}", line, "no load average")


def add_load(found: Found, printed: tuple[str | Any, ...], source: str) -> None:
    values = [number(text.strip(",")) for text in printed]
    if any(value is None for value in values):
        return
    names = ("load_1min", "load_5min", "load_15min")
    found.rows["load"].append(dict(zip(names, values, strict=True)))
    for name, value in zip(names, values, strict=True):
        found.fact(name, value, source)
    found.said.append(f"load {values[0]:g}")


_LSCPU = {
    "CPU(s)": "cpu_count",
    "Thread(s) per core": "cpu_threads_per_core",
    "Core(s) per socket": "cpu_cores_per_socket",
    "Socket(s)": "cpu_sockets",
    "NUMA node(s)": "numa_nodes",
}
_LSCPU_TEXT = {"Model name": "cpu_model", "Hypervisor vendor": "hypervisor"}
_LSCPU_MHZ = {"CPU MHz": "cpu_mhz", "CPU max MHz": "cpu_max_mhz", "CPU min MHz": "cpu_min_mhz"}


def read_lscpu(result: CommandResult, found: Found) -> None:
    """lscpu, text or ``-J`` (util-linux). ``cpu_count`` counts logical CPUs."""
    pairs = _lscpu_json(result.text) or [line.partition(":")[::2] for _, line in numbered(result.text) if ":" in line]
    for name, value in ((name.strip().strip('"'), value.strip()) for name, value in pairs):
        if name in _LSCPU:
            found.fact(_LSCPU[name], whole(value), f"lscpu {name}")
        elif name in _LSCPU_TEXT:
            found.fact(_LSCPU_TEXT[name], value[:200] or None, f"lscpu {name}")
        elif name in _LSCPU_MHZ:
            found.fact(_LSCPU_MHZ[name], number(value), f"lscpu {name}", "MHz")
        elif node := re.fullmatch(r"NUMA node(\d{1,4}) CPU\(s\)", name):
            found.rows["numa"].append({"node": int(node[1]), "cpus": value, "cpu_count": list_size(value)})
    known = {fact.name: fact.value for fact in found.facts}
    if "cpu_count" in known:
        found.said.append(f"{known['cpu_count']} CPUs, {known.get('cpu_model', 'model not named')}")


def _lscpu_json(text: str) -> list[tuple[str, str]]:
    return [
        (match[1].rstrip(":"), match[2])
        for match in re.finditer(r'"field"[ \t]*:[ \t]*"([^"\n]{1,60})"[ \t\r\n]*,[ \t\r\n]*"data"[ \t]*:[ \t]*"([^"\n]*)"', text)
    ]


def read_numactl(result: CommandResult, found: Found) -> None:
    """``numactl -H`` (numactl.c): nodes with their CPUs, memory in MB of 2**20 bytes; the distances are not kept."""
    nodes: dict[int, dict[str, Any]] = {}
    distances = False
    for at, line in numbered(result.text):
        text = line.strip()
        if match := re.fullmatch(r"available: (\d{1,4}) nodes? \(.*\)", text):
            found.fact("numa_nodes", int(match[1]), "numactl -H")
        elif match := re.fullmatch(r"node (\d{1,4}) (cpus|size|free): ?(.*)", text):
            row = nodes.setdefault(int(match[1]), {"node": int(match[1])})
            if match[2] == "cpus":
                cpus = match[3].split()
                row |= {"cpus": ",".join(cpus), "cpu_count": len(cpus)}
            else:
                row["memory_bytes" if match[2] == "size" else "free_bytes"] = size(match[3])
        elif text.startswith("node distances"):
            distances = True
        elif text and not (distances and re.match(r"^(?:node +\d|\d+: )", text)):
            found.strange(f"numactl line {at}", line, "no line of numactl -H")
    found.rows["numa"].extend(nodes.values())


_PRESSURE = re.compile(r"^(some|full) avg10=([\d.]{1,12}) avg60=([\d.]{1,12}) avg300=([\d.]{1,12}) total=(\d{1,18})$")


def read_pressure(result: CommandResult, found: Found) -> None:
    """/proc/pressure/RESOURCE; the resource is told by the command or a heading, else it is missing."""
    named = re.search(r"pressure/(cpu|io|memory|irq)|\b(cpu|io|memory)\.pressure", result.command)
    resource = (named[1] or named[2]) if named else None
    for at, line in numbered(result.text):
        text = line.strip()
        if heading := re.search(r"(?:^|[/ ])(cpu|io|memory|irq)(?:\.pressure)?(?: <==|:|$)", text[:200]):
            resource = heading[1]
        text = re.sub(r"^[\w/.]{0,60}pressure/(?:cpu|io|memory|irq):", "", text)
        if match := _PRESSURE.match(text):
            add_pressure(found, resource, match.groups())
        elif text and not re.search(r"(?:cpu|io|memory|irq)", text):
            found.strange(f"pressure line {at}", line, "no line of /proc/pressure")


def add_pressure(found: Found, resource: str | None, printed: tuple[str | Any, ...]) -> None:
    kind, *shares, total = printed
    row: dict[str, Any] = {"resource": resource, "kind": kind, "total_us": int(total)}
    found.rows["pressure"].append(row | dict(zip(("avg10_pct", "avg60_pct", "avg300_pct"), map(number, shares), strict=True)))
