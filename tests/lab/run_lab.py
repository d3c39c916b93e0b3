"""Start and stop the lab training from a test.

    with start(split="none", ranks=2, folder=tmp_path) as lab:
        lab.wait_for_steps(5)
        ...  # lab.log, lab.launcher_pid, lab.rank_pids()

The interpreter is named by DIAG_KIT_LAB_PYTHON, else this one if it can import torch; else ``lab_python()`` is None.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

SCRIPT = Path(__file__).with_name("train.py")
FORMS = {"dict": "'epoch':", "flat": ", epoch=", "rich-like": "train/loss_0=", "ranktag": " step "}


def lab_python() -> str | None:
    """An interpreter that can import torch, or None."""
    named = os.environ.get("DIAG_KIT_LAB_PYTHON", "")
    if named:
        return named
    return sys.executable if importlib.util.find_spec("torch") else None


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@dataclass
class Lab:
    """A running training. ``folder`` holds ``data/``, the log, and nothing of the repository."""

    process: subprocess.Popen[bytes]
    folder: Path
    log: Path
    data_dir: Path
    form: str
    command: list[str] = field(default_factory=list)

    @property
    def launcher_pid(self) -> int:
        """Pid of torchrun (of the shell's child, where the log goes through tee)."""
        for pid in (self.process.pid, *_descendants(self.process.pid)):
            if b"torch.distributed.run" in _cmdline(pid) and b"python" in _cmdline(pid).split(b"\0")[0]:
                return pid
        return self.process.pid

    def rank_pids(self) -> dict[int, int]:
        """rank -> pid, from the environment of the launcher's children."""
        found = {}
        for pid in _children(self.launcher_pid):
            rank = _environment(pid).get("RANK")
            if rank is not None:
                found[int(rank)] = pid
        return found

    def steps(self) -> int:
        """Metric records in the log so far, over all ranks."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return text.count(FORMS[self.form])

    def wait_for_steps(self, records: int, timeout_s: float = 90.0) -> None:
        """Wait until the log holds so many metric records; AssertionError with the log's end when it does not come."""
        end = time.monotonic() + timeout_s
        while self.steps() < records:
            tail = self.log.read_text(errors="replace")[-2000:] if self.log.exists() else "no log"
            assert self.process.poll() is None, f"the lab training ended early ({self.process.returncode}):\n{tail}"
            assert time.monotonic() < end, f"the lab training printed too little in {timeout_s} s:\n{tail}"
            time.sleep(0.2)

    def stop(self) -> None:
        """End the whole process group and wait for it."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait(timeout=10)

    def __enter__(self) -> Lab:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()


def start(
    *,
    split: str = "none",
    ranks: int = 2,
    folder: Path,
    form: str = "dict",
    log_through: str = "redirect",
    launcher: str = "torchrun",
    python: str | None = None,
    script: Path = SCRIPT,
    extra: tuple[str, ...] = (),
    **options: object,
) -> Lab:
    """Start a training in the background; options become switches (``file_kib=256`` is ``--file-kib 256``).

    ``log_through``: "redirect" (``> train.log 2>&1``), "append" or "tee" (``2>&1 | tee train.log``). ``launcher``: "torchrun",
    or "plain" for one process with RANK and WORLD_SIZE set by hand.
    """
    interpreter = python or lab_python()
    if interpreter is None:
        raise RuntimeError("no interpreter with torch: set DIAG_KIT_LAB_PYTHON")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    log, data_dir = folder / "train.log", folder / "data"
    arguments = [str(script), "--data-dir", str(data_dir), "--split", split, "--form", form]
    for name, value in options.items():
        arguments += [f"--{name.replace('_', '-')}", str(value)]
    arguments += extra
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    environment.pop("PYTHONPATH", None)
    if launcher == "torchrun":
        run = ["-m", "torch.distributed.run", f"--nproc_per_node={ranks}", "--master_addr=127.0.0.1"]
        command = [interpreter, *run, f"--master_port={free_port()}", *arguments]
    else:
        command = [interpreter, *arguments]
        environment.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1")
        environment.update(MASTER_PORT=str(free_port()))
    redirect = {"redirect": "exec {} > {} 2>&1", "append": "exec {} >> {} 2>&1", "tee": "{} 2>&1 | tee {}"}[log_through]
    line = redirect.format(shlex.join(command), shlex.quote(str(log)))
    process = subprocess.Popen(
        ["sh", "-c", line],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    return Lab(process, folder, log, data_dir, form, command)


def _cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _environment(pid: int) -> dict[str, str]:
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (item.split(b"=", 1) for item in raw.split(b"\0") if b"=" in item)
    return {name.decode(errors="replace"): value.decode(errors="replace") for name, value in pairs}


def _children(pid: int) -> list[int]:
    try:
        return [int(p) for task in Path(f"/proc/{pid}/task").iterdir() for p in (task / "children").read_text().split()]
    except OSError:
        return []


def _descendants(pid: int) -> list[int]:
    found = []
    for child in _children(pid):
        found += [child, *_descendants(child)]
    return found
