"""What a reader is, and how it gets at bytes: by content, streaming, with a cap on expansion."""

from __future__ import annotations

import bz2
import io
import lzma
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from chakra_core.errors import CorruptTrace, LimitExceeded, UnknownFormat
from chakra_core.trace import Trace

__all__ = ["HEAD_BYTES", "Numbered", "Packed", "Progress", "Reader", "Source", "no_progress"]

HEAD_BYTES = 64 * 1024
"""How much decompressed content a reader sees to recognise a format."""

MAX_EXPANDED_BYTES = 64 * 1024**3
"""Most bytes a compressed file may expand to."""

_BLOCK = 1024 * 1024

MAX_RATIO = 200
"""Largest expansion factor believed; beyond it (and ``BELIEVED_BYTES``) a file is taken for a decompression bomb. Real
traces reach about 35; gzip can do no more than 1030."""

BELIEVED_BYTES = 256 * 1024**2
"""Expanded size that is believed whatever the factor."""

Progress = Callable[[float, str], None]
"""Called with the share done (0..1) and what is going on; may raise to cancel."""


def no_progress(share: float, message: str) -> None:
    """Ignore progress."""


@runtime_checkable
class Numbered(Protocol):
    """An attribute source that knows some integer attributes of all rows at once."""

    def numbers(self, name: str) -> NDArray[np.int64] | None:
        """The attribute of every row (int64); None where it is not kept. Absent values are below 1."""
        ...


@dataclass(frozen=True, slots=True)
class Packed:
    """An attribute source as it is kept beside stored columns; with the file unchanged it can be made again.

    A source that can be kept has a method ``pack() -> Packed``, and its module a function
    ``restore_attributes(path, params, arrays)``. Other sources are found again by reading the file anew.
    """

    module: str
    params: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]


class _Capped(io.RawIOBase):
    """A stream that stops with LimitExceeded once it has given more bytes than allowed."""

    def __init__(self, inner: IO[bytes], path: Path, limit: int) -> None:
        super().__init__()
        self._inner, self._path, self._limit, self._given = inner, path, limit, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(cast("bytearray", buffer))
        data = cast("io.BufferedReader", self._inner).read1(len(view))  # what precedes damage is not lost with it
        view[: len(data)] = data
        self._given += len(data)
        if self._given > self._limit:
            raise LimitExceeded(
                f"{self._path}: expands to more than {self._limit:,} bytes; "
                "decompress it yourself if this is really a trace"
            )
        return len(data)

    def close(self) -> None:
        self._inner.close()
        super().close()


class _Gzip(io.RawIOBase):
    """Members of a gzip file; unlike the standard readers it gives everything before damage before it raises."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = path.open("rb")
        self._inflate = self._member()
        self._pending = b""

    @staticmethod
    def _member() -> Any:
        from isal import igzip_lib

        return igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        from isal import igzip_lib

        broken = cast("type[Exception]", igzip_lib.IsalError)
        view = memoryview(cast("bytearray", buffer))
        while True:
            if self._inflate.eof:
                rest = bytes(self._inflate.unused_data).lstrip(b"\0") or self._file.read(_BLOCK).lstrip(b"\0")
                if not rest:
                    return 0
                self._inflate, self._pending = self._member(), rest
            elif not self._pending and self._inflate.needs_input:
                self._pending = self._file.read(_BLOCK)
                if not self._pending:
                    raise EOFError("it ends before its end marker")
            try:
                data = self._inflate.decompress(self._pending, len(view))
            except broken as error:
                raise OSError(str(error)) from error
            self._pending = b""
            if data:
                view[: len(data)] = data
                return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


@dataclass(frozen=True)
class Source:
    """One trace file: its path and its (decompressed) content; ``siblings`` files are read along with it (1: only it)."""

    path: Path
    max_expanded: int = MAX_EXPANDED_BYTES
    progress: Progress = field(default=no_progress, repr=False, compare=False)
    siblings: int = 1

    @property
    def name(self) -> str:
        """File name, without a compression suffix."""
        name = self.path.name
        for suffix in (".gz", ".zst", ".bz2", ".xz"):
            name = name.removesuffix(suffix)
        return name

    @cached_property
    def compression(self) -> str:
        """``""``, ``gzip``, ``zstd``, ``bz2``, ``xz``, or ``zip`` or ``tar`` (archives), by the first bytes of the file.

        Raises:
            UnknownFormat: it is a pipe, socket or device, on which reading could wait for ever.
        """
        mode = self.path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise UnknownFormat(f"{self.path}: is not a regular file; write its content to one and open that")
        with self.path.open("rb") as file:
            magic = file.read(262)
        for start, kind in (
            (b"\x1f\x8b", "gzip"),
            (b"\x28\xb5\x2f\xfd", "zstd"),
            (b"BZh", "bz2"),
            (b"\xfd7zXZ\x00", "xz"),
            (b"PK\x03\x04", "zip"),
        ):
            if magic.startswith(start):
                return kind
        return "tar" if magic[257:262] == b"ustar" else ""

    @cached_property
    def size(self) -> int:
        """Bytes on disk."""
        return self.path.stat().st_size

    def open(self) -> io.BufferedReader:
        """Decompressed content as a buffered stream that stops at the expansion cap; archives as they are."""
        if self.compression in ("", "zip", "tar"):
            return self.path.open("rb")
        limit = min(self.max_expanded, max(BELIEVED_BYTES, MAX_RATIO * self.size))
        return io.BufferedReader(_Capped(_decompressor(self.path, self.compression), self.path, limit), 1024 * 1024)

    @cached_property
    def head(self) -> bytes:
        """The first ``HEAD_BYTES`` of decompressed content (fewer where the file is shorter or damaged)."""
        parts: list[bytes] = []
        try:
            with self.open() as stream:
                while (size := sum(map(len, parts))) < HEAD_BYTES and (part := stream.read1(HEAD_BYTES - size)):
                    parts.append(part)
        except (OSError, EOFError, lzma.LZMAError, ValueError) as error:
            if not parts:
                raise CorruptTrace(
                    f"{self.path}: its {self.compression or 'content'} cannot be read: {error}"
                ) from error
        return b"".join(parts)

    def read(self) -> bytes:
        """Everything, decompressed.

        A compressed stream that ends early gives what could be inflated; readers then see a truncated document
        and report it.
        """
        with self.open() as stream:
            if not self.compression:
                return stream.read()
            parts: list[bytes] = []
            try:
                while part := stream.read1(_BLOCK):
                    parts.append(part)
            except (EOFError, OSError, lzma.LZMAError) as error:
                if not parts:
                    raise CorruptTrace(f"{self.path}: its {self.compression} stream is damaged: {error}") from error
            return b"".join(parts)


def _decompressor(path: Path, kind: str) -> IO[bytes]:
    if kind == "gzip":
        return io.BufferedReader(_Gzip(path), _BLOCK)
    if kind == "zstd":
        import zstandard

        return cast("IO[bytes]", zstandard.open(path, "rb"))
    if kind == "bz2":
        return bz2.open(path, "rb")
    return lzma.open(path, "rb")


class Reader(Protocol):
    """One trace format. Add one by writing a module with these members and naming it in ``readers.READERS``."""

    name: str
    """Short name shown to users, e.g. ``chakra-et``."""
    description: str
    """One sentence for ``chakra-dashboard info --formats``."""
    suffixes: tuple[str, ...]
    """File names that usually hold this format; only a hint."""

    def sniff(self, head: bytes, name: str) -> float:
        """Confidence (0..1) that a file that starts with ``head`` and is called ``name`` is of this format."""
        ...

    def read(self, source: Source) -> Sequence[Trace]:
        """Read the whole file into one Trace per rank it holds.

        Raises:
            CorruptTrace: nothing usable could be read. Partial damage becomes a health finding instead.
        """
        ...
