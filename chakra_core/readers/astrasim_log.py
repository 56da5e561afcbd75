"""ASTRA-sim's logs: the simulated timeline (``issue`` and ``callback`` lines) and the statistics at the end.

Timeline line, with or without a log prefix, in any version:
``issue,sys->id=0, tick=10, node->id=3, node->name=N, node->type=4``; also the CSV that Chakra's timeline visualiser
documents (``issue,<any>=npu,<any>=cycle,<any>=id,<any>=name``). A node runs from its ``issue`` to its ``callback``.
One cycle is 1 ns, as in ASTRA-sim. The log names no dependencies, sizes or process groups.

A log with statistics only (``sys[0], Wall time: …``) gives totals per rank: durations are those of the log, the
places on the time axis are not in it, and a finding says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakra_core.errors import CorruptTrace, LimitExceeded
from chakra_core.readers import _astrasim_totals as totals
from chakra_core.readers.base import Source
from chakra_core.schema import Category, CommOp, Domain, LaneKind, NodeKind, Severity, TimeKind
from chakra_core.trace import Columns, Edges, HealthFinding, Lane, Trace, TraceMeta

__all__ = ["READER", "AstraSimLogReader", "is_rotated_log"]

I64 = NDArray[np.int64]

_EVENT = re.compile(rb"(?m)^(?:[^\n]{0,400}[: ])?(?:issue|callback),[^\s=,]*=\s*\d+,[^=,\n]*=\s*\d+,[^=,\n]*=\s*\d+")
_STATISTIC = re.compile(rb"sys\[\d+\](?: finished, \d+ cycles|, [A-Z][\w -]*: \d)")
_PREFIX = re.compile(rb"(?m)^\[\d{4}-\d\d-\d\dT[^\]\n]*\] \[\w+\] <\w+>: |^ring of node \d+, id: ")
_ROTATED = re.compile(r"^(?P<stem>.+)\.(?P<number>[1-9]\d?)(?P<suffix>\.log)$")
_MOST_RANKS = 65_536
_LANES = (
    Lane("compute", Domain.DEVICE, LaneKind.RESOURCE, device=0),
    Lane("communication", Domain.DEVICE, LaneKind.RESOURCE, device=0),
    Lane("memory", Domain.DEVICE, LaneKind.RESOURCE, device=0),
)
_LANE_OF_KIND = np.array([0, 0, 2, 2, 0, 1, 1, 1], np.int32)
_CATEGORY_OF_KIND = np.array(
    [Category.OTHER, Category.OTHER, Category.COPY, Category.COPY, Category.OTHER, *[Category.COMMUNICATION] * 3],
    np.int8,
)
_KIND_WORDS = (
    ("COMM_SEND", NodeKind.COMM_SEND), ("COMM_RECV", NodeKind.COMM_RECV), ("COMM_COLL", NodeKind.COMM_COLL),
    ("MEM_LOAD", NodeKind.MEM_LOAD), ("MEM_STORE", NodeKind.MEM_STORE),
)  # fmt: skip
_CYCLES = "One cycle of the simulator is shown as 1 ns, the length ASTRA-sim gives it."


class AstraSimLogReader:
    """Reads ASTRA-sim's logs and timeline CSVs."""

    name = "astra-sim-log"
    description = "ASTRA-sim log: simulated timeline (issue and callback lines) or end-of-run statistics"
    suffixes = (".log", ".csv", ".txt")

    def sniff(self, head: bytes, name: str) -> float:
        """Sure where a line is an issue or callback event, or a statistic of one system."""
        del name
        if (b"issue," in head or b"callback," in head) and _EVENT.search(head):  # the search alone takes milliseconds
            return 0.95
        if _STATISTIC.search(head):
            return 0.9
        return 0.7 if _PREFIX.search(head) else 0.0

    def read(self, source: Source) -> Sequence[Trace]:
        """Read the log (and the older parts it was rotated into) into one simulated trace per NPU.

        Raises:
            CorruptTrace: neither a timeline nor statistics are in it.
            LimitExceeded: it names more than 65,536 NPUs.
        """
        data = b"".join([*(part.read() for part in _older_parts(source.path)), source.read()])
        stated = totals.statistics_of(data)
        most = data.count(b"issue,") + data.count(b"callback,")
        traces = _timeline(source, data, most, stated) if most else []
        if traces:
            return traces
        if not stated:
            raise CorruptTrace(
                f"{source.path}: holds neither issue/callback lines nor statistics; run ASTRA-sim with "
                '"trace-enabled": 1 in the system file and open log.log'
            )
        _check_ranks(source.path, len(stated))
        return [totals.trace_of(source, rank, stated[rank], max(stated) + 1) for rank in sorted(stated)]


def is_rotated_log(path: Path) -> bool:
    """Whether a file is an older part (``log.3.log``) of a log beside it (``log.log``)."""
    match = _ROTATED.match(path.name)
    return match is not None and path.with_name(f"{match['stem']}{match['suffix']}").is_file()


def _older_parts(path: Path) -> list[Source]:
    """The parts of a rotated log, oldest first; links are not followed."""
    if path.suffix != ".log" or _ROTATED.match(path.name):
        return []
    parts = [(number, path.with_name(f"{path.stem}.{number}.log")) for number in range(1, 100)]
    return [Source(part) for _, part in sorted(parts, reverse=True) if part.is_file() and not part.is_symlink()]


def _check_ranks(path: Path, count: int) -> None:
    if count > _MOST_RANKS:
        raise LimitExceeded(f"{path}: names {count:,} NPUs, more than {_MOST_RANKS:,}; cut the log to fewer")


def _timeline(source: Source, data: bytes, most: int, stated: totals.Statistics) -> list[Trace]:
    """One trace per NPU from the issue and callback lines; empty where there are none."""
    from chakra_core.readers import _astrasim_scan as scan
    from chakra_core.readers._spans import distinct_texts, padded

    buffer = padded(data)
    table, bad = scan.scan_events(buffer, len(data), most)
    rows, ends, stray = _pair(table)
    if not len(rows):
        return []
    codes, names = distinct_texts(buffer, table[rows, scan.START], table[rows, scan.STOP])
    kinds = _kinds(table[rows, scan.TYPE], codes, names)
    systems, first = np.unique(table[rows, scan.SYS], return_index=True)
    _check_ranks(source.path, len(systems))
    bounds = [*first.tolist(), len(rows)]
    world = max(int(systems[-1]), max(stated, default=0)) + 1
    traces = []
    for at, rank in enumerate(systems.tolist()):
        part = slice(bounds[at], bounds[at + 1])
        facts = stated.get(rank, {})
        meta = TraceMeta(
            path=str(source.path), format=AstraSimLogReader.name, schema="timeline", rank=rank, world_size=world,
            time_kind=TimeKind.SIMULATED, events=part.stop - part.start,
            details={"statistics": facts, "assumptions": [_CYCLES]},
        )  # fmt: skip
        traces.append(_rank_trace(table[rows[part]], ends[part], kinds[part], codes[part], names, meta))
    problems = [*_damage(bad, stray), *_missing_ranks(stated, systems.tolist())]
    if problems:
        traces[0] = traces[0].with_(health=(*traces[0].health, *problems))
    return traces


def _pair(table: I64) -> tuple[I64, I64, int]:
    """Rows of ``issue`` events by NPU and time, the tick of each one's callback (-1: none), and stray callbacks.

    An issue is answered by the callback that follows it among the events of the same node of the same NPU.
    """
    from chakra_core.readers import _astrasim_scan as scan

    order = np.lexsort((np.arange(len(table)), table[:, scan.ID], table[:, scan.SYS]))
    what, sys, node = (table[order, column] for column in (scan.WHAT, scan.SYS, scan.ID))
    same = np.zeros(len(order), np.bool_)
    same[:-1] = (sys[1:] == sys[:-1]) & (node[1:] == node[:-1])
    answered = same & (what == scan.ISSUE) & (np.append(what[1:], scan.ISSUE) == scan.CALLBACK)
    ends = np.full(len(table), -1, np.int64)
    at = np.flatnonzero(answered)
    ends[order[at]] = table[order[at + 1], scan.TICK]
    issues = np.flatnonzero(table[:, scan.WHAT] == scan.ISSUE)
    rows = issues[np.lexsort((issues, table[issues, scan.TICK], table[issues, scan.SYS]))]
    return rows, ends[rows], int((what == scan.CALLBACK).sum()) - len(at)


def _kinds(stated: I64, codes: NDArray[np.int32], names: tuple[str, ...]) -> NDArray[np.int8]:
    """NodeKind of each row: its number in the log, else what its name says, else compute."""
    from chakra_core.classify import comm_op_of

    guessed = np.array(
        [
            next((kind for word, kind in _KIND_WORDS if word in name), None)
            or (NodeKind.COMM_COLL if comm_op_of(name) != CommOp.NONE else NodeKind.COMP)
            for name in names
        ],
        np.int8,
    )
    known = (stated >= NodeKind.METADATA) & (stated <= NodeKind.COMM_COLL)
    return np.where(known, stated, guessed[codes]).astype(np.int8)


def _comm_ops(names: Iterable[str]) -> NDArray[np.int8]:
    """Collective named by a communication node; simulators put it anywhere in the name."""
    from chakra_core.classify import comm_op_of

    found = [op if (op := comm_op_of(name)) != CommOp.NONE else comm_op_of(f"nccl:{name.lower()}") for name in names]
    return np.array([CommOp.UNKNOWN if op == CommOp.NONE else op for op in found], np.int8)


def _rank_trace(
    events: I64, ends: I64, kinds: NDArray[np.int8], codes: NDArray[np.int32], names: tuple[str, ...], meta: TraceMeta
) -> Trace:
    from chakra_core.classify import classify_names
    from chakra_core.readers import _astrasim_scan as scan

    used, code = np.unique(codes, return_inverse=True)
    own = tuple(names[at] for at in used.tolist())
    n = len(events)
    start = events[:, scan.TICK]
    open_ended = ends < 0
    backwards = (ends < start) & ~open_ended
    dur = np.where(open_ended | backwards, 0, ends - start)
    category = _CATEGORY_OF_KIND[kinds]
    compute = (kinds == NodeKind.COMP) | (kinds == NodeKind.METADATA) | (kinds == NodeKind.INVALID)
    category = np.where(compute, classify_names(own)[code], category)
    comm = np.full(n, CommOp.NONE, np.int8)
    collective = kinds == NodeKind.COMM_COLL
    comm[collective] = _comm_ops(own)[code][collective]
    comm[kinds == NodeKind.COMM_SEND] = CommOp.SEND
    comm[kinds == NodeKind.COMM_RECV] = CommOp.RECV
    return Trace(
        columns=Columns.build(
            n, id=events[:, scan.ID].astype(np.uint64), name=code, kind=kinds, domain=np.full(n, Domain.DEVICE), category=category,
            lane=_LANE_OF_KIND[kinds], start_ns=start, dur_ns=dur, comm_op=comm,
        ),
        names=own, lanes=_LANES, edges=Edges.empty(n), meta=meta,
        health=tuple(_open_findings(open_ended, backwards)),
        attributes_of=lambda row: _attributes(events[row], int(ends[row])),
    )  # fmt: skip


def _attributes(event: I64, end: int) -> dict[str, Any]:
    from chakra_core.readers import _astrasim_scan as scan

    found = {"issue_tick": int(event[scan.TICK]), "callback_tick": end if end >= 0 else None}
    return found if event[scan.TYPE] < 0 else {**found, "node_type": int(event[scan.TYPE])}


def _open_findings(open_ended: NDArray[np.bool_], backwards: NDArray[np.bool_]) -> list[HealthFinding]:
    findings = []
    if open_ended.any():
        rows = np.flatnonzero(open_ended).tolist()
        text = f"{len(rows):,} nodes were issued and never called back: the simulation, or its log, ended before them."
        remedy = "They are shown with a duration of zero; look for a deadlock, or for the rest of the log."
        findings.append(HealthFinding.of("unfinished", Severity.WARNING, rows, text, remedy))
    if backwards.any():
        rows = np.flatnonzero(backwards).tolist()
        text = f"{len(rows):,} nodes were called back before they were issued."
        findings.append(
            HealthFinding.of("negative-duration", Severity.WARNING, rows, text, "Their duration is taken as zero.")
        )
    return findings


def _damage(bad: int, stray: int) -> list[HealthFinding]:
    findings = []
    if bad:
        text = f"{bad:,} issue or callback lines cannot be read."
        findings.append(HealthFinding("damaged-record", Severity.WARNING, bad, text, "The others are shown."))
    if stray:
        text = f"{stray:,} callbacks answer no issue in this log."
        remedy = "Open the log together with its older parts (log.1.log, …), in one folder."
        findings.append(HealthFinding("callback-without-issue", Severity.WARNING, stray, text, remedy))
    return findings


def _missing_ranks(stated: totals.Statistics, present: Sequence[int]) -> list[HealthFinding]:
    missing = sorted(set(stated) - set(present))
    if not missing:
        return []
    text = f"{len(missing)} NPUs have statistics but no timeline in this log (first: {missing[0]})."
    return [HealthFinding("ranks-missing", Severity.WARNING, len(missing), text, "Keep all parts of the log.")]


READER = AstraSimLogReader()
