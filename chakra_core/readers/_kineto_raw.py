"""From a trace-event file to raw columns: finds the event list, feeds the scanner, keeps what surrounds the events."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakra_core.errors import CorruptTrace
from chakra_core.readers import _kineto_json as js
from chakra_core.readers import _kineto_scan as scan
from chakra_core.readers._kineto_text import BLOCK, EventText, decode_text, loads_tolerant, read_blocks
from chakra_core.readers.base import Source

__all__ = ["RawEvents", "read_events"]

_BUFFER = 8 * 1024 * 1024
_MIN_ROWS = 1 << 16
_EVENT_BYTES = 160
_EXPANSION = 12
_MAX_SURROUNDINGS = 64 * 1024 * 1024


@dataclass
class RawEvents:
    """Every event of a file as it stands there: one array per field, strings as codes into ``strings``."""

    fields: dict[str, NDArray[Any]]
    phases: NDArray[np.uint8]
    sparse: NDArray[np.int64]
    strings: list[str]
    meta: dict[str, Any]
    bare: bool
    text: EventText
    truncated_at: int = -1
    damaged: list[int] = field(default_factory=list)
    meta_damaged: bool = False

    def __len__(self) -> int:
        return len(self.phases)


@dataclass
class _Interner:
    """The strings met so far: hash table, hashes, (offset, length) and bytes."""

    table: NDArray[np.int32] = field(default_factory=lambda: np.full(1 << 14, -1, np.int32))
    hashes: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(1 << 13, np.uint64))
    spans: NDArray[np.int64] = field(default_factory=lambda: np.zeros((1 << 13, 2), np.int64))
    arena: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(1 << 20, np.uint8))
    used: NDArray[np.int64] = field(default_factory=lambda: np.zeros(4, np.int64))

    def arrays(self) -> tuple[NDArray[Any], ...]:
        return self.table, self.hashes, self.spans, self.arena, js.words_of(self.arena)

    def grow(self) -> None:
        """Twice the room for entries where they are the limit, else for bytes."""
        count = int(self.used[0])
        if 2 * (count + 1) >= len(self.spans):
            self.hashes = np.concatenate([self.hashes, np.zeros_like(self.hashes)])
            self.spans = np.concatenate([self.spans, np.zeros_like(self.spans)])
            self.table = np.full(2 * len(self.table), -1, np.int32)
            scan.rehash(self.table, self.hashes, count)
        self.arena = np.concatenate([self.arena, np.zeros_like(self.arena)])

    def strings(self) -> list[str]:
        data = self.arena[: int(self.used[1])].tobytes()
        return [decode_text(data[at : at + size]) for at, size in self.spans[: int(self.used[0])].tolist()]


class _Sink:
    """The arrays the scanner writes to; made for the expected number of events, grown where there are more.

    Pages that nothing is written to cost no memory, so the estimate may be generous.
    """

    def __init__(self, expected_bytes: int) -> None:
        capacity = max(_MIN_ROWS, expected_bytes // _EVENT_BYTES)
        self.i64 = np.empty((len(scan.I64_FIELDS), capacity), np.int64)
        self.i32 = np.empty((len(scan.I32_FIELDS), capacity), np.int32)
        self.phases = np.empty(capacity, np.uint8)
        self.sparse = np.empty((_MIN_ROWS, 3), np.int64)
        self.rows = 0

    def grow(self, triples: int) -> None:
        """Half as much room again for events where they are the limit, else twice for triples."""
        if self.rows < len(self.phases):
            self.sparse = np.concatenate([self.sparse[:triples], np.empty((len(self.sparse), 3), np.int64)])
            return
        capacity = self.rows + self.rows // 2
        for name in ("i64", "i32"):
            old = getattr(self, name)
            new = np.empty((len(old), capacity), old.dtype)
            new[:, : self.rows] = old[:, : self.rows]
            setattr(self, name, new)
        self.phases = np.concatenate([self.phases, np.empty(capacity - self.rows, np.uint8)])

    def fields(self) -> dict[str, NDArray[Any]]:
        """The columns, by name, each a contiguous array."""
        columns: dict[str, NDArray[Any]] = {}
        for names, block in ((scan.I64_FIELDS, self.i64), (scan.I32_FIELDS, self.i32)):
            columns |= {name: block[at, : self.rows] for at, name in enumerate(names)}
        return columns


def read_events(source: Source) -> RawEvents:
    """Read every event of a trace-event file.

    Raises:
        CorruptTrace: there is no event list in it.
    """
    return _Reading(source).run()


class _Reading:
    """One pass over one file."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = EventText(source.path, compressed=bool(source.compression))
        self.expected = source.size * (_EXPANSION if source.compression else 1)
        self.buffer = np.empty(_BUFFER, np.uint8)
        self.words = js.words_of(self.buffer)
        self.base = 0
        self.pos = 0
        self.end = 0
        self.final = False
        self.failures: list[Exception] = []
        self.interner = _Interner()
        self.sink = _Sink(self.expected)
        self.scratch = np.empty(scan.SCRATCH, np.int64)
        self.damaged: list[int] = []

    def run(self) -> RawEvents:
        with self.source.open() as stream:
            self.blocks = read_blocks(stream, self.failures)
            self._fill()
            bare, head = self._find_events()
            truncated_at = self._scan()
            tail = self._rest() if truncated_at < 0 else b""
        meta, good = _surroundings(head, tail, bare=bare)
        if bare and truncated_at >= 0 and not self.failures and self.pos >= self.end:
            truncated_at = -1  # a bare list may lack its closing bracket
        return RawEvents(
            fields=self.sink.fields(),
            phases=self.sink.phases[: self.sink.rows],
            sparse=self.sink.sparse[: int(self.interner.used[2])],
            strings=self.interner.strings(),
            meta=meta,
            bare=bare,
            text=self.text,
            truncated_at=truncated_at,
            damaged=self.damaged,
            meta_damaged=not good and truncated_at < 0,
        )

    def _fill(self) -> None:
        """Move what is not yet read to the front and read on; sets ``final`` at the end of the file."""
        left = self.end - self.pos
        if left > len(self.buffer) // 2:
            grown = np.empty(2 * len(self.buffer), np.uint8)
            grown[:left] = self.buffer[self.pos : self.end]
            self.buffer, self.words = grown, js.words_of(grown)
        else:
            self.buffer[:left] = self.buffer[self.pos : self.end].copy()
        self.base += self.pos
        self.pos, self.end = 0, left
        while self.end + BLOCK + js.PADDING <= len(self.buffer):
            data = next(self.blocks, b"")
            if not data:
                self.final = True
                break
            self.text.add(data)
            self.buffer[self.end : self.end + len(data)] = np.frombuffer(data, np.uint8)
            self.end += len(data)
        done = self.base + self.end
        self.source.progress(min(0.6, 0.6 * done / max(1, self.expected)),
                             f"read {done / 1e6:,.0f} MB")  # fmt: skip

    def _find_events(self) -> tuple[bool, bytes]:
        """Go to the first element of the event list; whether the file is a bare list, and the bytes before it."""
        while True:
            found = _locate(self.buffer, self.words, self.end)
            if found is not None:
                self.pos = found[1]
                return found[0], found[2]
            if self.final or self.end > 16 * _MAX_SURROUNDINGS:
                return self._no_events()
            self._fill()

    def _no_events(self) -> tuple[bool, bytes]:
        data = self.buffer[: self.end].tobytes()
        try:
            meta = loads_tolerant(data)
        except ValueError:
            meta = None
        if isinstance(meta, dict) and not meta.get("traceEvents"):
            self.pos = self.end
            return False, data.rstrip().removesuffix(b"}")
        raise CorruptTrace(f'{self.source.path}: no list of trace events ("traceEvents") could be found in it')

    def _scan(self) -> int:
        """Read all events; -1, or the file offset at which the list breaks off."""
        used = self.interner.used
        while True:
            status, self.pos, self.sink.rows = scan.scan_events(
                self.buffer, self.words, self.pos, self.end, self.base, self.sink.rows, self.sink.i64, self.sink.i32,
                self.sink.phases, self.sink.sparse, *self.interner.arrays(), used, self.scratch,
            )  # fmt: skip
            if status == scan.AT_END:
                return -1
            if status == scan.FULL:
                self.sink.grow(int(used[2]))
            elif status == scan.TABLE_FULL:
                self.interner.grow()
            elif status == scan.BROKEN or (status == scan.NEED_MORE and self.final):
                if not self._resume(status):
                    return self.base + self.pos
            else:
                self._fill()

    def _resume(self, status: int) -> bool:
        """After damage: go to the next event, if any; the damaged one is noted with its place."""
        if self.pos >= self.end:
            return False
        start = self.pos
        at = js.find_resume(self.buffer, self.pos, self.end)
        if at < 0 and not self.final:
            self.pos = max(self.pos, self.end - 4096)
            self._fill()
            at = js.find_resume(self.buffer, self.pos, self.end)
        if at < 0:
            self.pos = start if status == scan.NEED_MORE or start < self.end else self.end
            return False
        self.damaged.append(self.base + start)
        self.pos = at
        return True

    def _rest(self) -> bytes:
        """What follows the event list, as far as it is small enough to be metadata."""
        parts = [self.buffer[self.pos : self.end].tobytes()]
        size = len(parts[0])
        for data in self.blocks:
            self.text.add(data)
            if size < _MAX_SURROUNDINGS:
                parts.append(data)
            size += len(data)
        return b"".join(parts) if size < _MAX_SURROUNDINGS else b""


def _locate(  # noqa: PLR0911 - each return is one way the search ends
    buffer: NDArray[np.uint8], words: NDArray[np.uint64], end: int
) -> tuple[bool, int, bytes] | None:
    """Where the event list starts: ``(bare list, position of its first element, bytes before its key)``."""
    pos = 3 if end >= 3 and buffer[:3].tobytes() == b"\xef\xbb\xbf" else 0
    pos = int(js.skip_space(buffer, pos, end))
    if pos >= end:
        return None
    if buffer[pos] == ord("["):
        return True, pos + 1, b""
    if buffer[pos] != ord("{"):
        return None
    start, pos, complete = pos, pos + 1, True
    while True:
        pos = int(js.skip_space(buffer, pos, end))
        if pos < end and buffer[pos] == ord(","):
            pos = int(js.skip_space(buffer, pos + 1, end))
        if pos >= end or buffer[pos] != ord('"'):
            return None
        after = int(js.skip_string(buffer, words, pos, end))
        colon = int(js.skip_space(buffer, after, end)) if after > 0 else end
        value = int(js.skip_space(buffer, colon + 1, end))
        if value >= end:
            return None
        if buffer[pos:after].tobytes() == b'"traceEvents"' and buffer[value] == ord("["):
            return False, value + 1, buffer[start:pos].tobytes()
        key, pos = pos, int(js.skip_value(buffer, words, value, end, complete))
        if pos <= key:
            return None


def _surroundings(head: bytes, tail: bytes, *, bare: bool) -> tuple[dict[str, Any], bool]:
    """The keys beside the event list, and whether they could be read."""
    if bare:
        return {}, True
    good = True
    meta: dict[str, Any] = {}
    before = head.rstrip().removesuffix(b",")
    after = tail.strip().removeprefix(b",")
    for text in (before + b"}" if before else b"{}", b"{" + after if after else b"{}"):
        try:
            value = loads_tolerant(text)
        except ValueError:
            good = False
            continue
        if isinstance(value, dict):
            meta.update({str(key): entry for key, entry in value.items()})
    return meta, good
