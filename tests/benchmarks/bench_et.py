"""Time the reading of a Chakra ``.et``: ``python -m tests.benchmarks.bench_et [nodes]``.

The file is synthetic (seeded), with the fields and attributes that Chakra's PyTorch converter writes, about 570 bytes
a node, 2.5 dependencies each. Every way of reading runs in a process of its own, so that its peak memory is its own;
kernels are compiled beforehand. The floors are reading the bytes, and upb parsing the same messages without looking
at them; the peer is a loop over protobuf messages that extracts the columns the scanner fills.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from chakra_core.readers._et_frames import split_frames
from chakra_core.readers._et_layouts import value_of
from chakra_core.readers._et_table import ABSENT, INTEGERS, TEXTS
from chakra_core.readers.base import Source
from chakra_core.readers.chakra_et import ChakraEtReader
from chakra_core.readers.proto import chakra_v1_pb2 as v1
from chakra_core.writers.attributes import attribute
from chakra_core.writers.wire import Message, varint

_OPERATORS = ("aten::mm", "aten::add_", "aten::native_layer_norm", "aten::_softmax", "aten::copy_", "autograd::engine")
_SCHEMA = "aten::linear(Tensor input, Tensor weight, Tensor? bias=None, *, ScalarType? dtype=None) -> Tensor"
_TEMPLATES = 3000


def write_synthetic(path: Path, n: int, seed: int = 7) -> None:
    """Write ``n`` nodes; what does not depend on the node's number comes from a stock of templates."""
    rng = random.Random(seed)  # noqa: S311 - not for secrets
    tails = [_tail(rng) for _ in range(_TEMPLATES)]
    with path.open("wb") as file:
        meta = Message()
        meta.text(1, "0.0.4")
        meta.content(2, attribute("schema", "1.1.0-chakra.0.0.4"))
        file.write(varint(len(meta)) + meta)
        for at in range(1, n + 1):
            head, tail = rng.choice(tails)
            node = Message()
            node.number(1, at)
            node += head
            node.numbers(4, [max(1, at - rng.randrange(1, 50))])
            node.numbers(5, [max(1, at - rng.randrange(1, 4000)) for _ in range(rng.choice((1, 1, 2, 2)))])
            node += tail
            node.content(10, attribute("rf_id", at))
            file.write(varint(len(node)) + node)


def _tail(rng: random.Random) -> tuple[Message, Message]:
    head, tail = Message(), Message()
    head.text(2, f"{rng.choice(_OPERATORS)}_{rng.randrange(60)}")
    head.number(3, 4)
    tail.number(7, rng.randrange(1, 5000))
    shape = [rng.choice((64, 128, 768, 3072)) for _ in range(3)]
    for field in (8, 9):
        side = Message()
        side.text(1, f"[[{rng.randrange(9999)}, {rng.randrange(9999)}, 0, 2359296, 2, 'cuda:0'], 1, {rng.random()}]")
        side.text(2, f"[{shape}, [], []]")
        side.text(3, "['Tensor(c10::BFloat16)', 'Int', 'Double']")
        tail.content(field, side)
    values = {"fw_parent": 0, "seq_id": rng.randrange(4000), "scope": rng.choice((0, 0, 1, 7)), "tid": rng.choice((1, 2)),
              "fw_tid": 0, "op_schema": _SCHEMA, "is_cpu_op": rng.random() < 0.75, "kernel_backend": ""}  # fmt: skip
    for name, value in values.items():
        tail.content(10, attribute(name, value))
    return head, tail


def _messages(path: Path) -> Iterator[bytes]:
    content = path.read_bytes()
    for at, size in split_frames(content).spans[1:]:
        yield content[at : at + size]


def read_bytes(path: Path) -> int:
    """Read the file in blocks."""
    size = 0
    with path.open("rb", buffering=0) as file:
        while block := file.read(1024 * 1024):
            size += len(block)
    return size


def parse_only(path: Path) -> int:
    """Let upb parse each message; the time to find the messages is left out by ``main``."""
    count = 0
    for raw in _messages(path):
        v1.Node().ParseFromString(raw)
        count += 1
    return count


def frames_only(path: Path) -> int:
    """Cut the file into messages."""
    return sum(1 for _ in _messages(path))


def loop(path: Path) -> int:
    """Collect the scanner's columns from protobuf messages, and make arrays of them."""
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


def scan(path: Path) -> int:
    """The scanner, up to the table of nodes."""
    from chakra_core.readers._et_columns import scan_file
    from chakra_core.readers._et_layouts import LAYOUTS
    from chakra_core.readers._kineto_text import EventText

    text = EventText(path, compressed=False)
    return len(scan_file(Source(path), text, first_is_node=False, decode=LAYOUTS[0].decode).table)


def trace(path: Path) -> int:
    """The scanner, up to the ready Trace."""
    return len(ChakraEtReader(scan_from=0).read(Source(path))[0])


def fallback(path: Path) -> int:
    """The protobuf path of the reader, up to the ready Trace."""
    return len(ChakraEtReader(scan_from=2**62).read(Source(path))[0])


WAYS: dict[str, Callable[[Path], int]] = {
    way.__name__: way for way in (read_bytes, frames_only, parse_only, loop, scan, trace, fallback)
}


def _run(path: Path, way: str) -> None:
    if way in ("scan", "trace"):  # load the compiled kernels
        small = path.with_name("small.et")
        WAYS[way](small)
    before = _peak_mb()
    began, cpu = time.perf_counter(), time.process_time()
    WAYS[way](path)
    print(f"{time.perf_counter() - began:.3f} {time.process_time() - cpu:.3f} {before:.0f} {_peak_mb():.0f}")


def _peak_mb() -> float:
    """Peak resident memory of this process (Linux; unlike getrusage's it begins anew with each program)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def main() -> None:
    """Write the file and print seconds and peak memory of each way."""
    if len(sys.argv) == 4 and sys.argv[1] == "--one":
        _run(Path(sys.argv[3]), sys.argv[2])
        return
    n = int(float(sys.argv[1])) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "synthetic.et"
        write_synthetic(path, n)
        write_synthetic(path.with_name("small.et"), 200)
        ChakraEtReader(scan_from=0).read(Source(path.with_name("small.et")))
        print(f"{n:,} nodes, {path.stat().st_size / 1e6:,.0f} MB ({path.stat().st_size / n:.0f} B each)")
        for way in WAYS:
            out = subprocess.run(
                [sys.executable, "-m", "tests.benchmarks.bench_et", "--one", way, str(path)],
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            wall, cpu, before, peak = out.stdout.split()
            print(f"{way:12} {wall:>8} s ({cpu} s of processor)   peak {peak:>5} MB (of which {before} before)")


if __name__ == "__main__":
    main()
