"""Facts that a training states in words, mostly when it starts: dataset, loader length, batch, world size, schedule."""

from __future__ import annotations

import re
from collections import Counter

from diag_kit.observe.logs.fact_rules import classify
from diag_kit.observe.logs.fact_words import SAMPLE, STEP, TRAIN, VAL, Stated, words_of
from diag_kit.observe.logs.line import Line
from diag_kit.observe.logs.numbers import to_float
from diag_kit.observe.logs.pairs import Pair, find_dicts, text_pairs
from diag_kit.observe.logs.trouble import MAX_TEXT, Trouble
from diag_kit.records import Fact

_HINT = re.compile(
    r"node|machine|running|initiali|sampl|exampl|file|row|image|data|loader|batch|epoch|step|iter|world|parallel|[tpcds]p_size|proc|gpu|rank|worker|accum|warm|\blr\b|learning"
    r"|seq|param|token|resum|continu|restor|log|print|train|length|len\(|record|version|split|size|items|member|speculators",
    re.IGNORECASE,
)
_REMARK = re.compile(r"(?<!len)\((?!train|val|test|eval)(?=[^()]*[A-Za-z&])(?:[^()=:\d]|w\.)*\)(?=\s*[:=])")
_EVAL_BANNER = re.compile(r"\bRunning (\w+)\s{1,4}\*{2,}", re.IGNORECASE)
_RESUME = re.compile(
    r"(?:resum|continu|restor|restart)[^.\n]{0,120}?(?:global[_ ]?step|step|iteration|iter)s?"
    r"\s{0,3}[=:#]?\s{0,3}(\d[\d,]{0,14})(?!\d)"
    r"|(?:resum|continu|restor)[^\n]{0,200}?checkpoint[-_](\d{1,12})(?!\d)",
    re.IGNORECASE,
)
_RESUME_GLOBAL = re.compile(r"resum\w*\b.*?global_step\s{0,3}=\s{0,3}(\d{1,14})", re.IGNORECASE)
_MEMBER = re.compile(r"(?:GLOBAL_)?RANK: (\d{1,6}), MEMBER: \d{1,6}/(\d{1,6})")
_STARTED = re.compile(
    r"(?:start|initiali[sz]|\binit\b|\binit_|join|set[ -]?up|launch|spawn|register|ready|connect)\w*\b.{0,80}?"
    r"(?:(?P<kind>local|global|world)_?)?rank\s{0,2}[=:#]?\s{0,2}(?P<after>\d{1,6})"
    r"|rank\s{0,2}[=:#]?\s{0,2}(?P<before>\d{1,6})\b.{0,60}?(?:start|initiali[sz]|join|ready|set up|init)\w*",
    re.IGNORECASE,
)
_RANK_STARTED = re.compile(
    r"(?:has )?(?:start|initiali[sz]|join|ready|connect|set up)\w*.{0,40}?(?:distribut|process.?group|nccl|gloo|ddp|fsdp)",
    re.IGNORECASE,
)
_DONE = re.compile(r"\bepoch\b.{0,40}?(\d{1,6}).{0,40}?\b(?:done|finished|completed?|took|cost|ended|end)\b", re.IGNORECASE)
_EPOCH_OF = re.compile(r"\bepochs?\s{0,2}:?\s{0,2}\[?(\d{1,6})\s{0,2}(?:/|of)\s{0,2}(\d{1,6})(?![\d.%])\]?", re.IGNORECASE)
_RANK_ZERO = re.compile(
    r"\b(?:log|print|report|output|metric)\w*\b.{0,60}(?:\bonly\b.{0,30}\brank\s?0|\brank\s?0 only)"
    r"|\b(?:only rank\s?0|rank\s?0 only)\b.{0,20}\b(?:log|print|report|output)",
    re.IGNORECASE,
)
_NO_RESUME = re.compile(r"\b(?:until|up to|every|not|without|to resume|can be|could be|may be|if you)\b|--resume", re.IGNORECASE)
"""Beside a word for going on: an end, advice, or a denial, but no step that was resumed from."""
_NO_VERSION = re.compile(r"\b(?:requires?|needs?|need|upgrade|install|old|unsupported|not)\b", re.IGNORECASE)
_PART_OF_EPOCH = re.compile(r"\b(?:valid|val\b|eval|test|sav|checkpoint|load|download)", re.IGNORECASE)
"""What takes its time in an epoch without being the epoch."""
_VERSION = re.compile(
    r"\b(speculators|transformers|deepspeed|lightning|accelerate|torchtitan|composer)"
    r"(?: version|==| v|[ :])\s?v?(\d+\.\d+[\w.+]*)",
    re.IGNORECASE,
)
_RUN_ENDED = {
    "train_runtime": ("run_s", "s"),
    "train_samples_per_second": ("run_samples_per_s", "samples/s"),
    "train_steps_per_second": ("run_steps_per_s", "steps/s"),
}
_SPACED = re.compile(r"(?<=\d)\s(?=(?:[KMGTP]i?B|[MB])\b)")
MAX_FACTS = 200
_FORGET_AFTER = 3


class StartUp:
    """Collects facts line by line; each (name, value) once, with the line that says it."""

    def __init__(self) -> None:
        self._stated: dict[tuple[str, object], tuple[int, int, Fact]] = {}
        self._fruitless: Counter[str] = Counter()
        self._started: dict[str, set[int]] = {"local": set(), "global": set()}
        self._started_source = ""
        self._evaluating = False
        self._order = 0
        self._rank: int | None = None
        self._samples_by: set[int] = set()
        self._trouble = Trouble()

    def begin_file(self) -> None:
        self._evaluating = False

    def take(self, line: Line, file: str, before_metrics: bool) -> None:
        """One message that is no metric record."""
        text = line.text
        self._rank = line.rank
        for stated in self._trouble.of(text, f"{file} line {line.last}: {quoted(text[:MAX_TEXT])}"):
            self._state(stated, f"{file} line {line.last}: {quoted(text[:MAX_TEXT])}")
        if len(text) > 4000 or not _HINT.search(text):
            return
        shape = re.sub(r"\d+", "0", text[:200])
        if self._fruitless[shape] >= _FORGET_AFTER:
            return
        known = len(self._stated) + sum(map(len, self._started.values()))
        source = f"{file} line {line.last}: {quoted(text)}"
        banner = _EVAL_BANNER.search(text)
        if banner:
            self._evaluating = not banner[1].lower().startswith("train")
            if not self._evaluating:
                self._say("framework", "transformers Trainer or alike", source)
        self._sentences(text, line, source)
        if "train_runtime" in text:
            self._run_ended(text, source)
        elif not _DONE.search(text):
            self._pairs(text, source, before_metrics)
        if len(self._stated) + sum(map(len, self._started.values())) == known and len(self._fruitless) < 20_000:
            self._fruitless[shape] += 1

    def _state(self, stated: Stated, source: str) -> None:
        key = (stated.name, stated.value)
        if stated.name == "train_samples" and self._rank is not None:
            self._samples_by.add(self._rank)
        self._order += 1
        old = self._stated.get(key)
        if old is None and len(self._stated) < MAX_FACTS:
            self._stated[key] = (stated.strength, self._order, _fact(stated, source))
        elif old is not None and stated.strength > old[0]:
            self._stated[key] = (stated.strength, old[1], _fact(stated, source))

    def _sentences(self, text: str, line: Line, source: str) -> None:
        member = _MEMBER.search(text)
        if member:
            self._state(Stated("world_size", int(member[2]), "ranks"), source)
            self._start(int(member[1]), "global", source)
        elif "ank" in text or "ANK" in text:
            started = _STARTED.search(text)
            if (started and "istribut" in text) or (
                started and re.search(r"process.?group|ddp|fsdp|nccl|gloo", text, re.IGNORECASE)
            ):
                kind = "local" if (started["kind"] or "").lower() == "local" else "global"
                self._start(int(started["after"] or started["before"]), kind, source)
            if _RANK_ZERO.search(text):
                self._say("rank_filter", "rank 0 only", source)
        if line.rank is not None and line.rank_kind in ("global", "local") and _RANK_STARTED.match(text):
            self._start(line.rank, line.rank_kind, source)
        resume = _RESUME_GLOBAL.search(text) or _RESUME.search(text)
        if resume and not _NO_RESUME.search(text[: resume.end()]):
            step = next(group for group in resume.groups() if group)
            self._state(Stated("resume_step", int(step.replace(",", "")), "steps"), source)
        version = _VERSION.search(text)
        if version and not _NO_VERSION.search(text):
            self._say("library_version", f"{version[1].lower()} {version[2]}", source)
        epoch = _EPOCH_OF.search(text)
        if epoch and 0 < int(epoch[2]) >= int(epoch[1]) and "val" not in text[: epoch.start()].lower():
            self._state(Stated("epochs", int(epoch[2]), "", 1), source)
        done = _DONE.search(text)
        if done and not _PART_OF_EPOCH.search(text[: done.end()]):
            self._epoch_done(text, source)

    def _epoch_done(self, text: str, source: str) -> None:
        """``epoch 0 finished, 375 steps``: what one epoch really held, and how long it took."""
        pairs, _ = text_pairs(text)
        steps: float | None = None
        seconds: float | None = None
        for pair in pairs:
            value = to_float(pair.value)
            if value is None:
                continue
            words, after = set(words_of(pair.key)), set(words_of(" ".join(pair.after[:2])))
            if (words | after) & STEP and pair.explicit | bool(after & STEP) and value == int(value):
                steps = value
                self._state(Stated("epoch_steps_done", int(value), "steps"), source)
            elif words & {"time", "cost", "took", "duration"} and (pair.unit == "s" or after & {"s", "sec", "second"}):
                seconds = value
                self._state(Stated("epoch_s", value, "s"), source)
            elif words & {"sample", "example", "row"} and pair.explicit:
                self._state(Stated("epoch_samples_done", int(value), "samples"), source)
        if steps and seconds:
            self._state(Stated("epoch_step_s", float(f"{seconds / steps:.7g}"), "s"), source)

    def _run_ended(self, text: str, source: str) -> None:
        """The summary of a Hugging Face Trainer: ``{'train_runtime': 5081.1, 'train_samples_per_second': 22.2, ...}``."""
        for _, _, pairs in find_dicts(text):
            for pair in pairs:
                value = to_float(pair.value)
                if pair.key in _RUN_ENDED and value is not None and value == value:
                    name, unit = _RUN_ENDED[pair.key]
                    self._state(Stated(name, value, unit), source)

    def _start(self, rank: int, kind: str, source: str) -> None:
        self._started[kind].add(rank)
        self._started_source = self._started_source or source

    def _say(self, name: str, value: str, source: str) -> None:
        self._stated.setdefault((name, value), (2, self._order, Fact(name, value, source)))

    def _pairs(self, text: str, source: str, before_metrics: bool) -> None:
        clean = _SPACED.sub("", _REMARK.sub(" ", text)) if "(" in text or " " in text else text
        pairs: list[Pair] = []
        for start, end, inside in find_dicts(clean) if "{" in clean else ():
            pairs.extend(inside)
            clean = clean[:start] + " " * (end - start) + clean[end:]
        free, _ = text_pairs(clean)
        for pair in pairs:
            self._pair(pair, source, before_metrics)
        heading = _heading(clean)
        used = False
        for pair in free:
            if used and not pair.explicit:
                pair.key = ""  # its words belong to the number before: "35446 training files and 1866 validation files"
            elif heading and pair.key and set(words_of(pair.key)) <= TRAIN | VAL:
                pair.key = f"{heading} {pair.key}"
            used = self._pair(pair, source, before_metrics) and not pair.explicit and _used_its_after(pair)

    def _pair(self, pair: Pair, source: str, before_metrics: bool) -> bool:
        """Whether the pair states something."""
        value = to_float(pair.value)
        if value is None or pair.duration:
            return False
        words = set(words_of(pair.key))
        if pair.of and words & TRAIN and words & VAL and words & SAMPLE:  # "train/val samples: 35446/1866"
            for name, text in (("train_samples", pair.value), ("val_samples", pair.of)):
                self._state(Stated(name, int(to_float(text) or 0), "samples"), source)
            return True
        if pair.of:
            return False
        stated = classify(pair.key, value, pair.unit, pair.after, self._evaluating, pair.explicit)
        if stated is None or (not before_metrics and stated.strength < 2):
            return False
        self._state(stated, source)
        return True

    def _ranks_of_all_nodes(self) -> list[tuple[int, int, Fact]]:
        """Ranks a node x nodes. The launcher's own ``nproc_per_node`` alone is on one node (torchrun's default for --nnodes)."""
        per_node = self._only("ranks_per_node")
        nodes = self._only("nodes")
        if per_node is None or (nodes is None and per_node[0] < 2) or any(name == "world_size" for name, _ in self._stated):
            return []
        count = 1 if nodes is None else int(nodes[2].value or 1)
        source = per_node[2].source + (f"; {nodes[2].source}" if nodes is not None else "")
        return [(1, per_node[1], Fact("world_size", int(per_node[2].value or 0) * count, source, "ranks", 1))]

    def _only(self, name: str) -> tuple[int, int, Fact] | None:
        """The one statement of that fact; None where there is none or two that differ."""
        found = [entry for (stated, _), entry in self._stated.items() if stated == name]
        return found[0] if len(found) == 1 else None

    def facts(self) -> list[Fact]:
        """Weaker statements first, plain ones last, each group in the order of the log."""
        ordered = sorted([*self._stated.values(), *self._ranks_of_all_nodes()], key=lambda entry: (entry[0], entry[1]))
        facts = [fact for _, _, fact in ordered]
        facts += self._trouble.facts()
        if len(self._samples_by) > 1:  # each for the whole, or each for its own part: the split arithmetic must know
            source = next(fact.source for fact in reversed(facts) if fact.name == "train_samples")
            facts.append(Fact("train_samples_said_by", len(self._samples_by), source, "ranks"))
        started = max(self._started.values(), key=len)
        if started:
            facts.append(Fact("started_ranks", len(started), self._started_source, "ranks"))
        return facts


def _fact(stated: Stated, source: str) -> Fact:
    return Fact(stated.name, stated.value, source, stated.unit, stated.strength)


def quoted(text: str, limit: int = 100) -> str:
    """A log line as evidence quotes it: cut between words, and the cut shown."""
    line = text.strip()
    if len(line) <= limit:
        return line
    head = line[: limit - 1]
    whole = head if line[limit - 1].isspace() else head.rpartition(" ")[0]
    return f"{(whole if len(whole) > limit // 2 else head).rstrip(' ,;:')}…"


def _heading(text: str) -> str:
    """What stands before a colon and counts samples: ``Number of samples: train 35446, val 1866``."""
    head, colon, _ = text.partition(":")
    return head if colon and set(words_of(head)) & SAMPLE and not re.search(r"\d", head) else ""


def _used_its_after(pair: Pair) -> bool:
    """Whether the words behind the number were needed to tell what it is."""
    value = to_float(pair.value)
    return bool(pair.after) and (value is None or classify(pair.key, value, pair.unit, (), explicit=pair.explicit) is None)
