"""Allocations that TensorFlow's and XLA's allocators report to the profiler (``MemoryAllocation`` and its opposite)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chakra_core.memory_events import MemoryEvents
from chakra_core.readers._xplane_events import Events, Texts
from chakra_core.readers._xplane_table import MISSING, PlaneTable

__all__ = ["memory_of"]

I64 = NDArray[np.int64]

_SIGN = {"MemoryAllocation": 1, "MemoryDeallocation": -1}


def memory_of(plane: PlaneTable, events: Events, names: Texts) -> MemoryEvents:
    """Allocations and frees of a host plane, times as in ``events`` (all events of that plane)."""
    sign = np.array([*(_SIGN.get(name, 0) for name in names.all), 0], np.int64)[events.name]
    rows = np.flatnonzero(sign)
    place, places = _places(plane, rows)
    size, total, held, address = (
        plane.integers(stat)[rows] if len(rows) else np.zeros(0, np.int64)
        for stat in ("allocation_bytes", "bytes_allocated", "bytes_reserved", "addr")
    )
    return MemoryEvents(
        ts_ns=events.start[rows],
        bytes=np.where(size == MISSING, 0, size) * sign[rows],
        address=np.where(address == MISSING, -1, address),
        allocated=np.maximum(total, -1),
        reserved=np.where(held > 0, held, -1),  # allocators that do not reserve write 0
        place=place,
        lane=events.lane[rows].astype(np.int32),
        node=np.full(len(rows), -1, np.int32),
        places=places,
    )


def _places(plane: PlaneTable, rows: I64) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """The memory of each event: its allocator by name; where that is not told (TPU), the device by its number."""
    if not len(rows):
        return np.zeros(0, np.int32), ()
    allocators, which = plane.texts("allocator_name")
    pairs, place = np.unique(
        np.stack([which[rows], plane.integers("index_on_host")[rows]]), axis=1, return_inverse=True
    )
    return place.reshape(-1).astype(np.int32), tuple(_name(allocators, *pair) for pair in pairs.T.tolist())


def _name(allocators: tuple[str, ...], which: int, device: int) -> str:
    number = "" if device == MISSING else f"device {device}"
    return f"{allocators[which]} {number}".rstrip() if which >= 0 else number or "unnamed allocator"
