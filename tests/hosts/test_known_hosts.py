"""known_hosts, against what OpenSSH's own tools write and say."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from real_sshd import make_key

from diag_kit.hosts.known_hosts import Match, check, fingerprint, known_name, known_types, parse, read

A, B = b"blob-a", b"blob-b"
A64, B64 = base64.b64encode(A).decode(), base64.b64encode(B).decode()


def match(text: str, host: str = "box", port: int = 22, alias: str = "", kind: str = "ssh-ed25519", blob: bytes = A) -> Match:
    return check(host, port, alias, kind, blob, parse(text)).match


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Match.UNKNOWN),
        (f"# box ssh-ed25519 {A64}", Match.UNKNOWN),
        (f"box ssh-ed25519 {A64}", Match.KNOWN),
        (f"BOX ssh-ed25519 {A64} a comment", Match.KNOWN),
        (f"other,box ssh-ed25519 {A64}", Match.KNOWN),
        (f"b?x ssh-ed25519 {A64}", Match.KNOWN),
        (f"*,!box ssh-ed25519 {A64}", Match.UNKNOWN),
        (f"!box,* ssh-ed25519 {A64}", Match.UNKNOWN),
        (f"[box]:2222 ssh-ed25519 {A64}", Match.UNKNOWN),
        (f"box ssh-ed25519 {B64}", Match.CHANGED),
        (f"box ssh-rsa {B64}", Match.CHANGED),
        (f"box ssh-ed25519 {B64}\nbox ssh-ed25519 {A64}", Match.KNOWN),
        (f"@revoked box ssh-ed25519 {A64}\nbox ssh-ed25519 {A64}", Match.REVOKED),
        (f"@revoked * ssh-ed25519 {A64}\nbox ssh-ed25519 {A64}", Match.REVOKED),
        (f"@revoked box ssh-ed25519 {B64}\nbox ssh-ed25519 {A64}", Match.KNOWN),
        (f"@cert-authority box ssh-ed25519 {A64}", Match.AUTHORITY),
        (f"@cert-authority *.org ssh-ed25519 {A64}", Match.UNKNOWN),
        (f"@cert-authority box ssh-ed25519 {B64}\nbox ssh-ed25519 {A64}", Match.KNOWN),
        ("box ssh-ed25519 not/base64!", Match.UNKNOWN),
        ("|1|broken ssh-ed25519 " + A64, Match.UNKNOWN),
    ],
)
def test_lines(text: str, expected: Match) -> None:
    assert match(text) is expected


def test_other_ports_and_aliases() -> None:
    assert known_name("Box", 22) == "box"
    assert known_name("box", 2222) == "[box]:2222"
    assert known_name("box", 2222, "cluster") == "cluster"
    assert match(f"[box]:2222 ssh-ed25519 {A64}", port=2222) is Match.KNOWN
    assert match(f"[box]:* ssh-ed25519 {A64}", port=2222) is Match.KNOWN
    assert match(f"box ssh-ed25519 {A64}", port=2222) is Match.KNOWN  # the bare name consents ...
    assert match(f"box ssh-ed25519 {B64}", port=2222) is Match.UNKNOWN  # ... and does not contradict
    assert match(f"cluster ssh-ed25519 {A64}", port=2222, alias="cluster") is Match.KNOWN
    assert match(f"[box]:2222 ssh-ed25519 {A64}", port=2222, alias="cluster") is Match.UNKNOWN


def test_types_on_file_are_asked_for() -> None:
    known = parse(f"box ssh-rsa {A64}\nbox ecdsa-sha2-nistp256 {B64}\n@revoked box ssh-ed25519 {A64}\nother ssh-ed25519 {A64}")
    assert known_types("box", 22, "", known) == ("ssh-rsa", "ecdsa-sha2-nistp256")
    assert known_types("box", 2222, "", known) == ("ssh-rsa", "ecdsa-sha2-nistp256")


@pytest.mark.needs("ssh")
def test_hashed_names_and_fingerprints_as_ssh_keygen_makes_them(tmp_path: Path) -> None:
    key = make_key(tmp_path / "key")
    kind, encoded = Path(f"{key}.pub").read_text().split()[:2]
    file = tmp_path / "known_hosts"
    file.write_text(f"gpu-1.example ssh-ed25519 {encoded}\n[gpu-1.example]:2222 ssh-ed25519 {encoded}\n")
    subprocess.run(["ssh-keygen", "-H", "-f", str(file)], check=True, capture_output=True)
    assert "gpu-1" not in file.read_text()
    known = read([file, tmp_path / "missing"])
    blob = base64.b64decode(encoded)
    assert check("gpu-1.example", 22, "", kind, blob, known).match is Match.KNOWN
    assert check("gpu-1.example", 2222, "", kind, blob, known).match is Match.KNOWN
    assert check("gpu-2.example", 22, "", kind, blob, known).match is Match.UNKNOWN
    shown = subprocess.run(["ssh-keygen", "-l", "-f", f"{key}.pub"], check=True, capture_output=True, text=True).stdout
    assert fingerprint(blob) in shown


@given(st.text(max_size=300))
def test_parser_never_raises(text: str) -> None:
    for entry in parse(text):
        assert entry.blob is not None
    check("box", 22, "", "ssh-ed25519", A, parse(text))
