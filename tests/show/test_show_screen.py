"""The screen: the answer first, evidence beside it, innocent and blind apart."""

from __future__ import annotations

import dataclasses

from show_cases import CAREFUL, HOSTILE, NEXT, StandIn, founding, hypotheses, observations

from diag_kit.progress import NextProbe
from diag_kit.records import Cost, NotUnderstood, Observation, Parsed, Status
from diag_kit.show.text import screen


def test_the_screen_says_what_the_first_minute_must_say() -> None:
    lines = screen(founding()).splitlines()
    text = "\n".join(lines)
    assert lines[0] == "Why will this run take 35 hours?"
    assert lines[1].startswith("trainbox [recorded (reconstruction)]: torchrun, 4 ranks on GPUs 0-3, 04_train.py since 22:27 UTC")
    assert lines[3].startswith("1  supported  each rank trains on the whole dataset")
    assert "[data.dup_no_sampler]" in text
    assert lines[3].endswith("wins 26.4 h (25.2-27.7) of 35.2 h")
    assert "for       loader length 35446 = files 35446, one split by 4 would print 8861 or 8862 (O2, C4)" in text
    assert "against   nothing found" in text
    assert 'decides   files open per rank, 10 s, read-only: inv.verify("data.dup_no_sampler")' in text
    assert "decides   tell the bandwidth" in text
    assert "2  undecided  communication dominates the step" in text
    assert "wins 0-11 h of 35.2 h" in text


def test_innocent_blind_superseded_and_unread_each_have_their_line() -> None:
    text = screen(founding())
    after = text[text.index("not the cause") :]
    assert "not the cause  local disks: 3 kB/s, 0.04 % iowait in this window" in after
    assert "(O6, C10)" in after
    assert "blind          too few loader workers: bytes read per rank cannot be read by this user (H4)" in after
    assert "rank_io: /proc/4001/io cannot be read by this user; next: log in as the user of the training (O7)" in after
    assert "superseded     C3 whole run 8.8 h (8.3-9.3) -> C4 35.2 h (33.5-37.0)" in after
    assert "not read       1 line of log metrics (O3)" in after
    assert "nothing is wrong" not in text, "that the run is healthy is not an innocent cause"


def test_an_empty_investigation_says_what_to_do() -> None:
    assert "nothing observed yet" in screen(StandIn())
    assert "inv.diagnose()" in screen(StandIn())
    assert "inv.hypothesize()" in screen(StandIn(list(observations())))


def test_all_refuted_is_not_an_empty_screen() -> None:
    refuted = [dataclasses.replace(each, status=Status.REFUTED) for each in hypotheses()]
    text = screen(StandIn([*observations(), *refuted]))
    assert "no known cause fits what was seen" in text


def test_lines_stay_within_the_width() -> None:
    assert max(map(len, screen(founding()).splitlines())) <= 118
    assert max(map(len, screen(founding(), width=100).splitlines())) <= 100


def test_a_hostile_host_cannot_move_the_cursor() -> None:
    inv = founding(about=HOSTILE)
    inv.host.name = HOSTILE
    inv.question = HOSTILE
    inv._entries = [dataclasses.replace(e, claim=HOSTILE) if hasattr(e, "claim") else e for e in inv._entries]
    text = screen(inv)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\\x1b[31mred" in text


def test_a_confirmed_finding_needs_no_decider() -> None:
    done = [dataclasses.replace(each, status=Status.CONFIRMED) if each.id == "H1" else each for each in hypotheses()]
    inv = StandIn([*observations(), *done])
    inv.probes = (NEXT, CAREFUL)
    assert 'inv.verify("data.dup_no_sampler")' not in screen(inv)


def test_rivals_that_share_their_evidence_do_not_repeat_it() -> None:
    twin = dataclasses.replace(hypotheses()[0], cause="data.same_order", id="H9")
    text = screen(StandIn([*observations(), hypotheses()[0], twin]))
    assert text.count("every learning rate of the warm-up stands in 4 lines") == 1
    assert text.count("give the loader a DistributedSampler") == 1
    assert "also      4 more sentences as under 1" in text
    assert "[data.same_order]" in text


def test_a_folder_of_pasted_outputs_is_not_told_to_run_anything() -> None:
    inv = founding()
    inv.host.kind = "files"
    inv.probes = (NEXT, NextProbe("comm.bound", "GPU power", Cost.READ_ONLY, 10.0, "busy or waiting", "gpus"))
    text = screen(inv)
    assert "files open per rank, for you to find out: needs the running job" in text
    assert "add to the folder the output of: nvidia-smi" in text
    assert "inv.verify" not in text and "inv.observe" not in text
    assert "seen 22:31" not in text, "the files were read then, the host was not seen"


def test_unread_lines_are_counted_by_probe() -> None:
    lost = Parsed("s", not_understood=(NotUnderstood("line 1", "x"),))
    seen = [Observation("document", {}, "", (), lost, id=f"O{n}") for n in (1, 2, 3)]
    assert "not read       1 line of each document (O1, O2, O3)" in screen(StandIn(seen))
