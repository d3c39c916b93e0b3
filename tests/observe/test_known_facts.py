"""The list of facts that a person may tell: it holds every name that a calculation or a rule asks for, and no other."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import diag_kit
from diag_kit.errors import BadInput
from diag_kit.observe.known_facts import FACTS, KNOWN, checked, typed

LOOKUPS = {"known", "text_fact", "number_of_fact", "_said"}
SEEN_ONLY = {
    "job_pid", "ranks_running", "loader_processes", "launcher", "library_version", "opens_window_s", "printing_ranks",
    "sampler_in_memory", "sampler_num_replicas", "source_changed_after_start", "choice_of_training", "job_ended", "gpus_in_use",
    "train_samples_said_by",
}  # fmt: skip
"""Asked for, and a matter of observation: what processes run, what a probe's window was. Telling it would fake a measurement."""


def asked_for() -> set[str]:
    """Every constant name that is looked up as a fact, in any module but the parsers' own."""
    names: set[str] = set()
    for path in sorted(Path(diag_kit.__file__).parent.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            owner = ast.unparse(node.func.value).split(".")[-1] if isinstance(node.func, ast.Attribute) else ""
            on_evidence = owner in ("evidence", "known")
            if (on_evidence and called in ("fact", "facts", "number")) or called in LOOKUPS:
                names |= {arg.value for arg in node.args[:2] if isinstance(arg, ast.Constant) and isinstance(arg.value, str)}
    return names


def test_every_name_that_is_asked_for_is_in_the_list() -> None:
    missing = asked_for() - set(KNOWN) - SEEN_ONLY
    assert not missing, f"add to known_facts.FACTS, or to SEEN_ONLY here: {sorted(missing)}"


def test_every_name_in_the_list_is_asked_for() -> None:
    text = {
        path: path.read_text("utf-8")
        for path in Path(diag_kit.__file__).parent.rglob("*.py")
        if path.name not in ("known_facts.py", "cli.py")
    }
    layouts = {f"{kind}_parallel_size" for kind in ("tensor", "pipeline", "context", "sequence")}  # asked for by pattern
    unused = [name for name in KNOWN if name not in layouts and not any(f'"{name}"' in each for each in text.values())]
    assert unused == []


def test_the_board_offers_known_facts_in_their_units() -> None:
    from diag_kit.show.assume import TELLABLE

    assert all(checked(name, 2, unit) == (2, unit) for name, unit in TELLABLE.values())


def test_each_has_a_meaning_and_a_name_once() -> None:
    assert len(KNOWN) == len(FACTS)
    assert all(fact.meaning and (fact.unit or fact.text or fact.name not in ("elapsed_s",)) for fact in FACTS)


@pytest.mark.parametrize(
    ("name", "value", "unit", "entered"),
    [
        ("one_gpu_steps_per_s", 6, "", (6, "steps/s")),
        ("one_gpu_steps_per_s", np.float64(6.5), "steps/s", (6.5, "steps/s")),
        ("world_size", np.int64(4), "", (4, "ranks")),
        ("world_size", 4.0, "", (4, "ranks")),
        ("dataset_bytes", 4.6e12, "B", (4.6e12, "B")),
        ("num_workers", 0, "", (0, "")),
        ("epochs", 0.5, "", (0.5, "")),
        ("nvlink", "none", "", ("none", "")),
        ("parameters", 2.6e9, "", (2.6e9, "")),
    ],
)
def test_what_goes_in(name: str, value: object, unit: str, entered: tuple[object, str]) -> None:
    assert checked(name, value, unit) == entered


@pytest.mark.parametrize(
    ("name", "value", "unit", "said"),
    [
        ("one_gpu_step_per_s", 6, "", "no calculation asks for"),
        ("", 6, "", "no name of a fact"),
        (3, 6, "", "no name of a fact"),
        ("one_gpu_steps_per_s", 0, "", "above 0"),
        ("one_gpu_steps_per_s", -6, "", "above 0"),
        ("one_gpu_steps_per_s", "6", "", "a number of steps/s"),
        ("one_gpu_steps_per_s", True, "", "a number of steps/s"),
        ("one_gpu_steps_per_s", None, "", "a number of steps/s"),
        ("one_gpu_steps_per_s", float("nan"), "", "a number of steps/s"),
        ("one_gpu_steps_per_s", float("inf"), "", "a number of steps/s"),
        ("world_size", 2.5, "", "a whole number of ranks"),
        ("world_size", 0, "", "at least 1"),
        ("num_workers", -1, "", "at least 0"),
        ("link_gb_per_s", 400, "Gb/s", "is in GB/s, not in Gb/s"),
        ("nvlink", "maybe", "", "one of 'present', 'none'"),
        ("log_path", 3, "", "a text"),
        ("log_path", " ", "", "a text"),
    ],
)
def test_what_does_not(name: object, value: object, unit: str, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        checked(name, value, unit)
    assert said in caught.value.what and caught.value.next_step


def test_a_name_that_nobody_asks_for_goes_in_when_it_is_meant() -> None:
    assert checked("ticket", "OPS-12", other=True) == ("OPS-12", "")
    assert checked("watts", np.int64(7), "W", other=True) == (7, "W")
    for value in (float("nan"), [1], object()):
        with pytest.raises(BadInput):
            checked("ticket", value, other=True)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [("world_size", "4", 4), ("epochs", "0.5", 0.5), ("log_path", "12", "12"), ("ticket", "12", 12), ("world_size", "x", "x")],
)
def test_what_is_typed(name: str, text: str, value: object) -> None:
    assert typed(name, text) == value
