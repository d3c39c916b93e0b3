"""A real small training whose data-splitting faults are switches: torchrun, gloo, CPU, one file per sample.

    torchrun --nproc_per_node=4 train.py --data-dir DIR --split none > train.log 2>&1

It prints what a drafter training prints: file counts, loader length, total steps, then one metric record a step. Nothing
here knows diag_kit; the kit has to find everything out from outside.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Sampler, Subset

logger = logging.getLogger("speculators")
metric_logger = logging.getLogger("speculators.metrics")
WIDTH = 64


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", required=True)
    splits = ["none", "same-seed", "distributed", "custom-batch-sampler", "double"]
    parser.add_argument("--split", choices=splits, default="none")
    parser.add_argument("--form", choices=["dict", "flat", "rich-like", "ranktag"], default="dict")
    parser.add_argument("--print-ranks", choices=["all", "rank0"], default="all")
    parser.add_argument("--parallel", choices=["ddp", "fsdp"], default="ddp")
    parser.add_argument("--files", type=int, default=400)
    parser.add_argument("--file-kib", type=int, default=64)
    parser.add_argument("--suffix", choices=[".pt", ".npy"], default=".pt")
    parser.add_argument("--num-workers", type=int, default=1)
    parser.add_argument("--prefetch", type=int, default=2)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=0, help="stop after so many optimizer steps; 0: all epochs")
    parser.add_argument("--step-sleep-ms", type=float, default=60.0, help="stands in for GPU compute")
    parser.add_argument("--straggler", type=float, default=0.0, help="extra ms a step on the last rank")
    parser.add_argument("--decode-ms", type=float, default=0.0, help="extra ms per sample in the loader")
    parser.add_argument("--lr", type=float, default=3e-5)
    return parser.parse_args()


class SampleFileDataset(Dataset):
    """One tensor file per sample."""

    def __init__(self, paths: list[Path], decode_ms: float = 0.0) -> None:
        self.paths = paths
        self.decode_ms = decode_ms

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> torch.Tensor:
        path = self.paths[index]
        data = torch.from_numpy(np.load(path)) if path.suffix == ".npy" else torch.load(path)["hidden_states"]
        if self.decode_ms:
            time.sleep(self.decode_ms / 1000)
        return data.reshape(-1, WIDTH)[:16].float()


class ShardedBatchSampler(Sampler):
    """A rank-aware batch sampler whose name does not say so: every rank gets its own batches."""

    def __init__(self, size: int, batch_size: int, *, num_replicas: int, rank: int, seed: int = 0) -> None:
        self.size, self.batch_size, self.num_replicas, self.rank, self.seed = size, batch_size, num_replicas, rank, seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return self.size // (self.batch_size * self.num_replicas)

    def __iter__(self) -> Iterator[list[int]]:
        order = np.random.default_rng(self.seed + self.epoch).permutation(self.size)
        mine = order[self.rank :: self.num_replicas]
        for start in range(0, len(self) * self.batch_size, self.batch_size):
            yield [int(i) for i in mine[start : start + self.batch_size]]


def make_data(folder: Path, count: int, kib: int, suffix: str) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"sample_{i:05d}{suffix}" for i in range(count)]
    rows = max(kib * 1024 // (4 * WIDTH), 16)
    for i, path in enumerate(paths):
        if path.exists():
            continue
        data = np.random.default_rng(i).standard_normal((rows, WIDTH), dtype=np.float32)
        part = path.with_suffix(".part")
        if suffix == ".npy":
            with part.open("wb") as file:
                np.save(file, data)
        else:
            torch.save({"hidden_states": torch.from_numpy(data)}, part)
        part.rename(path)
    return paths


def build_loader(args: argparse.Namespace, dataset: Dataset, rank: int, world_size: int) -> DataLoader:
    sampler = None
    options = {"num_workers": args.num_workers}
    if args.num_workers > 0:
        options.update(persistent_workers=True, prefetch_factor=args.prefetch)
    if args.split == "custom-batch-sampler":
        batches = ShardedBatchSampler(len(dataset), args.batch, num_replicas=world_size, rank=rank)
        return DataLoader(dataset, batch_sampler=batches, **options)
    if args.split == "double":
        dataset = Subset(dataset, range(rank, len(dataset), world_size))
    if args.split in ("distributed", "double"):
        sampler = DistributedSampler(dataset, num_replicas=world_size, rank=rank, shuffle=True)
    return DataLoader(dataset, batch_size=args.batch, shuffle=sampler is None, sampler=sampler, **options)


def build_model(args: argparse.Namespace) -> torch.nn.Module:
    layers = [torch.nn.Linear(WIDTH, WIDTH) for _ in range(2)]
    model = torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1])
    if args.parallel == "ddp":
        return DistributedDataParallel(model)
    from torch.distributed.fsdp import fully_shard

    for layer in layers:
        fully_shard(layer)
    return fully_shard(model)


def number(value: float) -> str:
    return f"{value:.3f}" if 0.001 <= abs(value) <= 999 else f"{value:.2e}"


def flat(record: dict[str, object]) -> str:
    parts = [f"train/{key}={number(value)}" for key, value in record["train"].items()]
    return ", ".join([*parts, f"epoch={record['epoch']}", f"lr={number(record['lr'])}"])


def rich_like(text: str) -> str:
    """What a rich console leaves in a redirected log: 80 columns, the place of the call on the first physical line."""
    words, lines, line = text.split(" "), [], ""
    for word in words:
        if line and len(line) + 1 + len(word) > 46:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    lines.append(line)
    head = f"{time.strftime('[%H:%M:%S]')} INFO     {lines[0]:<46} {'trainer.py:190':>14}"
    return "\n".join([head, *(" " * 20 + f"{rest:<46}" for rest in lines[1:])])


def report(args: argparse.Namespace, rank: int, step: int, record: dict[str, object]) -> None:
    if args.print_ranks == "rank0" and rank != 0:
        return
    if args.form == "dict":
        metric_logger.info(record)
    elif args.form == "flat":
        metric_logger.info(flat(record))
    elif args.form == "rich-like":
        sys.stdout.write(rich_like(flat(record)) + "\n")
        sys.stdout.flush()
    else:
        loss, lr = record["train"]["loss"], record["lr"]
        sys.stdout.write(f"[rank{rank}] epoch {record['epoch']} step {step} loss {loss:.4f} lr {lr:.3e}\n")
        sys.stdout.flush()


def set_up_logging(args: argparse.Namespace) -> None:
    if args.form == "flat":
        logging.basicConfig(level=logging.INFO, format="%(asctime)s [%(levelname)s] %(message)s")
    else:
        logging.basicConfig(level=logging.INFO)


def train(args: argparse.Namespace, rank: int, world_size: int) -> None:
    folder = Path(args.data_dir)
    if rank == 0:
        make_data(folder, args.files, args.file_kib, args.suffix)
    dist.barrier()
    files = sorted(folder.glob(f"*{args.suffix}"))
    val_count = max(len(files) // 20, 1)
    train_files, val_files = files[:-val_count], files[-val_count:]

    train_set = SampleFileDataset(train_files, args.decode_ms)
    train_loader = build_loader(args, train_set, rank, world_size)
    total_steps = args.epochs * len(train_loader) // args.accumulate
    if rank == 0:
        print(f"Train files: {len(train_files)}")
        print(f"Val files: {len(val_files)}")
        print(f"Train batches/epoch: {len(train_loader)}")
        print(f"Total training steps: {total_steps}", flush=True)

    if args.split == "same-seed":
        torch.manual_seed(0)  # meant for the model; the loader draws its order from the same generator later
    model = build_model(args)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    warm_up = max(total_steps // 100, 1)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: min(s / warm_up, 1.0) if s <= warm_up else max(1 - (s - warm_up) / total_steps, 0.0)
    )
    pause_s = args.step_sleep_ms / 1000 + (args.straggler / 1000 if rank == world_size - 1 else 0.0)
    step = 0
    for epoch in range(args.epochs):
        if rank == 0:
            logger.info("Training epoch %d/%d started", epoch + 1, args.epochs)
        for sampler in (train_loader.sampler, train_loader.batch_sampler):
            if hasattr(sampler, "set_epoch"):
                sampler.set_epoch(epoch)
        for count, batch in enumerate(train_loader, start=1):
            loss = (model(batch) - batch).pow(2).mean()
            (loss / args.accumulate).backward()
            time.sleep(pause_s)
            if count % args.accumulate:
                continue
            optimizer.step()
            optimizer.zero_grad()
            lr = schedule.get_last_lr()[0]
            schedule.step()
            values = {"loss_0": loss.item(), "full_acc_0": 1 / (1 + loss.item()), "loss": 3 * loss.item()}
            report(args, rank, step, {"train": values, "epoch": epoch, "lr": lr})
            step += 1
            if args.steps and step >= args.steps:
                return
        if rank == 0:
            logger.info("Training epoch %d/%d completed", epoch + 1, args.epochs)


def main() -> None:
    args = parse_args()
    torch.set_num_threads(1)
    set_up_logging(args)
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    logger.info("Started distributed with local_rank=%s, world_size=%d", os.environ["LOCAL_RANK"], world_size)
    try:
        train(args, rank, world_size)
    finally:
        dist.destroy_process_group()
    logger.info("Destroyed distributed with local_rank=%s", os.environ["LOCAL_RANK"])


if __name__ == "__main__":
    main()
