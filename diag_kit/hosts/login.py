"""Logging in over paramiko: agent and key files in ssh's order, then a password if one was given; and why it failed."""

from __future__ import annotations

import copy
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import paramiko
from paramiko.agent import AgentKey, AgentSSH
from paramiko.pkey import PublicBlob

from diag_kit.errors import DiagError, HostUnreachable, LoginRefused
from diag_kit.hosts.known_hosts import fingerprint
from diag_kit.hosts.ssh_config import HostConfig, expand_tokens

Password = str | Callable[[], str] | None

_PUBLICKEY, _PASSWORD, _INTERACTIVE = "publickey", "password", "keyboard-interactive"
_OTHERS_CAN = ("gssapi-with-mic", "hostbased")


class LoginNeedsOpenSsh(LoginRefused):
    """Refused, and the system's ssh knows ways in that this transport does not (Kerberos, security keys, ...)."""


class Secret:
    """A password that was given, or will be asked for once. Never shows it."""

    def __init__(self, given: Password) -> None:
        self._given = given

    def __repr__(self) -> str:
        return "<Secret>"

    __str__ = __repr__

    def __bool__(self) -> bool:
        return self._given is not None

    def reveal(self) -> str:
        if callable(self._given):
            self._given = self._given()
        return self._given or ""


class _Agent(AgentSSH):
    def __init__(self, path: str) -> None:
        super().__init__()
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(30.0)  # an agent may ask its user
            connection.connect(path)
            self._connect(connection)  # type: ignore[attr-defined]  # the stubs leave it out
        except (OSError, EOFError, paramiko.SSHException):
            connection.close()

    def close(self) -> None:
        self._close()  # type: ignore[attr-defined]


@dataclass(slots=True)
class _Attempt:
    """What has been tried on one host."""

    transport: paramiko.Transport
    config: HostConfig
    secret: Secret
    offers: list[str] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    other_way: bool = False
    agent: _Agent | None = None


def log_in(transport: paramiko.Transport, config: HostConfig, secret: Secret) -> None:
    """Authenticate. Raises LoginRefused with what was tried and what the host offers, HostUnreachable if it breaks."""
    attempt = _Attempt(transport, config, secret)
    let_in = False
    try:
        let_in = _ask_offers(attempt) or _with_keys(attempt) or _with_password(attempt)
    except paramiko.AuthenticationException as error:
        if not transport.is_active() or "imeout" in str(error):
            raise _broke_off(attempt, error) from None
    except (paramiko.SSHException, EOFError, OSError) as error:
        raise _broke_off(attempt, error) from None
    finally:
        if attempt.agent is not None:
            attempt.agent.close()
    if not let_in:
        raise _refused(attempt)


def _ask_offers(attempt: _Attempt) -> bool:
    """The host names its methods in answer to "none"; a few hosts (network-level login) let that in."""
    try:
        attempt.transport.auth_none(attempt.config.user)
    except paramiko.BadAuthenticationType as answer:
        attempt.offers = list(answer.allowed_types)
        attempt.other_way = any(method in attempt.offers for method in _OTHERS_CAN)
        return False
    return attempt.transport.is_authenticated()


def _with_keys(attempt: _Attempt) -> bool:
    if _PUBLICKEY not in attempt.offers:
        return False
    for label, key in _keys(attempt):
        attempt.tried.append(label)
        try:
            more = attempt.transport.auth_publickey(attempt.config.user, key)
        except paramiko.BadAuthenticationType as answer:
            attempt.offers = list(answer.allowed_types)
            continue
        except paramiko.AuthenticationException as error:
            if not attempt.transport.is_active() or "imeout" in str(error):
                raise
            continue
        except paramiko.SSHException as error:
            if not attempt.transport.is_active():
                raise
            attempt.notes.append(f"{label} could not sign: {error}")
            continue
        if attempt.transport.is_authenticated():
            return True
        attempt.offers = list(more)  # the key was right, and the host wants a second proof
        attempt.notes.append("the key was accepted; the host asks for a second proof")
        return False
    return False


def _with_password(attempt: _Attempt) -> bool:
    methods = [method for method in (_PASSWORD, _INTERACTIVE) if method in attempt.offers]
    if not methods or not attempt.secret:
        return False
    password = attempt.secret.reveal()
    for method in methods:
        attempt.tried.append(method)
        try:
            if method == _PASSWORD:
                attempt.transport.auth_password(attempt.config.user, password, fallback=False)
            else:
                attempt.transport.auth_interactive(attempt.config.user, _answer_with(password))
        except paramiko.AuthenticationException as error:
            if not attempt.transport.is_active() or "imeout" in str(error):
                raise
        if attempt.transport.is_authenticated():
            return True
    return False


def _answer_with(password: str) -> Callable[[str, str, list[tuple[str, bool]]], list[str]]:
    """Answers hidden prompts that ask for a password; a one-time code or anything shown on screen is not ours to answer."""

    def answer(title: str, instructions: str, prompts: list[tuple[str, bool]]) -> list[str]:
        return [password if not shown and "assword" in prompt else "" for prompt, shown in prompts]

    return answer


def _keys(attempt: _Attempt) -> Iterator[tuple[str, paramiko.PKey]]:
    """Agent keys that are configured, then key files, then the agent's other keys unless IdentitiesOnly: the likely ones
    first, since a host ends the login after a few (MaxAuthTries, 6)."""
    attempt.agent = _open_agent(attempt.config)
    agent_keys = attempt.agent.get_keys() if attempt.agent is not None else ()
    wanted = {blob for name in attempt.config.identity_files if (blob := _public_blob(name)) is not None}
    offered: set[bytes] = set()
    for key in agent_keys:
        if key.asbytes() in wanted:
            offered.add(key.asbytes())
            yield _label("agent key", key), key
    for name in attempt.config.identity_files:
        for loaded in _load(name, attempt, offered):
            offered.add(loaded.asbytes())
            yield _label(name, loaded), loaded
    for key in agent_keys:
        if key.asbytes() not in offered and not attempt.config.identities_only:
            yield _label("agent key", key), key


def _label(source: str, key: paramiko.PKey) -> str:
    comment = getattr(key, "comment", "") if isinstance(key, AgentKey) else ""
    return f"{source}{f' {comment}' if comment else ''} ({key.get_name()} {fingerprint(key.asbytes())})"


def _open_agent(config: HostConfig) -> _Agent | None:
    path = config.identity_agent
    if path.lower() == "none":
        return None
    if not path or path == "SSH_AUTH_SOCK":
        path = os.environ.get("SSH_AUTH_SOCK", "")
    elif path.startswith("$"):
        path = os.environ.get(path.strip("${}"), "")
    if not path or not hasattr(socket, "AF_UNIX"):
        return None
    return _Agent(str(Path(expand_tokens(path, config)).expanduser()))


def _public_blob(name: str) -> bytes | None:
    """The public half of a key file, from NAME.pub or NAME itself, without opening the private one."""
    for path in (Path(name + ".pub"), Path(name)):
        try:
            words = path.read_text("utf-8", "replace").split()
            if len(words) >= 2 and words[0].startswith(("ssh-", "ecdsa-", "sk-")):
                return bytes(PublicBlob.from_string(" ".join(words[:2])).key_blob)
        except (OSError, ValueError):
            continue
    return None


def _load(name: str, attempt: _Attempt, offered: set[bytes]) -> Iterator[paramiko.PKey]:
    if not Path(name).is_file():
        return
    blob = _public_blob(name)
    if blob is not None and blob in offered:
        return
    try:
        key = paramiko.PKey.from_path(name)
    except (paramiko.PasswordRequiredException, TypeError):
        attempt.notes.append(f"the key {name} is protected by a passphrase and is not in an ssh-agent: run ssh-add {name}")
        return
    except OSError as error:
        attempt.notes.append(f"the key {name} cannot be read: {error.strerror}")
        return
    except Exception as error:
        if blob is None or name.endswith(".pub"):
            return  # a public key that selects an agent's key, or no key at all
        attempt.other_way = True
        attempt.notes.append(f"the key {name} is of a kind that this transport cannot use ({type(error).__name__})")
        return
    yield key
    if key.public_blob is not None:  # it went out as a certificate; the bare key may be listed too
        bare = copy.copy(key)
        bare.public_blob = None
        yield bare


def _refused(attempt: _Attempt) -> DiagError:
    tried = ", ".join(attempt.tried) or "nothing: no usable key was found"
    offers = ", ".join(attempt.offers) or "nothing that it names"
    what = f"{attempt.config.shown} refused the login: tried {tried}; the host offers {offers}"
    if attempt.notes:
        what += "; " + "; ".join(attempt.notes)
    kind = LoginNeedsOpenSsh if attempt.other_way else LoginRefused
    return kind(what, where=attempt.config.target.text, next_step=_next_step(attempt))


def _next_step(attempt: _Attempt) -> str:
    if any("ssh-add" in note for note in attempt.notes):
        return "add the key to an agent (ssh-add), then connect again"
    takes_password = _PASSWORD in attempt.offers or _INTERACTIVE in attempt.offers
    if takes_password and attempt.secret:
        return f"check the password and the user name ({attempt.config.user})"
    if takes_password:
        return "install a key there (ssh-copy-id), or connect(..., password=getpass.getpass) to be asked for the password"
    if attempt.other_way:
        return 'connect(..., transport="openssh") uses the system\'s ssh, which can use Kerberos and security keys'
    return (
        f"check the user name ({attempt.config.user}) and which key the host knows; the same by hand: "
        f"ssh -v {attempt.config.target.text}"
    )


def _broke_off(attempt: _Attempt, error: Exception) -> DiagError:
    if len(attempt.tried) >= 3:
        return LoginRefused(
            f"{attempt.config.shown} ended the login after {len(attempt.tried)} keys (its limit is MaxAuthTries): tried "
            + ", ".join(attempt.tried),
            where=attempt.config.target.text,
            next_step="name the right key for this host in ~/.ssh/config: IdentityFile ..., IdentitiesOnly yes",
        )
    reason = " ".join(str(error).split()) or type(error).__name__
    return HostUnreachable(
        f"{attempt.config.shown} broke off during the login ({reason})",
        where=attempt.config.target.text,
        next_step=f"try it by hand: ssh -v {attempt.config.target.text}",
    )
