"""What is odd about a trace-event file, said plainly, with examples."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakra_core.readers._kineto_comm import Communication
from chakra_core.readers._kineto_link import Links
from chakra_core.readers._kineto_nodes import Nodes, phase_is
from chakra_core.readers._kineto_raw import RawEvents
from chakra_core.schema import Category, CommOp, Domain, Severity
from chakra_core.trace import HealthFinding, TraceMeta

__all__ = ["find_health"]

_NAMES = 5


def find_health(
    raw: RawEvents, nodes: Nodes, links: Links, comm: Communication, meta: TraceMeta
) -> tuple[HealthFinding, ...]:
    """All findings of one file; none has a count of zero."""
    findings = [
        *_of_file(raw, nodes, meta),
        *_of_slices(raw, nodes),
        *_of_device(raw, nodes, links),
        *_of_collectives(nodes, comm),
    ]
    return tuple(finding for finding in findings if finding.count > 0)


def _finding(
    code: str, severity: Severity, what: Iterable[int] | int | NDArray[Any], message: str, remedy: str
) -> HealthFinding:
    if isinstance(what, np.ndarray):
        return HealthFinding(code, severity, len(what), message, remedy, tuple(int(row) for row in what[:20]))
    return HealthFinding.of(code, severity, what, message, remedy)


def _of_file(raw: RawEvents, nodes: Nodes, meta: TraceMeta) -> list[HealthFinding]:
    cut, damaged = raw.truncated_at, raw.damaged
    samples = int(phase_is(raw, "P").sum())
    places = ", ".join(f"{at:,}" for at in damaged[:_NAMES])
    empty = len(raw) == 0
    return [
        _finding(
            "truncated", Severity.ERROR, int(cut >= 0),
            f"The file breaks off: its event list ends at byte {cut:,} in the middle; what comes before was read.",
            "Record or copy the trace again; the process probably ended while the profiler was writing.",
        ),
        _finding(
            "damaged-record", Severity.ERROR, len(damaged),
            f"{len(damaged)} event(s) are not valid JSON and were left out, the first at byte {places}.",
            "Look at these bytes in the file; names with unescaped quotes are a common cause.",
        ),
        _finding(
            "damaged-metadata", Severity.WARNING, int(raw.meta_damaged),
            "What surrounds the event list is not valid JSON; rank, hardware and time base may be missing.",
            "Check the beginning and the end of the file.",
        ),
        _finding("empty", Severity.WARNING, int(empty), "The trace holds no events.",
                 "Check that the profiler was active while work was done."),
        _finding(
            "rank-unknown", Severity.INFO, int(meta.rank < 0 and meta.format == "kineto" and not empty),
            "Neither the file nor its name says which rank this is; ranks are numbered in the order of opening.",
            "Name files rank0.json, rank1.json … or record with torch.distributed initialised.",
        ),
        _finding("samples-ignored", Severity.INFO, samples, f"{samples:,} sample events (P) are not shown.",
                 "Nothing needs doing."),
        _finding(
            "duplicate-events", Severity.INFO, _duplicates(nodes),
            "Events alike in name, thread, start and duration to another; all were kept.",
            "In files with whole microseconds these are mostly distinct short operations, not copies.",
        ),
    ]  # fmt: skip


def _duplicates(nodes: Nodes) -> NDArray[np.int64]:
    """Rows that repeat an earlier one in name, thread, start and duration."""
    if not len(nodes):
        return np.zeros(0, np.int64)
    by_start = np.argsort(nodes.start, kind="stable")
    tied = np.append(nodes.start[by_start[1:]] == nodes.start[by_start[:-1]], False)
    rows = np.sort(by_start[tied | np.roll(tied, 1)])  # only what starts together can be alike
    start, dur, name, track = nodes.start[rows], nodes.dur[rows], nodes.name[rows], nodes.track[rows]
    order = np.lexsort((dur, name, track, start))
    same = np.ones(max(len(order) - 1, 0), np.bool_)
    for column in (start, track, name, dur):
        same &= column[order[1:]] == column[order[:-1]]
    return np.sort(rows[order[1:][same]])


def _of_slices(raw: RawEvents, nodes: Nodes) -> list[HealthFinding]:
    found = nodes.problems
    zero = np.flatnonzero((nodes.dur == 0) & (raw.phases[nodes.event] == ord("X")))
    stray = found["unmatched-end"]
    return [
        _finding("missing-duration", Severity.WARNING, found["missing-duration"],
                 "Complete events without a duration; they are kept with duration 0.",
                 "The profiler may have been stopped while they ran."),
        _finding("negative-duration", Severity.WARNING, found["negative-duration"],
                 "Events that end before they start; they are kept with duration 0.",
                 "The clocks of the recording machine may have been adjusted."),
        _finding("zero-duration", Severity.INFO, zero,
                 "Events of duration zero (shorter than the file's resolution, or cut).",
                 "Record with a PyTorch of 2024 or later for nanoseconds."),
        _finding("unmatched-begin", Severity.WARNING, found["unmatched-begin"],
                 "Begin events that nothing ends; they are drawn to the end of the trace.",
                 "The recording stopped while they ran."),
        _finding("unmatched-end", Severity.WARNING, stray,
                 "End events without a beginning; they are left out.", "The recording started while they ran."),
        _finding("partial-overlap", Severity.INFO, found["partial-overlap"],
                 "Events that overlap an earlier one of their thread without being inside it; both are kept.",
                 "Generators, coroutines and clock resolution are the usual causes."),
    ]  # fmt: skip


def _of_device(raw: RawEvents, nodes: Nodes, links: Links) -> list[HealthFinding]:
    unclassified = np.flatnonzero(nodes.is_work & (nodes.category == Category.OTHER))
    codes, counts = np.unique(nodes.name[unclassified], return_counts=True)
    top = [raw.strings[codes[at]][:80] if codes[at] >= 0 else "" for at in np.argsort(-counts)[:_NAMES]]
    has_host = bool((nodes.domain == Domain.HOST).any())
    lost = links.problems["kernel-without-launch"]
    waits = np.flatnonzero(nodes.is_work & (nodes.category == Category.RUNTIME) & (nodes.dur > 0))
    share = int(nodes.dur[waits].sum()) / max(int(nodes.dur[nodes.is_work].sum()), 1)
    return [
        _finding("kernel-without-launch", Severity.WARNING if has_host else Severity.INFO, lost,
                 "Device work whose launching call is not in the trace; it is kept, without that edge.",
                 "Work launched before recording began, graph replays and dropped runtime events cause this."),
        _finding("kernel-before-launch", Severity.WARNING, links.problems["kernel-before-launch"],
                 "Device work that starts before the call that launches it: clocks disagree.",
                 "Do not trust launch delays of this trace."),
        _finding("stream-overlap", Severity.INFO, links.problems["stream-overlap"],
                 "Device work that overlaps earlier work of the same stream; it is kept.",
                 "Programmatic dependent launch and clock resolution are the usual causes."),
        _finding("device-waits", Severity.INFO, waits,
                 f"Device events that wait for, or record, events of other streams ({share:.0%} of the time of all "
                 "device events): they are shown, and count as idle, not as work.",
                 "Follow the synchronisation edge of what comes next to see what was waited for."),
        _finding("unclassified", Severity.INFO, unclassified,
                 f"Kernels of unknown kind ({len(codes)} names), counted as compute: {'; '.join(top)}",
                 "Add rules for them in a TOML file (see categories.toml)."),
    ]  # fmt: skip


def _of_collectives(nodes: Nodes, comm: Communication) -> list[HealthFinding]:
    rows = np.flatnonzero(comm.op != CommOp.NONE)
    sized = rows[comm.op[rows] != CommOp.BARRIER]
    remedy = "Record with a PyTorch of 2024-05 or later, which writes it on every collective."
    del nodes
    return [
        _finding("collective-type", Severity.WARNING, rows[comm.op[rows] == CommOp.UNKNOWN],
                 "Communication whose kind the trace does not say.", remedy),
        _finding("collective-size", Severity.WARNING, sized[comm.bytes[sized] < 0],
                 "Communication whose message size the trace does not say: no bandwidth can be given.", remedy),
        _finding("collective-group", Severity.WARNING, rows[comm.group[rows] < 0],
                 "Communication whose process group the trace does not say; all ranks are assumed.", remedy),
    ]  # fmt: skip
