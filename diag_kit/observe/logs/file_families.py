"""Which log files belong together: one per rank, those of one attempt of torchrun, the parts of a rotated log."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from diag_kit.observe.logs.file_ranks import ranks_of_files

_ATTEMPT = re.compile(r"(?P<run>.*?)attempt_(?P<attempt>\d{1,4})/\d{1,5}/(?P<stream>stdout|stderr)\.log\Z")
_ROTATED = re.compile(r"(?P<base>.+)\.(?P<age>\d{1,3})\Z")


@dataclass(frozen=True, slots=True)
class Family:
    """Files to be read together, in this order (places in the list of names). ``attempt``: 0 where the names say none."""

    label: str
    members: tuple[int, ...]
    attempt: int = 0


def families_of_files(names: Sequence[str]) -> list[Family]:
    """Each file in one family; older attempts before newer ones, older parts of a log before newer ones.

    torchrun writes ``<run id>/attempt_<k>/<local rank>/stdout.log`` (torch/distributed/elastic/multiprocessing); logrotate and
    Python's RotatingFileHandler name the last part ``LOG.1``, the one before it ``LOG.2``.
    """
    attempts: dict[tuple[str, str, int], list[int]] = {}
    rotated: dict[str, list[tuple[int, int]]] = {}
    others: list[int] = []
    known = set(names)
    for place, name in enumerate(names):
        attempt, part = _ATTEMPT.match(name), _ROTATED.match(name)
        if attempt:
            attempts.setdefault((attempt["run"], attempt["stream"], int(attempt["attempt"])), []).append(place)
        elif part and part["base"] in known:
            rotated.setdefault(part["base"], []).append((-int(part["age"]), place))
        elif name + ".1" in known:
            rotated.setdefault(name, []).append((0, place))
        else:
            others.append(place)
    found = [_of_ranks(names, others)] if _is_one_per_rank(names, others) else [Family(names[i], (i,)) for i in others]
    found += [Family(f"{base} in {len(parts)} parts", tuple(i for _, i in sorted(parts))) for base, parts in rotated.items()]
    for (_, stream, number), places in sorted(attempts.items(), key=lambda item: item[0][2]):
        label = f"{stream} of attempt {number}, {len(places)} ranks" if len(places) > 1 else names[places[0]]
        found.append(Family(label, tuple(places), number))
    return found


def _is_one_per_rank(names: Sequence[str], places: Sequence[int]) -> bool:
    ranks = ranks_of_files([names[i] for i in places])
    return len(places) > 1 and all(rank is not None for rank in ranks) and len(set(ranks)) == len(ranks)


def _of_ranks(names: Sequence[str], places: Sequence[int]) -> Family:
    return Family(f"{len(places)} logs, one for each rank", tuple(places))
