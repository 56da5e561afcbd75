"""The columns of a trace, their types, units and missing values, and the enumerations they use.

Units, everywhere inside the package: time is ``int64`` nanoseconds, sizes are bytes, work is FLOPs.
Conversion happens in readers (in) and on axes (out), nowhere else.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import NamedTuple

import numpy as np

__all__ = [
    "COLUMNS",
    "COLUMN_BY_NAME",
    "COMPUTE_CATEGORIES",
    "NO_TIME",
    "SIMULATED_ON",
    "Category",
    "Column",
    "CommOp",
    "Domain",
    "EdgeKind",
    "LaneKind",
    "NodeKind",
    "Severity",
    "TimeKind",
]

NO_TIME: int = int(np.iinfo(np.int64).min)
"""Value of ``start_ns`` while a node has no start time (before reconstruction)."""

SIMULATED_ON = "simulated_on"
"""Key in ``TraceMeta.details`` of a trace whose durations were simulated when it was opened: the catalogue entry."""


class NodeKind(IntEnum):
    """Chakra's NodeType (schema 1.0.0 numbering)."""

    INVALID = 0
    METADATA = 1
    MEM_LOAD = 2
    MEM_STORE = 3
    COMP = 4
    COMM_SEND = 5
    COMM_RECV = 6
    COMM_COLL = 7


class Domain(IntEnum):
    """Where a node runs."""

    HOST = 0
    DEVICE = 1


class Category(IntEnum):
    """What kind of work a node is; device nodes use GEMM..COMMUNICATION and OTHER, host nodes the rest.

    A device node of category RUNTIME waits for (or records) an event and is no work.
    """

    OTHER = 0  # device work that no rule classifies: counted and named in the health report
    GEMM = 1
    ATTENTION = 2
    CONVOLUTION = 3
    NORMALISATION = 4
    ELEMENTWISE = 5
    REDUCTION = 6
    EMBEDDING = 7
    COPY = 8
    MEMSET = 9
    COMMUNICATION = 10
    HOST_OP = 11
    RUNTIME = 12
    ANNOTATION = 13
    PYTHON = 14

    @property
    def label(self) -> str:
        """Words for axes and legends, e.g. ``host op``."""
        return {"GEMM": "GEMM"}.get(self.name, self.name.lower().replace("_", " "))


COMPUTE_CATEGORIES: frozenset[Category] = frozenset(Category(value) for value in range(8))
"""Categories that count as compute on a device (OTHER included)."""


class CommOp(IntEnum):
    """Communication operation; 0..9 are Chakra's CollectiveCommType, the rest ours. -1 is not communication."""

    NONE = -1
    ALL_REDUCE = 0
    REDUCE = 1
    ALL_GATHER = 2
    GATHER = 3
    SCATTER = 4
    BROADCAST = 5
    ALL_TO_ALL = 6
    REDUCE_SCATTER = 7
    REDUCE_SCATTER_BLOCK = 8
    BARRIER = 9
    SEND = 10
    RECV = 11
    UNKNOWN = 12
    PERMUTE = 13  # collective-permute: every rank sends to one other

    @property
    def label(self) -> str:
        """Standard name, e.g. ``all-reduce``."""
        return self.name.lower().replace("_", "-")


class EdgeKind(IntEnum):
    """Why one node waits for another."""

    DATA = 0
    CONTROL = 1
    LAUNCH = 2
    STREAM = 3
    SYNC = 4
    INTER_THREAD = 5


class LaneKind(IntEnum):
    """What a lane (one row of the timeline) stands for; also its order under a rank."""

    THREAD = 0
    STREAM = 1
    RESOURCE = 2
    ANNOTATION = 3


class TimeKind(StrEnum):
    """Where the times of a trace come from; shown wherever time is shown."""

    MEASURED = "measured"
    RECONSTRUCTED = "reconstructed"
    SIMULATED = "simulated"


class Severity(StrEnum):
    """How much a health finding matters."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Column(NamedTuple):
    """One column: its NumPy type, the value that means *not known*, its unit and meaning."""

    name: str
    dtype: type[np.generic]
    missing: int
    unit: str
    meaning: str


COLUMNS: tuple[Column, ...] = (
    Column("id", np.uint64, 0, "", "the node's id in its file"),
    Column("name", np.int32, 0, "", "index into Trace.names"),
    Column("kind", np.int8, int(NodeKind.COMP), "", "NodeKind"),
    Column("domain", np.int8, int(Domain.HOST), "", "Domain"),
    Column("category", np.int8, int(Category.OTHER), "", "Category"),
    Column("lane", np.int32, -1, "", "index into Trace.lanes; -1: not on any lane"),
    Column("start_ns", np.int64, NO_TIME, "ns", "absolute start; NO_TIME where unknown"),
    Column("dur_ns", np.int64, 0, "ns", "duration; never negative"),
    Column("parent", np.int32, -1, "", "row of the enclosing operator; for a device node, of its launch; -1: none"),
    Column("shape", np.int32, -1, "", "index into Trace.shapes (input shapes and types); -1: not recorded"),
    Column("inputs", np.int32, -1, "", "index into Trace.inputs (all that is said of the inputs); -1: not recorded"),
    Column("comm_op", np.int8, int(CommOp.NONE), "", "CommOp"),
    Column("comm_bytes", np.int64, -1, "B", "message size as the source defines it; -1: unknown"),
    Column("comm_group", np.int32, -1, "", "index into meta.groups; -1: unknown (all ranks)"),
    Column("comm_peer", np.int32, -1, "rank", "other end of a send or receive; -1: none"),
    Column("comm_tag", np.int32, -1, "", "tag of a send or receive; -1: none"),
    Column("comm_seq", np.int64, -1, "", "sequence number within the group; -1: unknown"),
    Column("flops", np.int64, -1, "FLOP", "work; -1: unknown"),
    Column("bytes_accessed", np.int64, -1, "B", "memory traffic; -1: unknown"),
    Column("correlation", np.int64, -1, "", "launch correlation id; -1: none"),
)

COLUMN_BY_NAME: dict[str, Column] = {column.name: column for column in COLUMNS}
