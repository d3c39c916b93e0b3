"""What the run asks of storage, and how it compares with one GPU alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from diag_kit.calculate.calculator import calculator
from diag_kit.calculate.inputs import calculated, ids_of, known, number_of, parameters, scaled, sentences
from diag_kit.calculate.rival_readings import HOUR_S, run_steps
from diag_kit.calculate.split_arithmetic import split_arithmetic
from diag_kit.evidence import Evidence
from diag_kit.figures import figure
from diag_kit.records import Calculation


@calculator
@dataclass(frozen=True)
class ReadNeed:
    """``read_gb_per_s_needed`` = bytes per sample x samples/s: what disks, mounts and page cache together must deliver."""

    dataset_bytes: float | None = None
    dataset_samples: float | None = None

    name: ClassVar[str] = "read_need"

    def compute(self, evidence: Evidence) -> tuple[Calculation, ...]:
        size = known(evidence, "dataset_bytes", self.dataset_bytes, unit="bytes")
        count = known(evidence, "dataset_samples", self.dataset_samples, unit="samples")
        if count.value is None:
            parts = [known(evidence, name) for name in ("train_samples", "val_samples")]
            if parts[0].value:
                count = parts[0]
        rate = calculated(evidence, "samples_per_s")
        per_s = number_of(rate)
        formula = "dataset bytes / samples in it x samples/s"
        made: dict[str, Any] = {
            "inputs": ids_of(size, count, rate),
            "assumptions": (size.assumption, count.assumption),
            "calculator": self.name,
            "parameters": parameters(self),
        }
        if not size.value or not count.value or not per_s:
            missing = sentences(
                "" if size.value else "the size of the dataset is not known",
                "" if count.value else "the number of samples is not known",
                "" if per_s else "the samples per second are not known",
            )
            return (Calculation("read_gb_per_s_needed", formula, None, "GB/s", note=missing, **made),)
        each = size.value / count.value / 1e9
        note = f"{figure(each * 1000)} MB a sample; ranks that read the same file twice are served by the page cache"
        return (
            Calculation(
                "read_gb_per_s_needed", formula, each * per_s, "GB/s", interval=scaled(rate.interval if rate else None, each),
                note=note, **made,
            ),
        )  # fmt: skip


@calculator
@dataclass(frozen=True)
class OneGpu:
    """The same samples on one GPU alone, if somebody says how fast one is: ``one_gpu_run_hours``, ``speedup_over_one_gpu``.

    speed-up = samples/s of all ranks / (steps/s of one GPU x batch). Near 1 with N ranks: a fault of its own, which no split
    repairs: a split divides the number of steps, not the time of a step.
    """

    one_gpu_steps_per_s: float | None = None

    name: ClassVar[str] = "one_gpu"

    def compute(self, evidence: Evidence) -> tuple[Calculation, ...]:
        alone = known(evidence, "one_gpu_steps_per_s", self.one_gpu_steps_per_s, unit="steps/s")
        if not alone.value:
            return ()
        rate, arithmetic = calculated(evidence, "samples_per_s"), split_arithmetic(evidence)
        steps, batch = run_steps(evidence), arithmetic.batch.size.value
        samples, epochs = arithmetic.samples.value, arithmetic.epochs
        made: dict[str, Any] = {"assumptions": (alone.assumption,), "calculator": self.name, "parameters": parameters(self)}
        alone_steps = samples / batch * epochs if samples and batch and epochs else steps.value
        found = [
            Calculation(
                "one_gpu_run_hours", "samples x epochs / batch / steps/s of one GPU / 3600",
                alone_steps / alone.value / HOUR_S if alone_steps else None, "h", ids_of(alone, steps),
                note="if its samples are like these", **made,
            )
        ]  # fmt: skip
        per_s, ranks = number_of(rate), arithmetic.ranks
        if per_s and batch:
            single = alone.value * batch
            speedup = per_s / single
            note = f"{ranks} ranks do {figure(per_s)} samples/s together, one GPU {figure(single)}"
            if ranks and ranks > 1 and speedup < ranks / 2:
                own, today = 1 / alone.value, number_of(evidence.calculation("step_time"))
                note += f": a step takes {figure(today)} s against {figure(own)} s" if today else ""
                note += "; this is a second fault, which a split of the data does not repair"
            found.append(
                Calculation(
                    "speedup_over_one_gpu", "samples/s of all ranks / samples/s of one GPU", speedup, "x", ids_of(alone, rate),
                    scaled(rate.interval if rate else None, 1 / single), note=note, **made,
                )
            )  # fmt: skip
        return tuple(found)
