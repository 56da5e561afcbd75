"""Where the messages of a varint-framed file lie."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

__all__ = ["Frames", "split_frames"]

_MAX_BYTES = 10


@dataclass(frozen=True, slots=True)
class Frames:
    """Offset and size of each message; where reading stopped; whether the content ends inside a message."""

    spans: list[tuple[int, int]]
    end: int
    ends_inside: bool


def split_frames(content: Any, most: int = sys.maxsize) -> Frames:
    """Walk the length prefixes of a buffer.

    Args:
        content: bytes; a part of a file ends inside a message, which is left out.
        most: stop after this many messages.

    An empty message is kept where it comes first (an empty GlobalMetadata) and skipped elsewhere.
    """
    spans: list[tuple[int, int]] = []
    at, size = 0, len(content)
    while at < size and len(spans) < most:
        start, length, shift = at, 0, 0
        while at < size and shift < 7 * _MAX_BYTES:
            byte = content[at]
            at += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        else:
            return Frames(spans, start, ends_inside=True)
        if length > size - at:
            return Frames(spans, start, ends_inside=True)
        if length or not spans:
            spans.append((at, length))
        at += length
    return Frames(spans, at, ends_inside=False)
