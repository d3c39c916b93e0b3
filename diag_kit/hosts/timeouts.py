"""How long each step of getting in may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds for: the TCP connect; the server's first line and the key exchange; the login; opening a channel."""

    connect_s: float = 10.0
    banner_s: float = 15.0
    auth_s: float = 30.0
    channel_s: float = 15.0
