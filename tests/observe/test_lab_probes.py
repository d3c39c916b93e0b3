"""The probes against a real training: everything is found from outside, over a real SSH connection and on this machine."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lab.run_lab import Lab, start

from diag_kit.evidence import Evidence
from diag_kit.hosts.local import local
from diag_kit.hosts.protocol import Host
from diag_kit.observe.jobs import TrainingJobs
from diag_kit.observe.opened_files import OpenedFiles
from diag_kit.observe.probe import observe
from diag_kit.observe.rank_io import RankIo
from diag_kit.observe.script import SourceOfScript
from diag_kit.observe.source import Source
from diag_kit.records import Observation

pytestmark = pytest.mark.lab
Start = Callable[..., Lab]


@pytest.fixture
def lab(lab_python: str, tmp_path: Path) -> Iterator[Start]:
    running: list[Lab] = []

    def begin(**options: Any) -> Lab:
        running.append(start(python=lab_python, folder=tmp_path / f"lab {len(running)}", **options))
        running[-1].wait_for_steps(8)
        return running[-1]

    yield begin
    for each in running:
        each.stop()


def facts(seen: Observation) -> dict[str, Any]:
    return {fact.name: fact.value for fact in seen.facts}


def jobs_of(host: Host, lab: Lab) -> tuple[Observation, Evidence]:
    seen = dataclasses.replace(observe(TrainingJobs(pid=lab.launcher_pid), host, Evidence()), id="O1")
    return seen, Evidence([seen])


def test_training_is_found_over_ssh(lab: Start, sshd: Any) -> None:
    """torchrun, its ranks and loaders, the log behind ``| tee`` in a folder with a space, the data folder, no problem."""
    from diag_kit.hosts import connect

    running = lab(ranks=2, log_through="tee", num_workers=2, files=120, epochs=40)
    host = connect("trainbox", config=sshd.config)
    try:
        seen, evidence = jobs_of(host, running)
        found = facts(seen)
        assert seen.parsed.problems == ()
        assert (found["launcher"], found["world_size"], found["ranks_running"]) == ("torchrun", 2, 2)
        assert found["loader_processes"] == 4
        assert found["log_path"] == str(running.log)
        assert found["data_dir"] == str(running.data_dir)
        assert found["job_pid"] == running.launcher_pid
        ranks = seen.parsed.tables["ranks"]
        assert dict(zip(ranks["rank"], ranks["pid"], strict=True)) == running.rank_pids()
        script = observe(SourceOfScript(), host, evidence)
        assert (facts(script)["split_by_source"], facts(script)["order_by_source"]) == ("none", "own")
        source = observe(Source("torch.utils.data.distributed:DistributedSampler.__iter__"), host, evidence)
        assert source.parsed.tables["source"]["text"].iloc[0].lstrip().startswith("def __iter__(self)")
        assert source.parsed.tables["source"]["version"].iloc[0] == found["torch_version"]
    finally:
        host.close()


@pytest.mark.parametrize(
    ("split", "by_source", "shared"),
    [("none", "none", True), ("distributed", "once", False), ("custom-batch-sampler", "once", False)],
)
def test_opens_and_bytes(lab: Start, split: str, by_source: str, shared: bool) -> None:
    """Within one epoch: own orders share files between the ranks, a split shares none. Both ranks' bytes are counted."""
    running = lab(ranks=2, split=split, files=600 if split != "none" else 100, epochs=40, step_sleep_ms=40)
    host = local()
    _, evidence = jobs_of(host, running)
    script = observe(SourceOfScript(), host, evidence)
    assert facts(script)["split_by_source"] == by_source
    window = observe(OpenedFiles(seconds=6), host, evidence)
    assert window.parsed.problems == ()
    opens = window.parsed.tables["opens"]
    polled = opens[opens["via"] == "poll"]
    watched = opens[opens["via"] == "inotify"]
    assert polled["rank"].dropna().nunique() == 2
    assert len(watched) >= 100
    assert set(polled["path"]) <= set(watched["path"]) | set(polled["path"].tail(2)) | set(polled["path"].head(2))
    by_rank = [set(rows["path"]) for _, rows in polled.groupby("rank")]
    assert bool(by_rank[0] & by_rank[1]) is shared
    assert facts(window)["probe_cpu_s"] < 0.15 * 6 + 0.2
    counted = observe(RankIo(seconds=2), host, evidence)
    rates = facts(counted)
    assert all(0.2 < rates[f"rank_{rank}_read_mb_per_s"] < 20 for rank in (0, 1))


def test_loaders_in_the_rank_itself(lab: Start) -> None:
    """num_workers=0: the rank opens the files, and there is no loader process."""
    running = lab(ranks=2, num_workers=0, files=80, epochs=40, file_kib=1024)
    seen, evidence = jobs_of(local(), running)
    assert facts(seen)["loader_processes"] == 0
    window = observe(OpenedFiles(seconds=4), local(), evidence)
    polled = window.parsed.tables["opens"].query("via == 'poll'")
    assert set(polled["pid"]) <= set(running.rank_pids().values())
    assert polled["rank"].nunique() == 2
