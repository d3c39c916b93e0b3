"""Which processes are a training, which GPU a rank has, and where output goes: single rules on made processes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from diag_kit.observe.job_log import find_data_dir, find_logs
from diag_kit.observe.job_tables import gpu_of
from diag_kit.observe.job_tree import find_jobs, launcher_of, program_of
from diag_kit.observe.jobs import choice, interpreter_of
from diag_kit.observe.process_dump import Dump, HostClock, OpenFile, Process

TORCH = frozenset({"libtorch_cpu"})


def process(pid: int, command: str, parent: int = 1, **more: object) -> Process:
    argv = tuple(command.split())
    return Process(pid, parent, name=argv[0].rpartition("/")[2][:15], argv=argv, cwd="/home/m l", **more)  # type: ignore[arg-type]


def dump(*processes: Process) -> Dump:
    return Dump(HostClock(), {each.pid: each for each in processes}, True)


def rank(pid: int, number: int, parent: int, **more: object) -> Process:
    env = {"RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": "2", "MASTER_PORT": "29500"}
    return process(pid, "python -u train.py", parent, environment=env, libraries=TORCH, **more)


def regular(number: int, path: str, size: int = 100, writable: bool = True) -> OpenFile:
    return OpenFile(number, path, writable, size)


@pytest.mark.parametrize(
    ("command", "launcher"),
    [
        ("/opt/env/bin/python /opt/env/bin/torchrun --nproc_per_node=4 train.py", "torchrun"),
        ("python3.12 -u -m torch.distributed.run train.py", "torchrun"),
        ("python -m torch.distributed.launch --use_env train.py", "torchrun"),
        ("python /opt/env/bin/accelerate launch train.py", "accelerate"),
        ("python /opt/env/bin/accelerate env", ""),
        ("python /opt/env/bin/deepspeed --num_gpus 4 train.py", "deepspeed"),
        ("python -u -m deepspeed.launcher.launch --world_info=x train.py", "deepspeed"),
        ("mpirun -np 4 python train.py", "mpirun"),
        ("srun -n 4 python train.py", "srun"),
        ("slurmstepd: [1234.0]", "srun"),
        ("slurmstepd: [1234.batch]", ""),
        ("vim torchrun.py", ""),
        ("bash -c torchrun", ""),
        ("tail -f torchrun.log", ""),
        ("python train.py --launcher torchrun", ""),
        ("python -c print(1)", ""),
    ],
)
def test_launchers(command: str, launcher: str) -> None:
    assert launcher_of(process(5, command)) == launcher


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("python -u -X faulthandler -W ignore train.py --lr 1", "train.py"),
        ("python -m pkg.train --lr 1", "-m pkg.train"),
        ("python -c code", "-c"),
        ("python", ""),
        ("python -m", ""),
    ],
)
def test_program(command: str, program: str) -> None:
    assert program_of(process(5, command))[0] == program


@pytest.mark.parametrize(
    "command",
    [
        "python -m ipykernel_launcher -f kernel.json",
        "/opt/env/bin/python /opt/env/bin/jupyter-lab",
        "python /opt/env/bin/vllm serve model",
        "python",
        "python -c code",
        "python -m pytest tests",
        "vim train.py",
        "tail -f train.log",
    ],
)
def test_no_training_though_torch_is_mapped(command: str) -> None:
    assert find_jobs(dump(process(9, command, libraries=TORCH))) == []


def test_a_script_without_a_training_library_is_none() -> None:
    assert find_jobs(dump(process(9, "python serve_files.py"))) == []
    (job,) = find_jobs(dump(process(9, "python train_ray.py", libraries=TORCH)))
    assert (job.launcher, len(job.ranks), job.world_size) == ("python", 1, 1)


def test_helpers_and_loaders_of_ranks() -> None:
    """A rank's forked loaders count, its compile workers, trackers and the wandb service do not."""
    boss = process(10, "python -m torch.distributed.run train.py")
    ranks = [rank(11, 0, 10), rank(12, 1, 10)]
    loader = process(13, "python -u train.py", 11, is_worker=True)
    spawned = process(14, "python -c from_spawn_main --multiprocessing-fork", 12)
    helpers = [
        process(15, "python -c from multiprocessing.resource_tracker import main", 11),
        process(16, "python /opt/env/torch/_inductor/compile_worker/__main__.py", 11),
        process(17, "python -m wandb service", 12),
    ]
    (job,) = find_jobs(dump(boss, *ranks, loader, spawned, *helpers))
    assert [[each.pid for each in r.loaders] for r in job.ranks] == [[13], [14]]
    assert job.loader_processes == 2


def test_rank_of_the_node_is_not_the_rank_of_the_process() -> None:
    """Kubernetes sets RANK and WORLD_SIZE for the launcher as well: the ranks are below it."""
    boss = process(10, "python -m torch.distributed.run train.py", environment={"RANK": "1", "WORLD_SIZE": "2"}, libraries=TORCH)
    (job,) = find_jobs(dump(boss, rank(11, 1, 10), rank(12, 0, 10)))
    assert (job.top.pid, [(r.number, r.process.pid) for r in job.ranks]) == (10, [(0, 12), (1, 11)])


def test_ranks_started_by_hand_are_one_job() -> None:
    (job,) = find_jobs(dump(rank(21, 0, 1), rank(22, 1, 1)))
    assert (len(job.ranks), job.world_size) == (2, 2)


@pytest.mark.parametrize(
    ("differs", "jobs"),
    [
        ({}, [{21, 22, 23, 24}]),
        ({"MASTER_PORT": "29511"}, [{21, 22}, {23, 24}]),
        ({"TORCHELASTIC_RUN_ID": "later"}, [{21, 22}, {23, 24}]),
        ({"MASTER_ADDR": "10.0.0.2"}, [{21, 22}, {23, 24}]),
        ({"WORLD_SIZE": "8"}, [{21, 22}, {23, 24}]),
    ],
)
def test_orphan_ranks_of_different_runs(differs: dict[str, str], jobs: list[set[int]]) -> None:
    """Four ranks whose launchers died: one run of four, or two of different ports, run ids, addresses or sizes."""
    ranks = []
    for pid in range(21, 25):
        env = {**rank(pid, pid - 21, 1).environment, **(differs if pid > 22 else {})}
        ranks.append(process(pid, "python -u train.py", 1, environment=env, libraries=TORCH))
    assert [{r.process.pid for r in job.ranks} for job in find_jobs(dump(*ranks))] == jobs


@pytest.mark.parametrize("parents", [(1, 1), (31, 41)])
def test_orphans_with_the_same_numbers_are_two_runs(parents: tuple[int, int]) -> None:
    """RANK 0 and 1 twice, alike in everything: told apart by parent, else by the order of start."""
    times = [datetime(2026, 11, 30, 10, minute, tzinfo=UTC) for minute in (0, 1, 30, 31)]
    alike = [rank(21 + i, i % 2, parents[i // 2], started=times[i]) for i in range(4)]
    found = find_jobs(dump(*alike))
    assert [[(r.number, r.process.pid) for r in job.ranks] for job in found] == [[(0, 21), (1, 22)], [(0, 23), (1, 24)]]
    assert not any(r.guessed for job in found for r in job.ranks)


def test_orphans_of_different_scripts_are_two_runs() -> None:
    other = process(23, "python -u old.py", 1, environment=rank(23, 1, 1).environment, libraries=TORCH)
    found = find_jobs(dump(rank(21, 0, 1), other))
    assert [[r.process.pid for r in job.ranks] for job in found] == [[21], [23]]
    assert choice(found, found[1]) == "1 of 2 trainings: pid 23 (old.py); the other: pid 21 (train.py, 1 rank); choose with --pid"


def test_slurm_ranks_and_the_batch_script_trap() -> None:
    env = {"SLURM_PROCID": "1", "SLURM_LOCALID": "1", "SLURM_NTASKS": "4"}
    step = process(30, "slurmstepd: [7.0]")
    task = process(31, "python train.py", 30, environment=env, libraries=TORCH)
    (job,) = find_jobs(dump(step, task))
    assert (job.launcher, job.ranks[0].number, job.world_size) == ("srun", 1, 4)
    batch = process(40, "slurmstepd: [7.batch]")
    alone = process(41, "python train.py", 40, environment=env | {"SLURM_PROCID": "0"}, libraries=TORCH)
    (job,) = find_jobs(dump(batch, alone))
    assert (job.launcher, job.ranks[0].number, job.world_size) == ("python", 0, 1)


def test_mpirun_of_another_program_is_no_training() -> None:
    assert find_jobs(dump(process(50, "mpirun -np 4 ./solver"), process(51, "python post.py", 50))) == []


@pytest.mark.parametrize(
    ("visible", "local", "gpu"),
    [
        ("2,3", 1, (3, None)),
        ("7", 0, (7, None)),
        ("7", 3, (7, None)),
        ("GPU-abc,GPU-def", 1, (None, "GPU-def")),
        ("", 0, (None, None)),
        ("0,1", 5, (None, None)),
    ],
)
def test_gpu_of_rank(visible: str, local: int, gpu: tuple[int | None, str | None]) -> None:
    own = rank(60, local, 1)
    own = process(60, "python train.py", environment={**own.environment, "CUDA_VISIBLE_DEVICES": visible}, libraries=TORCH)
    (job,) = find_jobs(dump(own))
    assert gpu_of(job.ranks[0]) == gpu


def test_gpu_without_the_variable() -> None:
    """The local rank, but only for a process that holds a GPU."""
    (job,) = find_jobs(dump(rank(60, 1, 1)))
    assert gpu_of(job.ranks[0]) == (None, None)
    (job,) = find_jobs(dump(rank(60, 1, 1, files=(OpenFile(9, "/dev/nvidia3"),))))
    assert gpu_of(job.ranks[0]) == (1, None)


def logs_of(*processes: Process) -> tuple[list[str], tuple[str, ...]]:
    whole = dump(*processes)
    search = find_logs(whole, find_jobs(whole)[0])
    return [log.path for log in search.logs], search.ends


def test_log_through_two_pipes() -> None:
    """``train | ts | tee log``"""
    own = rank(60, 0, 1, files=(OpenFile(1, "pipe:[1]"),))
    stamp = process(61, "ts", files=(OpenFile(0, "pipe:[1]"), OpenFile(1, "pipe:[2]")))
    tee = process(62, "tee log", files=(OpenFile(0, "pipe:[2]"), OpenFile(1, "/dev/pts/1"), regular(3, "/data/log")))
    assert logs_of(own, stamp, tee)[0] == ["/data/log"]


def test_log_of_a_slurm_step() -> None:
    """slurmstepd holds the reading end of the task's pipe at any number, and the file."""
    step = process(30, "slurmstepd: [7.0]", files=(OpenFile(9, "pipe:[5]"), regular(12, "/home/ml/slurm-7.out")))
    task = process(31, "python train.py", 30, libraries=TORCH, files=(OpenFile(1, "pipe:[5]"),))
    whole = Process(**{**{f: getattr(step, f) for f in step.__slots__}, "name": "slurmstepd"})
    assert logs_of(whole, task)[0] == ["/home/ml/slurm-7.out"]


def test_log_of_a_container_is_a_hint() -> None:
    name = "a" * 64
    own = rank(60, 0, 1, files=(OpenFile(1, "pipe:[1]"),), cgroup=f"0::/docker/{name}")
    shim = Process(61, 1, name="containerd-shim", argv=("containerd-shim",), files=(OpenFile(14, "pipe:[1]"),))
    paths, ends = logs_of(own, shim)
    assert paths == []
    assert f"/var/lib/docker/containers/{name}/{name}-json.log" in ends[0]


def test_larger_stream_first_and_the_other_kept() -> None:
    own = rank(60, 0, 1, files=(regular(1, "/d/out", 50), regular(2, "/d/err", 9000)))
    assert logs_of(own)[0] == ["/d/err", "/d/out"]


def test_torchrun_redirects_beat_the_launchers_own_output() -> None:
    boss = process(10, "python -m torch.distributed.run train.py", files=(regular(1, "/d/launch.log", 80),))
    ranks = [rank(11 + n, n, 10, files=(regular(1, f"/t/{n}/stdout.log", 5000 - n),)) for n in (0, 1)]
    assert logs_of(boss, *ranks)[0] == ["/t/0/stdout.log", "/t/1/stdout.log", "/d/launch.log"]


def test_log_file_opened_by_the_script() -> None:
    """Output to a terminal, but a FileHandler writes a file; a data file open for reading is no log."""
    files = (OpenFile(1, "/dev/pts/2"), regular(5, "/d/train.log"), regular(6, "/d/x.pt", writable=False))
    paths, ends = logs_of(rank(60, 0, 1, files=files))
    assert paths == ["/d/train.log"]
    assert ends == ("a terminal (/dev/pts/2)",)


def test_deleted_log_is_told() -> None:
    paths, ends = logs_of(rank(60, 0, 1, files=(regular(1, "/d/out (deleted)"),)))
    assert paths == []
    assert "deleted file" in ends[0]


def test_data_folder_from_arguments_then_from_open_files() -> None:
    named = process(60, "python train.py --train-data shards --out o", libraries=TORCH, places={"shards": "d", "o": "d"})
    whole = dump(named)
    assert find_data_dir(whole, find_jobs(whole)[0]) == ("/home/m l/shards", "argument --train-data of pid 60")
    files = (regular(5, "/d/a/1.pt", writable=False), regular(6, "/d/a/2.pt", writable=False), regular(7, "/d/out.log"))
    whole = dump(process(60, "python train.py", libraries=TORCH, files=files))
    found = find_data_dir(whole, find_jobs(whole)[0])
    assert found is not None
    assert found[0] == "/d/a"


def test_interpreter_keeps_the_virtual_environment() -> None:
    """/proc/PID/exe is the base interpreter, which does not see the environment's packages."""
    own = Process(1, argv=("/venv/bin/python", "t.py"), exe="/usr/bin/python3.12")
    assert interpreter_of(own) == "/venv/bin/python"
    bare = Process(1, argv=("python", "t.py"), exe="/usr/bin/python3.12")
    assert interpreter_of(bare, "/venv/lib/python3.12/site-packages") == "/venv/bin/python"
    assert interpreter_of(bare, "/usr/lib/python3/dist-packages") == "/usr/bin/python3.12"
    assert interpreter_of(bare) == "/usr/bin/python3.12"
