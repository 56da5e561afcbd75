"""Level of detail for the timeline: rows of non-overlapping events, and the rectangles that show a window of them.

A ``Layout`` is built once per trace. Its rows are (lane, depth): nested host stacks become flame rows, events that
overlap in part get rows of their own, nothing is dropped. ``query`` answers a window with a bounded number of
rectangles; what is at least a pixel wide is there exactly, what is shorter is summed up with its longest event, the
number of events and the category with the most time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakra_core import lod_kernels as kernels
from chakra_core.errors import AnalysisError
from chakra_core.schema import NO_TIME, Domain, LaneKind
from chakra_core.trace import Lane, Trace

__all__ = ["CAP", "Hits", "LaneRows", "Layout", "Rects", "build", "busy", "find", "query"]

CAP = 4000
"""Most rectangles a query answers with."""

_FACTORS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256)
_LAST = 2**62

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LaneRows:
    """A lane's place in a layout: its index in ``Trace.lanes`` (-1: nodes on no lane), first row, rows, events."""

    lane: int
    first: int
    rows: int
    events: int


@dataclass(frozen=True, eq=False)
class Layout:
    """The rows of one trace's timeline.

    ``node``, ``start``, ``dur`` and ``category`` (length m) are the timed events, row after row, by start within a
    row; ``row_ptr`` (rows + 1) delimits the rows, ``crowded`` marks those whose events may overlap. ``peaks``,
    ``levels`` and ``mass`` are the pyramid of ``lod_kernels``. Times are absolute ns.
    """

    lanes: tuple[LaneRows, ...]
    row_ptr: I64
    crowded: NDArray[np.bool_]
    node: I32
    start: I64
    dur: I64
    category: NDArray[np.int8]
    peaks: I64
    levels: I64
    mass: I64

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.row_ptr) - 1

    def lane_of(self, row: int) -> LaneRows:
        """The lane that a row belongs to.

        Raises:
            IndexError: the layout has no such row.
        """
        for lane in self.lanes:
            if lane.first <= row < lane.first + lane.rows:
                return lane
        raise IndexError(row)

    def place(self, trace: Trace, node: int) -> tuple[int, int] | None:
        """Where a node (row of the trace this was built from) is: (row, index of the event); None if untimed."""
        start, lane = int(trace.columns.start_ns[node]), int(trace.columns.lane[node])
        home = next((entry for entry in self.lanes if entry.lane == max(lane, -1)), None)
        if start == NO_TIME or home is None:
            return None
        for row in range(home.first, home.first + home.rows):
            low, high = int(self.row_ptr[row]), int(self.row_ptr[row + 1])
            first, last = (low + int(k) for k in _equal_range(self.start[low:high], start))
            hit = np.flatnonzero(self.node[first:last] == node)
            if len(hit):
                return row, first + int(hit[0])
        return None

    def event_at(self, row: int, time: int) -> int:
        """Index of the event of a row that covers ``time`` (or has no duration and is there); -1 if none."""
        low, high = int(self.row_ptr[row]), int(self.row_ptr[row + 1])
        at = low + int(np.searchsorted(self.start[low:high], time, side="right")) - 1
        if at < low:
            return -1
        covers = self.start[at] + self.dur[at] > time or self.start[at] == time
        return at if covers else -1

    def neighbour(self, row: int, event: int, step: int) -> int:
        """Index of the next (``step`` 1) or previous (-1) event of the row; -1 at its ends."""
        at = event + step
        return at if self.row_ptr[row] <= at < self.row_ptr[row + 1] else -1


def _equal_range(sorted_: I64, value: int) -> tuple[Any, Any]:
    return np.searchsorted(sorted_, value, side="left"), np.searchsorted(sorted_, value, side="right")


@dataclass(frozen=True, slots=True)
class Rects:
    """What to draw, as parallel arrays (int64 unless said), grouped by layout in the order given.

    ``layout`` index of the layout, ``row`` its row, ``start``/``end`` ns, ``node`` row of the (longest) node, ``count``
    events summed up (1: exact), ``category`` of the event or the one with the most time, ``busy`` summed duration.
    Events of at least ``exact_ns`` are all rectangles of their own; shorter ones are summed per ``bin_ns``.
    ``events`` is how many the window holds.
    """

    layout: I64
    row: I64
    start: I64
    end: I64
    node: I64
    count: I64
    category: I64
    busy: I64
    exact_ns: int
    bin_ns: int
    events: int

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True, slots=True)
class Hits:
    """Nodes found by name: rows of the trace by start time (int64), cut at the limit, and how many there are."""

    nodes: I64
    total: int


def build(trace: Trace) -> Layout:
    """Lay a trace out: every node with a start time gets a row; n log n, about 0.3 µs per event."""
    c = trace.columns
    timed = np.flatnonzero(c.start_ns != NO_TIME)
    start, dur = c.start_ns[timed], c.dur_ns[timed]
    order = np.argsort(start, kind="stable")
    kernels.sort_ties(order, start, dur)
    place = _lane_places(trace)[np.maximum(c.lane[timed], -1)]
    order = order[kernels.bucket_order(place[order], len(trace.lanes) + 1)]
    place, start, dur, node = place[order], start[order], dur[order], timed[order]
    bounds = np.searchsorted(place, np.arange(len(trace.lanes) + 2))
    depth = np.zeros(len(node), np.int32)
    used = np.zeros(len(bounds) - 1, np.int64)
    kernels.assign_depths(bounds, start, start + dur, depth, used)
    base = np.concatenate(([0], np.cumsum(used)))
    row = base[:-1][place] + depth
    order = kernels.bucket_order(row, int(base[-1]))
    row_ptr = np.concatenate(([0], np.cumsum(np.bincount(row, minlength=int(base[-1]))))).astype(np.int64)
    lanes = tuple(
        LaneRows(lane, int(base[at]), int(used[at]), int(bounds[at + 1] - bounds[at]))
        for at, lane in enumerate(_lane_order(trace))
        if used[at]
    )
    crowded = np.zeros(int(base[-1]), np.bool_)
    for lane in lanes:
        crowded[lane.first + lane.rows - 1] = lane.rows == kernels.MAX_DEPTH
    node, dur = node[order], dur[order]
    category = c.category[node]
    levels = _levels(len(node))
    return Layout(
        lanes=lanes,
        row_ptr=row_ptr,
        crowded=crowded,
        node=node.astype(np.int32),
        start=start[order],
        dur=dur,
        category=category,
        peaks=kernels.peak_pyramid(dur, levels),
        levels=levels,
        mass=kernels.category_mass(dur, category),
    )


def _lane_order(trace: Trace) -> list[int]:
    """Lanes as they are listed: annotations, threads, resources, then streams; -1 (no lane) last."""
    rank = {LaneKind.ANNOTATION: 0, LaneKind.THREAD: 1, LaneKind.RESOURCE: 2, LaneKind.STREAM: 3}

    def key(at: int) -> tuple[int, int, str, int, int]:
        lane: Lane = trace.lanes[at]
        return int(lane.domain == Domain.DEVICE), lane.device, lane.process, rank[lane.kind], at

    return [*sorted(range(len(trace.lanes)), key=key), -1]


def _lane_places(trace: Trace) -> I64:
    """Position in the order by lane index; the last entry (index -1) is that of nodes on no lane."""
    order = _lane_order(trace)
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return places


def _levels(n: int) -> I64:
    """Where each level of the pyramid over ``n`` events begins in ``peaks``."""
    bounds, size = [0], n
    while True:
        size = (size + kernels.BLOCK - 1) // kernels.BLOCK
        bounds.append(bounds[-1] + size)
        if size <= 1:
            return np.array(bounds, np.int64)


def query(
    layouts: Sequence[Layout], rows: Sequence[NDArray[Any]], t0: int, t1: int, width: int, *, cap: int = CAP
) -> Rects:
    """The rectangles that show [t0, t1) on ``width`` pixels, at most ``cap`` of them.

    Args:
        layouts: one per trace.
        rows: for each layout, the rows that are visible.
        t0: start of the window, absolute ns.
        t1: its end.
        width: pixels it is drawn on.
        cap: most rectangles. Where more events are a pixel wide than fit, ``exact_ns`` grows by doubling.

    Raises:
        AnalysisError: the window is empty, the width not positive, or there are more rows than rectangles.
    """
    if not (t0 < t1 and width > 0):
        raise AnalysisError(f"window {t0}..{t1} on {width} px: the end must be after the start, the width positive")
    wanted = [np.asarray(entry, np.int64) for entry in rows]
    if sum(len(entry) for entry in wanted) > cap:
        raise AnalysisError(f"more than {cap} rows asked for at once: collapse lanes or scroll")
    low = [np.empty(len(entry), np.int64) for entry in wanted]
    high = [np.empty(len(entry), np.int64) for entry in wanted]
    for layout, entry, lo, hi in zip(layouts, wanted, low, high, strict=True):
        if len(entry):
            kernels.window_bounds(entry, layout.row_ptr, layout.crowded, layout.start, layout.dur, t0, t1, lo, hi)
    least, bin_ns, total = _resolution(layouts, low, high, max(-((t0 - t1) // width), 1), cap)
    out = np.empty((total, 7), np.int64)
    which = np.empty(total, np.int64)
    at = 0
    for k, (layout, entry, lo, hi) in enumerate(zip(layouts, wanted, low, high, strict=True)):
        if not len(entry):
            continue
        wrote = kernels.fill_rectangles(
            entry, lo, hi, layout.start, layout.dur, layout.category, layout.peaks, layout.levels, layout.mass,
            least, bin_ns, out[at:],
        )  # fmt: skip
        which[at : at + wrote] = k
        out[at : at + wrote, 3] = layout.node[out[at : at + wrote, 3]]
        at += wrote
    events = sum(int((hi - lo).sum()) for lo, hi in zip(low, high, strict=True))
    row, start, end, node, count, category, spent = out.T
    return Rects(which, row, start, end, node, count, category, spent, least, bin_ns, events)


def _resolution(
    layouts: Sequence[Layout], low: list[I64], high: list[I64], pixel: int, cap: int
) -> tuple[int, int, int]:
    """Shortest duration drawn exactly, bin of the others, and how many rectangles that makes (at most ``cap``)."""

    def count(least: int, bin_ns: int) -> int:
        total = 0
        for layout, lo, hi in zip(layouts, low, high, strict=True):
            if len(lo) and total <= cap:
                total += kernels.count_rectangles(
                    lo, hi, layout.start, layout.dur, layout.peaks, layout.levels, least, bin_ns, cap - total
                )
        return total

    least = pixel
    while count(least, _LAST) > cap:
        least *= 2
    low_at, high_at = 0, len(_FACTORS)  # the finest bin that fits; beyond the factors: all between two exact ones
    while low_at < high_at:
        middle = (low_at + high_at) // 2
        if count(least, min(least * _FACTORS[middle], _LAST)) <= cap:
            high_at = middle
        else:
            low_at = middle + 1
    bin_ns = min(least * _FACTORS[low_at], _LAST) if low_at < len(_FACTORS) else _LAST
    return least, bin_ns, count(least, bin_ns)


def find(layout: Layout, trace: Trace, text: str, *, limit: int | None = None) -> Hits:
    """Timed nodes whose name contains ``text`` (case ignored), by start time; at most ``limit`` of them."""
    wanted = text.casefold()
    match = np.fromiter((wanted in name.casefold() for name in trace.names), np.bool_, len(trace.names))
    if not match.any():
        return Hits(np.zeros(0, np.int64), 0)
    events = np.flatnonzero(match[trace.columns.name[layout.node]])
    order = np.lexsort((layout.node[events], layout.start[events]))
    return Hits(layout.node[events[order[:limit]]].astype(np.int64), len(events))


def busy(layout: Layout, rows: Sequence[int], t0: int, t1: int, bins: int, group: Sequence[int]) -> I64:
    """Time (ns) the events of the rows take per bin and group: the overview strip.

    Args:
        layout: of one trace.
        rows: which rows of it.
        t0: start of the first bin, absolute ns.
        t1: end of the last.
        bins: how many.
        group: for each of 16 category codes the group it counts in; -1 for none.

    Returns:
        int64 of shape (bins, highest group + 1).
    """
    bin_ns = max(-((t0 - t1) // bins), 1)
    groups = np.asarray(group, np.int64)
    total = np.zeros((bins, int(groups.max()) + 1), np.int64)
    for row in rows:
        begin, stop = int(layout.row_ptr[row]), int(layout.row_ptr[row + 1])
        kernels.busy_bins(layout.start, layout.dur, layout.category, begin, stop, t0, bin_ns, groups, total)
    return total
