"""What to look at first: the few facts of a run that most deserve a look, each from its numbers, each with a link."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chakra_core.analysis.breakdown import Breakdown, breakdowns
from chakra_core.analysis.operators import kernels, top_operators
from chakra_core.schema import NO_TIME, Category, Domain, Severity
from chakra_core.trace import Run, Trace
from dashboard.words import count, duration, share

__all__ = ["Pointer", "pointers"]

_IDLE_SHARE = 0.15
_EXPOSED_SHARE = 0.05
_HOT_SHARE = 0.10
_IMBALANCE = 0.10
_MOST = 6
_STRETCHES = 60


@dataclass(frozen=True, slots=True)
class Pointer:
    """One thing to look at: a title, the numbers in a sentence, and where to see it.

    Attributes:
        title: a few words.
        text: the numbers behind it.
        action: label of the button.
        page: slug of the page that shows it.
        rank: rank of the node to select.
        row: row of the node to select; -1 for none.
        window: time range to show, ns from the run's origin.
        weight: time it concerns, in ns; the order of the list.
    """

    title: str
    text: str
    action: str
    page: str
    rank: int = 0
    row: int = -1
    window: tuple[int, int] | None = None
    weight: int = 0


def pointers(run: Run) -> tuple[Pointer, ...]:
    """The pointers of a run, those that concern most time first; errors in its health come before all."""
    parts = breakdowns(run)
    found = [*_time(run, parts), *_imbalance(parts), *_worst_stretch(run), *_longest(run)]
    found.sort(key=lambda pointer: -pointer.weight)
    return tuple([*_errors(run), *found][:_MOST])


def _errors(run: Run) -> list[Pointer]:
    errors = [finding for trace in run.traces for finding in trace.health if finding.severity == Severity.ERROR]
    errors += [finding for finding in run.health if finding.severity == Severity.ERROR]
    return [Pointer("The trace is damaged", errors[0].message, "Read the health report", "overview")] if errors else []


def _time(run: Run, parts: dict[int, Breakdown]) -> list[Pointer]:
    total = sum(part.total.total_ns for part in parts.values())
    if not total:
        return []
    found = []
    idle = sum(part.total.idle_ns for part in parts.values())
    comm = sum(part.total.exposed_comm_ns for part in parts.values())
    memory = sum(part.total.exposed_memory_ns for part in parts.values())
    gap = _longest_gap(run)
    if idle > _IDLE_SHARE * total:
        text = f"Devices have nothing to do for {share(idle, total)} of their time ({duration(idle)} in all)."
        window = None
        if gap is not None:
            rank, first, last = gap
            text += f" The longest gap, on rank {rank}, lasts {duration(last - first)}."
            margin = max((last - first) // 5, 1000)
            window = (max(first - margin, 0), last + margin)
        found.append(Pointer("Idle devices", text, "Show the longest gap", "timeline", window=window, weight=idle))
    if comm > _EXPOSED_SHARE * total:
        text = f"{share(comm, total)} of device time is communication that no compute hides ({duration(comm)})."
        found.append(Pointer("Exposed communication", text, "Where in the heatmap", "bottlenecks", weight=comm))
    if memory > _EXPOSED_SHARE * total:
        text = f"{share(memory, total)} of device time goes to copies and memsets alone ({duration(memory)})."
        found.append(Pointer("Exposed copies", text, "Where in the heatmap", "bottlenecks", weight=memory))
    return found


def _longest_gap(run: Run) -> tuple[int, int, int] | None:
    """Rank, start and end (ns from the run's origin) of the longest time in which a rank's devices all stand still."""
    from chakra_core.intervals import merge

    found: tuple[int, int, int] | None = None
    for rank, trace in zip(run.ranks, run.traces, strict=True):
        rows = trace.device_rows[trace.columns.start_ns[trace.device_rows] != NO_TIME]
        start, end = merge(trace.columns.start_ns[rows], trace.columns.start_ns[rows] + trace.columns.dur_ns[rows])
        if len(start) < 2:
            continue
        at = int(np.argmax(start[1:] - end[:-1]))
        first, last = int(end[at]) - run.origin_ns, int(start[at + 1]) - run.origin_ns
        if found is None or last - first > found[2] - found[1]:
            found = rank, first, last
    return found


def _imbalance(parts: dict[int, Breakdown]) -> list[Pointer]:
    busy = {rank: part.total.compute_ns for rank, part in parts.items() if part.total.total_ns}
    if len(busy) < 2:
        return []
    slow, fast = max(busy, key=lambda rank: busy[rank]), min(busy, key=lambda rank: busy[rank])
    more = busy[slow] - busy[fast]
    if more <= _IMBALANCE * busy[slow]:
        return []
    text = f"Rank {slow} computes {duration(busy[slow])}, rank {fast} {duration(busy[fast])}: {duration(more)} apart."
    return [Pointer("Ranks do unequal work", text, "Compare them in the heatmap", "bottlenecks", weight=more)]


def _worst_stretch(run: Run) -> list[Pointer]:
    """The stretch of time in which a rank loses most, from the heatmap of the Bottlenecks page."""
    from chakra_core.analysis.bottleneck import bottlenecks, worst_cells

    if not any(len(trace.device_rows) for trace in run.traces):
        return []
    result = bottlenecks(run, bins=_STRETCHES)
    cells = [cell for cell in worst_cells(result) if cell.lost_ns]
    if not cells:
        return []
    worst = max(cells, key=lambda cell: cell.lost_ns)
    start, end = worst.start_ns - run.origin_ns, worst.end_ns - run.origin_ns
    text = (
        f"From {duration(start)} to {duration(end)}, {result.rows[worst.row]} loses {share(worst.lost_ns, end - start)} "
        f"of the time, most of it to {worst.cause}."
    )
    rank = result.ranks[worst.row]
    row = int(result.top_row[worst.row, worst.bin])
    return [Pointer("The worst stretch", text, "Show it", "timeline", rank, row, (start, end), worst.lost_ns)]


def _longest(run: Run) -> list[Pointer]:
    trace = next((trace for trace in run.traces if len(trace.device_rows)), run.traces[0])
    if not len(trace):
        return []
    rank = run.ranks[run.traces.index(trace)]
    if len(trace.device_rows):
        return _hot_kernel(run, trace, rank)
    return _hot_operator(run, trace, rank)


def _hot_kernel(run: Run, trace: Trace, rank: int) -> list[Pointer]:
    table = kernels(trace)
    total = int(table.total_ns.sum())
    if not total or table.total_ns[0] < _HOT_SHARE * total:
        return []
    spent, row = int(table.total_ns[0]), int(table.longest[0])
    what = Category(int(table.category[0])).label
    text = f"{table.names[0][:90]} takes {share(spent, total)} of kernel time on rank {rank}: {count(int(table.count[0]), 'call')}, {duration(spent)} ({what})."
    return [
        Pointer(
            "One kernel dominates" if 2 * spent > total else "Costliest kernel",
            text,
            "Show its longest call",
            "timeline",
            rank,
            row,
            _around(run, trace, row),
            spent,
        )
    ]


def _hot_operator(run: Run, trace: Trace, rank: int) -> list[Pointer]:
    table = top_operators(trace)
    if not len(table.names) or not int(table.self_ns.sum()):
        return []
    at = int(np.argmax(table.self_ns))
    spent, row = int(table.self_ns[at]), int(table.longest[at])
    where = "on the host" if table.domain == Domain.HOST else "on the device"
    text = f"{table.names[at][:90]} itself takes {share(spent, int(table.self_ns.sum()))} of operator time {where}: {count(int(table.count[at]), 'call')}, {duration(spent)}."
    return [
        Pointer(
            "Costliest operator",
            text,
            "Show its longest call",
            "timeline",
            rank,
            row,
            _around(run, trace, row),
            spent,
        )
    ]


def _around(run: Run, trace: Trace, row: int) -> tuple[int, int] | None:
    start = int(trace.columns.start_ns[row])
    if start == NO_TIME:
        return None
    dur = max(int(trace.columns.dur_ns[row]), 1000)
    begin = max(start - run.origin_ns - 2 * dur, 0)
    return begin, begin + 5 * dur
