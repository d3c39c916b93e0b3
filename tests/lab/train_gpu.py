"""A drafter-like FSDP2 training on GPUs, one file per sample, with the ways of splitting the data as a switch.

    torchrun --nproc_per_node=2 train_gpu.py --data-dir DIR --split none > train.log 2>&1

Every rank logs every step as the founding run did (``logging.basicConfig`` and a dict a step). ``--split none`` is the fault
(each rank shuffles the whole dataset), ``same-seed`` the worse one, ``sampler`` the cure.
"""

from __future__ import annotations

import argparse
import logging
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.data import DataLoader, Dataset, DistributedSampler

metric_logger = logging.getLogger("speculators.metrics")


class SampleFileDataset(Dataset):
    """One ``.pt`` file of hidden states a sample: [sequence, hidden] in bf16."""

    def __init__(self, paths: list[Path]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.load(self.paths[index])


class Drafter(torch.nn.Module):
    """A few transformer layers and a head: enough to keep a GPU busy and to have something to shard."""

    def __init__(self, hidden: int, layers: int, vocabulary: int) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(
            torch.nn.TransformerEncoderLayer(hidden, hidden // 128, 4 * hidden, 0.0, batch_first=True, norm_first=True)
            for _ in range(layers)
        )
        self.head = torch.nn.Linear(hidden, vocabulary, bias=False)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            hidden_states = layer(hidden_states)
        return self.head(hidden_states)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--split", choices=["none", "same-seed", "sampler"], default="none")
    parser.add_argument("--files", type=int, default=1600)
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--sequence", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--vocabulary", type=int, default=8192)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--num-workers", type=int, default=4)
    parser.add_argument("--lr", type=float, default=3e-5)
    parser.add_argument("--write-only", action="store_true", help="write the dataset and stop")
    return parser.parse_args()


def write_dataset(args: argparse.Namespace) -> list[Path]:
    folder = Path(args.data_dir)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"sample_{number:06d}.pt" for number in range(args.files)]
    base = torch.randn(args.sequence, args.hidden, dtype=torch.bfloat16)
    for number, path in enumerate(paths):
        if not path.exists():
            torch.save(base.roll(number, 0), path)  # different samples at the price of a copy
    return paths


def build_loader(args: argparse.Namespace, dataset: Dataset) -> DataLoader:
    sampler = DistributedSampler(dataset) if args.split == "sampler" else None
    return DataLoader(
        dataset,
        batch_size=args.batch,
        shuffle=sampler is None,
        sampler=sampler,
        num_workers=args.num_workers,
        pin_memory=True,
        persistent_workers=True,
        drop_last=True,
    )


def build_model(args: argparse.Namespace) -> torch.nn.Module:
    model = Drafter(args.hidden, args.layers, args.vocabulary).cuda()
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.layers:
        fully_shard(layer, mp_policy=policy)
    return fully_shard(model, mp_policy=policy)


def main() -> None:
    args = parse_args()
    if args.write_only:
        write_dataset(args)
        return
    logging.basicConfig(level=logging.INFO)
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    logging.info("Started distributed with local_rank=%s, world_size=%d", os.environ["LOCAL_RANK"], dist.get_world_size())
    paths = write_dataset(args) if dist.get_rank() == 0 else []
    dist.barrier()
    paths = paths or write_dataset(args)
    held_out = len(paths) // 20
    loader = build_loader(args, SampleFileDataset(paths[held_out:]))
    total_steps = args.epochs * len(loader)
    if dist.get_rank() == 0:
        print(f"Train files: {len(paths) - held_out}")
        print(f"Val files: {held_out}")
        print(f"Train batches/epoch: {len(loader)}")
        print(f"Total training steps: {total_steps}", flush=True)
    if args.split == "same-seed":
        torch.manual_seed(0)  # meant for the weights; the loader shuffles with the same generator later
    model = build_model(args)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    warm_up = max(total_steps // 100, 1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(step / warm_up, 1.0))
    train(args, loader, model, optimizer, schedule)
    dist.destroy_process_group()


def train(args, loader, model, optimizer, schedule) -> None:
    for epoch in range(args.epochs):
        if args.split == "sampler":
            loader.sampler.set_epoch(epoch)
        for hidden_states in loader:
            hidden_states = hidden_states.cuda(non_blocking=True)
            logits = model(hidden_states)
            loss = logits.float().pow(2).mean()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            lr = schedule.get_last_lr()[0]
            schedule.step()
            values = {"loss_0": loss.item(), "loss": 3 * loss.item(), "grad_norm": float(norm)}
            metric_logger.info({"train": values, "epoch": epoch, "lr": lr})


if __name__ == "__main__":
    main()
