"""``nvidia-smi -L`` and ``nvidia-smi mig -lgi / -lci / -lgip``: which GPUs and which MIG instances there are. Pure."""

from __future__ import annotations

import re

from diag_kit.observe.gpu_values import Row, Seen
from diag_kit.observe.raw import number, whole
from diag_kit.records import NotUnderstood

_GPU = re.compile(r"^GPU (\d{1,4}): (.{1,200}?) \(UUID: ([^)\s]{1,80})\)\s*$")
_DEVICE = re.compile(r"^\s+MIG (\S{1,40})\s+Device\s+(\d{1,4}): \(UUID: ([^)\s]{1,120})\)\s*$")
_TITLE = re.compile(r"^\|\s*(GPU instances|GPU instance profiles|Compute instances|Compute instance profiles):")
_NAME = r"(?:MIG )?(?P<profile>\d\S{0,40})"
_GPU_INSTANCE = re.compile(rf"^\|\s*(?P<gpu>\d+)\s+{_NAME}\s+(?P<id>\d+)\s+(?P<gi>\d+)\s+(?P<place>\d+:\d+)\s*\|$")
_COMPUTE_INSTANCE = re.compile(
    rf"^\|\s*(?P<gpu>\d+)\s+(?P<gi>\d+)\s+{_NAME}\s+(?P<id>\d+)\*?\s+(?P<ci>\d+)\s+(?P<place>\d+:\d+)\s*\|$"
)
_PROFILE = re.compile(
    rf"^\|\s*(?P<gpu>\d+)\s+{_NAME}\s+(?P<id>\d+)\*?\s+(?P<free>\d+)/(?P<total>\d+)\s+(?:(?P<memory>\d+\.\d+)\s)?.*\|$"
)
_FURNITURE = re.compile(
    r"^[+|][-=+|]*$|^\|\s*(?:GPU\s|ID\s|Instance|Name|Profile|Start|Placement|\d+\s+\d+\s+\d+\s*\|)|^\|\s*\|$|^\|\s*Free"
)


def read_list(text: str, where: str = "nvidia-smi -L") -> Seen:
    """One row per GPU, and its MIG devices."""
    seen = Seen()
    gpu: int | None = None
    for count, line in enumerate(text.splitlines(), start=1):
        line = line.rstrip()[:1000]
        if found := _GPU.match(line):
            gpu = int(found[1])
            row = Row(gpu)
            row.text("name", found[2])
            row.text("uuid", found[3])
            seen.gpus.append(row.done())
        elif (device := _DEVICE.match(line)) and gpu is not None:
            seen.instances.append({"gpu": gpu, "dev": int(device[2]), "profile": device[1], "uuid": device[3]})
        elif line.strip():
            seen.not_understood.append(NotUnderstood(f"{where} line {count}", line[:200], "not a line of nvidia-smi -L"))
    return seen


def read_mig(text: str, where: str = "nvidia-smi mig") -> Seen:
    """The tables of instances that exist (``-lgi``, ``-lci``) and of profiles that could be made (``-lgip``)."""
    seen = Seen()
    title = ""
    for count, line in enumerate(text.splitlines(), start=1):
        line = line.strip()[:1000]
        if named := _TITLE.match(line):
            title = named[1]
            seen.headers += 1
        elif line and not _row(seen, title, line) and not _FURNITURE.match(line):
            if re.search(r"No (?:MIG-enabled|GPU instances|compute instances|MIG-supported)", line, re.I):
                seen.problems.append(f"nvidia-smi mig: {line[:160]}")
            else:
                why = "not a line of nvidia-smi mig"
                seen.not_understood.append(NotUnderstood(f"{where} line {count}", line[:200], why))
    return seen


def _row(seen: Seen, title: str, line: str) -> bool:
    shapes = {"GPU instances": _GPU_INSTANCE, "Compute instances": _COMPUTE_INSTANCE, "GPU instance profiles": _PROFILE}
    shape = shapes.get(title)
    match = shape.match(line) if shape else None
    if not match:
        return title == "Compute instance profiles" and line.startswith("|")
    found = match.groupdict()
    row = {"gpu": whole(found["gpu"]), "profile": found["profile"], "profile_id": whole(found["id"])}
    if title == "GPU instance profiles":
        memory = number(found["memory"] or "")
        seen.profiles.append({**row, "free": whole(found["free"]), "total": whole(found["total"]), "memory_gib": memory})
    else:
        more = {"gi": whole(found["gi"]), "ci": whole(found.get("ci") or ""), "placement": found["place"]}
        seen.instances.append({**row, **more})
    return True
