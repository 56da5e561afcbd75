"""Protocol-buffer messages as bytes, for the few shapes that a Chakra file is made of.

Encoding: protobuf.dev/programming-guides/encoding. Writing the fields straight into a buffer takes a fraction of the
time that building message objects does.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

__all__ = ["Message", "varint"]

_VARINT, _FIXED64, _LENGTH = 0, 1, 2
_MASK64 = 2**64 - 1
_SHORT = tuple(bytes([value]) for value in range(0x80))


def varint(value: int) -> bytes:
    """Base-128 encoding of an unsigned number; a negative one as its 64-bit two's complement."""
    value &= _MASK64
    if value < 0x80:
        return _SHORT[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class Message(bytearray):
    """The encoded fields of one message, appended in the order of the calls."""

    def number(self, field: int, value: int) -> None:
        """An integer, enumeration or boolean."""
        self += varint(field << 3 | _VARINT) + varint(value)

    def double(self, field: int, value: float) -> None:
        """A 64-bit floating-point number."""
        self += varint(field << 3 | _FIXED64) + struct.pack("<d", value)

    def content(self, field: int, value: bytes | bytearray) -> None:
        """Bytes, or another message."""
        self += varint(field << 3 | _LENGTH) + varint(len(value)) + value

    def text(self, field: int, value: str) -> None:
        """A string; lone surrogates, which UTF-8 cannot hold, become question marks."""
        self.content(field, value.encode("utf-8", errors="replace"))

    def numbers(self, field: int, values: Iterable[int]) -> None:
        """Repeated integers, packed; nothing for none."""
        packed = b"".join(map(varint, values))
        if packed:
            self.content(field, packed)

    def doubles(self, field: int, values: Iterable[float]) -> None:
        """Repeated 64-bit floating-point numbers, packed; nothing for none."""
        packed = b"".join(struct.pack("<d", value) for value in values)
        if packed:
            self.content(field, packed)
