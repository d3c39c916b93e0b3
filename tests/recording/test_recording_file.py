"""The file: what goes in comes out, saving is atomic and repeatable, and whatever is not as it must be is refused."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import os
import random
import stat
import zipfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from recording_cases import NOON, ledger, observation, result, same_entries

from diag_kit import recording_archive
from diag_kit.errors import BadInput, CommandFailed, DiagError
from diag_kit.recording import FORMAT_VERSION, FailedCommand, Recording, open_recording, save

KEEP_ALL = ("email", "ip", "mac", "gpu_uuid", "serial", "user", "host")


def whole() -> Recording:
    return Recording(
        entries=ledger(),
        question="Why will this run take 35 hours?",
        title="A title",
        provenance="reconstruction",
        provenance_text="from the published figures",
        hosts=("trainbox",),
        extra=(result("uptime", out=b"up 3 days\n", after_s=5), result("date", out=b"Mon\n", after_s=2)),
        failures=(FailedCommand("trainbox", "sh -c x diag_kit", "CommandFailed", "it broke", "trainbox", "again", NOON, 1.5),),
        created=NOON,
        kept=KEEP_ALL,
    )


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return save(tmp_path / "case.diag.zip", whole()).path


def test_everything_comes_back(saved: Path) -> None:
    opened = open_recording(saved)
    same_entries(opened.entries, whole().entries)
    for field in dataclasses.fields(Recording):
        if field.name not in ("entries", "kept", "kit_version"):
            assert getattr(opened, field.name) == getattr(whole(), field.name), field.name
    assert opened.about == "recorded (reconstruction)"
    assert set(opened.kept) == set(KEEP_ALL)
    assert [each.stdout for each in opened.results][-2:] == [b"Mon\n", b"up 3 days\n"], "in the order of their start"


def test_an_empty_recording_comes_back(tmp_path: Path) -> None:
    opened = open_recording(save(tmp_path / "empty.diag.zip", Recording(created=NOON)).path)
    assert (opened.entries, opened.extra, opened.about) == ((), (), "recorded")


def test_equal_content_gives_equal_bytes(tmp_path: Path) -> None:
    first, second = (save(tmp_path / f"{name}.diag.zip", whole()).path.read_bytes() for name in "ab")
    assert first == second


def test_saving_what_was_opened_changes_nothing(saved: Path, tmp_path: Path) -> None:
    again = save(tmp_path / "again.diag.zip", open_recording(saved))
    assert again.path.read_bytes() == saved.read_bytes()


def test_equal_output_is_stored_once_and_the_ledger_is_not_repeated(tmp_path: Path) -> None:
    seen = result(out=b"x" * 1000)
    case = Recording(entries=(observation(seen),), extra=(seen, seen, result(out=b"x" * 1000, after_s=9)))
    path = save(tmp_path / "case.diag.zip", case).path
    with zipfile.ZipFile(path) as archive:
        raw = [name for name in archive.namelist() if name.startswith("raw/")]
        assert len(archive.read("commands.jsonl").splitlines()) == 1
    assert sorted(raw) == sorted(f"raw/{hashlib.sha256(data).hexdigest()}" for data in (b"x" * 1000, b""))
    assert len(open_recording(path).results) == 2


def test_the_manifest_says_what_it_is(saved: Path) -> None:
    with zipfile.ZipFile(saved) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        for name, digest in manifest["members"].items():
            assert hashlib.sha256(archive.read(name)).hexdigest() == digest
        assert set(manifest["members"]) == set(archive.namelist()) - {"manifest.json"}
    assert manifest["format_version"] == FORMAT_VERSION
    assert manifest["provenance"] == {"kind": "reconstruction", "text": "from the published figures"}
    assert manifest["created"] == "2026-11-30T12:00:00.250000Z"
    assert "after redaction" in manifest["hashes"]


# Saving is atomic


def test_a_failed_save_leaves_the_old_file(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = saved.read_bytes()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(recording_archive.os, "fsync", full)
    with pytest.raises(BadInput, match="No space left on device"):
        save(saved, Recording(question="other"))
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved], "no temporary file stays"


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="No such file or directory") as caught:
        save(tmp_path / "none" / "case.diag.zip", Recording())
    assert "none" in caught.value.where


def test_a_link_stays_a_link_and_the_mode_stays(saved: Path, tmp_path: Path) -> None:
    saved.chmod(0o640)
    link = tmp_path / "link.diag.zip"
    link.symlink_to(saved)
    save(link, Recording(question="new"))
    assert link.is_symlink() and open_recording(saved).question == "new"
    assert stat.S_IMODE(saved.stat().st_mode) == 0o640


def test_an_unknown_provenance_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="provenance"):
        save(tmp_path / "x.diag.zip", Recording(provenance="made up"))


def test_commands_beside_the_ledger_are_left_out_oldest_first_when_there_are_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diag_kit.recording.MAX_TOTAL_BYTES", 4000)
    many = tuple(result("cat", str(number), out=bytes([number]) * 900, after_s=number) for number in range(10))
    saved = save(tmp_path / "x.diag.zip", Recording(extra=many, entries=(observation(result()),)))
    kept = [each.started - NOON for each in open_recording(saved.path).extra]
    assert kept == [timedelta(seconds=number) for number in (7, 8, 9)]
    assert any("7 commands" in warning for warning in saved.warnings)


def test_a_ledger_that_is_too_large_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording_archive, "MAX_MEMBER_BYTES", 1000)
    with pytest.raises(BadInput, match="too much for one recording"):
        save(tmp_path / "x.diag.zip", Recording(entries=(observation(result(out=b"x" * 2000)),)))
    assert list(tmp_path.iterdir()) == []


# Opening refuses


def rewritten(path: Path, change: Callable[[dict[str, bytes]], None], rehash: bool = True, infos: Any = None) -> Path:
    """The same recording with other members; ``rehash`` makes the manifest agree."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    if rehash:
        manifest = json.loads(members["manifest.json"])
        manifest["members"] = {n: hashlib.sha256(d).hexdigest() for n, d in members.items() if n != "manifest.json"}
        members["manifest.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(infos(name) if infos else name, data)
    return path


def refusal(path: Path) -> BadInput:
    with pytest.raises(BadInput) as caught:
        open_recording(path)
    assert str(path) in caught.value.where
    assert "\n" not in caught.value.what and "Traceback" not in str(caught.value)
    return caught.value


def test_a_missing_file_a_folder_and_an_unreadable_one(tmp_path: Path) -> None:
    assert "no such recording" in refusal(tmp_path / "none.diag.zip").what
    assert "cannot read it" in refusal(tmp_path).what


@pytest.mark.parametrize("content", [b"", b"hello", b"\x1f\x8b not a zip", b"{}" * 5000])
def test_what_is_no_zip(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.diag.zip"
    path.write_bytes(content)
    assert "not a recording" in refusal(path).what


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_a_file_that_is_cut_off(saved: Path, share: float) -> None:
    data = saved.read_bytes()
    saved.write_bytes(data[: int(len(data) * share)])
    assert "cut off" in refusal(saved).what


def test_a_zip_without_manifest(saved: Path) -> None:
    rewritten(saved, lambda members: members.pop("manifest.json") and None, rehash=False)
    assert "no manifest.json" in refusal(saved).what


@pytest.mark.parametrize(
    ("manifest", "says"),
    [(b"{", "not JSON"), (b"[1]", "format_version"), (b'{"format_version": "1"}', "format_version"),
     (b'{"format_version": 1}', "does not list"), (b"[" * 10**5, "not JSON")],
)  # fmt: skip
def test_a_manifest_that_is_none(saved: Path, manifest: bytes, says: str) -> None:
    rewritten(saved, lambda members: members.update({"manifest.json": manifest}), rehash=False)
    assert says in refusal(saved).what


def change_manifest(path: Path, **fields: Any) -> Path:
    def change(members: dict[str, bytes]) -> None:
        members["manifest.json"] = json.dumps(json.loads(members["manifest.json"]) | fields).encode()

    return rewritten(path, change)


def test_a_newer_format_says_which_kit_reads_it(saved: Path) -> None:
    refused = refusal(change_manifest(saved, format_version=FORMAT_VERSION + 1, kit_version="3.1.0"))
    assert f"format {FORMAT_VERSION + 1}" in refused.what and "written by diag_kit 3.1.0" in refused.what
    assert refused.next_step == "pip install 'diag-kit>=3.1.0'"


def test_a_manifest_from_another_version_with_other_fields_opens(saved: Path) -> None:
    def change(members: dict[str, bytes]) -> None:
        manifest = json.loads(members["manifest.json"])
        for name in ("title", "kept", "redactions", "provenance", "hashes", "created"):
            del manifest[name]
        members["manifest.json"] = json.dumps(manifest | {"mood": "good"}).encode()
        members["later.txt"] = b"a member that this version does not know"

    opened = open_recording(rewritten(saved, change))
    assert (opened.title, opened.created, opened.provenance) == ("", None, "live")
    assert opened.question == whole().question


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("question", 3),
        ("hosts", "x"),
        ("redactions", {"user": "many"}),
        ("created", "noon"),
        ("provenance", {"kind": "magic"}),
    ],
)
def test_a_manifest_field_of_the_wrong_type(saved: Path, field: str, value: Any) -> None:
    assert refusal(change_manifest(saved, **{field: value})).where.endswith("manifest.json")


def test_a_malformed_ledger_line_is_named(saved: Path) -> None:
    def change(members: dict[str, bytes]) -> None:
        lines = members["ledger.jsonl"].splitlines()
        lines[2] = b'{"type":"Calculation","name":3}'
        members["ledger.jsonl"] = b"\n".join(lines)

    refused = refusal(rewritten(saved, change))
    assert refused.where == f"{saved}: ledger.jsonl line 3"


def raw_member(path: Path) -> str:
    with zipfile.ZipFile(path) as archive:
        return next(name for name in archive.namelist() if name.startswith("raw/") and archive.read(name))


def test_one_changed_byte_of_an_output_is_refused_by_name(saved: Path) -> None:
    name = raw_member(saved)

    def change(members: dict[str, bytes]) -> None:
        members[name] = bytes([members[name][0] ^ 1]) + members[name][1:]

    rewritten(saved, change, rehash=False)
    assert name in refusal(saved).what


def test_a_changed_output_is_refused_even_with_a_manifest_that_agrees(saved: Path) -> None:
    name = raw_member(saved)
    rewritten(saved, lambda members: members.update({name: b"0 errors\n"}))
    assert name in refusal(saved).what


def test_a_missing_and_an_unlisted_member(saved: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.diag.zip"
    other.write_bytes(saved.read_bytes())
    rewritten(saved, lambda members: members.pop(raw_member(saved)) and None, rehash=False)
    assert "is missing" in refusal(saved).what
    rewritten(other, lambda members: members.update({"extra.bin": b"x"}), rehash=False)
    assert "not in the manifest" in refusal(other).what


@pytest.mark.parametrize(
    "name",
    ["../evil", "/etc/passwd", "a/../../b", "C:\\x", "a\\b", "raw/../x", "./x", "a//b", ".hidden", "x\ny", "a" * 300, "-/.."],
)
def test_names_that_lead_outside(saved: Path, name: str) -> None:
    rewritten(saved, lambda members: members.update({name: b"x"}))
    assert "leads outside" in refusal(saved).what
    assert {each.name for each in saved.parent.iterdir()} == {saved.name}


@pytest.mark.parametrize("mode", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFDIR])
def test_links_and_special_files(saved: Path, mode: int) -> None:
    def info(name: str) -> zipfile.ZipInfo:
        made = zipfile.ZipInfo(name)
        made.external_attr = ((mode if name.startswith("raw/") else stat.S_IFREG) | 0o644) << 16
        return made

    rewritten(saved, lambda members: None, infos=info)
    assert "link or another special file" in refusal(saved).what


def test_a_member_twice(saved: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(saved, "a") as archive:
        archive.writestr("ledger.jsonl", b"")
    assert "twice" in refusal(saved).what


def test_a_bomb_in_one_member_and_in_many(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording_archive, "MAX_MEMBER_BYTES", 2**20)
    data = b"\0" * 2**20
    rewritten(saved, lambda members: members.update({"bomb": data + b"\0"}))
    assert saved.stat().st_size < 2**17
    assert "would unpack to 1 MiB" in refusal(saved).what
    monkeypatch.setattr(recording_archive, "MAX_TOTAL_BYTES", 2**21)
    rewritten(saved, lambda members: members.update({"bomb": data, "b": data, "c": data}))
    assert "would unpack to 3 MiB" in refusal(saved).what


def test_a_member_that_lies_about_its_size(saved: Path) -> None:
    """A bomb that declares 10 bytes: no more than that is held."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", b" " * 50_000_000)
    data = bytearray(buffer.getvalue())
    central = data.rindex(b"PK\x01\x02")
    data[central + 24 : central + 28] = (10).to_bytes(4, "little")
    local = data.index(b"PK\x03\x04")
    data[local + 22 : local + 26] = (10).to_bytes(4, "little")
    saved.write_bytes(data)
    assert "does not have the bytes" in refusal(saved).what


def test_too_many_members(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording_archive, "MAX_MEMBERS", 3)
    assert "more than 3 members" in refusal(saved).what


def test_too_large_a_file(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording_archive, "MAX_TOTAL_BYTES", 100)
    assert "larger than" in refusal(saved).what


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_ways_of_packing(saved: Path, method: int) -> None:
    with zipfile.ZipFile(saved, "a", method) as archive:
        archive.writestr("other", b"x" * 100)
    assert "packed in another way" in refusal(saved).what


def test_any_changed_byte_is_refused_or_harmless(saved: Path) -> None:
    """Some bytes of a zip mean nothing (times, versions); whatever opens is what was saved."""
    data = saved.read_bytes()
    good = open_recording(saved)
    rng = random.Random(1)
    refused = 0
    for _ in range(400):
        at = rng.randrange(len(data))
        saved.write_bytes(data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :])
        try:
            opened = open_recording(saved)
        except BadInput:
            refused += 1
        else:
            same_entries(opened.entries, good.entries)
            assert (opened.question, opened.results, opened.failures) == (good.question, good.results, good.failures)
    assert refused > 300


def test_opening_unpickles_and_imports_nothing(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pickle

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("unpickled")

    monkeypatch.setattr(pickle, "load", refuse)
    monkeypatch.setattr(pickle, "loads", refuse)
    monkeypatch.setattr(os, "system", refuse)
    open_recording(saved)


# Failures


def test_a_failed_command_becomes_its_error_again() -> None:
    failed = FailedCommand("h", "c", "HostUnreachable", "no answer", "h", "look at the cable")
    assert type(failed.exception()).__name__ == "HostUnreachable"
    assert (failed.exception().what, failed.exception().next_step) == ("no answer", "look at the cable")


@pytest.mark.parametrize("name", ["SystemExit", "annotations", "", "__builtins__", "Later"])
def test_only_errors_of_the_kit_are_raised(name: str) -> None:
    error = FailedCommand("h", "c", name, "odd").exception()
    assert isinstance(error, DiagError) and isinstance(error, CommandFailed)
