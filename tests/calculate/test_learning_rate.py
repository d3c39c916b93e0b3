"""Where schedules end: against known schedules printed in many forms, and never a confident wrong answer."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from evidence_cases import observation

from diag_kit.calculate.learning_rate import LrSchedule, finding, schedule
from diag_kit.calculate.schedule_fit import decimals_error
from diag_kit.evidence import Evidence
from diag_kit.records import Fact, Interval

FORMS = {
    "repr": repr,
    "2e": lambda v: f"{v:.2e}",
    "3e": lambda v: f"{v:.3e}",
    "6f": lambda v: f"{v:.6f}",
    "round": lambda v: repr(round(v, 8)),
    "g6": lambda v: f"{v:.6g}",
    "g4": lambda v: f"{v:.4g}",
}
SHAPES = {
    "linear": lambda x: 1 - x,
    "cosine": lambda x: 0.5 * (1 + math.cos(math.pi * x)),
    "cosine to a tenth": lambda x: 0.1 + 0.45 * (1 + math.cos(math.pi * x)),
    "quadratic": lambda x: (1 - x) ** 2,
    "plateau, linear": lambda x: min(1.0, 5 * (1 - x)),
    "plateau, root": lambda x: 1 - math.sqrt(max(0.0, 5 * x - 4)),
    "constant": lambda x: 1.0,
    "exponential": lambda x: math.exp(-3 * x),
    "steps": lambda x: 0.1 ** int(4 * x),
}
ENDLESS = {"constant", "exponential", "steps"}


def rates(shape, end, warm_up, peak, steps, form):
    def rate(step):
        if step < warm_up:
            return peak * step / warm_up
        return peak * SHAPES[shape](min(1.0, (step - warm_up) / (end - warm_up)))

    return [FORMS[form](rate(step)) for step in steps]


def test_the_end_of_random_schedules_is_bounded_or_not_given():
    rng = np.random.default_rng(2)
    covered, given, wrong = [], 0, []
    for trial in range(45):
        shape, form = list(SHAPES)[trial % len(SHAPES)], str(rng.choice(list(FORMS)))
        end = int(10 ** rng.uniform(2.3, 5.5))
        warm_up, peak = int(end * rng.choice([0, 0.01, 0.03, 0.1])), 10 ** rng.uniform(-5, -2.5)
        steps = np.unique(np.linspace(0, int(end * rng.uniform(0.05, 1.1)), 500).astype(int)).tolist()
        found = schedule(steps, rates(shape, end, warm_up, peak, steps, form))
        if found.end is None:
            assert found.interval is None and found.note
            continue
        given += 1
        right = shape not in ENDLESS and found.interval.low <= end <= found.interval.high
        covered.append(right)
        wrong += [] if right else [(shape, form, end, found)]
    assert given >= 12
    assert np.mean(covered) >= 0.92, wrong


@pytest.mark.parametrize(
    ("steps", "texts", "kind"),
    [
        (range(50), ["3e-05"] * 50, "constant so far"),
        (range(50), [repr(1e-6 * i) for i in range(50)], "warming up"),
        (range(50), [repr(1e-6 * min(i, 20)) for i in range(50)], "constant since the warm-up"),
        (range(3), ["0.003", "0.002", "0.001"], "falling"),
        (range(2), ["0.003", "0.002"], "not known"),
        ([0, 0, 1, 1, 2, 2, 3, 3], ["0.1", "0.3"] * 4, "not known"),
        (range(120), [repr(1e-3 * abs(math.cos(i / 9))) for i in range(120)], "cyclic"),
        (range(4), ["", "nan", "x", "-1"], "not known"),
    ],
)
def test_a_curve_that_does_not_show_its_end_gives_none_with_a_reason(steps, texts, kind):
    found = schedule(list(steps), texts)
    assert (found.kind, found.end, found.interval) == (kind, None, None)
    assert found.note


@pytest.mark.parametrize(
    ("texts", "half_units"),
    [
        (["0.0010", "0.0009"], [5e-5, 5e-5]),
        (["1.00e-04", "9.90e-05"], [5e-7, 5e-8]),
        (["0.000123", "1.2e-05", "0.0001"], [5e-7, 5e-7, 5e-7]),
        (["0.0", "0.25"], [5e-3, 5e-3]),
    ],
)
def test_half_a_unit_of_the_last_digit_is_the_error_of_a_printed_rate(texts, half_units):
    assert decimals_error(texts) == pytest.approx(half_units, rel=0.02, abs=1e-12)


def metrics(shape, end, upto, ranks=1, planned_fact=True, warm_up=0):
    steps = list(range(0, upto, 5))
    texts = rates(shape, end, warm_up, 3e-4, steps, "repr")
    rows = [(step, text) for step, text in zip(steps, texts, strict=True) for _ in range(ranks)]
    return pd.DataFrame(
        {
            "step": pd.array([step for step, _ in rows], dtype="Int64"),
            "lr": [float(text) for _, text in rows],
            "lr_text": pd.array([text for _, text in rows], dtype="str"),
            "split": "train",
        }
    )


def evidence(table, **facts):
    stated = tuple(Fact(name, value, "the log") for name, value in facts.items())
    return Evidence([observation("O1", "log_metrics", *stated, metrics=table)])


@pytest.mark.parametrize(
    ("end", "facts", "ratio", "words"),
    [
        (1000, {"world_size": 4}, 0.25, "the scheduler steps once per process"),
        (500, {"world_size": 1, "accumulation_steps": 8}, 0.125, "the scheduler steps at every micro-batch"),
        (16000, {"world_size": 4}, 4.0, "the loader's length before the split"),
        (4000, {"world_size": 4}, 1.0, "the schedule ends with the run"),
        (2600, {"world_size": 4}, 0.65, "no cause is named"),
        (1000, {"world_size": 4, "accumulation_steps": 4}, 0.25, "once per process, or it was built on 1/4"),
    ],
)
def test_the_ratio_of_end_to_plan_names_the_finding(end, facts, ratio, words):
    table = metrics("linear", end, min(end, 3000) * 9 // 10, ranks=int(facts["world_size"]))
    step, compared = LrSchedule().compute(evidence(table, total_steps=4000, **facts))
    assert step.value == pytest.approx(end, rel=0.01)
    assert compared.value == pytest.approx(ratio, rel=0.01)
    assert words in compared.note
    assert step.interval.low <= end <= step.interval.high


def test_without_a_rate_or_a_plan_nothing_is_compared():
    step, compared = LrSchedule().compute(Evidence([]))
    assert step.value is None and compared.value is None and "no learning rate" in step.note
    step, compared = LrSchedule().compute(evidence(metrics("linear", 1000, 900)))
    assert step.value == pytest.approx(1000, rel=0.01)
    assert compared.value is None and "the number of steps is not known" in compared.note


def test_a_wide_interval_over_two_named_ratios_names_none():
    assert "no cause is named" in finding(0.4, Interval(0.24, 0.51), 4, 2, 1000)
