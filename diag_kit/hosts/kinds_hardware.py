"""What pasted text about GPUs, links and hardware looks like: (kind, pattern of a line, how many lines at least). Pure data.

Used by ``kinds``. Blanks at a line's start are [ \\t]*, never \\s*, and every repeat is bounded by the line: linear time.
"""

from __future__ import annotations

import re

_BUS = r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]"

HARDWARE_PATTERNS: tuple[tuple[str, str, int], ...] = (
    ("nccl_tests", r"^.{0,40}#[ \t]+size[ \t]+count[ \t].{0,80}\bbusbw\b|^.{0,40}# Avg bus bandwidth[ \t]*:", 1),
    ("p2p_bandwidth", r"^[ \t]*(?:Uni|Bi)directional P2P=\w+ (?:Bandwidth|Latency)|^[ \t]*P2P=\w+ Latency.{0,40}Matrix", 1),
    ("nvidia_smi_csv", r"^(?:#[ \t]*)?[a-z_.]+(?: \[\S+\])?, .*(?:utilization|memory\.|power\.|uuid|index|pid|pcie\.|clocks)", 1),
    ("nvidia_smi_csv", r"^index, ?(?:pcie|clocks|temperature|name|fan|ecc|pstate|power|utilization|memory|uuid|gpu_)", 1),
    (
        "nvidia_smi_csv",
        r"^(?:timestamp|name|gpu_name|uuid|gpu_uuid|pci\.bus_id|gpu_bus_id|pid|count|driver_version) ?(?:\[\S+\])?,"
        r" ?.*(?:utilization|memory|power|pcie|clocks|uuid|index|name|pid|ecc|temperature)",
        1,
    ),
    (
        "nvidia_smi_csv",
        r"^(?:utilization\.(?:gpu|memory)|memory\.(?:used|free|total)|power\.draw|temperature\.gpu)(?: \[\S+\])?\s*$",
        1,
    ),
    ("nvidia_smi_csv", r"^\d{1,3}, .{0,200}\d+ MiB, \d+ MiB.{0,200}$", 1),
    ("nvidia_smi_table", r"\| NVIDIA-SMI [\d.]+|^\|[ \t]+\d+[ \t]+\S.*\| *[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:", 1),
    ("nvidia_smi_mig", r"^\|[ \t]*(?:GPU instances|GPU instance profiles|Compute instances|Compute instance profiles):", 1),
    ("nvidia_smi_query", r"^=+[ \t]*NVSMI LOG[ \t]*=+|<nvidia_smi_log>|^GPU " + _BUS + r"[ \t\r]*$", 1),
    ("nvidia_smi_dmon", r"^#[ \t]*(?:Date[ \t]+Time[ \t]+)?gpu[ \t]+(?:pwr|pid|sm|[a-z]+)\b", 1),
    ("topo", r"^[ \t]*GPU0[ \t]+(?:GPU1|NIC0|mlx5_\w+|CPU Affinity)|^GPU0[ \t]+X[ \t]", 1),
    ("nvidia_smi_nvlink", r"^[ \t]+Link \d+(?::|,| is)[ \t]", 1),
    ("nvidia_smi_list", r"^GPU \d+: .{1,200}\(UUID: ", 1),
    ("nvtop", r"^[ \t]*Device \d+ \[.{1,80}\].{0,20}PCIe GEN ", 1),
    (
        "nvidia_smi_failed",
        r"^NVIDIA-SMI has failed because|^Failed to initialize NVML|^Unable to determine the device handle for"
        r"|^NVIDIA-SMI couldn't find|^No devices were found[ \t\r]*$",
        1,
    ),
    ("amd_smi", r"^.{0,60}=[ =]*(?:ROCm System Management Interface|ROCm SMI Log|Concise Info)|^\| AMD-SMI|^AMD-SMI ", 1),
    ("amd_smi", r"^GPU\[\d+\][ \t]*: ", 2),
    ("amd_smi", r"^[ \t]+(?:GFX_ACTIVITY|SOCKET_POWER|UMC_ACTIVITY): ", 1),
    ("dmesg", r"NVRM: (?:Xid|GPU at|rm_init|loading)|SXid \(PCI:", 1),
    ("dmesg", r"^(?:<\d+>)?\[[ \t]*\d+\.\d{6}\](?:\[[^\]\n]{1,30}\])? \S", 2),
    ("dmesg", r"^\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\] \S", 1),
    ("dmesg", r"^(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\S{8,30}) \S{1,255} kernel: ", 1),
    ("dmesg", r"^(?:\[[ \d.]{5,20}\] )?(?:Memory cgroup out|Out) of memory: Kill(?:ed)? process \d|^oom-kill:constraint=", 1),
    (
        "lspci",
        r"^[ \t]+(?:LnkCap|LnkSta|ACSCtl):"
        r"|^(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] [A-Z0-9][\w .\-/]{2,60}(?: \[\w{4}\])?: ",
        1,
    ),
    ("ibstat", r"^CA '[^'\n]{1,64}'|^hca_id:[ \t]+\S|^Infiniband device '", 1),
    ("ethtool", r"^Settings for \S{1,64}:|^NIC statistics:[ \t\r]*$", 1),
)

_NCCL_LINE = re.compile(r"\bNCCL (?:INFO|WARN|TRACE|version)\b")
_TRAINING_LINE = re.compile(r"\bloss\b|\d%\||\bit/s\b|s/it\b|\bstep[=: ]+\d|\biteration\s+\d|\bepoch\W{0,3}\d|^Traceback ", re.I)


def mostly_nccl(text: str) -> bool:
    """Whether at least half of the lines are NCCL's and no other one is a training's: its debug output, not a log with some."""
    lines = [line[:2000] for line in text.splitlines() if line.strip()]
    found = [bool(_NCCL_LINE.search(line)) for line in lines]
    others = (line for line, is_nccl in zip(lines, found, strict=True) if not is_nccl)
    return any(found) and sum(found) >= 0.5 * len(lines) and not any(_TRAINING_LINE.search(line) for line in others)
