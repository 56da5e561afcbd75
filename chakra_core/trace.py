"""The data model: a Trace is one rank's nodes as frozen columns, a Run is the traces of one execution.

Inside the package a node is addressed by its *row* (position in the columns); its *id* is what the file calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from chakra_core.memory_events import MemoryEvents
from chakra_core.schema import COLUMNS, NO_TIME, Category, Domain, EdgeKind, LaneKind, NodeKind, Severity, TimeKind

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd

__all__ = [
    "INPUT_SEPARATOR",
    "AttributeSource",
    "Columns",
    "Edges",
    "HealthFinding",
    "Lane",
    "Markers",
    "ProcessGroup",
    "Run",
    "Trace",
    "TraceMeta",
    "no_attributes",
]

I8 = NDArray[np.int8]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]

AttributeSource = Callable[[int], dict[str, Any]]
"""Decodes, on demand, everything the file says about the node in a row; values are JSON-safe."""

INPUT_SEPARATOR = "\x1f"
"""Between the shapes, the types and the values in an entry of ``Trace.inputs``."""

_EXAMPLES = 20


def no_attributes(row: int) -> dict[str, Any]:
    """Attribute source of a trace that has nothing beyond its columns."""
    del row
    return {}


@dataclass(frozen=True, slots=True)
class Columns:
    """The node table: one read-only array per entry of ``schema.COLUMNS``, all of length n."""

    id: U64
    name: I32
    kind: I8
    domain: I8
    category: I8
    lane: I32
    start_ns: I64
    dur_ns: I64
    parent: I32
    shape: I32
    inputs: I32
    comm_op: I8
    comm_bytes: I64
    comm_group: I32
    comm_peer: I32
    comm_tag: I32
    comm_seq: I64
    flops: I64
    bytes_accessed: I64
    correlation: I64

    @classmethod
    def build(cls, n: int, **arrays: Any) -> Columns:
        """Make columns of length ``n`` from those given, filling the others with their missing value.

        Raises:
            ValueError: an array has another length, or its name is no column.
        """
        built: dict[str, NDArray[Any]] = {}
        for column in COLUMNS:
            given = arrays.pop(column.name, None)
            array = np.full(n, column.missing, column.dtype) if given is None else np.asarray(given, column.dtype)
            if array.shape != (n,):
                raise ValueError(f"column {column.name} has shape {array.shape}, expected ({n},)")
            if array.flags.writeable:
                array = array.view()
                array.flags.writeable = False
            built[column.name] = array
        if arrays:
            raise ValueError(f"not columns: {sorted(arrays)}")
        return cls(**built)

    def __len__(self) -> int:
        return len(self.id)

    def with_(self, **arrays: Any) -> Columns:
        """Copy with some columns replaced; the others are shared."""
        kept: dict[str, Any] = {column.name: getattr(self, column.name) for column in COLUMNS}
        return Columns.build(len(self), **{**kept, **arrays})


@dataclass(frozen=True, slots=True)
class Edges:
    """Dependencies as CSR: row ``i`` waits for ``sources[indptr[i]:indptr[i + 1]]``, each with a kind.

    ``indptr`` is int64 of length n + 1, ``sources`` int32 rows, ``kinds`` int8 EdgeKind. Edges whose other end is
    not in the file are not here: readers count them as *unresolved-dependency* findings.
    """

    indptr: I64
    sources: I32
    kinds: I8

    @classmethod
    def empty(cls, n: int) -> Edges:
        """No edges over ``n`` nodes."""
        return cls(np.zeros(n + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int8))

    @classmethod
    def from_pairs(cls, n: int, sources: Any, targets: Any, kinds: Any) -> Edges:
        """Build from parallel arrays: ``targets[k]`` waits for ``sources[k]``; order within a target is kept."""
        target = np.asarray(targets, np.int64)
        order = np.argsort(target, kind="stable")
        indptr = np.zeros(n + 1, np.int64)
        np.cumsum(np.bincount(target, minlength=n), out=indptr[1:])
        return cls(indptr, np.asarray(sources, np.int32)[order], np.asarray(kinds, np.int8)[order])

    def __len__(self) -> int:
        return len(self.sources)

    def targets(self) -> I32:
        """Row of the waiting node of each edge (int32, parallel to ``sources``)."""
        return np.repeat(np.arange(len(self.indptr) - 1, dtype=np.int32), np.diff(self.indptr))

    def of(self, row: int) -> tuple[I32, I8]:
        """What one row waits for: ``(rows, kinds)``."""
        span = slice(int(self.indptr[row]), int(self.indptr[row + 1]))
        return self.sources[span], self.kinds[span]

    def reversed(self) -> Edges:
        """The same edges seen from the other end: row i is awaited by ``sources[...]``."""
        return Edges.from_pairs(len(self.indptr) - 1, self.targets(), self.sources, self.kinds)


@dataclass(frozen=True, slots=True)
class Lane:
    """One row of the timeline: a host thread, a device stream, a reconstructed resource or an annotation track."""

    name: str
    domain: Domain
    kind: LaneKind
    process: str = ""
    device: int = -1
    key: str = ""


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """A communicator; ``ranks`` is empty where the trace does not list them (then ``size`` may still be known)."""

    name: str
    ranks: tuple[int, ...] = ()
    description: str = ""
    size: int = -1


@dataclass(frozen=True, slots=True)
class Markers:
    """Instant and counter events, which have no duration and are not nodes. Arrays are parallel."""

    ts_ns: I64
    name: I32
    lane: I32
    value: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class HealthFinding:
    """Something about the trace a reader of it must know: what, how often, where (example rows), what to do."""

    code: str
    severity: Severity
    count: int
    message: str
    remedy: str
    examples: tuple[int, ...] = ()

    @classmethod
    def of(
        cls, code: str, severity: Severity, rows_or_count: Iterable[int] | int, message: str, remedy: str
    ) -> HealthFinding:
        """Build from the affected *rows* (the first 20 become examples) or from a bare count."""
        if isinstance(rows_or_count, int):
            return cls(code, severity, rows_or_count, message, remedy)
        rows = [int(row) for row in rows_or_count]
        return cls(code, severity, len(rows), message, remedy, tuple(rows[:_EXAMPLES]))


@dataclass(frozen=True, slots=True)
class TraceMeta:
    """What is known about a trace as a whole."""

    path: str = ""
    format: str = ""
    schema: str = ""
    rank: int = -1
    world_size: int = -1
    hardware: str = ""
    time_kind: TimeKind = TimeKind.MEASURED
    groups: tuple[ProcessGroup, ...] = ()
    events: int = 0
    details: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, eq=False)
class Trace:
    """One rank's nodes, dependencies and what is known of them. Never changed after it is made.

    ``inputs`` are what the file says of an operator's inputs, as it stands there: the lists of shapes, of types and
    (where it has them in one place) of values, with ``INPUT_SEPARATOR`` between;
    :mod:`chakra_core.analysis.flops.operands` reads them.
    """

    columns: Columns
    names: tuple[str, ...]
    lanes: tuple[Lane, ...]
    edges: Edges
    meta: TraceMeta
    shapes: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    health: tuple[HealthFinding, ...] = ()
    markers: Markers | None = None
    memory: MemoryEvents | None = None
    attributes_of: AttributeSource = no_attributes

    def __len__(self) -> int:
        return len(self.columns)

    @cached_property
    def origin_ns(self) -> int:
        """Earliest start of any node, 0 where no node has one."""
        start = self.columns.start_ns
        timed = start[start != NO_TIME]
        return int(timed.min()) if len(timed) else 0

    @cached_property
    def end_ns(self) -> int:
        """Latest end of any node, 0 where no node has a start."""
        start = self.columns.start_ns
        timed = start != NO_TIME
        return int((start[timed] + self.columns.dur_ns[timed]).max()) if timed.any() else 0

    @property
    def span_ns(self) -> int:
        """From the earliest start to the latest end."""
        return self.end_ns - self.origin_ns

    @cached_property
    def device_rows(self) -> NDArray[np.int64]:
        """Rows of device work (annotation tracks on the device excluded), in file order."""
        columns = self.columns
        return np.flatnonzero((columns.domain == Domain.DEVICE) & (columns.category != Category.ANNOTATION))

    @cached_property
    def has_times(self) -> bool:
        """Whether any node has a start time."""
        return bool((self.columns.start_ns != NO_TIME).any())

    @cached_property
    def _row_by_id(self) -> tuple[U64, NDArray[np.int64]]:
        order = np.argsort(self.columns.id, kind="stable")
        return self.columns.id[order], order

    def row_of(self, node_id: int) -> int:
        """Row of the first node with this id.

        Raises:
            KeyError: no node has it.
        """
        ids, order = self._row_by_id
        if 0 <= node_id < 2**64:
            at = int(np.searchsorted(ids, np.uint64(node_id)))
            if at < len(ids) and int(ids[at]) == node_id:
                return int(order[at])
        raise KeyError(node_id)

    def name_of(self, row: int) -> str:
        """Name of the node in a row."""
        return self.names[int(self.columns.name[row])]

    def attributes(self, node_id: int) -> dict[str, Any]:
        """Everything the file says about a node, decoded now.

        Raises:
            KeyError: no node has this id.
        """
        return self.attributes_of(self.row_of(node_id))

    @cached_property
    def nodes(self) -> pd.DataFrame:
        """The node table as a pandas frame: names and enumerations spelled out, arrays shared where possible."""
        import pandas as pd

        c = self.columns
        frame = {column.name: getattr(c, column.name) for column in COLUMNS}
        frame["name"] = pd.Categorical.from_codes(c.name, pd.Index(self.names, dtype="object"), validate=False)
        frame["kind"] = pd.Categorical.from_codes(c.kind, [kind.name for kind in NodeKind])
        frame["category"] = pd.Categorical.from_codes(c.category, [category.label for category in Category])
        frame["domain"] = pd.Categorical.from_codes(c.domain, [domain.name.lower() for domain in Domain])
        return pd.DataFrame(frame, copy=False)

    def to_networkx(self, ids: Sequence[int] | None = None) -> nx.DiGraph[int]:
        """Sub-graph over these node ids (all by default) as dependency → dependent, with name, duration and kind."""
        import networkx as nx

        rows = range(len(self)) if ids is None else [self.row_of(node_id) for node_id in ids]
        graph: nx.DiGraph[int] = nx.DiGraph()
        c = self.columns
        for row in rows:
            graph.add_node(int(c.id[row]), name=self.name_of(row), dur_ns=int(c.dur_ns[row]))
        chosen = set(rows)
        for row in rows:
            sources, kinds = self.edges.of(row)
            for source, kind in zip(sources.tolist(), kinds.tolist(), strict=True):
                if source in chosen:
                    graph.add_edge(int(c.id[source]), int(c.id[row]), kind=EdgeKind(kind).name.lower())
        return graph

    def with_(self, **changes: Any) -> Trace:
        """Copy with some fields replaced."""
        return replace(self, **changes)


@dataclass(frozen=True, eq=False)
class Run:
    """The traces of one execution, ordered by rank. Ranks that no file states are numbered by file order."""

    traces: tuple[Trace, ...]
    label: str
    hardware: str = ""
    groups: tuple[ProcessGroup, ...] = ()
    health: tuple[HealthFinding, ...] = ()
    assumptions: tuple[str, ...] = ()

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """Rank of each trace, in order."""
        return tuple(trace.meta.rank if trace.meta.rank >= 0 else at for at, trace in enumerate(self.traces))

    @cached_property
    def origin_ns(self) -> int:
        """Earliest start over all ranks: zero of every time axis."""
        return min((trace.origin_ns for trace in self.traces if trace.has_times), default=0)

    @cached_property
    def end_ns(self) -> int:
        """Latest end over all ranks."""
        return max((trace.end_ns for trace in self.traces if trace.has_times), default=0)

    @property
    def span_ns(self) -> int:
        """From the earliest start to the latest end over all ranks."""
        return self.end_ns - self.origin_ns

    @property
    def time_kind(self) -> TimeKind:
        """The least direct time kind of its traces (simulated, then reconstructed, then measured)."""
        kinds = {trace.meta.time_kind for trace in self.traces}
        for kind in (TimeKind.SIMULATED, TimeKind.RECONSTRUCTED):
            if kind in kinds:
                return kind
        return TimeKind.MEASURED

    def by_rank(self, rank: int) -> Trace:
        """The trace of a rank.

        Raises:
            KeyError: the run has no such rank.
        """
        try:
            return self.traces[self.ranks.index(rank)]
        except ValueError:
            raise KeyError(rank) from None
