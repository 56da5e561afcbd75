"""Where a run loses time: a score per cell of rows (ranks or lanes) by time, with every term kept.

A cell is one row in one time bin. Its score is the share of the cell's time in which the device does nothing useful:
idle, exposed communication (communication that no compute hides) and exposed memory (copies and memsets hidden under
neither). Work below the roofline would add to it where rooflines are known; they are not yet, and the result says so.
All parts of a cell are exact: busy + idle = length of the bin, and busy = compute + exposed communication + exposed
memory. Rows that have no device work are judged by their host threads: busy or idle.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from chakra_core.analysis.scope import WHOLE, Clipped, Scope, clip_rows, traces_in
from chakra_core.intervals import coverage, merge, subtract
from chakra_core.schema import Category, Domain
from chakra_core.trace import Run, Trace

__all__ = ["METRICS", "Cell", "Heatmap", "bottlenecks", "worst_cells"]

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]

METRICS: dict[str, str] = {
    "score": "bottleneck score",
    "idle": "idle",
    "exposed_comm": "exposed communication",
    "exposed_memory": "exposed memory",
    "communication": "communication",
    "compute": "compute",
    "busy": "busy",
    "critical": "on the critical path",
}
"""Metrics of a cell by name, each a share of the cell's time; with the words for axes."""

_CAUSES = ("idle", "exposed_comm", "exposed_memory")
_MAX_ROWS = 512


@dataclass(frozen=True)
class Heatmap:
    """Time per cell, in ns.

    Attributes:
        rows: label of each row.
        ranks: rank of each row.
        lanes: lane of each row in its trace; -1 for a whole rank.
        edges_ns: int64, bin borders (absolute); bin k is ``[edges_ns[k], edges_ns[k + 1])``.
        parts: int64 (rows, bins) per part: compute, communication, exposed_comm, exposed_memory, idle, busy, critical.
        top_row: int64 (rows, bins), row (in its trace) of the node with the most time in the cell; -1 for none.
        top_name: label of that node per cell, as index into ``names``; -1 for none.
        names: node names used by ``top_name``.
        left_out: rows beyond the limit that are not shown.
        on_host: rows judged by host threads because their rank has no device work.
    """

    rows: tuple[str, ...]
    ranks: tuple[int, ...]
    lanes: tuple[int, ...]
    edges_ns: I64
    parts: dict[str, I64]
    top_row: I64
    top_name: I64
    names: tuple[str, ...]
    left_out: int
    on_host: tuple[bool, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and bins."""
        return len(self.rows), len(self.edges_ns) - 1

    def metric(self, name: str) -> F64:
        """A metric as share of each cell's time (rows, bins), in 0..1.

        Raises:
            KeyError: there is no such metric.
        """
        width = np.diff(self.edges_ns).astype(np.float64)
        lost = sum(self.parts[cause] for cause in _CAUSES) if name == "score" else self.parts[name]
        return np.asarray(lost / np.maximum(width, 1), np.float64)

    def cause(self, row: int, bin_: int) -> str:
        """The largest lost part of a cell; ``none`` where nothing is lost."""
        lost = {cause: int(self.parts[cause][row, bin_]) for cause in _CAUSES}
        worst = max(lost, key=lambda cause: lost[cause])
        return worst if lost[worst] else "none"


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the ranking."""

    row: int
    bin: int
    score: float
    lost_ns: int
    cause: str
    start_ns: int
    end_ns: int


def bottlenecks(run: Run, scope: Scope = WHOLE, *, rows: str = "ranks", bins: int = 120) -> Heatmap:
    """The heatmap of a run.

    Args:
        run: the run.
        scope: window and ranks; bins divide the window, or the run's span.
        rows: ``ranks``: one row per rank; ``lanes``: one per device stream (host thread where there is no device work).
        bins: number of time bins.

    Returns:
        The heatmap; it has no rows where the run has no span, since there is no time to lose.

    Raises:
        ValueError: ``rows`` is neither, or ``bins`` is not positive.
    """
    if rows not in ("ranks", "lanes") or bins < 1:
        raise ValueError(f"rows must be ranks or lanes and bins positive, not {rows!r}, {bins}")
    first, last = scope.window or (run.origin_ns, run.end_ns)
    edges = _borders(first, max(last, first + bins), bins)
    built = [
        row
        for rank, trace in (traces_in(run, scope) if last > first else ())
        for row in _rows_of(trace, rank, rows, replace(scope, window=(first, last)), edges)
    ]
    shown = built[:_MAX_ROWS]
    names = tuple(dict.fromkeys(name for row in shown for name in row.names))
    code = {name: at for at, name in enumerate(names)}
    top_name = np.array(
        [[code[row.names[at]] if at >= 0 else -1 for at in row.top_code] for row in shown], np.int64
    ).reshape(len(shown), bins)
    return Heatmap(
        rows=tuple(row.label for row in shown),
        ranks=tuple(row.rank for row in shown),
        lanes=tuple(row.lane for row in shown),
        edges_ns=edges,
        parts={
            part: np.array([row.parts[part] for row in shown], np.int64).reshape(len(shown), bins) for part in _PARTS
        },
        top_row=np.array([row.top_row for row in shown], np.int64).reshape(len(shown), bins),
        top_name=top_name,
        names=names,
        left_out=len(built) - len(shown),
        on_host=tuple(row.on_host for row in shown),
    )


def _borders(first: int, last: int, bins: int) -> I64:
    """Borders of equal bins, exact: clocks since the epoch have more digits than a float."""
    each, rest = divmod(last - first, bins)
    steps = np.arange(bins + 1, dtype=np.int64)
    return first + steps * each + steps * rest // bins


_PARTS = ("compute", "communication", "exposed_comm", "exposed_memory", "idle", "busy", "critical")


@dataclass(frozen=True, slots=True)
class _Row:
    label: str
    rank: int
    lane: int
    parts: dict[str, I64]
    top_row: I64
    top_code: list[int]
    names: list[str]
    on_host: bool


def _rows_of(trace: Trace, rank: int, kind: str, scope: Scope, edges: I64) -> list[_Row]:
    c = trace.columns
    on_host = len(trace.device_rows) == 0
    work = trace.device_rows
    if on_host:
        work = np.flatnonzero((c.domain == Domain.HOST) & (c.category != Category.ANNOTATION))
    if scope.narrows:
        work = clip_rows(trace, work, scope.timeless).rows
    critical = _critical(trace)
    if kind == "ranks":
        label = f"rank {rank}" + (" (host)" if on_host else "")
        return [_row(trace, label, rank, -1, work, scope, edges, critical, on_host=on_host)]
    lanes = [lane for lane in np.unique(c.lane[work]).tolist() if lane >= 0]
    return [
        _row(
            trace,
            f"{rank} · {trace.lanes[lane].name}",
            rank,
            lane,
            work[c.lane[work] == lane],
            scope,
            edges,
            critical,
            on_host=on_host,
        )
        for lane in lanes
    ]


def _critical(trace: Trace) -> NDArray[np.bool_]:
    """Rows on the dependency critical path."""
    from chakra_core.analysis.critical_path import dependency_path

    marked = np.zeros(len(trace), np.bool_)
    if len(trace):
        marked[dependency_path(trace).rows] = True
    return marked


def _row(
    trace: Trace, label: str, rank: int, lane: int, rows: I64, scope: Scope, edges: I64, critical: NDArray[np.bool_],
    *, on_host: bool,
) -> _Row:  # fmt: skip
    inside = clip_rows(trace, rows, scope)
    category = trace.columns.category[inside.rows]
    comm = merge(*_of(inside, category == Category.COMMUNICATION))
    memory = merge(*_of(inside, np.isin(category, (Category.COPY, Category.MEMSET))))
    waits = (Category.RUNTIME,) if not on_host else ()
    rest = (category != Category.COMMUNICATION) & ~np.isin(category, (Category.COPY, Category.MEMSET, *waits))
    compute = merge(*_of(inside, rest))
    useful = merge(np.concatenate([compute[0], comm[0]]), np.concatenate([compute[1], comm[1]]))
    width = np.diff(edges)
    parts = {
        "compute": coverage(*compute, edges),
        "communication": coverage(*comm, edges),
        "exposed_comm": coverage(*subtract(*comm, *compute), edges),
        "exposed_memory": coverage(*subtract(*memory, *useful), edges),
        "critical": coverage(*merge(*_of(inside, critical[inside.rows])), edges),
    }
    parts["busy"] = parts["compute"] + parts["exposed_comm"] + parts["exposed_memory"]
    parts["idle"] = width - parts["busy"]
    top = _longest_in_bins(inside.start_ns, inside.end_ns, edges)
    top_row = np.where(top >= 0, inside.rows[np.maximum(top, 0)] if len(inside) else -1, -1)
    names = [trace.name_of(int(row)) for row in np.unique(top_row[top_row >= 0]).tolist()]
    place = {int(row): at for at, row in enumerate(np.unique(top_row[top_row >= 0]).tolist())}
    return _Row(label, rank, lane, parts, top_row, [place.get(int(row), -1) for row in top_row], names, on_host)


def _of(inside: Clipped, mask: NDArray[np.bool_]) -> tuple[I64, I64]:
    return inside.start_ns[mask], inside.end_ns[mask]


def _longest_in_bins(start: I64, end: I64, edges: I64) -> I64:
    """Position of the interval that covers most of each bin; -1 where none does. O(n log n + bins)."""
    bins = len(edges) - 1
    best = np.full(bins, -1, np.int64)
    most = np.zeros(bins, np.int64)
    if not len(start):
        return best
    first = np.clip(np.searchsorted(edges, start, side="right") - 1, 0, bins - 1)
    last = np.clip(np.searchsorted(edges, end, side="left") - 1, 0, bins - 1)
    for shift in range(int((last - first).max()) + 1):
        at = np.flatnonzero(first + shift <= last)
        bin_ = first[at] + shift
        covered = np.minimum(end[at], edges[bin_ + 1]) - np.maximum(start[at], edges[bin_])
        order = np.lexsort((at, -covered, bin_))
        lead = order[np.r_[True, bin_[order][1:] != bin_[order][:-1]]]
        better = covered[lead] > most[bin_[lead]]
        chosen = lead[better]
        best[bin_[chosen]], most[bin_[chosen]] = at[chosen], covered[chosen]
    return best


def worst_cells(result: Heatmap, most: int = 40, metric: str = "score") -> list[Cell]:
    """The cells with the highest value of a metric, highest first (ties: earlier, then upper rows)."""
    values = result.metric(metric)
    order = np.lexsort(
        (
            np.repeat(np.arange(values.shape[0]), values.shape[1]),
            np.tile(np.arange(values.shape[1]), values.shape[0]),
            -values.ravel(),
        )
    )
    cells = []
    for flat in order[:most].tolist():
        row, bin_ = divmod(flat, values.shape[1])
        if values[row, bin_] <= 0:
            break
        lost = int(sum(result.parts[cause][row, bin_] for cause in _CAUSES))
        cells.append(
            Cell(
                row, bin_, float(values[row, bin_]), lost, result.cause(row, bin_),
                int(result.edges_ns[bin_]), int(result.edges_ns[bin_ + 1]),
            )
        )  # fmt: skip
    return cells
