"""Which rank wrote a file, from its name: ``log.txt.rank1``, ``attempt_0/2/stdout.log``, or the one number that differs."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NAMED = re.compile(r"rank[_\-.=]?(\d{1,5})(?!\d)", re.IGNORECASE)
_ELASTIC = re.compile(r"attempt_\d+/(\d{1,4})/(?:stdout|stderr)\.log\Z")
_NUMBER = re.compile(r"\d+")


def ranks_of_files(names: Sequence[str]) -> list[int | None]:
    """A rank per file, None where the name says none.

    Names that differ in one number only, and those numbers are 0..N-1, are the files of N ranks. With files named by rank,
    one without a number is rank 0's (detectron2 writes ``log.txt`` beside ``log.txt.rank1``).
    """
    ranks = [_named(name) for name in names]
    distinct = set(names)
    if all(rank is None for rank in ranks) and len(distinct) > 1:
        numbered = _by_difference(sorted(distinct))
        ranks = [numbered.get(name) for name in names]
    stated = {name: rank for name, rank in zip(names, ranks, strict=True) if rank is not None}
    unnamed = [name for name in distinct if name not in stated]
    if stated and len(unnamed) == 1 and 0 not in stated.values() and any(n.startswith(unnamed[0]) for n in stated):
        ranks = [0 if name == unnamed[0] else rank for name, rank in zip(names, ranks, strict=True)]
    return ranks


def _named(name: str) -> int | None:
    match = _ELASTIC.search(name) or _NAMED.search(name.rsplit("/", 1)[-1]) or _NAMED.search(name)
    return int(match[1]) if match else None


def _by_difference(names: Sequence[str]) -> dict[str, int]:
    split = [_NUMBER.split(name) for name in names]
    if any(parts != split[0] for parts in split):
        return {}
    numbers = [_NUMBER.findall(name) for name in names]
    differing = [i for i in range(len(numbers[0])) if len({row[i] for row in numbers}) > 1]
    if len(differing) != 1:
        return {}
    found = [int(row[differing[0]]) for row in numbers]
    return dict(zip(names, found, strict=True)) if sorted(found) == list(range(len(names))) else {}
