"""Put on PYTHONPATH by the tests of notebooks: in that process and its Python children the network ends at this machine.

A name or address outside is refused at once, and the attempt is written to the file named by OFFLINE_ATTEMPTS, so that a test
can tell "needs no network" from "hides that it tried".
"""

from __future__ import annotations

import ipaddress
import os
import socket
from typing import Any

_LOCAL_NAMES = {"localhost", "localhost.localdomain", "ip6-localhost", ""}
_connect, _connect_ex, _sendto = socket.socket.connect, socket.socket.connect_ex, socket.socket.sendto
_getaddrinfo = socket.getaddrinfo


def _is_local(host: object) -> bool:
    if host is None:
        return True
    name = host.decode() if isinstance(host, bytes) else str(host)
    if name.lower() in _LOCAL_NAMES or name == socket.gethostname():
        return True
    try:
        address = ipaddress.ip_address(name.split("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def _refuse(host: object) -> OSError:
    path = os.environ.get("OFFLINE_ATTEMPTS")
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"{host}\n")
    return OSError(101, f"the network is off in this test: {host}")


def _check(sock: socket.socket, address: Any) -> None:
    if sock.family in (socket.AF_INET, socket.AF_INET6) and not _is_local(address[0]):
        raise _refuse(address[0])


def connect(self: socket.socket, address: Any) -> None:
    _check(self, address)
    _connect(self, address)


def connect_ex(self: socket.socket, address: Any) -> int:
    _check(self, address)
    return _connect_ex(self, address)


def sendto(self: socket.socket, data: Any, *rest: Any) -> int:
    _check(self, rest[-1])
    return _sendto(self, data, *rest)


def getaddrinfo(host: Any, *rest: Any, **options: Any) -> Any:
    if not _is_local(host):
        raise _refuse(host)
    return _getaddrinfo(host, *rest, **options)


socket.socket.connect = connect  # type: ignore[method-assign]
socket.socket.connect_ex = connect_ex  # type: ignore[method-assign]
socket.socket.sendto = sendto  # type: ignore[method-assign, assignment]
socket.getaddrinfo = getaddrinfo
