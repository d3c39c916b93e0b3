#!/usr/bin/env python3
"""A stand-in for nvidia-smi in tests: answers by field like a driver 580 on two H200s; FAKE_SMI chooses what is wrong.

Values are those of a real capture under load; the words of errors are NVIDIA's.
"""

from __future__ import annotations

import datetime
import os
import sys
import time
from pathlib import Path

DATA = Path(__file__).resolve().parent.parent / "data" / "gpus"
MODE = os.environ.get("FAKE_SMI", "")
UUID = "GPU-00000000-0000-0000-0000-00000000000{}"
VALUES = {
    "index": "{gpu}",
    "name": "NVIDIA H200",
    "uuid": "GPU-00000000-0000-0000-0000-00000000000{gpu}",
    "pci.bus_id": "00000000:00:0{bus}.0",
    "driver_version": "580.159.04",
    "pstate": "P0",
    "utilization.gpu": "9{gpu}",
    "utilization.memory": "40",
    "memory.used": "5120",
    "memory.total": "143771",
    "power.draw": "492.50",
    "power.draw.instant": "501.00",
    "enforced.power.limit": "700.00",
    "power.limit": "700.00",
    "temperature.gpu": "55",
    "temperature.memory": "[N/A]",
    "clocks.current.sm": "1980",
    "clocks.sm": "1980",
    "clocks.max.sm": "1980",
    "clocks_event_reasons.active": "0x0000000000000004",
    "clocks_throttle_reasons.active": "0x0000000000000000",
    "clocks_event_reasons_counters.sw_power_cap": "{counter}",
    "mig.mode.current": "Disabled",
}
UNITS = {"utilization.gpu": "%", "memory.used": "MiB", "memory.total": "MiB", "power.draw": "W", "power.limit": "W"}


def say(text: str) -> None:
    print(text, flush=True)


def query(fields: list[str], step_s: float | None) -> int:
    known = help_text() if MODE != "no_help" else "\n".join(f'"{name}"' for name in ("timestamp", *VALUES))
    for field in fields:
        if f'"{field}"' not in known or (MODE == "refuses_reasons" and "reasons" in field):
            say(f'Field "{field}" is not a valid field to query.\n')
            return 2
    say(", ".join(f"{name} [{UNITS[name]}]" if name in UNITS else name for name in fields))
    for sample in range(1 if step_s is None else 10_000):
        for gpu in (0, 1):
            if MODE == "lost" and gpu == 1 and sample >= 1:
                say("Unable to determine the device handle for GPU1: 0000:00:07.0: GPU is lost.  Reboot the system")
            else:
                say(", ".join(value(name, gpu, sample) for name in fields))
        time.sleep(step_s or 0)
    return 0


def value(name: str, gpu: int, sample: int) -> str:
    if name == "timestamp":
        return datetime.datetime.now().strftime("%Y/%m/%d %H:%M:%S.%f")[:-3]
    if MODE == "sentinel" and name in ("power.draw", "power.draw.instant"):
        return "4294967.29"
    return VALUES.get(name, "[N/A]").format(gpu=gpu, bus=6 + gpu, counter=1_000_000 + sample * 500_000)


def help_text() -> str:
    if MODE == "old":
        names = ("timestamp", "index", "name", "utilization.gpu", "memory.used", "power.draw", "clocks_throttle_reasons.active")
        return "".join(f'"{name}"\nText.\n\n' for name in names)
    return (DATA / "help_580" / "raw.txt").read_text()


def main(arguments: list[str]) -> int:
    asked = " ".join(arguments)
    if MODE == "no_driver":
        say("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the NVIDIA driver")
        return 9
    if MODE == "mismatch":
        say("Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.54")
        return 18
    if MODE == "hang":
        time.sleep(60)
    if asked == "-L":
        for gpu in (0, 1):
            say(f"GPU {gpu}: NVIDIA H200 (UUID: {UUID.format(gpu)})")
        return 0
    if asked == "--help-query-gpu":
        if MODE == "no_help":
            return 1
        say(help_text())
        return 0
    if asked == "topo -m":
        say((DATA / "driver_580_topo" / "raw.txt").read_text())
        return 0
    if asked == "nvlink -s":
        say((DATA / "driver_580_nvlink" / "raw.txt").read_text())
        return 0
    if arguments[0].startswith("--query-compute-apps="):
        say("pid, gpu_uuid, used_gpu_memory [MiB], process_name")
        say(f"4711, {UUID.format(0)}, 5110, /usr/bin/python3, -m torch")
        say(f"4712, {UUID.format(1)}, [N/A], python")
        return 0
    fields = arguments[0].removeprefix("--query-gpu=").split(",")
    return query(fields, int(arguments[3]) / 1000 if "-lms" in arguments else None)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except BrokenPipeError:
        os._exit(141)
