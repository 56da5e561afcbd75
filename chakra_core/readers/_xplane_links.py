"""How XPlane events hang together: enclosing events, launches, HLO operands, stream order, collectives."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakra_core.readers._hlo import Collective, HloModule, collective_from_text
from chakra_core.readers._xplane_events import Event, event_of, plane_stats
from chakra_core.schema import Category, Domain, EdgeKind
from chakra_core.trace import Columns, Edges

__all__ = ["attributes", "collective_of", "edges", "parents", "positive", "process_groups"]

_MAX_INT64 = 2**63 - 1


def positive(value: Any) -> int:
    """A count stat as int64; -1 where it is absent or makes no sense."""
    return int(value) if isinstance(value, int) and 0 <= value <= _MAX_INT64 else -1


def collective_of(event: Event, modules: Mapping[int, HloModule]) -> Collective | None:
    """The collective that a device event is, by its HLO module or by its instruction text."""
    if event.domain != Domain.DEVICE or event.category == Category.ANNOTATION:
        return None
    module = modules.get(event.program)
    if module and event.hlo_op in module.collectives:
        return module.collectives[event.hlo_op]
    text = event.stats.get("hlo_text")
    return collective_from_text(text) if isinstance(text, str) else None


def process_groups(
    events: Sequence[Event], modules: Mapping[int, HloModule]
) -> tuple[list[tuple[int, ...]], NDArray[np.int32]]:
    """The distinct replica groups, and for each event the group its device belongs to (-1: none)."""
    numbers: dict[tuple[int, ...], int] = {}
    group_of = np.full(len(events), -1, np.int32)
    for at, event in enumerate(events):
        collective = collective_of(event, modules)
        if collective is None:
            continue
        mine = [group for group in collective.groups if event.device in group] or list(collective.groups[:1])
        if mine:
            group_of[at] = numbers.setdefault(mine[0], len(numbers))
    return list(numbers), group_of


def parents(events: Sequence[Event], columns: Columns) -> NDArray[np.int32]:
    """Row of the innermost event that encloses each host event on its thread; for a device event, its launch."""
    parent = np.full(len(events), -1, np.int32)
    end = columns.start_ns + columns.dur_ns
    host = np.flatnonzero(columns.domain == Domain.HOST)
    order = host[np.lexsort((-columns.dur_ns[host], columns.start_ns[host], columns.lane[host]))]
    stack: list[int] = []
    lane = -2
    for row in order.tolist():
        if columns.lane[row] != lane:
            lane, stack = int(columns.lane[row]), []
        while stack and end[stack[-1]] < end[row]:
            stack.pop()
        if stack:
            parent[row] = stack[-1]
        stack.append(row)
    launches = _launches(columns)
    for row in np.flatnonzero(columns.domain == Domain.DEVICE).tolist():
        parent[row] = launches.get(int(columns.correlation[row]), -1)
    return parent


def _launches(columns: Columns) -> dict[int, int]:
    rows = np.flatnonzero((columns.domain == Domain.HOST) & (columns.correlation >= 0))
    return {int(columns.correlation[row]): int(row) for row in rows.tolist()}


def edges(events: Sequence[Event], columns: Columns, modules: Mapping[int, HloModule]) -> Edges:
    """Launch, HLO operand (data), HLO control, stream order and producer/consumer edges.

    An edge is kept only where its source ends no later than its target does, so that the graph agrees with time.
    """
    pairs: list[tuple[int, int, int]] = []
    launches = _launches(columns)
    works = (columns.domain == Domain.DEVICE) & (columns.category != Category.ANNOTATION)
    device_rows = np.flatnonzero(works)
    for row in device_rows.tolist():
        launch = launches.get(int(columns.correlation[row]), -1)
        if launch >= 0:
            pairs.append((launch, row, EdgeKind.LAUNCH))
    pairs.extend(_hlo_edges(events, device_rows.tolist(), modules))
    order = device_rows[np.lexsort((columns.start_ns[device_rows], columns.lane[device_rows]))]
    same = columns.lane[order[1:]] == columns.lane[order[:-1]]
    pairs.extend((int(a), int(b), EdgeKind.STREAM) for a, b in zip(order[:-1][same], order[1:][same], strict=True))
    pairs.extend(_thread_edges(events))
    kept = np.array(list(dict.fromkeys(pairs)), np.int64).reshape(-1, 3)
    end = columns.start_ns + columns.dur_ns
    source, target = kept[:, 0], kept[:, 1]
    in_time = (end[source] <= end[target]) & (columns.start_ns[source] <= columns.start_ns[target]) & (source != target)
    kept = kept[in_time]
    return Edges.from_pairs(len(events), kept[:, 0], kept[:, 1], kept[:, 2])


def _hlo_edges(
    events: Sequence[Event], rows: Iterable[int], modules: Mapping[int, HloModule]
) -> Iterable[tuple[int, int, int]]:
    """Operands and control predecessors among the events of one execution of a module on one device.

    The k-th event of an instruction belongs to the k-th execution; where the profile numbers executions (``run_id``)
    that number decides.
    """
    runs: dict[tuple[int, int, Any], dict[str, int]] = defaultdict(dict)
    seen: dict[tuple[int, int, str], int] = defaultdict(int)
    for row in sorted(rows, key=lambda at: events[at].start_ns):
        event = events[row]
        if not event.hlo_op or event.program not in modules:
            continue
        count = seen[event.program, event.device, event.hlo_op]
        seen[event.program, event.device, event.hlo_op] += 1
        run = event.stats.get("run_id", count)
        runs[event.program, event.device, run].setdefault(event.hlo_op, row)
    for (program, _, _), row_of in runs.items():
        module = modules[program]
        for name, row in row_of.items():
            for kind, sources in ((EdgeKind.DATA, module.operands), (EdgeKind.CONTROL, module.controls)):
                for source in _executed(name, sources, module, row_of):
                    yield row_of[source], row, kind


def _executed(
    name: str, sources: Mapping[str, tuple[str, ...]], module: HloModule, row_of: Mapping[str, int]
) -> set[str]:
    """The nearest ancestors of an instruction that have events; tuples, bitcasts and the like are seen through."""
    found: set[str] = set()
    visited: set[str] = set()
    todo = list(sources.get(name, ()))
    while todo:
        current = todo.pop()
        if current in visited:
            continue
        visited.add(current)
        if current in row_of:
            found.add(current)
        else:
            todo.extend(module.operands.get(current, ()))
    return found


def _thread_edges(events: Sequence[Event]) -> Iterable[tuple[int, int, int]]:
    """From the event that produced work (``_pt``, ``_p``) to those that consumed it (``_ct``, ``_c``)."""
    producers = {
        (event.stats["_pt"], event.stats["_p"]): at
        for at, event in enumerate(events)
        if "_pt" in event.stats and "_p" in event.stats
    }
    for at, event in enumerate(events):
        source = producers.get((event.stats.get("_ct"), event.stats.get("_c")))
        if source is not None and source != at:
            yield source, at, EdgeKind.INTER_THREAD


def attributes(planes: Any, place: tuple[int, int, int]) -> dict[str, Any]:
    """Every stat of an event, decoded now; raw bytes are shown by their length."""
    plane = planes[place[0]]
    line = plane.lines[place[1]]
    event = event_of(line.events[place[2]], plane.event_metadata, plane_stats(plane), line.timestamp_ns)
    raw = line.events[place[2]]
    shown = {key: f"{len(value)} bytes" if isinstance(value, bytes) else value for key, value in event.stats.items()}
    return {"offset_ps": raw.offset_ps, "duration_ps": raw.duration_ps, **shown}
