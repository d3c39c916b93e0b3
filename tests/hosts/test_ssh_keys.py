"""Host keys and logins against a real sshd: what is refused, in which words, and what gets in."""

from __future__ import annotations

import base64
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from real_sshd import PASSWORD, Sshd, make_key

from diag_kit.errors import BadInput, HostKeyRefused, HostUnreachable, LoginRefused
from diag_kit.hosts.connection import connect
from diag_kit.hosts.known_hosts import fingerprint

pytestmark = [pytest.mark.needs("sshd"), pytest.mark.needs("ssh")]

BOTH = pytest.mark.parametrize("transport", ["paramiko", "openssh"])
Variant = Callable[..., Sshd]


def shown_fingerprint(sshd: Sshd, kind: str = "ed25519") -> str:
    return fingerprint(base64.b64decode(Path(f"{sshd.host_key(kind)}.pub").read_text().split()[1]))


def test_an_unknown_key_is_refused_with_the_way_to_accept_it(sshd: Sshd, tmp_path: Path) -> None:
    known = tmp_path / "known hosts"
    alias = sshd.add_host("unknown", UserKnownHostsFile=f'"{known}"')
    with pytest.raises(HostKeyRefused) as refused:
        connect(alias, config=sshd.config)
    said = str(refused.value)
    assert f"[127.0.0.1]:{sshd.port}" in said and "not known yet" in said
    assert shown_fingerprint(sshd) in said
    assert not known.exists(), "nothing may be accepted silently"
    command = re.search(r"ssh-keyscan .*", said)
    assert command is not None
    subprocess.run(["sh", "-c", command[0]], check=True, capture_output=True)
    with connect(alias, config=sshd.config) as host:
        assert host.run("echo in").text == "in\n"


def test_an_unknown_key_under_an_alias(sshd: Sshd, tmp_path: Path) -> None:
    known = tmp_path / "known"
    alias = sshd.add_host("aliased", UserKnownHostsFile=str(known), HostKeyAlias="the-cluster")
    with pytest.raises(HostKeyRefused) as refused:
        connect(alias, config=sshd.config)
    command = re.search(r"ssh-keyscan .*", str(refused.value))
    assert command is not None
    subprocess.run(["sh", "-c", command[0]], check=True, capture_output=True)
    assert known.read_text().startswith("the-cluster ")
    connect(alias, config=sshd.config).close()


def test_an_unknown_key_with_the_system_ssh(sshd: Sshd, tmp_path: Path) -> None:
    alias = sshd.add_host("unknown2", UserKnownHostsFile=str(tmp_path / "known"), StrictHostKeyChecking="no")
    with pytest.raises(HostKeyRefused, match="not known yet"):  # even though the configuration would accept it
        connect(alias, config=sshd.config, transport="openssh")
    assert not (tmp_path / "known").exists()


@BOTH
def test_a_changed_key_is_called_that(sshd: Sshd, tmp_path: Path, transport: str) -> None:
    other = Path(f"{make_key(tmp_path / 'other')}.pub").read_text().split()
    known = tmp_path / "known"
    known.write_text(f"[127.0.0.1]:{sshd.port} {other[0]} {other[1]}\n")
    alias = sshd.add_host(f"changed-{transport}", UserKnownHostsFile=str(known))
    with pytest.raises(HostKeyRefused) as refused:
        connect(alias, config=sshd.config, transport=transport)  # type: ignore[arg-type]
    said = str(refused.value)
    assert "HAS CHANGED" in said and "attack" in said and "ssh-keygen" in said and "-R" in said
    assert shown_fingerprint(sshd) in said
    if transport == "paramiko":
        assert fingerprint(base64.b64decode(other[1])) in said
        assert f"{known} line 1" in said


@BOTH
def test_a_revoked_key(sshd: Sshd, tmp_path: Path, transport: str) -> None:
    known = tmp_path / "known"
    line = sshd.known_hosts.read_text()
    known.write_text(f"{line}@revoked * {' '.join(line.split()[1:3])}\n")
    alias = sshd.add_host(f"revoked-{transport}", UserKnownHostsFile=str(known))
    with pytest.raises(HostKeyRefused, match="revoked"):
        connect(alias, config=sshd.config, transport=transport)  # type: ignore[arg-type]


@BOTH
def test_hashed_known_hosts(sshd: Sshd, tmp_path: Path, transport: str) -> None:
    known = tmp_path / "known"
    known.write_text(sshd.known_hosts.read_text())
    subprocess.run(["ssh-keygen", "-H", "-f", str(known)], check=True, capture_output=True)
    assert "127.0.0.1" not in known.read_text()
    alias = sshd.add_host(f"hashed-{transport}", UserKnownHostsFile=f"{tmp_path}/none {known}")
    connect(alias, config=sshd.config, transport=transport).close()  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["rsa", "ecdsa", "ed25519"])
def test_the_key_type_on_file_is_asked_for(sshd_variant: Variant, kind: str) -> None:
    sshd = sshd_variant(key_kinds=("ed25519", "ecdsa", "rsa"))
    lines = [line for line in sshd.known_hosts.read_text().splitlines() if kind in line.split()[1]]
    assert len(lines) == 1
    sshd.known_hosts.write_text(lines[0] + "\n")
    connect("trainbox", config=sshd.config, transport="paramiko").close()


def test_a_host_certificate_needs_the_system_ssh_and_auto_takes_it(sshd_variant: Variant, tmp_path: Path) -> None:
    authority = make_key(tmp_path / "ca")
    folder = tmp_path / "sshd0"
    folder.mkdir()
    make_key(folder / "host_ed25519")
    sign = ["ssh-keygen", "-s", str(authority), "-I", "box", "-h", "-n", "127.0.0.1", f"{folder}/host_ed25519.pub"]
    subprocess.run(sign, check=True, capture_output=True)
    sshd = sshd_variant(options={"HostCertificate": f"{folder}/host_ed25519-cert.pub"})
    public = " ".join(Path(f"{authority}.pub").read_text().split()[:2])
    sshd.known_hosts.write_text(f"@cert-authority [127.0.0.1]:{sshd.port} {public}\n")
    with pytest.raises(HostKeyRefused, match='transport="openssh"'):
        connect("trainbox", config=sshd.config, transport="paramiko")
    with connect("trainbox", config=sshd.config) as host:
        assert host.kind == "openssh"
        assert host.run("echo in").text == "in\n"


def test_right_and_wrong_password(sshd_variant: Variant) -> None:
    sshd = sshd_variant(password_login=True)
    alias = sshd.add_host("bypassword", IdentityFile="none")
    asked: list[str] = []

    def ask() -> str:
        asked.append("asked")
        return PASSWORD

    with connect(alias, config=sshd.config, password=ask) as host:
        assert host.run("echo in").text == "in\n"
        sshd.break_connections()
        assert host.run("echo again").text == "again\n"
        assert asked == ["asked"], "a reconnection must not ask again"
        assert PASSWORD not in repr(vars(host)) + repr(host)
    with pytest.raises(LoginRefused) as refused:
        connect(alias, config=sshd.config, password="wrong horse")
    said = str(refused.value)
    assert "tried password" in said and "offers publickey, password" in said
    assert "check the password" in said and "wrong horse" not in said
    with pytest.raises(LoginRefused, match=r"getpass\.getpass"):
        connect(alias, config=sshd.config)
    with pytest.raises(BadInput, match="takes no password"):
        connect(alias, config=sshd.config, password=PASSWORD, transport="openssh")


@BOTH
def test_no_usable_key(sshd: Sshd, tmp_path: Path, transport: str) -> None:
    alias = sshd.add_host(f"nokey-{transport}", IdentityFile=str(make_key(tmp_path / "stranger")))
    with pytest.raises(LoginRefused) as refused:
        connect(alias, config=sshd.config, transport=transport)  # type: ignore[arg-type]
    said = str(refused.value)
    assert "publickey" in said and "ssh -v" in said
    if transport == "paramiko":
        assert f"tried {tmp_path}/stranger (ssh-ed25519 SHA256:" in said


def test_key_files_that_are_missing(sshd: Sshd, tmp_path: Path) -> None:
    alias = sshd.add_host("missingkey", IdentityFile=str(tmp_path / "none"))
    with pytest.raises(LoginRefused, match="tried nothing: no usable key was found; the host offers publickey"):
        connect(alias, config=sshd.config)


def test_a_key_with_a_passphrase(sshd: Sshd, tmp_path: Path) -> None:
    key = make_key(tmp_path / "locked", passphrase="secret words")
    alias = sshd.add_host("locked", IdentityFile=str(key))
    with pytest.raises(LoginRefused) as refused:
        connect(alias, config=sshd.config)
    assert f"ssh-add {key}" in str(refused.value)


@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
def test_other_kinds_of_user_key(sshd_variant: Variant, tmp_path: Path, kind: str) -> None:
    sshd = sshd_variant()
    key = make_key(tmp_path / kind, kind)
    with (sshd.folder / "authorized_keys").open("a") as file:
        file.write(Path(f"{key}.pub").read_text())
    connect(sshd.add_host("other", IdentityFile=str(key)), config=sshd.config, transport="paramiko").close()


def test_a_user_certificate(sshd_variant: Variant, tmp_path: Path) -> None:
    authority = make_key(tmp_path / "ca")
    sshd = sshd_variant(options={"TrustedUserCAKeys": f"{authority}.pub"})
    key = make_key(tmp_path / "key")
    subprocess.run(
        ["ssh-keygen", "-s", str(authority), "-I", "me", "-n", sshd.user, f"{key}.pub"], check=True, capture_output=True
    )
    connect(sshd.add_host("cert", IdentityFile=str(key)), config=sshd.config, transport="paramiko").close()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Path]:
    socket = tmp_path / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
    while not socket.exists():
        assert process.poll() is None
    yield socket
    process.kill()
    process.wait()


def add_to_agent(agent: Path, *keys: Path) -> None:
    for key in keys:
        environment = {**os.environ, "SSH_AUTH_SOCK": str(agent)}
        subprocess.run(["ssh-add", "-q", str(key)], check=True, env=environment, capture_output=True)


def test_keys_of_an_agent(sshd: Sshd, agent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    strangers = [make_key(tmp_path / f"stranger{n}") for n in range(8)]
    add_to_agent(agent, *strangers, sshd.user_key)
    only_public = tmp_path / "selector.pub"
    only_public.write_text(Path(f"{sshd.user_key}.pub").read_text())

    selected = sshd.add_host("agent1", IdentityAgent=str(agent), IdentityFile=str(only_public))
    connect(selected, config=sshd.config, transport="paramiko").close()

    monkeypatch.setenv("SSH_AUTH_SOCK", str(agent))
    by_environment = sshd.add_host("agent2", IdentityAgent="", IdentityFile=str(only_public))
    connect(by_environment, config=sshd.config, transport="paramiko").close()

    all_of_them = sshd.add_host("agent3", IdentityAgent="", IdentityFile="none", IdentitiesOnly="no")
    with pytest.raises(LoginRefused, match=r"ended the login after \d keys.*MaxAuthTries") as refused:
        connect(all_of_them, config=sshd.config, transport="paramiko")
    assert "IdentitiesOnly yes" in str(refused.value)
    with pytest.raises(LoginRefused, match="IdentitiesOnly yes"):
        connect(all_of_them, config=sshd.config, transport="openssh")

    without = sshd.add_host("agent4", IdentityAgent="none", IdentityFile="none")
    with pytest.raises(LoginRefused, match="tried nothing"):
        connect(without, config=sshd.config, transport="paramiko")


@BOTH
def test_key_and_host_errors_are_connection_errors_without_tracebacks(sshd: Sshd, transport: str) -> None:
    alias = sshd.add_host(f"refused-{transport}", Port="1")
    with pytest.raises(HostUnreachable) as refused:
        connect(alias, config=sshd.config, transport=transport)  # type: ignore[arg-type]
    assert isinstance(refused.value, ConnectionError)
    assert len(refused.value._render_traceback_()) <= 6
