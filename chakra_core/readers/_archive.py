"""Traces inside tar and zip archives: unpacked within limits to a temporary folder, read there, and named after the archive.

What is unpacked is kept only while it is read. Members that are traces are packed again one by one, so that readers keep
their text in memory instead of looking for it in a file that is gone.
"""

from __future__ import annotations

import dataclasses
import lzma
import re
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from chakra_core.errors import ChakraError, CorruptTrace, LimitExceeded, UnknownFormat
from chakra_core.readers import guess_reader
from chakra_core.readers.base import MAX_RATIO, Source
from chakra_core.schema import Severity
from chakra_core.trace import HealthFinding, Trace

__all__ = ["is_archive", "read_archive"]

_MOST_MEMBERS = 10_000
_BLOCK = 1024 * 1024
_DAMAGE = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, OSError, EOFError, NotImplementedError)
_TAR_MAGIC = slice(257, 262)


def is_archive(source: Source) -> bool:
    """Whether the (decompressed) content is a tar or zip archive."""
    head = source.head
    return head.startswith(b"PK\x03\x04") or head[_TAR_MAGIC] == b"ustar"


def read_archive(source: Source) -> list[Trace]:
    """The traces of all members that are traces; their paths are those of the archive and the member.

    Raises:
        UnknownFormat: no member is a trace.
        CorruptTrace: the archive is damaged before the first trace.
        LimitExceeded: it expands to more than is believable, or has more than 10,000 members.
    """
    traces: list[Trace] = []
    with tempfile.TemporaryDirectory(prefix="chakra-") as folder:
        unpacked: list[tuple[Path, str]] = []
        damage: list[CorruptTrace] = []
        try:
            unpacked.extend(_unpack(source, Path(folder)))
        except CorruptTrace as error:
            if not unpacked:
                raise
            damage.append(error)
        for file, name in [entry for entry in unpacked if _prepare(entry[0])]:
            inner = file if file.exists() else file.with_name(file.name + ".zst")
            traces += _read_member(Source(inner, source.max_expanded, source.progress), source.path / name)
    if not traces:
        raise UnknownFormat(f"{source.path}: no file in the archive is a trace in a known format")
    if damage:
        finding = HealthFinding(
            "truncated", Severity.ERROR, 1, str(damage[0]), "The members before the damage are shown."
        )
        traces[0] = traces[0].with_(health=(*traces[0].health, finding))
    return traces


def _read_member(member: Source, shown: Path) -> Iterator[Trace]:
    try:
        found = guess_reader(member).read(member)
    except ChakraError as error:
        raise type(error)(str(error).replace(str(member.path), str(shown))) from error
    for trace in found:
        yield trace.with_(meta=dataclasses.replace(trace.meta, path=str(shown)))


def _prepare(file: Path) -> bool:
    """Whether a member is a trace; one that is not compressed is, in the place of ``file``."""
    source = Source(file)
    try:
        guess_reader(source)
    except (UnknownFormat, CorruptTrace):
        return False
    if not source.compression:
        _pack(file)
    return True


def _pack(file: Path) -> None:
    import zstandard

    target = file.with_name(file.name + ".zst")
    with file.open("rb") as plain, target.open("wb") as packed:
        zstandard.ZstdCompressor(level=-1).copy_stream(plain, packed)
    file.unlink()


def _unpack(source: Source, folder: Path) -> Iterator[tuple[Path, str]]:
    """Write the members that are plain files into the folder; yields where, and what each is called in the archive."""
    left = min(source.max_expanded, max(1024**3, MAX_RATIO * source.size))
    places: dict[str, Path] = {}
    members = _zip_members(source) if source.head.startswith(b"PK") else _tar_members(source)
    for count, (name, content) in enumerate(members):
        if count >= _MOST_MEMBERS:
            raise LimitExceeded(f"{source.path}: has more than {_MOST_MEMBERS:,} members; unpack it and open a folder")
        parent, _, base = name.rpartition("/")
        place = places.setdefault(parent, folder / str(len(places)))
        place.mkdir(exist_ok=True)
        target = place / (re.sub(r"[^\w.+-]", "_", base)[-100:] or "_")
        if target.exists() or target.name in (".", ".."):
            continue
        left -= _copy(content, target, left, source.path)
        yield target, name


def _copy(content: IO[bytes], target: Path, most: int, path: Path) -> int:
    size = 0
    with target.open("wb") as file:
        while block := _read(content, path):
            size += len(block)
            if size > most:
                raise LimitExceeded(
                    f"{path}: expands to more than can be believed; unpack it yourself if it is a trace"
                )
            file.write(block)
    return size


def _read(content: IO[bytes], path: Path) -> bytes:
    try:
        return content.read(_BLOCK)
    except _DAMAGE as error:
        raise CorruptTrace(f"{path}: the archive is damaged: {error}") from error


def _tar_members(source: Source) -> Iterator[tuple[str, IO[bytes]]]:
    try:
        with source.open() as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isfile() else None
                if content is not None:
                    yield member.name, content
    except _DAMAGE as error:
        raise CorruptTrace(f"{source.path}: the archive is damaged: {error}") from error


def _zip_members(source: Source) -> Iterator[tuple[str, IO[bytes]]]:
    try:
        with zipfile.ZipFile(source.path) as archive:
            for member in archive.infolist():
                if not member.is_dir() and not member.flag_bits & 1:
                    with archive.open(member) as content:
                        yield member.filename, content
    except _DAMAGE as error:
        raise CorruptTrace(f"{source.path}: the archive is damaged: {error}") from error
