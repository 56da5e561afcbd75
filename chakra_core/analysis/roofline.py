"""Achieved against attainable: work over time, per operator, under the ceilings of a device.

A call of an operator that launched device work is one *unit*: its time is the union of its kernels, its work what the
file states, else what the formulae of :mod:`chakra_core.analysis.flops` give for its inputs. A kernel belongs to the
innermost operator above it that a formula knows, so no work counts twice. Device nodes that state their own work
(XPlane, Chakra) are units by themselves. Where a trace has no device work, the outermost operators on the host are.

The roofline (S. Williams, A. Waterman, D. Patterson, *Roofline*, CACM 52(4), 2009): a unit of F operations and B bytes
takes at least ``max(F / peak, B / bandwidth)``; it is compute-bound where the first is larger. Matrix products,
attention and convolutions are held against the peak of their element type; all else runs on vector units, whose peak
the catalogue's fp32 (fp64 for doubles) is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakra_core.analysis.flops import Work, formulas, operands_of, type_in_name, work_of
from chakra_core.analysis.operators import operator_mask
from chakra_core.analysis.scope import WHOLE, Scope, clip_rows
from chakra_core.hardware import PRECISIONS, lookup
from chakra_core.hardware.model import Device
from chakra_core.schema import COMPUTE_CATEGORIES, Category, CommOp, Domain
from chakra_core.trace import Trace

__all__ = ["Roofline", "as_json", "device_of", "roofline"]

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]

_TF32 = re.compile(r"tf32|xf32|s1688gemm|s1688fprop|s1688dgrad|s1688wgrad", re.IGNORECASE)
_MAX_UNITS_DECODED = 50_000
_JSON_ROWS = 1000


@dataclass(frozen=True, slots=True)
class Roofline:
    """Units grouped by operator, inputs and work, most device time first. Arrays are parallel, one entry per group.

    Attributes:
        names: operator names (kernel names where kernels are the units).
        shapes: shape signature of each group, "" where none is recorded.
        family: int8 Category of the work.
        precision: element type of each group, as the catalogue names it.
        count: int64, units.
        flops: int64, operations of one unit.
        moved: int64, bytes of one unit.
        time_ns: int64, summed time of the units.
        roof_ns: float64, least time on the device for all of them; NaN where no device is known.
        compute_bound: bool, whether compute is the higher bound; False where no device is known.
        longest: int64, row of the longest unit.
        device: whose ceilings; None where the trace's hardware is not in the catalogue.
        total_ns: summed time of all compute kernels in the scope (of the host operators where those are the units).
        covered_ns: the part of it whose work is known.
        on_host: whether the units are host operators.
        kernel_rows: int64, rows of the kernels whose work is known.
        kernel_above: float64, parallel to it: share of the kernel's time above its roofline, 0..1; NaN as roof_ns.
    """

    names: tuple[str, ...]
    shapes: tuple[str, ...]
    family: NDArray[np.int8]
    precision: tuple[str, ...]
    count: I64
    flops: I64
    moved: I64
    time_ns: I64
    roof_ns: F64
    compute_bound: NDArray[np.bool_]
    longest: I64
    device: Device | None
    total_ns: int
    covered_ns: int
    on_host: bool
    kernel_rows: I64
    kernel_above: F64

    def __len__(self) -> int:
        return len(self.names)

    @property
    def rate(self) -> F64:
        """Achieved FLOP/s; 0 where the units take no time."""
        return _ratio(self.flops * self.count.astype(np.float64), self.time_ns * 1e-9)

    @property
    def bandwidth(self) -> F64:
        """Achieved B/s; 0 where the units take no time."""
        return _ratio(self.moved * self.count.astype(np.float64), self.time_ns * 1e-9)

    @property
    def intensity(self) -> F64:
        """FLOP per byte; 0 where nothing is moved."""
        return _ratio(self.flops.astype(np.float64), self.moved.astype(np.float64))

    @property
    def share(self) -> F64:
        """Attainable over achieved time: 1 is on the roofline, NaN where no device is known."""
        return np.asarray(_ratio(self.roof_ns, self.time_ns.astype(np.float64)), np.float64)

    @property
    def above_ns(self) -> F64:
        """Time above the roofline, never negative; NaN where no device is known."""
        return np.asarray(np.maximum(self.time_ns - self.roof_ns, 0.0), np.float64)

    def records(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The first groups as plain dictionaries; what is not known is None."""
        rate, bandwidth, intensity, share, above = (
            self.rate, self.bandwidth, self.intensity, self.share, self.above_ns
        )  # fmt: skip
        known = self.device is not None
        return [
            {
                "name": self.names[at],
                "shapes": self.shapes[at],
                "category": Category(int(self.family[at])).label,
                "precision": self.precision[at],
                "count": int(self.count[at]),
                "flops": int(self.flops[at]),
                "bytes": int(self.moved[at]),
                "time_ns": int(self.time_ns[at]),
                "tflops": float(rate[at]) / 1e12,
                "gbps": float(bandwidth[at]) / 1e9,
                "intensity": float(intensity[at]),
                "bound": ("compute" if self.compute_bound[at] else "memory") if known else None,
                "roof_share": float(share[at]) if known else None,
                "above_ns": round(float(above[at])) if known else None,
                "longest": int(self.longest[at]),
            }
            for at in range(len(self) if limit is None else min(limit, len(self)))
        ]


@dataclass(frozen=True, slots=True)
class _Units:
    """Calls with their time, and which of them each kernel belongs to."""

    rows: I64
    time_ns: I64
    kernels: I64
    of_kernel: I64
    total_ns: int
    on_host: bool = False


def device_of(trace: Trace) -> Device | None:
    """The catalogue's entry for the hardware that a trace names; None where it has none."""
    return lookup(trace.meta.hardware)


def roofline(trace: Trace, scope: Scope = WHOLE, device: Device | None = None) -> Roofline:
    """Units of a trace under the ceilings of a device.

    Args:
        trace: the trace.
        scope: what to look at; calls whose kernels reach into the window count whole, as a rate needs.
        device: catalogue entry; that of the trace's own hardware by default.
    """
    device = device or device_of(trace)
    units = _units(trace, scope)
    works, which = _works(trace, units)
    known = which >= 0
    fast = _faster(trace, units)
    keys = np.stack([trace.columns.name[units.rows], trace.columns.shape[units.rows], which, fast], axis=1)[known]
    unique, group = np.unique(keys, axis=0, return_inverse=True)
    group = group.reshape(-1)
    rows, time = units.rows[known], units.time_ns[known]
    count = np.bincount(group, minlength=len(unique)).astype(np.int64)
    total = np.zeros(len(unique), np.int64)
    np.add.at(total, group, time)
    chosen = [works[int(key[2])] for key in unique]
    precision = ["tf32" if key[3] and work.precision == "fp32" else work.precision
                 for key, work in zip(unique, chosen, strict=True)]  # fmt: skip
    one, bound = _least(chosen, precision, device)
    order = np.lexsort((np.arange(len(unique)), -total))
    unit_share = np.full(len(units.rows), np.nan)
    unit_share[known] = 1.0 - np.minimum(_ratio(one[group], time.astype(np.float64)), 1.0)
    of_known = known[units.of_kernel]
    kernels = units.kernels[of_known]
    covered = int(trace.columns.dur_ns[kernels].sum()) if not units.on_host else int(time.sum())
    return Roofline(
        names=tuple(trace.names[int(unique[at, 0])] for at in order),
        shapes=tuple(trace.shapes[int(unique[at, 1])] if unique[at, 1] >= 0 else "" for at in order),
        family=np.array([chosen[at].family for at in order], np.int8),
        precision=tuple(precision[at] for at in order),
        count=count[order],
        flops=np.array([chosen[at].flops for at in order], np.int64),
        moved=np.array([chosen[at].moved for at in order], np.int64),
        time_ns=total[order],
        roof_ns=(one * count)[order],
        compute_bound=bound[order],
        longest=_longest(rows, time, group, len(unique))[order],
        device=device,
        total_ns=units.total_ns,
        covered_ns=covered,
        on_host=units.on_host,
        kernel_rows=kernels,
        kernel_above=unit_share[units.of_kernel[of_known]],
    )


def _ratio(above: Any, below: Any) -> F64:
    """Quotient; 0 where the divisor is 0."""
    divisor = np.asarray(below, np.float64)
    quotient = np.asarray(above, np.float64) / np.where(divisor > 0, divisor, 1.0)
    return np.where(divisor > 0, quotient, 0.0)


def _least(works: list[Work], precision: list[str], device: Device | None) -> tuple[F64, NDArray[np.bool_]]:
    """Least time of one unit in ns, and whether compute bounds it."""
    if device is None:
        return np.full(len(works), np.nan), np.zeros(len(works), np.bool_)
    compute = np.array([work.flops / _peak(device, work, kind) for work, kind in zip(works, precision, strict=True)])
    memory = np.array([work.moved / device.memory_bandwidth for work in works])
    return np.maximum(compute, memory) * 1e9, compute > memory


def _peak(device: Device, work: Work, precision: str) -> float:
    if work.on_matrix_units and precision in PRECISIONS:
        return device.peak(precision)[0]
    return device.peak("fp64" if precision == "fp64" else "fp32")[0]


def _known_operators(trace: Trace) -> NDArray[np.bool_]:
    """Host operators whose work a formula may tell, or that state it."""
    known = formulas()
    named = np.fromiter((name in known for name in trace.names), np.bool_, len(trace.names))
    c = trace.columns
    with_inputs = named[c.name] & (c.inputs >= 0) if len(trace.names) else np.zeros(len(trace), np.bool_)
    return np.asarray(operator_mask(trace) & (with_inputs | (c.flops > 0)))


def _units(trace: Trace, scope: Scope) -> _Units:
    c = trace.columns
    operators = _known_operators(trace)
    work = clip_rows(trace, trace.device_rows, scope).rows
    computing = np.isin(c.category[work], [int(category) for category in COMPUTE_CATEGORIES])
    moving = np.isin(c.category[work], [Category.COPY, Category.MEMSET])
    kernels = work[(computing | moving) & (c.comm_op[work] == CommOp.NONE)]
    if not len(trace.device_rows):
        return _host_units(trace, scope, operators)
    from chakra_core.analysis._climb import owners, sorted_group_union

    total = int(c.dur_ns[work[computing]].sum())
    stated = (c.flops[kernels] >= 0) & (c.bytes_accessed[kernels] >= 0)
    stated &= np.isin(c.category[kernels], [int(category) for category in COMPUTE_CATEGORIES])
    owner = np.where(stated, kernels, owners(kernels, c.parent, operators))
    kernels, owner = kernels[owner >= 0], owner[owner >= 0]
    rows, of_kernel = np.unique(owner, return_inverse=True)
    order = np.lexsort((c.start_ns[kernels], of_kernel))
    start = c.start_ns[kernels[order]]
    time = sorted_group_union(of_kernel[order], start, start + c.dur_ns[kernels[order]], len(rows))
    return _Units(rows, time, kernels, of_kernel, total)


def _host_units(trace: Trace, scope: Scope, operators: NDArray[np.bool_]) -> _Units:
    """On a trace without device work: the outermost operators with known work, by their own duration."""
    from chakra_core.analysis._climb import owners

    c = trace.columns
    rows = clip_rows(trace, np.flatnonzero(operators), scope).rows
    rows = rows[owners(rows, c.parent, operators) < 0]
    inside = clip_rows(trace, np.flatnonzero(operator_mask(trace)), scope).rows
    outer = inside[owners(inside, c.parent, operator_mask(trace)) < 0]
    nothing = np.zeros(0, np.int64)
    return _Units(rows, c.dur_ns[rows], nothing, nothing, int(c.dur_ns[outer].sum()), on_host=True)


def _works(trace: Trace, units: _Units) -> tuple[list[Work], I64]:
    """The distinct works, and which one each unit does (-1: not known). Inputs are read once per distinct call."""
    c, rows = trace.columns, units.rows
    types, told = _types_told(trace, units)
    flops = np.where(c.flops[rows] > 0, c.flops[rows], -1)
    on_device = c.domain[rows] == Domain.DEVICE
    keys = np.stack(
        [c.name[rows], c.inputs[rows], flops, np.where(on_device, c.bytes_accessed[rows], -1), on_device,
         np.where(on_device, c.category[rows], 0), _apart(trace, rows), told], axis=1,
    ).astype(np.int64)  # fmt: skip
    _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    works: list[Work] = []
    codes = np.full(len(first), -1, np.int64)
    place: dict[Work, int] = {}
    for at, unit in enumerate(first.tolist()):
        work = _work(trace, int(rows[unit]), types[int(told[unit])])
        if work is not None:
            codes[at] = place.setdefault(work, len(works))
            if codes[at] == len(works):
                works.append(work)
    return works, codes[inverse.reshape(-1)]


def _apart(trace: Trace, rows: I64) -> I64:
    """A number that keeps rows apart whose inputs' values are not interned, as far as reading them one by one goes."""
    from chakra_core.analysis.flops import attention, convolution
    from chakra_core.trace import INPUT_SEPARATOR

    partial = np.array([text.count(INPUT_SEPARATOR) < 2 for text in trace.inputs] + [False], np.bool_)
    valued = {*attention.FORMULAS, *convolution.FORMULAS}
    named = np.fromiter((name in valued for name in trace.names), np.bool_, len(trace.names))
    apart = np.full(len(rows), -1, np.int64)
    needed = np.flatnonzero(partial[trace.columns.inputs[rows]] & named[trace.columns.name[rows]])[:_MAX_UNITS_DECODED]
    apart[needed] = rows[needed]
    return apart


def _types_told(trace: Trace, units: _Units) -> tuple[list[str], I64]:
    """Element types that kernel names tell, and which of them each unit's last kernel does."""
    types = [""]
    told = np.zeros(len(units.rows), np.int64)
    if len(units.kernels):
        used, where = np.unique(trace.columns.name[units.kernels], return_inverse=True)
        each = [type_in_name(trace.names[code]) for code in used.tolist()]
        types = sorted({"", *each})
        told[units.of_kernel] = np.array([types.index(kind) for kind in each])[where]
    return types, told


def _work(trace: Trace, row: int, otherwise: str) -> Work | None:
    c = trace.columns
    stated, moved = int(c.flops[row]), int(c.bytes_accessed[row])
    if c.domain[row] == Domain.DEVICE:
        return Work(max(stated, 0), max(moved, 0), Category(int(c.category[row])), _device_precision(trace, row))
    given = operands_of(trace, row, otherwise)
    work = work_of(trace.name_of(row), given) if given else None
    if stated <= 0 or work is None:
        return work
    return Work(stated, work.moved, work.family, work.precision)


def _device_precision(trace: Trace, row: int) -> str:
    """Element type that a device node's shapes name; fp32 where they name none."""
    shape = int(trace.columns.shape[row])
    text = trace.shapes[shape].rpartition(":")[2] if shape >= 0 else ""
    short = {
        "f32": "fp32",
        "f16": "fp16",
        "bf16": "bf16",
        "f64": "fp64",
        "i8": "int8",
        "f8e4m3": "fp8",
        "f8e5m2": "fp8",
    }
    return short.get(text.split(",")[0], "fp32")


def _faster(trace: Trace, units: _Units) -> I64:
    """1 for units with a kernel whose name says that fp32 operands are multiplied as tf32."""
    found = np.zeros(len(units.rows), np.int64)
    if len(units.kernels):
        named = np.fromiter((bool(_TF32.search(name[:600])) for name in trace.names), np.bool_, len(trace.names))
        found[units.of_kernel[named[trace.columns.name[units.kernels]]]] = 1
    return found


def _longest(rows: I64, time: I64, group: I64, groups: int) -> I64:
    order = np.lexsort((-rows, time, group))
    last = np.searchsorted(group[order], np.arange(groups), side="right") - 1
    return rows[order[last]] if len(rows) else np.zeros(0, np.int64)


def as_json(trace: Trace, scope: Scope = WHOLE) -> dict[str, Any]:
    """The key ``roofline`` of the command line's ``analyze``."""
    result = roofline(trace, scope)
    known = result.device is not None
    return {
        "roofline": {
            "hardware": result.device.name if result.device else None,
            "total_ns": result.total_ns,
            "covered_ns": result.covered_ns,
            "roof_ns": round(float(result.roof_ns.sum())) if known else None,
            "above_ns": round(float(result.above_ns.sum())) if known else None,
            "operators": result.records(_JSON_ROWS),
        }
    }
