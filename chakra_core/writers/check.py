"""Whether ranks, as they would be written, are what simulators can run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from chakra_core.graph import break_cycles
from chakra_core.schema import CommOp, Domain, NodeKind
from chakra_core.trace import Trace

__all__ = ["Problem", "as_written", "check_ranks"]

_SIMULATED = (CommOp.ALL_REDUCE, CommOp.ALL_GATHER, CommOp.ALL_TO_ALL, CommOp.REDUCE_SCATTER)


@dataclass(frozen=True, slots=True)
class Problem:
    """A rule that is broken: its code, how often, and a sentence with the first place."""

    code: str
    count: int
    message: str


def as_written(trace: Trace) -> Trace:
    """A trace read from a file with its communication as a simulator takes it: by ``comm_type``, not by ``comm_op``."""
    c = trace.columns
    kind, op, size = c.kind.copy(), c.comm_op.copy(), c.comm_bytes.copy()
    for row in np.flatnonzero((c.kind >= NodeKind.COMM_SEND) & (c.kind <= NodeKind.COMM_COLL)).tolist():
        said = trace.attributes_of(row)
        if isinstance(said.get("comm_type"), int):
            kind[row], op[row] = NodeKind.COMM_COLL, said["comm_type"]
        if isinstance(said.get("comm_size"), int):
            size[row] = said["comm_size"]
    return trace.with_(columns=c.with_(kind=kind, comm_op=op, comm_bytes=size))


def check_ranks(traces: Sequence[Trace], groups: Mapping[str, Sequence[int]]) -> tuple[Problem, ...]:
    """Check traces read from written files against what ASTRA-sim demands.

    Args:
        traces: one per rank, in the order of the ranks 0, 1, …; the operation of a node is what the file says.
        groups: the process groups of the side file by name.
    """
    found: list[Problem] = []
    for rank, trace in enumerate(traces):
        found.extend(_one(rank, trace, groups))
    found.extend(_collectives(traces, groups))
    found.extend(_pairs(traces))
    merged: dict[str, Problem] = {}
    for problem in found:
        before = merged.get(problem.code)
        merged[problem.code] = (
            Problem(problem.code, problem.count + before.count, before.message) if before else problem
        )
    return tuple(merged.values())


def _one(rank: int, trace: Trace, groups: Mapping[str, Sequence[int]]) -> Iterator[Problem]:
    c = trace.columns
    place = f"rank {rank}"
    if not len(trace):
        yield Problem("empty", 1, f"{place} has no node.")
    for finding in trace.health:
        if finding.code in ("unresolved-dependency", "self-dependency", "duplicate-id"):
            yield Problem(finding.code, finding.count, f"{place}: {finding.message}")
    _, closing = break_cycles(trace.edges)
    if closing.any():
        yield Problem("cycle", int(closing.sum()), f"{place}: dependencies close a cycle.")
    comm = (c.kind >= NodeKind.COMM_SEND) & (c.kind <= NodeKind.COMM_COLL)
    collective = c.kind == NodeKind.COMM_COLL
    sized = np.isin(c.comm_op, _SIMULATED) & (c.comm_bytes <= 0)
    supported = np.isin(c.comm_op, (*_SIMULATED, CommOp.BROADCAST))
    for code, mask, text in (
        ("metadata-node", np.isin(c.kind, (NodeKind.METADATA, NodeKind.INVALID)), "metadata or invalid nodes"),
        ("host-communication", comm & (c.domain == Domain.HOST), "communication nodes are flagged as host work"),
        ("collective-size", collective & sized, "collectives have no size"),
        ("collective-type", collective & ~supported, "collectives have a type that cannot be simulated"),
        ("peer", comm & ~collective & (c.comm_peer < 0), "sends or receives name no peer"),
    ):
        if mask.any():
            row = int(np.flatnonzero(mask)[0])
            yield Problem(code, int(mask.sum()), f"{place}: {text}, first node {int(c.id[row])}.")
    for group in {trace.meta.groups[at].name for at in np.unique(c.comm_group[comm & (c.comm_group >= 0)]).tolist()}:
        if not (group.isascii() and group.isdigit()):
            yield Problem("group-name", 1, f"{place}: the process group {group[:40]!r} is not called by an integer.")
        elif group != "0" and group not in groups:
            yield Problem("group-missing", 1, f"{place}: the process group {group} is not in the group file.")


def _collectives(traces: Sequence[Trace], groups: Mapping[str, Sequence[int]]) -> Iterator[Problem]:
    """Every rank of a group must make the same simulated collectives in the same order."""
    calls: dict[str, dict[int, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
    for rank, trace in enumerate(traces):
        c = trace.columns
        for row in np.flatnonzero((c.kind == NodeKind.COMM_COLL) & np.isin(c.comm_op, _SIMULATED)).tolist():
            at = int(c.comm_group[row])
            name = trace.meta.groups[at].name if at >= 0 else "0"
            calls[name or "0"][rank].append((int(c.comm_op[row]), int(c.comm_bytes[row])))
    for name, by_rank in calls.items():
        members = groups.get(name, range(len(traces))) if name != "0" else range(len(traces))
        first = by_rank[min(by_rank)]
        wrong = [rank for rank in members if by_rank.get(rank) != first]
        if wrong or len(members) < 2:
            which = f"rank {wrong[0]} differs from rank {min(by_rank)}" if wrong else "it has one rank"
            yield Problem("collectives-unmatched", len(first), f"Collectives of group {name} do not match: {which}.")


def _pairs(traces: Sequence[Trace]) -> Iterator[Problem]:
    """Every receive needs a send of the same tag and size on its peer."""
    sends: Counter[tuple[int, int, int, int]] = Counter()
    receives: Counter[tuple[int, int, int, int]] = Counter()
    for rank, trace in enumerate(traces):
        c = trace.columns
        for row in np.flatnonzero(np.isin(c.kind, (NodeKind.COMM_SEND, NodeKind.COMM_RECV))).tolist():
            peer, what = int(c.comm_peer[row]), (max(int(c.comm_tag[row]), 0), int(c.comm_bytes[row]))
            if c.kind[row] == NodeKind.COMM_SEND:
                sends[(rank, peer, *what)] += 1
            else:
                receives[(peer, rank, *what)] += 1
    lonely = receives - sends
    if lonely:
        source, target, tag, size = next(iter(lonely))
        text = f"Rank {target} receives {size} B with tag {tag} that rank {source} never sends."
        yield Problem("receive-unmatched", sum(lonely.values()), text)
