"""A recording as a host, and the host that makes one: the same question gets the same bytes."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Literal

from diag_kit.errors import BadInput, Cancelled, DiagError, NotRecorded
from diag_kit.hosts.protocol import DEFAULT_MAX_BYTES, DEFAULT_TIMEOUT_S, Host, render
from diag_kit.recording import SUFFIX, FailedCommand, Recording, open_recording
from diag_kit.records import CommandResult


class RecordingHost:
    """Passes every command through to ``inner`` and keeps what came back, up to ``max_bytes`` of output in all."""

    def __init__(self, inner: Host, max_bytes: int = 256 * 2**20) -> None:
        self.inner = inner
        self.dropped = 0
        self._room = max_bytes
        self._results: list[CommandResult] = []
        self._failures: list[FailedCommand] = []
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def kind(self) -> str:
        return self.inner.kind

    @property
    def about(self) -> str:
        return self.inner.about

    @property
    def results(self) -> tuple[CommandResult, ...]:
        """Everything kept, in the order in which it came back."""
        with self._lock:
            return tuple(self._results)

    @property
    def failures(self) -> tuple[FailedCommand, ...]:
        """Commands that the host could not run."""
        with self._lock:
            return tuple(self._failures)

    def run(
        self,
        script: str,
        *arguments: str,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        max_bytes: int = DEFAULT_MAX_BYTES,
        stop: threading.Event | None = None,
    ) -> CommandResult:
        started, begun = datetime.now(UTC), time.monotonic()
        try:
            result = self.inner.run(script, *arguments, timeout_s=timeout_s, max_bytes=max_bytes, stop=stop)
        except (Cancelled, NotRecorded):
            raise
        except DiagError as error:
            if self.inner.kind == "recorded":  # it is in that recording already
                raise
            self._keep_failure(error, render(script, arguments), started, time.monotonic() - begun)
            raise
        self._keep(result)
        return result

    def close(self) -> None:
        self.inner.close()

    def _keep(self, result: CommandResult) -> None:
        size = len(result.stdout) + len(result.stderr)
        with self._lock:
            if size > self._room:
                self.dropped += 1
                return
            self._room -= size
            self._results.append(result)

    def _keep_failure(self, error: DiagError, command: str, started: datetime, duration_s: float) -> None:
        failed = FailedCommand(
            self.name, command, type(error).__name__, error.what, error.where, error.next_step, started, duration_s
        )
        with self._lock:
            self._failures.append(failed)


class RecordedHost:
    """Answers from a recording. The n-th asking of a command gets its n-th answer, later ones the last again."""

    kind = "recorded"

    def __init__(self, recording: Recording, name: str, pace: Literal["instant", "recorded"] = "instant") -> None:
        self.recording = recording
        self.name = name
        self.pace = pace
        self._answers: dict[str, list[CommandResult | FailedCommand]] = defaultdict(list)
        answers: list[CommandResult | FailedCommand] = [*recording.results, *recording.failures]
        for answer in sorted(answers, key=lambda each: each.started):
            self._answers[answer.command].append(answer)
        self._asked: dict[str, int] = defaultdict(int)
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<{self.about}: {self.recording.title or self.name}, {len(self._answers)} commands>"

    @property
    def about(self) -> str:
        """What must be said wherever results are shown: "recorded", or "recorded (reconstruction)"."""
        return self.recording.about

    def run(
        self,
        script: str,
        *arguments: str,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        max_bytes: int = DEFAULT_MAX_BYTES,
        stop: threading.Event | None = None,
    ) -> CommandResult:
        answer = self._next(render(script, arguments), script, arguments)
        if self.pace == "recorded" and (stop or threading.Event()).wait(answer.duration_s):
            raise Cancelled("stopped while a recorded command was replayed", where=self.name)
        if isinstance(answer, FailedCommand):
            raise answer.exception()
        return answer

    def close(self) -> None:
        """Nothing is open."""

    def _next(self, command: str, script: str, arguments: tuple[str, ...]) -> CommandResult | FailedCommand:
        with self._lock:
            answers = self._answers.get(command)
            if not answers:
                raise self._not_recorded(script, arguments)
            place = min(self._asked[command], len(answers) - 1)
            self._asked[command] += 1
            return answers[place]

    def _not_recorded(self, script: str, arguments: tuple[str, ...]) -> NotRecorded:
        lines = [line.strip() for line in script.strip().splitlines() if line.strip()]
        asked = " ".join([*lines[:1], *arguments])[:120]
        return NotRecorded(
            f"not recorded: {asked}",
            where=f"{self.name} ({self.about}; it holds {len(self._answers)} commands)",
            next_step=self._held_instead(script) or "ask what was recorded, or connect to the live host",
        )

    def _held_instead(self, script: str) -> str:
        """With what else the same script was asked: mostly a path or a pid that the recording holds under a pseudonym."""
        start = render(script, ())
        others = [command.removeprefix(start).strip() for command in self._answers if command.startswith(start)]
        if not others:
            return ""
        shown = "; ".join(other[:80] or "no argument" for other in others[:3])
        return f"the same was recorded with: {shown}" + (f" and {len(others) - 3} more" if len(others) > 3 else "")


def shipped_recordings() -> tuple[str, ...]:
    """Names of the recordings that come with the kit."""
    folder = resources.files("diag_kit") / "recordings"
    if not folder.is_dir():
        return ()
    return tuple(sorted(each.name.removesuffix(SUFFIX) for each in folder.iterdir() if each.name.endswith(SUFFIX)))


def replay(name_or_path: str | Path, pace: Literal["instant", "recorded"] = "instant") -> RecordedHost:
    """A shipped recording by name, or a ``*.diag.zip`` by path, as a host. Contacts nothing.

    ``pace="recorded"`` takes as long as the commands did. Raises BadInput for an unknown name or a damaged file.
    """
    text = str(name_or_path)
    if text in shipped_recordings():
        with resources.as_file(resources.files("diag_kit") / "recordings" / (text + SUFFIX)) as path:
            return RecordedHost(open_recording(path), text, pace)
    path = Path(text).expanduser()
    if not _is_file(path):
        raise BadInput(
            f"there is no recording called {text[:200]!r}",
            next_step=f"give a path, or one of: {', '.join(shipped_recordings()) or 'none is shipped'}",
        )
    recording = open_recording(path)
    stem = path.name.removesuffix(SUFFIX)
    of = ", ".join(host for host in recording.hosts[:3] if host != stem)
    return RecordedHost(recording, f"{of} in {stem}" if of else stem, pace)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name too long for a path, or with a NUL
        return False
