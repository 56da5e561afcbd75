"""A Chakra file of the current layout straight to a NodeTable, by the compiled scanner and in bounded memory.

The file is read in blocks into one small buffer. Rows are filled in batches; a batch's columns are kept only where
some node has a value in them. Records that the scanner is not sure about go through protobuf, one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from io import BufferedReader
from typing import IO, Any, cast

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from chakra_core.readers import _et_scan as scan
from chakra_core.readers import _et_wire as wire
from chakra_core.readers._et_layouts import Record, inputs_text
from chakra_core.readers._et_table import ABSENT, INTEGERS, TEXTS, NodeTable, Scanned, column_value, stated_kinds
from chakra_core.readers._growing import Growing
from chakra_core.readers._kineto_json import PADDING, words_of
from chakra_core.readers._kineto_scan import rehash
from chakra_core.readers._kineto_text import BLOCK, EventText, read_blocks
from chakra_core.readers.base import Source

__all__ = ["scan_file"]

I64 = NDArray[np.int64]

_BUFFER = 4 * 1024 * 1024
_ROWS = 16 * 1024
_DEPS = 256 * 1024
_MAX_RECORD = 2**31 - 1  # protobuf's own limit
_MOST_AHEAD = 2**28  # entries: room asked for on the word of an estimate
_EXPANSION = 8  # usual factor, for progress only
_COLUMNS = (*INTEGERS, *scan.EXTRA)
_PLACE = {name: at for at, name in enumerate(_COLUMNS)}
_CODED = ("name", "inputs", *TEXTS)
"""Columns of numbers of texts."""
_MISSING = {**dict.fromkeys(_COLUMNS, ABSENT), **dict.fromkeys(_CODED, -1)}


def scan_file(source: Source, text: EventText, *, first_is_node: bool, decode: Callable[[bytes], Record]) -> Scanned:
    """Read every node of a file.

    Args:
        source: the file.
        text: keeps the content of a compressed file, for the attributes of single nodes.
        first_is_node: whether the first record is a node; otherwise it is metadata and passed over.
        decode: decodes one record by protobuf; raises DecodeError or ValueError.

    Raises:
        LimitExceeded: the content expands beyond the cap.
    """
    with source.open() as stream:
        return _Scan(source, text, stream).run(decode, first_is_node=first_is_node)


class _Texts:
    """Interned texts: an open-addressed table over an arena of bytes."""

    def __init__(self) -> None:
        self.table = np.full(8192, -1, np.int32)
        self.hashes = np.zeros(4096, np.uint64)
        self.spans = np.zeros((4096, 2), np.int64)
        self.arena = np.zeros(256 * 1024, np.uint8)
        self.arena_words = words_of(self.arena)
        self.used = np.zeros(scan.USED, np.int64)

    def grow(self) -> None:
        """Double what is full."""
        count = int(self.used[wire.USED_TEXTS])
        if count + 1 >= len(self.spans):
            self.table = np.full(2 * len(self.table), -1, np.int32)
            self.hashes = np.concatenate([self.hashes, np.zeros_like(self.hashes)])
            self.spans = np.concatenate([self.spans, np.zeros_like(self.spans)])
            rehash(self.table, self.hashes, count)
            return
        grown = np.zeros(2 * len(self.arena), np.uint8)
        grown[: len(self.arena)] = self.arena
        self.arena, self.arena_words = grown, words_of(grown)

    def intern(self, text: str) -> int:
        """Number of a text that comes from Python."""
        data = np.frombuffer(text.encode("utf-8", "replace"), np.uint8)
        while True:
            start = int(self.used[wire.USED_ARENA])
            stop = start + len(data)
            if stop + 24 <= len(self.arena_words):
                self.arena[start:stop] = data
                number = int(wire.intern(stop, self.table, self.hashes, self.spans, self.arena_words, self.used))
                if number >= 0:
                    return number
            self.grow()

    def listed(self) -> tuple[list[str], I64 | None]:
        """The texts, bytes that are not UTF-8 replaced; and new numbers where texts became equal by that."""
        content = self.arena[: int(self.used[wire.USED_ARENA])].tobytes()
        spans = self.spans[: int(self.used[wire.USED_TEXTS])].tolist()
        texts = [content[start : start + length].decode("utf-8", "replace") for start, length in spans]
        numbers: dict[str, int] = {}
        renumbered = [numbers.setdefault(text, len(numbers)) for text in texts]
        return list(numbers), None if len(numbers) == len(texts) else np.array([*renumbered, -1], np.int64)


class _Rows:
    """Rows of the current batch, and the columns of all batches before."""

    def __init__(self) -> None:
        self.i64 = np.zeros((_ROWS, len(_COLUMNS)), np.int64)
        self.u64 = np.zeros((_ROWS, len(scan.UNSIGNED)), np.uint64)
        self.deps = [np.zeros(_DEPS, np.uint64), np.zeros(_DEPS, np.uint64), np.zeros(_DEPS, np.int64)]
        self.filled = self.total = 0
        self.columns: dict[str, Growing] = {}
        self.unsigned: list[Growing] = []
        self.listed: list[Growing] = []

    def flush(self, used: I64, share: float) -> None:
        """Put the batch away and begin the next; ``share`` of the file has been read."""
        n = self.filled
        counts = [int(used[scan.USED_CTRL + at]) for at in range(len(self.deps))]
        if not self.unsigned:
            self.unsigned = [Growing(np.uint64, _expected(n, share)) for _ in scan.UNSIGNED]
            self.listed = [
                Growing(array.dtype, _expected(count, share)) for array, count in zip(self.deps, counts, strict=True)
            ]
        for at, name in enumerate(_COLUMNS):
            self._put_away(name, self.i64[:n, at], share)
        for at, kept in enumerate(self.unsigned):
            kept.append(self.u64[:n, at])
        for array, count, kept in zip(self.deps, counts, self.listed, strict=True):
            kept.append(array[:count])
        used[scan.USED_CTRL :] = 0
        self.total += n
        self.filled = 0

    def _put_away(self, name: str, values: I64, share: float) -> None:
        """Keep the batch's part of a column, unless no node so far has a value there."""
        if name not in self.columns:
            if (values == _MISSING[name]).all():
                return
            narrow = np.int32 if name in _CODED else np.int64
            self.columns[name] = Growing(narrow, _expected(self.total + len(values), share))
            self.columns[name].repeat(_MISSING[name], self.total)
        self.columns[name].append(values)

    def make_room(self, used: I64, share: float, wanted: int) -> None:
        """Flush, and make the dependency arrays hold one record of ``wanted`` bytes."""
        self.flush(used, share)
        if wanted > len(self.deps[0]):
            self.deps = [np.zeros(wanted, array.dtype) for array in self.deps]

    def column(self, name: str) -> NDArray[Any]:
        """A column of all batches; one that no node has takes no memory."""
        kept = self.columns.pop(name, None)
        return np.broadcast_to(np.int64(_MISSING[name]), (self.total,)) if kept is None else kept.done()

    def put(self, record: Record, texts: _Texts, at: int, size: int) -> None:
        """Fill the next row from a record that protobuf has decoded."""
        row = self.i64[self.filled]
        inputs = inputs_text(record)
        row[_PLACE["inputs"]] = texts.intern(inputs) if inputs else -1
        row[_PLACE["name"]] = texts.intern(record.name)
        for name in TEXTS:
            value = record.attributes.get(name)
            row[_PLACE[name]] = -1 if value is None else texts.intern(str(value))
        for name in INTEGERS:
            row[_PLACE[name]] = column_value(record.attributes.get(name))
        kinds = stated_kinds(record.attributes)
        lists = (record.ctrl, record.data, kinds)
        for place, values, name in zip(range(3), lists, ("n_ctrl", "n_data", "n_kinds"), strict=True):
            start = int(texts.used[scan.USED_CTRL + place])
            self.deps[place][start : start + len(values)] = np.array(values, self.deps[place].dtype)
            texts.used[scan.USED_CTRL + place] += len(values)
            row[_PLACE[name]] = len(values) or ABSENT
        row[_PLACE["kind"]], row[_PLACE["offset"]], row[_PLACE["size"]] = record.kind, at, size
        self.u64[self.filled] = np.array([record.id, record.start_us, record.dur_us], np.uint64)
        self.filled += 1


class _Scan:
    """One pass over one file."""

    def __init__(self, source: Source, text: EventText, stream: IO[bytes]) -> None:
        self.source, self.text, self.stream = source, text, stream
        self.failures: list[Exception] = []
        self.blocks = read_blocks(stream, self.failures)
        self.expected = max(1, source.size * (_EXPANSION if source.compression else 1))
        self.buffer = np.zeros(_BUFFER + PADDING, np.uint8)
        self.words = words_of(self.buffer)
        self.base = self.pos = self.end = 0
        self.final = False
        self.texts = _Texts()
        self.rows = _Rows()
        self.bad: list[int] = []
        self.scratch = np.zeros(scan.SCRATCH, np.int64)

    def run(self, decode: Callable[[bytes], Record], *, first_is_node: bool) -> Scanned:
        """Scan to the end."""
        self._fill()
        if not first_is_node:
            start, size = self._frame()
            while start + size > self.end and not self.final and not self._hopeless():
                self._fill()
                start, size = self._frame()
            self.pos = start + size if start + size <= self.end else self.pos
        ends_inside = self._scan(decode)
        end = self.base + self.pos
        while not self.final:
            self.pos = self.end
            self._fill()
        return self._scanned(end, ends_inside=ends_inside)

    def _scan(self, decode: Callable[[bytes], Record]) -> bool:
        """Read all records; whether the content ends inside one."""
        texts, rows = self.texts, self.rows
        while True:
            status, self.pos, rows.filled = scan.scan(
                self.buffer, self.words, self.pos, self.end, self.base, rows.filled, rows.i64, rows.u64, *rows.deps,
                texts.table, texts.hashes, texts.spans, texts.arena_words, texts.used, self.scratch,
            )  # fmt: skip
            if status == scan.ODD:
                self._ask(decode)
            elif status == scan.FULL:
                rows.make_room(texts.used, self._share(), self._frame()[1])
            elif status == scan.TABLE_FULL:
                texts.grow()
            elif status == scan.AT_END or self.final or self._hopeless():
                rows.flush(texts.used, self._share())
                return self.pos < self.end
            else:
                self._fill()

    def _ask(self, decode: Callable[[bytes], Record]) -> None:
        """Let protobuf decode the record at the current position."""
        start, size = self._frame()
        try:
            record = decode(self.buffer[start : start + size].tobytes())
        except (DecodeError, ValueError):
            self.bad.append(self.base + start)
        else:
            self.rows.put(record, self.texts, self.base + start, size)
        self.pos = start + size

    def _frame(self) -> tuple[int, int]:
        """Start and size of the record at the current position, as its length prefix claims."""
        size, start = wire.varint(self.buffer, self.pos, min(self.end, self.pos + 10))
        return (int(start), int(size)) if start >= 0 else (self.end + 1, 0)

    def _hopeless(self) -> bool:
        """Whether the record at the current position cannot be in the file, or is too large for any decoder."""
        start, size = self._frame()
        if start > self.end:
            return self.end - self.pos >= 10
        left = None if self.source.compression else self.source.size - self.base - start
        return size > (_MAX_RECORD if left is None else min(left, _MAX_RECORD))

    def _share(self) -> float:
        """How much of the file has been scanned, as far as is known; above 0."""
        return min(1.0, max(self.base + self.pos, 1) / self.expected)

    def _fill(self) -> None:
        """Move what is not yet read to the front and read on; sets ``final`` at the end of the content."""
        left = self.end - self.pos
        if left + max(left, BLOCK) + PADDING > len(self.buffer):  # at least one block more must fit
            grown = np.zeros(2 * len(self.buffer) + BLOCK, np.uint8)
            grown[:left] = self.buffer[self.pos : self.end]
            self.buffer, self.words = grown, words_of(grown)
        else:
            self.buffer[:left] = self.buffer[self.pos : self.end].copy()
        self.base += self.pos
        self.pos, self.end = 0, left
        while not self.final and self.end + BLOCK + PADDING <= len(self.buffer):
            self._take()
        done = self.base + self.end
        self.source.progress(min(0.9, 0.9 * done / self.expected), f"read {done / 1e6:,.0f} MB")

    def _take(self) -> None:
        """Read once, behind what is in the buffer."""
        room = self.buffer.data[self.end : len(self.buffer) - PADDING]
        if not self.source.compression:
            try:
                size = cast("BufferedReader", self.stream).readinto(room)
            except OSError as error:
                self.failures.append(error)
                size = 0
        else:
            data = next(self.blocks, b"")
            self.text.add(data)
            size = len(data)
            room[:size] = data
        self.final = not size
        self.end += size

    def _scanned(self, end: int, *, ends_inside: bool) -> Scanned:
        rows = self.rows
        texts, renumbered = self.texts.listed()
        offsets, sizes = rows.column("offset"), rows.column("size")
        unsigned = [kept.done() for kept in rows.unsigned]
        coded = {name: rows.column(name) for name in ("name", "inputs", *TEXTS)}
        if renumbered is not None:
            coded = {name: renumbered[values] for name, values in coded.items()}
        lists = [_csr(rows.column(name), rows.listed[at]) for at, name in enumerate(("n_ctrl", "n_data", "n_kinds"))]
        table = NodeTable(
            unsigned[scan.ID], coded["name"], rows.column("kind"), unsigned[scan.START_TIME], unsigned[scan.DURATION],
            {name: rows.column(name) for name in INTEGERS}, {name: coded[name] for name in TEXTS}, coded["inputs"],
            *lists[0], *lists[1], *lists[2], texts,
        )  # fmt: skip
        return Scanned(
            table, offsets, sizes, self.bad, len(table) + len(self.bad), end, self.base + self.end, ends_inside,
            self.failures,
        )  # fmt: skip


def _csr(counts: NDArray[Any], values: Growing) -> tuple[I64, NDArray[Any]]:
    ptr = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(np.maximum(counts, 0), out=ptr[1:])
    return ptr, values.done()


def _expected(count: int, share: float) -> int:
    """How many there will be, where ``count`` were found in this share of the file; with room for the estimate's error."""
    return count + min(int((1.05 / share - 1) * count), _MOST_AHEAD)
