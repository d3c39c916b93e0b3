"""Sentences on GPUs that cannot be seen: what is wrong, and what to do next. Pure."""

from __future__ import annotations

import re

from diag_kit.observe.raw import show
from diag_kit.records import CommandResult

_VENDORS = {"0x10de": "NVIDIA", "0x1002": "AMD", "0x1022": "AMD", "0x8086": "Intel", "0x1da3": "Habana", "0x1d0f": "AWS"}
_OTHER_TOOLS = {
    "rocm-smi": "AMD",
    "amd-smi": "AMD",
    "xpu-smi": "Intel",
    "hl-smi": "Habana",
    "neuron-ls": "AWS Neuron",
    "npu-smi": "Ascend",
}
_REFUSAL = re.compile(
    r"NVIDIA-SMI has failed because|Failed to initialize NVML|Unable to determine the device handle|NVIDIA-SMI couldn't find"
    r"|No devices were found|Failed to properly shut down NVML"
)
_FAILURES = (
    (
        r"couldn't communicate with the NVIDIA driver|NVIDIA driver is not loaded",
        "cannot reach the NVIDIA driver: is its kernel module loaded (lsmod | grep nvidia), was the kernel updated?",
    ),
    (
        r"Driver/library version mismatch",
        "finds a driver of another version in the kernel than on disk: the driver was updated without a reboot",
    ),
    (r"No devices were found", "finds no GPU: is the card there (lspci), is it given to this container?"),
    (r"Insufficient Permissions|Permission denied", "may not read the GPUs as this user"),
    (r"GPU is lost|fallen off|requires reset|device handle", "has lost a GPU (see dmesg for an Xid)"),
    (r"not a valid field", "refuses every field that was asked for"),
    (r"libnvidia-ml|NVML: .*Not Found|shared library", "does not find its library libnvidia-ml.so"),
)


def sentence_on_absence(host: str, found: str) -> str:
    """There is no nvidia-smi: say what else the host has."""
    tools = [line.split()[1] for line in found.splitlines() if line.startswith("tool ") and len(line.split()) > 1]
    ids = [line.split()[1] for line in found.splitlines() if line.startswith("pci ") and len(line.split()) > 1]
    cards = list(dict.fromkeys(_VENDORS.get(vendor, "") for vendor in ids))
    text = f"no nvidia-smi on {host}: "
    if tools:
        vendors = ", ".join(dict.fromkeys(_OTHER_TOOLS.get(tool, "other") for tool in tools))
        return text + f"its accelerators are {vendors} ({', '.join(tools)} is there), which this kit does not read yet"
    if "NVIDIA" in cards or "nvidia driver" in found:
        return text + "an NVIDIA card is there, but the driver's tools are not installed or not in PATH"
    if "AMD" in cards or "Habana" in cards or "AWS" in cards:
        vendor = next(card for card in cards if card in ("AMD", "Habana", "AWS"))
        return text + f"the PCI bus shows a card by {vendor}, which this kit does not read yet"
    return text + "no GPU was seen on its PCI bus either"


def sentence_on_failure(result: CommandResult, answer: str, status: int | None) -> str:
    """nvidia-smi is there and gave no row."""
    if result.timed_out or status == 124:
        hint = "its driver hangs: look at dmesg for an Xid and for processes in state D"
        return f"nvidia-smi on {result.host} did not answer in time ({result.duration_s:.0f} s): {hint}"
    for pattern, sentence in _FAILURES:
        if re.search(pattern, answer, re.I):
            return f"nvidia-smi on {result.host} {sentence}"
    if result.exit_status is None:
        return f"nvidia-smi on {result.host} was stopped before it answered"
    said = f": it says {show(answer)!r}" if answer.strip() else " and says nothing"
    return f"nvidia-smi on {result.host} gave no row{said}"


def sentence_of_failure(text: str) -> str | None:
    """A pasted text that is nothing but nvidia-smi's refusal, in words; None for any other text."""
    lines = [line for line in text[:4000].splitlines() if line.strip()]
    if not lines or len(lines) > 6 or not _REFUSAL.match(lines[0].strip()):
        return None
    found = next((sentence for pattern, sentence in _FAILURES if re.search(pattern, text[:4000], re.I)), None)
    return f"nvidia-smi {found}" if found else f"nvidia-smi gave no row: it says {show(text)!r}"
