"""The `needs` mark: by name and with the way to install; under CI=true an error instead of a skip."""

from __future__ import annotations

import pytest
from programs import find_program, how_to_install, missing


def test_a_missing_program_is_skipped_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="sshd is missing: apt-get install openssh-server"):
        missing("sshd", how_to_install("sshd"))


def test_in_ci_it_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="iostat is missing: apt-get install sysstat"):
        missing("iostat", how_to_install("iostat"))


def test_programs_are_looked_for_by_all_their_names() -> None:
    assert find_program("sh")
    assert find_program("no-such-program-at-all") is None
