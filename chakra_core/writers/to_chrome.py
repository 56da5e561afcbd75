"""Chrome trace JSON, one file for all ranks: opens in Perfetto and chrome://tracing, and reads back with its times.

Ranks are processes and lanes their threads. Times are microseconds with three decimals, so nanoseconds survive: they
are relative to ``baseTimeNanoseconds``. Launches are flows. Nodes without a start time have no place on a timeline and
are left out.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from chakra_core.schema import NO_TIME, Category, CommOp, Domain, EdgeKind
from chakra_core.trace import Trace
from chakra_core.writers.base import Rank, Writer
from chakra_core.writers.files import replacing

__all__ = ["WRITER"]

_CATEGORIES = {
    Category.HOST_OP: "cpu_op", Category.RUNTIME: "cuda_runtime", Category.ANNOTATION: "user_annotation",
    Category.PYTHON: "python_function", Category.COPY: "gpu_memcpy", Category.MEMSET: "gpu_memset",
}  # fmt: skip
_PIDS = 1_000_000
"""Process number of the device of rank r is r + this; that of its host is r."""


def _write(ranks: Sequence[Rank], path: Path, compress: bool) -> None:
    with replacing(path) as file:
        if compress:
            with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as out:
                for part in _parts(ranks):
                    out.write(part)
        else:
            for part in _parts(ranks):
                file.write(part)


def _parts(ranks: Sequence[Rank]) -> Iterator[bytes]:
    timed = [rank.trace.origin_ns for rank in ranks if rank.trace.has_times]
    base = min(timed, default=0)
    head: dict[str, Any] = {"schemaVersion": 1, "displayTimeUnit": "ns", "baseTimeNanoseconds": base}
    if len(ranks) == 1:
        meta = ranks[0].trace.meta
        groups = [
            {"pg_name": group.name, "pg_desc": group.description, "pg_size": group.size, "ranks": group.ranks}
            for group in meta.groups
        ]
        head["distributedInfo"] = {
            "rank": max(meta.rank, 0),
            "world_size": max(meta.world_size, 1),
            "pg_config": groups,
        }
    yield msgspec.json.encode(head)[:-1] + b',"traceEvents":[\n'
    first = True
    for at, rank in enumerate(ranks):
        for event in _events(rank.trace, at, base):
            yield (b"" if first else b",\n") + event
            first = False
    yield b"\n]}\n"


def _events(trace: Trace, at: int, base: int) -> Iterator[bytes]:
    rank = trace.meta.rank if trace.meta.rank >= 0 else at
    for domain, word in ((Domain.HOST, "host"), (Domain.DEVICE, "device")):
        pid = rank + (_PIDS if domain == Domain.DEVICE else 0)
        yield _encode({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": f"rank {rank} {word}"}})
        yield _encode({"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": pid}})
    for number, lane in enumerate(trace.lanes):
        pid = rank + (_PIDS if lane.domain == Domain.DEVICE else 0)
        yield _encode({"ph": "M", "name": "thread_name", "pid": pid, "tid": number, "args": {"name": lane.name}})
    timed = np.flatnonzero(trace.columns.start_ns != NO_TIME)
    for row in timed.tolist():
        yield _encode(_slice(trace, row, rank, base))
    yield from _flows(trace, rank, base)


def _slice(trace: Trace, row: int, rank: int, base: int) -> dict[str, Any]:
    c = trace.columns
    lane = int(c.lane[row])
    device = c.domain[row] == Domain.DEVICE
    category = Category(int(c.category[row]))
    args: dict[str, Any] = {"id": int(c.id[row])}
    if category == Category.ANNOTATION and device:
        cat = "gpu_user_annotation"
    else:
        cat = _CATEGORIES.get(category, "kernel" if device else "cpu_op")
    if device:
        args |= {"device": max(trace.lanes[lane].device, 0) if lane >= 0 else 0, "stream": lane}
        args["category"] = category.label
    if c.correlation[row] >= 0:
        args["correlation"] = int(c.correlation[row])
    if c.comm_op[row] >= 0:
        args["Collective name"] = CommOp(int(c.comm_op[row])).label
        if c.comm_bytes[row] >= 0:
            args |= {"dtype": "Byte", "In msg nelems": int(c.comm_bytes[row]), "Out msg nelems": int(c.comm_bytes[row])}
        if c.comm_group[row] >= 0:
            args["Process Group Name"] = trace.meta.groups[int(c.comm_group[row])].name
    if c.shape[row] >= 0:
        args["shapes"] = trace.shapes[int(c.shape[row])]
    return {
        "ph": "X", "cat": cat, "name": trace.name_of(row), "pid": _pid(trace, lane, rank, device=bool(device)),
        "tid": lane, "ts": _us(int(c.start_ns[row]) - base), "dur": _us(int(c.dur_ns[row])), "args": args,
    }  # fmt: skip


def _pid(trace: Trace, lane: int, rank: int, *, device: bool) -> int:
    placed = trace.lanes[lane].domain == Domain.DEVICE if lane >= 0 else device
    return rank + (_PIDS if placed else 0)


def _us(ns: int) -> msgspec.Raw:
    """Microseconds with three decimals: exact, which a float of this size is not."""
    sign = "-" if ns < 0 else ""
    return msgspec.Raw(f"{sign}{abs(ns) // 1000}.{abs(ns) % 1000:03d}".encode())


def _flows(trace: Trace, rank: int, base: int) -> Iterator[bytes]:
    c = trace.columns
    chosen = np.flatnonzero(trace.edges.kinds == EdgeKind.LAUNCH)
    targets = trace.edges.targets()
    for edge in chosen.tolist():
        source, target = int(trace.edges.sources[edge]), int(targets[edge])
        if c.start_ns[source] == NO_TIME or c.start_ns[target] == NO_TIME:
            continue
        correlation = int(c.correlation[target])
        number = correlation if correlation >= 0 else int(c.id[target])
        for phase, row in (("s", source), ("f", target)):
            lane = int(c.lane[row])
            event: dict[str, Any] = {
                "ph": phase, "cat": "ac2g", "name": "ac2g", "id": number, "tid": lane, "ts": _us(int(c.start_ns[row]) - base),
                "pid": _pid(trace, lane, rank, device=c.domain[row] == Domain.DEVICE),
            }  # fmt: skip
            if phase == "f":
                event["bp"] = "e"
            yield _encode(event)


def _encode(event: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(event)
    except UnicodeEncodeError:
        return msgspec.json.encode({**event, "name": event["name"].encode("utf-8", "replace").decode()})


WRITER = Writer("chrome", "Chrome trace for Perfetto, one file for all ranks", ".trace.json", _write, per_rank=False)
