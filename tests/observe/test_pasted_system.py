"""What people paste about CPU, memory, disks, network and processes: raw files in, expected rows out."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import diag_kit as dk
from diag_kit.hosts.files import files
from diag_kit.hosts.kinds import kind_of, split_parts
from diag_kit.hosts.kinds_system import SYSTEM_KINDS
from diag_kit.observe.documents import observe_documents
from diag_kit.observe.probe import all_probes
from diag_kit.records import CommandResult, Observation

DATA = Path(__file__).parent.parent / "data" / "system"
CASES = sorted(path.parent.name for path in DATA.glob("*/expected.json"))


def observed(tmp_path: Path, raw: str) -> tuple[Observation, ...]:
    (tmp_path / "pasted.txt").write_text(raw)
    return observe_documents(files(tmp_path).documents)


def rows(seen: Observation, table: str) -> list[dict[str, Any]]:
    frame = seen.parsed.tables.get(table)
    if frame is None:
        return []
    return [
        {
            name: None
            if value is None or value != value or str(value) == "<NA>"
            else (value.isoformat() if name == "t" else value)
            for name, value in row.items()
        }
        for row in frame.astype(object).to_dict("records")
    ]


def check(got: dict[str, Any], want: dict[str, Any]) -> None:
    for name, value in want.items():
        assert got[name] == (pytest.approx(value, rel=1e-9) if isinstance(value, float) else value), name


def facts(*seen: Observation) -> dict[str, Any]:
    return {fact.name: fact.value for each in seen for fact in each.facts}


@pytest.mark.parametrize("case", CASES)
def test_every_case_gives_the_expected_rows(case: str, tmp_path: Path) -> None:
    want = json.loads((DATA / case / "expected.json").read_text())
    all_seen = observed(tmp_path, (DATA / case / "raw.txt").read_text())
    chosen = [each for each in all_seen if each.probe == want["probe"]]
    assert chosen, [each.probe for each in all_seen]
    seen = chosen[0]
    for table, expected in want.get("tables", {}).items():
        for got, row in zip(rows(seen, table), expected, strict=False):
            check(got, row)
        assert len(rows(seen, table)) >= len(expected), table
    for table, expected in want.get("all_tables", {}).items():
        for got, row in zip([row for each in chosen for row in rows(each, table)], expected, strict=True):
            check(got, row)
    for table, count in want.get("counts", {}).items():
        assert len(rows(seen, table)) == count, table
    for pid, row in want.get("by_pid", {}).items():
        check({str(each["pid"]): each for each in rows(seen, "processes")}[pid], row)
    for table, row in want.get("contains", {}).items():
        assert any(all(each[name] == value for name, value in row.items()) for each in rows(seen, table)), table
    assert {name: facts(*chosen).get(name) for name in want.get("facts", {})} == want.get("facts", {})
    assert {name: facts(*all_seen).get(name) for name in want.get("facts_anywhere", {})} == want.get("facts_anywhere", {})
    said = " ".join([seen.parsed.summary, *seen.parsed.problems])
    assert [piece for piece in want.get("says", []) if piece not in said] == []
    everything = " ".join(problem for each in all_seen for problem in each.parsed.problems)
    assert [piece for piece in want.get("says_anywhere", []) if piece not in everything] == []
    assert len(seen.parsed.not_understood) == want.get("odd", 0), seen.parsed.not_understood
    shown = " ".join(
        [said, str([rows(seen, table) for table in seen.parsed.tables]), str(seen.parsed.not_understood), str(seen.facts)]
    )
    assert [piece for piece in want.get("never", []) if piece in shown] == []
    assert "own fault" not in everything


def read_by_its_probe(raw: bytes, command: str = "") -> Observation | None:
    """The text as a result, read by the probe of its kind; None where no probe reads it. Not guarded: a fault is seen."""
    kind = kind_of(raw, command=command)
    for name, cls in all_probes().items():
        if kind in getattr(cls, "reads", ()):
            when = files(DATA / CASES[0]).documents[0].modified
            asked = cls()
            result = CommandResult("files", command, raw, b"", 0, when, 0.0)
            return Observation(name, {}, command, (result,), asked.read((result,)))
    return None


RAWS = {case: (DATA / case / "raw.txt").read_bytes() for case in CASES}


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A real text with bytes lost and others in their place, a line twice, or two texts one after the other."""
    raw = RAWS[draw(st.sampled_from(CASES))]
    start = draw(st.integers(0, len(raw)))
    cut = raw[:start] + draw(st.binary(max_size=12)) + raw[start + draw(st.integers(0, 60)) :]
    return cut + (RAWS[draw(st.sampled_from(CASES))] if draw(st.booleans()) else b"")


@settings(max_examples=120, deadline=None)
@given(damaged(), st.sampled_from(["", "free -m", "cat /sys/fs/cgroup/cpu.max", "vmstat -S M 1", "ps -eLf | grep -c x", "nproc"]))
def test_no_parser_raises_on_damaged_text(raw: bytes, command: str) -> None:
    for part in split_parts(raw):
        read_by_its_probe(part.data, command or part.command)


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from([name for name in all_probes() if getattr(all_probes()[name], "reads", ()) and name != "python_source"]),
    st.binary(max_size=200)
    | st.text(alphabet="PIDCMDcpu %=:-/()[]{}\"'.,0123456789 \n\t=_diag_kit", max_size=300).map(str.encode),
    st.sampled_from([b"", b"==diag_kit:sample==\n", b"==diag_kit:about==\n==diag_kit:first==\n", b"==diag_kit:limits==\n"]),
)
def test_no_probe_raises_on_any_bytes(name: str, raw: bytes, head: bytes) -> None:
    when = files(DATA / CASES[0]).documents[0].modified
    result = CommandResult("h", "c", head + raw + b"\n==diag_kit:second==\n" + raw, b"", 0, when, 0.0)
    assert all_probes()[name]().read((result,)).summary is not None


@pytest.mark.parametrize(
    "case", ["ps_tree", "pidstat_denied_io", "df_german_types", "lsblk_tree", "vmstat_wide_times", "mpstat_12_6", "net_dev"]
)
def test_a_garbled_line_changes_only_its_own_rows(case: str) -> None:
    """Each line but headers in turn becomes rubbish: the other rows stay as they are, and the rubbish is listed."""
    tables = {"ps_tree": "processes", "pidstat_denied_io": "activity", "df_german_types": "space", "lsblk_tree": "block_devices",
              "vmstat_wide_times": "vmstat", "mpstat_12_6": "cpu", "net_dev": "interfaces"}  # fmt: skip
    lines = RAWS[case].split(b"\n")
    first = read_by_its_probe(RAWS[case])
    assert first is not None
    names = {
        "ps_tree": ["pid", "cpu_pct"],
        "lsblk_tree": ["device", "size_bytes"],
        "vmstat_wide_times": ["running", "free_bytes"],
    }
    kept = names.get(case)

    def key(row: dict[str, Any]) -> str:
        return str({name: row[name] for name in kept} if kept else row)

    whole = {key(row) for row in rows(first, tables[case])}
    data_lines = [at for at, line in enumerate(lines) if any(ch in b"0123456789" for ch in line) and b"Linux" not in line]
    for at in data_lines:
        seen = read_by_its_probe(b"\n".join([*lines[:at], b"?? torn", *lines[at + 1 :]]))
        assert seen is not None
        got = {key(row) for row in rows(seen, tables[case])}
        if case != "vmstat_wide_times":  # there the first row is the average since boot, whichever that is
            assert got <= whole and len(got) >= len(whole) - 1
        else:
            assert len(got) >= len(whole) - 1
        assert seen.parsed.not_understood or seen.parsed.problems


@pytest.mark.parametrize(
    "unit",
    [
        b"PID ",
        b"a on / type x (",
        b"cpu0 1 ",
        b" \t",
        b"0:: / ",
        b"|-",
        b"\\_ ",
        b"1% /",
        b'{"cpu": 1,',
        b"a=",
        b"12:",
        b"[<0>] a+0x",
    ],
)
def test_no_text_takes_for_ever(unit: bytes) -> None:
    raw = unit * (30_000 // len(unit)) + b"\n" + (unit + b"\n") * (10_000 // len(unit))
    begun = time.monotonic()
    kind_of(raw)
    for name, cls in all_probes().items():
        if getattr(cls, "reads", ()) and name in (
            "cpu",
            "activity",
            "network",
            "limits",
            "space",
            "processes",
            "stacks",
            "memory",
            "iostat",
        ):
            when = files(DATA / CASES[0]).documents[0].modified
            cls().read((CommandResult("h", "c", raw, b"", 0, when, 0.0),))
    assert time.monotonic() - begun < 10


def test_every_kind_of_this_registry_has_a_reader() -> None:
    read = {kind for cls in all_probes().values() for kind in getattr(cls, "reads", ())}
    assert {kind for kind, _ in SYSTEM_KINDS} <= read


def test_a_folder_of_all_cases_is_diagnosed(tmp_path: Path) -> None:
    """Rules take what pasted forms lack as missing: top's memory has no dirty pages, busybox's no available memory."""
    for case in CASES:
        (tmp_path / f"{case}.txt").write_bytes(RAWS[case])
    for only in ("top_busybox", "sar_mixed"):
        (tmp_path / only).mkdir()
        (tmp_path / only / "one.txt").write_bytes(RAWS[only])
    for folder in (tmp_path, tmp_path / "top_busybox", tmp_path / "sar_mixed"):
        investigation = dk.Investigation(dk.files(folder), question="Why is it slow?")
        investigation.diagnose()
        assert "own fault" not in " ".join(
            problem for seen in investigation.evidence.observations for problem in seen.parsed.problems
        )


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("ps: unrecognized option: w\nBusyBox v1.35.0 multi-call binary.\n", "the option -w:"),
        ("ps: bad -o argument 'rss', supported arguments: user,group\n", "the option rss:"),
    ],
)
def test_a_short_option_is_named_as_one_types_it(tmp_path: Path, raw: str, said: str) -> None:
    assert said in observed(tmp_path, raw)[0].parsed.problems[0]
