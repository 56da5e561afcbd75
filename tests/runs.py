"""Small runs written to disk for the tests of the dashboard: host only, several ranks, empty, damaged, hostile."""

from __future__ import annotations

from pathlib import Path

from chakra_core.schema import CommOp, EdgeKind
from chakra_core.trace import ProcessGroup, Trace
from chakra_core.writers import chakra_et
from tests.builder import make_trace, node

HOSTILE = "<img src=x onerror=alert(1)>"
FORMULA = '=HYPERLINK("http://example.org")'


def host_only() -> Trace:
    """Two nested operators and one more on one thread, no device."""
    return make_trace(
        [
            node("step", 0, 1000, lane="main"),
            node("matmul", 100, 600, lane="main", parent=0),
            node("add", 700, 200, lane="main", parent=0),
        ]
    )


def rank_trace(rank: int, slow: int = 0) -> Trace:
    """One rank: launch, two kernels, an all-reduce over two ranks, the last partly hidden."""
    return make_trace(
        [
            node("launch", 0, 50, lane="main"),
            node("gemm", 100, 400 + slow, lane="gpu:7"),
            node("relu", 600 + slow, 100, lane="gpu:7"),
            node("all_reduce", 650, 300, lane="gpu:9", comm_op=CommOp.ALL_REDUCE, comm_bytes=4096, comm_group=0),
        ],
        [(0, 1, EdgeKind.LAUNCH), (1, 2), (2, 3)],
        rank=rank,
        groups=[ProcessGroup("0", (0, 1))],
    )


def hostile() -> Trace:
    """Names that would do harm if they were read as markup or as a formula."""
    return make_trace(
        [node(HOSTILE, 0, 500), node(FORMULA, 500, 300), node("{{7*7}} %{x} [a](javascript:alert(1))", 900, 100)]
    )


def write_runs(folder: Path) -> None:
    """Write all of them below a folder: ``host.et``, ``ranks/r.<rank>.et``, ``empty.json``, ``damaged.json``, …."""
    chakra_et.write_et(host_only(), folder / "host.et")
    (folder / "ranks").mkdir()
    for rank in range(2):
        chakra_et.write_et(rank_trace(rank, slow=50 * rank), folder / "ranks" / f"r.{rank}.et")
    chakra_et.write_et(hostile(), folder / "hostile.et")
    (folder / "empty.json").write_text('{"schemaVersion": 1, "traceEvents": []}')
    (folder / "damaged.json").write_text('{"schemaVersion": 1, "traceEvents": [{"ph": "X", "na')
    (folder / "notes.txt").write_text("not a trace\n")
