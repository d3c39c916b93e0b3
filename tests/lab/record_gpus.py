"""Record real trainings on a GPU host with the kit itself over SSH: one recording for each way of splitting the data.

    python record_gpus.py TARGET --ranks 2 --out FOLDER [--ssh-config FILE] [--splits none sampler same-seed]

Run on the GPU host (TARGET is then its own sshd on loopback). Each training runs for ``--warm-up`` seconds before the kit
looks; the log goes through ``| tee``, as people do.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import diag_kit as dk
from diag_kit.hosts.connection import connect

HERE = Path(__file__).resolve().parent


def start(split: str, ranks: int, data: Path, folder: Path, extra: list[str]) -> subprocess.Popen[bytes]:
    """A torchrun in a process group of its own, piped through tee."""
    line = 'exec torchrun --nproc_per_node="$1" "$2" --data-dir "$3" --split "$4" "${@:6}" 2>&1 | tee "$5" >/dev/null'
    script = folder / "train_gpu.py"  # the recording should name no path of this repository
    shutil.copy(HERE / "train_gpu.py", script)
    words = [str(ranks), str(script), str(data), split, str(folder / "train.log"), *extra]
    quiet = subprocess.DEVNULL  # so that no descriptor of whoever runs this is inherited
    command = ["bash", "-c", line, "bash", *words]
    return subprocess.Popen(command, start_new_session=True, cwd=folder, stdin=quiet, stdout=quiet, stderr=quiet)


def end_ranks() -> None:
    """torchrun's ranks are process groups of their own: end every python that runs the training script."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"python" in words[0] and any(word.endswith(b"/train_gpu.py") for word in words[1:4]):
            os.kill(int(entry.parent.name), signal.SIGKILL)


def wait_for_steps(log: Path, lines: int, timeout_s: float) -> None:
    """Until the training steps: a recording of its start-up says nothing about its rate."""
    until = time.monotonic() + timeout_s
    while time.monotonic() < until:
        if log.exists() and log.read_bytes().count(b"'lr'") >= lines:
            return
        time.sleep(0.5)
    sys.exit(f"no steps in {log} within {timeout_s:.0f} s:\n{log.read_text()[-2000:] if log.exists() else 'no log'}")


def record(target: str, config: str | None, split: str, seconds: float, out: Path, title: str, note: str) -> None:
    host = connect(target, config=config)
    inv = dk.Investigation(host, question="Is this run as fast as its two GPUs allow?")
    begun = time.monotonic()
    inv.diagnose(seconds=seconds)
    inv.note(note)
    saved = inv.save(out / f"{title}.diag.zip", title=title)
    print(f"== {split}: {time.monotonic() - begun:.1f} s, {saved.path} {saved.size_bytes} bytes, cost {host.cost}")
    print(inv._repr_mimebundle_()["text/plain"], flush=True)
    host.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target")
    parser.add_argument("--ssh-config")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--data", type=Path, default=Path("/tmp/lab/hidden_states"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--splits", nargs="+", default=["none", "sampler"])
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--warm-up", type=float, default=5)
    parser.add_argument("--keep-logs", action="store_true")
    args, extra = parser.parse_known_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for split in args.splits:
        folder = args.data.parent / f"run-{split}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "train.log").unlink(missing_ok=True)
        training = start(split, args.ranks, args.data, folder, extra)
        try:
            wait_for_steps(folder / "train.log", 20 * args.ranks, 240)
            time.sleep(args.warm_up)
            title = {"none": "unsharded", "same-seed": "same-order", "sampler": "sharded"}[split]
            words = {2: "two", 4: "four"}.get(args.ranks, str(args.ranks))
            note = f"A real torchrun FSDP2 training on {words} GPUs, recorded over SSH; data splitting: {split}."
            record(args.target, args.ssh_config, split, args.seconds, args.out, f"{title}-{words}-gpus", note)
        finally:
            os.killpg(training.pid, signal.SIGKILL)
            end_ranks()
            training.wait()
            if args.keep_logs:
                (args.out / f"log-{split}.txt").write_bytes((folder / "train.log").read_bytes())
        time.sleep(3)


if __name__ == "__main__":
    main()
