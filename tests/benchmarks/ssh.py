"""The kit's SSH against `ssh`, `ssh` over a ControlMaster and paramiko's defaults, near and 80 ms away, interleaved.

    python tests/benchmarks/ssh.py [--rtt-ms 0 80] [--mib 64] [--reps 5] [--processes 1] [--tasks one twenty bulk]

Starts its own sshd and a relay on the loopback interface, writes a log like the founding one, and prints for each task the
median with its spread, and the ratio to `ssh host cat` (bulk) or to a warm `ssh` over its master (one command). Every answer is
checked; exits 1 if one differs. Client, relay and server share this machine's cores: take the ratios, not the numbers.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import paramiko

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.far_away import relay
from real_sshd import Sshd, free_port, have_namespaces

from diag_kit.evidence import Evidence
from diag_kit.hosts.connection import connect
from diag_kit.observe.logs.remote_columns import LogColumns

COLUMNS = ("loss_0", "full_acc_0")  # with rank, time, epoch, rate and step: seven
SCALE = ("loss", "full_acc", "cond_acc")


def write_log(path: Path, size: int) -> tuple[int, int]:
    """Four ranks, 4.4 % other lines, 1.5 % of the records glued behind a bar; returns bytes and records."""
    seed, written, records, step = random.Random(1), 0, 0, 0
    with path.open("w", encoding="utf-8") as out:
        while written < size:
            clock = time.strftime("%H:%M:%S", time.gmtime(81_000 + step // 3))
            lines = []
            for rank in range(4):
                tag, luck = f"[rank{rank}] {clock} ", seed.random()
                if luck < 0.044:
                    lines.append(f"{tag}[speculators.trainer] INFO - saving checkpoint to checkpoints/{step}\n")
                elif luck < 0.059:
                    lines.append(f"\rEpoch 0:  {step % 100:2d}%|##        | {step % 4000}/4000 [02:46<19:26,  3.00it/s]")
                pairs = ", ".join(f"'{name}_{i}': {5 * seed.random():.4f}" for i in range(3) for name in SCALE)
                rest = f"'epoch': {step // 4000}, 'lr': {2.4e-05 * min(1, (step + 1) / 500):.6g}, 'global_step': {step}"
                lines.append(
                    f"{tag}[speculators.metrics] INFO - {{'train': {{{pairs}, 'loss': {9 * seed.random():.4f}}}, {rest}}}\n"
                )
                records += 1
            written += out.write("".join(lines))
            step += 1
    return path.stat().st_size, records


class Bench:
    """One server, one distance."""

    def __init__(self, sshd: Sshd, port: int, log: Path, size: int, records: int, processes: int) -> None:
        self.log, self.size, self.records, self.processes = log, size, records, processes
        alias = sshd.add_host(f"far{port}", Port=str(port))
        lines = sshd.known_hosts.read_text()
        sshd.known_hosts.write_text(lines + lines.replace(f":{sshd.port} ", f":{port} "))
        self.ssh = ["ssh", "-F", str(sshd.config)]
        self.alias, self.master = alias, str(sshd.folder / f"m{port}")
        subprocess.run([*self.ssh, "-fNM", "-S", self.master, alias], check=True)
        self.host = connect(alias, config=sshd.config)
        self.plain = paramiko.SSHClient()
        self.plain.set_missing_host_key_policy(paramiko.AutoAddPolicy())
        self.plain.connect("127.0.0.1", port, sshd.user, key_filename=str(sshd.user_key), look_for_keys=False, allow_agent=False)
        self.wire: dict[str, int] = {}

    def close(self) -> None:
        self.host.close()
        self.plain.close()
        subprocess.run([*self.ssh, "-S", self.master, "-O", "exit", self.alias], capture_output=True, check=False)

    def commands(self) -> dict[str, Callable[[], bool]]:
        return {
            "ssh over a ControlMaster": lambda: self._ssh("-S", self.master, command="echo 7") == b"7\n",
            "paramiko's defaults": lambda: self._paramiko("echo 7") == 2,
            "the kit": lambda: self.host.run("echo 7").stdout == b"7\n",
            "the kit, agent alone": lambda: self.host._agent is not None and self.host._agent.ping() > 0,
        }

    def twenty(self) -> dict[str, Callable[[], bool]]:
        from concurrent.futures import ThreadPoolExecutor

        def kit() -> bool:
            with ThreadPoolExecutor(8) as pool:
                return all(r.ok for r in pool.map(lambda _: self.host.run("cat /proc/loadavg"), range(20)))

        return {
            "ssh over a ControlMaster": lambda: all(self._ssh("-S", self.master, command="cat /proc/loadavg") for _ in range(20)),
            "the kit": kit,
        }

    def bulk(self) -> dict[str, Callable[[], bool]]:
        cat = f"cat {self.log}"
        return {
            "ssh cat": lambda: self._count(cat) == self.size,
            "ssh cat over a ControlMaster": lambda: self._count(cat, "-S", self.master) == self.size,
            "paramiko's defaults, cat": lambda: self._paramiko(cat) == self.size,
            "the kit, cat": lambda: self._kit_cat(),
            "the kit, seven columns": lambda: self._kit_columns(),
        }

    def _ssh(self, *options: str, command: str) -> bytes:
        return subprocess.run([*self.ssh, *options, self.alias, command], capture_output=True, check=True).stdout

    def _count(self, command: str, *options: str) -> int:
        total = 0
        with subprocess.Popen([*self.ssh, *options, self.alias, command], stdout=subprocess.PIPE, bufsize=0) as running:
            assert running.stdout is not None
            while data := running.stdout.read(2**18):
                total += len(data)
        return total

    def _paramiko(self, command: str) -> int:
        _, out, _ = self.plain.exec_command(command)
        total = 0
        while data := out.channel.recv(2**15):
            total += len(data)
        out.channel.recv_exit_status()
        return total

    def _kit_cat(self) -> bool:
        result = self.host.run('cat "$1"', str(self.log), timeout_s=300, max_bytes=2 * self.size)
        return len(result.stdout) == self.size

    def _kit_columns(self) -> bool:
        before, begun = self.host.cost, time.perf_counter()
        probe = LogColumns(str(self.log), COLUMNS, processes=self.processes)
        results = probe.collect(self.host, Evidence())
        self.shipped_s = time.perf_counter() - begun
        self.wire["bytes"] = self.host.cost.bytes_received - before.bytes_received
        self.wire["cpu_ms"] = round(1e3 * (self.host.cost.cpu_s - before.cpu_s))
        table = probe.read(results).tables["metrics"]
        return len(table) == self.records and bool(table["loss_0"].notna().all()) and table["rank"].nunique() == 4


def interleaved(tasks: dict[str, Callable[[], bool]], reps: int, wrong: list[str]) -> dict[str, list[float]]:
    """Each repetition goes once through all, so that noise meets all alike."""
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(reps):
        for name, task in tasks.items():
            begun = time.perf_counter()
            if not task():
                wrong.append(name)
            times[name].append(time.perf_counter() - begun)
    return times


def show(title: str, times: dict[str, list[float]], base: str, size: int = 0) -> None:
    print(f"\n{title}")
    reference = statistics.median(times[base])
    for name, seconds in times.items():
        middle = statistics.median(seconds)
        speed = f"  {size / middle / 1e6:6.0f} MB/s of log" if size else ""
        spread = f"{1e3 * middle:9.2f} ms ({1e3 * min(seconds):.2f} to {1e3 * max(seconds):.2f})"
        print(f"  {name:32s} {spread:36s} {reference / middle:6.2f} x as fast as {base}{speed}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rtt-ms", type=float, nargs="+", default=[0, 80])
    parser.add_argument("--tasks", nargs="+", default=["one", "twenty", "bulk"], choices=["one", "twenty", "bulk"])
    parser.add_argument("--mib", type=int, default=64)
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    wrong: list[str] = []
    with contextlib.ExitStack() as stack:
        folder = asked.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        log = folder / "bench.log"
        size, records = write_log(log, asked.mib * 2**20)
        home = folder / "home"  # so that nobody's login profile is measured
        home.mkdir(exist_ok=True)
        sshd = Sshd(folder / "sshd", home=str(home) if have_namespaces() else "").start()
        stack.callback(sshd.stop)
        for rtt_ms in asked.rtt_ms:
            port = free_port() if rtt_ms else sshd.port
            if rtt_ms:
                process = relay(port, sshd.port, rtt_ms / 1e3)
                stack.callback(process.kill)
                _wait_for(port)
            bench = Bench(sshd, port, log, size, records, asked.processes)
            stack.callback(bench.close)
            _measure(bench, asked.tasks, asked.reps, f"{rtt_ms:g} ms away", wrong)
    for name in dict.fromkeys(wrong):
        print(f"WRONG ANSWER: {name}")
    return 1 if wrong else 0


def _measure(bench: Bench, tasks: list[str], reps: int, away: str, wrong: list[str]) -> None:
    if "one" in tasks:
        show(f"one warm command, {away}", interleaved(bench.commands(), 4 * reps, wrong), "ssh over a ControlMaster")
    if "twenty" in tasks:
        show(f"twenty commands, {away}", interleaved(bench.twenty(), reps, wrong), "ssh over a ControlMaster")
    if "bulk" in tasks:
        size = bench.size
        show(f"{size / 2**20:.0f} MiB of log, {away}", interleaved(bench.bulk(), reps, wrong), "ssh cat", size)
        shipped = f"{size / bench.wire['bytes']:.1f} x fewer bytes, {bench.wire['cpu_ms']} ms of CPU on the host"
        print(f"  seven columns: {shipped}; shipping alone {size / bench.shipped_s / 1e6:.0f} MB/s of log")


def _wait_for(port: int) -> None:
    for _ in range(100):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
