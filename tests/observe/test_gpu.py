"""Gpus: real outputs of drivers 331 to 610 by name, missing never 0, and the script against a stand-in nvidia-smi."""

from __future__ import annotations

import json
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diag_kit.evidence import Evidence
from diag_kit.hosts.local import local
from diag_kit.observe.gpu import Gpus
from diag_kit.observe.gpu_links import read_topology
from diag_kit.observe.gpu_query import read_query
from diag_kit.observe.gpu_trouble import sentence_on_absence
from diag_kit.observe.gpu_values import reasons_from_bits
from diag_kit.records import CommandResult, Parsed

DATA = Path(__file__).parent.parent / "data" / "gpus"
FAKE = Path(__file__).with_name("fake_nvidia_smi.py")


def result(raw: bytes, **changes: Any) -> CommandResult:
    start = datetime(2026, 11, 30, tzinfo=UTC)
    fields: dict[str, Any] = {"stderr": b"", "exit_status": 0, "started": start, "duration_s": 3.0, **changes}
    return CommandResult(host="trainbox", command="nvidia-smi", stdout=raw, **fields)


def read(raw: bytes | str, **changes: Any) -> Parsed:
    return Gpus().read((result(raw.encode() if isinstance(raw, str) else raw, **changes),))


def facts(parsed: Parsed) -> dict[str, Any]:
    return {fact.name: fact.value for fact in parsed.facts}


def rows(parsed: Parsed, table: str = "gpus") -> list[dict[str, Any]]:
    """As JSON values: times as text, missing as None."""
    frame = parsed.tables[table].astype(object)
    frame = frame.where(frame.notna(), None)
    return [
        {key: value.isoformat() if key == "t" and value else value for key, value in row.items()}
        for row in frame.to_dict("records")
    ]


@pytest.mark.parametrize("case", sorted(path.parent.name for path in DATA.glob("*/expected.json")))
def test_every_recorded_output_gives_the_expected_rows(case: str) -> None:
    expected = json.loads((DATA / case / "expected.json").read_text())
    parsed = read((DATA / case / "raw.txt").read_bytes())
    found = {
        name: [{key: value for key, value in row.items() if value is not None} for row in rows(parsed, name)]
        for name in parsed.tables
    }
    assert {name: table for name, table in found.items() if table} == expected["tables"]
    assert {name: value for name, value in facts(parsed).items() if name in expected["facts"]} == expected["facts"]
    assert parsed.problems == () and parsed.not_understood == ()


def test_text_and_xml_of_the_same_gpus_agree() -> None:
    """One second apart on idle GPUs: all but the noise of power must be equal."""
    text, xml = (rows(read((DATA / name / "raw.txt").read_bytes())) for name in ("driver_580_q", "driver_580_q_xml"))
    for left, right in zip(text, xml, strict=True):
        assert left.pop("power_w") == pytest.approx(right.pop("power_w"), abs=1)
        for way in ("pcie_rx_mb_per_s", "pcie_tx_mb_per_s"):
            assert left.pop(way) == pytest.approx(right.pop(way), abs=2)
        assert {**left, "t": None} == {**right, "t": None}


def test_a_real_training_on_two_gpus_as_the_script_saw_it() -> None:
    """30 s of a torchrun training on two H200s: every sample read, counters agree with the flags, rates by the second."""
    parsed = read((DATA / "h200_training" / "raw.txt").read_bytes())
    assert parsed.problems == () and parsed.not_understood == ()
    table, known = parsed.tables["gpus"], facts(parsed)
    assert table.groupby("gpu").size().to_dict() == {0: 30, 1: 30}
    assert table.groupby("gpu")["t"].diff().dropna().dt.total_seconds().between(0.9, 1.1).all()
    assert table[["util_pct", "power_w", "sm_clock_mhz", "memory_used_mib", "pcie_gen"]].notna().all(axis=None)
    assert known["gpu_power_w"] == pytest.approx(555.87, abs=0.01)
    flagged = (table[table["gpu"] == 0]["reasons"] == "sw_power_cap").mean()
    assert known["gpu_power_cap_fraction"] == pytest.approx(flagged, abs=0.25)
    assert [row["gpu"] for row in rows(parsed, "gpu_processes")] == [0, 1]
    assert known["nvlink"] == "present" and known["gpus_in_use"] == 2


@pytest.mark.parametrize(
    ("name", "driver", "cuda", "util", "used", "total", "ecc"),
    [
        ("331", "331.62", None, None, 11, 4095, None),
        ("390", "390.87", None, 0, 9312, 11170, None),
        ("450", "450.51.05", "11.0", 100, 5120, 32510, 1),
        ("560", "560.35.03", "12.6", 37, 11213, 46068, 0),
        ("610", "610.43.02", "13.3", 0, 4, 46068, 0),
    ],
)
def test_tables_of_five_driver_generations(
    name: str, driver: str, cuda: str | None, util: float | None, used: float, total: float, ecc: int | None
) -> None:
    parsed = read((DATA / f"table_{name}" / "raw.txt").read_bytes())
    (row,) = rows(parsed)
    assert (facts(parsed)["driver_version"], facts(parsed).get("cuda_version")) == (driver, cuda)
    assert (row["util_pct"], row["memory_used_mib"], row["memory_total_mib"], row["ecc_uncorrected"]) == (util, used, total, ecc)


def test_mig_is_one_gpu_of_unknown_load_with_two_instances() -> None:
    parsed = read((DATA / "table_mig_570" / "raw.txt").read_bytes())
    (row,) = rows(parsed)
    assert row["util_pct"] is None and row["ecc_uncorrected"] is None
    assert row["missing"] == "ecc_uncorrected: On; util_pct: N/A"
    assert (row["mig"], row["power_w"], row["power_limit_w"]) == ("Enabled", 141, 350)
    instances = [(each["gi"], each["memory_used_mib"], each["memory_total_mib"]) for each in rows(parsed, "gpu_instances")]
    assert instances == [(1, 36510, 40448), (5, 451, 19968)]
    (process,) = rows(parsed, "gpu_processes")
    assert (process["pid"], process["gi"], process["ci"], process["memory_used_mib"]) == (3329147, 1, 0, 36472)
    assert facts(parsed)["gpu_count"] == 1
    assert "utilisation not told" in parsed.summary


def test_old_and_new_name_of_the_clock_reasons() -> None:
    """Idle is no fault, and the power cap is told from the section under either name."""
    (old,) = rows(read((DATA / "q_throttle_old" / "raw.txt").read_bytes()))
    (new,) = rows(read((DATA / "q_event_new" / "raw.txt").read_bytes()))
    assert (old["reasons"], old["power_w"], old["power_limit_w"], old["pstate"]) == ("idle", 11.51, 250.0, "P8")
    assert (new["reasons"], new["power_w"], new["power_limit_w"]) == ("sw_power_cap", 398.12, 400.0)
    assert (new["sm_clock_mhz"], new["sm_clock_max_mhz"]) == (1290, 1410)
    assert "idle" not in read((DATA / "q_throttle_old" / "raw.txt").read_bytes()).summary


@pytest.mark.parametrize(
    ("bits", "words"),
    [
        ("0x0000000000000000", ""),
        ("0x0000000000000001", "idle"),
        ("0x0000000000000004", "sw_power_cap"),
        ("0x0000000000000048", "hw_thermal_slowdown"),  # the parent bit is not named beside its child
        ("0x0000000000000008", "hw_slowdown"),
        ("0x00000000000000A4", "sw_power_cap, sw_thermal_slowdown, hw_power_brake"),
        ("0x0000000000000200", "bit_0x200"),
        ("4", "sw_power_cap"),
        ("[N/A]", None),
        ("Active", None),
    ],
)
def test_clock_reasons_in_words(bits: str, words: str | None) -> None:
    assert reasons_from_bits(bits) == words


@pytest.mark.parametrize("printed", ["N/A", "[N/A]", "[Not Supported]", "ERR!", "[Unknown Error]", "[GPU requires reset]", ""])
def test_what_is_not_told_is_missing_with_its_reason_and_never_zero(printed: str) -> None:
    (row,) = read_query(f"index, utilization.gpu [%], power.draw [W]\n3, {printed}, {printed}\n").gpus
    assert row["gpu"] == 3
    assert row.get("util_pct") is None and row.get("power_w") is None
    assert (printed.strip("[]") or "empty") in row["missing"]


@pytest.mark.parametrize("printed", ["4294967.29", "18446744073709551615", "-1"])
def test_a_sentinel_of_the_driver_is_no_power(printed: str) -> None:
    (row,) = read_query(f"index, power.draw [W], power.draw.instant [W]\n0, {printed}, 250.5\n").gpus
    assert row["power_w"] == 250.5
    (row,) = read_query(f"index, power.draw [W]\n0, {printed}\n").gpus
    assert row.get("power_w") is None
    assert row["missing"] == f"power_w: implausible {printed}"


def test_units_may_stand_in_the_header_or_in_the_cells() -> None:
    with_units = read_query("index, memory.used [MiB], power.draw [W]\n0, 12 MiB, 77.73 W\n").gpus
    without = read_query("index, memory.used [MiB], power.draw [W]\n0, 12, 77.73\n").gpus
    assert with_units == without
    assert (without[0]["memory_used_mib"], without[0]["power_w"]) == (12.0, 77.73)


def test_rows_without_a_header_are_not_guessed() -> None:
    parsed = read("0, NVIDIA A100, 97, 250.00\n")
    assert len(parsed.tables["gpus"]) == 0
    assert parsed.not_understood[0].why == "no header line before it: columns unknown"


def test_gpus_without_an_index_are_told_by_their_uuid() -> None:
    text = "timestamp, uuid, power.draw [W]\n" + "".join(
        f"2031/01/01 00:00:0{n}.000, GPU-{u}, {100 + n}\n" for n in (1, 2) for u in "ab"
    )
    assert [row["gpu"] for row in rows(read(text))] == [0, 1, 0, 1]


def test_only_the_gpus_in_use_enter_the_means() -> None:
    """Two busy ones of four: idle ones would halve the power."""
    header = "index, utilization.gpu [%], power.draw [W], power.limit [W]\n"
    text = header + "0, 100, 250, 600\n1, 100, 260, 600\n2, 0, 30, 600\n3, 0, 30, 600\n"
    known = facts(read(text))
    assert known["gpu_power_fraction"] == pytest.approx(255 / 600)
    assert (known["gpus_in_use"], known["gpu_count"], known["gpu_util_pct"]) == (2, 4, 100.0)


def test_pcie_topology_has_no_nvlink_and_one_gpu_has_no_answer() -> None:
    header = "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\n"
    matrix = header + "GPU0\t X \tSYS\tPIX\t0-31\t0\nGPU1\tSYS\t X \tNODE\t32-63\t1\nNIC0\tPIX\tNODE\t X \n"
    links = read_topology(matrix)
    assert links.nvlink == "none"
    assert links.pairs == [{"gpu_a": 0, "gpu_b": 1, "link": "SYS"}]
    assert links.affinity == [
        {
            "gpu": 0,
            "cpu_affinity": "0-31",
            "numa_node": "0",
            "gpu_numa_id": None,
            "nearest_nics": "NIC0",
            "nearest_nic_link": "PIX",
        },
        {
            "gpu": 1,
            "cpu_affinity": "32-63",
            "numa_node": "1",
            "gpu_numa_id": None,
            "nearest_nics": "NIC0",
            "nearest_nic_link": "NODE",
        },
    ]
    assert read_topology("\tGPU0\tCPU Affinity\nGPU0\t X \t0-7\n").nvlink is None


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ("", "no GPU was seen"),
        ("tool rocm-smi\npci 0x1002 0x030000", "its accelerators are AMD (rocm-smi is there)"),
        ("pci 0x10de 0x030200", "an NVIDIA card is there, but"),
        ("pci 0x1002 0x038000", "a card by AMD"),
    ],
)
def test_absence_says_what_is_there_instead(found: str, said: str) -> None:
    sentence = sentence_on_absence("trainbox", found)
    assert sentence.startswith("no nvidia-smi on trainbox: ") and said in sentence


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "nvidia-smi"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -S {FAKE} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return program


def observe(mode: str, monkeypatch: pytest.MonkeyPatch, seconds: float = 1.5) -> Parsed:
    monkeypatch.setenv("FAKE_SMI", mode)
    asked = Gpus(seconds=seconds, interval_s=0.5)
    return asked.read(asked.collect(local("trainbox"), Evidence()))


def test_the_script_samples_a_known_number_of_times(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = observe("", monkeypatch)
    assert parsed.problems == () and parsed.not_understood == ()
    table = parsed.tables["gpus"]
    assert table.groupby("gpu").size().to_dict() == {0: 3, 1: 3}
    assert str(table["t"].dtype) == "datetime64[us, UTC]"
    assert (table["t"].max() - table["t"].min()).total_seconds() == pytest.approx(1.0, abs=0.4)
    assert abs((table["t"].max() - datetime.now(UTC)).total_seconds()) < 30
    assert table["power_w"].tolist() == [492.5] * 6
    assert rows(parsed)[0]["missing"].startswith("memory_temperature_c: N/A")
    assert [row["gpu"] for row in rows(parsed, "gpu_processes")] == [0, 1]
    assert rows(parsed, "gpu_processes")[0]["name"] == "/usr/bin/python3, -m torch"
    assert rows(parsed, "gpu_processes")[1]["memory_used_mib"] is None
    known = facts(parsed)
    assert (known["driver_version"], known["gpu_count"], known["gpu_name"]) == ("580.159.04", 2, "NVIDIA H200")
    assert known["gpu_power_fraction"] == pytest.approx(492.5 / 700)
    assert known["nvlink"] == "present" and known["nvlink_gb_per_s"] == pytest.approx(18 * 26.562)
    assert known["gpu_power_cap_fraction"] == pytest.approx(1.0, abs=0.35)
    assert known["gpu_util_pct"] == 90.5


def test_an_old_driver_is_asked_only_for_what_it_knows(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = observe("old", monkeypatch)
    assert parsed.problems == ()
    assert rows(parsed)[0]["reasons"] == "" and rows(parsed)[0]["power_w"] == 492.5


@pytest.mark.parametrize("mode", ["no_help", "refuses_reasons"])
def test_core_fields_are_asked_for_when_the_choice_fails(mode: str, fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = observe(mode, monkeypatch)
    assert parsed.problems == () and parsed.not_understood == ()
    assert len(parsed.tables["gpus"]) == 6 and rows(parsed)[0]["power_w"] == 492.5


def test_a_sentinel_from_the_driver_gives_no_power(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = observe("sentinel", monkeypatch)
    assert parsed.tables["gpus"]["power_w"].isna().all()
    assert "gpu_power_fraction" not in facts(parsed)


def test_a_gpu_that_is_lost_on_the_way_is_named(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = observe("lost", monkeypatch, seconds=2.5)
    said = " ".join(parsed.problems)
    assert "nvidia-smi lost a GPU: Unable to determine the device handle for GPU1" in said
    assert "GPU 1 gave 1 of" in said
    assert len(parsed.tables["gpus"].query("gpu == 0")) >= 3


@pytest.mark.parametrize(
    ("mode", "said"), [("no_driver", "cannot reach the NVIDIA driver"), ("mismatch", "driver was updated without a reboot")]
)
def test_a_driver_that_fails_is_explained(mode: str, said: str, fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = observe(mode, monkeypatch)
    assert len(parsed.problems) == 1
    assert parsed.problems[0].startswith("nvidia-smi on trainbox ") and said in parsed.problems[0]
    assert parsed.summary == parsed.problems[0]


def test_a_driver_that_hangs_is_said_to_hang(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_SMI", "hang")
    monkeypatch.setattr(Gpus, "budget_s", 2.0)
    asked = Gpus(seconds=1)
    parsed = asked.read(asked.collect(local("trainbox"), Evidence()))
    assert "did not answer in time" in parsed.problems[0] and "driver hangs" in parsed.problems[0]


def test_a_host_without_nvidia_smi_is_said_to_have_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sh", "cat", "grep", "head", "sleep", "timeout", "nice", "setsid", "kill", "sed", "tr"):
        found = shutil.which(name)
        if found:
            (tmp_path / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(tmp_path))
    asked = Gpus(seconds=1)
    parsed = asked.read(asked.collect(local("trainbox"), Evidence()))
    assert parsed.problems[0].startswith("no nvidia-smi on trainbox: ")
    assert len(parsed.problems) == 1 and len(parsed.tables["gpus"]) == 0


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A real output with some bytes lost and others in their place."""
    names = ("driver_580_query", "driver_580_q", "driver_580_q_xml", "table_mig_570", "driver_580_topo", "driver_580_dmon")
    raw = (DATA / draw(st.sampled_from(names)) / "raw.txt").read_bytes()[:6000]
    start = draw(st.integers(0, len(raw)))
    return raw[:start] + draw(st.binary(max_size=20)) + raw[start + draw(st.integers(0, 200)) :]


@settings(max_examples=100, deadline=None)
@given(st.one_of(st.binary(max_size=400), damaged(), damaged().map(lambda raw: b"==diag_kit:list==\n==diag_kit:query==\n" + raw)))
def test_reading_never_raises(raw: bytes) -> None:
    assert read(raw).summary


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="GPU0123 |+-=NV/AMiBW%,.#gpu pwr\n\tX<>index[]", max_size=300))
def test_reading_never_raises_on_near_nvidia_smi(text: str) -> None:
    for head in (
        "",
        "index, power.draw [W]\n",
        "| NVIDIA-SMI 1 Driver Version: 1 |\n",
        "# gpu pwr\n",
        "<nvidia_smi_log>",
        "\tGPU0\tGPU1\n",
    ):
        assert read(head + text).summary
