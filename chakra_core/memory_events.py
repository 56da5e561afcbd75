"""Allocations and frees as a trace records them: moments that are no nodes, as columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["MEMORY_COLUMNS", "MemoryEvents"]

I64 = NDArray[np.int64]

MEMORY_COLUMNS: tuple[str, ...] = ("ts_ns", "bytes", "address", "allocated", "reserved", "place", "lane", "node")
"""The columns of ``MemoryEvents``, in order."""


@dataclass(frozen=True, slots=True)
class MemoryEvents:
    """Allocations (``bytes`` > 0) and frees (< 0), parallel arrays in the order of the file.

    Attributes:
        ts_ns: int64, absolute.
        bytes: int64, what is allocated or, negative, freed; 0 where the trace states totals only.
        address: int64, what tells an allocation from others that live at the same time; -1 unknown.
        allocated: int64, bytes in use after the event, those from before the trace included; -1 unknown.
        reserved: int64, bytes that the allocator holds after the event; -1 unknown.
        place: int32, index into ``places``.
        lane: int32, the thread, index into ``Trace.lanes``; -1 unknown.
        node: int32, row of the node that the trace says it belongs to; -1 where only time and thread tell.
        places: names of the memories, e.g. ``cuda:0``, ``cpu``, or of the allocators.
    """

    ts_ns: I64
    bytes: I64
    address: I64
    allocated: I64
    reserved: I64
    place: NDArray[np.int32]
    lane: NDArray[np.int32]
    node: NDArray[np.int32]
    places: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.ts_ns)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The columns by name."""
        return {name: getattr(self, name) for name in MEMORY_COLUMNS}

    @classmethod
    def of(cls, arrays: dict[str, NDArray[Any]], places: tuple[str, ...]) -> MemoryEvents:
        """From what ``arrays`` gave."""
        return cls(**{name: arrays[name] for name in MEMORY_COLUMNS}, places=places)

    @classmethod
    def joined(cls, parts: list[MemoryEvents]) -> MemoryEvents | None:
        """The events of all parts, places by name; None where there is none."""
        parts = [part for part in parts if len(part)]
        if not parts:
            return None
        places = tuple(dict.fromkeys(name for part in parts for name in part.places))
        number = {name: at for at, name in enumerate(places)}
        renamed = [np.array([number[name] for name in part.places], np.int32)[part.place] for part in parts]
        arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in MEMORY_COLUMNS}
        return cls.of({**arrays, "place": np.concatenate(renamed)}, places)
