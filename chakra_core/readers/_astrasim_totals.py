"""The statistics that ASTRA-sim prints at the end of a run, and a trace of totals where they are all there is."""

from __future__ import annotations

import re
from typing import Any

from chakra_core.readers.base import Source
from chakra_core.schema import Category, Domain, LaneKind, NodeKind, Severity, TimeKind
from chakra_core.trace import Columns, Edges, HealthFinding, Lane, Trace, TraceMeta

__all__ = ["Statistics", "statistics_of", "trace_of"]

Statistics = dict[int, dict[str, float]]
"""What each system's lines say, by its number: times in cycles, shares as the log prints them."""

_FINISHED = re.compile(rb"sys\[(\d{1,9})\] finished, (\d{1,18}) cycles, exposed communication (\d{1,18}) cycles")
_VALUE = re.compile(rb"sys\[(\d{1,9})\],? ([A-Za-z][\w -]{0,60}): (\d{1,18}(?:\.\d{1,18})?)")
_SCHEMATIC = (
    "The log holds totals, not a timeline: durations are the simulator's, where they lie on the time axis is not known."
)


def statistics_of(data: bytes) -> Statistics:
    """The statistics of every system in a log, by the words of the log in lower case."""
    found: Statistics = {}
    for system, cycles, exposed in _FINISHED.findall(data):
        found.setdefault(int(system), {}).update(finished=int(cycles), exposed_communication=int(exposed))
    for system, what, value in _VALUE.findall(data):
        key = what.decode("ascii").strip().lower().replace(" ", "_").replace("-", "_")
        found.setdefault(int(system), {})[key] = float(value) if b"." in value else int(value)
    return found


def trace_of(source: Source, rank: int, facts: dict[str, float], world_size: int) -> Trace:
    """A trace of the totals of one rank: compute first, what communication is not hidden under it last.

    With wall time W, device time G, communication C and their overlap O (where the log does not say:
    ``max(0, G + C - W)``), compute is drawn on [0, G), hidden communication on [G - O, G), exposed communication on
    [W - (C - O), W): so compute, exposed communication, idle and the total are those of the log.
    """
    wall = int(facts.get("wall_time", facts.get("finished", 0)))
    nodes: list[dict[str, Any]] = []
    if "gpu_time" in facts or "comm_time" in facts:
        _from_times(nodes, wall, facts)
    elif "exposed_communication" in facts:
        exposed = min(int(facts["exposed_communication"]), wall)
        _add(nodes, "compute (total)", 0, wall - exposed, lane=0)
        _add(nodes, "exposed communication as reported (idle time included)", wall - exposed, exposed, lane=1)
    if cpu := int(facts.get("cpu_time", 0)):
        _add(nodes, "host compute (total)", 0, cpu, lane=2)
    return _trace(source, rank, world_size, facts, nodes)


def _from_times(nodes: list[dict[str, Any]], wall: int, facts: dict[str, float]) -> None:
    device, comm = int(facts.get("gpu_time", 0)), int(facts.get("comm_time", 0))
    hidden = int(facts.get("total_compute_communication_overlap", max(0, device + comm - wall)))
    hidden = max(0, min(hidden, device, comm))
    _add(nodes, "compute (total)", 0, device, lane=0)
    _add(nodes, "communication hidden under compute (total)", device - hidden, hidden, lane=1)
    exposed = comm - hidden
    _add(nodes, "exposed communication (total)", max(wall - exposed, device), exposed, lane=1)


def _add(nodes: list[dict[str, Any]], name: str, start: int, dur: int, *, lane: int) -> None:
    if dur > 0:
        nodes.append({"name": name, "start": start, "dur": dur, "lane": lane})


def _trace(source: Source, rank: int, world_size: int, facts: dict[str, float], nodes: list[dict[str, Any]]) -> Trace:
    n = len(nodes)
    comm = [node["lane"] == 1 for node in nodes]
    host = [node["lane"] == 2 for node in nodes]
    finding = HealthFinding(
        "totals-only", Severity.WARNING, n, _SCHEMATIC, 'Simulate with "trace-enabled": 1 and open log.log.'
    )
    return Trace(
        columns=Columns.build(
            n, id=range(n), name=range(n), lane=[node["lane"] for node in nodes],
            kind=[NodeKind.COMP] * n,
            domain=[Domain.HOST if it else Domain.DEVICE for it in host],
            category=[
                Category.COMMUNICATION if c else Category.HOST_OP if h else Category.OTHER
                for c, h in zip(comm, host, strict=True)
            ],
            start_ns=[node["start"] for node in nodes], dur_ns=[node["dur"] for node in nodes],
        ),
        names=tuple(node["name"] for node in nodes),
        lanes=(
            Lane("compute", Domain.DEVICE, LaneKind.RESOURCE, device=0),
            Lane("communication", Domain.DEVICE, LaneKind.RESOURCE, device=0),
            Lane("host compute", Domain.HOST, LaneKind.RESOURCE),
        ),
        edges=Edges.empty(n),
        meta=TraceMeta(
            path=str(source.path), format="astra-sim-log", schema="statistics", rank=rank, world_size=world_size,
            time_kind=TimeKind.SIMULATED, events=n,
            details={"statistics": facts, "assumptions": [_SCHEMATIC]},
        ),
        health=(finding,),
        attributes_of=lambda row: {"statistics": facts, "row": row},
    )  # fmt: skip
