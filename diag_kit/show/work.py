"""Work behind the panel: one job at a time in a thread of its own, with elapsed time, budget, cancel, and errors as sentences.

The threads here only set plain state and call ``changed``; whoever shows it sets traits. Nothing prints.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from diag_kit.errors import Cancelled, DiagError
from diag_kit.progress import Progress

TICK_S = 0.5


@dataclass(frozen=True, slots=True)
class Trouble:
    """An error as the panel shows it."""

    what: str
    where: str
    next_step: str


def trouble_of(error: BaseException) -> Trouble:
    """What, where, next; for a fault of the kit itself, that it is one."""
    if isinstance(error, DiagError):
        return Trouble(error.what, error.where, error.next_step)
    return Trouble(
        f"{type(error).__name__}: {error}",
        "inside diag_kit: this is a fault of the kit, not of your run",
        "everything seen so far is kept; save it with inv.save(...) and report this line",
    )


class Running:
    """What runs now: fed with Progress events from any thread, read as one line and a fraction."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun: dict[str, tuple[float, float]] = {}

    def feed(self, event: Progress) -> None:
        with self._lock:
            if event.done:
                self._begun.pop(event.doing, None)
            else:
                self._begun[event.doing] = (time.monotonic() - event.elapsed_s, event.budget_s)

    def clear(self) -> None:
        with self._lock:
            self._begun.clear()

    @property
    def busy(self) -> bool:
        with self._lock:
            return bool(self._begun)

    def state(self) -> tuple[str, float]:
        """The line ("gpus, iostat: 12 of 20 s") and how much of the longest budget is used, 0 to 1."""
        with self._lock:
            begun = dict(self._begun)
        if not begun:
            return "", 0.0
        now = time.monotonic()
        first = min(at for at, _ in begun.values())
        budget = max(limit for _, limit in begun.values())
        elapsed = now - first
        names = ", ".join(sorted(name.replace("_", " ") for name in begun))
        of = f" of {budget:.0f} s" if budget else " s"
        late = ", longer than planned" if budget and elapsed > 1.2 * budget + 1 else ""
        return f"{names}: {elapsed:.0f}{of}{late}", min(1.0, elapsed / budget) if budget else 0.0


class Worker:
    """Runs one thing at a time off the kernel's main thread."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._thread: threading.Thread | None = None
        self.trouble: Trouble | None = None
        self.cancelled = False

    @property
    def busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self, work: Callable[[], object]) -> bool:
        """Begin; False when something runs already."""
        if self.busy:
            return False
        self.trouble, self.cancelled = None, False
        self._thread = threading.Thread(target=self._run, args=(work,), name="diag_kit board", daemon=True)
        self._thread.start()
        return True

    def wait(self, timeout_s: float | None = None) -> None:
        """Until the present work is done (for tests and scripts)."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _run(self, work: Callable[[], object]) -> None:
        try:
            work()
        except Cancelled:
            self.cancelled = True
        except Exception as error:
            self.trouble = trouble_of(error)
        finally:
            self._thread = None
            self._changed()
