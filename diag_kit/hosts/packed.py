"""Output that a script of the kit compressed on its way: unpacked before anyone sees it, so that results, recordings and
redaction know only plain text."""

from __future__ import annotations

import zlib

MARK = "==diag_kit:packed by="

PACK = r"""
pack() {
  if command -v zstd > /dev/null 2>&1; then printf '==diag_kit:packed by=zstd==\n'; zstd -q -1 -c
  elif [ "$1" != quick ] && command -v gzip > /dev/null 2>&1; then printf '==diag_kit:packed by=gzip==\n'; gzip -1 -c
  else cat
  fi
}
"""
"""sh function: its input compressed, with a first line that says how. With ``quick`` only by zstd: gzip takes more time than a
fast network. Without either it is ``cat``."""
_CHUNK = 2**20


def unpacked(script: str, data: bytes, max_bytes: int) -> tuple[bytes, bool]:
    """The plain output, at most ``max_bytes`` of it, and whether there was more. Only for scripts that pack; what cannot be
    unpacked to its end (the connection broke) gives what could, and what is not packed stays as it is."""
    if MARK not in script or not data.startswith(MARK.encode()):
        return data, False
    head, _, body = data.partition(b"\n")
    if head == f"{MARK}zstd==".encode():
        return _zstd(body, max_bytes)
    if head == f"{MARK}gzip==".encode():
        return _gzip(body, max_bytes)
    return data, False


def _gzip(body: bytes, max_bytes: int) -> tuple[bytes, bool]:
    inflate = zlib.decompressobj(wbits=31)
    try:
        plain = inflate.decompress(body, max_bytes + 1)
    except zlib.error:
        return b"", True
    return plain[:max_bytes], len(plain) > max_bytes or not inflate.eof


def _zstd(body: bytes, max_bytes: int) -> tuple[bytes, bool]:
    import pyarrow as pa

    chunks: list[bytes] = []
    room = max_bytes + 1
    try:
        with pa.CompressedInputStream(pa.BufferReader(body), "zstd") as stream:
            while room > 0:
                chunk = stream.read(min(_CHUNK, room))
                if not chunk:
                    break
                chunks.append(chunk)
                room -= len(chunk)
    except (OSError, ValueError):
        return b"".join(chunks)[:max_bytes], True
    return b"".join(chunks)[:max_bytes], room <= 0
