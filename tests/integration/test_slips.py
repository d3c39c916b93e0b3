"""What a caller gets wrong in a notebook or on the command line: one sentence, and the call that was meant."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from programs import ROOT_OF_PROJECT as ROOT

import diag_kit as dk
from diag_kit.cli import _parser, main
from diag_kit.errors import BadInput
from diag_kit.hosts.target import looks_like_a_path, open_target


@pytest.fixture(scope="module")
def inv() -> dk.Investigation:
    made = dk.Investigation(dk.replay("unsharded-two-gpus"))
    made.diagnose()
    return made


@pytest.mark.parametrize(
    ("slip", "said", "right"),
    [
        (lambda inv: dk.Investigation("trainbox"), "'trainbox' names a host", "dk.connect('trainbox')"),
        (lambda inv: dk.Investigation(Path("runs")), "names a host, a recording or a folder", "dk.open_target('runs')"),
        (lambda inv: dk.Investigation(None), "None is no host", 'dk.connect("trainbox")'),
        (lambda inv: inv.observe("log_rate"), "'log_rate' is the name of a probe", "inv.observe(dk.observe.log_rate())"),
        (lambda inv: inv.observe("lograte"), "no probe is called 'lograte'", "is log_rate"),
        (lambda inv: inv.observe(dk.observe.log_rate), "the parentheses are missing", "inv.observe(dk.observe.log_rate())"),
        (lambda inv: inv.observe(dk.calculate.projection()), "is a calculator", "inv.calculate(dk.calculate.projection())"),
        (lambda inv: inv.observe(dk.observe.iostat(seconds=0)), "seconds=0", "seconds=20"),
        (lambda inv: inv.observe(dk.observe.log_rate(seconds="5")), "seconds='5'", "seconds=20"),
        (lambda inv: inv.observe(3), "3 is no probe", "inv.observe("),
        (lambda inv: inv.calculate(dk.calculate.projection), "parentheses are missing", "dk.calculate.projection()"),
        (lambda inv: inv.calculate("projection"), "the name of a calculator", "inv.calculate(dk.calculate.projection())"),
        (lambda inv: inv.calculate(dk.observe.iostat()), "is a probe", "inv.observe(dk.observe.iostat())"),
        (lambda inv: inv.calculate(dk.calculate.projection(total_steps=-5)), "total_steps=-5 cannot be", "as it was observed"),
        (lambda inv: inv.calculate(dk.calculate.printing_ranks(printing_ranks=1.5)), "it is a whole number above 0", "None"),
        (lambda inv: inv.recalculate("C1", printing_ranks="two"), "printing_ranks='two' cannot be", "as it was observed"),
        (lambda inv: inv.recalculate("C1", rank=2), "C1 has no assumption rank", "printing_ranks"),
        (lambda inv: inv.diagnose(seconds=0), "seconds=0", "seconds=20"),
        (lambda inv: inv.diagnose(seconds=-3), "seconds=-3", "seconds=20"),
        (lambda inv: inv.diagnose(seconds="20"), "seconds='20'", "seconds=20"),
        (lambda inv: inv.diagnose(seconds=float("nan")), "seconds=nan", "seconds=20"),
        (lambda inv: inv.diagnose(seconds=True), "seconds=True", "seconds=20"),
        (lambda inv: inv.diagnose(pid="a"), "pid='a'", "pid=4711"),
        (lambda inv: inv.diagnose(pid=0), "pid=0", "pid=4711"),
        (lambda inv: inv.save("a.txt"), "a.txt cannot hold a recording", ".diag.zip"),
        (lambda inv: inv.save("nowhere/a.diag.zip"), "there is no folder nowhere", "mkdir -p nowhere"),
        (lambda inv: inv.save(None), "None is no path", ".diag.zip"),
        (lambda inv: inv.postmortem("x.pdf"), "x.pdf cannot hold a postmortem", ".md"),
        (lambda inv: inv.postmortem(".md"), ".md cannot hold", ".html"),
        (lambda inv: inv.verify("data.dup_nosampler"), "no cause is called 'data.dup_nosampler'", "is data.dup_no_sampler"),
        (lambda inv: inv.verify("healthy"), "no deciding test for healthy", "data.dup_no_sampler"),
        (lambda inv: inv.verify("xyz"), "no cause is called 'xyz'", "data.dup_no_sampler"),
        (lambda inv: inv.judge("data.dup_nosampler"), "no cause is called", "is data.dup_no_sampler"),
        (lambda inv: inv.verify(inv.findings[0]), "is a finding, not the id of a cause", 'inv.verify("data.dup_no_sampler")'),
        (lambda inv: inv["O999"], "no card is called O999", "O1"),
        (lambda inv: inv.tell("one_gpu_step_per_s", 6), "no calculation asks for", "is one_gpu_steps_per_s"),
        (lambda inv: inv.tell("world_size", "4"), "world_size='4'", 'inv.tell("world_size", 2)'),
        (lambda inv: dk.open_target(""), "names nothing to look at", "local"),
        (lambda inv: dk.files(""), "'' names no folder", "pasted outputs"),
        (lambda inv: dk.files("/no/such/folder"), "is not a folder nor a file", "pasted outputs"),
    ],
)
def test_a_slip_is_one_sentence_with_the_right_call(
    inv: dk.Investigation, slip: Callable[[Any], Any], said: str, right: str
) -> None:
    cards = len(inv.entries)
    with pytest.raises(BadInput) as caught:
        slip(inv)
    assert said in caught.value.what
    assert right in caught.value.next_step
    assert len(inv.entries) == cards, "a slip leaves no card"


def test_a_name_that_is_nearly_one() -> None:
    with pytest.raises(AttributeError, match="no probe called 'lograte'; is log_rate"):
        dk.observe.lograte  # noqa: B018
    with pytest.raises(AttributeError, match="no calculator called 'projecton'; is projection meant"):
        dk.calculate.projecton  # noqa: B018


# -- targets -----------------------------------------------------------------------------------------------------------

LOG = "".join(f"epoch 0 step {step}/35446 loss {9 - step / 100:.3f} lr 1.0e-04\n" for step in range(200))


@pytest.mark.parametrize(
    ("target", "said", "step"),
    [
        ("./missing", "there is no file or folder ./missing", "check the path"),
        ("~/no-such-folder-here", "there is no file or folder ~/no-such-folder-here (", "check the path"),
        ("/no/such/a.log", "there is no file or folder /no/such/a.log", "there is no folder /no/such either"),
        ("pasted/train.lgo", "there is no file or folder pasted/train.lgo", "is pasted/train.log meant?"),
        ("gone.diag.zip", "there is no recording called", "eagle3-35h"),
        ("   ", "names nothing to look at", "local"),
        ("a\0b", "names nothing to look at", "local"),
        ("missing.log", "cannot be resolved", "or is a file meant? There is no missing.log in"),
    ],
)
def test_a_target_that_is_not_there(monkeypatch, tmp_path, capsys, target, said, step) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pasted").mkdir()
    (tmp_path / "pasted" / "train.log").write_text(LOG)
    assert main(["diagnose", target]) in (1, 2)
    err = capsys.readouterr().err
    assert said in err and step in err and "Traceback" not in err


def test_a_path_is_never_taken_for_a_host() -> None:
    paths = ("./a", "../a", "~/a", "~", ".", "/a", "a/b", "/")
    hosts = ("trainbox", "user@host", "user@host:22", "[::1]:22", "host.example.org", "ssh://user@host:22", "a/")
    assert [looks_like_a_path(each) for each in (*paths, *hosts)] == [True] * len(paths) + [False] * len(hosts)


def test_one_log_is_read_like_a_folder_with_that_log(monkeypatch, tmp_path, capsys) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "train.log").write_text(LOG)
    (tmp_path / "beside.log").write_text("another")
    (host,) = {open_target(str(tmp_path / "train.log"))}
    assert [document.name for document in host.documents] == ["train.log"] and host.name == "train.log"
    assert [document.name for document in open_target("~/train.log").documents] == ["train.log"]
    assert {document.name for document in open_target("~").documents} == {"train.log", "beside.log"}
    assert main(["diagnose", str(tmp_path / "train.log")]) == 0
    assert "train.log [pasted files]" in capsys.readouterr().out
    (tmp_path / "link.log").symlink_to("/etc/hostname")
    assert open_target(str(tmp_path / "link.log")).documents, "a link that the user names is followed"


def test_a_recording_under_another_name_is_still_one(tmp_path: Path) -> None:
    dk.Investigation(dk.replay("unsharded-two-gpus")).save(tmp_path / "a.diag.zip")
    (tmp_path / "a.diag.zip").rename(tmp_path / "download")
    assert open_target(str(tmp_path / "download")).kind == "recorded"


# -- arguments of the command line ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["diagnose", "no-such-host.invalid", "-o", "nowhere/x.md"], "there is no folder nowhere to write x.md in"),
        (["diagnose", "no-such-host.invalid", "-o", "x.pdf"], "x.pdf cannot hold a result"),
        (["record", "no-such-host.invalid", "-o", "nowhere/x.diag.zip"], "there is no folder nowhere"),
        (["report", "no-such.diag.zip", "-o", "x.pdf"], "x.pdf cannot hold a postmortem"),
        (["diagnose", "no-such-host.invalid", "--fact", "one_gpu_step_per_s=6"], "is one_gpu_steps_per_s"),
        (["diagnose", "no-such-host.invalid", "--fact", "one_gpu_steps_per_s=-6"], "a number of steps/s, above 0"),
        (["diagnose", "no-such-host.invalid", "--fact", "one_gpu_steps_per_s=fast"], "one_gpu_steps_per_s='fast'"),
        (["score", "."], "no labelled case"),
        (["diagnose", __file__, "--log", "train.log"], "--log is for a live host"),
        (["diagnose", __file__, "--pid", "7"], "--pid is for a live host"),
    ],
)
def test_a_mistake_is_said_before_any_work(monkeypatch, tmp_path, capsys, arguments, said) -> None:
    """The host cannot be reached: it was not tried."""
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert said in shown.err and "next:" in shown.err and "resolved" not in shown.err
    assert shown.out == "" and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--seconds", "abc"], "'abc' is not a number of seconds: give 1 to 3600"),
        (["--seconds", "nan"], "give a window of 1 to 3600 seconds"),
        (["--seconds", "0"], "give a window of 1 to 3600 seconds"),
        (["--pid", "x"], "'x' is no process id"),
        (["--pid", "0"], "'0' is no process id"),
    ],
)
def test_a_number_that_is_none(capsys, arguments, said) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["diagnose", "local", *arguments])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_a_fact_that_nobody_asks_for_goes_in_when_it_is_meant(capsys) -> None:
    assert main(["diagnose", "unsharded-two-gpus", "--other-fact", "ticket=OPS-12", "--json"]) == 0
    assert '"name": "ticket"' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("label", "said"),
    [
        (None, 'put expected.json into each folder of a case, such as {"cause": "data.dup_no_sampler"'),
        ("{", "this label cannot be read"),
        ("[]", "this label is no JSON object"),
        ('{"cause": "healthy", "inputs": ["gone.log"]}', "the label names the input gone.log, which is not there"),
    ],
)
def test_score_says_what_a_label_is(tmp_path, capsys, label, said) -> None:
    if label is not None:
        (tmp_path / "expected.json").write_text(label)
    assert main(["score", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert said in err and "NAME.expected.json beside NAME.diag.zip" in err


def test_a_label_without_its_recording(tmp_path, capsys) -> None:
    (tmp_path / "a.expected.json").write_text('{"cause": "healthy"}')
    assert main(["score", str(tmp_path)]) == 2
    assert "no recording a.diag.zip beside it" in capsys.readouterr().err


# -- a host without a training -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said", "step"),
    [
        ([], "no training runs on this machine, and no log was named", "--log PATH"),
        (["--pid", "4194305"], "no training on this machine holds pid 4194305", "leave --pid away"),
        (["--log", "/nowhere/t.log"], "no training runs on this machine, and /nowhere/t.log does not exist", "--log PATH"),
    ],
)
def test_nothing_to_diagnose_is_said_and_the_rest_is_shown(monkeypatch, capsys, arguments, said, step) -> None:
    from diag_kit.observe import jobs

    monkeypatch.setattr(jobs, "find_jobs", lambda dump: [])  # other tests may train on this machine
    assert main(["diagnose", "local", "--seconds", "1", *arguments]) == 1
    shown = capsys.readouterr()
    assert said in shown.err and step in shown.err.partition("next:")[2]
    assert "no training found" in shown.out.splitlines()[1]
    assert "(O" in shown.out, "the cards of what could be seen are cited"
    if "--log" in arguments:
        assert "log t.log (given by the user)" in shown.out.splitlines()[1]
        assert shown.out.splitlines()[2].startswith("!! The log that you named tells nothing: /nowhere/t.log does not exist")
    if "--pid" in arguments:
        assert shown.out.splitlines()[2] == "!! No training holds the process that you named, pid 4194305."


def test_a_log_without_a_running_training_is_enough(monkeypatch, tmp_path, capsys) -> None:
    from diag_kit.observe import jobs

    monkeypatch.setattr(jobs, "find_jobs", lambda dump: [])
    (tmp_path / "train.log").write_text(LOG)
    assert main(["diagnose", "local", "--seconds", "1", "--log", str(tmp_path / "train.log")]) == 0
    shown = capsys.readouterr()
    assert "log train.log (given by the user)" in shown.out.splitlines()[1]
    assert "!!" not in shown.out


@pytest.mark.parametrize("content", [b"", b"hello\n", bytes(range(256)) * 9])
def test_a_log_that_tells_nothing_is_said_first(monkeypatch, tmp_path, capsys, content) -> None:
    from diag_kit.observe import jobs

    monkeypatch.setattr(jobs, "find_jobs", lambda dump: [])
    log = tmp_path / "train.log"
    log.write_bytes(content)
    assert main(["diagnose", "local", "--seconds", "1", "--log", str(log)]) == 1
    shown = capsys.readouterr()
    assert shown.out.splitlines()[2].startswith(f"!! The log that you named tells nothing: {log}"[:100])
    assert f"{log} holds no line of a training that could be read" in shown.err


# -- progress, documents, installation ---------------------------------------------------------------------------------


def test_progress_is_whole_lines_on_standard_error(capfd) -> None:
    main(["diagnose", "local", "--seconds", "1"])
    shown = capfd.readouterr()
    lines = [line for line in shown.err.splitlines() if line.startswith("  looking at ")]
    assert "  looking at training_jobs (up to 10 s)" in lines
    assert all(line.endswith(" s)") for line in lines)
    assert "looking at" not in shown.out


def test_what_answers_at_once_shows_no_progress(capfd) -> None:
    assert main(["diagnose", "unsharded-two-gpus"]) == 0
    assert capfd.readouterr().err == ""
    assert main(["diagnose", "unsharded-two-gpus", "--json"]) == 0
    assert capfd.readouterr().err == ""


def test_the_commands_of_the_readme_can_be_pasted() -> None:
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    commands = [line.partition("#")[0].split() for line in lines if line.startswith((".venv/bin/python -m", "python -m"))]
    assert len(commands) >= 8 and all(command[0] == ".venv/bin/python" for command in commands)
    assert {command[3] for command in commands} == {"diagnose", "record", "report", "score", "probes", "facts"}
    for command in commands:
        _parser().parse_args(command[3:])


def test_a_python_without_the_libraries_gets_one_sentence() -> None:
    """``-S`` leaves out site-packages, as the system's own Python would be without the environment."""
    answer = subprocess.run(
        [sys.executable, "-S", "-m", "diag_kit", "diagnose", "eagle3-35h"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert answer.returncode == 1 and answer.stdout == ""
    assert f"is not installed for {sys.executable}" in answer.stderr
    assert ".venv/bin/python -m diag_kit" in answer.stderr and "Traceback" not in answer.stderr


def test_the_demo_ends_with_what_to_do_next() -> None:
    last = (ROOT / "Makefile").read_text("utf-8").partition("\ndemo:")[2].split("\n\n")[0].splitlines()[-1]
    assert all(word in last for word in ("postmortem.html", "make lab", "-m diag_kit diagnose HOST"))


# -- a plain terminal ------------------------------------------------------------------------------------------------------


def test_reprs_are_short(inv: dk.Investigation, tmp_path: Path) -> None:
    saved = inv.save(tmp_path / "a.diag.zip")
    results = [result for seen in inv.evidence.observations for result in seen.results]
    for shown in (saved, inv.evidence, *inv.entries, *inv.next_probes(), *results):
        assert len(repr(shown)) < 1000 and "\n" not in repr(shown) and "\\x" not in repr(shown)
    assert "a.diag.zip" in repr(saved) and "Recording(" not in repr(saved)
    assert repr(inv["O1"]).startswith("<O1 training_jobs: torchrun, 2 ranks")
    assert repr(inv.evidence).startswith("<Evidence: ")
    assert "exit status 0" in repr(results[0])


def test_a_folder_of_known_kinds_that_say_nothing_has_been_observed(tmp_path, capsys) -> None:
    (tmp_path / "train.py").write_text("import torch\nmodel = torch.nn.Linear(2, 2)\nprint(model(torch.ones(2)))\n")
    assert main(["diagnose", str(tmp_path), "--json"]) == 0
    assert capsys.readouterr().err == ""
