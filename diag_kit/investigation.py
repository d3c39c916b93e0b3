"""The ledger of an investigation and the loop that fills it: observe, calculate, hypothesize, verify.

Append-only. Nothing is overwritten: a calculation that replaces another says so, a hypothesis that changes is entered anew.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from diag_kit.argument_checks import (
    POSTMORTEM,
    RECORDING,
    calculator_or_refuse,
    cause_or_refuse,
    host_or_refuse,
    path_or_refuse,
    pid_or_refuse,
    probe_or_refuse,
    seconds_or_refuse,
)
from diag_kit.calculate.calculator import Calculator, all_calculators
from diag_kit.errors import BadInput, Cancelled, DiagError, NothingToObserve, NotRecorded
from diag_kit.evidence import Evidence
from diag_kit.hosts.protocol import Host
from diag_kit.hosts.recorded import RecordedHost, RecordingHost, replay
from diag_kit.hypothesize.catalogue import all_causes
from diag_kit.hypothesize.ranking import ask_rule, rank
from diag_kit.observe.known_facts import checked
from diag_kit.observe.probe import Probe, as_far_as_it_came, from_recording, not_observed, observe
from diag_kit.observe.told import Told
from diag_kit.progress import STOPPED, Listener, NextProbe, Progress, stopped_early
from diag_kit.recording import Recording, Saved, save
from diag_kit.records import (
    Calculation,
    Cost,
    Entry,
    Hypothesis,
    Note,
    Observation,
    Status,
    Value,
    Verification,
)
from diag_kit.verify.decide import all_tests

if TYPE_CHECKING:
    from diag_kit.redaction import Redactor
    from diag_kit.show.board import Board

E = TypeVar("E", bound=Entry)
_LETTER: dict[type, str] = {Observation: "O", Calculation: "C", Hypothesis: "H", Verification: "V"}
_DECIDED = (Status.CONFIRMED, Status.REFUTED)


QUESTION = "Why is this run slow?"
"""What is asked where nobody said what."""


class Findings(tuple[Hypothesis, ...]):
    """Hypotheses, best first. ``partial``: the diagnosis behind them was stopped by the user."""

    partial: bool = False

    def __repr__(self) -> str:
        told = [(found.status.value, found.claim) for found in self if found.status is not Status.REFUTED]
        told += [("not the cause", found.title) for found in self if found.status is Status.REFUTED]
        lines = [f"{place}  {status}  {text}" for place, (status, text) in enumerate(told, 1)]
        return "\n".join([f"!! {STOPPED}", *lines] if self.partial else lines)


class Investigation:
    """One question about one host, and everything seen, computed, claimed and tested on the way to its answer."""

    def __init__(self, host: Host, question: str = "") -> None:
        """``question`` not given: the one that the recording was made for, else "Why is this run slow?"."""
        self.host = host_or_refuse(host)
        self.question = question or (host.recording.question if isinstance(host, RecordedHost) else "") or QUESTION
        self.recorder = RecordingHost(host)
        self._entries: list[Entry] = []
        self._counts: dict[str, int] = {}
        self._findings = Findings()
        self._listeners: list[Listener] = []
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._unattended = False
        self._origin = host.recording if isinstance(host, RecordedHost) else Recording()

    def __repr__(self) -> str:
        counts = ", ".join(f"{n} {letter}" for letter, n in sorted(self._counts.items()))
        return f"<Investigation of {self.host.name}: {self.question!r} ({counts or 'nothing yet'})>"

    def __str__(self) -> str:
        """The screen that the command line prints: ``print(inv)``."""
        from diag_kit.show.text import screen

        return screen(self)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        from diag_kit.show.page import page
        from diag_kit.show.text import screen

        return {"text/plain": screen(self), "text/html": page(self)}

    # -- what is known -------------------------------------------------------------------------------------------

    @property
    def about(self) -> str:
        """Empty for a live host; else what must be said wherever results are shown, such as "recorded (reconstruction)"."""
        return self.host.about

    @property
    def redactions(self) -> Mapping[str, int]:
        """What was replaced when the recording behind this investigation was saved: kind -> places."""
        return self._origin.redactions

    @property
    def entries(self) -> tuple[Entry, ...]:
        with self._lock:
            return tuple(self._entries)

    @property
    def evidence(self) -> Evidence:
        return Evidence(self.entries)

    @property
    def findings(self) -> Findings:
        """The newest ranked hypotheses."""
        return self._findings

    def __getitem__(self, id: str) -> Entry:
        """The card with that id: ``inv["O3"]``."""
        for entry in self.entries:
            if getattr(entry, "id", "") == id:
                return entry
        raise BadInput(f"no card is called {id}", next_step="ids look like O1, C1, H1, V1")

    # -- the loop ------------------------------------------------------------------------------------------------

    def observe(self, probe: Probe) -> Observation:
        """Run a probe. What could not be observed is a card too: its problems say why. Only a cancel is raised."""
        asked = probe_or_refuse(probe)
        try:
            return self.enter(self.look(asked, self.evidence))
        except Cancelled:
            if not self._unattended:  # else the rest of the loop must hear of it too
                self._stop.clear()
            raise

    def look(self, probe: Probe, known: Evidence) -> Observation:
        """Run a probe without entering it (several may run at once); a failure becomes an observation with problems."""
        begun = time.monotonic()
        self._tell_listeners(Progress(probe.name, probe.budget_s))
        try:
            seen = self._ask(probe, known)
            if self._stop.is_set():
                seen = as_far_as_it_came(seen)
        except Cancelled:
            self._tell_listeners(Progress(probe.name, probe.budget_s, time.monotonic() - begun, True, "cancelled"))
            raise
        except DiagError as error:
            seen = not_observed(probe, error)
        failed = "" if seen.ok else seen.parsed.problems[0]
        self._tell_listeners(Progress(probe.name, probe.budget_s, time.monotonic() - begun, True, failed))
        return seen

    def _ask(self, probe: Probe, known: Evidence) -> Observation:
        try:
            return observe(probe, self.recorder, known, self._stop)
        except (NotRecorded, NothingToObserve):
            turn = sum(entry.probe == probe.name for entry in known.observations)
            held = from_recording(probe, self._origin.entries, turn)
            if held is not None:
                return held
            if isinstance(self.host, RecordedHost):
                raise NotRecorded(
                    f"{probe.name} was not recorded here",
                    where=f"{self.host.name} ({self.about})",
                    next_step="ask what was recorded, or connect to the live host",
                ) from None
            raise

    def tell(
        self, name: str, value: Value, unit: str = "", source: str = "told by the user", *, other: bool = False
    ) -> Observation:
        """State a fact that the host cannot show: ``inv.tell("one_gpu_steps_per_s", 6, "steps/s")``.

        ``diag_kit.observe.known_facts`` lists the names, units and meanings (``python -m diag_kit facts``). BadInput for an
        unknown name, another unit, or a value that cannot be; ``other=True`` enters a name that no calculation asks for.
        """
        value, unit = checked(name, value, unit, other=other)
        return self.observe(Told(name, value, unit, source))

    def calculate(self, *calculators: Calculator) -> tuple[Calculation, ...]:
        """Compute. A result that replaces a standing one of the same name supersedes it; an unchanged one is not repeated."""
        asked = [calculator_or_refuse(each) for each in calculators]
        return tuple(self._stand(made) for each in asked for made in self._compute(each))

    def _compute(self, calculator: Calculator) -> tuple[Calculation, ...]:
        """A fault in one calculator never hides the others."""
        try:
            return calculator.compute(self.evidence)
        except Exception as error:
            self.note(f"diag_kit's own fault: {calculator.name} could not be computed ({type(error).__name__}: {error})")
            return ()

    def recalculate(self, id: str, **assumptions: Value) -> tuple[Calculation, ...]:
        """Compute card ``id`` again with other assumptions, then everything that depends on it. Returns what changed."""
        old = self[id]
        if not isinstance(old, Calculation) or old.calculator not in all_calculators():
            raise BadInput(f"{id} is not a calculation that can be changed", next_step="give the id of one, such as C1")
        maker = all_calculators()[old.calculator]
        known = {field.name for field in dataclasses.fields(maker)}
        if unknown := sorted(set(assumptions) - known):
            raise BadInput(f"{id} has no assumption {', '.join(unknown)}", next_step=f"it has {', '.join(sorted(known))}")
        before = {made.id for made in self.evidence.calculations}
        self.calculate(maker(**{**old.parameters, **assumptions}))
        self.calculate(*self._standing_calculators())
        return tuple(made for made in self.evidence.calculations if made.id not in before)

    def _standing_calculators(self) -> list[Calculator]:
        """Each calculator once, in the order of first use, with the parameters last given to it."""
        makers = all_calculators()
        newest: dict[str, Calculator] = {}
        for made in (entry for entry in self.entries if isinstance(entry, Calculation)):
            if made.calculator in makers:
                newest[made.calculator] = makers[made.calculator](**made.parameters)
        return list(newest.values())

    def hypothesize(self) -> Findings:
        """Ask every rule of the catalogue what it makes of the evidence, and rank the answers."""
        evidence = self.evidence
        found = rank([ask_rule(cause, evidence) for cause in all_causes().values()])
        self._findings = Findings(self._restate(each) for each in found)
        self._findings.partial = self.partial
        return self._findings

    def verify(self, cause: str, careful: bool = False) -> Verification:
        """Run the deciding test of a cause, rung by rung, until it decides. Careful rungs only with ``careful=True``."""
        tests = all_tests()
        test = tests[cause_or_refuse(cause, tests)]
        outcome = test.judge(self.evidence)
        for probe in test.probes(self.evidence):
            if outcome.verdict in _DECIDED or self.evidence.fact("job_ended") is not None:
                break
            if probe.cost is Cost.STATE_CHANGING or (probe.cost is Cost.CAREFUL and not careful):
                continue
            self.observe(probe)
            outcome = test.judge(self.evidence)
        entered = self.enter(outcome)
        self.hypothesize()
        return entered

    def judge(self, cause: str) -> Verification:
        """The verdict of a cause's deciding test on what has been seen already; nothing is run."""
        tests = all_tests()
        entered = self.enter(tests[cause_or_refuse(cause, tests)].judge(self.evidence))
        self.hypothesize()
        return entered

    def next_probes(self) -> tuple[NextProbe, ...]:
        """What would decide most between the causes that remain, best first."""
        from diag_kit.verify.next_probe import next_probes

        return next_probes(self.evidence, self.findings)

    def diagnose(self, seconds: float = 20, log: str | None = None, pid: int | None = None) -> Findings:
        """The whole loop unattended: find the training, look at everything cheap, calculate, hypothesize, decide.

        ``seconds`` is the sampling window. Read-only throughout; careful tests stay for the user to ask for.
        """
        from diag_kit.sweep import diagnose

        window_s, chosen = seconds_or_refuse(seconds), pid_or_refuse(pid)
        self._stop.clear()
        self._unattended = True
        try:
            found = diagnose(self, seconds=window_s, log=None if log is None else str(log), pid=chosen)
            found.partial = self.partial
            return found
        finally:
            self._unattended = False
            self._stop.clear()

    def cancel(self) -> None:
        """Stop what runs now. Everything observed so far stays."""
        self._stop.set()

    @property
    def partial(self) -> bool:
        """Whether the newest diagnosis was stopped by the user before its end."""
        return stopped_early(self.entries)

    @property
    def stop(self) -> threading.Event:
        return self._stop

    # -- entering ------------------------------------------------------------------------------------------------

    def enter(self, entry: E) -> E:
        """Give the entry its id and append it."""
        with self._lock:
            letter = _LETTER.get(type(entry))
            if letter:
                self._counts[letter] = self._counts.get(letter, 0) + 1
                entry = _with_id(entry, f"{letter}{self._counts[letter]}")
            self._entries.append(entry)
        self._tell_listeners(entry)
        return entry

    def note(self, text: str) -> Note:
        """A line for the timeline."""
        return self.enter(Note(text, datetime.now(UTC)))

    def _stand(self, made: Calculation) -> Calculation:
        standing = self.evidence.calculation(made.name)
        if standing is None:
            return self.enter(made)
        if dataclasses.replace(standing, id="", supersedes="") == made:
            return standing
        return self.enter(dataclasses.replace(made, supersedes=standing.id))

    def _restate(self, found: Hypothesis) -> Hypothesis:
        earlier = [e for e in self.entries if isinstance(e, Hypothesis) and e.cause == found.cause]
        if earlier and dataclasses.replace(earlier[-1], id="") == found:
            return earlier[-1]
        return self.enter(found)

    # -- listening -----------------------------------------------------------------------------------------------

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` with every Progress and Entry, from whichever thread works. Returns how to end it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    def _tell_listeners(self, event: Progress | Entry) -> None:
        for listener in tuple(self._listeners):
            listener(event)

    # -- keeping and showing -------------------------------------------------------------------------------------

    def save(self, path: str | Path, *, title: str = "", reconstructed_from: str = "", redactor: Redactor | None = None) -> Saved:
        """Save ledger and raw outputs as one redacted ``*.diag.zip``, atomically. The answer says what was replaced.

        ``reconstructed_from`` marks the recording as a reconstruction, wherever it is shown; a re-opened one keeps its mark.
        """
        target = path_or_refuse(path, RECORDING, "a recording")
        kept = dataclasses.replace(
            self._origin,
            entries=self.entries,
            question=self.question,
            title=title or self._origin.title,
            provenance="reconstruction" if reconstructed_from else self._origin.provenance,
            provenance_text=reconstructed_from or self._origin.provenance_text,
            hosts=self._origin.hosts or (self.host.name,),
            extra=(*self._origin.extra, *self.recorder.results),
            failures=(*self._origin.failures, *self.recorder.failures),
        )
        return save(target, kept, redactor=redactor)

    @classmethod
    def open(cls, path: str | Path) -> Investigation:
        """Re-open a saved investigation; its host is the recording, so the same questions get the same answers."""
        host = replay(path)
        opened = cls(host, host.recording.question)
        opened._load(host.recording.entries)
        return opened

    def _load(self, entries: Iterable[Entry]) -> None:
        newest: dict[str, Hypothesis] = {}
        for entry in entries:
            self._entries.append(entry)
            letter = _LETTER.get(type(entry))
            if letter:
                self._counts[letter] = self._counts.get(letter, 0) + 1
            if isinstance(entry, Hypothesis):
                newest[entry.cause] = entry
        self._findings = Findings(rank(list(newest.values())))
        self._findings.partial = self.partial

    def board(self) -> Board:
        """The widget: four columns of cards, the best finding, the next probe."""
        from diag_kit.show.board import Board

        return Board(self)

    def postmortem(self, path: str | Path) -> Path:
        """Write the postmortem as Markdown or as one self-contained HTML file, by the suffix."""
        from diag_kit.postmortem import write

        return write(self, path_or_refuse(path, POSTMORTEM, "a postmortem"))


def _with_id(entry: E, id: str) -> E:
    return dataclasses.replace(entry, id=id)  # type: ignore[arg-type]
