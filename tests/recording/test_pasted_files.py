"""A folder of pasted outputs: what each file is, told from its content, and what is not read and why."""

from __future__ import annotations

import os
import random
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diag_kit.errors import BadInput, NotRecorded
from diag_kit.hosts.files import files
from diag_kit.hosts.kinds import KINDS, kind_of, split_parts
from diag_kit.hosts.protocol import Host
from diag_kit.observe.logs.pieces import asked_files

PS = "    PID    PPID USER     STAT %CPU COMMAND\n   2100       1 carol    Rl   38.1 python main.py --lr 1e-4\n"
SMI = """\
Mon Mar  3 09:14:22 2031
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 515.65.01    Driver Version: 515.65.01    CUDA Version: 11.7     |
|===============================+======================+======================|
|   0  NVIDIA A100         Off  | 00000000:01:00.0 Off |                    0 |
| N/A   46C    P0   141W / 350W |  37412MiB / 81559MiB |    100%      Default |
+-------------------------------+----------------------+----------------------+
"""
LOG = "".join(f"epoch 0 step {step}/35446 loss {9 - step / 100:.3f} lr 1.0e-04\n" for step in range(200))
DMESG = "[Thu Oct  9 16:52:01 2031] NVRM: Xid (PCI:0000:8a:00): 94, pid=22001, name=python, Contained\n"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (LOG, "training_log"),
        (SMI + LOG, "training_log"),
        (
            " 14%|#4   | 378/2610 [13:46:34<81:20:43, 131.20s/it]\r 15%|#5   | 379/2610 [13:48:34<81:20:43, 131.20s/it]",
            "training_log",
        ),
        ("2031-09-06,10:03:00 | INFO | Train Epoch: 0 [0/1281024 (0%)]\tLoss: 5.2\tData (t) 0.612\n", "training_log"),
        ('Traceback (most recent call last):\n  File "x"\nRuntimeError: CUDA error: ECC\n', "training_log"),
        ("[1,0]<stdout>:hosta:2130:2360 [0] NCCL INFO Bootstrap : Using [0]lo:127.0.0.1<0>\n", "nccl"),
        (SMI, "nvidia_smi_table"),
        ("index, utilization.gpu [%], power.draw [W]\n0, 100 %, 71.20 W\n", "nvidia_smi_csv"),
        ("index, pcie.link.gen.current, pcie.link.width.current\n0, 4, 8\n", "nvidia_smi_csv"),
        ("\n==============NVSMI LOG==============\n\nTimestamp : x\n", "nvidia_smi_query"),
        ("GPU 00000000:8A:00.0\n    ECC Mode\n        Current : Enabled\n", "nvidia_smi_query"),
        (
            "# gpu    pwr  gtemp  mtemp     sm\n# Idx      W      C      C      %\n    0     77     34     33      0\n",
            "nvidia_smi_dmon",
        ),
        ("# gpu         pid  type    sm    mem\n# Idx           #   C/G     %      %\n", "nvidia_smi_dmon"),
        ("\t\x1b[4mGPU0\tGPU1\tCPU Affinity\x1b[0m\nGPU0\t X \tNV18\t0-31\n", "topo"),
        ("Device            r/s     rkB/s\nsda   0.1  2.0\n", "iostat"),
        ('{"sysstat": {"hosts": [{"statistics": [{"disk": []}]}]}}', "iostat"),
        ('Process 811: python train.py\nPython v3.10.12 (/usr/bin/python3.10)\n\nThread 811 (active): "MainThread"\n', "py_spy"),
        (DMESG, "dmesg"),
        ("top - 10:05:02 up 12 days,  4 users,  load average: 2.02, 2.10, 1.98\n", "top"),
        ("Mem: 30117264K used, 2212340K free, 812K shrd\nCPU:  49% usr\n", "top"),
        (PS, "ps"),
        ("    PID %CPU STAT COMMAND\n   2100 38.1 Rl   python main.py\n", "ps"),
        ("PID   USER     TIME  COMMAND\n    1 root      0:00 /bin/sh\n", "ps"),
        ("               total        used        free      shared  buff/cache   available\nMem: 1 2 3 4 5 6\n", "free"),
        ("MemTotal:       528000112 kB\nMemFree:         9120332 kB\n", "meminfo"),
        ("Name:\tpython\nThreads:\t48\nCpus_allowed_list:\t0-47\n", "proc_status"),
        (" 14:11:09 up 5 days,  3:02,  1 user,  load average: 262.41, 258.90, 249.77\n", "uptime"),
        ("Name  Self CPU %  Self CPU\naten::item 0.02% 1.7ms\n", "profile"),
        ("import torch\nfrom torch.utils.data import DataLoader\n\nloss = 0.3\n", "python_source"),
        ("num_processes: 7\nnum_generations: 8\nlr: 1\n", "config"),
        ("step,epoch,loss\n1,0,1.9\n2,0,1.8\n", "table"),
        ("nothing that anybody knows\n", "text"),
        ("", "empty"),
        (" \n\n", "empty"),
    ],
)
def test_the_kind_is_told_from_the_content(text: str, kind: str) -> None:
    assert kind_of(text.encode(), "any.txt") == kind
    assert kind in KINDS


@pytest.mark.parametrize(("data", "kind"), [(b"\x89PNG\r\n\x1a\n\0\0\0", "binary"), (b"\x1f\x8b\x08\0" + b"\0" * 50, "binary")])
def test_binary_content(data: bytes, kind: str) -> None:
    assert kind_of(data, "log.txt") == kind


@given(
    st.binary(max_size=3000) | st.text(alphabet=" \t\n\r$#|,:{}[]()=>01aPID%", max_size=2000).map(str.encode),
    st.text(max_size=20),
)
@settings(max_examples=300, deadline=None)
def test_any_bytes_have_a_kind_and_parts(data: bytes, name: str) -> None:
    assert kind_of(data, name) in KINDS
    parts = split_parts(data, name)
    assert parts and all(part.kind in KINDS and part.line >= 1 for part in parts)
    lines = data.split(b"\n")
    for part in parts:
        assert lines[part.line - 1 :][: part.data.count(b"\n") + 1] == part.data.split(b"\n") or part.data == b""


@pytest.mark.parametrize(
    "unit", [b"\n", b" \n", b" ", b"\t", b"a@b ", b"$ x\n", b"GPU0 ", b"[" * 50, b"PID ", b"1%|", b"(" * 50, b"a.", b", a"]
)
def test_no_text_takes_for_ever(unit: bytes) -> None:
    data = unit * (2**20 // len(unit))
    begun = time.process_time()
    split_parts(data, "x.py")
    assert time.process_time() - begun < 8


def test_a_terminal_session_is_cut_at_its_prompts(tmp_path: Path) -> None:
    (tmp_path / "session.txt").write_text(
        f"hello\n$ ps -ef\n{PS}carol@bigbox:~/x$ nvidia-smi\n{SMI}[carol@bigbox x]$ dmesg\n{DMESG}"
    )
    (document,) = files(tmp_path).documents
    assert document.kind == "mixed"
    assert [(part.kind, part.command, part.line) for part in document.parts] == [
        ("text", "", 1), ("ps", "ps -ef", 3), ("nvidia_smi_table", "nvidia-smi", 6), ("dmesg", "dmesg", 14),
    ]  # fmt: skip
    assert document.as_result(document.parts[1]).text.rstrip() == PS.rstrip()
    commands = ["cat session.txt", "ps -ef # session.txt, line 3", "nvidia-smi # session.txt, line 6"]
    assert [document.as_result(part).command for part in document.parts[:3]] == commands


def test_a_log_in_a_session_is_named_by_its_file(tmp_path: Path) -> None:
    """Also under a command with a quote that does not close."""
    (tmp_path / "session.txt").write_text(f"$ echo it's here\n{LOG}\n$ tail -n 5 train.log\n{LOG}")
    (document,) = files(tmp_path).documents
    assert [asked_files(document.as_result(part), 0) for part in document.parts] == [["session.txt"], ["session.txt"]]


def test_tail_of_several_files_is_cut_at_its_headings() -> None:
    parts = split_parts(f"==> rank0.log <==\n{LOG}\n==> rank1.log <==\n{LOG}".encode())
    assert [(part.kind, part.command) for part in parts] == [("training_log", "rank0.log"), ("training_log", "rank1.log")]


def test_a_file_becomes_the_result_of_cat(tmp_path: Path) -> None:
    (tmp_path / "my log.txt").write_text(LOG)
    os.utime(tmp_path / "my log.txt", (1_000_000, 1_000_000))
    (document,) = files(tmp_path).documents
    printed = document.as_result()
    assert (printed.host, printed.command, printed.text, printed.exit_status) == ("files", "cat 'my log.txt'", LOG, 0)
    assert printed.started.timestamp() == 1_000_000


def test_a_folder_is_a_host_that_runs_nothing(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text(LOG)
    host = files(tmp_path)
    assert isinstance(host, Host)
    assert (host.kind, host.about, host.name) == ("files", "pasted files", tmp_path.name)
    assert [each.name for each in host.of_kind("training_log", "ps")] == ["log.txt"]
    with pytest.raises(NotRecorded, match="cannot run commands"):
        host.run("uptime")
    host.close()


def test_names_are_relative_sorted_and_hidden_files_are_left_out(tmp_path: Path) -> None:
    for name in ("b.txt", "a/z.txt", ".git/config", "a/.x"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("text\n")
    assert [each.name for each in files(tmp_path).documents] == ["a/z.txt", "b.txt"]


def test_links_out_of_the_folder_and_special_files_are_not_followed(tmp_path: Path) -> None:
    inside = tmp_path / "case"
    inside.mkdir()
    (tmp_path / "secret.txt").write_text("outside")
    (inside / "log.txt").write_text(LOG)
    (inside / "out.txt").symlink_to(tmp_path / "secret.txt")
    (inside / "passwd").symlink_to("/etc/passwd")
    (inside / "dir").symlink_to("/etc")
    (inside / "gone.txt").symlink_to(inside / "nowhere")
    (inside / "loop").symlink_to(inside / "loop")
    (inside / "in.txt").symlink_to(inside / "log.txt")
    os.mkfifo(inside / "pipe")
    host = files(inside)
    assert [each.name for each in host.documents] == ["in.txt", "log.txt"]
    said = "; ".join(host.problems)
    assert said.count("link out of the folder") == 3
    assert "pipe is not a regular file" in said and "gone.txt" in said and "loop" in said


def test_an_unreadable_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "log.txt").write_text(LOG)
    (tmp_path / "other.txt").write_text("x")
    really_open = Path.open

    def denied(path: Path, *how: Any) -> Any:  # a mode does not stop root
        if path.name == "other.txt":
            raise PermissionError(13, "Permission denied")
        return really_open(path, *how)

    monkeypatch.setattr(Path, "open", denied)
    assert files(tmp_path).problems == ("other.txt could not be read: Permission denied",)


def test_large_files_are_cut_and_the_cut_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["diag_kit.hosts.files"], "MAX_FILE_BYTES", 1000)
    (tmp_path / "log.txt").write_text(LOG)
    host = files(tmp_path)
    assert (len(host.documents[0].data), host.documents[0].truncated) == (1000, True)
    assert host.documents[0].as_result().truncated
    assert "log.txt were read" in host.problems[0]


def test_all_files_together_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["diag_kit.hosts.files"], "MAX_TOTAL_BYTES", 2500)
    for number in range(4):
        (tmp_path / f"{number}.txt").write_text("x" * 1000)
    assert [len(each.data) for each in files(tmp_path).documents] == [1000, 1000, 500, 0]


def test_many_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["diag_kit.hosts.files"], "MAX_FILES", 5)
    for number in range(9):
        (tmp_path / f"{number}.txt").write_text("x")
    host = files(tmp_path)
    assert len(host.documents) == 5 and "only 5 files" in host.problems[0]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_text_written_by_windows(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "log.txt").write_bytes(LOG.encode(encoding))
    (document,) = files(tmp_path).documents
    assert (document.kind, document.text) == ("training_log", LOG)


def test_what_is_no_folder_and_an_empty_one(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is not a folder"):
        files(tmp_path / "none")
    with pytest.raises(BadInput, match="no readable file"):
        files(tmp_path)


def test_random_bytes_do_no_harm(tmp_path: Path) -> None:
    rng = random.Random(3)
    for number in range(20):
        (tmp_path / f"{number}.py").write_bytes(rng.randbytes(5000))
    assert len(files(tmp_path).documents) == 20


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ml@n1 ~ % nproc\n96\nml@n1 ~ % uptime\nx\n", ["nproc", "uptime"]),  # zsh
        ("➜  run git:(main) ✗ nproc\n96\n➜  run git:(main) ✗ \n", ["nproc"]),
        ("ml@n1 ~/run> nproc\n5\nml@n1 ~/run> uptime\ny\n", ["nproc", "uptime"]),  # fish
        ("PS C:\\Users\\ml> nvidia-smi\nxx\nPS C:\\Users\\ml> \n", ["nvidia-smi"]),
        ("/workspace # nproc\n4\n/workspace # ps\nx\n", ["nproc", "ps"]),  # a container's sh
        ("bash-5.1# nproc\n4\n", ["nproc"]),
        ("host:~ ml$ nproc\n4\nhost:~ ml$ w\nx\n", ["nproc", "w"]),  # macOS
        ("(venv) (base) ml@n1:~/a b$ nproc\n4\n(venv) (base) ml@n1:~/a b$ cd x\n", ["nproc", "cd x"]),
        ("[10:00:01] ml@n1:~/x (main)$ nproc\n4\n", ["nproc"]),
        ("+ nvidia-smi\nfoo\n+ export A=1\n+ python train.py\nbar\n", ["nvidia-smi", "export A=1", "python train.py"]),  # set -x
        ("In [3]: !nproc\n4\n!uptime\nx\n", ["nproc", "uptime"]),  # Jupyter
        ("===== nproc =====\n4\n--- free -m ---\nx\n[uptime]\ny\n", ["nproc", "free -m", "uptime"]),
        ("# free -h\nx\n# nproc\n4\n", ["free -h", "nproc"]),  # root
        ("- foo\n+ bar\n+ baz\n- nproc\n", [""]),  # a diff
        ("# A title\ntext\n## top of the list\nmore\n", [""]),
        ("tail -f x@y: hello $5\nloss 1\n", [""]),
    ],
)
def test_prompts_of_many_shells(text: str, expected: list[str]) -> None:
    assert [part.command for part in split_parts(text.encode())] == expected


def test_outputs_without_prompts_are_cut_where_each_begins() -> None:
    top = "top - 10:05:02 up 12 days,  4 users,  load average: 2.02, 2.10, 1.98\n\n"
    top += "  PID USER      PR  NI S COMMAND\n    1 a 20 0 S x\n"
    assert [part.kind for part in split_parts(top.encode())] == ["top"]
    free = "               total        used        free      shared  buff/cache   available\nMem: 1 2 3 4 5 6\n"
    parts = split_parts(f"{free}{SMI}{PS}".encode())
    assert [(part.kind, part.line) for part in parts] == [("free", 1), ("nvidia_smi_table", 3), ("ps", 10)]
    assert [part.kind for part in split_parts((SMI + LOG + PS).encode())] == ["training_log"]
