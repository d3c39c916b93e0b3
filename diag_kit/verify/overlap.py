"""Who reads which file when: does it look like a split, like independent orders, or like one order on all ranks?

For N files and K ranks of which rank i opened n_i distinct ones, two ranks share about n_i n_j / N files under independent
orders, none under a split, and nearly all, at nearly the same time, under the same order (mission_anchors 4.1).

What would make a split look shared, and how it is kept apart:
- the end of an epoch inside the window: files from before it come again after it. Shared files that one moment explains (opened
  once before, once after) do not count;
- a window longer than an epoch: it is cut into pieces of at most half an epoch of a split; where that length is not known, a
  split also makes ranks meet their own files again, so repeats within a rank take away the verdict;
- a few files that every rank opens for another reason: eight shared sample files are the least.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

MIN_SHARED = 8
"""Shared files that no epoch's end explains, from which a split is excluded. Under a split there are none."""
MIN_EXPECTED = 12.0
"""Shared files expected under independent orders from which their absence excludes these: exp(-12) x 13 < 1e-4."""
NEAR_SHARE = 0.8
"""Share of shared files opened at nearly the same time that makes it one order."""
MAX_CHANCE_NEAR = 0.4
"""Chance of being near under independent orders above which nearness says nothing: the window is too short."""
RATIO = 3.0
"""How far the number of shared files may be from what independent orders predict (polls miss opens, N may be off)."""
ERROR_RATES = (
    "a split called unsplit: 0 of 40,000 simulated windows (2 to 8 ranks, 100 to 100,000 files, epoch ends, prefetch), so below "
    "1e-4 at 95 %; an unsplit run called split: below 1 in 1,000; the rest is 'cannot tell'"
)


class Label(StrEnum):
    """What the opens look like."""

    SPLIT = "split"
    OWN_ORDER = "own order"
    SAME_ORDER = "same order"
    NOT_SAME_ORDER = "not the same order"
    GROUPS = "groups of ranks read the same"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, slots=True)
class Visit:
    """One rank begins to read one file."""

    t: float
    rank: int
    path: Hashable


@dataclass(frozen=True, slots=True)
class Setting:
    """What is known beside the opens: ranks, files (None: not known), samples per second and rank, seconds per step, window."""

    ranks: int
    files: int | None
    per_rank_per_s: float | None
    step_s: float | None
    window_s: float

    @property
    def guard_s(self) -> float:
        """How sharp the end of an epoch is: ranks and loader workers are some steps apart."""
        return max(0.5, 5 * (self.step_s or 0.1))

    @property
    def near_s(self) -> float:
        """Within this time two opens count as the same time."""
        return max(1.0, 3 * (self.step_s or 0.1))

    @property
    def split_epoch_s(self) -> float | None:
        """Seconds that one epoch of a split run takes."""
        if not self.files or not self.per_rank_per_s:
            return None
        return self.files / (self.ranks * self.per_rank_per_s)


@dataclass(frozen=True, slots=True)
class Overlap:
    """The label and the figures behind it; ``shared``: files opened by at least two ranks, over all pieces of the window.

    ``unexplained``: those that no end of an epoch explains; ``expected_own``: shared files under independent orders;
    ``near``: share of the shared ones opened at nearly the same time; ``chance_near``: the same under independent orders.
    """

    label: Label
    why: str
    visits: int = 0
    distinct: int = 0
    shared: int = 0
    unexplained: int = 0
    expected_own: float | None = None
    near: float | None = None
    chance_near: float = 1.0
    own_repeats: int = 0
    groups: tuple[tuple[int, ...], ...] = ()


def visits_of(opens: Sequence[Visit], gap_s: float) -> list[Visit]:
    """Sightings of one file by one rank no further apart than ``gap_s`` are one visit, dated at its first."""
    last: dict[tuple[int, Hashable], float] = {}
    found = []
    for each in sorted(opens, key=lambda v: v.t):
        key = (each.rank, each.path)
        if key not in last or each.t - last[key] > gap_s:
            found.append(each)
        last[key] = each.t
    return found


def pieces(visits: Sequence[Visit], length_s: float) -> list[list[Visit]]:
    """The visits cut into equal pieces of at most ``length_s``."""
    if not visits:
        return []
    begin, end = visits[0].t, visits[-1].t
    count = max(1, math.ceil((end - begin) / length_s)) if length_s > 0 else 1
    width = (end - begin) / count or 1.0
    cut: list[list[Visit]] = [[] for _ in range(count)]
    for each in visits:
        cut[min(int((each.t - begin) / width), count - 1)].append(each)
    return [piece for piece in cut if piece]


def expected_shared(counts: Sequence[int], files: int) -> float:
    """Files opened by at least two ranks when each rank draws ``counts[i]`` of ``files`` at random."""
    shares = [min(count / files, 1.0) for count in counts]
    none = math.prod(1 - share for share in shares)
    one = sum(share * math.prod(1 - other for j, other in enumerate(shares) if j != i) for i, share in enumerate(shares))
    return files * max(0.0, 1 - none - one)


def most_explained(spans: Sequence[tuple[float, float]]) -> int:
    """The most spans that one moment lies in."""
    events = sorted([(low, 0) for low, _ in spans] + [(high, 1) for _, high in spans])
    best = now = 0
    for _, closes in events:
        now += -1 if closes else 1
        best = max(best, now)
    return best


@dataclass(slots=True)
class _Tally:
    """Sums over the pieces of a window."""

    shared: int = 0
    unexplained: int = 0
    expected: float = 0.0
    near: int = 0
    chance: float = 0.0
    repeats: int = 0

    def add(self, piece: Sequence[Visit], setting: Setting) -> None:
        first: dict[Hashable, dict[int, float]] = defaultdict(dict)
        for each in piece:
            if each.rank in first[each.path]:
                self.repeats += 1
            else:
                first[each.path][each.rank] = each.t
        spans = []
        shared = {path: list(ranks.values()) for path, ranks in first.items() if len(ranks) > 1}
        for times in shared.values():
            low, high = min(times), max(times)
            self.near += high - low <= setting.near_s
            if len(times) == 2:
                spans.append((low - setting.guard_s, high + setting.guard_s))
        self.shared += len(shared)
        self.unexplained += len(shared) - most_explained(spans)
        if setting.files:
            counts = Counter(rank for ranks in first.values() for rank in ranks)
            self.expected += expected_shared([counts[rank] for rank in sorted(counts)], setting.files)
        length = max(each.t for each in piece) - min(each.t for each in piece)
        chance = 1.0 if length <= setting.near_s else 1 - (1 - setting.near_s / length) ** 2
        self.chance += chance * len(shared)


def classify(opens: Sequence[Visit], setting: Setting) -> Overlap:
    """Label opens whose ranks are known. Order of the checks: enough seen, groups, unsplit, split, not the same order."""
    visits = visits_of(opens, setting.near_s)
    per_rank = Counter(each.rank for each in visits)
    if len(per_rank) < 2 or len(visits) < 2 * MIN_SHARED:
        return Overlap(Label.CANNOT_TELL, f"{len(visits)} opens by {len(per_rank)} ranks are too few", len(visits))
    epoch = setting.split_epoch_s
    tally = _Tally()
    for piece in pieces(visits, epoch / 2 if epoch else math.inf):
        tally.add(piece, setting)
    base = Overlap(
        Label.CANNOT_TELL,
        "",
        visits=len(visits),
        distinct=len({each.path for each in visits}),
        shared=tally.shared,
        unexplained=tally.unexplained,
        expected_own=tally.expected if setting.files else None,
        near=tally.near / tally.shared if tally.shared else None,
        chance_near=tally.chance / tally.shared if tally.shared else 1.0,
        own_repeats=tally.repeats,
        groups=sharing_groups(visits, setting.near_s),
    )
    label, why = _label(base, setting, per_rank)
    return _with(base, label, why)


def _with(base: Overlap, label: Label, why: str) -> Overlap:
    return replace(base, label=label, why=why)


def _label(found: Overlap, setting: Setting, per_rank: Mapping[int, int]) -> tuple[Label, str]:
    if (reads := _reads_too_much(setting, per_rank)) is not None:
        return Label.CANNOT_TELL, reads
    if 1 < len(found.groups) < len(per_rank) and found.unexplained >= MIN_SHARED:
        names = ", ".join("{" + ", ".join(map(str, group)) + "}" for group in found.groups)
        return Label.GROUPS, f"ranks {names} read the same files at the same time, and nothing across"
    if found.unexplained >= MIN_SHARED:
        return _shared(found, setting)
    if found.expected_own is None:
        return Label.CANNOT_TELL, f"{found.shared} shared files; how many files there are is not known"
    if _no_own_order(found):
        if _same_would_show(setting, per_rank):
            return Label.SPLIT, f"{found.shared} files shared, {found.expected_own:.0f} expected under independent orders"
        return Label.CANNOT_TELL, "too few of the opens were caught to exclude one order on all ranks"
    if found.shared <= 1 and _same_would_show(setting, per_rank):
        why = f"{found.shared} files shared of {found.distinct}: one order would share most of them; independent orders "
        return Label.NOT_SAME_ORDER, why + f"would share {found.expected_own:.2g}, so these and a split both fit"
    return Label.CANNOT_TELL, f"{found.shared} files shared, {found.expected_own:.2g} expected under independent orders"


def _shared(found: Overlap, setting: Setting) -> tuple[Label, str]:
    """Clearly shared files: one order, independent orders, or neither."""
    near = found.near or 0.0
    expected = found.expected_own
    apart = found.chance_near <= MAX_CHANCE_NEAR
    many = found.shared >= RATIO * expected + MIN_SHARED if expected is not None else found.shared >= 20
    if near >= NEAR_SHARE and apart and (many or (found.chance_near <= 0.3 and found.shared >= 20)):
        return Label.SAME_ORDER, f"{found.shared} of {found.distinct} files shared, {near:.0%} of them at the same time"
    if setting.split_epoch_s is None and not _never_again(found, setting.ranks):
        why = f"{found.own_repeats} files come again on one rank: the window may be longer than an epoch"
        return Label.CANNOT_TELL, why
    if expected is None:
        return Label.CANNOT_TELL, f"{found.shared} shared files; how many files there are is not known"
    spread = 3 * math.sqrt(found.chance_near * (1 - found.chance_near) / max(found.shared, 1)) + 0.05
    fits = expected / RATIO <= found.shared <= expected * RATIO
    if fits and near <= found.chance_near + spread and apart:
        why = f"{found.shared} files shared at unrelated times, {expected:.0f} expected under independent orders"
        return Label.OWN_ORDER, why
    why = f"{found.shared} files shared, {expected:.0f} expected under independent orders, {near:.0%} of them at the same time"
    return Label.CANNOT_TELL, f"{why}: neither one order nor independent ones"


def _never_again(found: Overlap, ranks: int) -> bool:
    """No rank met its own file again, although a split over several epochs would make 1 in ``ranks`` repeats such a one."""
    return found.own_repeats == 0 and found.unexplained >= 9.3 / -math.log(1 - 1 / ranks)


def _no_own_order(found: Overlap) -> bool:
    expected = found.expected_own or 0.0
    return (found.shared <= 1 and expected >= MIN_EXPECTED) or (found.unexplained <= 1 and expected >= 40)


def _same_would_show(setting: Setting, per_rank: Mapping[int, int]) -> bool:
    """Whether one order would have shared at least 12 files: of n opens caught by a rank, another catches the share it sees."""
    counts = sorted(per_rank.get(rank, 0) for rank in per_rank)[-2:]
    if setting.per_rank_per_s is None:
        return min(counts) >= 50
    opened = setting.per_rank_per_s * setting.window_s
    return min(counts) * min(1.0, min(counts) / max(opened, 1.0)) >= MIN_EXPECTED


def _reads_too_much(setting: Setting, per_rank: Mapping[int, int]) -> str | None:
    """A rank that opens far more files than it trains on keeps only some of them: a split by skipping looks shared."""
    if setting.per_rank_per_s is None:
        return None
    trained = setting.per_rank_per_s * setting.window_s
    most = max(per_rank.values())
    if most > 1.6 * trained + 20:
        return f"a rank opened {most} files while it trained on about {trained:.0f}: it may read all and keep its share"
    return None


def sharing_groups(visits: Sequence[Visit], near_s: float) -> tuple[tuple[int, ...], ...]:
    """Ranks that read the same files at the same time, as groups; a rank that shares with nobody is a group of one.

    Two ranks belong together if they share, at the same time, at least 3 files and 30 % of what the quieter one opened.
    """
    times: dict[Hashable, list[Visit]] = defaultdict(list)
    for each in visits:
        times[each.path].append(each)
    together: Counter[tuple[int, int]] = Counter()
    for opened in times.values():
        pairs = {
            (min(a.rank, b.rank), max(a.rank, b.rank))
            for i, a in enumerate(opened)
            for b in opened[i + 1 :]
            if a.rank != b.rank and abs(a.t - b.t) <= near_s
        }
        together.update(pairs)
    counts = Counter(each.rank for each in visits)
    group = {rank: {rank} for rank in counts}
    for (a, b), shared in together.items():
        if shared >= max(3, 0.3 * min(counts[a], counts[b])):
            merged = group[a] | group[b]
            for rank in merged:
                group[rank] = merged
    return tuple(sorted({tuple(sorted(members)) for members in group.values()}))


def classify_unattributed(opens: Sequence[tuple[float, Hashable]], setting: Setting) -> Overlap:
    """Label opens whose rank is not known (inotify): by how often a file is opened, and how many distinct files a second.

    A split opens K x b x r distinct files a second, each once an epoch; one order only b x r, each K times within moments (one
    reader may open a file several times, so the distinct files a second decide, not the opens); independent orders open files
    again at unrelated times. Other readers of the same files, or a rate that is not known, take away the verdict.
    """
    marked = [Visit(t, 0, path) for t, path in opens]
    visits = visits_of(marked, setting.near_s)
    if len(visits) < 10:
        return Overlap(Label.CANNOT_TELL, f"{len(visits)} opens are too few", len(visits))
    if not setting.per_rank_per_s:
        return Overlap(Label.CANNOT_TELL, "without the samples per second, opens of unknown ranks tell nothing", len(visits))
    epoch = setting.split_epoch_s
    shared = unexplained = 0
    expected = 0.0
    for piece in pieces(visits, epoch / 2 if epoch else math.inf):
        again: dict[Hashable, list[float]] = defaultdict(list)
        for each in piece:
            again[each.path].append(each.t)
        repeated = [times for times in again.values() if len(times) > 1]
        spans = [(times[0] - setting.guard_s, times[1] + setting.guard_s) for times in repeated if len(times) == 2]
        shared += len(repeated)
        unexplained += len(repeated) - most_explained(spans)
        if setting.files:
            expected += expected_shared([round(len(piece) / setting.ranks)] * setting.ranks, setting.files)
    one_order = len(visits) / (setting.per_rank_per_s * setting.window_s)
    base = Overlap(
        Label.CANNOT_TELL,
        "",
        visits=len(visits),
        distinct=len({each.path for each in visits}),
        shared=shared,
        unexplained=unexplained,
        expected_own=expected if setting.files else None,
    )
    label, why = _label_unattributed(base, setting, one_order, len(opens) / len(visits))
    return _with(base, label, why)


def _label_unattributed(found: Overlap, setting: Setting, one_order: float, each: float) -> tuple[Label, str]:
    """``one_order``: files a second over those that one rank trains on; ``each``: opens per visit."""
    rate = f"{one_order:.2g} files are opened for each one that a rank trains on, by {setting.ranks} ranks"
    expected = found.expected_own
    if one_order > 1.6 * setting.ranks:
        return Label.CANNOT_TELL, f"{rate}: something else reads them too, or a rank reads more than it keeps"
    if 0.6 <= one_order <= 1.4 and each >= 0.75 * setting.ranks:
        return Label.SAME_ORDER, f"{rate}, each {each:.1f} times within moments"
    if one_order < 0.65 * setting.ranks:
        return Label.CANNOT_TELL, f"{rate}: fits neither one order nor one file for each rank"
    if found.unexplained >= MIN_SHARED and expected and expected / RATIO <= found.shared <= expected * RATIO:
        return Label.OWN_ORDER, f"{found.shared} files opened again at unrelated times, {expected:.0f} expected; {rate}"
    if expected is not None and _no_own_order(found):
        return Label.SPLIT, f"{found.shared} files opened again, {expected:.0f} expected under independent orders; {rate}"
    if found.shared <= max(1.0, RATIO * (expected or 0.0)):
        return Label.NOT_SAME_ORDER, f"{rate}: one order would open only one"
    return Label.CANNOT_TELL, f"{found.shared} files opened again, {expected or 0:.2g} expected under independent orders"
