"""The plan of stages: the founding plan's numbers, and a slow reference for the placing."""

from __future__ import annotations

import itertools
import random

import pytest

from diag_kit.calculate.plan import (
    FOUNDING_PLAN,
    FOUNDING_SAMPLES,
    Stage,
    bounds,
    ceiling,
    compare,
    for_samples,
    hours_in_all,
    on_gpus,
    place,
    where_to_start,
    with_changes,
)
from diag_kit.errors import BadInput
from diag_kit.records import Interval


def longest_chain(stages: list[Stage]) -> float:
    """Slow twin, without resources: the longest sum of hours over all chains of needs."""
    by_name = {stage.name: stage for stage in stages}

    def back(name: str) -> float:
        stage = by_name[name]
        return stage.hours + max((back(each) for each in stage.after), default=0.0)

    return max(back(stage.name) for stage in stages)


def test_the_founding_plan() -> None:
    assert hours_in_all(FOUNDING_PLAN) == pytest.approx(11.5)
    assert [each.critical for each in place(FOUNDING_PLAN)] == [True, True, True]
    no_training = ceiling(FOUNDING_PLAN, "training")
    assert (no_training.hours, no_training.won_hours) == (pytest.approx(9.2), pytest.approx(2.3))
    assert no_training.speed_up == pytest.approx(1.25)
    assert [each.name for each in where_to_start(FOUNDING_PLAN)] == [
        "inference for nothing",
        "extraction for nothing",
        "training for nothing",
    ]


def test_halving_inference_wins_more_than_halving_training() -> None:
    """mission_anchors 2.7, G5: 2.7 h against 1.15 h."""
    for name, won in (("training", 1.15), ("inference", 2.7)):
        assert compare(FOUNDING_PLAN, "", with_changes(FOUNDING_PLAN, {name: 2})).won_hours == pytest.approx(won)


def test_twenty_minutes_of_training_leave_nine_and_a_half_hours() -> None:
    plan = with_changes(FOUNDING_PLAN, {"training": 2.3 * 3})
    assert hours_in_all(plan) == pytest.approx(9.2 + 1 / 3)


def test_twenty_five_thousand_samples() -> None:
    larger = for_samples(FOUNDING_PLAN, 25_000, FOUNDING_SAMPLES)
    assert [round(stage.hours, 2) for stage in larger] == [13.5, 9.5, 5.75]
    assert hours_in_all(larger) == pytest.approx(28.75)


def test_what_does_not_grow_with_the_samples_stays() -> None:
    plan = (Stage("load", 0.5, per_sample=False), Stage("train", 2, ("load",)))
    assert [stage.hours for stage in for_samples(plan, 200, 100)] == [0.5, 4]


def test_more_gpus_shorten_the_parallel_part_only() -> None:
    stage = Stage("training", 8, serial_share=0.25)
    assert on_gpus(stage, 1, 4).hours == pytest.approx(2 + 6 / 4)
    assert on_gpus(stage, 2, 1).hours == pytest.approx(2 + 6 * 2)
    assert on_gpus(Stage("x", 8), 1, 8).hours == 8


def test_a_rented_machine_with_its_price_and_the_copy_of_the_data() -> None:
    rented = compare(FOUNDING_PLAN, "rented", with_changes(FOUNDING_PLAN, {s.name: 5 for s in FOUNDING_PLAN}), 30.0, 1.5)
    assert rented.hours == pytest.approx(11.5 / 5 + 1.5)
    assert rented.cost == pytest.approx(30 * (2.3 + 1.5))


def test_stages_of_one_resource_never_overlap_and_others_do() -> None:
    plan = (Stage("a", 2, resource="gpu"), Stage("b", 3, resource="gpu"), Stage("c", 4, resource="cpu"))
    rows = {each.stage.name: (each.start_h, each.end_h, each.waits_for, each.critical) for each in place(plan)}
    assert rows == {"a": (0, 2, "", True), "b": (2, 5, "a", True), "c": (0, 4, "", False)}


def test_bounds_are_all_low_and_all_high() -> None:
    plan = (Stage("a", 2, interval=Interval(1, 3)), Stage("b", 5, ("a",)))
    assert bounds(plan) == Interval(6, 8, 0.95)
    assert bounds(FOUNDING_PLAN) is None


def test_placing_agrees_with_the_longest_chain() -> None:
    draw = random.Random(7)
    for _ in range(200):
        names = "abcdefg"[: draw.randint(1, 7)]
        stages = [
            Stage(name, draw.randint(0, 9), tuple(other for other in names[:place] if draw.random() < 0.4))
            for place, name in enumerate(names)
        ]
        draw.shuffle(stages)
        assert hours_in_all(stages) == longest_chain(stages)


def test_no_two_stages_of_a_resource_at_once_in_random_plans() -> None:
    draw = random.Random(8)
    for _ in range(100):
        stages = [Stage(str(n), draw.randint(1, 5), resource=draw.choice(["", "x", "y"])) for n in range(6)]
        placed = [each for each in place(stages) if each.stage.resource]
        for one, other in itertools.combinations(placed, 2):
            if one.stage.resource == other.stage.resource:
                assert one.end_h <= other.start_h or other.end_h <= one.start_h


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ((Stage("a", 1, ("b",)), Stage("b", 1, ("a",))), "wait for one another"),
        ((Stage("a", 1, ("zzz",)),), "needs zzz"),
        ((Stage("a", 1), Stage("a", 2)), "two stages are called a"),
        ((Stage("a", -1),), "takes -1 hours"),
        ((Stage("a", float("nan")),), "takes nan hours"),
    ],
)
def test_a_plan_that_cannot_be_is_refused_with_the_reason(plan: tuple[Stage, ...], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        place(plan)
