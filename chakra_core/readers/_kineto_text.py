"""The text of a trace-event file: read in blocks, kept for decoding single events on demand, decoded tolerantly."""

from __future__ import annotations

import json
import lzma
import zlib
from collections.abc import Iterator, Mapping
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

__all__ = ["EventText", "decode_text", "loads_tolerant", "read_blocks"]

BLOCK = 64 * 1024
_PACK = 1024 * 1024
_PACK_LEVEL = -1
_STREAM_ERRORS = (EOFError, OSError, lzma.LZMAError, zlib.error, ValueError)


class EventText:
    """The file's decompressed bytes by range, for decoding single events on demand.

    A plain file is opened again when asked. The content of a compressed one is kept in memory as blocks packed with
    a fast compressor (about a tenth of the text), so that any event is one block away.
    """

    def __init__(self, path: Path, *, compressed: bool) -> None:
        self._path = path
        self._compressed = compressed
        self._stamp = (path.stat().st_size, path.stat().st_mtime_ns)
        self._packed: list[bytes | memoryview] = []
        self._pending = bytearray()
        self._last: tuple[int, bytes] = (-1, b"")

    def add(self, data: bytes) -> None:
        """Append the next bytes of a compressed file."""
        if not self._compressed:
            return
        self._pending += data
        while len(self._pending) >= _PACK:
            self._packed.append(_pack(bytes(self._pending[:_PACK])))
            del self._pending[:_PACK]

    def read(self, offset: int, length: int) -> bytes:
        """The bytes of one range; empty where a plain file has been changed or removed since it was read."""
        if self._compressed:
            blocks = range(offset // _PACK, (offset + length - 1) // _PACK + 1)
            start = offset - blocks.start * _PACK
            return b"".join(map(self._block, blocks))[start : start + length]
        try:
            with self._path.open("rb") as file:
                stat = self._path.stat()
                if (stat.st_size, stat.st_mtime_ns) != self._stamp:
                    return b""
                file.seek(offset)
                return file.read(length)
        except OSError:
            return b""

    def packed(self) -> dict[str, NDArray[Any]]:
        """What :meth:`restored` needs beside the file: the packed blocks of a compressed one, end to end."""
        blocks = [*self._packed, _pack(bytes(self._pending))] if self._compressed else []
        sizes = np.array([len(block) for block in blocks], np.int64)
        return {"text": np.frombuffer(b"".join(blocks), np.uint8), "text_sizes": sizes}

    @classmethod
    def restored(cls, path: Path, arrays: Mapping[str, NDArray[Any]]) -> EventText:
        """The text of an unchanged file (or of a member of that archive), from what :meth:`packed` gave."""
        text = cls(path, compressed=bool(len(arrays["text_sizes"])))
        ends = np.cumsum(arrays["text_sizes"])
        content = arrays["text"].data
        text._packed = [content[end - size : end] for end, size in zip(ends, arrays["text_sizes"], strict=True)]
        return text

    def _block(self, at: int) -> bytes:
        if at >= len(self._packed):
            return bytes(self._pending)
        last = self._last
        if last[0] != at:
            last = self._last = (at, _unpack(self._packed[at]))
        return last[1]


def _pack(data: bytes) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(level=_PACK_LEVEL).compress(data)


def _unpack(data: bytes | memoryview) -> bytes:
    import zstandard

    return zstandard.ZstdDecompressor().decompress(data)


def decode_text(data: bytes) -> str:
    """A JSON string's content as text: escapes resolved, bytes that are not UTF-8 and lone surrogates replaced."""
    text = data.decode("utf-8", errors="replace")
    if "\\" not in text:
        return text
    try:
        value = json.loads(f'"{text}"', strict=False)
    except ValueError:
        return text
    return str(value).encode("utf-8", errors="replace").decode("utf-8")


def loads_tolerant(data: bytes) -> Any:
    """JSON with control characters, NaN and bad UTF-8 let through.

    Raises:
        ValueError: it is not JSON even so, or nests too deeply.
    """
    try:
        return json.loads(data.decode("utf-8", errors="replace"), strict=False)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def read_blocks(stream: IO[bytes], failures: list[Exception]) -> Iterator[bytes]:
    """The stream in small blocks; a damaged stream ends early and leaves its error in ``failures``.

    Small, because what a block had got before the damage is lost with it.
    """
    while True:
        try:
            data = cast("BufferedReader", stream).read1(BLOCK)
        except _STREAM_ERRORS as error:
            failures.append(error)
            return
        if not data:
            return
        yield data
