"""From a resolved host to an authenticated paramiko transport: sockets, proxies, jump hosts, host keys."""

from __future__ import annotations

import logging
import shlex
import socket
import subprocess
import threading
from contextlib import suppress

import paramiko

from diag_kit.errors import DiagError, HostUnreachable
from diag_kit.hosts import known_hosts
from diag_kit.hosts.host_key import check_host_key
from diag_kit.hosts.login import Secret, log_in
from diag_kit.hosts.ssh_config import MAX_JUMPS, HostConfig, expand_tokens, jumps, resolve
from diag_kit.hosts.timeouts import Timeouts

logging.getLogger("paramiko").addHandler(logging.NullHandler())  # its tracebacks must not reach a user's screen

KEEPALIVE_S = 15
USER_TIMEOUT_MS = 45_000
"""Unanswered data for this long ends the connection (Linux): paramiko's own keep-alive does not look for answers."""
WINDOW_BYTES = 2**31 - 1
PACKET_BYTES = 2**18
"""Both together, never the window alone: that costs the host 7 times the CPU (measured on OpenSSH 9.2)."""
_FAST_CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com")


class AlgorithmsNeedOpenSsh(HostUnreachable):
    """No algorithm in common with this transport; the system's ssh may have one."""


class Route:
    """The open way to a host: its transport last, those of jump hosts and proxy processes before."""

    def __init__(self) -> None:
        self.transports: list[paramiko.Transport] = []
        self.processes: list[subprocess.Popen[bytes]] = []

    @property
    def transport(self) -> paramiko.Transport:
        return self.transports[-1]

    @property
    def active(self) -> bool:
        return bool(self.transports) and all(transport.is_active() for transport in self.transports)

    def close(self) -> None:
        for transport in reversed(self.transports):
            with suppress(Exception):
                transport.close()
        for process in self.processes:
            with suppress(OSError):
                process.terminate()
            threading.Thread(target=process.wait, name="diag_kit-reap", daemon=True).start()


def open_route(config: HostConfig, config_file: str | None, timeouts: Timeouts, secret: Secret) -> Route:
    """Connect through all jump hosts, checking each host's key. Raises HostUnreachable, HostKeyRefused, LoginRefused."""
    route = Route()
    try:
        _extend(route, config, config_file, timeouts, secret, depth=0)
    except BaseException:
        route.close()
        raise
    return route


def _extend(route: Route, config: HostConfig, config_file: str | None, timeouts: Timeouts, secret: Secret, depth: int) -> None:
    if depth > MAX_JUMPS:
        raise HostUnreachable(
            "the jump hosts of this configuration lead in a circle",
            where=config.target.text,
            next_step="correct ProxyJump in ~/.ssh/config",
        )
    hops = jumps(config)
    for number, hop in enumerate(hops):
        hop_config = resolve(hop, config_file)
        if number:  # a later hop of a list is reached through the one before, whatever its own entry says
            _step(route, hop_config, timeouts, Secret(None))
        else:
            _extend(route, hop_config, config_file, timeouts, Secret(None), depth + 1)
    _step(route, config, timeouts, secret)


def _step(route: Route, config: HostConfig, timeouts: Timeouts, secret: Secret) -> None:
    if route.transports:
        sock: socket.socket | paramiko.Channel = _through(route.transport, config, timeouts)
    elif config.proxy_command:
        sock = _proxy(route, config)
    else:
        sock = _tcp(config, timeouts.connect_s)
    known = known_hosts.read(config.known_hosts_files)
    transport = _handshake(sock, config, timeouts, known)
    route.transports.append(transport)
    check_host_key(config, transport.get_remote_server_key(), known)
    log_in(transport, config, secret)
    transport.set_keepalive(KEEPALIVE_S)


def _tcp(config: HostConfig, timeout_s: float) -> socket.socket:
    family = {"inet": socket.AF_INET, "inet6": socket.AF_INET6}.get(config.address_family, socket.AF_UNSPEC)
    try:
        addresses = socket.getaddrinfo(config.host, config.port, family, socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise HostUnreachable(
            f'the name "{config.host}" cannot be resolved ({reason})',
            where=config.target.text,
            next_step="check the spelling, the alias in ~/.ssh/config, and that the network or VPN is up",
        ) from None
    reasons = []
    for kind, style, protocol, _, address in addresses:
        sock = socket.socket(kind, style, protocol)
        try:
            sock.settimeout(timeout_s)
            sock.connect(address)
            _tune(sock)
        except OSError as error:
            sock.close()
            reasons.append(f"{address[0]}: {_reason(error, timeout_s)}")
            continue
        return sock
    raise HostUnreachable(
        f"{config.host} does not answer on port {config.port} ({'; '.join(dict.fromkeys(reasons))})",
        where=config.target.text,
        next_step="check that the host is up, that this is the port of its SSH server, and that a firewall lets you through",
    )


def _reason(error: OSError, timeout_s: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {timeout_s:g} s"
    return error.strerror or str(error)


def _tune(sock: socket.socket) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    if option is not None:
        sock.setsockopt(socket.IPPROTO_TCP, option, USER_TIMEOUT_MS)


def _proxy(route: Route, config: HostConfig) -> socket.socket:
    """ProxyCommand on one end of a socket pair: a real socket for paramiko, and no copying in Python."""
    command = expand_tokens(config.proxy_command, config)
    ours, theirs = socket.socketpair()
    try:
        process = subprocess.Popen(
            ["sh", "-c", f"exec {command}"],
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        ours.close()
        raise HostUnreachable(
            f"the ProxyCommand cannot be started: {error.strerror}", where=command, next_step="correct it in ~/.ssh/config"
        ) from None
    finally:
        theirs.close()
    route.processes.append(process)
    return ours


def _through(jump: paramiko.Transport, config: HostConfig, timeouts: Timeouts) -> paramiko.Channel:
    try:
        return jump.open_channel(
            "direct-tcpip",
            (config.host, config.port),
            ("127.0.0.1", 0),
            window_size=WINDOW_BYTES,
            max_packet_size=PACKET_BYTES,
            timeout=timeouts.connect_s,
        )
    except (paramiko.SSHException, EOFError, OSError) as error:
        reason = error.text if isinstance(error, paramiko.ChannelException) else str(error) or type(error).__name__
        raise HostUnreachable(
            f"the jump host could not reach {config.host} port {config.port} ({reason})",
            where=config.target.text,
            next_step="check the name and port as seen from the jump host, and that it allows forwarding (AllowTcpForwarding)",
        ) from None


def _handshake(
    sock: socket.socket | paramiko.Channel,
    config: HostConfig,
    timeouts: Timeouts,
    known: tuple[known_hosts.KnownKey, ...],
) -> paramiko.Transport:
    transport = paramiko.Transport(sock)
    transport.banner_timeout = transport.handshake_timeout = timeouts.banner_s
    transport.auth_timeout = timeouts.auth_s
    transport.channel_timeout = timeouts.channel_s
    _prefer(transport, known_hosts.known_types(config.host, config.port, config.host_key_alias, known))
    problem: Exception | None = None
    try:
        transport.start_client(timeout=2 * timeouts.banner_s + 1)
    except (paramiko.SSHException, EOFError, OSError) as error:
        problem = error
    if problem is None and transport.initial_kex_done:
        return transport
    transport.close()
    raise _no_handshake(config, timeouts, problem)


def _prefer(transport: paramiko.Transport, known_types: tuple[str, ...]) -> None:
    """AES-GCM first (paramiko lists it last), and the host-key types that known_hosts can check first."""
    options = transport.get_security_options()
    ciphers = tuple(options.ciphers)
    options.ciphers = tuple(c for c in _FAST_CIPHERS if c in ciphers) + tuple(c for c in ciphers if c not in _FAST_CIPHERS)
    wanted = [
        name
        for known in known_types
        for name in (("rsa-sha2-512", "rsa-sha2-256") if known == "ssh-rsa" else (known,))
        if name in options.key_types
    ]
    options.key_types = (*wanted, *(name for name in options.key_types if name not in wanted))


def _no_handshake(config: HostConfig, timeouts: Timeouts, problem: Exception | None) -> DiagError:
    if isinstance(problem, paramiko.ssh_exception.IncompatiblePeer):
        return AlgorithmsNeedOpenSsh(
            f"{config.host} and this transport have no algorithm in common ({problem})",
            where=config.target.text,
            next_step='connect(..., transport="openssh") uses the system\'s ssh, which may have one',
        )
    reason = " ".join(str(problem).split()) if problem is not None and str(problem) else type(problem).__name__
    if problem is None or "banner" in reason or "imed out" in reason or "imeout" in reason:
        reason = f"no SSH greeting within {timeouts.banner_s:g} s"
    what = f"something answers on {config.host} port {config.port}, but not as an SSH server ({reason})"
    next_step = "check the port; a host that is out of memory or overloaded does this too"
    if config.proxy_command:
        what = f"the ProxyCommand did not lead to an SSH server ({reason})"
        next_step = f"run it by hand: {shlex.join(['sh', '-c', expand_tokens(config.proxy_command, config)])}"
    return HostUnreachable(what, where=config.target.text, next_step=next_step)
