"""Forms of nvidia-smi that the recorded outputs do not show: cut, repeated, broken, MIG, Windows, links, health."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diag_kit.hosts.kinds import kind_of
from diag_kit.observe.gpu import Gpus
from diag_kit.records import CommandResult, Parsed

BAR = "+-----------------------------------------------------------------------------+\n"
HEAD_375 = (
    BAR
    + "| NVIDIA-SMI 375.66                 Driver Version: 375.66                    |\n"
    + "|-------------------------------+----------------------+----------------------+\n"
    + "| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |\n"
    + "| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |\n"
    + "|===============================+======================+======================|\n"
)
GPU_375 = (
    "|   0  Tesla P100-PCIE...  On   | 0000:3B:00.0     Off |                    0 |\n"
    "| N/A   31C    P0    30W / 250W |      2MiB / 16276MiB |      0%      Default |\n"
    "+-------------------------------+----------------------+----------------------+\n"
)
LOST = (
    "|   1  ERR!                Off  | 00000000:5E:00.0 Off |                 ERR! |\n"
    "|ERR!  ERR!  ERR!    ERR! / ERR!|   6078MiB /  6078MiB |    ERR!      ERR!    |\n"
    "|                               |                      |                 ERR! |\n"
    "+-------------------------------+----------------------+----------------------+\n"
)
NO_PROCESS = (
    BAR
    + "| Processes:                                                       GPU Memory |\n"
    + "|  GPU       PID  Type  Process name                               Usage      |\n"
    + "|=============================================================================|\n"
    + "|  No running processes found                                                 |\n"
    + BAR
)
WINDOWS = """Wed Jan 14 10:00:00 2032
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 566.36                 Driver Version: 566.36         CUDA Version: 12.7     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                  Driver-Model | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA GeForce RTX 4090      WDDM  |   00000000:01:00.0  On |                  Off |
|  0%   38C    P8             18W /  450W |    1432MiB /  24564MiB |      2%      Default |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+

+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI        PID   Type   Process name                              GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|    0   N/A  N/A      1420    C+G   C:\\Windows\\explorer.exe                       N/A      |
|    0   N/A  N/A      9120    C+G   ...4 Files (x86)\\App | x\\msedge.exe            N/A      |
|    0   N/A  N/A      7000      C   ...env\\Scripts\\python.exe                      N/A      |
+-----------------------------------------------------------------------------------------+
"""


def read(text: str, command: str = "cat smi.txt") -> Parsed:
    return Gpus().read((CommandResult("files", command, text.encode(), b"", 0, datetime(2031, 1, 1, tzinfo=UTC), 0.0),))


def rows(parsed: Parsed, table: str = "gpus") -> list[dict[str, Any]]:
    frame = parsed.tables[table].astype(object)
    return [{k: v for k, v in row.items() if v is not None} for row in frame.where(frame.notna(), None).to_dict("records")]


def facts(parsed: Parsed) -> dict[str, Any]:
    return {fact.name: fact.value for fact in parsed.facts}


def test_driver_375_has_no_cuda_and_short_bus_ids() -> None:
    parsed = read(HEAD_375 + GPU_375 + "\n" + NO_PROCESS)
    (row,) = rows(parsed)
    assert (row["name"], row["bus_id"], row["power_w"], row["util_pct"]) == ("Tesla P100-PCIE...", "0000:3B:00.0", 30, 0)
    assert facts(parsed)["driver_version"] == "375.66" and "cuda_version" not in facts(parsed)
    assert parsed.not_understood == () and facts(parsed)["gpu_memory_unexplained_mib"] == 2


def test_a_lost_gpu_keeps_its_row_and_its_reasons() -> None:
    parsed = read(HEAD_375 + GPU_375 + LOST + "\n" + NO_PROCESS)
    first, lost = rows(parsed)
    assert first["gpu"] == 0 and lost["gpu"] == 1 and "util_pct" not in lost and "power_w" not in lost
    assert "util_pct: ERR!" in lost["missing"] and lost["memory_used_mib"] == 6078
    assert facts(parsed)["gpu_count"] == 2 and parsed.not_understood == ()


def test_windows_processes_have_names_with_bars_and_no_memory() -> None:
    parsed = read(WINDOWS.replace("\n", "\r\n"))
    (row,) = rows(parsed)
    assert (row["name"], row["util_pct"], row["memory_used_mib"]) == ("NVIDIA GeForce RTX 4090", 2, 1432)
    processes = rows(parsed, "gpu_processes")
    assert [(p["pid"], p["type"]) for p in processes] == [(1420, "C+G"), (9120, "C+G"), (7000, "C")]
    assert processes[1]["name"] == "...4 Files (x86)\\App | x\\msedge.exe"
    assert "gpu_memory_unexplained_mib" not in facts(parsed)  # nobody knows what they hold
    assert parsed.not_understood == ()


def test_a_terminal_that_cuts_the_table_loses_values_and_invents_none() -> None:
    cut = "\n".join(line[:80] for line in WINDOWS.splitlines())
    parsed = read("Every 2.0s: nvidia-smi                    box: Wed Jan 14 10:00:00 2032\n\n" + cut)
    (row,) = rows(parsed)
    assert (row["power_w"], row["memory_used_mib"], row["memory_total_mib"], row["util_pct"]) == (18, 1432, 24564, 2)
    assert "ecc_uncorrected" not in row
    narrow = "\n".join(line[:66] for line in WINDOWS.splitlines())
    (row,) = rows(read(narrow))
    assert row["memory_total_mib"] == 24564 and "util_pct" not in row and "util_pct: cut off" in row["missing"]
    tight = "\n".join(line[:58] for line in WINDOWS.splitlines())
    (row,) = rows(read(tight))
    assert "memory_used_mib" not in row and "memory_total_mib" not in row


def test_several_tables_are_samples_and_only_the_last_ones_processes_count() -> None:
    second = WINDOWS.replace("10:00:00", "10:00:02").replace("      2%", "     99%").replace("1420", "1421")
    parsed = read(WINDOWS + "\n" + second)
    assert [(row["t"].second, row["util_pct"]) for row in rows(parsed)] == [(0, 2), (2, 99)]
    assert [p["pid"] for p in rows(parsed, "gpu_processes")] == [1421, 9120, 7000]
    assert facts(parsed)["gpu_count"] == 1


def test_hundreds_of_processes() -> None:
    line = "|    0   N/A  N/A   {:7d}      C   python                                       100MiB |\n"
    marker = "|    0   N/A  N/A      1420"
    text = WINDOWS[: WINDOWS.index(marker)] + "".join(line.format(1000 + n) for n in range(700)) + BAR
    parsed = read(text)
    assert len(parsed.tables["gpu_processes"]) == 700
    assert parsed.tables["gpu_memory"]["by_processes_mib"].tolist() == [70000.0]


def test_a_garbled_line_changes_only_its_own_row() -> None:
    lines = WINDOWS.splitlines()
    at = next(n for n, line in enumerate(lines) if "9120" in line)
    lines[at] = "\x00\xff|| 0 N/A garbage"
    parsed = read("\n".join(lines))
    assert [p["pid"] for p in rows(parsed, "gpu_processes")] == [1420, 7000]
    assert [line.where for line in parsed.not_understood] == [f"cat smi.txt line {at + 1}"]


PMON = """# gpu         pid   type     sm    mem    enc    dec    jpg    ofa    command
# Idx           #    C/G      %      %      %      %      %      %    name
    0       4242     C     97     40      -      -      -      -    python -m x
    1       4242     C     95     41      -      -      -      -    python
# gpu         pid   type     fb   ccpm    command
# Idx           #    C/G     MB     MB    name
    0       4242     C   1000      0    python
    1          -     -      -      -    -
"""


def test_pmon_keeps_one_process_on_two_gpus_apart_and_reads_each_header() -> None:
    parsed = read(PMON)
    assert [(p["gpu"], p["pid"]) for p in rows(parsed, "gpu_processes")] == [(0, 4242), (1, 4242)]
    samples = [(s["sample"], s["gpu"], s.get("util_pct"), s.get("memory_used_mib")) for s in rows(parsed, "gpu_process_samples")]
    assert samples == [(0, 0, 97, None), (0, 1, 95, None), (1, 0, None, 1000)]
    assert facts(parsed)["gpu_count"] == 2 and parsed.not_understood == ()
    assert len(parsed.tables["gpus"]) == 0 and [row["gpu"] for row in rows(parsed, "gpu_list")] == [0, 1]  # no sample of a GPU


def test_dmon_with_time_traffic_and_a_row_cut_off() -> None:
    text = (
        "#Date       Time        gpu   pwr gtemp mtemp    sm   mem  rxpci  txpci\n"
        "#YYYYMMDD   HH:MM:SS    Idx     W     C     C     %     %   MB/s   MB/s\n"
        " 20310101   10:00:00      0   300    60     -    99    50    120     30\n"
        " 20310101   10:00:01      0   300    60     -    9\n"
    )
    assert kind_of(text.encode()) == "nvidia_smi_dmon"
    parsed = read(text)
    (row,) = rows(parsed)
    assert (row["util_pct"], row["pcie_rx_mb_per_s"], row["pcie_tx_mb_per_s"]) == (99, 120, 30)
    assert row["t"].isoformat() == "2031-01-01T10:00:00+00:00"
    assert [line.where for line in parsed.not_understood] == ["cat smi.txt line 4"]


@pytest.mark.parametrize(
    ("text", "command", "util", "power"),
    [
        ("power.draw [W], index, utilization.gpu [%]\n250.5 W, 3, 97 %\n", "cat x", 97, 250.5),
        ("index,utilization.gpu [%],power.draw [W]\n3,97,250.5\n", "cat x", 97, 250.5),
        (
            "$ nvidia-smi --query-gpu=index,power.draw,utilization.gpu --format=csv,noheader\n3, 250.50 W, 97 %\n",
            "cat x",
            97,
            250.5,
        ),
        ("3, 97, 250.5\n", "nvidia-smi --query-gpu=index,utilization.gpu,power.draw --format=csv,noheader,nounits", 97, 250.5),
    ],
)
def test_csv_in_any_order_with_and_without_header(text: str, command: str, util: float, power: float) -> None:
    (row,) = rows(read(text, command))
    assert (row["gpu"], row["util_pct"], row["power_w"]) == (3, util, power)


def test_csv_flags_health_and_fields_without_a_column() -> None:
    parsed = read(
        "index, clocks_event_reasons.sw_power_cap, clocks_event_reasons.gpu_idle, clocks_event_reasons.hw_power_brake_slowdown,"
        " ecc.errors.uncorrected.volatile.dram, remapped_rows.pending, vbios_version\n"
        "0, Not Active, Not Active, Active, 3, Yes, 96.00\n1, Active, Not Active, Not Active, [N/A], No, 96.00\n"
    )
    assert [row["reasons"] for row in rows(parsed)] == ["hw_power_brake", "sw_power_cap"]
    assert [(h["gpu"], h.get("dram_uncorrectable_volatile"), h["remap_pending"]) for h in rows(parsed, "gpu_health")] == [
        (0, 3, True),
        (1, None, False),
    ]
    assert facts(parsed)["gpu_ecc_uncorrected"] == 3 and facts(parsed)["gpu_remap_pending"] is True
    assert {"gpu": 0, "field": "vbios_version", "value": "96.00"} in rows(parsed, "gpu_fields")


def test_all_bits_at_once_is_not_known() -> None:
    (row,) = rows(read("index, clocks_event_reasons.active\n0, 0xFFFFFFFFFFFFFFFF\n"))
    assert "reasons" not in row and row["missing"] == "reasons: 0xFFFFFFFFFFFFFFFF"


def test_a_slow_gpu_under_load_is_named_with_its_reason() -> None:
    head = "index, utilization.gpu [%], clocks.current.sm [MHz], clocks.max.sm [MHz], pstate, clocks_event_reasons.active\n"
    parsed = read(head + "0, 100, 1755, 1980, P0, 0x4\n1, 100, 345, 1980, P0, 0x8\n2, 0, 345, 1980, P8, 0x1\n")
    assert facts(parsed)["gpus_on_low_clocks"] == 1
    assert facts(parsed)["gpu_sm_clock_fraction"] == pytest.approx(345 / 1980, abs=1e-4)
    source = next(fact.source for fact in parsed.facts if fact.name == "gpus_on_low_clocks")
    assert source.endswith("GPU 1 at 345 of 1980 MHz (P0, hw_slowdown)")


def test_a_pcie_link_is_judged_under_load_only() -> None:
    head = "index, utilization.gpu [%], pcie.link.gen.current, pcie.link.gen.max, pcie.link.width.current, pcie.link.width.max\n"
    parsed = read(head + "0, 0, 1, 4, 16, 16\n1, 95, 4, 4, 4, 16\n2, 95, 4, 4, 16, 16\n3, [N/A], 1, 4, 16, 16\n")
    assert [row["says"] for row in rows(parsed, "gpu_pcie")] == [
        "generation 1 of 4 while idle: normal power saving, to be judged under load",
        "width 4 of 16 under load: reduced",
        "at its maximum",
        "generation 1 of 4, load not told: may be power saving",
    ]
    assert (facts(parsed)["pcie_reduced_under_load"], facts(parsed)["pcie_low_at_idle"]) == (1, 1)


Q_MIG = """
==============NVSMI LOG==============

Timestamp                                 : Tue Jan  6 10:00:00 2032
Driver Version                            : 535.104.05
CUDA Version                              : 12.2

Attached GPUs                             : 1
GPU 00000000:07:00.0
    Product Name                          : NVIDIA A100-SXM4-40GB
    MIG Mode
        Current                           : Enabled
        Pending                           : Enabled
    MIG Device
        Index                             : 0
        GPU Instance ID                   : 3
        Compute Instance ID               : 0
        Device Attributes
            Shared
                Multiprocessor count      : 28
        FB Memory Usage
            Total                         : 9856 MiB
            Used                          : 9000 MiB
    MIG Device
        Index                             : 1
        GPU Instance ID                   : 5
        Compute Instance ID               : 1
        FB Memory Usage
            Total                         : 4864 MiB
            Used                          : 12 MiB
    Performance State                     : P0
    Clocks Throttle Reasons
        Idle                              : Not Active
        SW Power Cap                      : Active
    FB Memory Usage
        Total                             : 40960 MiB
        Used                              : 9012 MiB
    Utilization
        Gpu                               : N/A
    Processes
        GPU instance ID                   : 3
        Compute instance ID               : 0
        Process ID                        : 4242
            Type                          : C
            Name                          : python
            Used GPU Memory               : 8990 MiB
        GPU instance ID                   : 5
        Compute instance ID               : 1
        Process ID                        : 4300
            Type                          : C
            Name                          : python3
            Used GPU Memory               : N/A
"""


def test_q_with_mig_does_not_take_an_instance_for_the_gpu() -> None:
    parsed = read(Q_MIG)
    (row,) = rows(parsed)
    assert (row["memory_used_mib"], row["memory_total_mib"], row["reasons"]) == (9012, 40960, "sw_power_cap")
    assert "util_pct" not in row and row["mig"] == "Enabled"
    instances = [(i["gi"], i["ci"], i["memory_used_mib"], i.get("sm")) for i in rows(parsed, "gpu_instances")]
    assert instances == [(3, 0, 9000, 28), (5, 1, 12, None)]
    assert [(p["pid"], p["gi"], p["ci"]) for p in rows(parsed, "gpu_processes")] == [(4242, 3, 0), (4300, 5, 1)]


def test_logs_one_after_the_other_are_samples_of_the_same_gpu() -> None:
    parsed = read(Q_MIG + Q_MIG.replace("10:00:00", "10:00:05"))
    assert [(row["gpu"], row["t"].second) for row in rows(parsed)] == [(0, 0), (0, 5)]
    assert len(parsed.tables["gpu_processes"]) == 2


def test_one_section_of_eight_gpus_has_no_known_index() -> None:
    (row,) = rows(
        read(Q_MIG.replace("Attached GPUs                             : 1", "Attached GPUs                             : 8"))
    )
    assert "gpu" not in row and row["bus_id"] == "00000000:07:00.0"


def test_old_cards_tell_single_and_double_bit_errors_and_retired_pages() -> None:
    parsed = read(
        "GPU 0000:05:00.0\n    Ecc Errors\n        Volatile\n            Single Bit\n                Total : 7\n"
        "            Double Bit\n                Total : 2\n    Retired Pages\n        Single Bit ECC : 1\n"
        "        Double Bit ECC : 3\n        Pending : Yes\n"
    )
    (health,) = rows(parsed, "gpu_health")
    assert (health["single_bit_volatile"], health["double_bit_volatile"], health["retired_double_bit_pages"]) == (7, 2, 3)
    assert facts(parsed)["gpu_retire_pending"] is True and facts(parsed)["gpu_ecc_uncorrected"] == 2


NVLINK = """GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-00000000-0000-0000-0000-000000000000)
\t Link 0: 25 GB/s
\t Link 1: <inactive>
\t Link 0: Replay Errors: 0
\t Link 0: Recovery Errors: 0
\t Link 0: CRC Errors: 12
\t Link 1: CRC Errors: N/A
\t Link 0, P2P is supported: true
\t Link 0: Data Tx: 123456 KiB
"""


def test_nvlinks_states_errors_and_traffic() -> None:
    assert kind_of(NVLINK.encode()) == "nvidia_smi_nvlink"
    parsed = read(NVLINK)
    assert [(link["link"], link["state"], link.get("gb_per_s")) for link in rows(parsed, "nvlinks")] == [
        (0, "active", 25.0),
        (1, "inactive", None),
    ]
    known = facts(parsed)
    assert (known["nvlink_gb_per_s"], known["nvlink_inactive_links"], known["nvlink_errors"]) == (25.0, 1, 12)
    assert {"gpu": 0, "link": 0, "field": "Data Tx", "value": "123456", "unit": "KiB"} in rows(parsed, "nvlink_fields")
    assert parsed.not_understood == ()


def test_list_of_gpus_and_of_mig_instances() -> None:
    listed = read(
        "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-aaaa)\n  MIG 3g.20gb     Device  0: (UUID: MIG-bbbb)\n"
        "GPU 1: NVIDIA A100 (UUID: GPU-cc)\n"
    )
    assert facts(listed)["gpu_count"] == 2
    assert rows(listed, "gpu_instances") == [{"gpu": 0, "dev": 0, "profile": "3g.20gb", "uuid": "MIG-bbbb"}]
    mig = (
        "+-------------------------------------------------------+\n| GPU instances:                                        |\n"
        "| GPU   Name             Profile  Instance   Placement  |\n|                          ID       ID       Start:Size |\n"
        "|=======================================================|\n|   0  MIG 1g.5gb          19       13          6:1     |\n"
        "+-------------------------------------------------------+\n|   0  MIG 1g.10gb+me      20        9          0:2     |\n"
    )
    assert kind_of(mig.encode()) == "nvidia_smi_mig"
    found = [(i["gi"], i["profile"], i["profile_id"], i["placement"]) for i in rows(read(mig), "gpu_instances")]
    assert found == [(13, "1g.5gb", 19, "6:1"), (9, "1g.10gb+me", 20, "0:2")]


def test_topology_with_cells_run_together_and_names_in_the_legend() -> None:
    text = (
        "\t\x1b[4mGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
        "GPU0\t X \tNV18\tPIX\tSYS\t0-47,96-143\t0\t\tN/A\n"
        "GPU1    NV18    X       SYSPIX  48-95   1\n"
        "NIC0\tPIX\tSYS\t X \tSYS\nNIC1\tSYS\tPIX\tSYS\t X \n\nLegend:\n\n  X    = Self\n\n"
        "NIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_3\n"
    )
    parsed = read(text)
    assert rows(parsed, "gpu_links") == [{"gpu_a": 0, "gpu_b": 1, "link": "NV18"}]
    assert [(n["gpu"], n["nic"], n["link"]) for n in rows(parsed, "gpu_nics")] == [
        (0, "mlx5_0", "PIX"),
        (0, "mlx5_3", "SYS"),
        (1, "mlx5_0", "SYS"),
        (1, "mlx5_3", "PIX"),
    ]
    assert [(a["gpu"], a["cpu_affinity"], a["numa_node"]) for a in rows(parsed, "gpu_affinity")] == [
        (0, "0-47,96-143", "0"),
        (1, "48-95", "1"),
    ]
    assert parsed.not_understood == ()


def test_p2p_matrix() -> None:
    parsed = read(" \tGPU0\tGPU1\t\n GPU0\tX\tCNS\t\n GPU1\tCNS\tX\t\n\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n")
    assert rows(parsed, "gpu_p2p") == [{"gpu_a": 0, "gpu_b": 1, "link": "CNS"}]
    assert facts(parsed)["p2p_pairs_not_ok"] == 1 and "gpu_links" not in parsed.tables


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", "cannot reach the NVIDIA driver"),
        ("Failed to initialize NVML: Driver/library version mismatch\n", "driver was updated without a reboot"),
        ("No devices were found\n", "finds no GPU"),
        ("Unable to determine the device handle for GPU 0000:0A:00.0: GPU is lost.\n", "has lost a GPU"),
    ],
)
def test_a_pasted_refusal_is_explained(text: str, said: str) -> None:
    assert kind_of(text.encode()) == "nvidia_smi_failed"
    parsed = read(text)
    assert said in parsed.problems[0] and parsed.facts == ()


@settings(max_examples=80, deadline=None)
@given(st.integers(0, len(WINDOWS)), st.integers(0, 200), st.text(max_size=20))
def test_damage_never_raises_and_never_makes_an_impossible_value(at: int, width: int, junk: str) -> None:
    parsed = read(WINDOWS[:at] + junk + WINDOWS[at + width :])
    util = parsed.tables["gpus"]["util_pct"].dropna()
    assert util.between(0, 100).all()


@pytest.mark.parametrize("unit", ["|", "| 0 ", "GPU0\t", "a, ", "Link 0: ", " X", "\x1b[4m", "| 1 N/A N/A 1 C x "])
def test_a_line_without_end_is_read_in_linear_time(unit: str) -> None:
    text = "| NVIDIA-SMI 1.1 Driver Version: 1.1 |\n| Processes: |\n" + unit * (400_000 // len(unit)) + "\n"
    began = time.monotonic()
    assert read(text).summary and read(text[text.index(unit) :]).summary
    assert kind_of(text.encode())
    assert time.monotonic() - began < 20
