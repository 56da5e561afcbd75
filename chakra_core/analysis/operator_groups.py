"""Operators by what they are called, by their inputs, by the module they are part of, or by the annotation around them.

Every grouping gives the same columns: calls, time with and without what lies below, and device time. Device time of a
group is the union, over time, of the work launched from below any of its members, so a name that calls itself counts
its kernels once; the part by innermost member adds up to (at most) the device work of the trace.

*Modules* are the frames of ``nn.Module`` that the profiler recorded (``with_modules`` or ``with_stack``), with all
modules around them; where a trace has none, the path in the names of its nodes (``layer_3/attention/qkv``). *Annotations*
are the ranges that the program marked (``record_function``, NVTX, profiler steps), with what ran below them on their
own thread: work that another thread does meanwhile, such as the backward pass of autograd, is not below them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakra_core.analysis.operators import children_ns, operator_mask
from chakra_core.analysis.scope import WHOLE, Clipped, Scope, clip_rows
from chakra_core.grouping import scopes_in_name
from chakra_core.schema import Category, Domain
from chakra_core.trace import Trace

__all__ = ["GROUPINGS", "OperatorGroups", "as_json", "operator_groups"]

I64 = NDArray[np.int64]
Mask = NDArray[np.bool_]

GROUPINGS: Mapping[str, str] = MappingProxyType(
    {"name": "name", "shapes": "name and input shapes", "module": "module", "annotation": "annotation"}
)
"""Ways to group, with their words."""

_MODULE = re.compile(r"^nn\.Module: ")
_JSON_ROWS = 500
_MAX_MODULES = 256
"""Modules around a module that its path names; further ones are left out."""


@dataclass(frozen=True, slots=True)
class OperatorGroups:
    """Groups of calls, most device time first, then most time. All arrays are parallel int64; times in ns.

    Attributes:
        by: which of ``GROUPINGS``.
        labels: name, module path or annotation.
        shapes: input shapes, "" where none are recorded or the grouping is not by shapes.
        count: calls that lie (partly) in the scope.
        total_ns: summed duration of the calls.
        self_ns: the part of it not spent in anything directly below: recorded calls on the host; for modules and
            annotations, nested modules and annotations.
        device_ns: union, over time, of the device work launched from below any call.
        device_self_ns: summed duration of the device work whose innermost call is of this group.
        kernels: how many pieces of device work that is.
        longest: row of the longest call (ties: the first).
        rows: rows of all calls, group after group, each by start.
        starts: of length groups + 1: the calls of group ``i`` are ``rows[starts[i]:starts[i + 1]]``.
        work_ns: device work in the scope, summed; what ``device_self_ns`` leaves of it lies outside of every group.
        reason: in words, why there are no groups; empty otherwise.
    """

    by: str
    labels: tuple[str, ...]
    shapes: tuple[str, ...]
    count: I64
    total_ns: I64
    self_ns: I64
    device_ns: I64
    device_self_ns: I64
    kernels: I64
    longest: I64
    rows: I64
    starts: I64
    work_ns: int
    reason: str = ""

    def __len__(self) -> int:
        return len(self.labels)

    def calls_of(self, group: int) -> I64:
        """Rows of the calls of a group, by start."""
        return self.rows[self.starts[group] : self.starts[group + 1]]

    def records(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The first groups as plain dictionaries."""
        columns = ("count", "total_ns", "self_ns", "device_ns", "device_self_ns", "kernels", "longest")
        return [
            {
                "name": self.labels[at],
                "shapes": self.shapes[at],
                **{name: int(getattr(self, name)[at]) for name in columns},
            }
            for at in range(len(self) if limit is None else min(limit, len(self)))
        ]


@dataclass(frozen=True, slots=True)
class _Keys:
    """Which rows are members of groups, which group each is in (-1: none), and what the groups are called.

    ``inside_ns``: time per row of the trace that lies in what is directly below it; None where nothing is.
    """

    members: Mask
    group: I64
    labels: tuple[str, ...]
    shapes: tuple[str, ...] = ()
    inside_ns: I64 | None = None


def operator_groups(trace: Trace, scope: Scope = WHOLE, by: str = "name") -> OperatorGroups:
    """Calls of a trace grouped as ``by`` says, clipped to the window of the scope. O(n log n + kernels x depth).

    Groups without a call in the scope are left out, with what the device still does for them.

    Raises:
        KeyError: ``by`` is none of ``GROUPINGS``.
    """
    keys = _KEYS[by](trace, scope)
    if isinstance(keys, str):
        none = np.zeros(0, np.int64)
        return OperatorGroups(
            by, (), (), none, none, none, none, none, none, none, none, np.zeros(1, np.int64), 0, keys
        )
    calls = clip_rows(trace, np.flatnonzero(keys.members), scope)
    groups = len(keys.labels)
    group = keys.group[calls.rows]
    total = _sums(group, calls.dur_ns, groups)
    own = (
        total
        if keys.inside_ns is None
        else _sums(group, np.maximum(calls.dur_ns - keys.inside_ns[calls.rows], 0), groups)
    )
    device, device_own, kernels, work_ns = _device(trace, keys, scope)
    count = np.bincount(group, minlength=groups).astype(np.int64)
    longest = _longest(group, calls, groups)
    present = np.flatnonzero(count)
    shapes = keys.shapes or ("",) * groups
    sort = sorted(present.tolist(), key=lambda at: (-int(device[at]), -int(total[at]), keys.labels[at], shapes[at]))
    order = np.array(sort, np.int64)
    rows, starts = _calls(group, calls, order, groups)
    reason = "" if sort else f"nothing to group by {GROUPINGS[by]} lies in the chosen part of the trace"
    return OperatorGroups(
        by, tuple(keys.labels[at] for at in sort), tuple(shapes[at] for at in sort), count[order], total[order],
        own[order], device[order], device_own[order], kernels[order], longest[order], rows, starts, work_ns, reason,
    )  # fmt: skip


def _by_name(trace: Trace, scope: Scope) -> _Keys | str:
    mask = operator_mask(trace)
    if mask.any():
        return _Keys(mask, trace.columns.name.astype(np.int64), trace.names, inside_ns=children_ns(trace, scope))
    mask = _mask_of(trace, trace.device_rows)
    return _Keys(mask, trace.columns.name.astype(np.int64), trace.names) if mask.any() else "the trace has no operators"


def _by_shapes(trace: Trace, scope: Scope) -> _Keys | str:
    named = _by_name(trace, scope)
    if isinstance(named, str):
        return named
    c = trace.columns
    if not (c.shape[named.members] >= 0).any():
        return "the trace does not record the shapes of inputs (record_shapes=True of the PyTorch profiler does)"
    key = named.group * (len(trace.shapes) + 1) + c.shape + 1
    used, group = np.unique(key[named.members], return_inverse=True)
    all_groups = np.full(len(trace), -1, np.int64)
    all_groups[named.members] = group
    name, shape = np.divmod(used, len(trace.shapes) + 1)
    labels = tuple(trace.names[at] for at in name.tolist())
    shapes = tuple(trace.shapes[at - 1] if at else "" for at in shape.tolist())
    return _Keys(named.members, all_groups, labels, shapes, named.inside_ns)


def _by_module(trace: Trace, scope: Scope) -> _Keys | str:
    c = trace.columns
    named = np.array([bool(_MODULE.match(name)) for name in trace.names] + [False], np.bool_)
    frames = np.asarray(named[c.name] & (c.domain == Domain.HOST)) if len(trace) else np.zeros(0, np.bool_)
    if frames.any():
        return _nested(trace, frames, scope, lambda row: _MODULE.sub("", trace.name_of(row)))
    paths = [scopes_in_name(name) for name in trace.names]
    mask = operator_mask(trace)
    mask = mask if mask.any() else _mask_of(trace, trace.device_rows)
    deep = np.array([bool(path) for path in paths] + [False], np.bool_)
    mask = np.asarray(mask & deep[c.name]) if len(trace) else mask
    if not mask.any():
        return "the trace does not say which module its operators belong to (with_modules=True or with_stack=True does)"
    labels = sorted({"/".join(path) for path in paths if path})
    place = {label: at for at, label in enumerate(labels)}
    of_name = np.array([place.get("/".join(path), -1) for path in paths], np.int64)
    return _Keys(mask, of_name[c.name], tuple(labels))


def _by_annotation(trace: Trace, scope: Scope) -> _Keys | str:
    c = trace.columns
    ranges = np.asarray((c.category == Category.ANNOTATION) & (c.domain == Domain.HOST))
    if not ranges.any():
        return "the trace has no annotations (record_function, NVTX ranges, profiler steps)"
    above = _above(trace, ranges)
    own = _inside(trace, ranges, above, scope)
    return _Keys(ranges, c.name.astype(np.int64), trace.names, inside_ns=own)


def _nested(trace: Trace, frames: Mask, scope: Scope, label: Any) -> _Keys:
    """Groups of frames by the path of frames around them."""
    above = _above(trace, frames)
    rows = np.flatnonzero(frames)
    rows = rows[np.argsort(trace.columns.start_ns[rows], kind="stable")]
    paths: dict[int, str] = {}
    for row in rows.tolist():  # module frames only, a small part of any trace
        chain: list[int] = []
        at = row
        while at >= 0 and at not in paths and len(chain) < _MAX_MODULES:
            chain.append(at)
            at = int(above[at])
        path = paths.get(at, "")
        for one in reversed(chain):
            path = f"{path}/{label(one)}" if path else str(label(one))
            paths[one] = path
    labels = tuple(sorted(set(paths.values())))
    place = {path: at for at, path in enumerate(labels)}
    group = np.full(len(trace), -1, np.int64)
    group[rows] = [place[paths[row]] for row in rows.tolist()]
    return _Keys(frames, group, labels, inside_ns=_inside(trace, frames, above, scope))


def _above(trace: Trace, members: Mask) -> I64:
    """Row of the innermost member around each member; -1 where there is none, and for all other rows."""
    from chakra_core.analysis._climb import owners

    rows = np.flatnonzero(members)
    above = np.full(len(trace), -1, np.int64)
    above[rows] = owners(rows, trace.columns.parent, members)
    return above


def _inside(trace: Trace, members: Mask, above: I64, scope: Scope) -> I64:
    """Time in scope of the members directly below each row."""
    inner = clip_rows(trace, np.flatnonzero(members & (above >= 0)), scope)
    return _sums(above[inner.rows], inner.dur_ns, len(trace))


def _mask_of(trace: Trace, rows: I64) -> Mask:
    mask = np.zeros(len(trace), np.bool_)
    mask[rows] = True
    return mask


def _device(trace: Trace, keys: _Keys, scope: Scope) -> tuple[I64, I64, I64, int]:
    """Device time of each group: union, sum by innermost member, pieces of the latter; and of the trace."""
    from chakra_core.analysis._climb import chains, sorted_group_union

    groups = len(keys.labels)
    none = np.zeros(groups, np.int64)
    work = clip_rows(trace, trace.device_rows, scope)
    if not len(work):
        return none, none, none, 0
    position, ancestor = chains(work.rows, trace.columns.parent, keys.members)
    itself = keys.members[work.rows]  # device nodes that are members are their own innermost call
    first = np.r_[True, position[1:] != position[:-1]][: len(position)] & ~itself[position]
    selves = np.flatnonzero(itself)
    innermost = np.r_[first, np.ones(len(selves), np.bool_)]
    position, ancestor = np.r_[position, selves], np.r_[ancestor, work.rows[selves]]
    group = keys.group[ancestor]
    own = _sums(group[innermost], work.dur_ns[position[innermost]], groups)
    pieces = np.bincount(group[innermost], minlength=groups).astype(np.int64)
    order = np.lexsort((work.start_ns[position], group))
    ordered = position[order]
    union = sorted_group_union(group[order], work.start_ns[ordered], work.end_ns[ordered], groups)
    return union, own, pieces, int(work.dur_ns.sum())


def _sums(group: I64, values: I64, groups: int) -> I64:
    summed = np.zeros(groups, np.int64)
    np.add.at(summed, group, values)
    return summed


def _longest(group: I64, calls: Clipped, groups: int) -> I64:
    """Row of the longest call of each group, the first where several are; -1 for groups without calls."""
    order = np.lexsort((-calls.rows, calls.dur_ns, group))
    found = np.full(groups, -1, np.int64)
    found[group[order]] = calls.rows[order]  # the last assignment of a group is its longest
    return found


def _calls(group: I64, calls: Clipped, order: I64, groups: int) -> tuple[I64, I64]:
    """Rows of all calls by group, in the given order of groups, and where each group begins."""
    place = np.zeros(groups, np.int64)
    place[order] = np.arange(len(order))
    of = place[group]
    starts = np.r_[0, np.cumsum(np.bincount(of, minlength=len(order)))].astype(np.int64)
    return calls.rows[np.lexsort((calls.rows, calls.start_ns, of))], starts


_KEYS = MappingProxyType({"name": _by_name, "shapes": _by_shapes, "module": _by_module, "annotation": _by_annotation})


def as_json(trace: Trace, scope: Scope = WHOLE) -> dict[str, Any]:
    """The key ``operator_groups`` of the command line's ``analyze``: by shapes, by module, by annotation."""
    document: dict[str, Any] = {}
    for by in ("shapes", "module", "annotation"):
        found = operator_groups(trace, scope, by)
        document[by] = {"reason": found.reason, "groups": len(found), "rows": found.records(_JSON_ROWS)}
    return {"operator_groups": document}
