"""Runs side by side: totals that decompose exactly, and time per operator with its counterpart in every run.

Totals are per device and, where a run has several devices (or ranks), the mean over them: every part is rounded to
whole nanoseconds and the total is their sum, so that
``delta total = delta compute + delta exposed_comm + delta exposed_memory + delta idle`` holds exactly, and so do the
splits of compute (``explain``) and of idle time (``idle``) into causes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakra_core.analysis.align import Hints, Work, align, collect
from chakra_core.analysis.alike import How, Keys
from chakra_core.analysis.breakdown import PARTS, DeviceBreakdown, breakdowns
from chakra_core.analysis.explain import CAUSES, Explanation, explain
from chakra_core.analysis.groupings import GROUPINGS
from chakra_core.analysis.idle import IDLE_CAUSES, IdleParts, idle_of
from chakra_core.analysis.operator_table import OperatorTable, mean_ns, operator_table
from chakra_core.analysis.pins import Pins
from chakra_core.analysis.places import hints_of
from chakra_core.analysis.scope import WHOLE, Scope, traces_in
from chakra_core.errors import AnalysisError
from chakra_core.schema import Category, TimeKind
from chakra_core.trace import Run

__all__ = ["Comparison", "Delta", "OperatorTable", "RunTotals", "as_json", "compare"]

I64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RunTotals:
    """One run of a comparison; times in ns, the mean over its devices.

    Attributes:
        label: the run's label.
        hardware: what it ran on, empty where unknown.
        time_kind: where its times come from.
        ranks: the ranks looked at.
        devices: number of devices averaged over; 0 where the run has no device work.
        on_device: whether operators are compared by device time; else by their self time on the host.
        aggregate: in words, what the numbers are: ``one device`` or ``mean over 8 devices``.
        total_ns: sum of the four parts.
        compute_ns: see ``breakdown``; the other parts likewise.
        exposed_comm_ns: communication not hidden under compute.
        exposed_memory_ns: copies and memsets hidden under neither.
        idle_ns: nothing running.
        overlap_ratio: hidden communication over all communication, summed over devices; None without any.
        span_ns: from the first to the last event of the run, host included.
        work_ns: summed duration of everything compared (mean over devices).
        matched_ns: the part of it in groups that the baseline has too; for the baseline, that another run has.
        idle: the idle time by cause.
        per_device: ``(rank, breakdown)`` of every device.
        by_category: device work by category (mean over devices).
    """

    label: str
    hardware: str
    time_kind: TimeKind
    ranks: tuple[int, ...]
    devices: int
    on_device: bool
    aggregate: str
    total_ns: int
    compute_ns: int
    exposed_comm_ns: int
    exposed_memory_ns: int
    idle_ns: int
    overlap_ratio: float | None
    span_ns: int
    work_ns: int
    matched_ns: int
    idle: IdleParts
    per_device: tuple[tuple[int, DeviceBreakdown], ...]
    by_category: dict[Category, int]

    def part(self, name: str) -> int:
        """One of ``breakdown.PARTS``, in ns."""
        return int(getattr(self, f"{name}_ns"))

    @property
    def matched_share(self) -> float | None:
        """Share of the compared time that has a counterpart (see ``matched_ns``); None where there is no time."""
        return self.matched_ns / self.work_ns if self.work_ns else None

    @property
    def slowest(self) -> tuple[int, int] | None:
        """``(rank, total_ns)`` of the device with the longest total; None without devices."""
        found = max(self.per_device, key=lambda entry: entry[1].total_ns, default=None)
        return None if found is None else (found[0], found[1].total_ns)


@dataclass(frozen=True, slots=True)
class Delta:
    """What a run has more (or, negative, less) than the baseline, in ns; the parts sum to the total.

    ``idle`` is the change of idle time by cause: it sums to ``idle_ns``.
    """

    total_ns: int
    compute_ns: int
    exposed_comm_ns: int
    exposed_memory_ns: int
    idle_ns: int
    idle: IdleParts

    def part(self, name: str) -> int:
        """One of ``breakdown.PARTS``, in ns."""
        return int(getattr(self, f"{name}_ns"))


@dataclass(frozen=True, slots=True)
class Comparison:
    """Several runs against a baseline: ``runs``, ``deltas`` and ``why`` (of the change of compute) are parallel."""

    baseline: int
    runs: tuple[RunTotals, ...]
    deltas: tuple[Delta, ...]
    operators: OperatorTable
    why: tuple[Explanation, ...]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What makes the numbers less than directly comparable, in words."""
        found = []
        if len({run.on_device for run in self.runs}) > 1:
            host = ", ".join(run.label for run in self.runs if not run.on_device)
            found.append(f"No device work in {host}: its operators are shown with their self time on the host.")
        if len({run.time_kind for run in self.runs}) > 1:
            kinds = ", ".join(f"{run.label} is {run.time_kind}" for run in self.runs)
            found.append(f"Times of different kinds are compared: {kinds}.")
        if len({run.devices for run in self.runs if run.devices}) > 1:
            found.append("The runs have different numbers of devices: all numbers are the mean per device.")
        return tuple(found)


def compare(
    runs: Sequence[Run], baseline: int = 0, scopes: Sequence[Scope] = (), *, by: str = "operator",
    pins: Mapping[int, Pins] | None = None,
) -> Comparison:  # fmt: skip
    """Compare runs with one of them.

    Args:
        runs: two or more.
        baseline: index of the run the others are compared with.
        scopes: the part of each run to look at (windows are absolute, so each run has its own); default: all of it.
        by: what work is known by, one of ``groupings.GROUPINGS``.
        pins: by index of a run, what the user has pinned between it and the baseline (``pins.parse_pins``).

    Raises:
        AnalysisError: fewer than two runs, no such baseline or grouping, or another number of scopes.
    """
    if len(runs) < 2:
        raise AnalysisError("a comparison needs two runs or more")
    if not 0 <= baseline < len(runs):
        raise AnalysisError(f"there is no run {baseline} to compare with: the runs are numbered 0 to {len(runs) - 1}")
    scopes = scopes or [WHOLE] * len(runs)
    if len(scopes) != len(runs):
        raise AnalysisError(f"{len(scopes)} scopes were given for {len(runs)} runs")
    if by not in GROUPINGS:
        raise AnalysisError(f"runs are not compared by {by!r}; known are {', '.join(GROUPINGS)}")
    keys = Keys()
    hints: Sequence[Hints | None] = (
        hints_of(runs, baseline, keys, pins or {}) if by == "operator" else [None] * len(runs)
    )
    works = [collect(run, keys, scope, hint, by) for run, scope, hint in zip(runs, scopes, hints, strict=True)]
    alignment = align(works, keys)
    per_device = [_devices(run, scope) for run, scope in zip(runs, scopes, strict=True)]
    units = [max(1, len(found) or len(traces_in(run, scope)))
             for found, run, scope in zip(per_device, runs, scopes, strict=True)]  # fmt: skip
    ranks = [np.array([rank for rank, _ in traces_in(run, scope)], np.int64)
             for run, scope in zip(runs, scopes, strict=True)]  # fmt: skip
    sums, table = operator_table(works, keys, alignment, units, ranks, baseline)
    met = _met(sums > 0, baseline)
    totals = tuple(
        _totals(
            run, scopes[at], works[at], per_device[at], units[at],
            matched=int(sums[met[:, at], at].sum()),
        )
        for at, run in enumerate(runs)
    )  # fmt: skip
    deltas = tuple(_delta(run, totals[baseline]) for run in totals)
    why = explain(works, alignment, units, baseline, [delta.compute_ns for delta in deltas])
    return Comparison(baseline, totals, deltas, table, why)


def _met(present: NDArray[np.bool_], baseline: int) -> NDArray[np.bool_]:
    """Groups (rows) of each run (columns) that the baseline has too; of the baseline, those that any other run has."""
    met = present & present[:, [baseline]]
    met[:, baseline] = np.delete(met, baseline, axis=1).any(axis=1)
    return met


def _devices(run: Run, scope: Scope) -> tuple[tuple[int, DeviceBreakdown], ...]:
    return tuple((rank, part) for rank, found in breakdowns(run, scope).items() for part in found.devices)


def _totals(
    run: Run, scope: Scope, work: Work, per_device: tuple[tuple[int, DeviceBreakdown], ...], units: int, *, matched: int
) -> RunTotals:
    parts = {part: mean_ns(sum(found.part(part) for _, found in per_device), units) for part in PARTS}
    comm = sum(found.comm_ns for _, found in per_device)
    overlap = sum(found.overlap_ns for _, found in per_device)
    traces = traces_in(run, scope)
    by_category = np.zeros(len(Category), np.int64)
    np.add.at(by_category, work.category, work.dur_ns)
    what = "device" if per_device else "rank"
    return RunTotals(
        label=run.label,
        hardware=run.hardware or next((trace.meta.hardware for _, trace in traces if trace.meta.hardware), ""),
        time_kind=run.time_kind,
        ranks=tuple(rank for rank, _ in traces),
        devices=len(per_device),
        on_device=work.on_device,
        aggregate=f"one {what}" if units == 1 else f"mean over {units} {what}s",
        total_ns=sum(parts.values()),
        compute_ns=parts["compute"],
        exposed_comm_ns=parts["exposed_comm"],
        exposed_memory_ns=parts["exposed_memory"],
        idle_ns=parts["idle"],
        overlap_ratio=overlap / comm if comm else None,
        span_ns=_span(run, scope),
        work_ns=mean_ns(int(work.dur_ns.sum()), units),
        matched_ns=mean_ns(matched, units),
        idle=idle_of(run, scope).mean(units),
        per_device=per_device,
        by_category={Category(code): mean_ns(int(ns), units) for code, ns in enumerate(by_category) if ns},
    )


def _span(run: Run, scope: Scope) -> int:
    timed = [trace for _, trace in traces_in(run, scope) if trace.has_times]
    if not timed:
        return 0
    first, last = min(trace.origin_ns for trace in timed), max(trace.end_ns for trace in timed)
    if scope.window is not None:
        first, last = max(first, scope.window[0]), min(last, scope.window[1])
    return max(0, last - first)


def _delta(run: RunTotals, baseline: RunTotals) -> Delta:
    parts = {f"{part}_ns": run.part(part) - baseline.part(part) for part in PARTS}
    idle = IdleParts(*(run.idle.part(cause) - baseline.idle.part(cause) for cause in IDLE_CAUSES))
    return Delta(total_ns=sum(parts.values()), idle=idle, **parts)


def as_json(result: Comparison) -> dict[str, Any]:
    """The document that the command line's ``compare`` prints.

    ``baseline`` is the run compared with; ``runs`` are the others, in order, and ``runs_ns`` is parallel to them.
    """
    others = [at for at in range(len(result.runs)) if at != result.baseline]
    table = result.operators
    return {
        "baseline": _run_json(result.runs[result.baseline]),
        "runs": [
            _run_json(result.runs[at])
            | {"delta": _delta_json(result.deltas[at])}
            | {"compute_change": {f"{cause}_ns": result.why[at].part(cause) for cause in CAUSES}}
            | {"idle_change": {f"{cause}_ns": result.deltas[at].idle.part(cause) for cause in IDLE_CAUSES}}
            for at in others
        ],
        "operators": [_row_json(result, row, others) for row in range(len(table))],
        "unmatched": [
            {
                "run": result.runs[at].label,
                "name": table.names[row],
                "ns": int(table.ns[row, at]),
                "calls": int(table.calls[row, at]),
                "category": Category(int(table.category[row])).label,
            }
            for row in np.flatnonzero(~table.matched)
            for at in range(len(result.runs))
            if table.kernels[row, at]
        ],
        "warnings": list(result.warnings),
    }


def _row_json(result: Comparison, row: int, others: Sequence[int]) -> dict[str, Any]:
    table, base = result.operators, result.baseline
    return {
        "name": table.names[row],
        "category": Category(int(table.category[row])).label,
        "baseline_ns": int(table.ns[row, base]),
        "runs_ns": [int(table.ns[row, at]) for at in others],
        "baseline_calls": int(table.calls[row, base]),
        "runs_calls": [int(table.calls[row, at]) for at in others],
        "matched": bool(table.matched[row]),
        "how": How(int(table.how[row])).label,
        "confidence": How(int(table.how[row])).confidence,
    }


def _run_json(run: RunTotals) -> dict[str, Any]:
    return {
        "label": run.label,
        "hardware": run.hardware,
        "time_kind": str(run.time_kind),
        "ranks": list(run.ranks),
        "aggregate": run.aggregate,
        "basis": "device" if run.on_device else "host",
        "total_ns": run.total_ns,
        **{f"{part}_ns": run.part(part) for part in PARTS},
        "idle": {f"{cause}_ns": run.idle.part(cause) for cause in IDLE_CAUSES},
        "overlap_ratio": run.overlap_ratio,
        "span_ns": run.span_ns,
        "work_ns": run.work_ns,
        "matched_share": run.matched_share,
        "per_device": [
            {"rank": rank, "device": part.device, "total_ns": part.total_ns}
            | {f"{name}_ns": part.part(name) for name in PARTS}
            for rank, part in run.per_device
        ],
    }


def _delta_json(delta: Delta) -> dict[str, int]:
    """The parts only: they sum to the difference of the totals."""
    return {f"{part}_ns": delta.part(part) for part in PARTS}
