"""How XPlane events hang together: enclosing events, launches, HLO operands, stream order, collectives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from chakra_core.readers._hlo import Collective, HloModule, collective_from_text
from chakra_core.readers._xplane_events import Events, Texts
from chakra_core.readers._xplane_table import MISSING
from chakra_core.schema import Category, CommOp, Domain, EdgeKind
from chakra_core.trace import Edges

__all__ = ["Collectives", "collectives_of", "edges", "parents"]

I64 = NDArray[np.int64]
Pairs = tuple[I64, I64]


@dataclass(frozen=True, slots=True)
class Collectives:
    """CommOp, bytes and number of the replica group of each event (-1: none), and the groups."""

    op: I64
    bytes: I64
    group: I64
    groups: tuple[tuple[int, ...], ...]


def collectives_of(events: Events, modules: Mapping[int, HloModule], ops: Texts, texts: Texts) -> Collectives:
    """Which device events are collectives, by their HLO module or by their instruction's text."""
    n = len(events)
    op, size, group = np.full(n, CommOp.NONE, np.int64), np.full(n, -1, np.int64), np.full(n, -1, np.int64)
    rows = np.flatnonzero((events.domain == Domain.DEVICE) & (events.category != Category.ANNOTATION))
    keys = np.stack([column[rows] for column in (events.program, events.op, events.text, events.device)])
    distinct, which = np.unique(keys, axis=1, return_inverse=True)
    numbers: dict[tuple[int, ...], int] = {}
    table = np.full((3, distinct.shape[1] + 1), -1, np.int64)
    for at, (program, code, text, device) in enumerate(distinct.T.tolist()):
        found = _collective(
            modules.get(program), ops.all[code] if code >= 0 else "", texts.all[text] if text >= 0 else ""
        )
        if found is not None:
            mine = [group for group in found.groups if device in group] or list(found.groups[:1])
            table[:, at] = found.op, found.bytes, numbers.setdefault(mine[0], len(numbers)) if mine else -1
    op[rows], size[rows], group[rows] = table[:, which.reshape(-1)]
    return Collectives(op, size, group, tuple(numbers))


def _collective(module: HloModule | None, name: str, text: str) -> Collective | None:
    if module is not None and name in module.collectives:
        return module.collectives[name]
    return collective_from_text(text) if text else None


@njit(cache=True)
def _enclosing(order: Any, lane: Any, end: Any, parent: Any, stack: Any) -> None:
    """For rows ordered by lane, start and falling duration: the innermost that ends no earlier than the row does."""
    depth = 0
    on = -2
    for row in order:
        if lane[row] != on:
            on = lane[row]
            depth = 0
        while depth > 0 and end[stack[depth - 1]] < end[row]:
            depth -= 1
        if depth > 0:
            parent[row] = stack[depth - 1]
        stack[depth] = row
        depth += 1


def parents(events: Events) -> NDArray[np.int32]:
    """Row of the innermost event that encloses each host event on its thread; for a device event, its launch."""
    parent = np.full(len(events), -1, np.int32)
    host = np.flatnonzero(events.domain == Domain.HOST)
    order = host[np.lexsort((-events.dur[host], events.start[host], events.lane[host]))]
    _enclosing(order, events.lane, events.start + events.dur, parent, np.zeros(len(order) + 1, np.int64))
    device = np.flatnonzero(events.domain == Domain.DEVICE)
    parent[device] = _launches(events, device)
    return parent


def _last(keys: I64, rows: I64, wanted: I64) -> I64:
    """The last of ``rows`` that has each wanted key; -1 where none has."""
    if not len(keys):
        return np.full(len(wanted), -1, np.int64)
    order = np.argsort(keys, kind="stable")
    at = np.searchsorted(keys[order], wanted, "right") - 1
    return np.where((at >= 0) & (keys[order][at] == wanted), rows[order][at], -1)


def _launches(events: Events, rows: I64) -> I64:
    """The host event with the same correlation, for each of these rows."""
    host = np.flatnonzero((events.domain == Domain.HOST) & (events.correlation >= 0))
    wanted = events.correlation[rows]
    return np.where(wanted >= 0, _last(events.correlation[host], host, wanted), -1)


def edges(events: Events, modules: Mapping[int, HloModule], ops: Texts) -> Edges:
    """Launch, HLO operand (data), HLO control, stream order and producer/consumer edges.

    An edge is kept only where its source ends no later than its target does, so that the graph agrees with time.
    """
    device = np.flatnonzero((events.domain == Domain.DEVICE) & (events.category != Category.ANNOTATION))
    launch = _launches(events, device)
    order = device[np.lexsort((events.start[device], events.lane[device]))]
    same = events.lane[order[1:]] == events.lane[order[:-1]]
    parts = [
        (launch[launch >= 0], device[launch >= 0], EdgeKind.LAUNCH),
        *_hlo_edges(events, device, modules, ops),
        (order[:-1][same], order[1:][same], EdgeKind.STREAM),
        (*_thread_edges(events), EdgeKind.INTER_THREAD),
    ]
    source, target = (np.concatenate([part[at] for part in parts]) for at in (0, 1))
    kind = np.concatenate([np.full(len(part[0]), part[2], np.int64) for part in parts])
    end = events.start + events.dur
    kept = (end[source] <= end[target]) & (events.start[source] <= events.start[target]) & (source != target)
    source, target, kind = source[kept], target[kept], kind[kept]
    _, first = np.unique((source * len(events) + target) * 8 + kind, return_index=True)
    first.sort()
    return Edges.from_pairs(len(events), source[first], target[first], kind[first])


def _hlo_edges(
    events: Events, device: I64, modules: Mapping[int, HloModule], ops: Texts
) -> list[tuple[I64, I64, EdgeKind]]:
    """Operands and control predecessors among the events of one execution of a module on one device.

    The k-th event of an instruction belongs to the k-th execution; where the profile numbers executions (``run_id``)
    that number decides.
    """
    rows = device[(events.op[device] >= 0) & np.isin(events.program[device], list(modules))]
    rows = rows[np.argsort(events.start[rows], kind="stable")]
    if not len(rows):
        return []
    run = _executions(events, rows)
    found: list[tuple[I64, I64, EdgeKind]] = []
    for program in np.unique(events.program[rows]).tolist():
        mine = events.program[rows] == program
        found += _module_edges(modules[program], ops, events.op[rows[mine]], run[mine], rows[mine])
    return found


def _executions(events: Events, rows: I64) -> I64:
    """Number of the execution (of a module on a device) that each row belongs to; rows are in order of start."""
    place = np.stack([column[rows] for column in (events.program, events.device, events.op)])
    order = np.lexsort((np.arange(len(rows)), *place))
    fresh = np.ones(len(rows), np.bool_)
    fresh[1:] = (np.diff(place[:, order], axis=1) != 0).any(axis=0)
    begins = np.maximum.accumulate(np.where(fresh, np.arange(len(rows)), 0))
    count = np.empty(len(rows), np.int64)
    count[order] = np.arange(len(rows)) - begins
    stated = events.run[rows]
    key = np.where(stated == MISSING, count, stated)
    keys = np.stack((place[0], place[1], stated == MISSING, key))
    return np.unique(keys, axis=1, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _module_edges(module: HloModule, ops: Texts, op: I64, run: I64, rows: I64) -> list[tuple[I64, I64, EdgeKind]]:
    """Edges between the rows of one module: for every pair of instructions, in every execution that has both."""
    executed = {ops.all[code]: code for code in np.unique(op).tolist()}
    width = len(ops.all) + 1
    keys, first = np.unique(run * width + op, return_index=True)
    found = []
    for kind, sources in ((EdgeKind.DATA, module.operands), (EdgeKind.CONTROL, module.controls)):
        pairs = [
            (executed[source], code)
            for name, code in executed.items()
            for source in sorted(_executed(name, sources, module, executed))
        ]
        ahead: dict[int, list[int]] = {}
        for source, target in pairs:
            ahead.setdefault(target, []).append(source)
        one, two = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for target, before in ahead.items():
            here = first[op[first] == target]
            wanted = (run[here][:, None] * width + np.array(before, np.int64)[None, :]).ravel()
            at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            there = keys[at] == wanted
            one.append(rows[first[at[there]]])
            two.append(np.repeat(rows[here], len(before))[there])
        found.append((np.concatenate(one), np.concatenate(two), kind))
    return found


def _executed(
    name: str, sources: Mapping[str, tuple[str, ...]], module: HloModule, executed: Mapping[str, int]
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
        if current in executed:
            found.add(current)
        else:
            todo.extend(module.operands.get(current, ()))
    return found


def _thread_edges(events: Events) -> Pairs:
    """From the event that produced work (``_pt``, ``_p``) to those that consumed it (``_ct``, ``_c``)."""
    made = np.flatnonzero((events.producer_kind != MISSING) & (events.producer != MISSING))
    used = np.flatnonzero((events.consumer_kind != MISSING) & (events.consumer != MISSING))
    if not len(made) or not len(used):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    kinds = np.concatenate((events.producer_kind[made], events.consumer_kind[used]))
    values = np.concatenate((events.producer[made], events.consumer[used]))
    kind, value = (np.unique(part, return_inverse=True)[1].astype(np.int64) for part in (kinds, values))
    key = kind * (int(value.max()) + 1) + value
    source = _last(key[: len(made)], made, key[len(made) :])
    return source[source >= 0], used[source >= 0]
