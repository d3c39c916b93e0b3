"""A pasted configuration: what was set, with its section; a number only where there is one."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pytest

from diag_kit.hosts.kinds import kind_of
from diag_kit.observe.settings import Settings
from diag_kit.records import CommandResult, Parsed


def read(text: str) -> Parsed:
    return Settings().read((CommandResult("files", "cat a.txt", text.encode(), b"", 0, datetime(2024, 1, 1, tzinfo=UTC), 0.0),))


def rows(text: str) -> list[tuple[Any, ...]]:
    table = read(text).tables["settings"]
    return [(row["section"], row["key"], row["value"], row["number"]) for row in table.astype(object).to_dict("records")]


YAML = "# run 7\nMODEL:\n  DEPTH: 18\n  HEAD:\n    LR: 2.5e-4  # was 1e-4\nOPT:\n  STEPS: 40_000\n  NAME: 'adam'\nseed: ~\n"


def test_yaml():
    made = rows(YAML)
    assert [each[:3] for each in made] == [
        ("MODEL", "DEPTH", "18"),
        ("MODEL.HEAD", "LR", "2.5e-4"),
        ("OPT", "STEPS", "40_000"),
        ("OPT", "NAME", "adam"),
        ("", "seed", "~"),
    ]
    assert [each[3] for each in made[:3]] == [18.0, 2.5e-4, 40000.0] and made[3][3] != made[3][3]


def test_json_arguments_and_ini():
    assert [each[:3] for each in rows('{"train": {"bs": 12, "on": true}, "name": "x"}')] == [
        ("train", "bs", "12"),
        ("train", "on", "true"),
        ("", "name", "x"),
    ]
    arguments = "--lr 3e-5 --bf16 --epochs=2 --files a.txt b.txt \\\n  --eval_steps 25\n"
    assert kind_of(arguments.encode()) == "config"
    assert [each[1:3] for each in rows(arguments)] == [
        ("lr", "3e-5"), ("bf16", ""), ("epochs", "2"), ("files", "a.txt b.txt"), ("eval_steps", "25"),
    ]  # fmt: skip
    parsed = read("[data]\nworkers = 6\nname=x\nnonsense\n")
    assert parsed.tables["settings"]["section"].tolist() == ["data", "data"]
    assert parsed.tables["settings"]["number"].tolist()[0] == 6.0 and parsed.not_understood[0].text == "nonsense"


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 50_000, "a: " * 90_000, "- " * 100_000, "--a" * 90_000, "--a " * 40_000]
)
def test_hostile_text_is_read_in_time(text):
    began = time.process_time()
    read(text)
    assert time.process_time() - began < 2.0
