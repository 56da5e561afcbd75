"""What is wrong with a trace or a run, beyond what its reader noticed: each finding in plain words, with a remedy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from chakra_core.graph import break_cycles
from chakra_core.schema import NO_TIME, Category, CommOp, Domain, LaneKind, NodeKind, Severity, TimeKind
from chakra_core.trace import HealthFinding, Run, Trace

__all__ = ["check_run", "check_trace"]

_NAMED = 5
_WORK_KINDS = (NodeKind.COMP, NodeKind.COMM_COLL, NodeKind.COMM_SEND, NodeKind.COMM_RECV)


def check_trace(trace: Trace) -> tuple[HealthFinding, ...]:
    """The trace's findings and those of the checks here; a code that the reader reported is not repeated."""
    known = {finding.code for finding in trace.health}
    found = list(trace.health)
    for code, check in _CHECKS.items():
        if code not in known and (finding := check(trace)) is not None:
            found.append(finding)
    return tuple(found)


def _empty(trace: Trace) -> HealthFinding | None:
    if len(trace):
        return None
    return HealthFinding(
        "empty", Severity.WARNING, 1, "The trace holds no node.", "Record again; nothing can be shown."
    )


def _cycle(trace: Trace) -> HealthFinding | None:
    _, closing = break_cycles(trace.edges)
    if not closing.any():
        return None
    rows = np.unique(trace.edges.targets()[closing])
    text = f"{int(closing.sum()):,} dependencies close a cycle; they are ignored where an order is needed."
    return HealthFinding.of("cycle", Severity.WARNING, rows.tolist(), text, "Check the tool that wrote the trace.")


def _rows(code: str, severity: Severity, mask: NDArray[np.bool_], text: str, remedy: str) -> HealthFinding | None:
    rows = np.flatnonzero(mask)
    if not len(rows):
        return None
    finding = HealthFinding.of(code, severity, rows[:20].tolist(), text.format(f"{len(rows):,}"), remedy)
    return HealthFinding(code, severity, len(rows), finding.message, remedy, finding.examples)


def _orphans(trace: Trace) -> HealthFinding | None:
    c = trace.columns
    if not len(trace.edges) or not (c.domain == Domain.HOST).any():
        return None
    device = (c.domain == Domain.DEVICE) & (c.category != Category.ANNOTATION)
    linked = (np.diff(trace.edges.indptr) > 0) | (c.parent >= 0)
    text = "{} device nodes depend on nothing and have no launch: what made them run is not recorded."
    return _rows("orphan-device-node", Severity.INFO, device & ~linked, text, "They are kept on their stream.")


def _unawaited(trace: Trace) -> HealthFinding | None:
    c = trace.columns
    device = (c.domain == Domain.DEVICE) & (c.category != Category.ANNOTATION)
    if not len(trace.edges) or not device.any():
        return None
    awaited = np.zeros(len(trace), np.bool_)
    awaited[trace.edges.sources] = True
    lonely = device & ~awaited
    if lonely.sum() * 2 <= device.sum():
        return None
    text = "{} device nodes have nothing that waits for them: synchronisation with the host is not recorded."
    return _rows(
        "device-node-unawaited", Severity.INFO, lonely, text, "A schedule built from dependencies may end early."
    )


def _no_times(trace: Trace) -> HealthFinding | None:
    if trace.meta.time_kind == TimeKind.RECONSTRUCTED:
        text = "The trace has no start times; those shown are reconstructed from dependencies and durations."
        return HealthFinding(
            "no-start-times", Severity.INFO, len(trace), text, "Record a device trace for measured times."
        )
    missing = trace.columns.start_ns == NO_TIME
    text = "{} nodes have no start time and are not on the timeline."
    return _rows("missing-start", Severity.WARNING, missing, text, "Look at them in the graph.")


def _zero_durations(trace: Trace) -> HealthFinding | None:
    c = trace.columns
    work = np.isin(c.kind, _WORK_KINDS) & (c.category != Category.ANNOTATION)
    zero = work & (c.dur_ns == 0)
    if work.any() and zero.sum() == work.sum():
        text = "No node has a duration: the trace describes work, not time."
        return HealthFinding(
            "no-durations", Severity.WARNING, int(zero.sum()), text, "Choose hardware to simulate it on."
        )
    text = "{} nodes have a duration of zero."
    return _rows("zero-duration", Severity.INFO, zero, text, "They are kept; they cost nothing in sums.")


def _overlaps(trace: Trace) -> HealthFinding | None:
    c = trace.columns
    streams = np.array([lane.kind == LaneKind.STREAM for lane in trace.lanes] + [False])
    rows = np.flatnonzero(streams[c.lane] & (c.start_ns != NO_TIME) & (c.domain == Domain.DEVICE) & (c.dur_ns > 0))
    order = rows[np.lexsort((c.start_ns[rows], c.lane[rows]))]
    end = c.start_ns[order] + c.dur_ns[order]
    over = np.zeros(len(trace), np.bool_)
    clash = (c.lane[order][1:] == c.lane[order][:-1]) & (c.start_ns[order][1:] < end[:-1])
    over[order[1:][clash]] = True
    text = "{} device nodes start before the one before them on their stream has ended."
    return _rows(
        "stream-overlap", Severity.INFO, over, text, "They are drawn on sub-lanes; unions count the time once."
    )


def _collective(trace: Trace, code: str, mask: NDArray[np.bool_], what: str) -> HealthFinding | None:
    c = trace.columns
    collectives = (c.kind == NodeKind.COMM_COLL) & (c.comm_op != CommOp.BARRIER)
    text = f"{{}} collectives do not say {what}."
    return _rows(code, Severity.WARNING, collectives & mask, text, "What depends on it reads 'n/a'.")


def _unclassified(trace: Trace) -> HealthFinding | None:
    c = trace.columns
    rows = np.flatnonzero((c.domain == Domain.DEVICE) & (c.category == Category.OTHER))
    if not len(rows):
        return None
    spent = Counter[str]()
    for code, dur in zip(*_sum_by(c.name[rows], c.dur_ns[rows]), strict=True):
        spent[trace.names[code]] += dur
    top = ", ".join(name[:60] for name, _ in spent.most_common(_NAMED))
    text = f"{len(rows):,} device nodes of {len(spent):,} names fit no category; they count as compute. Longest: {top}."
    remedy = "Add a rule for them to your categories file."
    return HealthFinding("unclassified", Severity.INFO, len(rows), text, remedy, tuple(rows[:20].tolist()))


def _sum_by(codes: NDArray[np.int32], values: NDArray[np.int64]) -> tuple[list[int], list[int]]:
    keys, inverse = np.unique(codes, return_inverse=True)
    totals = np.zeros(len(keys), np.int64)
    np.add.at(totals, inverse, values)
    return keys.tolist(), totals.tolist()


_CHECKS: dict[str, Callable[[Trace], HealthFinding | None]] = {
    "empty": _empty,
    "cycle": _cycle,
    "orphan-device-node": _orphans,
    "device-node-unawaited": _unawaited,
    "no-start-times": _no_times,
    "zero-duration": _zero_durations,
    "stream-overlap": _overlaps,
    "collective-size": lambda t: _collective(
        t, "collective-size", t.columns.comm_bytes < 0, "how many bytes they move"
    ),
    "collective-type": lambda t: _collective(
        t, "collective-type", np.isin(t.columns.comm_op, (CommOp.NONE, CommOp.UNKNOWN)), "which operation they are"
    ),
    "collective-group": lambda t: _collective(
        t, "collective-group", t.columns.comm_group < 0, "their process group; all ranks are assumed"
    ),
    "unclassified": _unclassified,
}


def check_run(run: Run) -> tuple[HealthFinding, ...]:
    """The run's findings, with missing ranks and unequal collective counts."""
    found = list(run.health)
    world = max([trace.meta.world_size for trace in run.traces], default=-1)
    missing = sorted(set(range(world)) - set(run.ranks)) if 0 < world <= 1_000_000 else []
    if missing:
        text = f"{len(missing):,} of {world:,} ranks are not here ({_ranges(missing)})."
        found.append(
            HealthFinding("ranks-missing", Severity.INFO, len(missing), text, "What spans ranks covers those present.")
        )
    found.extend(_unequal_counts(run))
    return tuple(found)


def _ranges(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:_NAMED]))
    return shown if len(numbers) <= _NAMED else f"{shown}, …"


def _unequal_counts(run: Run) -> Iterable[HealthFinding]:
    counts: dict[str, dict[int, int]] = {}
    for rank, trace in zip(run.ranks, run.traces, strict=True):
        c = trace.columns
        rows = (c.kind == NodeKind.COMM_COLL) & (c.domain == Domain.DEVICE) & (c.comm_group >= 0)
        for group, count in zip(*np.unique(c.comm_group[rows], return_counts=True), strict=True):
            members = trace.meta.groups[group]
            counts.setdefault(f"{members.name} {sorted(members.ranks)}", {})[rank] = int(count)
    uneven = [name for name, by_rank in counts.items() if len(set(by_rank.values())) > 1]
    if uneven:
        text = f"{len(uneven):,} process groups have unequal numbers of collectives on their ranks ({uneven[0][:60]})."
        remedy = "Ranks may have been recorded over different spans; the surplus has no partner."
        yield HealthFinding("collective-counts", Severity.WARNING, len(uneven), text, remedy)
