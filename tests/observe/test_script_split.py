"""source_of_script: the training loader followed through scripts as people write them."""

from __future__ import annotations

import textwrap
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diag_kit.observe.script import SourceOfScript
from diag_kit.records import CommandResult, Parsed

LAB = Path(__file__).parents[1] / "lab" / "train.py"
HEAD = "import os, torch\nimport torch.distributed as dist\nfrom torch.utils.data import *\n"


def sent(files: dict[str, str], arguments: str | None = "", world: int | None = 4, started: int = 100) -> bytes:
    lines = ["==diag_kit:script==", f"started\t{started}", f"world\t{'' if world is None else world}"]
    if arguments is not None:
        lines.append("cmd\t" + "\x1f".join(["python", "train.py", *arguments.split()]))
    for path, text in files.items():
        lines.append(f"file\t{path}\t50\t{len(text)}")
        lines += ["|" + line for line in text.split("\n")]
    return ("\n".join(lines) + "\nend\t1\n").encode()


def result(raw: bytes, command: str = "sh -c ...") -> CommandResult:
    return CommandResult("trainbox", command, raw, b"", 0, datetime(2026, 11, 30, tzinfo=UTC), 0.1)


def read(text: str, arguments: str | None = "", world: int | None = 4, **others: str) -> Parsed:
    files = {"/home/ml/train.py": HEAD + textwrap.dedent(text)}
    files |= {f"/home/ml/{name}.py": textwrap.dedent(other) for name, other in others.items()}
    return SourceOfScript().read((result(sent(files, arguments, world)),))


def fact(parsed: Parsed, name: str) -> object:
    return next((each.value for each in parsed.facts if each.name == name), None)


SCRIPTS: dict[str, tuple[str, str, str]] = {
    "nothing": ("loader = DataLoader(ds, batch_size=2, shuffle=True)", "", "none"),
    "sampler none written out": ("loader = DataLoader(ds, sampler=None, shuffle=True)", "", "none"),
    "distributed": ("s = DistributedSampler(ds)\nloader = DataLoader(ds, sampler=s)", "", "once"),
    "cut in place": ("ds.items = ds.items[dist.get_rank()::4]\nloader = DataLoader(ds, shuffle=True)", "", "cannot tell"),
    "told the rank": ("ds.set_part(dist.get_rank(), 4)\nloader = DataLoader(ds, shuffle=True)", "", "cannot tell"),
    "positional sampler": ("loader = DataLoader(ds, 4, False, DistributedSampler(ds))", "", "once"),
    "renamed": (
        "from torch.utils.data import DataLoader as DL, DistributedSampler as DS\nloader = DL(ds, sampler=DS(ds))",
        "",
        "once",
    ),
    "one replica": ("loader = DataLoader(ds, sampler=DistributedSampler(ds, num_replicas=1, rank=0))", "", "none"),
    "random sampler": ("loader = DataLoader(ds, sampler=RandomSampler(ds))", "", "none"),
    "batch sampler around it": (
        "b = BatchSampler(DistributedSampler(ds), 8, True)\nloader = DataLoader(ds, batch_sampler=b)",
        "",
        "once",
    ),
    "multipack": (
        "from speculators.train.distributed_batch_sampler import MultipackDistributedBatchSamplerV2\n"
        "b = MultipackDistributedBatchSamplerV2(batch_max_length=1, lengths=x, num_replicas=w, rank=local_rank)\n"
        "loader = DataLoader(ds, batch_sampler=b)",
        "",
        "once",
    ),
    "own class with another name": (
        "class Mine:\n    def __iter__(self):\n        yield from range(dist.get_rank(), 10, 4)\n"
        "loader = DataLoader(ds, sampler=Mine())",
        "",
        "once",
    ),
    "own class given the rank": (
        "class Mine(Sampler):\n    def __init__(self, n, rank): self.n, self.rank = n, rank\n"
        "loader = DataLoader(ds, sampler=Mine(10, dist.get_rank()))",
        "",
        "once",
    ),
    "own class with a lying name": (
        "class MyDistributedSampler(Sampler):\n    def __iter__(self): return iter(range(10))\n"
        "loader = DataLoader(ds, sampler=MyDistributedSampler())",
        "",
        "none",
    ),
    "sampler from elsewhere": (
        "from lib import LengthSampler\nloader = DataLoader(ds, sampler=LengthSampler(ds))",
        "",
        "cannot tell",
    ),
    "branch that runs": (
        "p.add_argument('--distributed', action='store_true')\nargs = p.parse_args()\n"
        "if args.distributed:\n    s = DistributedSampler(ds)\nelse:\n    s = None\nloader = DataLoader(ds, sampler=s)",
        "--distributed",
        "once",
    ),
    "branch that does not": (
        "p.add_argument('--distributed', action='store_true')\nargs = p.parse_args()\n"
        "if args.distributed:\n    s = DistributedSampler(ds)\nelse:\n    s = None\nloader = DataLoader(ds, sampler=s)",
        "",
        "none",
    ),
    "default of an argument": (
        "p.add_argument('--sampler', default='dist')\nargs = p.parse_args()\n"
        "s = DistributedSampler(ds) if args.sampler == 'dist' else None\nloader = DataLoader(ds, sampler=s)",
        "",
        "once",
    ),
    "by world size": (
        "world = int(os.environ.get('WORLD_SIZE', 1))\ns = DistributedSampler(ds) if world > 1 else RandomSampler(ds)\n"
        "loader = DataLoader(ds, sampler=s)",
        "",
        "once",
    ),
    "ddp flag of the environment": (
        "ddp = int(os.environ.get('RANK', -1)) != -1\ns = None\nif ddp:\n    s = DistributedSampler(ds)\n"
        "loader = DataLoader(ds, shuffle=(s is None), sampler=s)",
        "",
        "once",
    ),
    "configuration not seen": (
        "s = DistributedSampler(ds) if cfg.dist.on else None\nloader = DataLoader(ds, sampler=s)",
        "",
        "cannot tell",
    ),
    "validation only": (
        "train_loader = DataLoader(ds, shuffle=True)\nval_loader = DataLoader(vs, sampler=DistributedSampler(vs))",
        "",
        "none",
    ),
    "word in a comment only": ("# DistributedSampler comes later\nloader = DataLoader(ds, shuffle=True)", "", "none"),
    "strided list": ("files = sorted(g)[rank::world]\nloader = DataLoader(Files(files))", "", "once"),
    "contiguous part": (
        "rank = dist.get_rank()\npart = files[rank * n : (rank + 1) * n]\nloader = DataLoader(Files(part), shuffle=True)",
        "",
        "once",
    ),
    "subset": (
        "mine = list(range(dist.get_rank(), len(ds), 4))\nloader = DataLoader(Subset(ds, mine), shuffle=True)",
        "",
        "once",
    ),
    "subset without rank": ("loader = DataLoader(Subset(ds, range(100)), shuffle=True)", "", "none"),
    "shard": ("ds = ds.shard(num_shards=4, index=dist.get_rank())\nloader = DataLoader(ds)", "", "once"),
    "by node": ("ds = split_dataset_by_node(ds, rank=rank, world_size=4)\nloader = DataLoader(ds)", "", "once"),
    "double": (
        "ds = Subset(ds, range(rank, n, world))\nloader = DataLoader(ds, sampler=DistributedSampler(ds))",
        "",
        "twice",
    ),
    "accelerate": (
        "loader = DataLoader(ds, shuffle=True)\nmodel, loader = accelerator.prepare(model, loader)",
        "",
        "once",
    ),
    "accelerate not for the loader": (
        "loader = DataLoader(ds, shuffle=True)\nmodel, opt = accelerator.prepare(model, opt)",
        "",
        "none",
    ),
    "accelerate twice": (
        "loader = DataLoader(ds, sampler=DistributedSampler(ds))\nloader = accelerator.prepare(loader)",
        "",
        "twice",
    ),
    "prepare around it": ("loader = accelerator.prepare(DataLoader(ds, shuffle=True))", "", "once"),
    "fabric": ("loader = DataLoader(ds)\nloader = fabric.setup_dataloaders(loader)", "", "once"),
    "hugging face": (
        "from transformers import Trainer\ntrainer = Trainer(model=m, train_dataset=ds)\ntrainer.train()",
        "",
        "once",
    ),
    "hugging face overridden": (
        "class T(Trainer):\n    def get_train_dataloader(self):\n        return DataLoader(self.train_dataset, shuffle=True)\n"
        "T(model=m, train_dataset=ds).train()",
        "",
        "none",
    ),
    "hugging face overridden and prepared": (
        "class T(Trainer):\n    def get_train_dataloader(self):\n"
        "        return self.accelerator.prepare(DataLoader(self.train_dataset, shuffle=True))",
        "",
        "once",
    ),
    "deepspeed": ("e, o, loader, s = deepspeed.initialize(model=m, training_data=ds)", "", "once"),
    "lightning": (
        "import lightning as L\nclass D(L.LightningDataModule):\n    def train_dataloader(self):\n"
        "        return DataLoader(self.ds, shuffle=True)\nL.Trainer(devices=4).fit(m, D())",
        "",
        "once",
    ),
    "lightning switched off": (
        "import pytorch_lightning as pl\nclass D(pl.LightningDataModule):\n    def train_dataloader(self):\n"
        "        return DataLoader(self.ds, shuffle=True)\npl.Trainer(use_distributed_sampler=False).fit(m, D())",
        "",
        "none",
    ),
    "lightning with its own kind of sampler": (
        "import lightning as L\nloader = DataLoader(ds, sampler=DistributedSampler(ds))\nL.Trainer().fit(m, loader)",
        "",
        "once",
    ),
    "lightning around a rank-aware sampler": (
        "import lightning as L\nclass Mine(Sampler):\n    def __iter__(self): yield from range(self.rank, 9, 4)\n"
        "loader = DataLoader(ds, sampler=Mine())\nL.Trainer().fit(m, loader)",
        "",
        "twice",
    ),
    "iterable": (
        "class Lines(IterableDataset):\n    def __iter__(self): yield from open('x')\nloader = DataLoader(Lines())",
        "",
        "none",
    ),
    "iterable by rank": (
        "class Lines(IterableDataset):\n    def __iter__(self):\n        for i, x in enumerate(open('x')):\n"
        "            if i % 4 == dist.get_rank(): yield x\nloader = DataLoader(Lines())",
        "",
        "once",
    ),
    "streaming": ("loader = DataLoader(StreamingDataset(local='x'), batch_size=1)", "", "once"),
    "resampled shards": (
        "import webdataset as wds\nloader = wds.WebLoader(wds.WebDataset(u, resampled=True))",
        "",
        "cannot tell",
    ),
    "one driver": ("import ray\nloader = StatefulDataLoader(ds, batch_size=512)", "", "cannot tell"),
    "loader of a parallel library": (
        "loader = ParallelAwareDataloader(ds, dp_rank=dp_rank, dp_world_size=4)",
        "",
        "once",
    ),
    "options": (
        "opts = {'num_workers': 2}\nopts['sampler'] = DistributedSampler(ds)\nloader = DataLoader(ds, **opts)",
        "",
        "once",
    ),
    "options without sampler": ("opts = dict(num_workers=2, shuffle=True)\nloader = DataLoader(ds, **opts)", "", "none"),
    "options from elsewhere": ("loader = DataLoader(ds, **cfg.loader)", "", "cannot tell"),
    "through functions": (
        "def make_sampler(ds):\n    return DistributedSampler(ds)\n"
        "def make(ds, sampler):\n    return DataLoader(ds, sampler=sampler)\n"
        "train_loader = make(ds, make_sampler(ds))",
        "",
        "once",
    ),
    "through an attribute": (
        "class T:\n    def __init__(self):\n        self.sampler = DistributedSampler(self.ds)\n    def loader(self):\n"
        "        return DataLoader(self.ds, sampler=self.sampler)",
        "",
        "once",
    ),
    "mp.spawn": (
        "def run(rank, n):\n    train_loader = DataLoader(ds, shuffle=True, batch_size=4)\nmp.spawn(run, nprocs=4, args=(4,))",
        "",
        "none",
    ),
    "two training loaders that differ": (
        "a = DataLoader(x, shuffle=True)\nb = DataLoader(y, sampler=DistributedSampler(y))",
        "",
        "cannot tell",
    ),
    "function that is never reached": (
        "def old():\n    return DataLoader(ds, shuffle=True)\n"
        "def new():\n    return DataLoader(ds, sampler=DistributedSampler(ds))\n"
        "train_loader = new() if True else old()",
        "",
        "once",
    ),
}


@pytest.mark.parametrize("case", SCRIPTS)
def test_split_by_source(case: str) -> None:
    text, arguments, expected = SCRIPTS[case]
    parsed = read(text, arguments)
    assert fact(parsed, "split_by_source") == expected, parsed.summary


@pytest.mark.parametrize(
    ("split", "expected", "order"),
    [
        ("none", "none", "own"),
        ("same-seed", "none", "same"),
        ("distributed", "once", None),
        ("custom-batch-sampler", "once", None),
        ("double", "twice", None),
    ],
)
def test_the_lab_script(split: str, expected: str, order: str | None) -> None:
    """One script with every fault behind a switch: the job's own arguments decide which branch is judged."""
    raw = sent({"/home/ml/train.py": LAB.read_text()}, f"--data-dir d --split {split} --batch 3")
    parsed = SourceOfScript().read((result(raw),))
    assert fact(parsed, "split_by_source") == expected
    assert fact(parsed, "order_by_source") == order
    assert fact(parsed, "printed_length_is") == "len(loader)"
    assert fact(parsed, "batch_size_per_rank") == 3
    table = parsed.tables["dataloaders"]
    assert table["line"].tolist() == [
        line_of("DataLoader(dataset, batch_sampler" if "custom" in split else "DataLoader(dataset, batch_size")
    ]


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(LAB.read_text().split("\n"), 1) if text in line)


def test_seed_after_the_loader_is_named_with_its_line() -> None:
    """The trap seen for real: a seed meant for the model also seeds the loader's order, the same on every rank."""
    parsed = read("loader = DataLoader(ds, shuffle=True)\ntorch.manual_seed(0)\nmodel = Net()\n")
    found = next(each for each in parsed.facts if each.name == "order_by_source")
    assert found.value == "same"
    assert "torch.manual_seed(0) at line 5, after the loader was built" in found.source


@pytest.mark.parametrize(
    ("seed", "order"),
    [
        ("torch.manual_seed(1337 + dist.get_rank())", "own"),
        ("set_seed(3, device_specific=True)", "own"),
        ("seed_everything(3)", "same"),
        ("np.random.seed(0)", "own"),
        ("torch.cuda.manual_seed(0)", "own"),
        ("", "own"),
    ],
)
def test_seeds(seed: str, order: str) -> None:
    assert fact(read(f"{seed}\nloader = DataLoader(ds, shuffle=True)"), "order_by_source") == order


def test_no_shuffle_is_the_same_order() -> None:
    assert fact(read("loader = DataLoader(ds, batch_size=1)"), "order_by_source") == "same"


@pytest.mark.parametrize(
    ("text", "trap"),
    [
        ("loader = DataLoader(ds, sampler=DistributedSampler(ds))", "no_set_epoch"),
        ("s = DistributedSampler(ds, num_replicas=w, rank=args.local_rank)\nloader = DataLoader(ds, sampler=s)", "local_rank"),
        (
            "loader = DataLoader(ds, shuffle=True)\nval_loader = DataLoader(v, sampler=DistributedSampler(v))",
            "distributed_validation",
        ),
        ("class T(Trainer):\n    def get_train_dataloader(self):\n        return DataLoader(self.d)", "unprepared_override"),
        ("loader = DataLoader(ds)\nTrainer(use_distributed_sampler=False)", "sampler_switched_off"),
    ],
)
def test_traps(text: str, trap: str) -> None:
    traps = read(text).tables["traps"]
    assert trap in traps["trap"].tolist()


def test_set_epoch_called_is_no_trap() -> None:
    parsed = read("s = DistributedSampler(ds)\nloader = DataLoader(ds, sampler=s)\ns.set_epoch(0)")
    assert "traps" not in parsed.tables


@pytest.mark.parametrize(
    ("line", "meaning"),
    [
        ("print(f'Train batches/epoch: {len(loader)}')", "len(loader)"),
        ("print(f'Train batches/epoch: {len(train_files)}')", "len(dataset)"),
        ("logger.info('Train batches/epoch: %d', len(ds))", None),
        ("n = len(loader)", None),
    ],
)
def test_what_a_printed_length_is(line: str, meaning: str | None) -> None:
    """It tells "not split" from "split, but the dataset's length was printed"."""
    parsed = read(f"loader = DataLoader(ds, shuffle=True)\n{line}")
    assert fact(parsed, "printed_length_is") == meaning


@pytest.mark.parametrize(
    ("loader", "size"),
    [
        ("DataLoader(ds)", 1),
        ("DataLoader(ds, 6)", 6),
        ("DataLoader(ds, batch_size=n)", None),
        ("DataLoader(ds, batch_sampler=BatchSampler(DistributedSampler(ds), 5, True))", 5),
        ("DataLoader(ds, batch_sampler=PackedSampler(batch_size=4, rank=r))", 4),
        ("DataLoader(ds, batch_sampler=PackedSampler(max_tokens=4096, rank=r))", None),
    ],
)
def test_samples_a_batch(loader: str, size: int | None) -> None:
    """A token budget is no number of samples."""
    assert fact(read(f"loader = {loader}"), "batch_size_per_rank") == size


def test_loader_in_another_file() -> None:
    parsed = read(
        "from data import make\ntrain_loader = make(ds)\n",
        data="from torch.utils.data import DataLoader, DistributedSampler\n"
        "def make(ds):\n    return DataLoader(ds, sampler=DistributedSampler(ds), batch_size=2)\n",
    )
    assert fact(parsed, "split_by_source") == "once"
    assert parsed.tables["dataloaders"]["file"].tolist() == ["/home/ml/data.py"]


def test_pasted_file_without_command_line() -> None:
    """Defaults do not count when nobody knows the arguments: the lab's own script then cannot be judged."""
    parsed = SourceOfScript().read((result(LAB.read_bytes(), "cat lab/train.py"),))
    assert fact(parsed, "split_by_source") == "cannot tell"
    assert set(parsed.tables["dataloaders"]["file"]) == {"lab/train.py"}


def test_file_that_does_not_parse() -> None:
    """Another Python's syntax: the words are shown, nothing is concluded."""
    parsed = read("print 'old'\ntrain_loader = DataLoader(ds, shuffle=True)\n")
    assert parsed.tables["dataloaders"]["verdict"].tolist() == ["cannot tell"]
    assert fact(parsed, "split_by_source") == "cannot tell"
    assert "does not parse" in parsed.not_understood[0].why


def test_edited_after_the_start() -> None:
    files = {"/home/ml/train.py": "loader = DataLoader(ds)"}
    late = SourceOfScript().read((result(sent(files, started=10)),))
    assert fact(late, "source_changed_after_start") is True
    early = SourceOfScript().read((result(sent(files, started=60)),))
    assert fact(early, "source_changed_after_start") is False


def test_unreadable_script() -> None:
    parsed = SourceOfScript().read((result(b"==diag_kit:script==\nproblem\tunreadable\t/x/train.py\n"),))
    assert parsed.problems == (
        "/x/train.py cannot be read on the host (missing, or another user's): name it with source_of_script(path=...)",
    )


@given(st.binary(max_size=300))
def test_any_bytes(raw: bytes) -> None:
    SourceOfScript().read((result(raw),))
    SourceOfScript().read((result(b"==diag_kit:script==\nfile\tx.py\t1\t1\n|" + raw.replace(b"\n", b"\n|")),))


TEXT = "DataLoader( DistributedSampler( ds , ) ( = sampler shuffle=True if args.x : rank :: [ ] def f return self. lambda *"
WORDS = st.sampled_from([*TEXT.split(" "), "\n", "\n    "])


@given(st.lists(WORDS, max_size=40))
def test_any_words(words: list[str]) -> None:
    SourceOfScript().read((result(sent({"t.py": " ".join(words)})),))
