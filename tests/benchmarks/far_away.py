"""A relay on the loopback interface that makes a server look a given round trip away. Bandwidth is not limited.

Each direction delivers half a round trip late; the TCP handshake, which the kernel answers here at once, is made up for by
holding back the connection's first bytes. The window of TCP does not limit, as on a host that is tuned for long links.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time

_BLOCK = 2**18
_MOST_UNDER_WAY = 2**26


async def _one_way(source: asyncio.StreamReader, sink: asyncio.StreamWriter, late_s: float, not_before: float) -> None:
    under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_MOST_UNDER_WAY // _BLOCK)

    async def deliver() -> None:
        while True:
            due, data = await under_way.get()
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            if not data:
                sink.close()
                return
            sink.write(data)
            await sink.drain()

    delivering = asyncio.ensure_future(deliver())
    try:
        while True:
            data = await source.read(_BLOCK)
            await under_way.put((max(time.monotonic(), not_before) + late_s, data))
            if not data:
                break
        await delivering
    except (OSError, asyncio.CancelledError):
        delivering.cancel()


async def _serve(listen: int, target: int, rtt_s: float) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        begun = time.monotonic()
        await asyncio.sleep(1.5 * rtt_s)
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", target, limit=2**20)
        there = _one_way(reader, far_writer, rtt_s / 2, begun + rtt_s)
        await asyncio.gather(there, _one_way(far_reader, writer, rtt_s / 2, 0.0), return_exceptions=True)

    server = await asyncio.start_server(connected, "127.0.0.1", listen, limit=2**20)
    async with server:
        await server.serve_forever()


def _run(listen: int, target: int, rtt_s: float) -> None:
    asyncio.run(_serve(listen, target, rtt_s))


def relay(listen: int, target: int, rtt_s: float) -> multiprocessing.process.BaseProcess:
    """Start it in a process of its own; the caller ends it."""
    process = multiprocessing.get_context("spawn").Process(target=_run, args=(listen, target, rtt_s), daemon=True)
    process.start()
    return process
