"""Memory curves and copies: by hand, through the readers and the store, and what must hold on any events."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chakra_core.analysis.copies import copies, copy_kind
from chakra_core.analysis.memory import NOTHING_AROUND, as_json, memory, thinned
from chakra_core.analysis.scope import Scope
from chakra_core.memory_events import MemoryEvents
from chakra_core.opening import open_trace
from chakra_core.readers.proto import run_metadata_pb2, xplane_pb2
from chakra_core.schema import Category
from chakra_core.store.pack import parts_to_run, run_to_parts
from chakra_core.trace import Run
from dashboard.__main__ import main
from tests.builder import make_trace, node

ARGS = {"Device Type": 1, "Device Id": 0, "Total Reserved": 1000}


def events_of(entries, *, totals=None, addresses=True, places=("cuda:0",), lane=0):
    """From (time, change, address[, place])."""
    n = len(entries)
    return MemoryEvents(
        ts_ns=np.array([entry[0] for entry in entries], np.int64),
        bytes=np.array([entry[1] for entry in entries], np.int64),
        address=np.array([entry[2] for entry in entries] if addresses else [-1] * n, np.int64),
        allocated=np.array(totals or [-1] * n, np.int64),
        reserved=np.full(n, -1, np.int64),
        place=np.array([entry[3] if len(entry) > 3 else 0 for entry in entries], np.int32),
        lane=np.full(n, lane, np.int32),
        node=np.full(n, -1, np.int32),
        places=places,
    )


def host():
    return [
        node("aten::linear", 0, 100, "main"), node("aten::empty", 10, 20, "main", parent=0),
        node("aten::relu", 200, 100, "main"), node("gemm", 30, 50),
    ]  # fmt: skip


def test_peak_and_what_was_live_by_hand():
    entries = [(15, 100, 1), (40, 50, 2), (150, 10, 3), (160, -50, 2), (210, 80, 2), (250, -100, 1), (260, -7, 9)]
    totals = [600, 650, 660, 610, 690, 590, 583]
    result = memory(make_trace(host()).with_(memory=events_of(entries, totals=totals)))
    (curve,) = result.curves
    assert (curve.peak_bytes, curve.peak_ns, curve.relative, curve.events) == (690, 210, False, 7)
    assert [(part.name, part.bytes, part.count, part.row) for part in curve.live] == [
        ("aten::linear", 100, 1, 0), ("aten::relu", 80, 1, 2), (NOTHING_AROUND, 10, 1, -1),
    ]  # fmt: skip
    assert (curve.live_bytes, curve.before_bytes) == (190, 500)
    assert (curve.allocated_bytes, curve.kept_bytes) == (240, 90)
    assert curve.kept_share == pytest.approx(90 / 240)


def test_without_totals_the_curve_counts_from_the_first_event():
    (curve,) = memory(make_trace(host()).with_(memory=events_of([(15, 100, 1), (40, -100, 1), (50, 30, 1)]))).curves
    assert curve.relative
    assert curve.allocated.tolist() == [100, 0, 30]
    assert (curve.peak_bytes, curve.before_bytes, curve.kept_bytes) == (100, None, 30)


def test_without_addresses_nobody_knows_what_was_live():
    trace = make_trace(host()).with_(memory=events_of([(15, 100, 1)], totals=[100], addresses=False))
    (record,) = as_json(trace)["memory"]["devices"]
    assert (record["live_at_peak_bytes"], record["never_freed_share"], record["live_at_peak"]) == (None, None, [])
    assert record["peak_reserved_bytes"] is None


def test_a_window_begins_with_what_was_there():
    entries = [(10, 100, 1), (20, 500, 2), (30, -500, 2), (60, 10, 3)]
    trace = make_trace(host()).with_(memory=events_of(entries))
    (curve,) = memory(trace, Scope((25, 50))).curves
    assert (curve.time_ns.tolist(), curve.allocated.tolist()) == ([25, 30], [600, 100])
    assert (curve.peak_bytes, curve.peak_ns, curve.live_bytes, curve.events) == (600, 25, 600, 1)
    assert memory(trace, Scope((100, 200))).reason == "nothing is allocated or freed in the chosen range"
    assert memory(make_trace(host())).reason == "the trace records no allocations"


def test_places_apart_and_the_largest_first():
    entries = [(10, 100, 1), (11, 300, 1, 1)]
    result = memory(make_trace(host()).with_(memory=events_of(entries, places=("cpu", "cuda:0"))))
    assert [(curve.place, curve.peak_bytes) for curve in result.curves] == [("cuda:0", 300), ("cpu", 100)]


def kineto(tmp_path):
    events = [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 2, "ts": 10, "dur": 50, "args": {}}]
    for at, (change, address) in enumerate([(512, 7), (1024, 8), (-512, 7)]):
        events.append(
            {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 1, "tid": 2, "ts": 20.5 + at,
             "args": {**ARGS, "Total Allocated": 4096 + 512 * at, "Bytes": change, "Addr": address}}
        )  # fmt: skip
    path = tmp_path / "memory.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path


def test_the_profilers_instants_are_read_and_kept(tmp_path):
    path = kineto(tmp_path)
    trace = open_trace(path)[0]
    assert trace.memory is not None
    assert trace.memory.places == ("cuda:0",)
    assert trace.memory.ts_ns.tolist() == [20_500, 21_500, 22_500]
    assert trace.memory.bytes.tolist() == [512, 1024, -512]
    assert trace.memory.allocated.tolist() == [4096, 4608, 5120]
    assert trace.memory.reserved.tolist() == [1000] * 3
    (curve,) = memory(trace).curves
    assert [(part.name, part.bytes) for part in curve.live] == [("aten::mm", 1024)]
    again = parts_to_run(*run_to_parts(Run((trace,), "one"), [path]), [path], open_trace).traces[0]
    assert again.memory is not None
    assert again.memory.places == trace.memory.places
    for name, array in trace.memory.arrays().items():
        assert np.array_equal(array, again.memory.arrays()[name])


def test_records_of_run_metadata(tmp_path):
    """An operator's records belong to it, whatever the time says; equal sizes are told apart by order."""
    message = run_metadata_pb2.RunMetadata()
    device = message.step_stats.dev_stats.add(device=b"/job:localhost/replica:0/task:0/device:CPU:0")
    for name, start, records in ((b"a", 10_500, [(10, 64), (12, 64), (20, -64)]), (b"b", 13_000, [(13, 8), (14, -8)])):
        one = device.node_stats.add(node_name=name, all_start_nanos=start, op_end_rel_nanos=1000, timeline_label=name)
        used = one.memory.add(allocator_name=b"cpu_bfc")
        for micros, size in records:
            used.allocation_records.add(alloc_micros=micros, alloc_bytes=size)
    path = tmp_path / "run_metadata.pb"
    path.write_bytes(message.SerializeToString())
    (curve,) = memory(open_trace(path)[0]).curves
    assert (curve.place, curve.relative) == ("CPU:0 cpu_bfc", True)
    assert (curve.time_ns.tolist(), curve.allocated.tolist()) == (
        [10_000, 12_000, 13_000, 14_000, 20_000], [64, 128, 136, 128, 64],
    )  # fmt: skip
    assert [(part.name, part.bytes, part.count) for part in curve.live] == [("a", 128, 2), ("b", 8, 1)]
    assert curve.kept_bytes == 64


def test_allocators_of_xplane(tmp_path):
    space = xplane_pb2.XSpace()
    plane = space.planes.add(name=b"/host:CPU")
    stats = ("bytes_allocated", "allocation_bytes", "addr", "index_on_host", "allocator_name")
    for number, name in enumerate(stats, 1):
        plane.stat_metadata[number].name = name.encode()
    for number, name in enumerate(("MemoryAllocation", "MemoryDeallocation", "Execute"), 1):
        plane.event_metadata[number].id = number
        plane.event_metadata[number].name = name.encode()
    line = plane.lines.add(name=b"main", timestamp_ns=1000)
    line.events.add(metadata_id=3, offset_ps=0, duration_ps=100_000)
    for kind, at, total, size, device in ((1, 10, 256, 256, 0), (1, 20, 64, 64, 1), (2, 30, 0, 256, 0)):
        event = line.events.add(metadata_id=kind, offset_ps=at * 1000)
        for number, value in enumerate((total, size, 7, device), 1):
            event.stats.add(metadata_id=number, int64_value=value)
        if device:
            event.stats.add(metadata_id=5, str_value=b"GPU_1_bfc")
    path = tmp_path / "memory.xplane.pb"
    path.write_bytes(space.SerializeToString())
    first, second = memory(open_trace(path)[0]).curves
    assert (first.place, first.allocated.tolist(), first.time_ns.tolist()) == ("device 0", [256, 0], [1010, 1030])
    assert (first.kept_bytes, [part.name for part in first.live]) == (0, ["Execute"])
    assert (second.place, second.peak_bytes, second.kept_bytes) == ("GPU_1_bfc device 1", 64, 64)


CHANGES = st.lists(
    st.tuples(st.integers(0, 50), st.integers(-40, 40).filter(bool), st.integers(1, 4)), min_size=1, max_size=20
)


@settings(max_examples=100)
@given(CHANGES, st.integers(2, 12))
def test_live_never_freed_and_thinned(entries, most):
    entries = sorted(entries, key=lambda entry: entry[0])
    (curve,) = memory(make_trace(host()).with_(memory=events_of(entries))).curves
    assert curve.peak_bytes == curve.allocated.max()
    assert curve.live_bytes == sum(part.bytes for part in curve.live)
    assert curve.kept_bytes is not None
    assert 0 <= curve.kept_bytes <= curve.allocated_bytes == sum(change for _, change, _ in entries if change > 0)
    alive: dict[int, int] = {}
    for at, (_, change, address) in enumerate(entries):
        alive.pop(address, None)
        if change > 0:
            alive[address] = change
        if at == int(np.argmax(curve.allocated)):
            assert curve.live_bytes == sum(alive.values())
    assert curve.kept_bytes == sum(alive.values())
    places = thinned(curve, most)
    assert len(places) <= max(most, 4)
    assert {curve.allocated.max(), curve.allocated.min()} <= set(curve.allocated[places].tolist())
    assert {0, len(entries) - 1} <= set(places.tolist())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Memcpy HtoD (Pageable -> Device)", ("HtoD", "pageable")), ("Memcpy DtoH (Device -> Pinned)", ("DtoH", "pinned")),
        ("Memcpy PtoP (Device -> Device)", ("PtoP", "")), ("CopyHostToDevice", ("HtoD", "")), ("MemcpyD2H", ("DtoH", "")),
        ("Memcpy HtoD (Host -> Device)", ("HtoD", "")), ("hipMemcpyWithStream", ("not told", "")),
        ("copy.17", ("not told", "")), ("Memcpy DtoA (Device -> Array)", ("DtoD", "")),
    ],
)  # fmt: skip
def test_directions(name, expected):
    assert copy_kind(name) == expected


def test_copies_by_hand():
    copy = {"category": Category.COPY}
    trace = make_trace(
        [
            node("Memcpy HtoD (Pinned -> Device)", 0, 10, bytes_accessed=1000, **copy),
            node("Memcpy HtoD (Pinned -> Device)", 20, 30, bytes_accessed=1000, **copy),
            node("Memcpy HtoD (Pinned -> Device)", 60, 5, **copy),
            node("Memcpy HtoD (Pageable -> Device)", 70, 5, bytes_accessed=10, **copy),
            node("Memset (Device)", 80, 4, bytes_accessed=400, category=Category.MEMSET), node("gemm", 100, 50),
        ]
    )  # fmt: skip
    trace = trace.with_(meta=replace(trace.meta, hardware="NVIDIA A100-SXM4-80GB"))
    pinned, pageable, fill = copies(trace)
    assert (pinned.direction, pinned.host_memory, pinned.count, pinned.unsized) == ("HtoD", "pinned", 3, 1)
    assert (pinned.bytes, pinned.total_ns, pinned.limited_by) == (2000, 45, "host link")
    assert pinned.bandwidth == pytest.approx(2000 / 40e-9)
    assert pinned.limit == pageable.limit == 32e9
    assert (fill.direction, fill.limited_by) == ("fill", "memory bandwidth")
    (cut, *_) = copies(trace, Scope((25, 40)))
    assert (cut.total_ns, cut.bandwidth) == (15, pytest.approx(1000 / 30e-9))
    assert copies(make_trace(host())) == ()


def test_on_every_trace_that_records_memory(corpus):
    seen = 0
    for path in [
        *sorted((corpus / "kineto" / "cross_hw").glob("*.gz")),
        corpus / "kineto" / "mi300x_normalization.json.gz",
    ]:
        trace = open_trace(path)[0]
        assert trace.memory is not None, path
        result = memory(trace)
        for curve in result.curves:
            seen += curve.events
            assert not curve.relative, path
            assert curve.live_bytes is not None
            assert curve.before_bytes is not None
            assert 0 <= curve.live_bytes <= curve.peak_bytes, (path, curve.place)
            step = np.diff(curve.allocated)
            rows = trace.memory.place == trace.memory.places.index(curve.place)
            change = trace.memory.bytes[rows][np.argsort(trace.memory.ts_ns[rows], kind="stable")]
            assert (step == change[1:]).mean() > 0.99, (path, curve.place)
    assert seen > 5_000


def test_what_tensorflow_and_jax_record(corpus):
    """Nothing is there before the first allocation of a process that the profile saw begin."""
    for name, places in (
        ("collected/tensorflow_2.21/run_metadata.pb", 1), ("collected/tensorflow_2.21/keras_cnn_3steps.xplane.pb", 1),
        ("xplane/mi300x_jax_gemm.xplane.pb", 2), ("xplane/tpu_v6e_4core.xplane.pb", 4),
    ):  # fmt: skip
        curves = memory(open_trace(corpus / name)[0]).curves
        assert len(curves) == places, name
        for curve in curves:
            assert curve.live_bytes == curve.peak_bytes - (curve.before_bytes or 0), name
            assert curve.before_bytes in (0, None), name


def test_the_command_line_prints_it(tmp_path, capsys):
    assert main(["analyze", str(kineto(tmp_path)), "--no-cache", "--json"]) == 0
    (record,) = json.loads(capsys.readouterr().out)["traces"]
    (device,) = record["memory"]["devices"]
    assert (device["place"], device["peak_bytes"], device["never_freed_bytes"]) == ("cuda:0", 5120, 1024)
    assert device["curve"]["allocated_bytes"] == [4096, 4608, 5120]
    assert (record["collectives"], record["collectives_total"]["reason"]) == ([], "the trace records no communication")
    assert main(["analyze", str(tmp_path / "memory.json"), "--no-cache"]) == 0
    assert "5.12 kB" in capsys.readouterr().out
