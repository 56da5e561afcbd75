"""GraphML: nodes with their facts, edges from a dependency to what waits for it; opens in yEd, Gephi and networkx."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from chakra_core.schema import NO_TIME, Category, CommOp, Domain, EdgeKind, NodeKind
from chakra_core.trace import Trace
from chakra_core.writers.base import Rank, Writer
from chakra_core.writers.files import replacing

__all__ = ["WRITER"]

_KEYS = (
    ("label", "node", "string"), ("kind", "node", "string"), ("domain", "node", "string"), ("category", "node", "string"),
    ("start_ns", "node", "long"), ("dur_ns", "node", "long"), ("rank", "node", "long"), ("comm_op", "node", "string"),
    ("comm_bytes", "node", "long"), ("dependency", "edge", "string"),
)  # fmt: skip
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold."""


def _write(ranks: Sequence[Rank], path: Path, compress: bool) -> None:
    with replacing(path) as file:
        if compress:
            with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as out:
                for line in _lines(ranks):
                    out.write(line.encode())
        else:
            for line in _lines(ranks):
                file.write(line.encode())


def _lines(ranks: Sequence[Rank]) -> Iterator[str]:
    yield '<?xml version="1.0" encoding="utf-8"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
    for name, where, kind in _KEYS:
        yield f'<key id="{name}" for="{where}" attr.name="{name}" attr.type="{kind}"/>\n'
    yield '<graph edgedefault="directed">\n'
    for at, rank in enumerate(ranks):
        prefix = f"{max(rank.trace.meta.rank, at)}." if len(ranks) > 1 else ""
        yield from _nodes(rank.trace, prefix)
        yield from _edges(rank.trace, prefix)
    yield "</graph>\n</graphml>\n"


def _nodes(trace: Trace, prefix: str) -> Iterator[str]:
    c = trace.columns
    kinds = {int(kind): kind.name for kind in NodeKind}
    for row, number in enumerate(c.id.tolist()):
        start, size, op = int(c.start_ns[row]), int(c.comm_bytes[row]), int(c.comm_op[row])
        facts = {
            "label": escape(_FORBIDDEN.sub("\ufffd", trace.name_of(row))),
            "kind": kinds.get(int(c.kind[row]), str(c.kind[row])),
            "domain": Domain(int(c.domain[row])).name.lower(),
            "category": Category(int(c.category[row])).label,
            "start_ns": start if start != NO_TIME else None,
            "dur_ns": int(c.dur_ns[row]),
            "rank": trace.meta.rank if trace.meta.rank >= 0 else None,
            "comm_op": CommOp(op).label if op >= 0 else None,
            "comm_bytes": size if size >= 0 else None,
        }
        data = "".join(f'<data key="{key}">{value}</data>' for key, value in facts.items() if value is not None)
        yield f'<node id="{prefix}{number}">{data}</node>\n'


def _edges(trace: Trace, prefix: str) -> Iterator[str]:
    ids = trace.columns.id.tolist()
    words = {int(kind): kind.name.lower() for kind in EdgeKind}
    edges = trace.edges
    for source, target, kind in zip(
        edges.sources.tolist(), edges.targets().tolist(), edges.kinds.tolist(), strict=True
    ):
        what = f'<data key="dependency">{words[kind]}</data>'
        yield f'<edge source="{prefix}{ids[source]}" target="{prefix}{ids[target]}">{what}</edge>\n'


WRITER = Writer("graphml", "GraphML dependency graph", ".graphml", _write, per_rank=False)
