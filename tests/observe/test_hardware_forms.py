"""NCCL's output, bandwidth tests, PCIe links and network ports: values right, unknown is missing, nothing invented."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diag_kit.errors import NothingToObserve
from diag_kit.evidence import Evidence
from diag_kit.hosts.files import files
from diag_kit.hosts.kinds import kind_of
from diag_kit.hosts.local import local
from diag_kit.observe.bandwidth_tests import BandwidthTests
from diag_kit.observe.documents import observe_documents
from diag_kit.observe.gpu_state import GpuState
from diag_kit.observe.nccl import NcclLog
from diag_kit.observe.nics import Nics
from diag_kit.observe.pcie import PcieLinks
from diag_kit.records import CommandResult, Fact, Parsed

NCCL = """node7:100:200 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.7<0>
node7:100:200 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0
node7:100:200 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.7<0>
node7:100:200 [0] NCCL INFO Using network IB
NCCL version 2.27.3+cuda12.9
node7:100:200 [0] NCCL INFO ncclCommInitRank comm 0x55 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 1b000 commId 0xab - Init START
node7:101:201 [1] NCCL INFO ncclCommInitRank comm 0x66 rank 1 nranks 16 cudaDev 1 nvmlDev 1 busId 43000 commId 0xab - Init START
node7:100:200 [0] NCCL INFO comm 0x55 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0
node7:100:200 [0] NCCL INFO Channel 00/16 :    0   1   2   3
node7:100:200 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read
node7:100:200 [0] NCCL INFO Channel 01/0 : 15[7] -> 0[0] [receive] via NET/IB/0/GDRDMA
node7:100:200 [0] NCCL INFO Ring 02 : 0 -> 8 [send] via NET/Socket/0
node7:101:201 [1] NCCL INFO Channel 00 : 1[43000] -> 2[4a000] via SHM/direct/direct
node7:100:200 [0] NCCL INFO 16 coll channels, 16 collnet channels, 0 nvls channels, 32 p2p channels, 4 p2p channels per peer
[2031-01-01 10:00:00] node7:100:200 [0] transport/net_ib.cc:1234 NCCL WARN NET/IB : Got completion from peer with status=12
node7:100:200 [0] NCCL INFO ncclCommInitRank comm 0x55 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 1b000 commId 0xa - Init COMPLETE
"""
TESTS = """# nccl-tests version 2.17.6
# Collective test starting: all_gather_perf
#  Rank  0 Group  0 Pid  14840 on node7 device  0 [0000:1b:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid  14841 on node7 device  1 [0000:43:00] NVIDIA H100 80GB HBM3
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong #iters
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
     1048576        131072     float    none      -1    41.50   25.27   12.63       0    40.10   26.15   13.07       0      20
     2097152        262144     float    none      -1    60.00   34.95   17.48     N/A    59.00   35.55   17.77     N/A      20
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 15.2375
"""
LSPCI = """0000:17:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)
\tNUMA node: 1
\tCapabilities: [60] Express (v2) Endpoint, MSI 00
\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM not supported
\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x8 (downgraded)
\tKernel driver in use: nvidia
0000:18:00.0 Infiniband controller [0207]: Mellanox Technologies MT2910 Family [ConnectX-7] [15b3:1021]
\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM not supported
\t\tLnkSta:\tSpeed 32GT/s (ok), Width x16 (ok)
0000:00:01.0 PCI bridge [0604]: Intel Corporation Device 352a
\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-
"""
IBSTAT = """CA 'mlx5_0'
\tCA type: MT4129
\tFirmware version: 28.39.1002
\tPort 1:
\t\tState: Active
\t\tPhysical state: LinkUp
\t\tRate: 400
\t\tLink layer: InfiniBand
CA 'mlx5_1'
\tPort 1:
\t\tState: Down
\t\tPhysical state: Polling
\t\tRate: 10
\t\tLink layer: InfiniBand
"""
PROBES: dict[str, tuple[type[Any], str]] = {
    "nccl": (NcclLog, NCCL),
    "nccl_tests": (BandwidthTests, TESTS),
    "lspci": (PcieLinks, LSPCI),
    "ibstat": (Nics, IBSTAT),
}


def read(kind: str, text: str | bytes | None = None) -> Parsed:
    cls, whole = PROBES[kind]
    raw = whole if text is None else text
    data = raw.encode() if isinstance(raw, str) else raw
    parsed = cls().read((CommandResult("files", "cat x.txt", data, b"", 0, datetime(2031, 1, 1, tzinfo=UTC), 0.0),))
    assert isinstance(parsed, Parsed)
    return parsed


def facts(parsed: Parsed) -> dict[str, Any]:
    return {fact.name: fact.value for fact in parsed.facts}


def columns(parsed: Parsed, table: str, *names: str) -> list[tuple[Any, ...]]:
    frame = parsed.tables[table].astype(object)
    frame = frame.where(frame.notna(), None)
    return [tuple(row[name] for name in names) for row in frame.to_dict("records")]


@pytest.mark.parametrize("kind", sorted(PROBES))
def test_each_text_is_told_by_its_content_and_wholly_understood(kind: str) -> None:
    assert kind_of(PROBES[kind][1].encode()) == kind
    assert kind_of(PROBES[kind][1].replace("\n", "\r\n").encode()) == kind
    parsed = read(kind)
    assert parsed.not_understood == () and parsed.problems == ()
    assert facts(read(kind, PROBES[kind][1].replace("\n", "\r\n"))) == facts(parsed)


def test_nccl_ranks_transports_and_warnings() -> None:
    parsed = read("nccl")
    assert columns(parsed, "nccl_channels", "line", "rank_a", "rank_b", "direction", "transport", "path") == [
        (10, 0, 1, None, "P2P", "P2P/CUMEM/read"),
        (11, 15, 0, "receive", "NET/IB", "NET/IB/0/GDRDMA"),
        (12, 0, 8, "send", "NET/Socket", "NET/Socket/0"),
        (13, 1, 2, None, "SHM", "SHM/direct/direct"),
    ]
    warning = (15, "node7", "transport/net_ib.cc:1234", "NET/IB : Got completion from peer with status=12")
    assert columns(parsed, "nccl_warnings", "line", "host", "place", "text") == [warning]
    known = facts(parsed)
    assert (known["nccl_version"], known["nccl_nranks"], known["nccl_nnodes"]) == ("2.27.3+cuda12.9", 16, 2)
    assert (known["nccl_network"], known["nccl_interfaces"]) == ("IB", "mlx5_0, mlx5_1")
    assert (known["nccl_bootstrap_interface"], known["nccl_gdrdma"], known["nccl_p2p_in_use"]) == ("eth0", False, True)
    assert (known["nccl_coll_channels"], known["nccl_ranks_not_ready"], known["nccl_warnings"]) == (16, 1, 1)
    assert columns(parsed, "nccl_settings", "name", "value") == [("NCCL_SOCKET_IFNAME", "eth0")]


def test_nccl_lines_in_a_training_log_are_read_beside_it(tmp_path: Path) -> None:
    steps = "".join(f"step {n} loss {5 - n / 100:.3f} lr 1e-4\n" for n in range(40))
    (tmp_path / "train.log").write_text(NCCL + steps)
    seen = {each.probe: each for each in observe_documents(files(tmp_path).documents)}
    assert set(seen) == {"nccl_log", "log_metrics"}
    assert facts(seen["nccl_log"].parsed)["nccl_nranks"] == 16 and seen["nccl_log"].parsed.not_understood == ()
    (tmp_path / "train.log").write_text(steps)
    assert [each.probe for each in observe_documents(files(tmp_path).documents)] == ["log_metrics"]


def test_nccl_tests_rows_and_what_they_mean() -> None:
    parsed = read("nccl_tests")
    assert columns(parsed, "nccl_tests", "line", "size_bytes", "in_place", "time_us", "busbw_gb_per_s", "wrong") == [
        (8, 1048576, False, 41.5, 12.63, 0),
        (8, 1048576, True, 40.1, 13.07, 0),
        (9, 2097152, False, 60.0, 17.48, None),
        (9, 2097152, True, 59.0, 17.77, None),
    ]
    known = facts(parsed)
    assert known["nccl_test"] == "all_gather_perf" and known["nccl_test_ranks"] == 2 and known["nccl_test_wrong"] == 0
    assert (known["nccl_test_busbw_gb_per_s"], known["nccl_test_avg_busbw_gb_per_s"]) == (17.48, 15.2375)


def test_old_nccl_tests_lack_redop_and_root_and_a_cut_row_is_listed() -> None:
    text = (
        "#       size         count    type     time   algbw   busbw  error     time   algbw   busbw  error\n"
        "       65536          8192   float    16.57    1.98    1.98  0e+00    13.83    2.37    2.37  0e+00\n"
        "      131072         16384   float    23.07    2.84\n"
    )
    parsed = read("nccl_tests", text)
    assert columns(parsed, "nccl_tests", "dtype", "redop", "time_us", "wrong") == [
        ("float", None, 16.57, 0),
        ("float", None, 13.83, 0),
    ]
    assert [line.where for line in parsed.not_understood] == ["cat x.txt line 3"]


def test_pair_bandwidths_name_the_gpu_that_is_slow_with_all_others() -> None:
    text = (
        "Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n   D\\D     0      1      2 \n"
        "     0 900.00   5.00   5.00 \n     1   5.00 900.00   5.00 \n     2   5.00   5.00 900.00 \n"
        "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)\n   D\\D     0      1      2 \n"
        "     0 900.00  20.00  10.00 \n     1  22.00 900.00  11.00 \n     2   9.00  10.00 900.00 \n"
        "P2P=Enabled Latency (P2P Writes) Matrix (us)\n   GPU     0      1      2 \n     0   1.50   2.50   2.60 \n"
    )
    assert kind_of(text.encode()) == "p2p_bandwidth"
    known = facts(read("nccl_tests", text))
    assert (known["p2p_min_gb_per_s"], known["p2p_max_gb_per_s"], known["p2p_slowest_gpu"]) == (9.0, 22.0, 2)
    assert known["p2p_slowdown"] == 2.1
    assert columns(read("nccl_tests", text), "gpu_pair_bandwidth", "measure", "value", "unit")[-1] == ("latency", 2.6, "us")


def test_a_bandwidth_test_is_never_run_by_the_kit() -> None:
    with pytest.raises(NothingToObserve):
        BandwidthTests().collect(local("trainbox"), Evidence())


def test_pcie_links_width_is_named_and_low_speed_is_left_open() -> None:
    parsed = read("lspci")
    assert columns(parsed, "pcie_devices", "address", "is_gpu", "speed_gt_per_s", "width", "width_max", "numa_node") == [
        ("0000:17:00.0", True, 2.5, 8, 16, 1),
        ("0000:18:00.0", False, 32.0, 16, 16, None),
        ("0000:00:01.0", False, None, None, None, None),
    ]
    known = facts(parsed)
    assert (known["pcie_gpus"], known["pcie_gpus_width_reduced"], known["pcie_acs_redirect"]) == (1, 1, False)
    idle = read("lspci", LSPCI.replace("Width x8 (downgraded)", "Width x16 (ok)"))
    assert columns(idle, "pcie_devices", "says")[0] == ("speed 2.5 of 32: normal while idle, to be judged under load",)


def test_acs_that_may_not_be_seen_is_not_known() -> None:
    parsed = read("lspci", "17:00.0 3D controller: NVIDIA Corporation GH100 (rev a1)\n\tCapabilities: <access denied>\n")
    assert "pcie_acs_redirect" not in facts(parsed) and "sudo lspci -vv" in parsed.problems[0]


def test_sysfs_sentinels_of_devices_without_a_link_are_missing() -> None:
    text = (
        "==diag_kit:sysfs==\n"
        "address=0000:17:00.0|class=0x030200|numa=-1|speed=2.5 GT/s PCIe|speed_max=32.0 GT/s PCIe|width=16|width_max=16"
        "|aer_fatal=0|aer_nonfatal=3|driver=nvidia|parent=0000:16:00.0\n"
        "address=0000:00:03.0|class=0x020000|speed=Unknown|speed_max=Unknown|width=0|width_max=255\n"
    )
    parsed = read("lspci", text)
    assert columns(parsed, "pcie_devices", "numa_node", "speed_max_gt_per_s", "width_max", "aer_uncorrected") == [
        (None, 32.0, 16, 3),
        (None, None, None, None),
    ]
    assert facts(parsed)["pcie_aer_uncorrected"] == 3


def test_ports_states_and_rates() -> None:
    parsed = read("ibstat")
    assert columns(parsed, "network_ports", "device", "port", "state", "rate_gbit_per_s", "firmware") == [
        ("mlx5_0", 1, "active", 400.0, "28.39.1002"),
        ("mlx5_1", 1, "down", 10.0, None),
    ]
    known = facts(parsed)
    assert (known["infiniband_ports_active"], known["infiniband_rate_gbit_per_s"], known["network_ports_down"]) == (1, 400.0, 1)


def test_ethtool_speed_is_in_mbit_and_unknown_is_missing() -> None:
    text = (
        "Settings for eth0:\n\tSpeed: 25000Mb/s\n\tLink detected: yes\nNIC statistics:\n     rx_bytes: 5\n     rx_crc_errors: 3\n"
    )
    assert kind_of(text.encode()) == "ethtool"
    assert facts(read("ibstat", text)) == {
        "network_ports_up": 1,
        "network_ports_down": 0,
        "network_rate_gbit_per_s": 25.0,
        "network_fault_counters": 1,
    }
    unknown = read("ibstat", "Settings for eth0:\n\tSpeed: Unknown!\n\tLink detected: no\n")
    assert columns(unknown, "network_ports", "state", "rate_gbit_per_s") == [("down", None)]


def test_rates_and_faults_of_the_window() -> None:
    before = "net eth0 operstate up\nnet eth0 speed 1000\nnet eth0 counter:rx_bytes 1000000\nnet eth0 counter:rx_errors 5\n"
    after = before.replace("1000000", "7000000").replace("rx_errors 5", "rx_errors 8")
    port = "ib mlx5_0/1 state 4: ACTIVE\nib mlx5_0/1 rate 200 Gb/sec (4X HDR)\nib mlx5_0/1 counter:port_xmit_data {}\n"
    text = f"==diag_kit:first==\n{before}{port.format(0)}==diag_kit:last==\n{after}{port.format(3_000_000)}"
    parsed = read("ibstat", text)
    rates = columns(parsed, "network_rates", "device", "port", "receive_mb_per_s", "send_mb_per_s", "faults_grown")
    assert rates == [("eth0", None, 2.0, None, 3), ("mlx5_0", 1, None, 4.0, 0)]
    assert facts(parsed)["network_faults_grown"] == 3 and facts(parsed)["infiniband_rate_gbit_per_s"] == 200.0


@pytest.mark.parametrize("probe", [PcieLinks(), Nics(seconds=1), GpuState()])
def test_probes_of_this_machine_say_something(probe: Any) -> None:
    results = probe.collect(local("trainbox"), Evidence())
    assert results[0].exit_status == 0 and probe.read(results).summary


def test_the_live_log_is_asked_for_nccls_lines_only(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("step 1 loss 2.0\n" + NCCL + "step 2 loss 1.9\n")
    known = Evidence()
    with pytest.raises(NothingToObserve):
        NcclLog().collect(local("trainbox"), known)
    asked = NcclLog(path=str(log))
    results = asked.collect(local("trainbox"), known)
    parsed = asked.read(results)
    assert b"loss" not in results[0].stdout and facts(parsed)["nccl_nranks"] == 16
    assert all(isinstance(fact, Fact) for fact in parsed.facts) and parsed.not_understood == ()


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(PROBES)), st.data())
def test_damage_never_raises(kind: str, data: st.DataObject) -> None:
    raw = PROBES[kind][1].encode()
    at = data.draw(st.integers(0, len(raw)))
    assert read(kind, raw[:at] + data.draw(st.binary(max_size=40)) + raw[at + data.draw(st.integers(0, 300)) :]).summary
    assert read(kind, data.draw(st.binary(max_size=200))).summary


@pytest.mark.parametrize(
    ("lines", "network"),
    [
        (["NET/IB : No device found.", "NET/Socket : Using [0]eth3:10.9.8.7<0>"], "Socket"),
        (["NET/IB : Using [0]mlx5_4:1/IB ; OOB eth3:10.9.8.7<0>"], "IB"),
        (["NET/Socket : Using [0]eth3:10.9.8.7<0>", "Using network AWS Libfabric"], "AWS Libfabric"),
        (["NET/IB : No device found."], None),
    ],
)
def test_the_network_of_nccl_before_it_named_it(lines: list[str], network: str | None) -> None:
    text = "".join(f"[1,{pid}]<stdout>:n4:{pid}:99 [0] NCCL INFO {line}\n" for pid in (70, 71, 72) for line in lines)
    result = CommandResult("files", "cat a.txt", text.encode(), b"", 0, datetime(2024, 1, 1, tzinfo=UTC), 0.0)
    known = facts(NcclLog().read((result,)))
    assert known.get("nccl_network") == network and known["nccl_processes"] == 3
