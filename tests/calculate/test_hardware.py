"""The table of GPUs and links: names as nvidia-smi prints them, peaks without sparsity, one way."""

from __future__ import annotations

import pytest

from diag_kit.calculate.hardware import DTYPES, GPUS, gpu_named, gpus_fitting, peak_tflops, why_unknown
from diag_kit.calculate.links import NETWORKS, NVLINK, network, nvlink, pcie


@pytest.mark.parametrize(
    ("printed", "card"),
    [
        ("NVIDIA H200", "H200 SXM"),
        ("NVIDIA H200 NVL", "H200 NVL"),
        ("NVIDIA H100 80GB HBM3", "H100 SXM"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA H100 NVL", "H100 NVL"),
        ("NVIDIA A100-SXM4-80GB", "A100 SXM 80GB"),
        ("A100-SXM4-40GB", "A100 SXM 40GB"),
        ("NVIDIA A100 80GB PCIe", "A100 PCIe 80GB"),
        ("NVIDIA A100-PCIE-40GB", "A100 PCIe 40GB"),
        ("  nvidia  a100-pcie-40gb\t", "A100 PCIe 40GB"),
        ("A100 80 GB SXM", "A100 SXM 80GB"),
        ("Tesla V100-SXM2-32GB", "V100 SXM2 32GB"),
        ("Tesla V100-PCIE-16GB", "V100 PCIe 16GB"),
        ("Tesla V100S-PCIE-32GB", "V100S PCIe 32GB"),
        ("Tesla T4", "T4"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA L40", "L40"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA A10", "A10"),
        ("NVIDIA A10G", "A10G"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA GeForce RTX 3090", "RTX 3090"),
        ("NVIDIA RTX A6000", "RTX A6000"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000 Blackwell Server"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "RTX PRO 6000 Blackwell Workstation"),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "RTX PRO 6000 Blackwell Max-Q"),
        ("NVIDIA B200", "B200 SXM"),
    ],
)
def test_printed_names(printed, card):
    found = gpu_named(printed)
    assert found is not None and found.name == card


@pytest.mark.parametrize(
    "name",
    [
        "",
        "NVIDIA",
        "NVIDIA GeForce RTX",
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "GRID A100-10C",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 3090 Ti",
        "NVIDIA H20",
        "NVIDIA H800",
        "NVIDIA A800-SXM4-80GB",
        "NVIDIA A100-SXM-64GB",
        "AMD Instinct MI300X",
        "80GB PCIe",
        "Edition",
        "\x00\xff" * 1000,
    ],
)
def test_no_card_of_the_table(name):
    assert gpus_fitting(name) == () and gpu_named(name) is None and peak_tflops(name, "bf16") is None
    assert why_unknown(name)


@pytest.mark.parametrize(
    ("name", "cards", "bf16"),
    [
        ("A100", 4, 312.0),
        ("NVIDIA A100-SXM4", 2, 312.0),
        ("NVIDIA A100 80GB", 2, 312.0),
        ("NVIDIA H100", 3, None),
        ("H100 80GB", 2, None),
        ("V100", 4, None),
        ("RTX PRO 6000 Blackwell", 3, None),
    ],
)
def test_a_name_that_may_be_several_is_not_decided(name, cards, bf16):
    assert len(gpus_fitting(name)) == cards
    assert gpu_named(name) is None
    assert peak_tflops(name, "bf16") == bf16
    assert why_unknown(name) == "" if bf16 else "may be" in why_unknown(name) or "no public" in why_unknown(name)


def test_peaks_are_dense_and_rise_as_the_hardware_does():
    for gpu in GPUS:
        assert set(gpu.peaks) <= set(DTYPES) and gpu.source and gpu.forms
        assert gpu.peaks["fp32"] < gpu.peaks["fp16"]
        if "bf16" in gpu.peaks:
            assert gpu.peaks["bf16"] == gpu.peaks["fp16"]
            assert gpu.peaks["tf32"] == pytest.approx(gpu.peaks["bf16"] / 2, rel=0.02)
        if "fp8" in gpu.peaks:
            assert gpu.peaks["fp8"] == pytest.approx(2 * gpu.peaks["bf16"], rel=0.02)
    assert len({gpu.name for gpu in GPUS}) == len(GPUS)
    assert peak_tflops("Tesla V100-SXM2-32GB", "bf16") is None
    assert "no public bf16 peak" in why_unknown("Tesla V100-SXM2-32GB")


def test_peak_of_an_sxm_card_by_its_units():
    """SMs x tensor operations of a cycle and SM x boost clock: A100 108 x 2048 x 1.41 GHz, H100 132 x 4096 x 1.83 GHz."""
    assert peak_tflops("NVIDIA A100-SXM4-80GB", "bf16") == pytest.approx(108 * 2048 * 1.41e9 / 1e12, rel=0.01)
    assert peak_tflops("NVIDIA H100 80GB HBM3", "bf16") == pytest.approx(132 * 4096 * 1.83e9 / 1e12, rel=0.01)


@pytest.mark.parametrize(
    ("generation", "lanes", "gb_per_s"),
    [(3, 16, 15.75), (4, 16, 31.5), (4, 8, 15.75), (5, 16, 63.0), (6, 16, 121.0), (1, 1, 0.25), (2, 16, 8.0)],
)
def test_pcie(generation, lanes, gb_per_s):
    link = pcie(generation, lanes)
    assert link.one_way_gb_per_s == pytest.approx(gb_per_s, rel=0.001)
    assert link.usual_gb_per_s[0] < link.usual_gb_per_s[1] < link.one_way_gb_per_s


def test_the_founding_link_is_what_pcie_5_usually_does():
    low, high = pcie(5).usual_gb_per_s
    assert low < 50 < 55.4 < high
    assert pcie(7) is None and pcie(5, 3) is None


def test_nvlink_is_printed_both_ways():
    assert [(link.one_way_gb_per_s, link.both_ways_gb_per_s) for link in NVLINK] == [
        (80, 160), (150, 300), (300, 600), (450, 900), (900, 1800),
    ]  # fmt: skip
    for name, generation in (("NVIDIA A100-SXM4-80GB", 3), ("NVIDIA H200", 4), ("NVIDIA B200", 5), ("Tesla V100-SXM2-16GB", 2)):
        assert gpu_named(name).nvlink_gb_per_s == nvlink(generation).one_way_gb_per_s


@pytest.mark.parametrize(("name", "gbit"), [("InfiniBand HDR", 200), ("ndr", 400), ("Ethernet 100 Gb/s", 100), ("EDR", 100)])
def test_networks(name, gbit):
    assert network(name).one_way_gb_per_s == gbit / 8


def test_a_network_that_is_not_in_the_table():
    assert network("") is None and network("token ring") is None
    assert all(link.source for link in (*NETWORKS, *NVLINK))
