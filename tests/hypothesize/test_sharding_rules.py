"""The rules on data splitting: the founding case, its variants, and what tests and contradictions make of them."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diag_kit.evidence import Evidence
from diag_kit.hypothesize.catalogue import all_causes
from diag_kit.hypothesize.ranking import ranked
from diag_kit.observe.logs.metrics import LogMetrics
from diag_kit.records import CommandResult, Fact, Observation, Status, Verification

sys.path.append(str(Path(__file__).parent.parent / "calculate"))
from evidence_cases import START, Run, compute, founding, observation

NAMED = (Status.CONFIRMED, Status.SUPPORTED)
PAIR = ("data.dup_no_sampler", "data.same_order")


def findings(run: Run | Evidence):
    evidence = run.evidence() if isinstance(run, Run) else run
    return {found.cause: found for found in ranked(evidence)}


def with_test(run: Run, cause: str, verdict: Status) -> Evidence:
    test = Verification(cause, "files open per rank", {}, "opens", verdict, "what the opens say", id="V1")
    return Evidence((*run.evidence().entries, test))


def length(run_samples, batch, shares):
    return math.ceil(run_samples / (batch * shares))


def test_the_founding_case_is_the_honest_pair():
    found = ranked(founding().evidence())
    assert [each.cause for each in found[:2]] == list(PAIR)
    first = found[0]
    assert first.status is Status.SUPPORTED
    assert first.claim == "each rank trains on the whole dataset (own or same order: undecided)"
    assert (round(first.hours_won.low, 1), round(first.hours_won.high, 1)) == (25.2, 27.7)
    assert round(first.hours_won.total_hours, 1) == 35.2
    numbers = first.numbers
    assert (numbers["train_samples"], numbers["batches_per_epoch"]) == (35446, 35446)
    assert (numbers["printing_ranks"], numbers["steps_done"]) == (4, 187)
    assert [round(numbers[n], 2) for n in ("step_rate", "step_rate_low", "step_rate_high")] == [1.4, 1.33, 1.47]
    assert [round(numbers[n], 1) for n in ("run_hours", "run_hours_if_split", "hours_won")] == [35.2, 8.8, 26.4]
    assert numbers["ties_with"] == "data.same_order"
    assert "8861 or 8862" in first.evidence_for[0].text
    assert "O2" in first.evidence_for[0].ids
    assert any("second fault" in reason.text for reason in first.evidence_for)
    traps = ("set_epoch must be called each epoch", "only on batch_sampler", "learning-rate schedule", "uneven shards hang")
    for trap in (*traps, "second fault"):
        assert trap in first.fix
    assert "inv.verify" in first.next_probe


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
@pytest.mark.parametrize("printers", ["all", 1])
def test_unsplit_with_other_rank_counts(ranks, printers):
    found = findings(Run(ranks=ranks, printers=ranks if printers == "all" else 1))
    for cause in PAIR:
        assert found[cause].status is Status.SUPPORTED
        assert found[cause].numbers["run_hours_if_split"] == pytest.approx(35.16 / ranks, rel=0.01)
    assert found["data.double_shard"].status is Status.REFUTED
    assert found["healthy"].status is Status.REFUTED


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
@pytest.mark.parametrize("batch", [1, 2, 4, 8, 32])
@pytest.mark.parametrize("printed", [True, False])
def test_a_split_loader_is_never_named(ranks, batch, printed):
    per_rank = length(35446, batch, ranks)
    found = findings(Run(ranks=ranks, printers=ranks, batch=batch, batch_printed=printed, length=per_rank, total=5 * per_rank))
    for cause in PAIR:
        assert found[cause].status not in NAMED
        if printed:
            assert found[cause].status is Status.REFUTED
            assert found[cause].hours_won is None


@pytest.mark.parametrize(("batch", "status"), [(1, Status.SUPPORTED), (3, Status.SUPPORTED), (8, Status.UNDECIDED)])
def test_a_batch_that_may_be_the_whole_jobs_leaves_it_undecided(batch, status):
    run = Run(batch=batch, batch_printed=True, length=length(35446, batch, 1), total=5 * length(35446, batch, 1))
    found = findings(run)["data.dup_no_sampler"]
    assert found.status is status
    if status is Status.UNDECIDED:
        assert found.claim == "whether the ranks share out the data is undecided"
        assert found.hours_won.low == 0
        assert any("whole job" in reason.text for reason in found.evidence_against)
    per_device = replace(run, batch_source="Instantaneous batch size per device")
    assert findings(per_device)["data.dup_no_sampler"].status is Status.SUPPORTED


def test_the_script_settles_whose_batch_it_is_and_is_cited():
    rows = pd.DataFrame(
        [{"file": "/x/train.py", "line": 88, "variable": "loader", "side": "train", "sampler": None, "batch_size": "8",
          "verdict": "not split", "why": "no sampler"}]
    )  # fmt: skip
    source = observation("O7", "source_of_script", Fact("split_by_source", "none", "train.py:88"), dataloaders=rows)
    run = Run(batch=8, batch_printed=True, length=4431, total=5 * 4431, extra=(source,))
    found = findings(run)["data.dup_no_sampler"]
    assert found.status is Status.SUPPORTED
    assert any("train.py:88 builds the training loader: no sampler" in r.text and r.ids == ("O7",) for r in found.evidence_for)


def test_double_split_is_named_and_wins_no_hours():
    twice = length(35446, 1, 16)
    found = findings(Run(length=twice, total=5 * twice, batch_printed=True))
    first = found["data.double_shard"]
    assert first.status is Status.SUPPORTED
    assert (first.hours_won.low, first.hours_won.high) == (0, 0)
    assert found["data.dup_no_sampler"].status is Status.REFUTED


def test_source_text_alone_never_confirms_or_refutes():
    for said, statuses in (("none", {Status.UNDECIDED}), ("once", {Status.UNDECIDED, Status.NOT_TESTABLE})):
        run = Run(length=None, total=None, facts=(Fact("split_by_source", said, "train.py:9"),))
        for cause in PAIR:
            assert findings(run)[cause].status in statuses
    contradiction = Run(facts=(Fact("split_by_source", "once", "train.py:9"),))
    assert findings(contradiction)["data.dup_no_sampler"].status is Status.UNDECIDED
    assert findings(contradiction)["data.dup_no_sampler"].hours_won.low == 0


def test_model_parallelism_is_not_a_fault():
    whole = findings(Run(command_line="pretrain.py --tensor-model-parallel-size 4"))
    assert whole["data.dup_no_sampler"].status is Status.REFUTED
    unseen = findings(Run(facts=(Fact("framework", "megatron-lm", "log"),)))
    assert unseen["data.dup_no_sampler"].status is Status.UNDECIDED
    assert any("share data by design" in reason.text for reason in unseen["data.dup_no_sampler"].evidence_against)


@pytest.mark.parametrize(
    ("cause", "verdict", "dup", "same"),
    [
        ("data.dup_no_sampler", Status.CONFIRMED, Status.CONFIRMED, Status.REFUTED),
        ("data.same_order", Status.CONFIRMED, Status.REFUTED, Status.CONFIRMED),
        ("data.dup_no_sampler", Status.REFUTED, Status.REFUTED, Status.UNDECIDED),
        ("data.dup_no_sampler", Status.UNDECIDED, Status.SUPPORTED, Status.SUPPORTED),
        ("data.dup_no_sampler", Status.SUPPORTED, Status.SUPPORTED, Status.SUPPORTED),
    ],
)
def test_a_deciding_test_speaks_for_both(cause, verdict, dup, same):
    found = findings(with_test(Run(), cause, verdict))
    assert (found["data.dup_no_sampler"].status, found["data.same_order"].status) == (dup, same)
    confirmed = [each for each in PAIR if found[each].status is Status.CONFIRMED]
    for each in confirmed:
        assert found[each].evidence_for[0].ids == ("V1",)
        assert "undecided" not in found[each].claim


def test_a_confirmation_against_a_sure_count_does_not_stand():
    run = Run(batch_printed=True, length=8862, total=44310)
    found = findings(with_test(run, "data.same_order", Status.CONFIRMED))
    assert found["data.same_order"].status is Status.UNDECIDED
    assert found["data.dup_no_sampler"].status not in NAMED
    text = " ".join(reason.text for reason in found["data.same_order"].evidence_against)
    assert "keep one in N" in text


@pytest.mark.parametrize("cause", PAIR)
@pytest.mark.parametrize("run", [Run(length=None, total=None), Run(length=8862, total=44310), Run(length=1963, total=9815)])
def test_a_confirmation_that_no_count_backs_stays_undecided(cause, run):
    """Reading all and keeping one in N, several samples in a file, and model-parallel ranks look unsplit from outside."""
    found = findings(with_test(run, cause, Status.CONFIRMED))[cause]
    assert found.status is Status.UNDECIDED
    assert any("look alike" in reason.text for reason in found.evidence_against)


def test_same_order_is_not_confirmed_where_ranks_may_be_model_parallel():
    run = Run(facts=(Fact("framework", "torchtitan", "log"),))
    assert findings(with_test(run, "data.same_order", Status.CONFIRMED))["data.same_order"].status is Status.UNDECIDED


def test_equal_losses_are_a_hint_only():
    same = findings(Run(same_loss=True))
    assert same["data.same_order"].status is Status.SUPPORTED
    assert any("hint" in r.text for r in same["data.same_order"].evidence_for)
    assert any("hint" in r.text for r in same["data.dup_no_sampler"].evidence_against)


def test_equal_seeds_in_the_source_put_the_same_order_first():
    run = Run(facts=(Fact("order_by_source", "same", "train.py:9: manual_seed(0) makes every rank shuffle alike"),))
    assert ranked(run.evidence())[0].cause == "data.same_order"


def test_nothing_seen_is_not_testable():
    found = findings(compute(()))
    for cause in all_causes():
        assert found[cause].status in (Status.NOT_TESTABLE, Status.UNDECIDED)
        assert found[cause].status is Status.NOT_TESTABLE or cause == "healthy"


@given(
    ranks=st.integers(2, 8),
    batch=st.integers(1, 40),
    samples=st.integers(200, 100_000),
    split=st.sampled_from(["once", "twice", "global batch"]),
    printed=st.booleans(),
    source=st.sampled_from([None, "once", "cannot tell"]),
    done=st.integers(4, 60),
)
@settings(max_examples=60, deadline=None)
def test_no_split_run_is_ever_called_unsplit(ranks, batch, samples, split, printed, source, done):
    shares = {"once": ranks, "twice": ranks**2, "global batch": 1}[split]
    batch = batch * ranks if split == "global batch" else batch
    per_rank = max(1, length(samples, batch, shares))
    facts = (Fact("split_by_source", source, "train.py:9"),) if source else ()
    run = Run(ranks=ranks, printers=1, samples=samples, batch=batch, length=per_rank,
              batch_printed=printed or split == "global batch", total=5 * per_rank, done=done, facts=facts)  # fmt: skip
    found = findings(run)
    assert all(found[cause].status not in NAMED for cause in PAIR)


def test_every_rule_has_a_page():
    for known in all_causes().values():
        page = known.rule.__doc__ or ""
        for part in ("Signature", "Thresholds", "Look-alikes", "Fails", "Hours won"):
            if known.id.startswith(("data.d", "data.same", "input", "io", "comm", "healthy")):
                assert part in page, (known.id, part)


CORRECT_LOG = """[rank0]: Number of training samples: 4987
[rank1]: Number of training samples: {other}
world size: 2
batch_size: 7
""" + "".join(f"2026-01-05 12:{n:02}:00 Epoch: [0][{10 * n}/713]  loss {2 - n / 90:.4f}\n" for n in range(40))


@pytest.mark.parametrize("other", [4987, 4986])
@pytest.mark.parametrize("source", ["", "none", "once"])
def test_ranks_that_each_state_their_own_part_are_not_called_unsplit(other, source):
    raw = CORRECT_LOG.replace("{other}", str(other)).encode()
    parsed = LogMetrics().read((CommandResult("box", "cat log.txt", raw, b"", 0, START, 0.1),))
    log = Observation("log_metrics", {}, "", (), parsed, id="O1")
    stated = [observation("O2", "source_of_script", Fact("split_by_source", source, "train.py:11"))] if source else []
    found = findings(compute((log, *stated)))
    named = [cause for cause in PAIR if found[cause].status in NAMED]
    assert named == (list(PAIR) if source == "none" else [])
    assert found["healthy"].status not in NAMED


def test_groups_that_share_data_by_design_keep_equal_data_from_being_a_fault():
    """A mesh with a tensor-parallel dimension in the script, of a size that nothing tells."""
    shared = Fact("shared_data_by_source", "init_device_mesh with a dimension tp", "train.py:7")
    found = findings(Run(facts=(shared, Fact("split_by_source", "none", "train.py:9"))))
    assert all(found[cause].status not in NAMED for cause in PAIR)
    assert any("share data by design" in reason.text for reason in found["data.dup_no_sampler"].evidence_against)
