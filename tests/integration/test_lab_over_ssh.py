"""Real trainings seen through a real sshd: the right verdict for every way of splitting the data, in under a minute."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

import diag_kit as dk
from diag_kit.hosts.connection import connect

sys.path.append(str(Path(__file__).parent.parent / "lab"))
from run_lab import start

CLAIMED = ("supported", "confirmed")
pytestmark = [pytest.mark.lab, pytest.mark.needs("sshd", "ssh")]


def diagnose(sshd, tmp_path, split, **switches):
    """The investigation of a running lab, and the seconds it took."""
    transport = switches.pop("transport", "paramiko")
    with start(split=split, ranks=switches.pop("ranks", 2), folder=tmp_path, files=400, **switches) as lab:
        lab.wait_for_steps(10)
        host = connect("trainbox", config=sshd.config, transport=transport)
        try:
            inv = dk.Investigation(host)
            begun = time.monotonic()
            inv.diagnose(seconds=8, pid=lab.launcher_pid)
            took_s = time.monotonic() - begun
            print(f"{split}: {took_s:.1f} s, cost {host.cost}")
        finally:
            host.close()
    return inv, took_s


def states(inv):
    return {found.cause: found.status.value for found in inv.findings}


def test_no_sampler(sshd, lab_python, tmp_path):
    inv, took_s = diagnose(sshd, tmp_path, "none", ranks=4)
    assert took_s < 60
    assert inv.findings[0].cause == "data.dup_no_sampler"
    assert inv.findings[0].status.value in CLAIMED


def test_same_seed(sshd, lab_python, tmp_path):
    inv, took_s = diagnose(sshd, tmp_path, "same-seed")
    assert took_s < 60
    assert inv.findings[0].cause in ("data.same_order", "data.dup_no_sampler")
    assert states(inv)["data.same_order"] in CLAIMED
    assert states(inv)["data.dup_no_sampler"] != "confirmed"


@pytest.mark.parametrize("split", ["distributed", "custom-batch-sampler"])
def test_a_split_loader_is_never_called_unsplit(sshd, lab_python, tmp_path, split):
    inv, took_s = diagnose(sshd, tmp_path, split, form="flat")
    assert took_s < 60
    assert states(inv)["data.dup_no_sampler"] not in CLAIMED
    assert states(inv)["data.same_order"] not in CLAIMED
    assert states(inv)["data.double_shard"] not in CLAIMED


def test_data_split_twice(sshd, lab_python, tmp_path):
    inv, took_s = diagnose(sshd, tmp_path, "double")
    assert took_s < 60
    assert (inv.findings[0].cause, inv.findings[0].status.value in CLAIMED) == ("data.double_shard", True)


def test_through_the_system_ssh(sshd, lab_python, tmp_path):
    inv, _ = diagnose(sshd, tmp_path, "none", transport="openssh", form="ranktag")
    assert inv.findings[0].cause == "data.dup_no_sampler"
    assert inv.findings[0].status.value in CLAIMED
