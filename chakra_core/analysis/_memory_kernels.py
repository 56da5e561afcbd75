"""Compiled walks over allocations: which free ends which allocation, and what ran when one was made."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["innermost_at", "match_frees"]

I64 = NDArray[np.int64]


@njit(cache=True, nogil=True)
def match_frees(order: I64, address: I64, change: I64) -> I64:
    """The event that ends each allocation: the next one at its address; -1 where there is none, or for no allocation.

    ``order`` are the events by address, and within one by time. A second allocation at an address whose free was not
    recorded ends the first.
    """
    ended = np.full(len(order), -1, np.int64)
    for at in range(len(order) - 1):
        one, two = order[at], order[at + 1]
        if change[one] > 0 and address[one] == address[two]:
            ended[one] = two
    return ended


@njit(cache=True, nogil=True)
def innermost_at(rows: I64, lane: I64, start: I64, end: I64, events: I64, event_lane: I64, event_ns: I64) -> I64:
    """Row of the innermost node that runs on the event's lane at its time (half-open); -1 where none does.

    ``rows`` are nodes by (lane, start, falling length), ``events`` by (lane, time); the result is parallel to
    ``event_lane``. O(n + m).
    """
    found = np.full(len(event_lane), -1, np.int64)
    stack = np.empty(len(rows) + 1, np.int64)
    depth, at, on = 0, 0, np.int64(-2)
    for event in events:
        if event_lane[event] != on:
            on, depth = event_lane[event], 0
            while at < len(rows) and lane[rows[at]] < on:
                at += 1
        while at < len(rows) and lane[rows[at]] == on and start[rows[at]] <= event_ns[event]:
            while depth > 0 and end[stack[depth - 1]] <= start[rows[at]]:
                depth -= 1
            stack[depth] = rows[at]
            depth += 1
            at += 1
        while depth > 0 and end[stack[depth - 1]] <= event_ns[event]:
            depth -= 1
        if depth > 0:
            found[event] = stack[depth - 1]
    return found
