"""A run as ASTRA-sim demands it, and a count of everything that was changed for that.

The rules (all of them end a simulation, or keep it from ending): every dependency names a node of the file; ids are
unique; no METADATA or INVALID node; no communication on the host; no cycle; process groups are called by integers, "0"
being all ranks; ranks are 0 … n - 1; of collectives only all-reduce, all-gather, all-to-all and reduce-scatter are
simulated and broadcasts replayed; a simulated collective has a size and every rank of its group takes part, in one
order; a receive has its send, of the same size and tag.

A rank of the simulator issues one communication at a time, so communication is chained in one order that all ranks
share. What cannot be simulated is replayed with its recorded duration, as a broadcast; ``comm_op`` says what it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from chakra_core.schema import NO_TIME, Category, CommOp, Domain, EdgeKind, LaneKind, NodeKind
from chakra_core.trace import Edges, ProcessGroup, Trace
from chakra_core.writers.base import Rank
from chakra_core.writers.chakra_et import Stated
from chakra_core.writers.host_time import calls, host_order, host_runtime
from chakra_core.writers.matching import Match, communication_rows, match_run
from chakra_core.writers.rows import linear_order, take

__all__ = ["Change", "Prepared", "for_simulator"]

I64 = NDArray[np.int64]
_SMALLEST_GATHER = 64
"""An all-gather is cut into ``preferred-dataset-splits`` chunks; with fewer bytes than that it never ends."""


@dataclass(frozen=True, slots=True)
class Change:
    """Something that was left out or changed, how often, and a sentence that says so."""

    code: str
    count: int
    text: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """Ranks ready to be written, the number each bears in the simulator, its process groups, and what was changed."""

    ranks: tuple[Rank, ...]
    numbers: tuple[int, ...]
    groups: dict[str, list[int]]
    changes: tuple[Change, ...]


@dataclass(slots=True)
class _Work:
    """One rank on its way."""

    trace: Trace
    kind: NDArray[np.int8]
    runtime: I64
    comm_type: I64
    comm_size: I64


def for_simulator(traces: Sequence[Trace], ranks: Sequence[int]) -> Prepared:
    """Make ranks obey the rules above.

    Args:
        traces: one per rank.
        ranks: the rank of each, all different.
    """
    changes: list[Change] = []
    works = [_one_rank(trace, changes) for trace in traces]
    matches = match_run([work.trace for work in works], ranks)
    matches = [match for match in matches if _runs(match)]
    _state_communication(works, matches, changes)
    _name_inferred(works, matches, ranks)
    _order(works, matches, changes)
    groups = _number_groups(works, ranks)
    numbers = tuple(range(len(ranks)))
    if tuple(ranks) != numbers:
        text = f"Ranks {', '.join(map(str, ranks[:8]))} are numbered from 0, as the simulator counts them."
        changes.append(Change("rank-numbered", sum(a != b for a, b in zip(ranks, numbers, strict=True)), text))
    made = [_finished(work, number, ranks) for number, work in enumerate(works)]
    return Prepared(tuple(made), numbers, groups, _summed(changes))


def _summed(changes: Sequence[Change]) -> tuple[Change, ...]:
    totals: dict[str, Change] = {}
    for change in changes:
        before = totals.get(change.code)
        totals[change.code] = replace(change, count=change.count + (before.count if before else 0))
    return tuple(change for change in totals.values() if change.count)


def _one_rank(trace: Trace, changes: list[Change]) -> _Work:
    """Leave out what no simulator runs, add the order of host threads, state host times without those of callees."""
    c = trace.columns
    lanes = np.array([lane.kind == LaneKind.ANNOTATION for lane in trace.lanes] + [False])
    marks = (c.category == Category.ANNOTATION) & (lanes[c.lane] | (c.domain == Domain.DEVICE))
    unfit = marks | np.isin(c.kind, (NodeKind.METADATA, NodeKind.INVALID))
    awaited = np.zeros(len(trace), np.bool_)
    awaited[trace.edges.sources] = True
    between = unfit & awaited & (np.diff(trace.edges.indptr) > 0)
    changes.append(
        Change("left-out", int((unfit & ~between).sum()), "Metadata, invalid and annotation nodes are left out.")
    )
    changes.append(
        Change("emptied", int(between.sum()), "Such nodes between others became compute nodes without time.")
    )
    if (unfit & ~between).all():
        between[:1] = True  # a file without a node is refused
    emptied = c.with_(dur_ns=np.where(between, 0, c.dur_ns), kind=np.where(between, NodeKind.COMP, c.kind))
    kept, _ = take(trace.with_(columns=emptied), np.flatnonzero(~unfit | between))
    kept = _host_communication(kept, changes)
    kept = _unique_ids(kept, changes)
    runtime, shortened = host_runtime(kept)
    text = "Host nodes run for their own time: without callees and waits for the device."
    changes.append(Change("own-time", shortened, text))
    c = kept.columns
    return _Work(kept, c.kind.copy(), runtime, np.full(len(kept), -1, np.int64), c.comm_bytes.copy())


def _host_communication(trace: Trace, changes: list[Change]) -> Trace:
    """Host nodes that record what a kernel does become compute; the others lose their host flag."""
    c = trace.columns
    comm = (c.kind >= NodeKind.COMM_SEND) & (c.kind <= NodeKind.COMM_COLL)
    host = comm & (c.domain == Domain.HOST)
    gloo = np.array([name.startswith("gloo:") for name in trace.names] + [False])[c.name]
    recorded = host & ~gloo if (comm & (c.domain == Domain.DEVICE)).any() else np.zeros(len(trace), np.bool_)
    moved = host & ~recorded
    changes.append(
        Change(
            "recorded-twice",
            int(recorded.sum()),
            "Host records of collectives whose kernels are here run as host work.",
        )
    )
    changes.append(Change("host-flag", int(moved.sum()), "Communication on the host is written without the host flag."))
    columns = c.with_(
        kind=np.where(recorded, NodeKind.COMP, c.kind), comm_op=np.where(recorded, CommOp.NONE, c.comm_op),
        comm_bytes=np.where(recorded, -1, c.comm_bytes), comm_group=np.where(recorded, -1, c.comm_group),
        comm_peer=np.where(recorded, -1, c.comm_peer), domain=np.where(moved, Domain.DEVICE, c.domain),
    )  # fmt: skip
    return trace.with_(columns=columns)


def _unique_ids(trace: Trace, changes: list[Change]) -> Trace:
    ids = trace.columns.id
    doubled = len(ids) - len(np.unique(ids))
    changes.append(
        Change("renumbered", doubled, "Node ids occurred twice; all nodes of those ranks are numbered anew.")
    )
    return trace.with_(columns=trace.columns.with_(id=np.arange(1, len(ids) + 1))) if doubled else trace


def _runs(match: Match) -> bool:
    """Whether the simulator can run a match: it needs a size."""
    return match.bytes > 0


def _state_communication(works: list[_Work], matches: Sequence[Match], changes: list[Change]) -> None:
    """Types and sizes as the simulator takes them; what has no match is replayed."""
    replayed = resized = 0
    for match in matches:
        op = CommOp(match.calls[0].op)
        size = max(match.bytes, _SMALLEST_GATHER) if op == CommOp.ALL_GATHER else match.bytes
        for call in match.calls:
            work = works[call.at]
            resized += work.comm_size[call.row] != size
            work.comm_size[call.row] = size
            if not match.is_pair:
                work.comm_type[call.row] = CommOp.REDUCE_SCATTER if op == CommOp.REDUCE_SCATTER_BLOCK else op
    taken = {(call.at, call.row) for match in matches for call in match.calls}
    for at, work in enumerate(works):
        for row in communication_rows(work.trace):
            if (at, row) not in taken:
                replayed += int(work.trace.columns.comm_op[row]) != CommOp.BROADCAST
                work.kind[row], work.comm_type[row] = NodeKind.COMM_COLL, CommOp.BROADCAST
                work.comm_size[row] = max(work.comm_size[row], 0)
    text = "Communication without partner, size or support in the simulator is replayed with its recorded duration."
    changes.append(Change("replayed", replayed, text))
    changes.append(
        Change(
            "resized", resized, "Sizes were made equal on all ranks of a collective, and at least 64 B for all-gathers."
        )
    )


def _order(works: list[_Work], matches: Sequence[Match], changes: list[Change]) -> None:
    """Put rows in order, dependencies first, chain communication in an order that all ranks share, drop cycles."""
    first = np.concatenate([[0], np.cumsum([len(work.trace) for work in works])])
    total = int(first[-1])
    stands_for = np.arange(total)
    pairs: list[tuple[int, int]] = []
    for match in matches:
        places = [int(first[call.at]) + call.row for call in match.calls]
        if match.is_pair:
            pairs.append((places[0], places[1]))
        else:
            stands_for[places] = places[0]
    sources = [work.trace.edges.sources + first[at] for at, work in enumerate(works)]
    targets = [work.trace.edges.targets() + first[at] for at, work in enumerate(works)]
    extra = np.array(pairs, np.int64).reshape(-1, 2)
    source, target = np.concatenate([*sources, extra[:, 0]]), np.concatenate([*targets, extra[:, 1]])
    keep = stands_for[source] != stands_for[target]
    numbers = np.flatnonzero(keep)
    by_target = np.argsort(stands_for[target[numbers]], kind="stable")  # as from_pairs sorts
    numbers = numbers[by_target]
    merged = Edges.from_pairs(total, stands_for[source[numbers]], stands_for[target[numbers]], np.zeros(len(numbers)))
    _, rank, closing = linear_order(merged, _wish(works))
    rank = rank[stands_for]
    dropped = np.zeros(len(source), np.bool_)
    dropped[numbers[closing]] = True
    dropped |= source == target
    changes.append(
        Change("cycle", int(dropped.sum()), "Dependencies that close a cycle within or between ranks are left out.")
    )
    begin = 0
    for at, work in enumerate(works):
        end = begin + len(work.trace.edges)
        _rearrange(work, rank[first[at] : first[at + 1]], ~dropped[begin:end], changes)
        begin = end


def _wish(works: Sequence[_Work]) -> I64:
    """Position of every node by start, callers before callees; in the order of the files where a node has no start."""
    start = np.concatenate([work.trace.columns.start_ns for work in works])
    if (start == NO_TIME).any():
        return np.concatenate([np.arange(len(work.trace), dtype=np.int64) for work in works])
    duration = np.concatenate([work.trace.columns.dur_ns for work in works])
    wish = np.empty(len(start), np.int64)
    wish[np.lexsort((-duration, start))] = np.arange(len(start))
    return wish


def _rearrange(work: _Work, rank: I64, kept: NDArray[np.bool_], changes: list[Change]) -> None:
    """Rows by rank; then what is called waits for its caller, and thread and communication run in that order."""
    order = np.argsort(rank, kind="stable")
    edges = work.trace.edges
    n = len(work.trace)
    clean = Edges.from_pairs(n, edges.sources[kept], edges.targets()[kept], edges.kinds[kept])
    trace, _ = take(work.trace.with_(edges=clean), order)
    work.kind, work.runtime = work.kind[order], work.runtime[order]
    work.comm_type, work.comm_size = work.comm_type[order], work.comm_size[order]
    called = calls(trace)
    before, after = host_order(trace)
    comm = np.array(list(communication_rows(trace)), np.int64)
    edges = trace.edges
    kinds = (np.full(len(called), EdgeKind.CONTROL), np.full(len(before) + max(len(comm) - 1, 0), EdgeKind.STREAM))
    added = Edges.from_pairs(
        n, np.concatenate([edges.sources, trace.columns.parent[called], before, comm[:-1]]),
        np.concatenate([edges.targets(), called, after, comm[1:]]), np.concatenate([edges.kinds, *kinds]),
    )  # fmt: skip
    work.trace = trace.with_(edges=added)
    changes.append(Change("thread-order", len(before), "Nodes of a host thread wait for the one before them."))
    text = "Communication of a rank waits for the one before it."
    changes.append(Change("communication-order", max(len(comm) - 1, 0), text))


def _name_inferred(works: list[_Work], matches: Sequence[Match], ranks: Sequence[int]) -> None:
    """Give collectives that name no group, and were matched within one, that group."""
    for match in matches:
        if match.is_pair or len(match.members) == len(ranks):
            continue
        members = tuple(ranks[at] for at in match.members)
        for call in match.calls:
            if call.group[0]:
                continue
            work = works[call.at]
            meta, columns = work.trace.meta, work.trace.columns
            at = next((at for at, group in enumerate(meta.groups) if tuple(sorted(group.ranks)) == members), -1)
            if at < 0:
                at = len(meta.groups)
                meta = replace(meta, groups=(*meta.groups, ProcessGroup("", members, "", len(members))))
            named = columns.comm_group.copy()
            named[call.row] = at
            work.trace = work.trace.with_(meta=meta, columns=columns.with_(comm_group=named))


def _number_groups(works: Sequence[_Work], ranks: Sequence[int]) -> dict[str, list[int]]:
    """Give groups integer names ("0": all ranks here) and ranks as the simulator counts them."""
    place = {rank: number for number, rank in enumerate(ranks)}
    names: dict[tuple[int, ...], int] = {}
    for work in works:
        made = []
        for group in work.trace.meta.groups:
            members = tuple(sorted({place[rank] for rank in group.ranks if rank in place}))
            everyone = not members or len(members) == len(ranks)
            if not everyone and members not in names:
                stated = int(group.name) if group.name.isascii() and group.name.isdigit() and len(group.name) < 9 else 0
                taken = set(names.values())
                names[members] = stated if stated > 0 and stated not in taken else max([0, *taken]) + 1
            number = 0 if everyone else names[members]
            said = group.description or group.name
            made.append(
                ProcessGroup(str(number), members or tuple(range(len(ranks))), said, len(members) or len(ranks))
            )
        work.trace = work.trace.with_(meta=replace(work.trace.meta, groups=tuple(made)))
    return {str(number): list(members) for members, number in sorted(names.items(), key=lambda entry: entry[1])}


def _finished(work: _Work, number: int, ranks: Sequence[int]) -> Rank:
    meta = replace(work.trace.meta, rank=number, world_size=len(ranks))
    place = {rank: at for at, rank in enumerate(ranks)}
    c = work.trace.columns
    peer = np.array([place.get(entry, -1) for entry in c.comm_peer.tolist()], np.int32)
    trace = work.trace.with_(meta=meta, columns=c.with_(comm_peer=peer))
    return Rank(trace, Stated(work.runtime, work.kind, work.comm_type, work.comm_size))
