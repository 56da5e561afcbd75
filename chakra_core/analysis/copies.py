"""Copies by direction: how many, how many bytes, how long, and at which bandwidth against what the hardware gives.

Direction and kind of host memory come from the name that the driver's trace gives the copy (``Memcpy HtoD (Pinned ->
Device)``). Bandwidth is the bytes of the copies whose size is stated over their summed time. It is held against the
link between host and device, between devices of a domain, or, within a device, half of its memory bandwidth, as every
byte is read and written. Fills (memsets) write only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakra_core.analysis.scope import WHOLE, Scope, clip_rows
from chakra_core.hardware import lookup
from chakra_core.hardware.model import Device
from chakra_core.schema import Category
from chakra_core.trace import Trace

__all__ = ["DIRECTIONS", "CopyClass", "copies", "copy_kind", "copy_records"]

I64 = NDArray[np.int64]

DIRECTIONS: tuple[str, ...] = ("HtoD", "DtoH", "DtoD", "PtoP", "HtoH", "fill", "not told")
"""Host to device, device to host, within a device, between devices, within the host, memset, no direction in the name."""

_SHORT = re.compile(r"(?:^|[^a-z]|memcpy)([hdap])(?:to|2)([hdap])(?![a-z])", re.IGNORECASE)
_LONG = re.compile(r"(host|device|peer)\s*to\s*(host|device|peer)", re.IGNORECASE)
_MEMORY = re.compile(r"\b(pinned|pageable|managed)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CopyClass:
    """Copies of one direction and kind of host memory.

    Attributes:
        direction: one of ``DIRECTIONS``.
        host_memory: ``pinned``, ``pageable``, ``managed`` or "" where the trace does not tell.
        count, unsized: copies, and those without a stated size.
        bytes: of the copies with a size.
        total_ns: summed time inside the window.
        bandwidth: B/s over whole copies; None where none has a size and a time.
        limit: B/s that the hardware gives; None unknown.
        limited_by: words for the limit.
        rows: int64, the copies.
    """

    direction: str
    host_memory: str
    count: int
    unsized: int
    bytes: int
    total_ns: int
    bandwidth: float | None
    limit: float | None
    limited_by: str
    rows: I64


def copy_kind(name: str) -> tuple[str, str]:
    """Direction and kind of host memory that a copy's name tells.

    >>> copy_kind("Memcpy HtoD (Pinned -> Device)"), copy_kind("CopyDeviceToDevice"), copy_kind("copy.12")
    (('HtoD', 'pinned'), ('DtoD', ''), ('not told', ''))
    """
    memory = _MEMORY.search(name)
    kind = memory[1].lower() if memory else ""
    if re.search(r"\b(?:peer|p)\s*(?:to|2)\s*(?:peer|p)\b|peertopeer|memcpypeer", name, re.IGNORECASE):
        return "PtoP", kind
    found = _LONG.search(name) or _SHORT.search(name)
    if found is None:
        return "not told", kind
    direction = f"{found[1][0].upper()}to{found[2][0].upper()}".replace("A", "D")
    return (direction if direction in DIRECTIONS else "not told"), kind


def copies(trace: Trace, scope: Scope = WHOLE) -> tuple[CopyClass, ...]:
    """Copies and fills of the devices in a scope, most time first. O(n)."""
    c = trace.columns
    kinds = np.isin(c.category[trace.device_rows], (Category.COPY, Category.MEMSET))
    inside = clip_rows(trace, trace.device_rows[kinds], scope)
    if not len(inside):
        return ()
    codes, of_name = np.unique(c.name[inside.rows], return_inverse=True)
    told = [copy_kind(trace.names[code]) for code in codes.tolist()]
    words = [*told, ("fill", "")]
    distinct = sorted(set(words))
    number = np.array([distinct.index(one) for one in words], np.int64)
    fills = c.category[inside.rows] == Category.MEMSET
    of = np.where(fills, number[-1], number[of_name.reshape(-1)])
    device = lookup(trace.meta.hardware)
    found = []
    for at in np.unique(of).tolist():
        mine = inside.at(np.flatnonzero(of == at))
        size, dur = c.bytes_accessed[mine.rows], c.dur_ns[mine.rows]
        sized = size >= 0
        moved, time = int(size[sized].sum()), int(dur[sized].sum())
        limit, by = _limit(device, distinct[at][0])
        by = by if limit is not None else ""
        found.append(
            CopyClass(
                direction=distinct[at][0], host_memory=distinct[at][1], count=len(mine.rows), unsized=int((~sized).sum()), bytes=moved,
                total_ns=int((mine.end_ns - mine.start_ns).sum()),
                bandwidth=moved * 1e9 / time if time and moved else None, limit=limit, limited_by=by, rows=mine.rows,
            )
        )  # fmt: skip
    return tuple(sorted(found, key=lambda one: (-one.total_ns, one.direction, one.host_memory)))


def _limit(device: Device | None, direction: str) -> tuple[float | None, str]:
    if device is None:
        return None, ""
    if direction in ("HtoD", "DtoH"):
        return device.host_link_bandwidth, "host link"
    if direction == "PtoP":
        return device.link_bandwidth, "links between devices"
    if direction == "DtoD":
        return device.memory_bandwidth / 2, "half of the memory bandwidth"
    return (device.memory_bandwidth, "memory bandwidth") if direction == "fill" else (None, "")


def copy_records(trace: Trace, scope: Scope = WHOLE) -> list[dict[str, Any]]:
    """Copies as plain dictionaries; None is *not known*."""
    return [
        {
            "direction": one.direction, "host_memory": one.host_memory or None, "count": one.count,
            "bytes": one.bytes, "without_size": one.unsized, "total_ns": one.total_ns,
            "gbps": None if one.bandwidth is None else one.bandwidth / 1e9,
            "limit_gbps": None if one.limit is None else one.limit / 1e9, "limited_by": one.limited_by or None,
        }
        for one in copies(trace, scope)
    ]  # fmt: skip
