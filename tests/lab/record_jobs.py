"""Record the process dumps under tests/data/jobs from real runs on this machine (needs root, torch and two cores).

    python record_jobs.py OUT [CASE ...]

Paths of this machine are replaced by neutral ones, so that a dump reads the same wherever it was made.
"""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from lab.run_lab import SCRIPT as TRAIN  # noqa: E402
from lab.run_lab import lab_python, start  # noqa: E402

from diag_kit.observe.remote_proc import SCRIPT  # noqa: E402

ACCELERATE = """
import runpy, sys
sys.argv = ["torchrun", *sys.argv[2:]]
runpy.run_module("torch.distributed.run", run_name="__main__")
"""
SPAWN = """
import sys, time, torch
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, TensorDataset
def run(rank, world):
    loader = DataLoader(TensorDataset(torch.zeros(1000, 1)), num_workers=1)
    for _ in loader:
        time.sleep(0.2)
if __name__ == "__main__":
    mp.spawn(run, nprocs=2, args=(2,))
"""


def dump(*prefix: str, mode: str = "python") -> bytes:
    command = [*prefix, "sh", "-c", SCRIPT, "diag_kit", mode]
    return subprocess.run(command, stdout=subprocess.PIPE, env={**os.environ, "LC_ALL": "C"}, check=True, cwd="/").stdout


@contextmanager
def child(command: list[str], folder: Path, **options: object) -> Iterator[int]:
    process = subprocess.Popen(command, cwd=folder, start_new_session=True, **options)  # type: ignore[call-overload]
    try:
        yield process.pid
    finally:
        os.killpg(process.pid, 9)
        process.wait()


def record(case: str, work: Path) -> dict[str, bytes]:
    python = lab_python() or sys.executable
    data = ["--data-dir", str(work / "data"), "--files", "60", "--epochs", "50"]
    with ExitStack() as stack:
        if case in ("torchrun_redirect", "torchrun_tee", "foreign_user"):
            way = "tee" if case == "torchrun_tee" else "redirect"
            lab = stack.enter_context(start(ranks=2, folder=work, log_through=way, files=60, epochs=50))
            lab.wait_for_steps(4)
            if case == "foreign_user":
                return {"dump.txt": dump("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")}
            return {"dump.txt": dump(), "dump_sh.txt": dump(mode="sh")}
        if case == "two_jobs":
            for name, ranks in (("first", 2), ("second", 3)):
                lab = stack.enter_context(start(ranks=ranks, folder=work / name, files=60, epochs=50))
                lab.wait_for_steps(4)
            return {"dump.txt": dump()}
        if case == "accelerate":
            tool = work / "bin" / "accelerate"
            tool.parent.mkdir(parents=True)
            tool.write_text(ACCELERATE)
            log = stack.enter_context((work / "out.log").open("wb"))
            command = [python, str(tool), "launch", "--nproc_per_node=2", "--master_port=29655", str(TRAIN), *data]
            environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "2,3", "WANDB_API_KEY": "never-to-be-sent"}
            stack.enter_context(child(command, work, stdout=log, stderr=log, env=environment))
        elif case == "plain_python":
            stack.enter_context(start(launcher="plain", folder=work, files=60, epochs=50, log_through="append"))
        elif case == "mp_spawn":
            (work / "spawn.py").write_text(textwrap.dedent(SPAWN))
            log = stack.enter_context((work / "spawn.log").open("wb"))
            stack.enter_context(child([python, "spawn.py"], work, stdout=log, stderr=log))
        elif case == "terminal":
            terminal, inside = pty.openpty()
            stack.callback(os.close, terminal)
            command = [python, "-m", "torch.distributed.run", "--nproc_per_node=2", str(TRAIN), *data]
            stack.enter_context(child(command, work, stdout=inside, stderr=inside, stdin=inside))
        elif case == "other_namespace":
            command = ["unshare", "-m", "sh", "-c", 'exec "$@" > train.log 2>&1', "sh", python, "-m", "torch.distributed.run"]
            stack.enter_context(child([*command, "--nproc_per_node=2", str(TRAIN), *data], work))
        elif case == "nothing":
            code = "import time, torch; time.sleep(60)"
            stack.enter_context(child([python, "-c", code], work))
            stack.enter_context(child(["tail", "-f", str(TRAIN), "/dev/null"], work, stdout=subprocess.DEVNULL))
        time.sleep(14)
        return {"dump.txt": dump()}


CASES = [
    *("torchrun_redirect", "torchrun_tee", "foreign_user", "two_jobs", "accelerate", "plain_python"),
    *("mp_spawn", "terminal", "other_namespace", "nothing"),
]


def neutral(raw: bytes, work: Path) -> bytes:
    python = Path(lab_python() or sys.executable)
    base = Path(os.path.realpath(python)).parents[1]
    places = {str(work): "/data/run", str(TRAIN): "/home/ml/train.py"}
    places |= {str(python.parents[1]): "/opt/env", str(base): "/opt/python"}
    for here, there in places.items():
        raw = raw.replace(here.encode(), there.encode())
    return raw


def ours_only(raw: bytes) -> bytes:
    """Leave out every process that this recorder did not start."""
    parents: dict[int, int] = {}
    for line in raw.split(b"\n"):
        pid, key, value = [*line.split(b"\t", 2), b"", b""][:3]
        if key == b"stat":
            parents[int(pid)] = int(value.rpartition(b")")[2].split()[1])

    def ours(pid: int) -> bool:
        while pid in parents:
            pid = parents[pid]
            if pid == os.getpid():
                return True
        return False

    wanted = {str(pid).encode() for pid in parents if ours(pid)} | {b"0"}
    lines = [line for line in raw.split(b"\n") if line.startswith(b"==") or not line or line.split(b"\t")[0] in wanted]
    return b"\n".join(lines)


def main() -> None:
    out = Path(sys.argv[1])
    for case in sys.argv[2:] or CASES:
        work = Path(tempfile.mkdtemp(prefix="lab"))
        work.chmod(0o755)
        for name, raw in record(case, work).items():
            (out / case).mkdir(parents=True, exist_ok=True)
            (out / case / name).write_bytes(neutral(ours_only(raw), work))
            print(case, name, len(raw))
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
