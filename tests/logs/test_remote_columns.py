"""Columns picked out on the host: the same rows as the local parser's, for every log of the cases and by every tool."""

from __future__ import annotations

import dataclasses
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from real_sshd import Sshd

from diag_kit.evidence import Evidence
from diag_kit.hosts.base import ShellHost
from diag_kit.hosts.connection import connect
from diag_kit.hosts.local import local
from diag_kit.observe.logs.column_script import awk_program
from diag_kit.observe.logs.facts import LogFacts
from diag_kit.observe.logs.learn_shapes import learn
from diag_kit.observe.logs.line_shape import shape_of
from diag_kit.observe.logs.metrics import LogMetrics
from diag_kit.observe.logs.remote_columns import LogColumns
from diag_kit.records import Parsed

DATA = Path(__file__).parents[1] / "data" / "logs"
LOGS = sorted(path for path in DATA.rglob("*.log") if path.stat().st_size > 500)
TOOLS = [
    pytest.param("mawk", marks=pytest.mark.needs("mawk")),
    pytest.param("gawk", marks=pytest.mark.needs("gawk")),
    pytest.param("busybox", marks=pytest.mark.needs("busybox")),
    "python",
    "awk",
]
COLUMNS = ("loss_0", "full_acc_0")
NONE = Evidence()


@pytest.fixture(scope="module")
def host() -> Iterator[ShellHost]:
    with local() as opened:
        yield opened


def record(rank: int, step: int, seed: random.Random, seconds: int) -> str:
    clock = f"{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    inner = ", ".join(f"'loss_{i}': {seed.random() * 12:.4f}, 'full_acc_{i}': {seed.random():.4f}" for i in range(3))
    return (
        f"[rank{rank}] {clock} [speculators.metrics] INFO - {{'train': {{{inner}, 'loss': {seed.random() * 20:.4f}}}, "
        f"'epoch': {step // 50}, 'lr': {2.4e-05 * (step + 1) / 500:.6g}, 'global_step': {step}}}\n"
    )


def founding_log(steps: int = 150, ranks: int = 4) -> str:
    """Several ranks, a midnight, bars glued to records, other lines, a record of another width, a half line at the end."""
    seed, out = random.Random(1), []
    for step in range(steps):
        for rank in range(ranks):
            seconds = 86_340 + step + (rank == 3)
            if seed.random() < 0.05:
                out.append(f"\rEpoch 0:  12%|█▏        | {step}/4000 [02:46<19:26,  3.00it/s]")
            if seed.random() < 0.05:
                out.append(f"[rank{rank}] 23:59:01 [speculators.trainer] INFO - saving checkpoint to checkpoints/{step}\n")
            if seed.random() < 0.03:
                out.append("Traceback (most recent call last):\n    return self._load(index)\nValueError: bad index: 'x'\n")
            out.append(record(rank, step, seed, seconds))
        if step % 40 == 0:
            out.append("[rank0] 23:59:30 [speculators.metrics] INFO - {'val': {'loss_0': 3.5, 'full_acc_0': 0.25}, 'epoch': 0}\n")
    return "".join(out) + record(0, steps, seed, 86_500)[:90]


def ask(host: ShellHost, probe: LogColumns | LogMetrics) -> Parsed:
    return probe.read(probe.collect(host, NONE))


def check(host: ShellHost, path: Path, columns: tuple[str, ...], tool: str = "auto", processes: int = 1) -> int:
    """The rows are those of ``log_metrics`` with fewer columns, and so are the facts; the number of rows."""
    whole = ask(host, LogMetrics(str(path)))
    some = ask(host, LogColumns(str(path), columns, tool=tool, processes=processes))
    assert not some.problems
    wanted = whole.tables.get("metrics")
    if wanted is None:
        assert "metrics" not in some.tables
        return 0
    if "loss" not in columns:
        wanted = wanted.assign(loss=float("nan"))
    found = some.tables["metrics"]
    assert set(found.columns) >= {name for name in columns if name in wanted.columns}
    pd.testing.assert_frame_equal(found, wanted[list(found.columns)])
    start = {(fact.name, fact.value) for fact in ask(host, LogFacts(str(path))).facts}  # stated there, so not derived again
    assert [f for f in some.facts if f not in whole.facts and (f.name, f.value) not in start] == []
    if "progress" in whole.tables:
        pd.testing.assert_frame_equal(some.tables["progress"], whole.tables["progress"])
    assert len(some.not_understood) == len(whole.not_understood)
    return len(found)


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.parent.name)
def test_every_case_has_the_rows_of_the_local_parser(host: ShellHost, path: Path) -> None:
    names = ask(host, LogMetrics(str(path))).tables.get("metrics", pd.DataFrame()).columns
    extra = tuple(name for name in names if "loss" in name or "acc" in name)
    check(host, path, extra)
    check(host, path, extra[:1])


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("processes", [1, 3])
def test_every_tool_has_the_rows_of_the_local_parser(host: ShellHost, tmp_path: Path, tool: str, processes: int) -> None:
    path = tmp_path / "train.log"
    path.write_text(founding_log())
    assert check(host, path, COLUMNS, tool, processes) == 604
    assert check(host, path, ("loss", "loss_2"), tool, processes) == 604


def test_the_founding_form_is_picked_and_little_else_is_shipped(host: ShellHost, tmp_path: Path) -> None:
    if shutil.which("zstd") is None:
        pytest.skip("zstd is missing: apt-get install zstd")
    path = tmp_path / "train.log"
    path.write_text(founding_log(steps=3000))
    before = host.cost.bytes_received
    parsed = ask(host, LogColumns(str(path), COLUMNS))
    assert len(parsed.tables["metrics"]) == 12_000 + 75
    assert path.stat().st_size / (host.cost.bytes_received - before) > 10  # with the sample, which counts on so small a log


@pytest.mark.parametrize("packer", ["gzip", "none"])
def test_hosts_without_zstd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packer: str) -> None:
    bins = tmp_path / "bin"
    bins.mkdir()
    names = ["sh", "awk", "head", "tail", "wc", "cat", "date", "stat", "tr", "ls", "cut", "sleep", "nice", "timeout", "setsid"]
    for name in [*names, *(["gzip"] if packer == "gzip" else [])]:
        (bins / name).symlink_to(shutil.which(name) or name)
    monkeypatch.setenv("PATH", str(bins))
    monkeypatch.setattr(ShellHost, "use_agent", packer == "gzip")
    path = tmp_path / "train.log"
    path.write_text(founding_log())
    with local() as host:
        monkeypatch.undo()
        assert check(host, path, COLUMNS) == 604


@pytest.mark.needs("sshd")
def test_over_ssh(sshd: Sshd, tmp_path: Path) -> None:
    path = tmp_path / "it's a log.txt"
    path.write_text(founding_log())
    with connect("trainbox", config=sshd.config) as host:
        assert check(host, path, COLUMNS, processes=2) == 604


HOSTILE = [
    "",
    "\n",
    "no metrics here\n" * 50,
    "step,loss\n1,2.5\n2,2.25\n" * 30,
    "{'loss': 1.5, 'step': 1}\n" * 20 + "\0\0{'loss': 1.5, 'step': 2}\n" + "{'loss': nan, 'step': 3}\n",
    "{'loss': 1.5, 'step': 1}\r\n" * 20,
    "==diag_kit:end file=0 status=0==\n" * 5 + "{'loss': 1.5, 'step': 1}\n" * 20,
    "A1\t2\n:x\n" * 10 + "{'loss': 1.5, 'step': 1}\n" * 20,
    "it's /a\\b/ \"quoted\" $(id) [x] {'loss': 1.5, 'step': 7}\n" * 30,
    "2026-02-30 10:00:00 {'loss': 1.5, 'step': 7}\n" * 3 + "2026-02-03 10:00:00 {'loss': 1.5, 'step': 7}\n" * 30,
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("tool", ["awk", "python"])
def test_hostile_logs(host: ShellHost, tmp_path: Path, text: str, tool: str) -> None:
    path = tmp_path / "train.log"
    path.write_text(text)
    whole, some = ask(host, LogMetrics(str(path))), ask(host, LogColumns(str(path), ("loss",), tool=tool))
    wanted, found = whole.tables.get("metrics"), some.tables.get("metrics")
    if wanted is None:
        assert found is None or not len(found)
    elif found is None:
        assert some.problems  # given up, and said so
    else:
        pd.testing.assert_frame_equal(found, wanted[list(found.columns)])


def test_a_missing_file_says_so(host: ShellHost, tmp_path: Path) -> None:
    assert "does not exist" in ask(host, LogColumns(str(tmp_path / "none.log"))).problems[0]


def test_only_the_end_of_a_log_over_the_limit(host: ShellHost, tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(founding_log())
    parsed = ask(host, LogColumns(str(path), COLUMNS, max_mib=0.1))
    assert "were not read" in parsed.problems[0]
    assert 0 < len(parsed.tables["metrics"]) < 604


def test_noise_instead_of_an_answer_raises_nothing(host: ShellHost, tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(founding_log())
    probe = LogColumns(str(path), COLUMNS)
    sample, answer = probe.collect(host, NONE)
    seed = random.Random(3)
    for _ in range(30):
        data = bytearray(answer.stdout)
        for _ in range(5):
            data[seed.randrange(200, len(data))] = seed.randrange(256)
        probe.read((sample, dataclasses.replace(answer, stdout=bytes(data))))
        probe.read((sample, dataclasses.replace(answer, stdout=answer.stdout[: seed.randrange(len(data))])))


def test_a_number_whose_change_would_mean_something_else_is_no_hole() -> None:
    """The proof: put other numbers in, and the parser must say just those."""
    shape = shape_of("[rank1] 10:00:00 INFO - {'loss': 1.5, 'epoch': 1, 'step': 1, 'lr': 0.001}")
    assert shape is not None
    assert [hole.columns[0] for hole in shape.holes] == ["=rank", "=stamp", "loss", "epoch", "step", "lr"]
    assert shape_of("nothing to see") is None
    assert shape_of("loss 1.5 loss 2.5 | {'loss': 1.5, 'step': 2} {'loss': 1.5, 'step': 3}") is None


def test_texts_of_the_log_are_quoted_for_awk() -> None:
    line = "a/b\\c.d*e\"f$(id)`x` {'loss': 1.5, 'step': 7}\n"
    shapes = learn(line.encode() * 30, ("loss",))
    program = awk_program(shapes, ("loss",))
    assert shapes and 'a\\/b\\\\c\\.d\\*e"f\\$\\(id\\)' in program
