"""What TensorFlow's step statistics say of memory: the allocations and frees that each operator made, by allocator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from chakra_core.memory_events import MemoryEvents
from chakra_core.readers._xplane_table import text_of

__all__ = ["memory_of_steps"]


def memory_of_steps(
    devices: Sequence[str], nodes: Sequence[tuple[int, Any]], lanes: Sequence[int]
) -> MemoryEvents | None:
    """The allocation records of all nodes, in order of time; None where there is none.

    Records have no address: in those of one operator and allocator the k-th free of a size ends the k-th allocation of
    that size.

    Args:
        devices: name of each device of the step statistics.
        nodes: device number and ``NodeExecStats`` of each row.
        lanes: lane of each row.
    """
    found: list[tuple[int, int, int, int, int, int]] = []
    places: dict[str, int] = {}
    numbers: dict[tuple[int, int, int, int], int] = {}
    for row, (device, node) in enumerate(nodes):
        for used in node.memory:
            short = devices[device].rpartition("/device:")[2]
            place = places.setdefault(f"{short} {text_of(used.allocator_name)}", len(places))
            seen: dict[int, int] = {}
            for record in used.allocation_records:
                change = record.alloc_bytes
                nth = seen[change] = seen.get(change, -1) + 1
                number = numbers.setdefault((row, place, abs(change), nth), len(numbers))
                found.append((record.alloc_micros * 1000, change, number, place, lanes[row], row))
    if not found:
        return None
    table = np.array(found, np.int64)
    table = table[np.argsort(table[:, 0], kind="stable")]
    unknown = np.full(len(table), -1, np.int64)
    return MemoryEvents(
        ts_ns=table[:, 0], bytes=table[:, 1], address=table[:, 2], allocated=unknown, reserved=unknown,
        place=table[:, 3].astype(np.int32), lane=table[:, 4].astype(np.int32), node=table[:, 5].astype(np.int32),
        places=tuple(places),
    )  # fmt: skip
