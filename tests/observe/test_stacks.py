"""py-spy dumps: frames, samplers and their fields, refusals; and a real one of this very process."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from diag_kit.observe.stacks import Stacks
from diag_kit.records import CommandResult, Cost

DUMP = b"""==diag_kit:rank_1_pid_4111==
Process 4111: /usr/bin/python3 train.py
Python v3.12.3 (/usr/bin/python3.12)

Thread 4111 (active): "MainThread"
    __iter__ (torch/utils/data/distributed.py:112)
        Arguments:
            self: <DistributedSampler at 0x7f11aa0c2d90>
        Locals:
            num_replicas: 4
            rank: 1
    _next_index (torch/utils/data/dataloader.py:512)
    main (train.py:60)
Thread 4200 (idle): "pin"
    wait (threading.py:306)
"""


def read(stdout: bytes):
    return Stacks().read((CommandResult("trainbox", "x", stdout, b"", 0, datetime(2026, 1, 1, tzinfo=UTC), 0.1),))


def test_frames_and_the_sampler():
    seen = read(DUMP)
    table = seen.tables["stacks"]
    assert table["function"].tolist() == ["__iter__", "_next_index", "main", "wait"]
    assert table["line"].tolist() == [112, 512, 60, 306]
    assert table["rank"].tolist() == [1, 1, 1, 1]
    facts = {fact.name: fact.value for fact in seen.facts}
    counted = {"stack_processes": 1, "stack_threads": 2, "threads_with_gil": 0}
    assert facts == counted | {"sampler_in_memory": "DistributedSampler", "sampler_num_replicas": "4", "sampler_rank": "1"}
    assert not seen.problems and not seen.not_understood


def test_a_name_in_a_string_is_no_thread():
    assert len(read(DUMP.replace(b"rank: 1\n", b'msg: "Thread 12 (idle): not a thread (x.py:1)"\n')).tables["stacks"]) == 4


def test_refused_and_missing():
    refused = b"==diag_kit:rank_0_pid_7==\nPermission Denied: Try running again with elevated permissions by going sudo\n"
    assert "needs root or the right to trace" in read(refused).problems[0]
    assert "no py-spy on trainbox" in read(b"==diag_kit:missing==\n").problems[0]


def test_it_asks_first():
    assert Stacks.cost is Cost.CAREFUL


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=400))
def test_no_bytes_raise(data):
    assert len(read(DUMP[:200] + data).tables["stacks"]) >= 0
