"""Communication of one run matched across its ranks: which collectives are the same one, which send a receive takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from chakra_core.schema import CommOp, NodeKind
from chakra_core.trace import ProcessGroup, Trace

__all__ = ["Call", "Match", "communication_rows", "match_run"]

_MATCHED = frozenset(
    {CommOp.ALL_REDUCE, CommOp.ALL_GATHER, CommOp.ALL_TO_ALL, CommOp.REDUCE_SCATTER, CommOp.REDUCE_SCATTER_BLOCK}
)


@dataclass(frozen=True, slots=True)
class Call:
    """One rank's part in a communication: ``at`` is the index of its trace, ``members`` those of its group here."""

    at: int
    row: int
    op: int
    bytes: int
    seq: int
    start: int
    peer: int
    tag: int
    group: tuple[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Match:
    """Calls that are one communication: a collective (one call a rank), or a send and its receive (in that order)."""

    calls: tuple[Call, ...]
    members: tuple[int, ...]
    bytes: int
    is_pair: bool = False


def communication_rows(trace: Trace) -> Iterable[int]:
    """Rows of nodes that are communication."""
    c = trace.columns
    kinds = (c.kind >= NodeKind.COMM_SEND) & (c.kind <= NodeKind.COMM_COLL)
    return np.flatnonzero(kinds).tolist()


def match_run(traces: Sequence[Trace], ranks: Sequence[int]) -> list[Match]:
    """Everything that two or more ranks did together.

    Collectives are matched within their group by sequence number and operation where all ranks state it; else by
    operation, size and order of start; else, where the ranks made equally many calls of an operation, by their order.
    A collective that names no group is taken for one of all ranks, or, where only the ranks of a known group made such
    calls, of that group. A send belongs to the receive on its peer with the same tag, in order.
    """
    groups: dict[tuple[str, tuple[int, ...]], list[Call]] = defaultdict(list)
    pairs: list[Call] = []
    for at, trace in enumerate(traces):
        for call in _calls(at, trace, ranks):
            if call.op in (CommOp.SEND, CommOp.RECV):
                pairs.append(call)
            elif call.op in _MATCHED:
                groups[call.group].append(call)
    known = {tuple(sorted(group.ranks)) for trace in traces for group in trace.meta.groups if len(group.ranks) > 1}
    named = [tuple(ranks.index(rank) for rank in group if rank in ranks) for group in known]
    found: list[Match] = []
    for (_, members), calls in groups.items():
        found.extend(_collectives(members, calls, [] if calls[0].group[0] else named))
    return [*found, *_pairs(pairs, ranks)]


def _calls(at: int, trace: Trace, ranks: Sequence[int]) -> Iterator[Call]:
    c = trace.columns
    everyone = tuple(range(len(ranks)))
    place = {rank: index for index, rank in enumerate(ranks)}
    for row in communication_rows(trace):
        named = int(c.comm_group[row])
        group = trace.meta.groups[named] if named >= 0 else ProcessGroup("")
        members = tuple(sorted(place[rank] for rank in group.ranks if rank in place)) if group.ranks else everyone
        yield Call(
            at, row, int(c.comm_op[row]), int(c.comm_bytes[row]), int(c.comm_seq[row]), int(c.start_ns[row]),
            int(c.comm_peer[row]), int(c.comm_tag[row]), (group.name, members),
        )  # fmt: skip


def _collectives(members: tuple[int, ...], calls: list[Call], named: Sequence[tuple[int, ...]]) -> Iterator[Match]:
    if len(members) < 2:
        return
    calls = sorted(calls, key=lambda call: (call.at, call.start, call.row))
    if all(call.seq >= 0 for call in calls):
        numbered, left = _by(calls, members, lambda call: (call.op, call.seq))
        yield from numbered
    else:
        left = calls
    sized, left = _by([call for call in left if call.bytes > 0], members, lambda call: (call.op, call.bytes), named)
    yield from sized
    tally: dict[int, dict[int, list[Call]]] = defaultdict(lambda: defaultdict(list))
    for call in left:
        tally[call.op][call.at].append(call)
    for by_rank in tally.values():
        if len({len(by_rank[member]) for member in members}) == 1:
            for together in zip(*(by_rank[member] for member in members), strict=True):
                yield _match(together, members)


def _by(
    calls: list[Call], members: tuple[int, ...], key: Callable[[Call], object], named: Sequence[tuple[int, ...]] = ()
) -> tuple[list[Match], list[Call]]:
    """Match the n-th calls of a key on all members (or on those of a named group), and what is left over."""
    lists: dict[object, dict[int, list[Call]]] = defaultdict(lambda: defaultdict(list))
    for call in calls:
        lists[key(call)][call.at].append(call)
    found: list[Match] = []
    left: list[Call] = []
    for by_rank in lists.values():
        here = tuple(sorted(by_rank))
        who = members if here == members else here if here in named else ()
        most = min((len(by_rank[member]) for member in who), default=0)
        found.extend(_match(tuple(by_rank[member][nth] for member in who), who) for nth in range(most))
        for together in by_rank.values():
            left.extend(together[most:])
    return found, left


def _match(calls: tuple[Call, ...], members: tuple[int, ...]) -> Match:
    return Match(calls, members, max(call.bytes for call in calls))


def _pairs(calls: list[Call], ranks: Sequence[int]) -> Iterator[Match]:
    """Sends with their receives: the n-th of a tag from one rank to another; without tags, the n-th of all."""
    sends: dict[tuple[int, int, int], list[Call]] = defaultdict(list)
    receives: dict[tuple[int, int, int], list[Call]] = defaultdict(list)
    for call in sorted(calls, key=lambda call: (call.at, call.start, call.row)):
        me = ranks[call.at]
        if call.peer in ranks and call.peer != me:
            ends = (me, call.peer) if call.op == CommOp.SEND else (call.peer, me)
            (sends if call.op == CommOp.SEND else receives)[(*ends, call.tag)].append(call)
    for key, sent in sends.items():
        for send, receive in zip(sent, receives.get(key, []), strict=False):
            yield Match((send, receive), (send.at, receive.at), max(send.bytes, receive.bytes), is_pair=True)
