"""Legion profiler logs as tables: the preamble that describes the records, and the records found by a compiled walk.

A log begins with ``FileType: BinaryLegionProf v: 1.0``, then one line per record type,
``Name {id:N, field:type:size, …}``, then an empty line, then records: a 4-byte type id and the fields, packed, little
endian. Sizes are in bytes, but for text (-1, ended by a zero byte), points and rectangles (as many 8-byte numbers as
the record ``MaxDimDesc`` says, twice that for a rectangle) and device ids (as long as the ``uuid_size`` before them).
So a reader needs no table of versions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from chakra_core.errors import CorruptTrace
from chakra_core.readers._kineto_json import OPTIONS, words_of
from chakra_core.readers._spans import padded

__all__ = ["MAGIC", "LegionLog", "RecordFormat", "read_log"]

I64 = NDArray[np.int64]

MAGIC = b"FileType: BinaryLegionProf v: "

_RECORD = re.compile(r"^(\w{1,100}) \{id:(\d{1,9})((?:, \w{1,100}:[\w ]{1,60}:-?\d{1,6})*)\}$")
_FIELD = re.compile(r"(\w+):([\w ]+):(-?\d+)")
_MAX_PREAMBLE = 1024 * 1024
_MAX_FIELDS = 4096
_MAX_SIZE = 65_536
_TEXT, _POINT, _RECT, _UUID, _DIM, _LENGTH = -1, -2, -3, -4, -5, -6
_SPECIAL = {"string": _TEXT, "point": _POINT, "array": _RECT, "uuid": _UUID, "maxdim": _DIM, "uuid_size": _LENGTH}


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """One record type: its fields as (name, type, size code); a positive code is a size in bytes."""

    name: str
    id: int
    fields: tuple[tuple[str, str, int], ...]

    def offset_of(self, name: str) -> tuple[int, int] | None:
        """Offset (from the type id) and size of a field before which all have a fixed size; None where it has none."""
        at = 4
        for field, _, size in self.fields:
            width = 4 if size in (_DIM, _LENGTH) else size
            if field == name:
                return at, width
            if width < 0:
                return None
            at += width
        return None


@dataclass(frozen=True)
class LegionLog:
    """A log's records: ``kinds`` holds type ids and ``offsets`` where they begin, both in file order.

    ``stopped`` is the position of the first byte that could not be read (-1: all could), ``cut`` whether the file
    ended in the middle of a record there; ``after`` is the number of bytes left unread.
    """

    buffer: NDArray[np.uint8]
    formats: dict[str, RecordFormat]
    kinds: NDArray[np.int32]
    offsets: I64
    stopped: int
    cut: bool
    after: int

    @cached_property
    def _by_kind(self) -> tuple[I64, I64]:
        order = np.argsort(self.kinds, kind="stable")
        return order, self.kinds[order].astype(np.int64)

    def where(self, name: str) -> I64:
        """Offsets of the records of a type, in file order."""
        form = self.formats.get(name)
        if form is None:
            return np.zeros(0, np.int64)
        order, kinds = self._by_kind
        first, last = np.searchsorted(kinds, [form.id, form.id + 1])
        return self.offsets[order[first:last]]

    def numbers(self, name: str, field: str, default: int = 0) -> I64:
        """A numeric field of every record of a type (8-byte values modulo 2**64); ``default`` where it has no such field."""
        at = self.where(name)
        form = self.formats.get(name)
        place = form.offset_of(field) if form else None
        if place is None or place[1] not in (1, 2, 4, 8):
            return np.full(len(at), default, np.int64)
        offset, width = place
        values = words_of(self.buffer)[at + offset]
        return (values & np.uint64((1 << (8 * width)) - 1)).view(np.int64) if width < 8 else values.view(np.int64)

    def first_number(self, name: str) -> I64:
        """The first field of every record of a type; description records begin with what they describe."""
        form = self.formats.get(name)
        return self.numbers(name, form.fields[0][0]) if form and form.fields else np.zeros(0, np.int64)

    def texts(self, name: str) -> list[str]:
        """The first text field of every record of a type (its name differs between versions); bad UTF-8 is replaced."""
        form = self.formats.get(name)
        field = next((field for field, _, size in form.fields if size == _TEXT), "") if form else ""
        place = form.offset_of(field) if form and field else None
        if place is None:
            return [""] * len(self.where(name))
        return [self._text(offset + place[0]) for offset in self.where(name).tolist()]

    def _text(self, start: int) -> str:
        stop = start
        end = len(self.buffer)
        while stop < end and self.buffer[stop]:
            stop += 1
        return self.buffer[start:stop].tobytes().decode("utf-8", "replace")


def decode_record(form: RecordFormat, raw: bytes) -> dict[str, Any]:
    """The numeric and text fields of one record, up to its first field of another kind."""
    found: dict[str, Any] = {}
    at = 4
    for name, kind, size in form.fields:
        if size == _TEXT:
            stop = raw.find(b"\0", at)
            if stop < 0:
                break
            found[name] = raw[at:stop].decode("utf-8", "replace")
            at = stop + 1
            continue
        width = 4 if size in (_DIM, _LENGTH) else size
        if width < 0 or at + width > len(raw):
            break
        signed = kind in ("timestamp_t", "long long", "maxdim", "ProcKind", "MemKind")
        found[name] = int.from_bytes(raw[at : at + width], "little", signed=signed)
        at += width
    return found


def _preamble(data: bytes, path: object) -> tuple[dict[str, RecordFormat], int]:
    """Record types by name and where the records begin."""
    head = data[:_MAX_PREAMBLE]
    end = head.find(b"\n\n")
    if end < 0:
        raise CorruptTrace(f"{path}: its preamble does not end within {_MAX_PREAMBLE:,} bytes; the log may be cut")
    formats: dict[str, RecordFormat] = {}
    for line in head[:end].decode("utf-8", "replace").splitlines()[1:]:
        if match := _RECORD.match(line):
            fields = tuple(_fields(match[3]))
            formats[match[1]] = RecordFormat(match[1], int(match[2]), fields)
        elif formats:
            raise CorruptTrace(f"{path}: its preamble has a line that describes no record: {line[:80]!r}")
    ids = {form.id for form in formats.values()}
    count = sum(len(form.fields) for form in formats.values())
    if not formats or len(ids) < len(formats) or max(ids) > 65_535 or count > _MAX_FIELDS:
        raise CorruptTrace(f"{path}: its preamble describes no usable set of records")
    return formats, end + 2


def _fields(text: str) -> Iterator[tuple[str, str, int]]:
    for name, kind, size in _FIELD.findall(text):
        yield name, kind, _SPECIAL.get(kind, min(max(int(size), 1), _MAX_SIZE))


@njit(**OPTIONS)
def _after(buf: Any, words: Any, pos: int, end: int, code: int, state: Any) -> int:
    """Position after one field; -1 where it states a size that makes no sense. ``state``: dimensions, length of ids."""
    if code > 0:
        return pos + code
    if code == -1:
        while pos < end and buf[pos] != 0:
            pos += 1
        return pos + 1
    if code >= -4:  # a point, a rectangle, an id
        return pos + (state[1] if code == -4 else 8 * state[0] * -(code + 1))
    if pos + 4 <= end:
        state[-5 - code] = np.int64(words[pos] & np.uint64(0xFFFFFFFF))
        if state[0] > 64:
            return -1
    return pos + 4


@njit(**OPTIONS)
def _walk(buf: Any, words: Any, end: int, start: int, types: Any, state: Any, kinds: Any, offsets: Any) -> Any:
    """Pass over records from ``start``, keeping their kinds and places where arrays are given.

    ``types`` holds in its first half where each type's field codes begin in the second (see ``_table``).
    Returns how many there are, where it stopped and why (0: at the end, 1: cut, 2: not a known record).
    """
    pos = np.int64(start)
    count = 0
    size = types[0]
    while pos < end:
        begin = pos
        kind = np.int64(words[pos] & np.uint64(0xFFFFFFFF)) if pos + 4 <= end else np.int64(-1)
        if kind < 0:
            return count, begin, 1
        if kind >= size or types[1 + kind] < 0:
            return count, begin, 2
        pos += 4
        at = types[1 + kind]
        while types[at] != 0 and 0 <= pos <= end:
            pos = _after(buf, words, pos, end, types[at], state)
            at += 1
        if pos < 0:
            return count, begin, 2
        if pos > end:
            return count, begin, 1
        if len(kinds):
            kinds[count] = kind
            offsets[count] = begin
        count += 1
    return count, pos, 0


def _table(formats: Iterable[RecordFormat]) -> I64:
    """Types for ``_walk``: the number of ids, then for each id where its field codes begin (-1: no such type)."""
    known = {form.id: form for form in formats}
    size = max(known) + 1
    table = [size, *[-1] * size]
    for number, form in known.items():
        table[1 + number] = len(table)
        table += [*(code for _, _, code in form.fields), 0]
    return np.array(table, np.int64)


def read_log(data: bytes, path: object) -> LegionLog:
    """Parse a binary log.

    Raises:
        CorruptTrace: its preamble is damaged.
    """
    formats, start = _preamble(data, path)
    table = _table(formats.values())
    buffer = padded(data)
    words = words_of(buffer)
    size, none = len(data), np.zeros(0, np.int64)
    count, stopped, why = _walk(buffer, words, size, start, table, np.zeros(2, np.int64), np.zeros(0, np.int32), none)
    kinds, offsets = np.zeros(max(count, 1), np.int32), np.zeros(max(count, 1), np.int64)
    _walk(buffer, words, size, start, table, np.zeros(2, np.int64), kinds, offsets)
    return LegionLog(
        buffer, formats, kinds[:count], offsets[:count], -1 if why == 0 else int(stopped), why == 1,
        len(data) - int(stopped),
    )  # fmt: skip
