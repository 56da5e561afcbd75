"""The profiler's ``[memory]`` instants: allocations and frees with totals and addresses (``profile_memory=True``)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from chakra_core.memory_events import MemoryEvents
from chakra_core.readers._kineto_link import lookup, sparse_of
from chakra_core.readers._kineto_nodes import Nodes, track_of
from chakra_core.readers._kineto_raw import RawEvents
from chakra_core.readers._kineto_scan import Key

__all__ = ["memory_events"]

I64 = NDArray[np.int64]

_NAME = "[memory]"
_SCALE = 1_000_000
_DEVICES: Mapping[int, str] = MappingProxyType(
    {0: "cpu", 1: "cuda", 6: "hip", 9: "xla", 12: "xpu", 13: "mps", 15: "hpu", 19: "mtia", 20: "privateuse1"}
)
"""PyTorch's ``c10::DeviceType`` (c10/core/DeviceType.h) by number, as far as profilers write them."""


def memory_events(raw: RawEvents, nodes: Nodes, instants: I64, base_ns: int) -> MemoryEvents | None:
    """Allocations and frees among the instants, in order of time; None where there is none."""
    if _NAME not in raw.strings:
        return None
    events = instants[raw.fields["name"][instants] == raw.strings.index(_NAME)]
    events = events[np.argsort(raw.fields["ts"][events], kind="stable")]
    if not len(events):
        return None
    total = _of(raw, Key.NUMBER, events)
    kind, number = _of(raw, Key.DEVICE_TYPE, events), _of(raw, Key.DEVICE_ID, events)
    pairs, place = np.unique(np.stack([kind, number]), axis=1, return_inverse=True)
    tracks, which = np.unique(track_of(raw, events), return_inverse=True)
    lanes = np.array([nodes.lane_of_track.get(track, -1) for track in tracks.tolist()], np.int32)
    return MemoryEvents(
        ts_ns=raw.fields["ts"][events] + base_ns,
        bytes=_of(raw, Key.CHANGE, events, 0),
        address=_of(raw, Key.ADDRESS, events),
        allocated=np.where(total >= 0, total // _SCALE, -1),
        reserved=_of(raw, Key.RESERVED, events),
        place=place.reshape(-1).astype(np.int32),
        lane=lanes[which],
        node=np.full(len(events), -1, np.int32),
        places=tuple(_place(*pair) for pair in pairs.T.tolist()),
    )


def _of(raw: RawEvents, key: int, events: I64, missing: int = -1) -> I64:
    """A rare argument of each event."""
    rows, values = sparse_of(raw, key)
    at = lookup(rows, np.arange(len(rows)), events)
    return np.where(at >= 0, values[at], missing) if len(rows) else np.full(len(events), missing, np.int64)


def _place(kind: int, number: int) -> str:
    name = _DEVICES.get(kind, f"device type {kind}" if kind >= 0 else "unknown")
    return f"{name}:{number}" if number >= 0 and kind != 0 else name
