"""Start times by running the graph: for traces that record none, and to replay a run with other durations.

A node starts when all its dependencies are done and its lane is free; of several that are ready, the one with the
lowest id goes first. A node without a lane is put on one of three resources of its rank: host, compute or
communication. Collectives of a run meet: the k-th collective of a process group starts on every member when the last
of them has come to it (its lane is held from the moment it comes). A receive ends no earlier than its send. Edges
that close a cycle are left out. Waits that could never end (collectives in different order on two ranks, say) are
given up, the longest first, and counted.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakra_core._simulate import Problem, simulate
from chakra_core.graph import break_cycles, reverse
from chakra_core.schema import Category, CommOp, Domain, LaneKind, NodeKind, Severity, TimeKind
from chakra_core.trace import Edges, HealthFinding, Lane, Trace

__all__ = ["Replay", "occurrence", "replay", "with_lanes"]

I64 = NDArray[np.int64]
_RESOURCES = ("host", "compute", "communication")


@dataclass(frozen=True)
class Replay:
    """The traces with their new times, and how many waits for partners had to be given up."""

    traces: tuple[Trace, ...]
    given_up: int


def with_lanes(trace: Trace) -> Trace:
    """The trace with every node on a lane: those without get the resource that their kind of work needs."""
    c = trace.columns
    bare = c.lane < 0
    if not bare.any():
        return trace
    device = c.domain == Domain.DEVICE
    resource = np.where(~device, 0, np.where(c.category == Category.COMMUNICATION, 2, 1))
    used = [at for at in range(3) if (bare & (resource == at)).any()]
    number = np.full(3, -1, np.int64)
    number[used] = len(trace.lanes) + np.arange(len(used))
    lanes = tuple(
        Lane(_RESOURCES[at], Domain.HOST if at == 0 else Domain.DEVICE, LaneKind.RESOURCE, device=-1 if at == 0 else 0)
        for at in used
    )
    return trace.with_(columns=c.with_(lane=np.where(bare, number[resource], c.lane)), lanes=trace.lanes + lanes)


def replay(
    traces: Sequence[Trace],
    durations: Sequence[I64] | None = None,
    *,
    time_kind: TimeKind = TimeKind.RECONSTRUCTED,
) -> Replay:
    """Run the ranks of one run together and give every node a start time, counted from 0.

    Args:
        traces: the ranks.
        durations: int64 ns per row for each trace, in place of those it has.
        time_kind: what the new times are.

    Returns:
        The traces with new ``start_ns``, ``dur_ns`` and ``time_kind``; broken cycles are added to their health.
    """
    laned = [with_lanes(trace) for trace in traces]
    dur = [trace.columns.dur_ns for trace in laned] if durations is None else list(durations)
    graphs = [break_cycles(trace.edges) for trace in laned]
    offsets = np.concatenate([[0], np.cumsum([len(trace) for trace in laned])]).astype(np.int64)
    problem, waiting, missing = _problem(laned, [edges for edges, _ in graphs], dur, offsets)
    start, given_up = simulate(problem, waiting, missing)
    done = []
    for at, (trace, (_, closing)) in enumerate(zip(laned, graphs, strict=True)):
        columns = trace.columns.with_(start_ns=start[offsets[at] : offsets[at + 1]], dur_ns=dur[at])
        health = trace.health + _cycles(trace, closing)
        done.append(
            trace.with_(columns=columns, meta=dataclasses.replace(trace.meta, time_kind=time_kind), health=health)
        )
    return Replay(tuple(done), int(given_up))


def _cycles(trace: Trace, closing: NDArray[np.bool_]) -> tuple[HealthFinding, ...]:
    if not closing.any() or any(finding.code == "cycle" for finding in trace.health):
        return ()
    rows = np.unique(trace.edges.targets()[closing])
    text = f"{int(closing.sum())} dependencies close a cycle; they are ignored where an order is needed."
    return (HealthFinding.of("cycle", Severity.WARNING, rows.tolist(), text, "Check the tool that wrote the trace."),)


def _problem(
    traces: Sequence[Trace], graphs: Sequence[Edges], durations: Sequence[I64], offsets: I64
) -> tuple[Problem, I64, I64]:
    """All ranks as one problem: rows and lanes of the n-th trace are shifted behind those before it."""
    lane_shift = np.concatenate([[0], np.cumsum([len(trace.lanes) for trace in traces])]).astype(np.int64)
    lane = np.concatenate([trace.columns.lane + shift for trace, shift in zip(traces, lane_shift, strict=False)])
    backward = [reverse(edges) for edges in graphs]
    edge_shift = np.concatenate([[0], np.cumsum([len(edges) for edges in graphs])]).astype(np.int64)
    indptr = np.concatenate(
        [edges.indptr[:-1] + shift for edges, shift in zip(backward, edge_shift, strict=False)] + [edge_shift[-1:]]
    )
    awaited = np.concatenate([edges.sources + shift for edges, shift in zip(backward, offsets, strict=False)])
    waiting = np.concatenate([np.diff(edges.indptr) for edges in graphs]).astype(np.int64)
    instance, member_ptr, members = _meetings(traces, offsets)
    send_of, recv_of = _transfers(traces, offsets)
    n, lanes = int(offsets[-1]), int(lane_shift[-1])
    ids = np.concatenate([trace.columns.id for trace in traces])
    rank = np.empty(n, np.int64)
    rank[np.argsort(ids, kind="stable")] = np.arange(n)
    first = np.zeros(lanes + 1, np.int64)
    np.cumsum(np.bincount(lane, minlength=lanes), out=first[1:])
    problem = Problem(
        np.ascontiguousarray(np.concatenate(durations), np.int64), rank, lane.astype(np.int64), first, indptr,
        awaited.astype(np.int32), instance, member_ptr, members, send_of, recv_of,
    )  # fmt: skip
    return problem, waiting, np.diff(member_ptr)


def _in_order(trace: Trace, rows: I64) -> I64:
    """Rows by sequence number where the trace has one, else by id."""
    c = trace.columns
    return rows[np.lexsort((c.id[rows], c.comm_seq[rows]))]


def _meetings(traces: Sequence[Trace], offsets: I64) -> tuple[I64, I64, I64]:
    """Which collectives meet: instance per node, and the members of each instance as CSR.

    The k-th collective of a group on one rank meets the k-th of the same group on the others. A group is told by its
    name and its members; a trace that is no member, or has fewer collectives of the group, is not waited for.
    """
    codes: dict[tuple[str, tuple[int, ...]], int] = {("", ()): 0}
    parts = [np.empty((3, 0), np.int64)]
    for at, trace in enumerate(traces):
        c = trace.columns
        rows = _in_order(trace, np.flatnonzero((c.kind == NodeKind.COMM_COLL) & (c.domain == Domain.DEVICE)))
        known = [(group.name, tuple(sorted(group.ranks))) for group in trace.meta.groups]
        code = np.array([codes.setdefault(key, len(codes)) for key in known] + [0], np.int64)
        group = code[np.where(c.comm_group[rows] >= 0, c.comm_group[rows], len(known))]
        parts.append(np.stack([rows + offsets[at], group, occurrence(group)]))
    rows, group, turn = np.concatenate(parts, axis=1)
    _, found, counts = np.unique(group * (turn.max(initial=0) + 1) + turn, return_inverse=True, return_counts=True)
    shared = counts > 1
    number = np.where(shared, np.cumsum(shared) - 1, -1)[found]
    instance = np.full(int(offsets[-1]), -1, np.int64)
    instance[rows] = number
    member_ptr = np.concatenate([[0], np.cumsum(counts[shared])]).astype(np.int64)
    order = np.argsort(number, kind="stable")
    return instance, member_ptr, rows[order][int((number < 0).sum()) :]


def occurrence(values: I64) -> I64:
    """How many equal ones came before each value."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    begins = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
    before = np.empty(len(values), np.int64)
    before[order] = np.arange(len(values)) - np.repeat(begins, np.diff(begins, append=len(values)))
    return before


def _transfers(traces: Sequence[Trace], offsets: I64) -> tuple[I64, I64]:
    """Pairs of send and receive: the k-th send from a to b with a tag meets the k-th such receive."""
    n = int(offsets[-1])
    send_of, recv_of = np.full(n, -1, np.int64), np.full(n, -1, np.int64)
    sends: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    receives: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for at, trace in enumerate(traces):
        c = trace.columns
        rank = trace.meta.rank if trace.meta.rank >= 0 else at
        rows = np.flatnonzero(np.isin(c.comm_op, (CommOp.SEND, CommOp.RECV)) & (c.comm_peer >= 0))
        for row in _in_order(trace, rows).tolist():
            peer, tag = int(c.comm_peer[row]), int(c.comm_tag[row])
            if c.comm_op[row] == CommOp.SEND:
                sends[rank, peer, tag].append(row + int(offsets[at]))
            else:
                receives[peer, rank, tag].append(row + int(offsets[at]))
    for key, sent in sends.items():
        for send, receive in zip(sent, receives.get(key, ()), strict=False):
            send_of[receive], recv_of[send] = send, receive
    return send_of, recv_of
