"""How many ranks a script starts by itself, from its text."""

from __future__ import annotations

import pytest

from diag_kit.observe.script_launch import PER_GPU, ranks_started, shared_data
from diag_kit.observe.script_tree import unit

SPAWN = "import torch\nimport torch.multiprocessing as mp\n"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("mp.spawn(run, nprocs=4, args=(4,))", 4),
        ("mp.spawn(run, (1, 2), 8)", 8),
        ("mp.spawn(run, nprocs=torch.cuda.device_count())", PER_GPU),
        ("n = torch.cuda.device_count()\nmp.spawn(run, nprocs=n, args=(n,))", PER_GPU),
        ("world = 2\nif __name__ == '__main__':\n    mp.spawn(run, args=(world,), nprocs=world)", 2),
        ("mp.spawn(run, nprocs=args.gpus)", None),
        ("mp.spawn(run)", None),
        ("n = 2\nn = 4\nmp.spawn(run, nprocs=n)", None),
        ("mp.spawn(run, nprocs=2)\nmp.spawn(other, nprocs=4)", None),
        ("mp.spawn(run, nprocs=True)", None),
        ("mp.spawn(run, nprocs=-1)", None),
        ("n = n\nmp.spawn(run, nprocs=n)", None),
        ("print(torch.cuda.device_count())", None),
    ],
)
def test_ranks_by_source(text: str, count: int | str | None) -> None:
    parsed = unit("/home/a/train.py", SPAWN + text)
    assert parsed is not None
    fact = ranks_started([parsed])
    assert (fact.value if fact else None) == count
    if fact:
        assert fact.source.startswith("train.py:")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('mesh = init_device_mesh("cuda", (4,), mesh_dim_names=("tp",))', "init_device_mesh with a dimension tp"),
        ('mesh = init_device_mesh("cuda", (2, 4), mesh_dim_names=("dp", "cp"))', "init_device_mesh with a dimension cp"),
        ("model = parallelize_module(model, mesh, plan)", "parallelize_module"),
        ("parallel_state.initialize_model_parallel(2, 2)", "initialize_model_parallel"),
        ('mesh = init_device_mesh("cuda", (4,), mesh_dim_names=("dp_shard",))', None),
        ('mesh = init_device_mesh("cuda", (2, 2), mesh_dim_names=("replicate", "shard"))', None),
        ('pipe = pipeline("text-generation", model)', None),
        ("model = DDP(model)", None),
    ],
)
def test_groups_that_share_data_by_design(text: str, what: str | None) -> None:
    parsed = unit("/home/a/train.py", text)
    assert parsed is not None
    fact = shared_data([parsed])
    assert (fact.value if fact else None) == what
