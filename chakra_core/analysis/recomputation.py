"""Recomputation: forward operators that run a second time inside the backward pass, as activation checkpointing does.

Two kinds of evidence, told apart in the result:

* *named*: the operator runs directly below a node that says so (``CheckpointFunctionBackward``, or a range or Python
  frame called ``recompute``, ``remat``), and an operator of the same name and inputs ran outside of all that before.
* *repeated*: at least ``LEAST`` operators in a row, directly below one node of the backward pass, are the same (name
  and inputs) as a row of operators outside of it. A gradient formula also calls operators of the forward pass, but not
  several in its order. Two of them at least must have recorded shapes; where the trace records none,
  ``LEAST_BY_NAME`` in a row are needed, by name alone.

Communication is left out: the backward pass exchanges gradients by the operators by which the forward pass exchanged
activations.

*Directly below* means that no other node of the backward pass stands between. Cost is the union of the device work
launched from below the operators found.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakra_core.analysis.operators import operator_mask
from chakra_core.analysis.scope import WHOLE, Scope, clip_rows
from chakra_core.schema import NO_TIME, CommOp, Domain
from chakra_core.trace import Trace

__all__ = ["LEAST", "LEAST_BY_NAME", "Recomputation", "Recomputed", "as_json", "recomputation"]

I64 = NDArray[np.int64]
Mask = NDArray[np.bool_]

LEAST = 3
"""Operators in a row that prove recomputation where shapes are known."""
LEAST_BY_NAME = 6
"""The same where they are not."""

_BACKWARD = re.compile(r"^autograd::engine::evaluate_function|Backward\d*$")
_SAYS_SO = re.compile(
    r"recompute|rematerial|rematted|(?:^|[_./])remat(?:$|[_./])|checkpoint.*backward\d*$", re.IGNORECASE
)
_COMMUNICATES = ("record_param_comms", "c10d::", "nccl:", "gloo:", "_c10d_functional::")
_TELLING = 2
_JSON_ROWS = 200


@dataclass(frozen=True, slots=True)
class Recomputed:
    """One operator with one set of inputs that is computed again.

    Attributes:
        name: the operator.
        shapes: its inputs, "" where not recorded.
        count: calls in the backward pass.
        host_ns: their summed duration.
        device_ns: union of the device work below them.
        named: how many of them lie below a node that says that it recomputes; the others are told by repetition.
        forward_row: first such call outside of the backward pass.
        rows: int64, the calls in the backward pass, by start.
    """

    name: str
    shapes: str
    count: int
    host_ns: int
    device_ns: int
    named: int
    forward_row: int
    rows: I64

    def record(self) -> dict[str, Any]:
        """As a plain dictionary."""
        return {
            "name": self.name, "shapes": self.shapes, "count": self.count, "host_ns": self.host_ns,
            "device_ns": self.device_ns, "named": self.named, "forward_row": self.forward_row,
            "first_row": int(self.rows[0]),
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Recomputation:
    """What is computed again, most device time first.

    Attributes:
        found: by operator and inputs.
        device_ns: union of the device work below all of them.
        share: of the union of all device work in the scope, 0..1.
        by_shapes: whether inputs were compared; False: names alone.
        reason: in words, why nothing is said; empty where the trace has a backward pass to look at.
    """

    found: tuple[Recomputed, ...]
    device_ns: int
    share: float
    by_shapes: bool
    reason: str = ""


def recomputation(trace: Trace, scope: Scope = WHOLE) -> Recomputation:
    """Recomputed operators of a trace; forward calls are looked for in all of it. O(n log n)."""
    mask = operator_mask(trace)
    says = _named(trace, _SAYS_SO, np.asarray(trace.columns.domain == Domain.HOST))
    backward = _named(trace, _BACKWARD, mask) | says
    if not mask.any():
        return Recomputation((), 0, 0.0, by_shapes=False, reason="the trace records no operators on the host")
    if not backward.any():
        return Recomputation(
            (), 0, 0.0, by_shapes=False, reason="the trace shows no backward pass (no node of autograd is named)"
        )
    by_shapes = bool((trace.columns.shape[mask] >= 0).any())
    again, forward_of, said = _again(trace, mask, backward, says, by_shapes)
    inside = np.isin(again, clip_rows(trace, again, scope).rows)
    return _result(trace, scope, again[inside], forward_of[inside], said[inside], by_shapes)


def _named(trace: Trace, pattern: re.Pattern[str], mask: Mask) -> Mask:
    fits = np.array([bool(pattern.search(name[:300])) for name in trace.names] + [False], np.bool_)
    return np.asarray(fits[trace.columns.name] & mask) if len(trace) else mask


def _again(trace: Trace, mask: Mask, backward: Mask, says: Mask, by_shapes: bool) -> tuple[I64, I64, NDArray[np.bool_]]:
    """Rows that compute again, a forward row of each, and whether a node above says so."""
    from chakra_core.analysis._climb import owners

    c = trace.columns
    plain = np.flatnonzero(mask & ~backward & ~_communication(trace) & (c.start_ns != NO_TIME))
    plain = plain[np.lexsort((plain, c.start_ns[plain], c.lane[plain]))]
    by = owners(plain, c.parent, backward)
    above = owners(plain, c.parent, mask | backward)
    code = c.name[plain].astype(np.int64) * (len(trace.shapes) + 1) + (c.shape[plain] + 1 if by_shapes else 0)
    fore, hind = np.flatnonzero(by < 0), np.flatnonzero((by >= 0) & (above == by))
    hind = hind[np.lexsort((np.arange(len(hind)), by[hind]))]
    least = LEAST if by_shapes else LEAST_BY_NAME
    telling = (c.shape[plain] >= 0) | (not by_shapes)
    repeated = _in_rows(code, telling, (above, fore), (by, hind), least)
    said = says[by[hind]]
    origin = _first_before(code, plain, c.start_ns[plain], fore, hind)
    chosen = (origin >= 0) & (said | repeated)
    return plain[hind[chosen]], origin[chosen], np.asarray(said[chosen])


def _first_before(code: I64, rows: I64, start: I64, fore: I64, hind: I64) -> I64:
    """Row of the first operator outside of the backward pass that is the same and began earlier; -1: there is none."""
    fore = fore[np.argsort(start[fore], kind="stable")]
    if not len(fore):
        return np.full(len(hind), -1, np.int64)
    codes, first = np.unique(code[fore], return_index=True)  # the first in order of time
    place = np.minimum(np.searchsorted(codes, code[hind]), len(codes) - 1)
    first = fore[first[place]]
    known = (codes[place] == code[hind]) & (start[first] < start[hind])
    return np.where(known, rows[first], -1)


def _communication(trace: Trace) -> Mask:
    """Rows that communicate, told by their operation or their name."""
    from chakra_core.classify import comm_op_of

    names = trace.names
    named = [name.startswith(_COMMUNICATES) or comm_op_of(name) != CommOp.NONE for name in names]
    c = trace.columns
    return np.asarray(np.array([*named, False], np.bool_)[c.name] | (c.comm_op != CommOp.NONE))


def _in_rows(code: I64, telling: Mask, fore_of: tuple[I64, I64], hind_of: tuple[I64, I64], least: int) -> Mask:
    """Which operators of the backward pass stand in a row of ``least`` that siblings outside of it form too.

    Args:
        code: what each operator is.
        telling: whether its inputs are known; two such are needed in a row.
        fore_of: family of each operator, and the operators outside of the backward pass.
        hind_of: node of the backward pass above each operator, and the operators directly below such a node.
        least: length of a row.
    """
    (above, fore), (by, hind) = fore_of, hind_of
    fore = fore[np.lexsort((np.arange(len(fore)), above[fore]))]
    there = _rows_of(code[fore], above[fore], least)
    here = _rows_of(code[hind], by[hind], least)
    found = np.zeros(len(hind), np.bool_)
    if not len(here[0]) or not len(there[0]):
        return found
    _, number = np.unique(np.concatenate([there[1], here[1]]), axis=0, return_inverse=True)
    number = number.reshape(-1)
    same = np.isin(number[len(there[0]) :], number[: len(there[0])])
    same &= telling[hind][here[0][:, None] + np.arange(least)].sum(axis=1) >= _TELLING
    for offset in range(least):
        found[here[0][same] + offset] = True
    return found


def _rows_of(code: I64, family: I64, least: int) -> tuple[I64, I64]:
    """All rows of ``least`` siblings: where each begins, and its codes, (rows, least)."""
    count = len(code) - least + 1
    if count < 1:
        return np.zeros(0, np.int64), np.zeros((0, least), np.int64)
    begin = np.flatnonzero(family[:count] == family[least - 1 :])  # families are contiguous
    return begin, code[begin[:, None] + np.arange(least)]


def _result(
    trace: Trace, scope: Scope, again: I64, forward_of: I64, said: NDArray[np.bool_], by_shapes: bool
) -> Recomputation:
    from chakra_core.analysis._climb import owners, sorted_group_union
    from chakra_core.intervals import length, merge

    c = trace.columns
    work = clip_rows(trace, trace.device_rows, scope)
    members = np.zeros(len(trace), np.bool_)
    members[again] = True
    owner = owners(work.rows, c.parent, members)
    below = work.at(owner >= 0)
    owner = owner[owner >= 0]
    keys = c.name[again].astype(np.int64) * (len(trace.shapes) + 1) + (c.shape[again] + 1 if by_shapes else 0)
    used, group = np.unique(keys, return_inverse=True)
    of_row = np.full(len(trace), -1, np.int64)
    of_row[again] = group
    order = np.lexsort((below.start_ns, of_row[owner]))
    device = sorted_group_union(of_row[owner][order], below.start_ns[order], below.end_ns[order], len(used))
    host = clip_rows(trace, again, scope)
    spent_host, named = np.zeros(len(used), np.int64), np.bincount(group[said], minlength=len(used))
    np.add.at(spent_host, of_row[host.rows], host.dur_ns)
    order = np.lexsort((c.start_ns[again], group))
    parts = np.split(order, np.flatnonzero(np.diff(group[order])) + 1) if len(again) else []
    found = [
        Recomputed(
            trace.name_of(int(again[mine[0]])), _shape_of(trace, int(again[mine[0]]), by_shapes), len(mine),
            int(spent_host[at]), int(device[at]), int(named[at]), int(forward_of[mine].min()), again[mine],
        )
        for at, mine in enumerate(parts)
    ]  # fmt: skip
    found.sort(key=lambda one: (-one.device_ns, -one.host_ns, one.name, one.shapes))
    spent = length(*merge(below.start_ns, below.end_ns))
    whole = length(*merge(work.start_ns, work.end_ns))
    return Recomputation(tuple(found), spent, spent / whole if whole else 0.0, by_shapes)


def _shape_of(trace: Trace, row: int, by_shapes: bool) -> str:
    shape = int(trace.columns.shape[row]) if by_shapes else -1
    return trace.shapes[shape] if shape >= 0 else ""


def as_json(trace: Trace, scope: Scope = WHOLE) -> dict[str, Any]:
    """The key ``recomputation`` of the command line's ``analyze``."""
    result = recomputation(trace, scope)
    return {
        "recomputation": {
            "device_ns": result.device_ns,
            "share": result.share,
            "by_shapes": result.by_shapes,
            "reason": result.reason,
            "operators": [one.record() for one in result.found[:_JSON_ROWS]],
        }
    }
