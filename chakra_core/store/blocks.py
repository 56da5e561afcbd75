"""The file of a store entry: a JSON header and aligned blocks of numbers, checked when opened, never executed.

Layout: magic (16 bytes), length of the header and its CRC-32 (two little-endian uint64), the header as UTF-8 JSON,
then the blocks, each aligned to 64 bytes and named, typed, sized and checksummed in the header. Files are written
beside their place and moved there whole.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

__all__ = ["Damaged", "read_blocks", "write_blocks"]

MAGIC = b"CHAKRA-STORE-001"
_ALIGN = 64
_FIXED = len(MAGIC) + 16
_DTYPES = frozenset({"int8", "uint8", "bool", "int16", "int32", "int64", "uint64", "float64"})


class Damaged(Exception):
    """An entry is not what was written."""


def write_blocks(path: Path, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> int:
    """Write an entry atomically; returns its size in bytes.

    Raises:
        OSError: the disk is full or the folder cannot be written.
        ValueError: the header holds what JSON cannot.
    """
    blocks: list[dict[str, Any]] = []
    offset = 0
    for name, array in arrays.items():
        data = np.ascontiguousarray(array)
        if data.dtype.name not in _DTYPES:
            raise ValueError(f"block {name} has type {data.dtype}")
        view = data.reshape(-1).view(np.uint8).data
        blocks.append(
            {
                "name": name,
                "dtype": data.dtype.name,
                "shape": data.shape,
                "offset": offset,
                "crc": isal_zlib.crc32(view),
            }
        )
        offset = _aligned(offset + data.nbytes)
    text = json.dumps({"data": dict(header), "blocks": blocks, "size": offset}, allow_nan=True).encode()
    first = _aligned(_FIXED + len(text))
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(MAGIC + struct.pack("<QQ", len(text), isal_zlib.crc32(text)) + text)
            for block, array in zip(blocks, arrays.values(), strict=True):
                file.seek(first + block["offset"])
                file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
            file.truncate(first + offset)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)  # noqa: PTH105 - atomic on every platform
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)  # noqa: PTH108
        raise
    return first + offset


def read_blocks(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Header and arrays (read-only, mapped) of an entry.

    Raises:
        Damaged: it is cut, changed, or of another version.
        OSError: it is gone or cannot be read.
    """
    try:
        whole = np.memmap(path, np.uint8, "r")
    except ValueError as error:  # an empty file cannot be mapped
        raise Damaged(f"{path.name}: {error}") from error
    if len(whole) < _FIXED or bytes(whole[: len(MAGIC)]) != MAGIC:
        raise Damaged(f"{path.name}: not an entry of this version")
    size, check = struct.unpack("<QQ", bytes(whole[len(MAGIC) : _FIXED]))
    text = bytes(whole[_FIXED : _FIXED + size]) if size <= len(whole) else b""
    if len(text) != size or isal_zlib.crc32(text) != check:
        raise Damaged(f"{path.name}: its header is damaged")
    document = json.loads(text)
    first = _aligned(_FIXED + size)
    if len(whole) != first + document["size"]:
        raise Damaged(f"{path.name}: {len(whole):,} bytes long, {first + document['size']:,} were written")
    return document["data"], {block["name"]: _block(path, whole, first, block) for block in document["blocks"]}


def _block(path: Path, whole: NDArray[np.uint8], first: int, block: Mapping[str, Any]) -> NDArray[Any]:
    dtype = np.dtype(block["dtype"])
    begin = first + block["offset"]
    count = int(np.prod(block["shape"], dtype=np.int64))
    raw = whole[begin : begin + count * dtype.itemsize]
    if isal_zlib.crc32(raw.data) != block["crc"]:
        raise Damaged(f"{path.name}: block {block['name']} is damaged")
    array: NDArray[Any] = np.asarray(raw).view(dtype).reshape(block["shape"])
    return array


def _aligned(offset: int) -> int:
    return (offset + _ALIGN - 1) // _ALIGN * _ALIGN
