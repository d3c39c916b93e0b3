"""What an NVIDIA Xid code means, in short. Source: NVIDIA's public catalogue, https://docs.nvidia.com/deploy/xid-errors/.

``points_to`` is where that catalogue says to look first: "application" (a bug or a kill of the program), "hardware", "driver",
"consequence" (it follows another error: look above it), "record" (a repair was noted). It is no verdict: several codes have
more than one cause, and 13, 31, 43 and 45 come from faulty programs far more often than from faulty cards.
"""

from __future__ import annotations

from collections.abc import Mapping

XIDS: Mapping[int, tuple[str, str]] = {
    8: ("GPU stopped processing: a channel timed out", "application"),
    13: ("graphics engine exception: illegal access or instruction in a kernel", "application"),
    31: ("GPU memory page fault: the program touched an address that is not mapped", "application"),
    32: ("invalid or corrupted push buffer stream", "driver"),
    38: ("driver firmware error", "driver"),
    43: ("GPU stopped processing: the program hit a software fault and must end; the GPU stays healthy", "application"),
    45: ("preemptive cleanup after earlier errors, or the program was killed", "consequence"),
    46: ("GPU stopped processing", "hardware"),
    48: ("double bit ECC error: uncorrectable memory error", "hardware"),
    61: ("internal micro-controller breakpoint or warning", "hardware"),
    62: ("internal micro-controller halt", "hardware"),
    63: ("row remapping or page retirement was recorded: takes effect at the next reset", "record"),
    64: ("row remapping or page retirement could not be recorded", "hardware"),
    68: ("video decoder exception", "application"),
    69: ("graphics engine class error", "application"),
    74: ("NVLink error", "hardware"),
    79: ("GPU has fallen off the bus: it does not answer over PCIe", "hardware"),
    92: ("high rate of single-bit ECC errors", "hardware"),
    94: ("contained memory error: only the program that met it must restart", "hardware"),
    95: ("uncontained memory error: other programs may be hit, the GPU must be reset", "hardware"),
    109: ("context switch timeout", "application"),
    119: ("GSP firmware did not answer a call of the driver in time", "driver"),
    120: ("GSP firmware error", "driver"),
    121: ("corrected error on the link between CPU and GPU chips (C2C)", "record"),
    140: ("unrecovered ECC error", "hardware"),
    143: ("GPU could not be initialised", "hardware"),
    149: ("NVLink error", "hardware"),
    154: ("the action that the driver recommends for recovery changed", "record"),
}


def xid_meaning(code: int | None) -> tuple[str | None, str | None]:
    """(meaning, points_to); (None, None) for a code that is not in the list."""
    return XIDS.get(code, (None, None)) if code is not None else (None, None)
