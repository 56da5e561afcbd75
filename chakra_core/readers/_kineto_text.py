"""The text of a trace-event file: read in blocks, kept for decoding single events on demand, decoded tolerantly."""

from __future__ import annotations

import json
import lzma
import tempfile
import zlib
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, cast

from chakra_core.readers.base import Source

__all__ = ["EventText", "decode_text", "loads_tolerant", "read_blocks"]

_KEEP_IN_MEMORY = 64 * 1024 * 1024
BLOCK = 64 * 1024
_STREAM_ERRORS = (EOFError, OSError, lzma.LZMAError, zlib.error, ValueError)


class EventText:
    """The file's decompressed bytes by range, for decoding single events on demand.

    A plain file is opened again when asked; a compressed one is kept in memory while small, else in an unlinked
    temporary file.
    """

    def __init__(self, path: Path, *, compressed: bool) -> None:
        self._path = path
        self._parts: list[bytes] = []
        self._data: bytes | None = None
        self._spill: IO[bytes] | None = None
        self._size = 0
        self._compressed = compressed
        self._stamp = (path.stat().st_size, path.stat().st_mtime_ns)

    def add(self, data: bytes) -> None:
        """Append the next bytes of a compressed file."""
        if not self._compressed:
            return
        if self._spill is None and self._size + len(data) > _KEEP_IN_MEMORY:
            self._spill = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the trace does
            self._spill.writelines(self._parts)
            self._parts = []
        if self._spill is not None:
            self._spill.write(data)
        else:
            self._parts.append(data)
        self._size += len(data)

    def read(self, offset: int, length: int) -> bytes:
        """The bytes of one range; empty where a plain file has been changed or removed since it was read."""
        if self._spill is not None:
            self._spill.seek(offset)
            return self._spill.read(length)
        if self._compressed:
            if self._data is None:
                self._data, self._parts = b"".join(self._parts), []
            return self._data[offset : offset + length]
        try:
            with self._path.open("rb") as file:
                stat = self._path.stat()
                if (stat.st_size, stat.st_mtime_ns) != self._stamp:
                    return b""
                file.seek(offset)
                return file.read(length)
        except OSError:
            return b""

    def __del__(self) -> None:
        if getattr(self, "_spill", None) is not None and self._spill is not None:
            self._spill.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen_text, (self._path, self._compressed)


def _reopen_text(path: Path, compressed: bool) -> EventText:
    text = EventText(path, compressed=compressed)
    if compressed:
        with Source(path).open() as stream:
            for data in read_blocks(stream, []):
                text.add(data)
    return text


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
