"""A script that names the rank: what splits the data, what does not, and what the text cannot settle."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_script_split import fact, read

FILE = Path(__file__).parents[1] / "data" / "scripts" / "rank_mentions.txt"


def scripts() -> dict[str, str]:
    """"verdict: title" -> script."""
    parts = FILE.read_text().split("=== ")[1:]
    return {part.partition("\n")[0]: part.partition("\n")[2] for part in parts}


@pytest.mark.parametrize("title", scripts())
def test_a_mention_of_the_rank(title: str) -> None:
    parsed = read(scripts()[title])
    assert fact(parsed, "split_by_source") == title.partition(":")[0], parsed.summary


def test_there_are_enough_of_each() -> None:
    verdicts = [title.partition(":")[0] for title in scripts()]
    assert verdicts.count("none") >= 12
    assert verdicts.count("once") >= 12
