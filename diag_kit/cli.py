"""The verbs of the command line. Each is a small function from parsed arguments to an exit status."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from diag_kit import __version__
from diag_kit.errors import BadInput, DiagError, NothingToObserve
from diag_kit.observe.known_facts import checked, typed
from diag_kit.progress import STOPPED

if TYPE_CHECKING:
    from diag_kit.hosts.protocol import Host
    from diag_kit.investigation import Investigation
    from diag_kit.progress import Progress
    from diag_kit.records import Entry, Value

OK, COULD_NOT_OBSERVE, USAGE, STOPPED_BY_USER = 0, 1, 2, 130
"""130 is what a shell makes of a program that SIGINT ended (128 + 2)."""
TARGETS = (
    "host (alias of ~/.ssh/config, user@host[:port]), local, recording (*.diag.zip or shipped name), folder or file of outputs"
)
WRITTEN = (".md", ".html", ".diag.zip", ".json")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb. Errors of the user or the host are one sentence on stderr, never a traceback."""
    asked = _parser().parse_args(argv)
    try:
        verb: Callable[[argparse.Namespace], int] = asked.verb
        return verb(asked)
    except BadInput as error:
        print(f"diag_kit: {error}", file=sys.stderr)
        return USAGE
    except DiagError as error:
        print(f"diag_kit: {error}", file=sys.stderr)
        return COULD_NOT_OBSERVE
    except KeyboardInterrupt:
        print("diag_kit: stopped by the user; nothing was written", file=sys.stderr)
        return STOPPED_BY_USER
    except BrokenPipeError:
        return OK


def diagnose(asked: argparse.Namespace) -> int:
    """Diagnose a host, a recording, or pasted outputs (a folder, or one file)."""
    if asked.out:
        _writable(asked.out, WRITTEN, "a result")
    inv = _investigate(asked)
    if asked.json:
        from diag_kit.report import report

        print(json.dumps(report(inv), indent=2, ensure_ascii=False))
    else:
        from diag_kit.show.text import screen

        print(screen(inv))
    if asked.out:
        print(f"wrote {_write(inv, asked.out)}", file=sys.stderr if asked.json else sys.stdout)
    return _status(inv, asked)


def record(asked: argparse.Namespace) -> int:
    """Diagnose a host and keep everything observed in one redacted file."""
    from diag_kit.show.format import size

    _writable(asked.out, (".diag.zip",), "a recording")
    inv = _investigate(asked)
    saved = inv.save(asked.out)
    replaced = ", ".join(f"{count} {kind}" for kind, count in sorted(saved.redactions.items())) or "nothing"
    print(f"wrote {saved.path} ({size(saved.size_bytes)}; replaced before saving: {replaced})")
    for warning in saved.warnings:
        print(f"diag_kit: {warning}", file=sys.stderr)
    return _status(inv, asked)


def report_(asked: argparse.Namespace) -> int:
    """Write the postmortem of a recording."""
    from diag_kit.calculate.standard import standard_calculators
    from diag_kit.investigation import Investigation

    _writable(asked.out, (".md", ".html"), "a postmortem")
    inv = Investigation.open(asked.recording)
    if not inv.findings:  # observed, but never weighed
        inv.calculate(*standard_calculators(inv.evidence))
        inv.hypothesize()
    print(f"wrote {inv.postmortem(asked.out)}")
    return OK


def score(asked: argparse.Namespace) -> int:
    """Diagnose labelled cases and count how often the answer was right."""
    from diag_kit.score import score_folder

    card = score_folder(Path(asked.folder))
    print(json.dumps(card.as_json(), indent=2) if asked.json else card.as_text())
    return OK


def probes(asked: argparse.Namespace) -> int:
    """List what can be looked at, what it costs, and the command a person would type."""
    from diag_kit.observe.probe import all_probes

    for name, probe in all_probes().items():
        print(f"{name:18} {probe.cost.value:10} {probe.equivalent or '-'}")
    return OK


def facts(asked: argparse.Namespace) -> int:
    """List what you may tell with --fact or inv.tell: names, units, meanings."""
    from diag_kit.observe.known_facts import FACTS

    for fact in FACTS:
        choices = f": {', '.join(fact.choices)}" if fact.choices else ""
        print(f"{fact.name:24} {fact.unit or ('text' if fact.text else 'number'):8} {fact.meaning}{choices}")
    return OK


def _investigate(asked: argparse.Namespace) -> Investigation:
    from diag_kit.hosts import open_target
    from diag_kit.investigation import Investigation

    told = [(*_fact(text), False) for text in asked.fact] + [(*_fact(text), True) for text in asked.other_fact]
    for name, value, other in told:
        checked(name, value, other=other)  # before anything is contacted
    host = open_target(asked.target)
    if host.kind == "files" and (asked.log or asked.pid):
        option = "--log" if asked.log else "--pid"
        raise BadInput(
            f"{option} is for a live host; {asked.target} holds pasted outputs, all of which are read",
            next_step=f"leave {option} away",
        )
    try:
        inv = Investigation(host, question=asked.question or _question(host))
        if not asked.json and host.kind not in ("recorded", "files"):  # those answer at once
            inv.subscribe(_print_progress)
        for name, value, other in told:
            inv.tell(name, value, other=other)
        inv.diagnose(seconds=asked.seconds, log=asked.log, pid=asked.pid)
    finally:
        host.close()
    return inv


def _question(host: Host) -> str:
    recording = getattr(host, "recording", None)
    return recording.question if recording is not None else "Why is this run slow?"


def _fact(text: str) -> tuple[str, Value]:
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not name:
        raise BadInput(f"--fact {text} is not NAME=VALUE", next_step="for example --fact one_gpu_steps_per_s=6")
    return name, typed(name, value)


def _print_progress(event: Progress | Entry) -> None:
    """One write a line: several probes report at the same time. Also where stderr is a file: it tells where a run hangs."""
    from diag_kit.progress import Progress

    if isinstance(event, Progress) and not event.done and event.budget_s > 0:
        sys.stderr.write(f"  looking at {event.doing} (up to {event.budget_s:.0f} s)\n")
        sys.stderr.flush()


def _writable(out: str, suffixes: tuple[str, ...], what: str) -> None:
    """Before any work: a diagnosis takes minutes, and a mistyped folder must not cost it."""
    from diag_kit.argument_checks import path_or_refuse

    path_or_refuse(out, suffixes, what)


def _write(inv: Investigation, out: str) -> Path:
    if out.endswith(".diag.zip"):
        return inv.save(out).path
    if out.endswith(".json"):
        from diag_kit.argument_checks import path_or_refuse
        from diag_kit.recording_archive import write_atomic
        from diag_kit.report import report

        path = path_or_refuse(out, (".json",), "a report")
        write_atomic(path, (json.dumps(report(inv), indent=2, ensure_ascii=False) + "\n").encode("utf-8", "replace"))
        return path
    return inv.postmortem(out)


def _status(inv: Investigation, asked: argparse.Namespace) -> int:
    """What the shell is told, with one sentence on stderr where it is not 0."""
    if inv.partial and inv.host.kind != "recorded":
        print(f"diag_kit: {STOPPED}", file=sys.stderr)
        return STOPPED_BY_USER
    said = _nothing_seen(inv) or (_no_training(inv, asked) if inv.host.kind not in ("recorded", "files") else None)
    if said is None:
        return OK
    print(f"diag_kit: {said}", file=sys.stderr)
    return COULD_NOT_OBSERVE


def _nothing_seen(inv: Investigation) -> DiagError | None:
    from diag_kit.hosts.files import FilesHost

    seen = [o for o in inv.evidence.observations if o.probe != "told"]
    if any(o.parsed.facts or any(len(table) for table in o.parsed.tables.values()) for o in seen):
        return None
    documents = inv.host.documents if isinstance(inv.host, FilesHost) else ()
    if any(each.kind not in ("binary", "empty", "text") for each in documents):
        return None  # known kinds that say nothing on the question: it ran, whatever it found
    why = next((o.parsed.problems[0] for o in seen if o.parsed.problems), "nothing was there to look at")
    return NothingToObserve(f"nothing could be observed: {why}")


def _no_training(inv: Investigation, asked: argparse.Namespace) -> DiagError | None:
    """A live host that shows neither a running training nor a log of one: the question cannot be answered from there."""
    evidence = inv.evidence
    logs = [o for o in evidence.observations if o.probe in ("log_metrics", "log_facts")]
    if evidence.fact("job_pid") is not None or any(o.facts or o.table("metrics") is not None for o in logs):
        return None
    jobs = evidence.observed("training_jobs")
    table = jobs.table("jobs") if jobs is not None else None
    if asked.pid is not None:
        what = f"no training on {inv.host.name} holds pid {asked.pid}"
    elif jobs is not None and not jobs.ok and table is None:
        what = f"{inv.host.name} could not be searched for a training ({jobs.parsed.problems[0].splitlines()[0]})"
    else:
        what = f"no training runs on {inv.host.name}"
    if asked.log:
        nothing = f"{asked.log} holds no line of a training that could be read"
        problem = next((p for o in logs for p in o.parsed.problems if asked.log in p), nothing)
        what += f", and {problem.splitlines()[0]}"
    else:
        what += ", and no log was named"
    if asked.pid is not None:
        step = "leave --pid away, or take a pid of the training's own processes (ps aux | grep python)"
    else:
        step = "name the log of the run with --log PATH, or look while it runs; its processes are seen as its user or as root"
    return NothingToObserve(f"{what}; what else could be seen is in the result", next_step=step)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m diag_kit", description="Why is this training run slow?")
    parser.add_argument("--version", action="version", version=__version__)
    verbs = parser.add_subparsers(title="verbs", required=True, metavar="VERB")

    looking = argparse.ArgumentParser(add_help=False)
    looking.add_argument("target", metavar="TARGET", help=TARGETS)
    looking.add_argument("--log", metavar="PATH", help="the training log on the host, where it cannot be found")
    looking.add_argument("--pid", type=_pid, help="one process of the training, where several run")
    looking.add_argument("--seconds", type=_seconds, default=20.0, help="sampling window, 1 to 3600 (default 20)")
    looking.add_argument("--question", default="", help="what you want to know; heads the report")
    looking.add_argument(
        "--fact",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="something you know: one_gpu_steps_per_s=6; names: the verb facts",
    )
    looking.add_argument(
        "--other-fact",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a fact that no calculation asks for, for the record",
    )
    looking.set_defaults(json=False)

    def verb(name: str, function: Callable[[argparse.Namespace], int], *parents: argparse.ArgumentParser):  # type: ignore[no-untyped-def]
        made = verbs.add_parser(name, parents=parents, help=function.__doc__, description=function.__doc__)
        made.set_defaults(verb=function)
        return made

    made = verb("diagnose", diagnose, looking)
    made.add_argument("--json", action="store_true", help="one JSON object instead of text")
    made.add_argument("-o", "--out", help="also write postmortem (.md, .html), recording (.diag.zip) or report (.json)")
    verb("record", record, looking).add_argument("-o", "--out", required=True, metavar="CASE.diag.zip")
    made = verb("report", report_)
    made.add_argument("recording", metavar="CASE.diag.zip")
    made.add_argument("-o", "--out", required=True, metavar="postmortem.(md|html)")
    made = verb("score", score)
    made.add_argument("folder", metavar="FOLDER")
    made.add_argument("--json", action="store_true")
    verb("probes", probes)
    verb("facts", facts)
    return parser


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds: give 1 to 3600, such as --seconds 20") from None
    if not 1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError("give a window of 1 to 3600 seconds")
    return seconds


def _pid(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no process id: give a whole number above 0, as ps prints it")
    return int(text)
