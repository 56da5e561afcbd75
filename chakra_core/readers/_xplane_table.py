"""An XSpace as tables: for every plane its names, its lines, and the stats of its events as columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from chakra_core.readers._spans import distinct_texts
from chakra_core.readers._xplane_scan import EVENT, KIND, STAT, fields_of, scan_line
from chakra_core.readers.proto import xplane_pb2

__all__ = ["MISSING", "LineInfo", "PlaneTable", "planes_of", "stats_of", "text_of"]

I64 = NDArray[np.int64]

MISSING = int(np.iinfo(np.int64).min)
"""Value of a numeric stat that an event does not have."""

_PLANES, _LINES = 1, 3


def text_of(raw: bytes) -> str:
    """Bytes of the profile as text; what is not UTF-8 is replaced."""
    return raw.decode("utf-8", "replace")


def stats_of(stats: Any, names: Mapping[int, str]) -> dict[str, Any]:
    """Decode a list of XStat: text is decoded, references are followed, the bytes of ``bytes_value`` stay bytes."""
    values: dict[str, Any] = {}
    for stat in stats:
        which = stat.WhichOneof("value")
        if which is None:
            continue
        value = getattr(stat, which)
        if which == "ref_value":
            value = names.get(value, "")
        elif which == "str_value":
            value = text_of(value)
        values[names.get(stat.metadata_id, str(stat.metadata_id))] = value
    return values


@dataclass(frozen=True, slots=True)
class LineInfo:
    """One line: what it is called and when its offsets count from (ns)."""

    name: str
    timestamp_ns: int


@dataclass
class PlaneTable:
    """One plane. ``proto`` is the plane without its lines; ``events`` and ``stats`` are tables (see ``_xplane_scan``)."""

    name: str
    proto: Any
    buffer: NDArray[np.uint8]
    lines: tuple[LineInfo, ...] = ()
    events: I64 = field(default_factory=lambda: np.zeros((0, 6), np.int64))
    stats: I64 = field(default_factory=lambda: np.zeros((0, 5), np.int64))

    @cached_property
    def stat_names(self) -> dict[int, str]:
        """Names of stats by number."""
        return {number: text_of(entry.name) for number, entry in self.proto.stat_metadata.items()}

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The plane's own stats."""
        return stats_of(self.proto.stats, self.stat_names)

    @cached_property
    def kinds(self) -> tuple[list[int], I64]:
        """The distinct metadata ids of events, and which of them each event has."""
        distinct, code = np.unique(self.events[:, EVENT.METADATA], return_inverse=True)
        return distinct.tolist(), code.astype(np.int64)

    @cached_property
    def of_kind(self) -> list[dict[str, Any]]:
        """Stats that all events of each kind share (those of their metadata), parallel to ``kinds``."""
        metadata = self.proto.event_metadata
        return [
            stats_of(metadata[number].stats, self.stat_names) if number in metadata else {} for number in self.kinds[0]
        ]

    def release(self) -> None:
        """Forget the tables and the bytes; what is left serves for attributes."""
        _ = self.stat_names
        self.buffer, self.events, self.stats = np.zeros(0, np.uint8), self.events[:0], self.stats[:0]

    def _rows(self, name: str, kinds: tuple[int, ...]) -> I64:
        numbers = [number for number, known in self.stat_names.items() if known == name]
        if not numbers:
            return self.stats[:0]
        chosen = np.isin(self.stats[:, STAT.ID], numbers) & np.isin(self.stats[:, STAT.KIND], kinds)
        return self.stats[chosen]

    def integers(self, name: str) -> I64:
        """A numeric stat of every event (unsigned values modulo 2**64); MISSING where it has none."""
        shared = [_integer(values.get(name)) for values in self.of_kind]
        found = np.array([*shared, MISSING], np.int64)[self.kinds[1]]
        rows = self._rows(name, (KIND.UNSIGNED, KIND.SIGNED))
        found[rows[:, STAT.EVENT]] = rows[:, STAT.VALUE]
        for row in self._rows(name, (KIND.TEXT,)).tolist():  # some writers put numbers into text
            found[row[STAT.EVENT]] = _integer(self._text(row[STAT.VALUE], row[STAT.STOP]))
        return found

    def texts(self, name: str) -> tuple[tuple[str, ...], I64]:
        """Distinct values of a text stat and which one each event has (-1: none)."""
        shared = [value if isinstance(value := values.get(name), str) else "" for values in self.of_kind]
        rows = self._rows(name, (KIND.TEXT, KIND.REFERENCE))
        spans = rows[rows[:, STAT.KIND] == KIND.TEXT]
        refs = rows[rows[:, STAT.KIND] == KIND.REFERENCE]
        codes, written = distinct_texts(self.buffer, spans[:, STAT.VALUE], spans[:, STAT.STOP])
        numbers, which = np.unique(refs[:, STAT.VALUE], return_inverse=True)
        named = [self.stat_names.get(number, "") for number in numbers.tolist()]
        place: dict[str, int] = {}
        of_shared, of_written, of_named = (
            np.array([place.setdefault(text, len(place)) if text else -1 for text in part] or [-1], np.int64)
            for part in (shared, written, named)
        )
        found = of_shared[self.kinds[1]] if len(self.events) else np.zeros(0, np.int64)
        found[spans[:, STAT.EVENT]] = of_written[codes]
        found[refs[:, STAT.EVENT]] = of_named[which]
        return tuple(place), found

    def _text(self, start: int, stop: int) -> str:
        return text_of(self.buffer[start:stop].tobytes())


def _integer(value: Any) -> int:
    if isinstance(value, str):
        value = int(value) if value.removeprefix("-").isdecimal() and len(value) < 19 else None
    if not isinstance(value, int) or isinstance(value, bool):
        return MISSING
    return (value + 2**63) % 2**64 - 2**63


def planes_of(buffer: NDArray[np.uint8], size: int) -> tuple[Any, Iterator[PlaneTable], int]:
    """The space without its planes, its planes one after the other, and where it stops making sense (-1: nowhere).

    The iterator raises ``DecodeError`` at a plane that is damaged inside.
    """
    table, stopped = fields_of(buffer, 0, size)
    is_plane = (table[:, 0] == _PLANES) & (table[:, 1] == 2)
    space = xplane_pb2.XSpace()
    space.ParseFromString(_without(buffer, table[~is_plane]))
    planes = (_plane(buffer, start, stop) for start, stop in table[is_plane][:, 2:4].tolist())
    return space, planes, -1 if stopped == size else stopped


def _without(buffer: NDArray[np.uint8], fields: I64) -> bytes:
    """The bytes of these fields."""
    return b"".join(buffer[start:stop].tobytes() for start, stop in fields[:, 4:6].tolist())


def _plane(buffer: NDArray[np.uint8], start: int, stop: int) -> PlaneTable:
    table, stopped = fields_of(buffer, start, stop)
    if stopped != stop:
        raise DecodeError(f"a plane is damaged at byte {stopped:,}")
    is_line = (table[:, 0] == _LINES) & (table[:, 1] == 2)
    proto = xplane_pb2.XPlane()
    proto.ParseFromString(_without(buffer, table[~is_line]))
    lines: list[LineInfo] = []
    events, stats = [np.zeros((0, 6), np.int64)], [np.zeros((0, 5), np.int64)]
    count = 0
    for begin, end in table[is_line][:, 2:4].tolist():
        found = scan_line(buffer, begin, end, len(lines))
        if found is None:
            raise DecodeError(f"a line is damaged between byte {begin:,} and {end:,}")
        found[1][:, STAT.EVENT] += count
        count += len(found[0])
        events.append(found[0])
        stats.append(found[1])
        lines.append(_line_info(buffer, begin, end))
    return PlaneTable(text_of(proto.name), proto, buffer, tuple(lines), np.concatenate(events), np.concatenate(stats))


def _line_info(buffer: NDArray[np.uint8], start: int, end: int) -> LineInfo:
    """The header of a line: all of its fields but the events."""
    table, _ = fields_of(buffer, start, end)
    line = xplane_pb2.XLine()
    line.ParseFromString(_without(buffer, table[(table[:, 0] != 4) | (table[:, 1] != 2)]))
    return LineInfo(text_of(line.display_name) or text_of(line.name), line.timestamp_ns)
