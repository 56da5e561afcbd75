"""What the timeline in the browser is told, as JSON-ready values: rows, windows of rectangles, links, hits, areas.

Rows are numbered through all ranks of a run. Times are integer ns relative to ``Run.origin_ns``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakra_core.analysis.area import area
from chakra_core.errors import ChakraError
from chakra_core.graph import reverse
from chakra_core.intervals import merge
from chakra_core.lod import CAP, LaneRows, Layout, build, busy, find, query
from chakra_core.schema import COMPUTE_CATEGORIES, Category, Domain, EdgeKind
from chakra_core.trace import Edges, Run, Trace
from dashboard.library import LoadedRun
from dashboard.nodes import nodes_in
from dashboard.theme import CATEGORY_COLOURS
from dashboard.words import plain

__all__ = ["Rows", "describe", "hits", "links", "marked", "rows_of", "step", "sums", "window"]

OVERVIEW_BINS = 600
OVERVIEW_GROUPS = ("compute", "communication", "memory", "host")
_NAME = 200
_MOST_LINKS = 60
_DEEP = 12
"""Rows of a host thread that are looked at for the overview strip."""


@dataclass(frozen=True, eq=False)
class Rows:
    """The layouts of a run's traces, and the number of the first row of each (one more at the end)."""

    run: Run
    layouts: tuple[Layout, ...]
    first: tuple[int, ...]

    def split(self, wanted: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Row numbers by trace, as rows of each layout."""
        return [
            wanted[(wanted >= low) & (wanted < high)] - low
            for low, high in zip(self.first[:-1], self.first[1:], strict=True)
        ]

    def event(self, at: int, node: int) -> dict[str, Any] | None:
        """A node of the ``at``-th trace as the browser knows it; None where it has no place in time."""
        trace = self.run.traces[at]
        place = self.layouts[at].place(trace, node)
        if place is None:
            return None
        c = trace.columns
        return {
            "rank": self.run.ranks[at],
            "node": node,
            "row": self.first[at] + place[0],
            "x": int(c.start_ns[node]) - self.run.origin_ns,
            "d": int(c.dur_ns[node]),
            "c": int(c.category[node]),
            "name": plain(trace.name_of(node), _NAME),
        }


def rows_of(loaded: LoadedRun) -> Rows:
    """The rows of a run, laid out on first use."""

    def compute(run: Run) -> Rows:
        layouts = loaded.store.layouts(run, _laid_out) if loaded.store else _laid_out(run)
        first = np.concatenate(([0], np.cumsum([layout.rows for layout in layouts])))
        return Rows(run, layouts, tuple(int(row) for row in first))

    return loaded.result("lod", compute)


def _laid_out(run: Run) -> tuple[Layout, ...]:
    return tuple(build(trace) for trace in run.traces)


def describe(loaded: LoadedRun) -> dict[str, Any]:
    """Ranks, lanes, categories, span and overview of a run: what the page needs before any window."""
    rows = rows_of(loaded)
    run = rows.run
    return {
        "label": plain(run.label, _NAME),
        "time_kind": str(run.time_kind),
        "span": run.span_ns,
        "rows": rows.first[-1],
        "categories": [
            {"code": int(code), "label": code.label, "colour": colour} for code, colour in CATEGORY_COLOURS.items()
        ],
        "ranks": [_rank(rows, at) for at in range(len(run.traces))],
        "overview": loaded.result("lod-overview", lambda _: _overview(rows)),
    }


def _rank(rows: Rows, at: int) -> dict[str, Any]:
    trace, layout = rows.run.traces[at], rows.layouts[at]
    return {
        "rank": rows.run.ranks[at],
        "hardware": plain(trace.meta.hardware, _NAME),
        "time_kind": str(trace.meta.time_kind),
        "lanes": [_lane(rows, at, trace, lane) for lane in layout.lanes],
        "untimed": len(trace) - len(layout.node),
    }


def _lane(rows: Rows, at: int, trace: Trace, place: LaneRows) -> dict[str, Any]:
    shared = {"row": rows.first[at] + place.first, "rows": place.rows, "events": place.events}
    if place.lane < 0:
        return {"name": "on no lane", "process": "", "domain": "host", "device": -1, **shared}
    lane = trace.lanes[place.lane]
    return {
        "name": plain(lane.name, _NAME), "process": plain(lane.process, _NAME), "domain": lane.domain.name.lower(),
        "device": lane.device, **shared,
    }  # fmt: skip


def _groups() -> list[int]:
    """Group of the overview by category code; annotations count in none."""
    group = [-1] * 16
    for code in Category:
        if code in COMPUTE_CATEGORIES:
            group[code] = 0
    group[Category.COMMUNICATION] = 1
    group[Category.COPY] = group[Category.MEMSET] = 2
    group[Category.HOST_OP] = group[Category.RUNTIME] = group[Category.PYTHON] = 3
    return group


def _overview(rows: Rows) -> dict[str, Any]:
    """Time per bin and kind of work over the whole run: of the devices, or of the hosts where there is no device."""
    run = rows.run
    t0, t1 = run.origin_ns, max(run.end_ns, run.origin_ns + 1)
    device = any(_is_device(trace, lane) for trace, layout in _pairs(rows) for lane in layout.lanes)
    total = np.zeros((OVERVIEW_BINS, len(OVERVIEW_GROUPS)), np.int64)
    for trace, layout in _pairs(rows):
        lanes = [lane for lane in layout.lanes if _is_device(trace, lane) == device]
        if device:
            total += busy(layout, [lane.first for lane in lanes], t0, t1, OVERVIEW_BINS, _groups())
            continue
        for lane in lanes:  # operators nest under annotations, at any depth: the busiest of a thread's rows counts
            deep = range(lane.first, lane.first + min(lane.rows, _DEEP))
            total += np.max([busy(layout, [row], t0, t1, OVERVIEW_BINS, _groups()) for row in deep], axis=0)
    scaled = np.round(1000 * total / max(int(total.sum(axis=1).max()), 1)).astype(int)
    return {
        "bin": max(-((t0 - t1) // OVERVIEW_BINS), 1),
        "of": "devices" if device else "hosts",
        "series": {name: scaled[:, at].tolist() for at, name in enumerate(OVERVIEW_GROUPS)},
    }


def _pairs(rows: Rows) -> Sequence[tuple[Trace, Layout]]:
    return list(zip(rows.run.traces, rows.layouts, strict=True))


def _is_device(trace: Trace, lane: LaneRows) -> bool:
    return lane.lane >= 0 and trace.lanes[lane.lane].domain == Domain.DEVICE


def window(
    loaded: LoadedRun, t0: int, t1: int, width: int, wanted: NDArray[np.int64], *, cap: int = CAP
) -> dict[str, Any]:
    """Rectangles of a window as parallel lists; ``k`` indexes the list of names, ``m`` counts events (1: exact)."""
    rows = rows_of(loaded)
    run = rows.run
    rects = query(rows.layouts, rows.split(wanted), t0 + run.origin_ns, t1 + run.origin_ns, width, cap=cap)
    first = np.asarray(rows.first, np.int64)
    code = np.empty(len(rects), np.int64)
    for at, trace in enumerate(run.traces):
        mine = rects.layout == at
        code[mine] = trace.columns.name[rects.node[mine]]
    keys, index = np.unique(rects.layout * 2**32 + code, return_inverse=True)
    return {
        "t0": t0,
        "t1": t1,
        "exact": rects.exact_ns,
        "bin": rects.bin_ns,
        "events": rects.events,
        "row": (rects.row + first[rects.layout]).tolist(),
        "x": (rects.start - run.origin_ns).tolist(),
        "d": (rects.end - rects.start).tolist(),
        "n": rects.node.tolist(),
        "m": rects.count.tolist(),
        "c": rects.category.tolist(),
        "b": rects.busy.tolist(),
        "k": index.tolist(),
        "names": [plain(run.traces[key >> 32].names[key & 0xFFFFFFFF], _NAME) for key in keys.tolist()],
    }


def marked(
    loaded: LoadedRun, nodes: str, at: int, t0: int, t1: int, width: int, wanted: NDArray[np.int64]
) -> dict[str, Any]:
    """Where the chosen nodes lie on some rows of a window: intervals of at least a pixel, those closer than that joined.

    Args:
        loaded: the run.
        nodes: text of the chosen nodes (``dashboard.nodes``).
        at: number of the run in the view, which the text refers to.
        t0: start of the window, ns from the run's origin.
        t1: its end.
        width: pixels of the window.
        wanted: rows of the timeline.
    """
    rows = rows_of(loaded)
    run = rows.run
    pixel = max((t1 - t0) // width, 1)
    first, last = t0 + run.origin_ns, t1 + run.origin_ns
    answer: dict[str, list[int]] = {"row": [], "x": [], "d": []}
    by_rank = nodes_in(nodes, at, run)
    for place, (part, (trace, layout)) in enumerate(zip(rows.split(wanted), _pairs(rows), strict=True)):
        chosen = np.zeros(len(trace), np.bool_)
        chosen[by_rank.get(run.ranks[place], np.zeros(0, np.int64))] = True
        for row in part.tolist() if chosen.any() else ():
            span = slice(int(layout.row_ptr[row]), int(layout.row_ptr[row + 1]))
            start, end = layout.start[span], layout.start[span] + np.maximum(layout.dur[span], 1)
            seen = np.flatnonzero(chosen[layout.node[span]] & (start < last) & (end > first))
            starts, ends = merge(start[seen], end[seen] + pixel)
            answer["row"] += [rows.first[place] + row] * len(starts)
            answer["x"] += (starts - run.origin_ns).tolist()
            answer["d"] += (ends - pixel - starts).tolist()
    return {"t0": t0, "t1": t1, "count": sum(map(len, by_rank.values())), **answer}


def _locate(rows: Rows, rank: int, node: int) -> int:
    """Index of a rank's trace, after checking that it has the node."""
    if rank not in rows.run.ranks:
        raise ChakraError(f"rank {rank} is not in this run")
    at = rows.run.ranks.index(rank)
    if not 0 <= node < len(rows.run.traces[at]):
        raise ChakraError(f"rank {rank} has {len(rows.run.traces[at])} nodes, {node} is none of them")
    return at


def links(loaded: LoadedRun, rank: int, node: int) -> dict[str, Any]:
    """A node, what it waits for and what waits for it: at most ``_MOST_LINKS`` each way, launches first."""
    rows = rows_of(loaded)
    at = _locate(rows, rank, node)
    trace = rows.run.traces[at]
    awaited: Edges = loaded.result(("dependents", rank), lambda run: reverse(run.traces[at].edges))
    before, after = _arrows(trace.edges, node), _arrows(awaited, node)
    parent = int(trace.columns.parent[node])
    launch = (parent, EdgeKind.LAUNCH)
    if parent >= 0 and trace.columns.domain[node] == Domain.DEVICE and launch not in before:
        before.insert(0, launch)
    answer: dict[str, Any] = {"node": rows.event(at, node), "before": len(before), "after": len(after), "arrows": []}
    for way, found in (("in", before), ("out", after)):
        for other, kind in found[:_MOST_LINKS]:
            event = rows.event(at, other)
            if event is not None:
                answer["arrows"].append({"way": way, "kind": kind.name.lower(), **event})
    return answer


def _arrows(edges: Edges, node: int) -> list[tuple[int, EdgeKind]]:
    others, kinds = edges.of(node)
    found = [(int(other), EdgeKind(int(kind))) for other, kind in zip(others, kinds, strict=True)]
    return sorted(found, key=lambda arrow: arrow[1] != EdgeKind.LAUNCH)


def step(loaded: LoadedRun, rank: int, node: int, way: int) -> dict[str, Any]:
    """The next (``way`` 1) or previous (-1) node on the same row; ``node`` is null at its ends."""
    rows = rows_of(loaded)
    at = _locate(rows, rank, node)
    layout = rows.layouts[at]
    place = layout.place(rows.run.traces[at], node)
    other = layout.neighbour(*place, way) if place else -1
    return {"node": rows.event(at, int(layout.node[other])) if other >= 0 else None}


def hits(loaded: LoadedRun, text: str, *, near: int, offset: int | None, limit: int) -> dict[str, Any]:
    """A page of the nodes whose name contains ``text``, by time over all ranks.

    Args:
        loaded: the run.
        text: what to look for, case ignored.
        near: time from which on the first hit is wanted.
        offset: number of the first hit of the page; None for the one at ``near``.
        limit: size of the page.
    """
    rows = rows_of(loaded)
    run = rows.run
    nodes, ranks, starts = [], [], []
    for at, (trace, layout) in enumerate(_pairs(rows)):
        found = find(layout, trace, text).nodes
        nodes.append(found)
        ranks.append(np.full(len(found), at))
        starts.append(trace.columns.start_ns[found])
    start = np.concatenate(starts)
    order = np.argsort(start, kind="stable")
    total = len(order)
    current = min(int(np.searchsorted(start[order], near + run.origin_ns)), max(total - 1, 0))
    begin = max(current - limit // 2, 0) if offset is None else offset
    page = order[begin : begin + limit]
    which, node = np.concatenate(ranks)[page], np.concatenate(nodes)[page]
    return {
        "total": total,
        "index": current,
        "offset": begin,
        "hits": [rows.event(int(at), int(one)) for at, one in zip(which, node, strict=True)],
    }


def sums(loaded: LoadedRun, t0: int, t1: int, wanted: NDArray[np.int64], *, limit: int = 1000) -> dict[str, Any]:
    """What happens in a range on some rows, by rank and name: clipped to the range, most time first."""
    rows = rows_of(loaded)
    run = rows.run
    found: list[dict[str, Any]] = []
    for at, (part, (trace, layout)) in enumerate(zip(rows.split(wanted), _pairs(rows), strict=True)):
        if not len(part):
            continue
        nodes = np.concatenate([layout.node[layout.row_ptr[row] : layout.row_ptr[row + 1]] for row in part.tolist()])
        table = area(trace, nodes, t0 + run.origin_ns, t1 + run.origin_ns)
        several = len(run.traces) > 1
        for k in range(len(table.name)):
            code, total, count = int(table.category[k]), int(table.total_ns[k]), int(table.count[k])
            found.append(
                {
                    "name": plain(trace.names[int(table.name[k])], _NAME),
                    "lane": Category(code).label + (f" \N{MIDDLE DOT} rank {run.ranks[at]}" if several else ""),
                    "c": code, "count": count, "total": total, "mean": total // max(count, 1),
                    "longest": int(table.longest_ns[k]), "rank": run.ranks[at], "node": int(table.longest[k]),
                }
            )  # fmt: skip
    found.sort(key=lambda row: -row["total"])
    events = sum(row["count"] for row in found)
    return {"t0": t0, "t1": t1, "events": events, "names": len(found), "rows": found[:limit]}
