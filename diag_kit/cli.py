"""The verbs of the command line. Each is a small function from parsed arguments to an exit status."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from diag_kit import __version__
from diag_kit.errors import BadInput, DiagError

if TYPE_CHECKING:
    from diag_kit.hosts.protocol import Host
    from diag_kit.investigation import Investigation
    from diag_kit.progress import Progress
    from diag_kit.records import Entry

OK, COULD_NOT_OBSERVE, USAGE = 0, 1, 2
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
        print("diag_kit: stopped", file=sys.stderr)
        return COULD_NOT_OBSERVE
    except BrokenPipeError:
        return OK


def diagnose(asked: argparse.Namespace) -> int:
    """Diagnose a host, a recording or a folder of pasted outputs."""
    if asked.out and not asked.out.endswith(WRITTEN):
        raise BadInput(f"{asked.out} names no form that can be written", next_step=f"end it in one of {', '.join(WRITTEN)}")
    inv = _investigate(asked)
    if asked.json:
        from diag_kit.report import report

        print(json.dumps(report(inv), indent=2, ensure_ascii=False))
    else:
        from diag_kit.show.text import screen

        print(screen(inv))
    if asked.out:
        print(f"wrote {_write(inv, asked.out)}", file=sys.stderr if asked.json else sys.stdout)
    return OK if _observed_anything(inv) else COULD_NOT_OBSERVE


def record(asked: argparse.Namespace) -> int:
    """Diagnose a host and keep everything observed in one redacted file."""
    if not asked.out.endswith(".diag.zip"):
        raise BadInput(f"{asked.out} does not end in .diag.zip", next_step="-o CASE.diag.zip")
    inv = _investigate(asked)
    saved = inv.save(asked.out)
    replaced = ", ".join(f"{count} {kind}" for kind, count in sorted(saved.redactions.items())) or "nothing"
    print(f"wrote {saved.path} ({saved.size_bytes / 1e6:.1f} MB; replaced before saving: {replaced})")
    for warning in saved.warnings:
        print(f"diag_kit: {warning}", file=sys.stderr)
    return OK if _observed_anything(inv) else COULD_NOT_OBSERVE


def report_(asked: argparse.Namespace) -> int:
    """Write the postmortem of a recording."""
    from diag_kit.investigation import Investigation

    print(f"wrote {Investigation.open(asked.recording).postmortem(asked.out)}")
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


def _investigate(asked: argparse.Namespace) -> Investigation:
    from diag_kit.hosts import open_target
    from diag_kit.investigation import Investigation

    host = open_target(asked.target)
    try:
        inv = Investigation(host, question=asked.question or _question(host))
        if not getattr(asked, "json", False) and sys.stderr.isatty():
            inv.subscribe(_print_progress)
        for name, value in map(_fact, asked.fact):
            inv.tell(name, value)
        inv.diagnose(seconds=asked.seconds, log=asked.log, pid=asked.pid)
    finally:
        host.close()
    return inv


def _question(host: Host) -> str:
    recording = getattr(host, "recording", None)
    return recording.question if recording is not None else "Why is this run slow?"


def _fact(text: str) -> tuple[str, float | int | str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise BadInput(f"--fact {text} is not NAME=VALUE", next_step="for example --fact one_gpu_steps_per_s=6")
    for number in (int, float):
        try:
            return name, number(value)
        except ValueError:
            continue
    return name, value


def _print_progress(event: Progress | Entry) -> None:
    from diag_kit.progress import Progress

    if isinstance(event, Progress) and not event.done:
        print(f"  looking at {event.doing} (up to {event.budget_s:.0f} s)", file=sys.stderr)


def _write(inv: Investigation, out: str) -> Path:
    if out.endswith(".diag.zip"):
        return inv.save(out).path
    if out.endswith(".json"):
        from diag_kit.report import report

        Path(out).write_text(json.dumps(report(inv), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        return Path(out)
    return inv.postmortem(out)


def _observed_anything(inv: Investigation) -> bool:
    seen = [o for o in inv.evidence.observations if o.probe != "told"]
    if any(o.parsed.facts or o.parsed.tables for o in seen):
        return True
    why = next((o.parsed.problems[0] for o in seen if o.parsed.problems), "nothing was there to look at")
    print(f"diag_kit: nothing could be observed: {why}", file=sys.stderr)
    return False


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m diag_kit", description="Why is this training run slow?")
    parser.add_argument("--version", action="version", version=__version__)
    verbs = parser.add_subparsers(title="verbs", required=True, metavar="VERB")

    looking = argparse.ArgumentParser(add_help=False)
    looking.add_argument("target", metavar="TARGET", help="host (alias or user@host[:port]), recording, or folder of files")
    looking.add_argument("--log", help="path of the training log on the host, where it cannot be found")
    looking.add_argument("--pid", type=int, help="one process of the training, where several run")
    looking.add_argument("--seconds", type=_seconds, default=20.0, help="sampling window (default 20)")
    looking.add_argument("--question", default="", help="what you want to know; heads the report")
    looking.add_argument(
        "--fact", action="append", default=[], metavar="NAME=VALUE", help="something you know: one_gpu_steps_per_s=6"
    )

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
    return parser


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError("give a window of 1 to 3600 seconds")
    return seconds
