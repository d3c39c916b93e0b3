"""Counting tells a split from none only where it can: a split run is never called unsplit."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from evidence_cases import Run
from hypothesis import given, settings
from hypothesis import strategies as st

from diag_kit.calculate.inputs import known
from diag_kit.calculate.parallel import data_parallel
from diag_kit.calculate.split_arithmetic import Split, predicted, split_arithmetic
from diag_kit.evidence import Evidence
from diag_kit.records import Fact, Observation, Parsed


def verdict(run: Run):
    return split_arithmetic(run.evidence())


def length(samples, batch, shares):
    return math.ceil(samples / (batch * shares))


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
@pytest.mark.parametrize("batch", [1, 2, 7, 32])
@pytest.mark.parametrize(("split", "power"), [(Split.NONE, 0), (Split.ONCE, 1), (Split.TWICE, 2)])
def test_the_length_tells_how_often_the_data_are_split(ranks, batch, split, power):
    run = Run(ranks=ranks, printers=ranks, batch=batch, batch_printed=True, length=length(35446, batch, ranks**power), total=None)
    found = verdict(run)
    assert found.verdict is split
    assert found.if_split == length(35446, batch, ranks)


@given(
    samples=st.integers(50, 200_000),
    batch=st.integers(1, 64),
    ranks=st.integers(2, 16),
    rounding=st.sampled_from(["ceil", "floor", "sampler"]),
    printed=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_a_split_loader_is_never_called_unsplit(samples, batch, ranks, rounding, printed):
    per_rank = math.ceil(samples / ranks)
    batches = {
        "ceil": math.ceil(samples / (batch * ranks)),
        "floor": samples // (batch * ranks),
        "sampler": math.ceil(per_rank / batch),
    }
    run = Run(
        ranks=ranks,
        printers=1,
        samples=samples,
        batch=batch,
        batch_printed=printed,
        length=batches[rounding] or 1,
        total=None,
        done=6,
    )
    found = verdict(run)
    assert found.verdict is not Split.NONE


@given(samples=st.integers(50, 200_000), batch=st.integers(1, 64), ranks=st.integers(2, 16))
@settings(max_examples=80, deadline=None)
def test_a_batch_of_the_whole_job_is_never_surely_unsplit(samples, batch, ranks):
    """PyTorch's ImageNet example: the argument is the global batch, the loader is split, the length looks unsplit."""
    run = Run(
        ranks=ranks, printers=1, samples=samples, batch=batch * ranks, batch_printed=True,
        length=math.ceil(samples / (batch * ranks)),
        total=None, done=6,
    )  # fmt: skip
    found = verdict(run)
    assert not (found.verdict is Split.NONE and found.sure)


def test_the_founding_length_needs_no_batch():
    found = verdict(Run())
    assert (found.verdict, found.sure, found.seen) == (Split.NONE, True, False)
    assert (found.if_split, found.if_split_floor, found.epochs) == (8862, 8861, 5)


def test_more_steps_than_a_split_has_are_seen():
    found = verdict(Run(samples=400, length=400, total=2000, done=300, steps_in_log=True))
    assert (found.verdict, found.seen) == (Split.NONE, True)
    assert "one split would have ended it after 100" in found.reason


@pytest.mark.parametrize("batch_printed", [True, False])
def test_a_printed_dataset_length_is_unmasked_by_the_end_of_an_epoch(batch_printed):
    run = Run(samples=400, length=400, total=2000, per_rank_length=100, done=350, steps_in_log=True, batch_printed=batch_printed)
    found = verdict(run)
    assert found.verdict is (Split.ONCE if batch_printed else Split.CANNOT_TELL)
    if batch_printed:
        assert found.seen


def test_an_unsplit_run_whose_epoch_ended_is_seen():
    found = verdict(Run(samples=100, length=100, total=500, per_rank_length=100, done=350, steps_in_log=True))
    assert (found.verdict, found.seen) == (Split.NONE, True)


def test_a_length_that_the_source_prints_of_the_dataset_says_nothing():
    found = verdict(Run(facts=(Fact("printed_length_is", "len(dataset)", "train.py:70"),)))
    assert found.verdict is Split.CANNOT_TELL


@pytest.mark.parametrize(
    ("run", "why"),
    [
        (Run(length=1963, total=9815, batch=1, batch_printed=True), "packing"),
        (Run(length=None, total=None), "no length"),
        (Run(samples=0), "samples"),
        (Run(length=100_000, total=500_000), "unknown size"),
        (Run(length=8862, total=44310), "one split, or no split and a batch larger"),
        (Run(total=44310), "a split, or accumulation"),
    ],
)
def test_what_breaks_the_arithmetic_is_said(run, why):
    found = verdict(run)
    assert found.verdict is Split.CANNOT_TELL
    assert why in found.reason


def test_more_chunks_than_files_are_not_taken_for_an_unsplit_epoch():
    run = Run(length=12500, samples=1000, total=62500, done=5000, steps_in_log=True, batch=1, batch_printed=True)
    assert verdict(run).verdict is Split.CANNOT_TELL


def test_stated_accumulation_divides_the_total():
    found = verdict(Run(accumulation=4, total=5 * 8862))
    assert (found.verdict, found.accumulation, found.accumulated) == (Split.NONE, 4, 4)
    in_batches = verdict(Run(accumulation=4))
    assert (in_batches.accumulation, in_batches.accumulated) == (1, 4)


def test_a_library_that_prints_only_totals():
    samples = 35446
    split = Run(printers=1, length=None, batch=4, batch_printed=True, epochs=3, total=3 * length(samples, 4, 4))
    assert verdict(split).verdict is Split.ONCE
    bare = Run(printers=1, length=None, batch=4, batch_printed=True, batch_source="Instantaneous batch size per device", epochs=3,
               total=3 * length(samples, 4, 1))  # fmt: skip
    assert (verdict(bare).verdict, verdict(bare).sure) == (Split.NONE, True)


@pytest.mark.parametrize(
    ("line", "size"),
    [
        ("train.py --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2", 1),
        ("train.py --tp 2", 2),
        ("train.py --sp_size=4", 1),
        ("train.py trainer.tensor_parallel_size=2", 2),
        ("train.py --expert-parallel-size 4", 4),
        ("train.py --top-p 2 --cpu 4", 4),
        ("train.py", 4),
    ],
)
def test_model_parallel_ranks_are_not_data_parallel_ones(line, size):
    assert data_parallel(Run(command_line=line).evidence()).size == size


def test_one_data_parallel_rank_has_nothing_to_split():
    assert verdict(Run(command_line="train.py --tensor-parallel-size 4")).verdict is Split.ONE_RANK
    assert verdict(Run(ranks=1, printers=1)).verdict is Split.ONE_RANK


def test_a_stated_data_parallel_size_outranks_the_command_line():
    found = data_parallel(Run(facts=(Fact("data_parallel_size", 2, "train.log"),)).evidence())
    assert (found.size, found.model_parallel) == (2, True)


def test_predicted_covers_every_rounding():
    assert predicted(35446, 1, 4) == {8861, 8862}
    assert predicted(10, 3, 2) == {1, 2}


def test_a_reading_of_prose_never_contradicts_a_plain_statement() -> None:
    """torchrun's banner, or "Using 8 GPUs" in a log read later, beside WORLD_SIZE of the process."""

    def seen(probe: str, *stated: Fact) -> Observation:
        return Observation(probe, {}, "", (), Parsed("", stated), id=f"O-{probe}")

    environment = Fact("world_size", 4, "WORLD_SIZE of pid 7")
    prose = Fact("world_size", 8, "train.log line 3: Using 8 GPUs", strength=1)
    both = Evidence([seen("training_jobs", environment), seen("log_facts", prose)])
    found = known(both, "world_size")
    assert (found.value, found.source, found.conflict) == (4, "WORLD_SIZE of pid 7", "")
    assert (both.number("world_size"), both.fact("world_size")) == (4, both.facts("world_size")[0])
    alone = known(Evidence([seen("log_facts", prose)]), "world_size")
    assert (alone.value, alone.conflict) == (8, "")
    plain = Fact("world_size", 8, "train.log line 3: world_size=8")
    differing = known(Evidence([seen("training_jobs", environment), seen("log_facts", plain)]), "world_size")
    assert differing.conflict == "world_size: 8 (train.log line 3: world_size=8), but also 4 (WORLD_SIZE of pid 7)"


def of_the_whole(*facts: Fact) -> Evidence:
    """Only "the dataset's size" is known: 20000 samples in batches of 16 on 3 ranks."""
    stated = (Fact("dataset_samples", 20000, "log line 2"), Fact("world_size", 3, "launcher"), *facts)
    return Evidence([Observation("log_facts", {}, "", (), Parsed("", stated), id="O1")])


def test_going_through_the_whole_dataset_is_no_split_if_the_source_cuts_nothing() -> None:
    """Shape of innnky/so-vits-svc#70: "dataset size" and "step 200/1250" are printed, no training part."""
    facts = (Fact("batches_per_epoch", 1250, "log line 3"), Fact("batch_size_per_rank", 16, "train.py:9, in every rank"))
    assert split_arithmetic(of_the_whole(*facts, Fact("split_by_source", "none", "train.py:9"))).verdict is Split.NONE
    unread = split_arithmetic(of_the_whole(*facts))
    assert unread.verdict is Split.CANNOT_TELL
    assert "whether that is the whole or a rank's own part is not known" in unread.reason


@pytest.mark.parametrize("batches", [416, 417, 139])
def test_a_shorter_epoch_of_a_dataset_with_unknown_parts_is_no_proof_of_a_split(batches: int) -> None:
    facts = (Fact("batches_per_epoch", batches, "log line 3"), Fact("batch_size_per_rank", 16, "train.py:9, in every rank"))
    found = split_arithmetic(of_the_whole(*facts, Fact("split_by_source", "none", "train.py:9")))
    assert found.verdict is Split.CANNOT_TELL


@pytest.mark.parametrize(
    ("memory_mib", "ranks"),
    [
        ([17310, 17284, 17284, 5], 3),
        ([17310, 3120, 3120, 5], None),  # the others may be somebody else's
        ([17310, 17284, None, None], None),
    ],
)
def test_ranks_that_the_script_spawns_are_the_gpus_that_are_used_alike(memory_mib, ranks) -> None:
    gpus = pd.DataFrame({"gpu": range(4), "memory_used_mib": pd.array(memory_mib, dtype="Float64")})
    facts = (Fact("ranks_by_source", "one for each GPU", "train.py:28"), Fact("gpus_in_use", 3, "nvidia-smi"))
    evidence = Evidence([Observation("gpus", {}, "", (), Parsed("", facts, {"gpus": gpus}), id="O1")])
    assert data_parallel(evidence).size == ranks
    unsaid = Evidence([Observation("gpus", {}, "", (), Parsed("", facts[1:], {"gpus": gpus}), id="O1")])
    assert data_parallel(unsaid).size is None


@pytest.mark.parametrize(("batches", "verdict"), [(1250, Split.NONE), (313, Split.ONCE), (79, Split.CANNOT_TELL)])
def test_spawned_ranks_on_an_unknown_number_of_hosts_prove_no_double_split(batches, verdict) -> None:
    """Four ranks on each of four hosts, split once, have the length that two splits over four would have."""
    facts = (
        Fact("ranks_by_source", 4, "train.py:28: spawns 4 processes"),
        Fact("train_samples", 20000, "log line 2"),
        Fact("batches_per_epoch", batches, "log line 3"),
        Fact("batch_size_per_rank", 16, "train.py:9, in every rank"),
    )
    assert split_arithmetic(Evidence([Observation("x", {}, "", (), Parsed("", facts), id="O1")])).verdict is verdict
