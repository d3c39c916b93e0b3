"""The columns of the tables that this folder gives, with their units: one place, so that live and pasted forms agree."""

from __future__ import annotations

from diag_kit.observe.disk_reports import CPU_COLUMNS

_F, _I, _S, _B = "float64", "Int64", "string", "boolean"

CPU = CPU_COLUMNS
"""Of all CPUs together; one row an interval."""
CPU_PER_CORE = {
    "t": "time", "cpu": _I, "user_pct": _F, "system_pct": _F, "iowait_pct": _F, "idle_pct": _F, "steal_pct": _F, "nice_pct": _F,
    "interrupt_pct": _F, "guest_pct": _F,
}  # fmt: skip
"""Of each CPU; interrupt is hard and soft interrupts together, guest is part of user in /proc and apart in mpstat."""
MEMORY = ("total_bytes", "available_bytes", "cached_bytes", "dirty_bytes", "swap_used_bytes", "free_bytes", "shared_bytes")
"""The columns of ``memory`` in memory.py."""
LOAD = {"t": "time", "load_1min": _F, "load_5min": _F, "load_15min": _F, "running": _I, "threads": _I, "blocked": _I}
PRESSURE = {
    "t": "time",
    "resource": _S,
    "kind": _S,
    "avg10_pct": _F,
    "avg60_pct": _F,
    "avg300_pct": _F,
    "total_us": _I,
    "window_pct": _F,
}
"""Kernel Documentation/accounting/psi.rst; window_pct is the share of the observed window, from two totals."""
NUMA = {"node": _I, "cpus": _S, "cpu_count": _I, "memory_bytes": _I, "free_bytes": _I}
AFFINITY = {"rank": _I, "pid": _I, "cpus": _S, "cpu_count": _I, "numa_nodes": _S}
VMSTAT = {
    "t": "time", "running": _I, "blocked": _I, "swapped_bytes": _I, "free_bytes": _I, "buffers_bytes": _I, "cache_bytes": _I,
    "swap_in_mb_per_s": _F, "swap_out_mb_per_s": _F, "read_mb_per_s": _F, "write_mb_per_s": _F, "interrupts_per_s": _F,
    "context_switches_per_s": _F,
}  # fmt: skip
ACTIVITY = {
    "t": "time", "rank": _I, "pid": _I, "tid": _I, "parent_pid": _I, "role": _S, "command": _S, "user_pct": _F, "system_pct": _F,
    "cpu_pct": _F, "wait_pct": _F, "cpu": _I, "read_mb_per_s": _F, "write_mb_per_s": _F, "read_call_mb_per_s": _F,
    "io_delay_ticks": _I, "minor_faults_per_s": _F, "major_faults_per_s": _F, "rss_bytes": _I, "virtual_bytes": _I,
    "voluntary_switches_per_s": _F, "involuntary_switches_per_s": _F, "threads": _I, "open_files": _I,
}  # fmt: skip
"""One process or thread over one window: 100 % is one core; wait_pct is time ready to run without a CPU."""
NETWORK = {
    "t": "time", "interface": _S, "received_mb_per_s": _F, "sent_mb_per_s": _F, "received_packets_per_s": _F,
    "sent_packets_per_s": _F,
    "errors_per_s": _F, "drops_per_s": _F, "link_mbit_per_s": _F, "used_pct": _F,
}  # fmt: skip
INTERFACES = {
    "interface": _S, "received_bytes": _I, "sent_bytes": _I, "received_packets": _I, "sent_packets": _I,
    "errors": _I, "drops": _I,
}  # fmt: skip
"""Totals since the interface came up."""
SOCKETS = {
    "state": _S, "protocol": _S, "local": _S, "peer": _S, "receive_queue_bytes": _I, "send_queue_bytes": _I, "rtt_ms": _F,
    "congestion_window": _I, "retransmits": _I, "send_mbit_per_s": _F, "bytes_sent": _I, "bytes_received": _I,
}  # fmt: skip
COUNTERS = {"source": _S, "name": _S, "value": _I, "per_s": _F}
"""Kernel counters by name: totals since boot, and their growth where two readings were taken."""
SPACE = {
    "source": _S, "fstype": _S, "path": _S, "size_bytes": _I, "used_bytes": _I, "available_bytes": _I,
    "used_pct": _F, "inodes": _I,
    "inodes_used": _I, "inodes_used_pct": _F,
}  # fmt: skip
BLOCK_DEVICES = {
    "device": _S, "parent": _S, "type": _S, "size_bytes": _I, "rotational": _B, "model": _S, "path": _S, "fstype": _S,
}  # fmt: skip
MOUNTS = {"path": "str", "source": "str", "fstype": "str", "kind": "str", "options": "str"}
LIMITS = {"pid": _I, "name": _S, "soft": _I, "hard": _I, "unit": _S, "unlimited": _B}
PROCESS_DETAILS = {"pid": _I, "name": _S, "value": _S}
OPEN_FILES = {"pid": _I, "fd": _I, "target": _S}
ENVIRONMENT = {"rank": _I, "name": _S, "value": _S}
