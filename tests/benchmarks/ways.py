"""The ways to read a file that are measured against each other, each in a process of its own.

``python -m tests.benchmarks.ways WAY PATH [MB]`` runs one and prints a line of JSON: seconds, seconds of processor, the
peak of resident memory in MB before and after, and what it read. Kernels are loaded by a small file of the same kind
first, and so many MB of memory are filled and freed.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from isal import igzip

from chakra_core.analysis.breakdown import breakdown
from chakra_core.readers._et_frames import split_frames
from chakra_core.readers._et_layouts import value_of
from chakra_core.readers._et_table import ABSENT, INTEGERS, TEXTS
from chakra_core.readers.base import Source
from chakra_core.readers.chakra_et import ChakraEtReader
from chakra_core.readers.kineto import KinetoReader
from chakra_core.readers.proto import chakra_v1_pb2 as v1
from chakra_core.schema import COLUMNS
from chakra_core.store import Store
from chakra_core.trace import Trace

__all__ = ["WAYS", "peak_mb"]


def read_bytes(path: Path) -> int:
    """Floor: read the file in blocks."""
    size = 0
    with path.open("rb", buffering=0) as file:
        while block := file.read(1024 * 1024):
            size += len(block)
    return size


def _messages(path: Path) -> Iterator[bytes]:
    content = path.read_bytes()
    for at, size in split_frames(content).spans[1:]:
        yield content[at : at + size]


def et_parse(path: Path) -> int:
    """Floor: let upb parse each message; finding the messages is done beforehand and not counted."""
    messages = list(_messages(path))
    _restart()
    for raw in messages:
        v1.Node().ParseFromString(raw)
    return len(messages)


def et_loop(path: Path) -> int:
    """Peer: collect the scanner's columns from protobuf messages, and make arrays of them."""
    wanted = frozenset((*INTEGERS, *TEXTS))
    interned: dict[Any, int] = {}
    rows, columns = [], {name: [] for name in wanted}
    for raw in _messages(path):
        node = v1.Node()
        node.ParseFromString(raw)
        inputs = node.inputs
        rows.append((
            node.id, interned.setdefault(node.name, len(interned)), node.type, node.start_time_micros,
            node.duration_micros, interned.setdefault((inputs.shapes, inputs.types), len(interned)),
            list(node.ctrl_deps), list(node.data_deps),
        ))  # fmt: skip
        found = {}
        for entry in node.attr:
            name = entry.name.decode()
            if name in wanted:
                found[name] = value_of(entry)
        for name, column in columns.items():
            column.append(found.get(name))
    ids, names, kinds, starts, durs, inputs, ctrl, data = zip(*rows, strict=True)
    for values in (ids, names, kinds, starts, durs, inputs, list(chain(*ctrl)), list(chain(*data))):
        np.array(values, np.uint64)
    for name in INTEGERS:
        np.array([ABSENT if value is None else int(value) for value in columns[name]], np.int64)
    return len(rows)


def et_scan(path: Path) -> int:
    """Ours: the compiled scanner, up to the columns of the file."""
    from chakra_core.readers._et_columns import scan_file
    from chakra_core.readers._et_layouts import LAYOUTS
    from chakra_core.readers._kineto_text import EventText

    text = EventText(path, compressed=False)
    return len(scan_file(Source(path), text, first_is_node=False, decode=LAYOUTS[0].decode).table)


def _tell(trace: Trace) -> dict[str, Any]:
    arrays = sum(getattr(trace.columns, column.name).nbytes for column in COLUMNS)
    arrays += trace.edges.indptr.nbytes + trace.edges.sources.nbytes + trace.edges.kinds.nbytes
    return {"nodes": len(trace), "edges": len(trace.edges), "columns_mb": round(arrays / 1e6, 1)}


def et_trace(path: Path) -> dict[str, Any]:
    """Ours: up to the ready Trace, with the number of times that progress was told."""
    told: list[float] = []
    trace = ChakraEtReader(scan_from=0).read(Source(path, progress=lambda share, _: told.append(share)))[0]
    return {**_tell(trace), "progress": len(told)}


def et_fallback(path: Path) -> dict[str, Any]:
    """Ours: the path through protobuf, up to the ready Trace."""
    return _tell(ChakraEtReader(scan_from=2**62).read(Source(path))[0])


class _Args(msgspec.Struct, gc=False):
    external: int | None = msgspec.field(name="External id", default=None)
    correlation: int | None = None
    stream: int | None = None
    device: int | None = None


class _Event(msgspec.Struct, gc=False):
    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str = 0
    tid: int | str = 0
    ts: float = 0
    dur: float = 0
    id: int | str = 0
    args: _Args | None = None


class _File(msgspec.Struct):
    traceEvents: list[_Event]  # noqa: N815 - the key in the file


def _inflated(path: Path) -> bytes:
    return igzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def kineto_floor(path: Path) -> int:
    """Floor: inflate, and decode the needed fields into typed structures (msgspec)."""
    return len(msgspec.json.decode(_inflated(path), type=_File).traceEvents)


def kineto_json(path: Path) -> int:
    """Peer: Python's own json."""
    return len(json.loads(_inflated(path))["traceEvents"])


def kineto_trace(path: Path) -> dict[str, Any]:
    """Ours: up to the ready Trace: columns, links, categories, nesting, health."""
    trace = KinetoReader().read(Source(path))[0]
    told = _tell(trace)
    read = time.perf_counter() - _began[0]
    breakdown(trace)
    return {**told, "seconds": read, "breakdown_s": time.perf_counter() - _began[0] - read}


def first_opening(path: Path) -> dict[str, Any]:
    """Ours: opened as the server does, schedule made where there are no times, and kept in the store."""
    return _tell(Store(path.with_name("store")).open_run([path]).traces[0])


def second_opening(path: Path) -> dict[str, Any]:
    """Ours: opened from the store, which ``first_opening`` filled."""
    return first_opening(path)


WAYS: dict[str, Callable[[Path], Any]] = {
    way.__name__: way
    for way in (
        read_bytes,
        et_parse,
        et_loop,
        et_scan,
        et_trace,
        et_fallback,
        kineto_floor,
        kineto_json,
        kineto_trace,
        first_opening,
        second_opening,
    )
}

_began = [0.0, 0.0]


def _restart() -> None:
    """Count from here: what came before was preparation."""
    _began[:] = time.perf_counter(), time.process_time()


def peak_mb() -> float:
    """Peak resident memory of this process (Linux; unlike getrusage's it begins anew with each program)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def _fill(size: int) -> None:
    bytearray(size)[::4096] = bytes(-(-size // 4096))


def main() -> None:
    """Run one way."""
    name, path = sys.argv[1], Path(sys.argv[2])
    small = path.with_name("small.et" if path.suffix == ".et" else "small.json")
    if name in ("et_scan", "et_trace", "kineto_trace", "first_opening", "second_opening"):
        WAYS[name](small)
    _fill(int(1e6 * float([*sys.argv, "0"][3])))
    before = peak_mb()
    _restart()
    got = WAYS[name](path)
    spent, cpu = time.perf_counter() - _began[0], time.process_time() - _began[1]
    told = got if isinstance(got, dict) else {"nodes": got}
    found = {"seconds": spent, "cpu": cpu, "before_mb": before, "peak_mb": peak_mb(), **told}
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
