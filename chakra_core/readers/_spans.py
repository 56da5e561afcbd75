"""Distinct texts among ranges of a buffer, found without making a string of each range."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from chakra_core.readers._kineto_json import OPTIONS, PADDING, hash_range, same_bytes, words_of

__all__ = ["distinct_texts", "padded"]

I64 = NDArray[np.int64]


def padded(data: bytes) -> NDArray[np.uint8]:
    """The bytes as an array with the padding that the word-wise functions need (a copy)."""
    buffer = np.zeros(len(data) + PADDING, np.uint8)
    buffer[: len(data)] = np.frombuffer(data, np.uint8)
    return buffer


@njit(**OPTIONS)
def _intern(words: Any, starts: Any, stops: Any, table: Any, firsts: Any, codes: Any) -> int:
    """Give each range the number of its text; returns how many texts there are. ``table`` is a power of two long."""
    mask = len(table) - 1
    count = 0
    for at in range(len(starts)):
        start, length = starts[at], stops[at] - starts[at]
        slot = np.int64(hash_range(words, start, stops[at]) & np.uint64(0x7FFFFFFFFFFFFFFF)) & mask
        while True:
            code = table[slot]
            if code < 0:
                table[slot] = count
                firsts[count] = at
                codes[at] = count
                count += 1
                break
            first = firsts[code]
            if stops[first] - starts[first] == length and same_bytes(words, starts[first], words, start, length):
                codes[at] = code
                break
            slot = (slot + 1) & mask
    return count


def distinct_texts(buffer: NDArray[np.uint8], starts: I64, stops: I64) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Code of each range's text, and the texts (bad UTF-8 replaced), in order of first appearance.

    Args:
        buffer: bytes with the padding of ``padded``.
        starts: first byte of each range.
        stops: the byte after the last one of each range.
    """
    n = len(starts)
    table = np.full(1 << max(4, int(2 * n).bit_length()), -1, np.int64)
    firsts, codes = np.zeros(n, np.int64), np.zeros(n, np.int32)
    count = _intern(words_of(buffer), starts, stops, table, firsts, codes)
    texts = [buffer[starts[at] : stops[at]].tobytes().decode("utf-8", "replace") for at in firsts[:count].tolist()]
    names = tuple(dict.fromkeys(texts))
    if len(names) < count:  # different bytes, replaced by the same text
        place = {name: at for at, name in enumerate(names)}
        codes = np.array([place[text] for text in texts], np.int32)[codes]
    return codes, names
