"""DOT: the dependency graph for Graphviz; one cluster per rank, edges drawn by kind."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from pathlib import Path

from chakra_core.schema import EdgeKind
from chakra_core.trace import Trace
from chakra_core.writers.base import Rank, Writer
from chakra_core.writers.files import replacing

__all__ = ["WRITER"]

_STYLES = {
    EdgeKind.DATA: "solid", EdgeKind.CONTROL: "dashed", EdgeKind.LAUNCH: "bold", EdgeKind.STREAM: "dotted",
    EdgeKind.SYNC: "dotted", EdgeKind.INTER_THREAD: "dotted",
}  # fmt: skip


def _write(ranks: Sequence[Rank], path: Path, compress: bool) -> None:
    with replacing(path) as file:
        if compress:
            with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as out:
                for line in _lines(ranks):
                    out.write(line.encode("utf-8", "replace"))
        else:
            for line in _lines(ranks):
                file.write(line.encode("utf-8", "replace"))


def _lines(ranks: Sequence[Rank]) -> Iterator[str]:
    yield "digraph trace {\nnode [shape=box];\n"
    for at, rank in enumerate(ranks):
        number = rank.trace.meta.rank if rank.trace.meta.rank >= 0 else at
        prefix = f"{number}." if len(ranks) > 1 else ""
        if prefix:
            yield f'subgraph cluster_{at} {{\nlabel="rank {number}";\n'
        yield from _graph(rank.trace, prefix)
        if prefix:
            yield "}\n"
    yield "}\n"


def _graph(trace: Trace, prefix: str) -> Iterator[str]:
    ids, durations = trace.columns.id.tolist(), trace.columns.dur_ns.tolist()
    for row, number in enumerate(ids):
        yield f'"{prefix}{number}" [label="{_quoted(trace.name_of(row))}\\n{durations[row] / 1000:,.3f} µs"];\n'
    edges = trace.edges
    for source, target, kind in zip(
        edges.sources.tolist(), edges.targets().tolist(), edges.kinds.tolist(), strict=True
    ):
        word = EdgeKind(kind).name.lower()
        yield f'"{prefix}{ids[source]}" -> "{prefix}{ids[target]}" [style={_STYLES[EdgeKind(kind)]},class="{word}"];\n'


def _quoted(text: str) -> str:
    """Text inside a quoted string: no escapes of its own, nothing that ends it."""
    plain = "".join(ch if ch.isprintable() else " " for ch in text)
    return plain.replace("\\", "\\\\").replace('"', '\\"')


WRITER = Writer("dot", "DOT dependency graph for Graphviz", ".dot", _write, per_rank=False)
