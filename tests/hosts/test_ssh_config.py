"""Targets and ssh configuration: `ssh -G` and our own reading must agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from diag_kit.errors import BadInput
from diag_kit.hosts.ssh_config import HostConfig, expand_tokens, jumps, parse_target, resolve

BOTH = pytest.mark.parametrize(
    "use_ssh", [pytest.param(True, marks=pytest.mark.needs("ssh"), id="ssh-G"), pytest.param(False, id="own")]
)


@pytest.mark.parametrize(
    ("text", "host", "user", "port"),
    [
        ("trainbox", "trainbox", "", None),
        ("me@gpu-1.example.org", "gpu-1.example.org", "me", None),
        ("me@gpu:2222", "gpu", "me", 2222),
        ("gpu:22", "gpu", "", 22),
        ("[::1]:2222", "::1", "", 2222),
        ("me@[fe80::1%eth0]", "fe80::1%eth0", "me", None),
        ("::1", "::1", "", None),
        ("me@mail.org@gpu", "gpu", "me@mail.org", None),
        ("CORP\\me@gpu", "gpu", "CORP\\me", None),
        ("ssh://me@gpu:2222/", "gpu", "me", 2222),
        (" trainbox ", "trainbox", "", None),
    ],
)
def test_targets(text: str, host: str, user: str, port: int | None) -> None:
    target = parse_target(text)
    assert (target.host, target.user, target.port) == (host, user, port)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "@",
        "me@",
        "-oProxyCommand=reboot",
        "me@-oProxyCommand=x",
        "-l@gpu",
        "a b",
        "gpu;id",
        "$(id)@gpu",
        "gpu:0",
        "gpu:99999",
        "gpu:x",
        "[::1",
        "gpu\nx",
        "me@gpu`id`",
        "a'b@gpu",
        "@gpu",
    ],
)
def test_what_is_no_target_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="not a host to connect to"):
        parse_target(text)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "more.d").mkdir()
    (tmp_path / "more.d" / "a.conf").write_text("Host gpu1\n  HostName 10.0.0.1\n  Port 2201\nHost gpu2\n  HostName 10.0.0.2\n")
    (tmp_path / "inner.conf").write_text("IdentityFile ~/inner_key\n")
    main = tmp_path / "config"
    main.write_text(
        f"""Include {tmp_path}/more.d/*.conf
Host gpu*
  User trainer
  IdentityFile ~/keys/%h_key
  Include {tmp_path}/inner.conf
  UserKnownHostsFile {tmp_path}/known_a {tmp_path}/known_b
  ProxyJump jump1,admin@jump2:2022
Host other
  Include {tmp_path}/nothing*.conf
  HostKeyAlias cluster
  IdentitiesOnly yes
  ProxyCommand nc %h %p
Host jump1
  HostName jump.example.org
Match host deep.example.org
  Port 2299
Host *
  ServerAliveInterval 30
"""
    )
    return main


@BOTH
def test_includes_and_lists(config: Path, use_ssh: bool) -> None:
    found = resolve(parse_target("gpu1"), config, use_ssh=use_ssh)
    home = str(Path("~").expanduser())
    assert (found.host, found.port, found.user) == ("10.0.0.1", 2201, "trainer")
    assert found.identity_files[:2] == (f"{home}/keys/10.0.0.1_key", f"{home}/inner_key")
    assert found.known_hosts_files[:2] == (f"{config.parent}/known_a", f"{config.parent}/known_b")
    assert not found.identities_only
    assert [(hop.host, hop.user, hop.port) for hop in jumps(found)] == [("jump1", "", None), ("jump2", "admin", 2022)]


@BOTH
def test_after_an_include_the_block_goes_on_and_others_stay_apart(config: Path, use_ssh: bool) -> None:
    found = resolve(parse_target("gpu2"), config, use_ssh=use_ssh)
    assert (found.host, found.port, found.user) == ("10.0.0.2", 22, "trainer")
    other = resolve(parse_target("other"), config, use_ssh=use_ssh)
    assert (other.host, other.host_key_alias, other.identities_only) == ("other", "cluster", True)
    assert other.proxy_jump == ""
    assert expand_tokens(other.proxy_command, other) == "nc other 22"
    assert not any("inner" in name for name in other.identity_files)
    assert resolve(parse_target("jump1"), config, use_ssh=use_ssh).host == "jump.example.org"
    assert resolve(parse_target("deep.example.org"), config, use_ssh=use_ssh).port == 2299


@BOTH
def test_what_the_user_typed_wins(config: Path, use_ssh: bool) -> None:
    found = resolve(parse_target("boss@gpu1:99"), config, use_ssh=use_ssh)
    assert (found.host, found.port, found.user) == ("10.0.0.1", 99, "boss")
    assert found.shown == "boss@10.0.0.1:99"
    other = resolve(parse_target("other:99"), config, use_ssh=use_ssh)
    assert expand_tokens(other.proxy_command, other) == "nc other 99"


def test_own_reading_refuses_a_loop_of_includes(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(f"Include {config}\n")
    with pytest.raises(BadInput, match="include each other"):
        resolve(parse_target("x"), config, use_ssh=False)


@pytest.mark.needs("ssh")
def test_a_bad_line_is_named(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host x\n  Prot 22\n")
    with pytest.raises(BadInput, match="line 2: Bad configuration option: prot"):
        resolve(parse_target("x"), config)


def test_missing_config_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match="does not exist"):
        resolve(parse_target("x"), tmp_path / "nowhere")
    config = tmp_path / "config"
    config.write_text("Host x\n  Port 2200\n")
    monkeypatch.setenv("DIAG_KIT_SSH_CONFIG", str(config))
    assert resolve(parse_target("x")).port == 2200


def test_a_host_name_from_the_configuration_is_not_trusted_either(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host x\n  HostName a;b\n")
    with pytest.raises(BadInput, match="not a host name"):
        resolve(parse_target("x"), config, use_ssh=False)


def test_tokens() -> None:
    config = HostConfig(parse_target("gpu"), host="10.0.0.1", port=2222, user="me")
    assert expand_tokens("nc -x %n %h:%p %r 100%% %C", config) == "nc -x gpu 10.0.0.1:2222 me 100% %C"
