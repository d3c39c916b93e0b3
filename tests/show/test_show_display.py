"""What IPython shows for the kit's records, and that the kit does nothing outside IPython."""

from __future__ import annotations

import pytest
from show_cases import HOSTILE, calculations, founding, hypotheses, observations, result, verifications

from diag_kit.records import Fact
from diag_kit.show import display

IPython = pytest.importorskip("IPython")


@pytest.fixture
def shell() -> object:
    from IPython.core.interactiveshell import InteractiveShell

    made = InteractiveShell()
    assert display.register(made) is True
    assert display.register(made) is True, "twice is harmless"
    return made


def formats(shell: object, what: object) -> dict[str, str]:
    data, _ = shell.display_formatter.format(what)  # type: ignore[attr-defined]
    return data  # type: ignore[no-any-return]


def test_outside_ipython_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(display, "_shell", lambda: None)
    assert display.register() is False


def test_an_observation_as_last_line_is_a_card(shell: object) -> None:
    data = formats(shell, observations()[0])
    assert "<details" in data["text/html"] and "torchrun, 4 ranks" in data["text/html"]
    assert data["text/plain"] == "O1 training jobs: torchrun, 4 ranks, 04_train.py"


def test_each_record_has_html_and_text(shell: object) -> None:
    records = [*founding().entries, result("sh -c x", b"out"), Fact("world_size", 4, "log", "ranks")]
    for record in records:
        data = formats(shell, record)
        assert data["text/html"].startswith("<div") and data["text/plain"]
    assert formats(shell, records[-1])["text/plain"] == "world_size = 4 ranks (log)"
    assert formats(shell, calculations()[1])["text/plain"].startswith(
        "C2 step rate: 1.40 steps/s (1.33-1.47)\n    = new metric lines"
    )
    assert formats(shell, hypotheses()[0])["text/plain"].endswith("wins 26.4 h (25.2-27.7) of 35.2 h")
    assert formats(shell, verifications()[0])["text/plain"].startswith("V1 confirmed: ranks that print")


def test_a_tuple_of_calculations_is_a_list_of_cards(shell: object) -> None:
    data = formats(shell, tuple(calculations()))
    assert data["text/html"].count('<details class="dk-card"') == 10
    assert "<del>whole run" in data["text/html"]
    assert data["text/plain"].count("\n    = ") == 10


def test_other_tuples_are_left_alone(shell: object) -> None:
    assert formats(shell, (1, "a", ())) == {"text/plain": "(1, 'a', ())"}
    assert formats(shell, ()) == {"text/plain": "()"}
    assert formats(shell, (1,)) == {"text/plain": "(1,)"}


def test_findings_are_cards(shell: object) -> None:
    from diag_kit.investigation import Findings

    data = formats(shell, Findings(hypotheses()))
    assert data["text/html"].count('<details class="dk-card"') == 5
    assert data["text/plain"].splitlines()[0].startswith("H1 supported: each rank trains on the whole dataset")


def test_a_hostile_record_is_escaped(shell: object) -> None:
    data = formats(shell, Fact(HOSTILE, HOSTILE, HOSTILE, HOSTILE))
    assert "<script" not in data["text/html"] and "\x1b" not in data["text/plain"] and "\u202e" not in data["text/plain"]
