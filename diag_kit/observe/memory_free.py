"""The table of ``free``: procps before and after 3.3.10, ``-w``, ``-h``, ``-L``, any unit and repeated; busybox. Pure.

``free`` prints no unit without -h: it is taken from the command (-b -k -m -g, --mebi...; none means KiB, man free). Without a
command a number is taken as KiB only where nothing else can be: 4 GiB to 128 TiB.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from diag_kit.observe.raw import whole
from diag_kit.observe.system.found import numbered, option, size
from diag_kit.records import NotUnderstood

_UNIT = {"b": 1, "k": 1024, "m": 2**20, "g": 2**30, "t": 2**40, "": 1024, "h": 1024}
_LONG = {"bytes": 1, "kilo": 1000, "mega": 10**6, "giga": 10**9, "tera": 10**12, "kibi": 1024, "mebi": 2**20, "gibi": 2**30}
_HEADINGS = {  # of procps' translations: the order of columns is the same
    "gesamt": "total", "benutzt": "used", "frei": "free", "gemns.": "shared", "Puffer/Cache": "buff/cache",
    "verfügbar": "available",
    "utilisé": "used", "libre": "free", "partagé": "shared", "tamp/cache": "buff/cache", "disponible": "available",
    "usado": "used", "compartido": "shared", "búf/caché": "buff/cache", "disponível": "available", "compart.": "shared",
}  # fmt: skip


@dataclass(slots=True)
class Free:
    """A row for each time the table was printed, with the columns of ``memory``; lines that could not be read."""

    rows: list[dict[str, int | None]] = field(default_factory=list)
    odd: list[NotUnderstood] = field(default_factory=list)


def read_free(text: str, command: str = "") -> Free:
    """Bytes of every printed table. Before procps 3.3.10 used and free count the cache as used: "-/+ buffers/cache" gives
    what is available there (an estimate: no column says so)."""
    found = Free()
    plain = _unit(command)
    base = 1000 if re.search(r"\bfree\b[^|;]*--si\b", command) else 1024
    head: list[str] = []
    for at, line in numbered(text):
        words = [_HEADINGS.get(word, word) for word in line.split()]
        label = words[0] if words else ""
        if words[:3] == ["total", "used", "free"]:
            head = words
        elif re.fullmatch(r"(?:Mem|Speicher|Speich\.?|Memoria|メモリ|内存) ?[:：]", label) and head:
            values = line.split()[1:]
            _memory(found, at, line, dict(zip(head, values, strict=False)) if len(values) == len(head) else {}, plain, base)
        elif label in ("Swap:", "Échange:", "交换：") and head and found.rows and len(words) >= 4:
            found.rows[-1]["swap_used_bytes"] = size(words[2], plain or 1024, base)
        elif label == "-/+" and found.rows and len(words) == 4:
            found.rows[-1]["available_bytes"] = size(words[3], plain or 1024, base)
        elif label == "SwapUse" and len(words) == 8:
            single = dict(zip(words[::2], words[1::2], strict=True))
            amounts = {name: size(value, plain or 1024, base) for name, value in single.items()}
            total = [amounts.get("MemUse"), amounts.get("MemFree")]
            row = {"free_bytes": total[1], "cached_bytes": amounts.get("CachUse"), "swap_used_bytes": amounts.get("SwapUse")}
            found.rows.append({"total_bytes": None, **row})
        elif words and label not in ("Total:", "Low:", "High:", "Comm:", "Gesamt:"):
            found.odd.append(NotUnderstood(f"free line {at}", line[:200], "no line of free"))
    return found


def _memory(found: Free, at: int, line: str, values: dict[str, str], plain: int | None, base: int) -> None:
    if not values:
        found.odd.append(NotUnderstood(f"free line {at}", line[:200], "does not fit the header above it"))
        return
    bare = values["total"].isdigit()
    kib = whole(values["total"])
    if plain is None and bare:
        if kib is None or not 2**22 <= kib <= 2**37:  # 4 GiB to 128 TiB, else MiB, GiB or bytes
            found.odd.append(NotUnderstood(f"free line {at}", line[:200], "the unit cannot be told: paste free -h"))
            return
        plain = 1024
    amounts = {name: size(value, plain or 1024, base) for name, value in values.items()}
    cache = [amounts.get(name) for name in ("buff/cache", "cache", "cached")]
    found.rows.append(
        {
            "total_bytes": amounts.get("total"),
            "available_bytes": amounts.get("available"),
            "cached_bytes": next((amount for amount in cache if amount is not None), None),
            "free_bytes": amounts.get("free"),
            "shared_bytes": amounts.get("shared"),
        }
    )


def _unit(command: str) -> int | None:
    given = option(command, "free", "bkmgth")
    if given is None:
        return None
    long = re.search(r"--(bytes|kilo|mega|giga|tera|kibi|mebi|gibi|tebi)\b", command)
    return _LONG.get(long[1], 2**40) if long else _UNIT[given]
