"""Space and devices as people paste them: df, lsblk, mount, /proc/mounts, mountinfo, findmnt. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from diag_kit.observe.memory_mounts import Mount, read_mounts
from diag_kit.observe.raw import number
from diag_kit.observe.system.found import Found, fixed_columns, numbered, option, size
from diag_kit.records import CommandResult

_AMOUNT = r"(-|\d[\d.,]*[kKMGTPE]?i?B?)"
_DF_ROW = re.compile(
    r"^(\S.*?)[ \t]+(?:([A-Za-z][\w.+-]*)[ \t]+)?" + r"[ \t]+".join([_AMOUNT] * 3) + r"[ \t]+(-|\d{1,3}%)[ \t]+(/.*|-)$"
)
_DF_REST = re.compile(r"^[ \t]+" + r"[ \t]+".join([_AMOUNT] * 3) + r"[ \t]+(-|\d{1,3}%)[ \t]+(/.*)$")
_BLOCKS = re.compile(r"\b(\d{0,7})([KMGT]?)B?-?(?:[Bb]lo|blo|Blö|ブロ)")


def read_df(result: CommandResult, found: Found) -> None:
    """df of coreutils and busybox in any language, -T, -h, -H, -i, -P, -B: table ``space``, one row a mount.

    The rows tell their own shape; the unit is in the heading (``1K-blocks``), in each size (-h), or in the command. A long device
    name on a line of its own goes with the next line. used_pct is df's: of what users may fill.
    """
    plain, inodes, pending, wide = 1024, False, "", 0
    base = 1000 if option(result.command, "df", "H") == "H" or "--si" in result.command else 1024
    by_path: dict[str, dict[str, Any]] = {row["path"]: row for row in found.rows["space"]}
    for at, line in numbered(result.text):
        if not line.strip():
            continue
        if (
            re.match(r"^(?:Filesystem|Dateisystem|Sys\. de fichiers|S\.ficheros|文件系统|ファイルシス)", line)
            or "Use%" in line[:200]
        ):
            plain, inodes = _heading(line, base)
            continue
        if pending and (rest := _DF_REST.match(line)):
            row = _df_row(pending, rest.groups(), None, plain, base, inodes)
            pending = ""
        elif match := _DF_ROW.match(line[:2000]):
            row = _df_row(match[1], match.groups()[2:], match[2], plain, base, inodes)
        elif len(line.split()) <= 2 and not line.startswith("df:") and re.match(r"^\S+( \S+)?$", line.strip()):
            pending, wide = line.strip(), at
            continue
        else:
            _df_problem(found, at, line)
            continue
        by_path.setdefault(str(row["path"]), {}).update({name: value for name, value in row.items() if value is not None})
    if pending:
        found.strange(f"df line {wide}", pending, "a name without its figures")
    found.rows["space"] = list(by_path.values())
    full = [row for row in by_path.values() if max(row.get("used_pct") or 0, row.get("inodes_used_pct") or 0) >= 95]
    found.said.append(f"{len(by_path)} file systems" + (f", {len(full)} of them 95 % full or more" if full else ""))


def _heading(line: str, base: int) -> tuple[int, bool]:
    blocks = _BLOCKS.search(line)
    if "node" in line or "IUse%" in line:
        return 1, True
    if not blocks:
        return 1024, False
    letter = size(f"1{blocks[2]}", base=base) if blocks[2] else 1
    return int(blocks[1] or 1) * (letter or 1), False


def _df_row(
    source: str, groups: tuple[str | Any, ...], fstype: str | None, plain: int, base: int, inodes: bool
) -> dict[str, Any]:
    total, used, free, share, path = groups
    if fstype is None and (words := source.split()) and len(words) == 2:
        source, fstype = words
    row: dict[str, Any] = {"source": source.strip(), "fstype": fstype, "path": path.strip()}
    pct = number(share.rstrip("%"))
    if inodes:
        counts = [size(text, base=base) if text != "-" else None for text in (total, used)]
        return row | {"inodes": counts[0], "inodes_used": counts[1], "inodes_used_pct": pct}
    values = [None if text == "-" else size(text, plain, base) for text in (total, used, free)]
    return row | dict(zip(("size_bytes", "used_bytes", "available_bytes"), values, strict=True)) | {"used_pct": pct}


def _df_problem(found: Found, at: int, line: str) -> None:
    if match := re.match(r"^df: ['‘]?(.{1,200}?)['’]?: (.{1,100})$", line):
        found.problems.append(f"df could not read {match[1]}: {match[2]}")
    elif not line.startswith("total "):
        found.strange(f"df line {at}", line, "no row of df")


_LSBLK = {"NAME": "device", "KNAME": "device", "TYPE": "type", "SIZE": "size_bytes", "ROTA": "rotational", "MODEL": "model",
          "MOUNTPOINT": "path", "MOUNTPOINTS": "path", "FSTYPE": "fstype", "PKNAME": "parent"}  # fmt: skip


def read_lsblk(result: CommandResult, found: Found) -> None:
    """lsblk of util-linux: tree, list, ``-P`` pairs, ``-J`` (also cut); a field may be empty, so columns go by their place."""
    text = result.text
    if '"blockdevices"' in text:
        for row in _lsblk_json(text, found):
            found.rows["block_devices"].append(row)
    elif re.search(r'^\w+="[^"\n]*" ', text, re.M):
        for _, line in numbered(text):
            pairs = dict(re.findall(r'([A-Z:%-]{2,20})="([^"]*)"', line))
            if pairs:
                found.rows["block_devices"].append(_device(pairs, pairs.get("PKNAME")))
    else:
        _lsblk_table(text, found)
    whole_disks = [row for row in found.rows["block_devices"] if row["type"] == "disk"]
    found.said.append(f"{len(whole_disks)} disks")


def _device(values: Mapping[str, str], parent: str | None) -> dict[str, Any]:
    row: dict[str, Any] = {"parent": parent}
    for name, value in values.items():
        if name in _LSBLK and value:
            row.setdefault(_LSBLK[name], value)
    row["size_bytes"] = size(str(row["size_bytes"])) if row.get("size_bytes") else None
    row["rotational"] = {"1": True, "0": False}.get(str(row.get("rotational")))
    return {"device": None, "type": None, **row}


def _lsblk_json(text: str, found: Found) -> Iterator[dict[str, Any]]:
    try:
        top = json.loads(text[text.index("{") :])["blockdevices"]
    except (ValueError, KeyError, TypeError, RecursionError):
        found.strange("lsblk -J", text[-80:], "the JSON is cut or broken: what is whole was kept, its nesting lost")
        top = []
        for match in re.finditer(r'\{[^{}]{0,2000}(?=[,\s]*"children"|\})', text):
            try:
                top.append(json.loads(match[0].rstrip(", \n\t") + "}"))
            except ValueError:
                continue
    queue: list[tuple[dict[str, Any], str | None]] = (
        [(each, None) for each in top if isinstance(each, dict)] if isinstance(top, list) else []
    )
    while queue:
        each, parent = queue.pop(0)
        yield _device({str(name).upper(): _text(value) for name, value in each.items() if name != "children"}, parent)
        children = each.get("children")
        if isinstance(children, list):
            queue[:0] = [(child, str(each.get("name"))) for child in children if isinstance(child, dict)]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, list):
        return next((str(each) for each in value if each), "")
    return "" if value is None else str(value)


def _lsblk_table(text: str, found: Found) -> None:
    lines = [(at, line) for at, line in numbered(text) if line.strip()]
    start = next((n for n, (_, line) in enumerate(lines) if line.startswith("NAME") or "MAJ:MIN" in line), None)
    if start is None:
        return
    header, rows = lines[start][1], lines[start + 1 :]
    columns = fixed_columns(header, [line for _, line in rows])
    above: list[tuple[int, str]] = []
    for at, line in rows:
        mark = re.match(r"^[ │|├└─`-]*", line)
        depth = len(mark[0]) if mark else 0
        values = {title: line[begin:end].strip() for title, begin, end in columns}
        name = (line[depth:].split() or [""])[0]
        plain = header.split()
        words = line[depth:].split()
        if len(words) in (len(plain), len(plain) - 1) and plain[-1].startswith("MOUNTPOINT"):
            values = dict(zip(plain, words, strict=False))  # every field filled but the last: no guess needed
        if not re.match(r"^[\w][\w!.:/-]*$", name) or (line[:1].isspace() and not mark):
            found.strange(f"lsblk line {at}", line, "no device")
            continue
        while above and above[-1][0] >= depth:
            above.pop()
        values["NAME"] = name
        row = _device(values, above[-1][1] if above else None)
        found.rows["block_devices"].append(row)
        above.append((depth, name))


_MOUNT = re.compile(r"^(.+?) on (/.*) type ([\w.]+) \(([^()]*)\)")
_FINDMNT = re.compile(r"^[ │|├└─`-]*(/\S*)[ \t]+(\S+)[ \t]+([\w.]+)[ \t]+(\S+)[ \t]*$")
_MOUNTINFO = re.compile(r"^\d+ \d+ \d+:\d+ (\S+) (\S+) (\S+)(?: [\w:]+)* - ([\w.]+) (\S+) (\S+)$")


def read_mount_list(result: CommandResult, found: Found) -> None:
    """``mount``, /proc/mounts, /proc/self/mountinfo and ``findmnt``: table ``mounts`` without the kernel's own file systems."""
    for at, line in numbered(result.text):
        options = ""
        line = line[:4000]
        if match := _MOUNT.match(line):
            source, path = match[1].replace(" ", "\\040"), match[2].replace(" ", "\\040")
            row = f"{source} {path} {match[3]} x"
            options = match[4]
        elif match := _MOUNTINFO.match(line):
            row, options = f"{match[5]} {match[2]} {match[4]} x", f"{match[3]},{match[6]}"
        elif (match := _FINDMNT.match(line)) and not re.match(r"^\S+ /\S* \S+ \S+ \d \d$", line):
            row, options = f"{match[2]} {match[1]} {match[3]} x", match[4]
        else:
            words = line.split(" ")
            row, options = line, words[3] if len(words) > 3 else ""
            if line.startswith("TARGET") or not line.strip():
                continue
            if len(words) < 4 or not words[1].startswith("/"):
                found.strange(f"mounts line {at}", line, "no mount")
                continue
        found.rows["mounts"].extend(_mount_row(mount, options) for mount in read_mounts(row, []))
    network = sorted({row["fstype"] for row in found.rows["mounts"] if row["kind"] == "network"})
    found.said.append(f"{len(found.rows['mounts'])} mounts" + (f", network: {', '.join(network)}" if network else ""))


def _mount_row(mount: Mount, options: str) -> dict[str, Any]:
    return {"path": mount.path, "source": mount.source, "fstype": mount.fstype, "kind": mount.kind, "options": options[:300]}
