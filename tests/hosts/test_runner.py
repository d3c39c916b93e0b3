"""The remote side: quoting through every login shell, framing, and the sh loop under different shells."""

from __future__ import annotations

import itertools
import os
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import find_program

from diag_kit.errors import BadInput
from diag_kit.hosts import runner
from diag_kit.hosts.shell import Frame

HOSTILE = (
    "a b",
    "",
    "'",
    '"',
    "it's",
    "; rm -rf /nowhere",
    "$(id)",
    "`id`",
    "!x",
    "!!",
    "\\",
    "\\\\0",
    "a\nb",
    "\t",
    "é日",
    "-n",
    "*",
    "~",
    "%s%n",
    "\x01\x1b[0m\x7f",
    "{a,b}",
    "&",
    "|",
    "#",
)


def run_line(shell: list[str], line: str, asked: runner.Request) -> tuple[bytes, bytes]:
    """What sshd does: the login shell gets the line with -c, the runner gets the request on its input."""
    pipe = subprocess.PIPE
    with subprocess.Popen([*shell, "-c", line], stdin=pipe, stdout=pipe, stderr=pipe) as started:
        assert started.stdin is not None and started.stdout is not None and started.stderr is not None
        started.stdin.write(asked.line)
        started.stdin.flush()
        out = b""
        while not out.endswith(asked.end):
            more = os.read(started.stdout.fileno(), 65536)
            assert more, out + started.stderr.read()
            out += more
        started.stdin.close()
        err = started.stderr.read()
    return out, err


def body(data: bytes, asked: runner.Request) -> bytes:
    frame = Frame(asked.begin, asked.end, 10**6)
    frame.feed(data)
    assert frame.ended
    return bytes(frame.kept)


@pytest.mark.parametrize(
    "shell",
    [
        pytest.param(["sh"], id="sh"),
        pytest.param(["bash"], id="bash", marks=pytest.mark.needs("bash")),
        pytest.param(["zsh"], id="zsh", marks=pytest.mark.needs("zsh")),
        pytest.param(["ksh"], id="ksh", marks=pytest.mark.needs("ksh")),
        pytest.param(["fish"], id="fish", marks=pytest.mark.needs("fish")),
        pytest.param(["csh"], id="csh", marks=pytest.mark.needs("csh")),
        pytest.param(["busybox", "sh"], id="busybox", marks=pytest.mark.needs("busybox")),
    ],
)
def test_one_line_is_read_alike_by_every_login_shell(shell: list[str]) -> None:
    program = find_program(shell[0])
    assert program is not None
    asked = runner.request('printf "%s\\0" "$@"; echo "it\'s !x" >&2', HOSTILE, 10)
    out, err = run_line([program, *shell[1:]], runner.login_line(agent=False), asked)
    assert body(out, asked) == b"".join(part.encode() + b"\0" for part in HOSTILE)
    assert body(err, asked) == b"it's !x\n"


@pytest.mark.parametrize(
    "sh",
    [
        pytest.param("sh", id="sh"),
        pytest.param("bash", marks=pytest.mark.needs("bash")),
        pytest.param("ksh", marks=pytest.mark.needs("ksh")),
        pytest.param("busybox", marks=pytest.mark.needs("busybox")),
    ],
)
@pytest.mark.parametrize("missing", ["", "timeout", "setsid"])
def test_runner_works_whatever_sh_is_and_without_timeout_or_setsid(
    sh: str, missing: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    bins = tmp_path_factory.mktemp("bin")
    for name in ("sleep", "pkill", "nice", "ionice", "timeout", "setsid", "true", "cat"):
        found = find_program(name)
        if found and name != missing:
            (bins / name).symlink_to(found)
    program = find_program(sh)
    assert program is not None
    (bins / "sh").write_text(f"#!{program} {'sh' if sh == 'busybox' else ''}\n")
    (bins / "sh").unlink()
    (bins / "sh").symlink_to(program)  # busybox, bash and ksh all look at the name they are called by

    def one(script: str, timeout_s: float) -> tuple[bytes, bytes]:
        asked = runner.request(script, ("x",), timeout_s)
        line = runner.login_line(agent=False)
        out, err = run_line(["env", f"PATH={bins}", str(bins / "sh")], line, asked)
        trailer = err.partition(asked.end)[2].removesuffix(asked.end)
        return body(out, asked), trailer

    out, trailer = one('echo "$1"; exit 5', 20)
    assert out == b"x\n"
    ended = runner.read_trailer(trailer)
    assert (ended.exit_status, ended.how) == (5, "ended")
    assert ended.cpu_s is None or 0 <= ended.cpu_s < 2
    out, trailer = one("echo begun; sleep 77", 1)
    assert out == b"begun\n"
    ended = runner.read_trailer(trailer)
    assert ended.how == "timeout" if missing == "timeout" else ended.exit_status == 124


def test_marks_never_stand_on_a_command_line() -> None:
    """`ps` on the host shows our own lines too; they must not end the frame they are printed in."""
    asked = runner.request("echo", (), 5)
    assert asked.end not in asked.line and asked.begin.strip() not in asked.line
    assert runner.HELLO.decode() in runner.login_line(agent=False)  # which is why the hello is waited for only once


@pytest.mark.parametrize("timeout_s", [0, -1, float("nan")])
def test_timeout_must_be_positive(timeout_s: float) -> None:
    with pytest.raises(BadInput, match="must be positive"):
        runner.request("true", (), timeout_s)


def test_what_cannot_be_sent_is_refused_before_anything_runs() -> None:
    with pytest.raises(BadInput, match="NUL"):
        runner.request("echo", ("a\0b",), 5)
    with pytest.raises(BadInput, match="120,001 bytes"):
        runner.request("echo", ("x" * 120_001,), 5)


@settings(max_examples=200, deadline=None)
@given(
    payload=st.binary(max_size=300),
    noise=st.binary(max_size=50),
    after=st.binary(max_size=50),
    cuts=st.lists(st.integers(0, 500), max_size=12),
    limit=st.integers(0, 200),
)
def test_frame_cuts_out_the_payload_however_it_arrives(
    payload: bytes, noise: bytes, after: bytes, cuts: list[int], limit: int
) -> None:
    begin, end = b"<<begin-7f3a>>\n", b"<<end-91bc>>"
    data = noise + begin + payload + end + after
    frame = Frame(begin, end, limit)
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    for low, high in itertools.pairwise(edges):
        frame.feed(data[low:high])
    assert frame.ended
    assert bytes(frame.kept) == payload[:limit]
    assert frame.total_bytes == len(payload)
    assert frame.truncated == (len(payload) > limit)
    assert frame.after == after
    assert frame.noise == noise


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_trailer_parser_raises_nothing_but_value_error(data: bytes) -> None:
    try:
        runner.read_trailer(data)
    except ValueError:
        pass


def test_trailer() -> None:
    trailer = runner.read_trailer(b" 3 ended\n0m0.010000s 0m0.020000s\n1m0.500000s 0m0.000000s\n")
    assert (trailer.exit_status, trailer.how) == (3, "ended")
    assert trailer.cpu_s == pytest.approx(60.53)
    assert runner.read_trailer(b" 0 ended\nuser 0.1\n").cpu_s is None
