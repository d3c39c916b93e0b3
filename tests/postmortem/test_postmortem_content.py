"""What a postmortem says: the answer and its status, hours, marks on claims that do not hold, redaction."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import pytest
from postmortem_cases import BEGAN, StubCase, StubHost, empty_case, result, small_case

from diag_kit.postmortem import to_markdown
from diag_kit.postmortem.impact import ranks_of, realised
from diag_kit.postmortem.ledger import Hold, Ledger
from diag_kit.postmortem.snapshot import snapshot
from diag_kit.records import (
    Calculation,
    Entry,
    Fact,
    HoursWon,
    Hypothesis,
    Interval,
    Note,
    Observation,
    Parsed,
    Reason,
    Status,
    Verification,
)
from diag_kit.redaction import Redactor


def observation(id: str, *facts: Fact, problems: tuple[str, ...] = (), probe: str = "log_facts") -> Observation:
    return Observation(probe, {}, "cat log", (), Parsed("read", facts, problems=problems), id=id)


def case(*entries: Entry, host: StubHost | None = None) -> StubCase:
    return StubCase("Why?", entries, host or StubHost())


def ledger(*entries: Entry) -> Ledger:
    return Ledger(snapshot(case(*entries)))


def section(text: str, title: str) -> str:
    return text.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]


def supported(status: Status = Status.SUPPORTED, **others: object) -> Hypothesis:
    values = {"hours_won": HoursWon(1, 2, "by hand", 10), **others}
    return Hypothesis("data.dup_no_sampler", "not split", "Each rank runs everything.", status, id="H1", **values)  # type: ignore[arg-type]


def test_page_one_answers_in_order() -> None:
    text = to_markdown(small_case())
    titles = [line[3:] for line in text.splitlines() if line.startswith("## ")]
    assert titles[:5] == ["Question", "Answer", "Impact", "What was done", "What it won"]
    assert titles[5] == "Timeline"


def test_a_reconstruction_says_so_in_title_and_first_lines() -> None:
    lines = to_markdown(small_case()).splitlines()
    assert lines[0] == "# Postmortem (reconstruction): Why will this run take 35 hours?"
    assert lines[2].startswith("> **This is a reconstruction")


@pytest.mark.parametrize("about", ["", "recorded"])
def test_what_is_no_reconstruction_is_not_called_one(about: str) -> None:
    assert "reconstruction" not in to_markdown(case(host=StubHost("box", "ssh", about)))


def test_hours_become_gpu_hours_with_their_interval() -> None:
    impact = section(to_markdown(small_case()), "Impact")
    assert "35.2 h (33.5-37.0) x 4 ranks = 141 GPU-hours (134-148), C3" in impact
    assert "26.4 h (25.2-27.7) of 35.2 h; 106 GPU-hours (101-111)" in impact
    assert "not hours already spent" in impact


def test_without_a_number_of_ranks_there_are_no_gpu_hours() -> None:
    impact = section(to_markdown(case(Calculation("run_hours", "f", 10.0, "h", id="C1"), supported())), "Impact")
    assert "10.0 h (no interval); GPU-hours not known" in impact


def test_sources_that_contradict_each_other_on_the_ranks_are_named() -> None:
    seen = observation("O1", Fact("world_size", 8, "environment"), Fact("started_ranks", 4, "log"))
    ranks = ranks_of(ledger(seen))
    assert ranks is not None
    assert (ranks.count, ranks.others) == (8, (("started_ranks", 4),))
    text = to_markdown(case(seen, Calculation("run_hours", "f", 10.0, "h", id="C1")))
    assert "Beware: started\\_ranks says 4." in text or "Beware: started_ranks says 4." in text


def test_the_printing_ranks_serve_where_no_fact_tells() -> None:
    ranks = ranks_of(ledger(Calculation("printing_ranks", "f", 4, "ranks", id="C1")))
    assert ranks is not None and ranks.count == 4


def test_hours_that_were_not_measured_are_not_called_won() -> None:
    assert "not measured yet" in section(to_markdown(case(supported())), "What it won")


def test_hours_measured_after_the_fix_stand_beside_the_claim() -> None:
    measured = Calculation("hours_realised", "before minus after", 1.5, "h", interval=Interval(1.25, 1.75), id="C1")
    won = section(to_markdown(case(supported(), measured)), "What it won")
    assert "| 1-2 h of 10.0 h | 1.5 h (1.2-1.8), C1 |" in won
    test = Verification("data.dup_no_sampler", "after", {}, "m", Status.CONFIRMED, "r", numbers={"hours_realised": 1.5}, id="V1")
    book = ledger(supported(), test)
    assert realised(book, book.findings[0]) == ("1.5 h", "V1")
    other = ledger(supported(), dataclasses.replace(measured, parameters={"cause": "io.nfs"}))
    assert realised(other, other.findings[0]) is None


@pytest.mark.parametrize(
    ("cited", "expected"),
    [
        ("O9", Hold.MISSING),
        ("O1", Hold.SOUND),
        ("O2", Hold.FAILED),
        ("O3", Hold.PARTIAL),
        ("C1", Hold.SUPERSEDED),
        ("C2", Hold.SOUND),
        ("C3", Hold.UNKNOWN),
        ("C4", Hold.MISSING),
        ("C5", Hold.FAILED),
    ],
)
def test_how_well_a_citation_holds(cited: str, expected: Hold) -> None:
    book = ledger(
        observation("O1", Fact("x", 1, "s")),
        observation("O2", problems=("no such file",)),
        observation("O3", Fact("x", 1, "s"), problems=("half of it",)),
        Calculation("a", "f", 1.0, "h", ("O1",), id="C1"),
        Calculation("a", "f", 2.0, "h", ("O1",), supersedes="C1", id="C2"),
        Calculation("b", "f", None, "h", note="no steps", id="C3"),
        Calculation("c", "f", 1.0, "h", ("O9",), id="C4"),
        Calculation("d", "f", 1.0, "h", ("C6",), id="C5"),
        Calculation("e", "f", 1.0, "h", ("O2", "C5"), id="C6"),
    )
    assert book.hold(cited)[0] is expected


def test_claims_without_standing_evidence_are_marked() -> None:
    claim = supported(
        evidence_for=(Reason("seen by nobody", ("O9",)), Reason("said"), Reason("not observed", ("O1",))),
    )
    text = to_markdown(case(observation("O1", problems=("iostat is not installed",)), claim))
    assert "**3 of 3 reasons for this claim cannot be traced to a card that stands: see Evidence.**" in text
    evidence = section(text, "Evidence for and against")
    assert "seen by nobody (O9 **not in this record**)" in evidence
    assert "said **no card named**" in evidence
    assert "not observed (O1 **failed: iostat is not installed**)" in evidence
    assert "**No evidence for this claim is written down in this record.**" in to_markdown(case(supported()))


def test_a_verdict_after_the_hypothesis_counts_and_one_before_does_not() -> None:
    verdict = Verification("data.dup_no_sampler", "t", {}, "m", Status.REFUTED, "the ranks share no file", id="V1")
    assert ledger(supported(), verdict).findings[0].status is Status.REFUTED
    assert ledger(verdict, supported()).findings[0].status is Status.SUPPORTED
    undecided = dataclasses.replace(verdict, verdict=Status.UNDECIDED)
    assert ledger(supported(), undecided).findings[0].status is Status.SUPPORTED
    confirmed = dataclasses.replace(verdict, verdict=Status.CONFIRMED)
    assert "decided by V1" in section(to_markdown(case(confirmed, supported(Status.CONFIRMED))), "Answer")
    text = to_markdown(case(supported(), verdict))
    assert "None yet" in section(text, "Answer")
    assert "| **innocent** | the ranks share no file (V1) |" in section(text, "What it was not")


def test_the_better_established_cause_is_the_answer() -> None:
    first = Hypothesis("comm.bound", "communication", "Communication dominates.", Status.UNDECIDED, id="H2")
    answer = section(to_markdown(case(first, supported())), "Answer")
    assert answer.strip().startswith("**Each rank runs everything.**")
    assert "- `comm.bound` undecided: Communication dominates." in answer


def test_superseded_calculations_stay_struck_through() -> None:
    table = section(to_markdown(small_case()), "Calculations")
    assert "| C1 | ~~`run_hours`~~ | ~~8.8 h~~ |" in table or "| C1 | ~~`run_hours`~~ | ~~8.79 h~~ |" in table
    assert "| superseded by C3 |" in table
    assert "| C3 | `run_hours` | 35.2 h (33.5-37.0) |" in table


def test_blind_is_as_visible_as_innocent() -> None:
    table = section(to_markdown(small_case()), "What it was not")
    assert (
        "| the disks are too slow `io.slow_storage` | **blind** | iostat is not installed, so the disks were not seen |" in table
    )
    assert "| what `iostat` would show | **blind** |" in table
    assert "| PCIe traffic | **blind** |" in table


def test_a_probe_that_succeeded_later_is_not_blind() -> None:
    failed = observation("O1", problems=("timed out",))
    assert "would show" in to_markdown(case(failed))
    assert "would show" not in to_markdown(case(failed, observation("O2", Fact("x", 1, "s"))))


def test_the_timeline_is_in_order_and_keeps_what_has_no_hour_in_place() -> None:
    late = Observation("late", {}, "", (result("a", "x", 60),), Parsed("late"), id="O1")
    early = Observation("early", {}, "", (result("b", "x", 5),), Parsed("early"), id="O2")
    made = Calculation("a", "f", 1.0, "h", ("O1",), id="C1")
    table = section(to_markdown(case(late, made, early, Note("begun", BEGAN))), "Timeline")
    assert [table.index(each) for each in ("begun", "early", "late", "1 calculation made")] == sorted(
        table.index(each) for each in ("begun", "early", "late", "1 calculation made")
    )
    assert "| 2026-02-14 22:31:05 | begun | note |" in table


def test_times_are_written_in_utc() -> None:
    from datetime import timezone

    elsewhere = BEGAN.astimezone(timezone(timedelta(hours=9)))
    assert "| 2026-02-14 22:31:05 | begun | note |" in to_markdown(case(Note("begun", elsewhere)))
    assert "| 2026-02-14 22:31:05 | begun | note |" in to_markdown(case(Note("begun", BEGAN.replace(tzinfo=None))))


def test_actions_wait_for_their_owner() -> None:
    table = section(to_markdown(small_case()), "Actions")
    kinds = [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("| ") and "---" not in line]
    assert kinds == ["kind", "prevent", "detect", "mitigate", "mitigate", "decide"]
    assert "| Give the DataLoader a DistributedSampler and call set_epoch on it. | `data.dup_no_sampler` |  |  |" in table


def test_every_command_stands_with_time_status_bytes_and_hash() -> None:
    case_ = small_case()
    table = section(to_markdown(case_), "Appendix: commands")
    for seen in case_.entries:
        for each in seen.results if isinstance(seen, Observation) else ():
            assert each.sha256 in table
            assert each.command in table
    assert "| 3 | O3 | `host1` | 2026-02-14 22:32:25 | 0.25 s | 127 | 0 | no |" in table


def test_a_command_that_did_not_end_is_not_given_a_status() -> None:
    cut = result("tail", "x", exit_status=None, timed_out=True, truncated=True)
    table = section(to_markdown(case(Observation("log_rate", {}, "", (cut,), Parsed("cut"), id="O1"))), "Appendix: commands")
    assert "| timed out | 1 | yes |" in table


def test_a_live_case_is_redacted_like_a_recording_and_says_what() -> None:
    secret = "hf_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7"
    seen = Observation(
        "processes",
        {},
        "ps",
        (dataclasses.replace(result("ps -u alice", f"HF_TOKEN={secret} /home/alice/run\n"), host="gpu-node-17"),),
        Parsed("/home/alice/run", (Fact("log_path", "/home/alice/train.log", "gpu-node-17"),)),
        id="O1",
    )
    live = case(seen, host=StubHost("gpu-node-17", "ssh", ""))
    text = to_markdown(live)
    assert secret not in text and "alice" not in text and "gpu-node-17" not in text
    assert "| secret | 1 |" in section(text, "Appendix: what was redacted")
    kept = to_markdown(live, redactor=Redactor(keep=("host", "user")))
    assert secret not in kept and "/home/alice/train.log" in kept and "gpu-node-17" in kept
    assert "Left readable by choice: host, user." in kept


def test_what_a_recording_kept_readable_stays_readable() -> None:
    host = StubHost("case", "recorded", "recorded")
    host.recording = type("R", (), {"kept": ("user",), "provenance_text": "", "kit_version": "0.1.0"})()  # type: ignore[attr-defined]
    text = to_markdown(case(observation("O1", Fact("log_path", "/home/alice/train.log", "s")), host=host))
    assert "/home/alice/train.log" in text
    assert "| diag_kit | 0.1.0 | made the recording |" in text


def test_what_was_not_understood_is_counted() -> None:
    assert "O1 log\\_facts: 1 piece" in to_markdown(small_case()) or "O1 log_facts: 1 piece" in to_markdown(small_case())
    assert "Everything that was read was understood." in to_markdown(empty_case())


def test_a_ranking_that_copies_its_cards_is_still_the_same_ranking() -> None:
    old = dataclasses.replace(supported(Status.UNDECIDED), id="H1")
    new = dataclasses.replace(supported(), id="H2")
    verdict = Verification("data.dup_no_sampler", "t", {}, "m", Status.REFUTED, "r", id="V1")
    restated = dataclasses.replace(supported(Status.UNDECIDED), id="H3")
    given = dataclasses.replace(case(old, new, verdict, restated), ranked=(dataclasses.replace(restated),))
    book = Ledger(snapshot(given))
    assert [(each.hypothesis.id, each.status, each.decided_by) for each in book.findings] == [("H3", Status.UNDECIDED, "")]
    assert [each.id for each in book.earlier("data.dup_no_sampler")] == ["H1", "H2"]


def test_where_no_gpu_was_seen_hours_are_rank_hours() -> None:
    seen = observation("O1", Fact("world_size", 4, "environment"))
    blind = observation("O2", problems=("no nvidia-smi on this machine",), probe="gpus")
    impact = section(to_markdown(case(seen, blind, Calculation("run_hours", "f", 10.0, "h", id="C1"))), "Impact")
    assert "10.0 h (no interval) x 4 ranks = 40.0 rank-hours, C1" in impact
    assert "no GPU was seen" in impact and "GPU-hours" not in impact


def test_page_one_gives_the_first_sentence_of_a_long_fix() -> None:
    claim = supported(fix="Give it a sampler. Traps: the schedule is built on the old length.")
    text = to_markdown(case(claim))
    assert "Give it a sampler. (in full under Actions)" in section(text, "What was done")
    assert "Traps: the schedule is built on the old length." in section(text, "Actions")
