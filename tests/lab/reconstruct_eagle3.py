"""Build the recording ``eagle3-35h`` from the published figures of the founding case. Nothing in it was measured here.

    python tests/lab/reconstruct_eagle3.py diag_kit/recordings/eagle3-35h.diag.zip

The log, the processes, the GPUs and the disks are written as the tools would have printed the published figures; what was not
published (metric values, the script, the files each rank opens, memory, mounts) is left out, and the kit then has to say "not
recorded" or "not testable here". The date is made up; the times of day are the published ones.
"""

from __future__ import annotations

import json
import sys
import threading
from datetime import UTC, datetime, timedelta

import diag_kit as dk
from diag_kit.hosts.protocol import render
from diag_kit.records import CommandResult
from diag_kit.redaction import Redactor

SOURCE = (
    "the published figures of the case: start-up lines of the log, 168 lines in 30 s, 748 lines after about 4.5 minutes, GPUs at "
    "100 % and about 250 W, iostat at 0.04 % iowait and a few kB/s. The date is made up. Metric values, script, opened files, "
    "memory and mounts were not published and are left out"
)
START = datetime(2026, 1, 14, 22, 27, tzinfo=UTC)
WINDOW = datetime(2026, 1, 14, 22, 31, tzinfo=UTC)
LOG = "/data/eagle3/synth_100k/logs/train_4gpu.log"
SCRIPT_ARGS = [
    "--verifier-path",
    "/shared/kimi-k2.5-int4",
    "--data-dir",
    "/data/eagle3/synth_100k/hidden_states",
    "--epochs",
    "5",
    "--lr",
    "3e-5",
    "--max-seq-len",
    "4096",
    "--num-workers",
    "4",
]
PYTHON = "/root/ml-env/bin/python3"
FACT_LINES = "Total training|Train batches|Train files|Val files"
WARM_UP_STEPS = 1772  # 1 % of 177,230
BEFORE, AFTER = 145, 187  # steps when the window opens and closes: 580 and 748 lines


class Stage:
    """A host that gives the answers it was handed, in order, as if it had been asked at a given time."""

    name = "trainbox"
    kind = "recorded"
    about = "recorded (reconstruction)"

    def __init__(self) -> None:
        self.answer = b""
        self.at = WINDOW
        self.took_s = 0.2

    def run(self, script, *arguments, timeout_s=30.0, max_bytes=2**23, stop: threading.Event | None = None):
        return CommandResult(self.name, render(script, arguments), self.answer, b"", 0, self.at, self.took_s)

    def close(self) -> None:
        """Nothing is open."""


def log_head() -> bytes:
    lines = ["Train files: 35446", "Val files: 1866", "Train batches/epoch: 35446", "Total training steps: 177230"]
    return "".join(f"{line}\n" for line in lines).encode()


def steps(first: int, end: int) -> bytes:
    """One record of each of four ranks a step; the learning rate of a linear warm-up is the step's own."""
    record = "INFO:speculators.metrics:{{'train': {{}}, 'epoch': 0, 'lr': {lr!r}}}\n"
    return "".join(record.format(lr=3e-5 * step / WARM_UP_STEPS) * 4 for step in range(first, end)).encode()


def processes() -> bytes:
    """The launcher and its four ranks, as far as the command line and the log's path were published."""
    boot = int(START.timestamp()) - 86_400
    ticks = 86_400 * 100
    rows = ["==diag_kit:host=="]
    rows += [f"0\t{key}\t{value}" for key, value in (("btime", boot), ("hz", 100), ("now", int(WINDOW.timestamp())), ("uid", 0))]
    rows += ["0\tmnt\tmnt:[4026531841]", "0\tby\tpython3 3.12", "==diag_kit:processes=="]
    launcher = [PYTHON, "/root/ml-env/bin/torchrun", "--nproc_per_node=4", "/tmp/04_train.py", *SCRIPT_ARGS]
    rows += process(4100, 4000, ticks, launcher, {})
    for rank in range(4):
        command = [PYTHON, "-u", "/tmp/04_train.py", *SCRIPT_ARGS]
        names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 4, "LOCAL_WORLD_SIZE": 4, "MASTER_ADDR": "127.0.0.1"}
        rows += process(4110 + rank, 4100, ticks + 300, command, names)
        for worker in range(4):  # --num-workers 4
            pid = 4120 + 4 * rank + worker
            rows += process(pid, 4110 + rank, ticks + 9000, command, {}, name="pt_data_worker")
            rows.append(f"{pid}\tworker\tsame command line as its parent")
    rows += ["0\tuser\t0 root", "==diag_kit:end=="]
    return ("\n".join(rows) + "\n").encode()


def process(
    pid: int, parent: int, started_ticks: int, command: list[str], environment: dict[str, object], name: str = "python3"
) -> list[str]:
    stat = f"{pid} ({name}) S {parent} {pid} {pid} 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 {started_ticks} 0 0"
    rows = [
        ("stat", stat),
        ("cmd", "\x1f".join(command) + "\x1f"),
        ("Uid", "0"),
        ("exe", PYTHON),
        ("cwd", "/root"),
        ("root", "/"),
    ]
    rows += [("mnt", "mnt:[4026531841]")]
    rows += [("env", f"{name}={value}") for name, value in environment.items()]
    rows += [("libs", "libcuda,libnccl,libtorch_cpu,libtorch_cuda")] if environment else []
    if environment.get("RANK") == 0:
        rows += [("site", "/root/ml-env/lib/python3.12/site-packages\x1fspeculators=0.3.0\x1ftorch=2.9.1")]
    size = len(log_head()) + len(steps(0, BEFORE))
    rows += [("fd", "0 - - - /dev/null"), *(("fd", f"{n} 0100001 {size} {int(WINDOW.timestamp())} {LOG}") for n in (1, 2))]
    return [f"{pid}\t{key}\t{value}" for key, value in rows]


def whole_log(text: bytes, kind: str, at: datetime) -> bytes:
    stamp = int(at.timestamp())
    size = f"bytes={len(text)} size={len(text)} mtime={stamp}"
    host = f"==diag_kit:host now={stamp} zone=+0000==\n"
    return f"{host}==diag_kit:part file=0 kind={kind} offset=0 line=1 {size}==\n".encode() + text + b"\n"


def growth() -> bytes:
    """168 lines in 30 s: 42 steps of four ranks, 1.4 a second."""
    begin = WINDOW.timestamp()
    size = len(log_head()) + len(steps(0, BEFORE))
    out = f"==diag_kit:start file=0 t={begin:.3f} size={size} cut=0 fstype=-==\n".encode()
    done = 0
    for second in range(1, 31):
        now = round(42 * second / 30)
        text = steps(BEFORE + done, BEFORE + now)
        lines = (now - done) * 4
        grown = f"appended={len(text)} lines={lines} event=none bytes={len(text)}"
        mark = f"==diag_kit:tick file=0 n={second} t={begin + second:.3f} {grown}==\n"
        out += mark.encode() + text + b"\n"
        done = now
    return out


def gpus(at: datetime) -> bytes:
    """Four GPUs at 100 % and about 250 W of 600 W; the other four were not spoken of."""
    name = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
    header = "timestamp, index, name, utilization.gpu [%], power.draw [W], enforced.power.limit [W]\n"
    rows = [
        f"{(at + timedelta(seconds=second)):%Y/%m/%d %H:%M:%S.000}, {gpu}, {name}, 100, 250.00, 600.00\n"
        for second in range(10)
        for gpu in range(4)
    ]
    listed = "".join(f"GPU {gpu}: {name} (UUID: GPU-00000000-0000-0000-0000-00000000000{gpu})\n" for gpu in range(4))
    return (f"==diag_kit:list==\n{listed}==diag_kit:list_status==\n0\n==diag_kit:query==\n" + header + "".join(rows)).encode()


def disks(at: datetime) -> bytes:
    """The two reports after the one since boot: 0.04 % iowait, a few kB/s."""
    reports = [
        {
            "timestamp": f"{(at + timedelta(seconds=second)):%Y-%m-%dT%H:%M:%S}+0000",
            "avg-cpu": {"iowait": 0.04},
            "disk": [{"disk_device": "nvme0n1", "rkB/s": 3.0}],
        }
        for second in (1, 2)
    ]
    found = {"sysstat": {"hosts": [{"nodename": "trainbox", "statistics": reports}]}}
    return ("==diag_kit:devices==\nnvme0n1 disk 0\n==diag_kit:json==\n" + json.dumps(found, indent=1) + "\n").encode()


def matching_lines() -> bytes:
    lines = "".join(f"{number}:{line}\n" for number, line in enumerate(log_head().decode().splitlines(), 1))
    return f"==diag_kit:lines file=0==\n{lines}==diag_kit:status file=0 status=0==\n".encode()


def build() -> dk.Investigation:
    stage = Stage()
    inv = dk.Investigation(stage, question="Why will this run take 35 hours?")

    def seen(probe, answer: bytes, at: datetime, took_s: float = 0.2) -> None:
        stage.answer, stage.at, stage.took_s = answer, at, took_s
        observed = inv.observe(probe)
        if observed.parsed.not_understood:
            sys.exit(f"{probe}: {observed.parsed.not_understood}")

    after = WINDOW + timedelta(seconds=30)
    before_log, after_log = log_head() + steps(0, BEFORE), log_head() + steps(0, AFTER)
    seen(dk.observe.training_jobs(), processes(), WINDOW - timedelta(seconds=20))
    seen(dk.observe.grep_lines(FACT_LINES), matching_lines(), WINDOW - timedelta(seconds=18))
    seen(dk.observe.log_facts(), whole_log(before_log, "head", WINDOW), WINDOW - timedelta(seconds=15))
    seen(dk.observe.log_rate(seconds=30), growth(), WINDOW, 30.2)
    seen(dk.observe.grep_count("epoch.*0.*lr"), COUNT.format(748).encode(), after)
    seen(dk.observe.log_metrics(), whole_log(after_log, "whole", after), after)
    seen(dk.observe.gpus(seconds=10), gpus(after + timedelta(seconds=20)), after + timedelta(seconds=20), 10.2)
    seen(dk.observe.iostat(seconds=2), disks(after + timedelta(seconds=40)), after + timedelta(seconds=40), 2.1)
    inv.tell("nvlink", "none", source="the GPU model: PCIe Gen5, no NVLink")
    inv.tell("one_gpu_steps_per_s", 6, "steps/s", source="earlier runs on one GPU, one sample a step")
    inv.tell("dataset_bytes", 4.6e12, "bytes", source="size of the dataset folder")
    inv.tell("dataset_samples", 37312, "samples", source="files in the dataset folder")
    inv.tell("parameters", 2.6e9, source="the drafter's configuration")
    inv.tell("trainable_parameters", 1.2e9, source="embedding and verifier head are frozen")
    return inv


COUNT = "==diag_kit:count file=0 status=0 count={} exact=748==\n"


def main() -> None:
    inv = build()
    saved = inv.save(
        sys.argv[1], title="A 35-hour run on four GPUs", reconstructed_from=SOURCE, redactor=Redactor(keep={"host", "user"})
    )
    print(f"{saved.path}: {saved.size_bytes} bytes, replaced {dict(saved.redactions)}")


if __name__ == "__main__":
    main()
