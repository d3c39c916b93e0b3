"""What GPUs can do at best, by the name that nvidia-smi prints: a table with the public source of every row. Pure.

Peaks are the vendor's: TFLOP/s without sparsity, at boost clock, tensor cores for tf32, bf16, fp16 and fp8, accumulating in fp32
(GeForce cards reach twice the fp16 rate with fp16 accumulation, which training does not use). Data sheets print the rate with
2:4 sparsity first; it is halved here. Nothing runs at its peak: matrix products reach 70-90 % of it, whole steps far less.
GB and GB/s are 10**9 bytes; NVLink is one way, all links of one GPU together: data sheets print both directions summed.

A name that could be two cards (an "A100" of 40 or 80 GB, an "H100" in SXM or PCIe form) is not decided: ``gpu_named`` gives None,
``gpus_fitting`` all that it could be, and ``peak_tflops`` a number only where all of them agree. A slice (MIG), a virtual GPU, a
laptop or an export variant is no card of this table: their names carry words that no row has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

DTYPES = ("fp32", "tf32", "bf16", "fp16", "fp8")
_NOISE = {"nvidia", "tesla", "geforce", "gpu", "graphics", "card", "r", "tm"}
_WORD = re.compile(r"[a-z0-9]+")
_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class Gpu:
    """One card. ``forms``: its names, in any order of words; a dtype that ``peaks`` lacks is one that its tensor cores do not
    have, or that no public source states. ``nvlink_gb_per_s``: one way, 0 for none; ``nvlink_note``: where it is optional."""

    name: str
    forms: tuple[str, ...]
    peaks: Mapping[str, float]
    memory_gb: float
    memory_gb_per_s: float
    power_w: float | None
    nvlink_gb_per_s: float
    source: str
    nvlink_note: str = ""


_BRIDGE = "only between cards that a bridge joins; PCIe otherwise"
_NVIDIA = "https://www.nvidia.com/content/dam/en-zz/Solutions/"
_A100 = f"{_NVIDIA}Data-Center/a100/pdf/nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf"
_A100_40 = "NVIDIA A100 Tensor Core GPU architecture white paper, table 'Comparison of NVIDIA data center GPUs' (2020)"
_HOPPER = "https://resources.nvidia.com/en-us-tensor-core/nvidia-tensor-core-gpu-datasheet (H100; with sparsity, halved)"
_H200 = "https://nvdam.widen.net/s/nb5zzzsjdf/hpc-datasheet-sc23-h200-datasheet-3002446 (H200; with sparsity, halved)"
_V100 = "https://images.nvidia.com/content/technologies/volta/pdf/volta-v100-datasheet-update-us-1165301-r5.pdf"
_GA102 = "NVIDIA Ampere GA102 GPU architecture white paper v2, appendix A (fp32 accumulation)"
_AD102 = "NVIDIA Ada GPU architecture white paper, appendix A (fp32 accumulation)"
_GB202 = "NVIDIA RTX Blackwell GPU architecture white paper, appendix A (fp32 accumulation)"
_PRO = "NVIDIA data sheet of the edition: FP32 rate and FP4 AI TOPS with sparsity; bf16 is 1/8 of that, fp8 1/4, tf32 1/16"

_P_A100 = {"fp32": 19.5, "tf32": 156.0, "bf16": 312.0, "fp16": 312.0}
_P_H_SXM = {"fp32": 67.0, "tf32": 494.5, "bf16": 989.5, "fp16": 989.5, "fp8": 1979.0}
_P_H_NVL = {"fp32": 60.0, "tf32": 417.5, "bf16": 835.5, "fp16": 835.5, "fp8": 1670.5}
_P_H_PCIE = {"fp32": 51.0, "tf32": 378.0, "bf16": 756.5, "fp16": 756.5, "fp8": 1513.0}
_P_B200 = {"fp32": 75.0, "tf32": 1125.0, "bf16": 2250.0, "fp16": 2250.0, "fp8": 4500.0}
_P_L40S = {"fp32": 91.6, "tf32": 183.0, "bf16": 362.05, "fp16": 362.05, "fp8": 733.0}
_P_L40 = {"fp32": 90.5, "tf32": 90.5, "bf16": 181.05, "fp16": 181.05, "fp8": 362.0}
_P_ADA = {"fp32": 91.1, "tf32": 182.1, "bf16": 364.2, "fp16": 364.2, "fp8": 728.5}
_P_A40 = {"fp32": 37.4, "tf32": 74.8, "bf16": 149.7, "fp16": 149.7}
_P_5090 = {"fp32": 104.8, "tf32": 104.8, "bf16": 209.5, "fp16": 209.5, "fp8": 419.0}

# fmt: off
GPUS: tuple[Gpu, ...] = (
    Gpu("B200 SXM", ("B200", "B200 SXM", "B200 SXM6", "B200 180GB", "B200 180GB HBM3e"), _P_B200, 180, 8000, 1000, 900,
        "https://resources.nvidia.com/en-us-dgx-systems/dgx-b200-datasheet (8 GPUs, with sparsity: divided by 16)"),
    Gpu("H200 SXM", ("H200", "H200 SXM", "H200 SXM5", "H200 141GB HBM3e", "H200 SXM 141GB"), _P_H_SXM, 141, 4800, 700, 450,
        _H200),
    Gpu("H200 NVL", ("H200 NVL", "H200 NVL 141GB"), _P_H_NVL, 141, 4800, 600, 450, _H200, _BRIDGE),
    Gpu("H100 SXM", ("H100 80GB HBM3", "H100 SXM", "H100 SXM5", "H100 SXM5 80GB", "H100 SXM 80GB"), _P_H_SXM, 80, 3350, 700, 450,
        _HOPPER),
    Gpu("H100 PCIe", ("H100 PCIe", "H100 PCIe 80GB"), _P_H_PCIE, 80, 2000, 350, 300,
        "NVIDIA H100 PCIe product brief PB-11133-001 and H100 data sheet of 2022 (with sparsity, halved)", _BRIDGE),
    Gpu("H100 NVL", ("H100 NVL", "H100 NVL 94GB"), _P_H_NVL, 94, 3900, 400, 300, _HOPPER, _BRIDGE),
    Gpu("A100 SXM 80GB", ("A100 SXM4 80GB", "A100 SXM 80GB"), _P_A100, 80, 2039, 400, 300, _A100),
    Gpu("A100 SXM 40GB", ("A100 SXM4 40GB", "A100 SXM 40GB"), _P_A100, 40, 1555, 400, 300, _A100_40),
    Gpu("A100 PCIe 80GB", ("A100 80GB PCIe",), _P_A100, 80, 1935, 300, 300, _A100, _BRIDGE),
    Gpu("A100 PCIe 40GB", ("A100 PCIe 40GB",), _P_A100, 40, 1555, 250, 300, _A100_40, _BRIDGE),
    Gpu("A30", ("A30", "A30 24GB"), {"fp32": 10.3, "tf32": 82.0, "bf16": 165.0, "fp16": 165.0}, 24, 933, 165, 100,
        f"{_NVIDIA}data-center/products/a30-gpu/pdf/a30-datasheet.pdf", _BRIDGE),
    Gpu("A40", ("A40", "A40 48GB"), _P_A40, 48, 696, 300, 56.25,
        "https://images.nvidia.com/content/Solutions/data-center/a40/nvidia-a40-datasheet.pdf", _BRIDGE),
    Gpu("A10", ("A10", "A10 24GB"), {"fp32": 31.2, "tf32": 62.5, "bf16": 125.0, "fp16": 125.0}, 24, 600, 150, 0,
        f"{_NVIDIA}Data-Center/a10/pdf/a10-datasheet.pdf"),
    Gpu("A10G", ("A10G", "A10G 24GB"), {"fp32": 35.0, "tf32": 35.0, "bf16": 70.0, "fp16": 70.0}, 24, 600, 300, 0,
        "https://d1.awsstatic.com/product-marketing/ec2/NVIDIA_AWS_A10G_DataSheet_FINAL_02_17_2022.pdf"),
    Gpu("L40S", ("L40S", "L40S 48GB"), _P_L40S, 48, 864, 350, 0, "https://resources.nvidia.com/en-us-l40s/l40s-datasheet-28413"),
    Gpu("L40", ("L40", "L40 48GB"), _P_L40, 48, 864, 300, 0,
        "https://images.nvidia.com/content/Solutions/data-center/vgpu-L40-datasheet.pdf"),
    Gpu("L4", ("L4", "L4 24GB"), {"fp32": 30.3, "tf32": 60.0, "bf16": 121.0, "fp16": 121.0, "fp8": 242.5}, 24, 300, 72, 0,
        "https://resources.nvidia.com/en-us-data-center-overview/l4-gpu-datasheet (with sparsity, halved)"),
    Gpu("V100 SXM2 32GB", ("V100 SXM2 32GB",), {"fp32": 15.7, "fp16": 125.0}, 32, 900, 300, 150, _V100),
    Gpu("V100 SXM2 16GB", ("V100 SXM2 16GB",), {"fp32": 15.7, "fp16": 125.0}, 16, 900, 300, 150, _V100),
    Gpu("V100 PCIe 32GB", ("V100 PCIe 32GB",), {"fp32": 14.0, "fp16": 112.0}, 32, 900, 250, 0, _V100),
    Gpu("V100 PCIe 16GB", ("V100 PCIe 16GB",), {"fp32": 14.0, "fp16": 112.0}, 16, 900, 250, 0, _V100),
    Gpu("V100S PCIe 32GB", ("V100S PCIe 32GB", "V100S"), {"fp32": 16.4, "fp16": 130.0}, 32, 1134, 250, 0, _V100),
    Gpu("T4", ("T4", "T4 16GB"), {"fp32": 8.1, "fp16": 65.0}, 16, 320, 70, 0,
        f"{_NVIDIA}Data-Center/tesla-t4/t4-tensor-core-datasheet-951643.pdf"),
    Gpu("RTX PRO 6000 Blackwell Workstation", ("RTX PRO 6000 Blackwell Workstation Edition",),
        {"fp32": 125.0, "tf32": 250.0, "bf16": 500.0, "fp16": 500.0, "fp8": 1000.0}, 96, 1792, 600, 0, _PRO),
    Gpu("RTX PRO 6000 Blackwell Server", ("RTX PRO 6000 Blackwell Server Edition",),
        {"fp32": 120.0, "tf32": 240.0, "bf16": 480.0, "fp16": 480.0, "fp8": 960.0}, 96, 1597, 600, 0,
        "NVIDIA data sheet of the edition: FP32 rate; tensor rates as 4 x that, the ratio of the workstation edition"),
    Gpu("RTX PRO 6000 Blackwell Max-Q", ("RTX PRO 6000 Blackwell Max-Q Workstation Edition", "RTX PRO 6000 Blackwell Max-Q"),
        {"fp32": 110.0, "tf32": 219.4, "bf16": 438.9, "fp16": 438.9, "fp8": 877.8}, 96, 1792, 300, 0, _PRO),
    Gpu("RTX 6000 Ada", ("RTX 6000 Ada Generation", "RTX 6000 Ada"), _P_ADA, 48, 960, 300, 0,
        "https://resources.nvidia.com/en-us-briefcase-for-datasheets (RTX 6000 Ada: 1457 fp8 TFLOPS with sparsity, halved)"),
    Gpu("RTX A6000", ("RTX A6000", "A6000"), {"fp32": 38.7, "tf32": 77.4, "bf16": 154.8, "fp16": 154.8}, 48, 768, 300, 56.25,
        _GA102, _BRIDGE),
    Gpu("RTX 5090", ("RTX 5090",), _P_5090, 32, 1792, 575, 0, _GB202),
    Gpu("RTX 4090", ("RTX 4090",), {"fp32": 82.6, "tf32": 82.6, "bf16": 165.2, "fp16": 165.2, "fp8": 330.3}, 24, 1008, 450, 0,
        _AD102),
    Gpu("RTX 3090", ("RTX 3090",), {"fp32": 35.6, "tf32": 35.6, "bf16": 71.0, "fp16": 71.0}, 24, 936, 350, 56.25,
        _GA102, _BRIDGE),
)
# fmt: on


def _words(name: str) -> frozenset[str]:
    """The words that say which card it is: "NVIDIA A100-SXM4-80GB" -> a100 sxm4 80gb; "80 GB" is one word."""
    text = re.sub(r"(\d) ?gb\b", r"\1gb", name[:_LONGEST_NAME].lower()).replace("pci-e", "pcie")
    return frozenset(_WORD.findall(text)) - _NOISE


_FORMS: tuple[tuple[frozenset[str], Gpu], ...] = tuple((_words(form), gpu) for gpu in GPUS for form in gpu.forms)
_MODELS = frozenset(word for words, _ in _FORMS for word in words if re.fullmatch(r"[a-z]\d+[a-z]?|a6000|[345]090|6000", word))


def gpus_fitting(name: str) -> tuple[Gpu, ...]:
    """Every card that the name may mean: the one whose name it is, else all whose names have its words; () for none."""
    words = _words(name)
    exact = tuple(dict.fromkeys(gpu.name for form, gpu in _FORMS if form == words))
    names = exact or tuple(dict.fromkeys(gpu.name for form, gpu in _FORMS if words and words < form and words & _MODELS))
    return tuple(gpu for gpu in GPUS if gpu.name in names)


def gpu_named(name: str) -> Gpu | None:
    """The card of that name; None where the table has none, or where the name leaves more than one."""
    found = gpus_fitting(name)
    return found[0] if len(found) == 1 else None


def peak_tflops(name: str, dtype: str) -> float | None:
    """Dense TFLOP/s of that card in that dtype; None where not known, or where the cards that the name may mean differ."""
    peaks = {gpu.peaks.get(dtype) for gpu in gpus_fitting(name)}
    return next(iter(peaks)) if len(peaks) == 1 else None


def why_unknown(name: str, dtype: str = "bf16") -> str:
    """A sentence for a peak that ``peak_tflops`` does not know; empty where it does."""
    found = gpus_fitting(name)
    if not name.strip():
        return "the GPU is not known"
    if not found:
        return f"{name.strip()[:80]!r} is no card of the table"
    if peak_tflops(name, dtype) is not None:
        return ""
    if len(found) == 1:
        return f"no public {dtype} peak of {found[0].name}"
    return f"{name.strip()[:80]!r} may be {', '.join(gpu.name for gpu in found)}, whose peaks differ"
