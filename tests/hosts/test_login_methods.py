"""Ways to log in that a test sshd without PAM cannot offer, or only as root: against paramiko's own server side."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import paramiko
import pytest
from real_sshd import PASSWORD, Sshd

from diag_kit.errors import LoginRefused
from diag_kit.hosts.connection import connect
from diag_kit.hosts.login import Secret
from diag_kit.hosts.ssh_config import HostConfig, parse_target
from diag_kit.hosts.timeouts import Timeouts
from diag_kit.hosts.transport import open_route


class Gate(paramiko.ServerInterface):
    """Lets in by the given methods only; ``prompts`` is what keyboard-interactive asks, with whether the answer is shown."""

    def __init__(self, methods: str, prompts: tuple[tuple[str, bool], ...]) -> None:
        self.methods, self.prompts = methods, prompts
        self.answers: list[str] = []

    def get_allowed_auths(self, username: str) -> str:
        return self.methods

    def check_auth_password(self, username: str, password: str) -> int:
        right = "password" in self.methods.split(",") and password == PASSWORD
        return paramiko.AUTH_SUCCESSFUL if right else paramiko.AUTH_FAILED

    def check_auth_interactive(self, username: str, submethods: str) -> int | paramiko.InteractiveQuery:
        if "keyboard-interactive" not in self.methods:
            return paramiko.AUTH_FAILED
        return paramiko.InteractiveQuery("", "", *self.prompts)

    def check_auth_interactive_response(self, responses: list[str]) -> int:
        self.answers = list(responses)
        return paramiko.AUTH_SUCCESSFUL if responses == [PASSWORD] else paramiko.AUTH_FAILED


Serve = Callable[..., tuple[HostConfig, Gate]]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Start a server with one host key that known_hosts holds; give the way to it and its gate."""
    open_now: list[socket.socket | paramiko.Transport] = []

    def start(methods: str, prompts: tuple[tuple[str, bool], ...] = (("Password: ", False),)) -> tuple[HostConfig, Gate]:
        key = paramiko.ECDSAKey.generate()
        listener = socket.create_server(("127.0.0.1", 0))
        open_now.append(listener)
        port = listener.getsockname()[1]
        gate = Gate(methods, prompts)

        def accept() -> None:
            connection, _ = listener.accept()
            transport = paramiko.Transport(connection)
            open_now.append(transport)
            transport.add_server_key(key)
            transport.start_server(server=gate)

        threading.Thread(target=accept, daemon=True).start()
        known = tmp_path / f"known_{port}"
        known.write_text(f"[127.0.0.1]:{port} {key.get_name()} {key.get_base64()}\n")
        target = parse_target(f"me@127.0.0.1:{port}")
        return HostConfig(target, "127.0.0.1", port, "me", identity_agent="none", known_hosts_files=(str(known),)), gate

    yield start
    for opened in open_now:
        opened.close()


@pytest.mark.parametrize("methods", ["password", "keyboard-interactive", "publickey,keyboard-interactive,password"])
def test_password_by_either_method(serve: Serve, methods: str) -> None:
    config, _ = serve(methods)
    route = open_route(config, None, Timeouts(), Secret(PASSWORD))
    assert route.transport.is_authenticated()
    route.close()


@pytest.mark.parametrize("methods", ["password", "keyboard-interactive"])
def test_wrong_password_by_either_method(serve: Serve, methods: str) -> None:
    config, _ = serve(methods)
    with pytest.raises(LoginRefused, match=f"tried {methods}; the host offers {methods}") as refused:
        open_route(config, None, Timeouts(), Secret("wrong horse"))
    assert "wrong horse" not in str(refused.value)


def test_no_password_given(serve: Serve) -> None:
    config, _ = serve("keyboard-interactive")
    with pytest.raises(LoginRefused, match=r"getpass\.getpass"):
        open_route(config, None, Timeouts(), Secret(None))


def test_the_password_is_not_given_to_other_questions(serve: Serve) -> None:
    config, gate = serve("keyboard-interactive", (("One-time code: ", False), ("Password hint: ", True)))
    with pytest.raises(LoginRefused):
        open_route(config, None, Timeouts(), Secret(PASSWORD))
    assert gate.answers == ["", ""]


def test_kerberos_only_points_to_the_system_ssh(serve: Serve) -> None:
    config, _ = serve("gssapi-with-mic")
    with pytest.raises(LoginRefused, match='transport="openssh"'):
        open_route(config, None, Timeouts(), Secret(None))


@pytest.mark.needs("sshd")
def test_key_and_password_both_asked_for(sshd_variant: Callable[..., Sshd]) -> None:
    sshd = sshd_variant(password_login=True, options={"AuthenticationMethods": "publickey,password"})
    with connect("trainbox", config=sshd.config, password=PASSWORD) as host:
        assert host.run("echo in").text == "in\n"
    with pytest.raises(LoginRefused, match="asks for a second proof"):
        connect("trainbox", config=sshd.config)


def test_a_secret_never_shows() -> None:
    secret = Secret(PASSWORD)
    assert PASSWORD not in f"{secret!r} {secret} {[secret]}"
