"""Collectives of one rank: time, what of it is exposed, and bandwidth against the link, per operation, group and size.

Bandwidth as NCCL's tests define it (nccl-tests, ``doc/PERFORMANCE.md``): ``algbw = S / t`` and ``busbw = algbw x f``,
with n members of the group, S and f by operation:

====================  ======================================  =============
operation             S                                       f
====================  ======================================  =============
all-reduce            the buffer of one rank                  2 (n - 1)/n
reduce-scatter        the whole input (n x what is received)  (n - 1)/n
all-gather            the whole output (n x what is sent)     (n - 1)/n
all-to-all            the whole buffer that a rank sends      (n - 1)/n
gather, scatter       the whole buffer at the root            (n - 1)/n
broadcast, reduce     the buffer                              1
send, receive         the message                             1
permute               what a rank sends                       1
====================  ======================================  =============

Chakra's ``comm_size`` is what a rank puts in, so there an all-gather's (and a gather's) S is n times as large. A barrier
has no size; an operation that the trace does not name has no factor. GB are 1e9 bytes.

t is the time of the kernel on this rank, which includes waiting for the other members: the mean understates what the
link does; the shortest (``best_…``) is nearest to the transfer itself. Each time of a kernel is whole, also where a
window cuts it; ``total_ns`` and ``exposed_ns`` are what lies in the window.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakra_core.analysis._climb import owners
from chakra_core.analysis.scope import WHOLE, Clipped, Scope, clip_rows
from chakra_core.classify import comm_op_of
from chakra_core.hardware import lookup
from chakra_core.hardware.model import Device
from chakra_core.schema import COMPUTE_CATEGORIES, CommOp, Domain
from chakra_core.trace import Trace

__all__ = ["Collectives", "SizeBin", "as_json", "bus_factor", "collectives", "message_sizes", "share_in"]

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]

_BY_SHARE = frozenset(
    {CommOp.REDUCE_SCATTER, CommOp.REDUCE_SCATTER_BLOCK, CommOp.ALL_GATHER, CommOp.ALL_TO_ALL, CommOp.GATHER,
     CommOp.SCATTER}
)  # fmt: skip
_PLAIN = frozenset({CommOp.BROADCAST, CommOp.REDUCE, CommOp.SEND, CommOp.RECV, CommOp.PERMUTE})
_PAIRS = (CommOp.SEND, CommOp.RECV)
_INPUT_FORMATS = ("chakra", "astra-sim", "synthetic")
"""Formats whose message size is a rank's input, and where a collective without a group is one of all ranks."""
_LISTED = 2_000


@dataclass(frozen=True, slots=True)
class SizeBin:
    """Messages of ``low <= S < high`` bytes: how many, and the time they took."""

    low: int
    high: int
    count: int
    total_ns: int


@dataclass(frozen=True)
class Collectives:
    """Collectives by operation, group, size and type, most time first. Arrays are parallel, one entry per such class.

    Attributes:
        op: int8 CommOp.
        group: int32, index into ``meta.groups``; -1 where the trace states none.
        bytes: int64, message size as the trace states it; -1 unknown.
        dtype: element type, "" unknown.
        members: int64, ranks in the group; -1 unknown.
        count: int64.
        total_ns, exposed_ns: int64, summed; exposed is what no compute of the device hides, -1 where not known.
        mean_ns: float64; ``min_ns``, ``median_ns``, ``p95_ns``, ``max_ns``: int64, by nearest rank.
        algbw, busbw: float64, B/s at the mean time; ``best_algbw``, ``best_busbw`` at the shortest; NaN unknown.
        link: float64, B/s per direction that the device's links give such a group; NaN unknown.
        rows: int64, every instance, and ``of`` (int64) the class it is in.
        longest: int64, row of the longest instance of each class.
        missing: why instances have no busbw, and how many each.
        device: catalogue entry of the trace's hardware; None where there is none.
        reason: in words, why there is nothing; empty otherwise.
        clipped: whether only some of the trace was looked at.
    """

    op: NDArray[np.int8]
    group: NDArray[np.int32]
    bytes: I64
    dtype: tuple[str, ...]
    members: I64
    count: I64
    total_ns: I64
    exposed_ns: I64
    mean_ns: F64
    min_ns: I64
    median_ns: I64
    p95_ns: I64
    max_ns: I64
    algbw: F64
    busbw: F64
    best_algbw: F64
    best_busbw: F64
    link: F64
    rows: I64
    of: I64
    longest: I64
    missing: Mapping[str, int]
    device: Device | None
    reason: str
    clipped: bool

    def __len__(self) -> int:
        return len(self.op)

    def label(self, at: int) -> str:
        """Words for the operation of a class."""
        return CommOp(int(self.op[at])).label


def bus_factor(op: int, members: int) -> float | None:
    """Busbw over algbw (the table of this module); None where the operation has none, or needs a group size.

    >>> bus_factor(CommOp.ALL_REDUCE, 4), bus_factor(CommOp.ALL_GATHER, 4), bus_factor(CommOp.BROADCAST, -1)
    (1.5, 0.75, 1.0)
    """
    if op in _PLAIN:
        return 1.0
    if members < 2:
        return None
    if op == CommOp.ALL_REDUCE:
        return 2 * (members - 1) / members
    return (members - 1) / members if op in _BY_SHARE else None


def collectives(trace: Trace, scope: Scope = WHOLE) -> Collectives:
    """The collectives of a trace in a scope. O(n log n).

    What hides a collective is all the compute of its device, whatever lanes or nodes the scope chooses. Where the
    communication is on the host (gloo, MPI) nothing tells what hides it.
    """
    inside = clip_rows(trace, np.flatnonzero(trace.columns.comm_op != CommOp.NONE), scope)
    c, rows = trace.columns, inside.rows
    types, type_of = _types(trace, rows)
    keys = np.stack([part[rows].astype(np.int64) for part in (c.comm_op, c.comm_group, c.comm_bytes)] + [type_of])
    unique, of = np.unique(keys, axis=1, return_inverse=True)
    of, classes = of.reshape(-1), unique.shape[1]
    count = np.bincount(of, minlength=classes).astype(np.int64)
    total, exposed = np.zeros(classes, np.int64), np.zeros(classes, np.int64)
    np.add.at(total, of, inside.end_ns - inside.start_ns)
    bare = _exposed(trace, inside)
    np.add.at(exposed, of, np.maximum(bare, 0))
    exposed[np.unique(of[bare < 0])] = -1
    rank = np.argsort(-total, kind="stable")
    place = np.empty(classes, np.int64)
    place[rank] = np.arange(classes)
    of, unique, count = place[of], unique[:, rank], count[rank]
    dur = c.dur_ns[rows]
    order = np.lexsort((dur, of))
    first = np.r_[0, np.cumsum(count)[:-1]].astype(np.int64) if classes else np.zeros(0, np.int64)
    ordered = dur[order]
    whole = np.zeros(classes, np.int64)
    np.add.at(whole, of, dur)
    members = _members(trace, unique[0], unique[1])
    device = lookup(trace.meta.hardware)
    on_host = np.zeros(classes, np.bool_)
    on_host[of[c.domain[rows] == Domain.HOST]] = True
    mean = whole / np.maximum(count, 1)
    rates, why = _rates(trace, unique, members, mean, ordered[first])
    missing: dict[str, int] = {}
    for words, number in zip(why, count.tolist(), strict=True):
        if words:
            missing[words] = missing.get(words, 0) + number
    return Collectives(
        op=unique[0].astype(np.int8), group=unique[1].astype(np.int32), bytes=unique[2],
        dtype=tuple(types[code] for code in unique[3].tolist()), members=members, count=count,
        total_ns=total[rank], exposed_ns=exposed[rank], mean_ns=mean, min_ns=ordered[first],
        median_ns=ordered[first + _nearest(count, 0.5)], p95_ns=ordered[first + _nearest(count, 0.95)],
        max_ns=ordered[first + count - 1], algbw=rates[0], busbw=rates[1], best_algbw=rates[2], best_busbw=rates[3],
        link=_links(trace, unique, members, on_host, device), rows=rows, of=of,
        longest=rows[order[first + count - 1]], missing=MappingProxyType(missing), device=device,
        reason=_reason(trace, rows), clipped=scope.clips,
    )  # fmt: skip


def _nearest(count: I64, share: float) -> I64:
    """Position of a percentile by nearest rank among ``count`` ordered values."""
    return np.maximum(np.ceil(count * share).astype(np.int64) - 1, 0)


def _reason(trace: Trace, rows: I64) -> str:
    if len(rows):
        return ""
    recorded = int((trace.columns.comm_op != CommOp.NONE).sum())
    if not recorded:
        return "the trace records no communication"
    if not trace.has_times:
        return f"none of its {recorded:,} communication nodes has a start time"
    return "no communication lies in the chosen range"


def _types(trace: Trace, rows: I64) -> tuple[tuple[str, ...], I64]:
    """Element types, and the code of each row's: of its own inputs, or of the communication call that launched it."""
    c = trace.columns
    named = np.array([_is_call(name) for name in trace.names] or [False])
    source = np.where(c.shape[rows] >= 0, rows, owners(rows, c.parent, (c.shape >= 0) & named[c.name]))
    code = np.where(source >= 0, c.shape[source], -1)
    of_shape = [shape.rpartition(":")[2].split(",")[0] if ":" in shape else "" for shape in trace.shapes]
    types = tuple(dict.fromkeys(["", *of_shape]))
    place = {text: at for at, text in enumerate(types)}
    return types, np.array([*(place[text] for text in of_shape), 0], np.int64)[code]


def _is_call(name: str) -> bool:
    return name == "record_param_comms" or comm_op_of(name) is not CommOp.NONE


def _exposed(trace: Trace, inside: Clipped) -> I64:
    """Time of each instance that no compute kernel of its device covers; -1 for communication on the host."""
    from chakra_core.intervals import merge

    c = trace.columns
    devices = np.array([*(lane.device for lane in trace.lanes), -1], np.int64)
    found = np.full(len(inside.rows), -1, np.int64)
    on_device = c.domain[inside.rows] == Domain.DEVICE
    if not on_device.any():
        return found
    work = clip_rows(trace, trace.device_rows)
    work = work.at(np.isin(c.category[work.rows], sorted(COMPUTE_CATEGORIES)))
    device, of_work = devices[c.lane[inside.rows]], devices[c.lane[work.rows]]
    for number in np.unique(device[on_device]).tolist():
        mine = np.flatnonzero(on_device & (device == number))
        chosen = of_work == number
        busy = merge(work.start_ns[chosen], work.end_ns[chosen])
        first, last = inside.start_ns[mine], inside.end_ns[mine]
        found[mine] = last - first - share_in(*busy, first, last)
    return found


def share_in(start: I64, end: I64, first: I64, last: I64) -> I64:
    """Length (ns) of a merged interval set inside each window ``[first, last)``. O((n + m) log n)."""
    if not len(start):
        return np.zeros(len(first), np.int64)
    before = np.r_[0, np.cumsum(end - start)]

    def until(moment: I64) -> I64:
        at = np.searchsorted(start, moment, side="right")
        last_one = np.maximum(at - 1, 0)
        return np.where(at > 0, before[last_one] + np.minimum(moment, end[last_one]) - start[last_one], 0)

    return until(last) - until(first)


def _by_input(trace: Trace) -> bool:
    return trace.meta.format.startswith(_INPUT_FORMATS)


def _members(trace: Trace, op: I64, group: I64) -> I64:
    """Ranks in each class's group; a pair for transfers; -1 unknown."""
    sizes = [len(one.ranks) or max(one.size, -1) for one in trace.meta.groups]
    everyone = trace.meta.world_size if _by_input(trace) and trace.meta.world_size > 0 else -1
    found = np.array([*sizes, everyone], np.int64)[group]
    return np.where(np.isin(op, _PAIRS), 2, np.where(found == 0, -1, found))


def _rates(trace: Trace, keys: I64, members: I64, mean_ns: F64, least_ns: I64) -> tuple[tuple[F64, ...], list[str]]:
    """Algbw and busbw at the mean and at the shortest time of each class, and why a class has no busbw."""
    ops, sizes = keys[0].tolist(), keys[2].tolist()
    whole, factor, why = [], [], []
    for op, size, n in zip(ops, sizes, members.tolist(), strict=True):
        part = _by_input(trace) and op in (CommOp.ALL_GATHER, CommOp.GATHER)
        known = size > 0 and not (part and n < 1)
        whole.append(float(size * (n if part else 1)) if known else np.nan)
        found = bus_factor(op, n)
        factor.append(np.nan if found is None else found)
        why.append(_why(op, size, n, found))
    total, f = np.array(whole, np.float64), np.array(factor, np.float64)
    rates: list[F64] = []
    for time in (mean_ns, least_ns.astype(np.float64)):
        rate = np.divide(total * 1e9, time, out=np.full(len(total), np.nan), where=time > 0)
        rates += [rate, rate * f]
    why = [
        words or ("it takes no time" if time <= 0 else "") for words, time in zip(why, mean_ns.tolist(), strict=True)
    ]
    return tuple(rates), why


def _why(op: int, size: int, members: int, factor: float | None) -> str:
    if op == CommOp.BARRIER:
        return "a barrier moves no data"
    if op == CommOp.UNKNOWN:
        return "the trace does not name the operation"
    if size < 0:
        return "no message size is stated"
    if size == 0:
        return "the message is empty"
    if factor is None:
        return "no group size is stated" if members < 1 else "the group has one member"
    return ""


def _links(trace: Trace, keys: I64, members: I64, on_host: NDArray[np.bool_], device: Device | None) -> F64:
    """Link bandwidth for each class's group; groups whose members are not listed are taken to be packed."""
    found = np.full(len(members), np.nan)
    if device is None:
        return found
    for at, (group, n) in enumerate(zip(keys[1].tolist(), members.tolist(), strict=True)):
        if n < 2 or on_host[at]:
            continue
        ranks = trace.meta.groups[group].ranks if group >= 0 else ()
        spread = len({rank // device.domain_size for rank in ranks}) if ranks else -(-n // device.domain_size)
        bandwidth = device.group_bandwidth(n) if spread <= 1 else device.scale_out_bandwidth
        if bandwidth is not None:
            found[at] = bandwidth
    return found


def message_sizes(result: Collectives) -> tuple[SizeBin, ...]:
    """Messages by size in powers of two, empty bins between left in; those of unknown size are not here."""
    known = result.bytes >= 0
    if not known.any():
        return ()
    size, count, total = result.bytes[known], result.count[known], result.total_ns[known]
    power = np.array([int(value).bit_length() for value in size.tolist()], np.int64)
    low = int(power.min())
    counts, times = np.bincount(power - low, count), np.bincount(power - low, total)
    return tuple(
        SizeBin(0 if at + low == 0 else 2 ** (at + low - 1), 2 ** (at + low), int(counts[at]), int(times[at]))
        for at in range(len(counts))
    )


def as_json(trace: Trace, scope: Scope = WHOLE) -> dict[str, Any]:
    """The keys ``collectives`` and ``collectives_total`` of the command line's ``analyze``; None is *not known*."""
    result = collectives(trace, scope)
    known = result.exposed_ns >= 0
    return {
        "collectives": [_record(trace, result, at) for at in range(min(len(result), _LISTED))],
        "collectives_total": {
            "count": int(result.count.sum()),
            "classes": len(result),
            "total_ns": int(result.total_ns.sum()),
            "exposed_ns": int(result.exposed_ns[known].sum()) if known.any() else None,
            "size_is": "a rank's input" if _by_input(trace) else "as nccl-tests counts it",
            "message_sizes": [
                {"from_bytes": one.low, "below_bytes": one.high, "count": one.count, "total_ns": one.total_ns}
                for one in message_sizes(result)
            ],
            "without_busbw": [{"reason": words, "count": number} for words, number in result.missing.items()],
            "device": result.device.name if result.device else None,
            "reason": result.reason,
            "clipped": result.clipped,
        },
    }


def _record(trace: Trace, result: Collectives, at: int) -> dict[str, Any]:
    group, exposed, total = int(result.group[at]), int(result.exposed_ns[at]), int(result.total_ns[at])

    def number(array: NDArray[Any], made: Callable[[Any], Any] = int) -> Any:
        value = array[at]
        return None if value < 0 or value != value else made(value)  # noqa: PLR0124 - NaN is what is not known

    rates = {
        f"{name}_gbps": number(getattr(result, name), lambda value: float(value) / 1e9)
        for name in ("algbw", "busbw", "best_algbw", "best_busbw", "link")
    }
    return {
        "op": result.label(at),
        "group": trace.meta.groups[group].name if group >= 0 else None,
        "group_size": number(result.members),
        "bytes": number(result.bytes),
        "dtype": result.dtype[at] or None,
        "count": int(result.count[at]),
        "total_ns": total,
        "mean_ns": round(float(result.mean_ns[at])),
        **{f"{name}_ns": int(getattr(result, f"{name}_ns")[at]) for name in ("min", "median", "p95", "max")},
        "exposed_ns": exposed if exposed >= 0 else None,
        "exposed_share": exposed / total if exposed >= 0 and total else None,
        **rates,
        "link_share": rates["busbw_gbps"] / rates["link_gbps"] if rates["busbw_gbps"] and rates["link_gbps"] else None,
    }
