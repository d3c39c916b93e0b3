"""How fast links are, one way, in GB/s (10**9 bytes): PCIe, NVLink, InfiniBand, Ethernet. Each row with its public source. Pure.

Data sheets mix directions: PCIe and networks are printed one way, NVLink both ways summed (A100: 600 GB/s is 300 each way).
A collective's bus bandwidth (nccl-tests) is one way: https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md.

PCIe GB/s one way = GT/s x lanes x coding / 8; coding is 8/10 up to generation 2, 128/130 for 3 to 5, and for 6 (PAM4, flits)
242/256 (PCI-SIG). Gen5 x16: 32 x 16 x 128/130 / 8 = 63.0. Packet headers take about a tenth of that.
"""

from __future__ import annotations

from dataclasses import dataclass

_PCIE_GT = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}
_PCIE_CODING = {1: 0.8, 2: 0.8, 3: 128 / 130, 4: 128 / 130, 5: 128 / 130, 6: 242 / 256}
_PCIE_USUAL = (0.75, 0.9)


@dataclass(frozen=True, slots=True)
class Link:
    """``one_way_gb_per_s``: in theory. ``usual_gb_per_s``: what large copies or collectives reach, None where no source says.
    ``both_ways_gb_per_s``: the sum that data sheets of NVLink print."""

    name: str
    one_way_gb_per_s: float
    usual_gb_per_s: tuple[float, float] | None
    source: str

    @property
    def both_ways_gb_per_s(self) -> float:
        return 2 * self.one_way_gb_per_s


def pcie(generation: int, lanes: int = 16) -> Link | None:
    """A PCIe link; None for a generation or a width that does not exist.

    Usual: 75-90 % of theory for large copies between host and GPU (a measured 55.4 of 63 GB/s on Gen5 x16: Stas Bekman,
    Machine Learning Engineering, https://github.com/stas00/ml-engineering). Copies between two GPUs through the host, and a
    collective that several GPUs drive through one switch or root port, get less: measure.
    """
    if generation not in _PCIE_GT or lanes not in (1, 2, 4, 8, 12, 16, 32):
        return None
    theory = _PCIE_GT[generation] * lanes * _PCIE_CODING[generation] / 8
    low, high = _PCIE_USUAL
    return Link(f"PCIe Gen{generation} x{lanes}", theory, (low * theory, high * theory), "PCI-SIG base specifications")


_NVLINK_SOURCE = "https://www.nvidia.com/en-us/data-center/nvlink/ (printed both ways, halved)"
NVLINK: tuple[Link, ...] = (
    Link("NVLink 1 (P100, 4 links)", 80.0, None, "NVIDIA Pascal P100 white paper: 4 links of 20 GB/s each way"),
    Link("NVLink 2 (V100, 6 links)", 150.0, None, _NVLINK_SOURCE),
    Link("NVLink 3 (A100, 12 links)", 300.0, (228.0, 240.0), _NVLINK_SOURCE),
    Link("NVLink 4 (H100, H200, 18 links)", 450.0, None, _NVLINK_SOURCE),
    Link("NVLink 5 (B200, 18 links)", 900.0, None, _NVLINK_SOURCE),
)
"""All links of one GPU together. ``usual``: bus bandwidth of a large all-reduce over 8 GPUs of one host, NVSwitch (nccl-tests;
A100: the pass limit of Azure's node health checks is 228, https://github.com/Azure/azurehpc-health-checks, that of AWS 240).
With NVLink SHARP the switch adds, and the printed bus bandwidth of an all-reduce may exceed the link's."""

_IB_SOURCE = "InfiniBand Trade Association roadmap, 4 lanes: https://www.infinibandta.org/infiniband-roadmap/"
_ETHERNET = "IEEE 802.3: line rate / 8; headers and TCP take 5-10 %, a socket transport without RDMA often half"
NETWORKS: tuple[Link, ...] = (
    Link("InfiniBand FDR", 6.8, None, _IB_SOURCE),
    Link("InfiniBand EDR", 12.5, None, _IB_SOURCE),
    Link("InfiniBand HDR", 25.0, None, _IB_SOURCE),
    Link("InfiniBand NDR", 50.0, None, _IB_SOURCE),
    Link("InfiniBand XDR", 100.0, None, _IB_SOURCE),
    Link("Ethernet 1 Gb/s", 0.125, None, _ETHERNET),
    Link("Ethernet 10 Gb/s", 1.25, None, _ETHERNET),
    Link("Ethernet 25 Gb/s", 3.125, None, _ETHERNET),
    Link("Ethernet 40 Gb/s", 5.0, None, _ETHERNET),
    Link("Ethernet 100 Gb/s", 12.5, None, _ETHERNET),
    Link("Ethernet 200 Gb/s", 25.0, None, _ETHERNET),
    Link("Ethernet 400 Gb/s", 50.0, None, _ETHERNET),
)
"""One port, one way; a host with several adapters has their sum. Usual: no public source holds for every fabric."""


def network(name: str) -> Link | None:
    """The port of that name ("InfiniBand NDR", "ndr", "Ethernet 100 Gb/s"); None where there is none."""
    asked = " ".join(name.lower().split())
    for link in NETWORKS:
        if asked and asked in (link.name.lower(), link.name.lower().removeprefix("infiniband ")):
            return link
    return None


def nvlink(generation: int) -> Link | None:
    """All NVLinks of a data-center GPU of that generation."""
    return next((link for link in NVLINK if link.name.startswith(f"NVLink {generation} ")), None)
