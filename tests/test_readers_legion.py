"""Legion profiler logs: lanes, names, device parts, transfers, dependencies through events, damage, speed at scale."""

from __future__ import annotations

import gzip
import json
import struct
from pathlib import Path

import numpy as np
import pytest

from chakra_core.errors import CorruptTrace, UnknownFormat
from chakra_core.opening import open_run
from chakra_core.readers import guess_reader
from chakra_core.readers._legion_format import read_log
from chakra_core.readers.base import Source
from chakra_core.readers.legion_prof import READER
from chakra_core.schema import NO_TIME, Category, CommOp, Domain, EdgeKind, NodeKind
from chakra_core.trace import Trace
from tests.legion_log import IDS, identity, preamble, record

CPU, GPU, OTHER_GPU = identity(0, 1), identity(0, 2), identity(0, 3)
SYSTEM, FRAME, REMOTE = identity(0, 0, 0x1E), identity(0, 1, 0x1E), identity(1, 0, 0x1E)
EV = {
    name: 0x8000_0000_0000_0000 + at
    for at, name in enumerate(["main", "fwd", "bwd", "copy", "send", "merged", "mapped"], 1)
}


def machine() -> list[bytes]:
    return [
        record("MaxDimDesc", max_dim=2),
        record("MachineDesc", node_id=0, num_nodes=2, version=1005, hostname="node-a", host_id=7, process_id=9),
        record("ZeroTime", zero_time=123),
        record("ProcDesc", proc_id=CPU, kind=2),
        record("ProcDesc", proc_id=GPU, kind=1, uuid_size=16, cuda_device_uuid=bytes(range(16))),
        record("ProcDesc", proc_id=OTHER_GPU, kind=1, uuid_size=16, cuda_device_uuid=bytes(16)),
        record("MemDesc", mem_id=SYSTEM, kind=2),
        record("MemDesc", mem_id=FRAME, kind=6),
        record("MemDesc", mem_id=REMOTE, kind=2),
        record("ProcMDesc", proc_id=GPU, mem_id=FRAME, bandwidth=10),
        record("ProcMDesc", proc_id=OTHER_GPU, mem_id=FRAME, bandwidth=900),
        record("IndexSpaceRectDesc", unique_id=1, dim=2, rem=[0, 0, 9, 9]),
        record("IndexSpacePointDesc", unique_id=1, dim=2, rem=[4, 4]),
    ]


def work() -> list[bytes]:
    """A main task that waits for two GPU tasks; a copy to the GPU before them, a copy to another process after."""
    return [
        record("TaskKind", task_id=1, name="top_level"),
        record("TaskKind", task_id=2, name="Linear Forward"),
        record("TaskVariant", task_id=3, variant_id=1, name="Conv2D Backward Task"),
        record("MetaDesc", kind=5, name="Mapping"),
        record("MapperCallDesc", kind=8, name="select_task_options"),
        record("TaskInfo", op_id=1, task_id=1, proc_id=CPU, start=0, stop=1000, fevent=EV["main"]),
        record("MetaInfo", op_id=2, lg_id=5, proc_id=CPU, start=5, stop=9, creator=EV["main"], fevent=EV["mapped"]),
        record("MapperCallInfo", kind=8, op_id=2, proc_id=CPU, start=6, stop=8, fevent=EV["mapped"]),
        record("CopyInfo", op_id=3, size=4096, start=20, stop=60, creator=EV["main"], fevent=EV["copy"]),
        record("CopyInstInfo", src=SYSTEM, dst=FRAME, fevent=EV["copy"]),
        record("GPUTaskInfo", op_id=4, task_id=2, proc_id=GPU, start=70, stop=90, gpu_start=80, gpu_stop=300,
               creator=EV["main"], critical=EV["copy"], fevent=EV["fwd"]),
        record("GPUTaskInfo", op_id=5, task_id=3, variant_id=1, proc_id=GPU, start=100, stop=120, gpu_start=300,
               gpu_stop=500, creator=EV["main"], critical=EV["merged"], fevent=EV["bwd"]),
        record("EventMergerInfo", result=EV["merged"], pre0=EV["fwd"], pre1=EV["copy"], fevent=EV["main"]),
        record("CopyInfo", op_id=6, size=100, start=510, stop=600, critical=EV["bwd"], fevent=EV["send"]),
        record("CopyInstInfo", src=SYSTEM, dst=REMOTE, fevent=EV["send"]),
        record("TaskWaitInfo", op_id=1, task_id=1, wait_start=150, wait_ready=600, wait_end=610, wait_event=EV["send"]),
    ]  # fmt: skip


def read(folder: Path, records: list[bytes], name: str = "prof_0.gz", head: bytes = b"") -> Trace:
    path = folder / name
    data = (head or preamble()) + b"".join(records)
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    source = Source(path)
    assert guess_reader(source) is READER
    return READER.read(source)[0]


def rows_by_name(trace: Trace) -> dict[tuple[str, int], int]:
    return {(trace.name_of(row), int(trace.columns.domain[row])): row for row in range(len(trace))}


@pytest.mark.parametrize("name", ["prof_0.gz", "prof_0"])
def test_everything_a_log_says(tmp_path: Path, name: str):
    trace = read(tmp_path, [*machine(), *work()], name)
    c, at = trace.columns, rows_by_name(trace)
    assert (trace.meta.rank, trace.meta.world_size, trace.meta.schema) == (0, 2, "profile version 1005")
    assert trace.meta.details == {"processors": {"CPU": 1, "GPU": 2}, "host": "node-a", "zero_time_ns": 123}
    assert not trace.health
    forward, host = at["Linear Forward", Domain.DEVICE], at["Linear Forward", Domain.HOST]
    assert (c.start_ns[forward], c.dur_ns[forward], c.category[forward]) == (80, 220, Category.GEMM)
    assert (c.start_ns[host], c.dur_ns[host], c.category[host]) == (70, 20, Category.HOST_OP)
    assert c.category[at["Conv2D Backward Task", Domain.DEVICE]] == Category.CONVOLUTION
    copy = at["copy system → framebuffer 1", Domain.DEVICE]
    assert (c.category[copy], c.bytes_accessed[copy], trace.lanes[c.lane[copy]].device) == (Category.COPY, 4096, 1)
    send = at["copy system → system of process 1", Domain.DEVICE]
    assert (c.kind[send], c.comm_op[send], c.comm_bytes[send], c.comm_peer[send]) == (
        NodeKind.COMM_SEND,
        CommOp.SEND,
        100,
        1,
    )
    assert c.category[at["Mapping", Domain.HOST]] == c.category[at["waiting", Domain.HOST]] == Category.RUNTIME
    assert {lane.name for lane in trace.lanes} >= {"CPU 1", "GPU 0", "GPU 0 host"}
    assert trace.attributes_of(forward)["fevent"] == hex(EV["fwd"])
    assert trace.attributes_of(forward)["record"] == "GPUTaskInfo"


def test_dependencies_and_calls(tmp_path: Path):
    trace = read(tmp_path, [*machine(), *work()])
    at = rows_by_name(trace)
    host, device = Domain.HOST, Domain.DEVICE
    main, forward, backward = at["top_level", host], at["Linear Forward", device], at["Conv2D Backward Task", device]
    copy, send = at["copy system → framebuffer 1", device], at["copy system → system of process 1", device]
    found = {
        (int(source), int(target), EdgeKind(kind))
        for source, target, kind in zip(trace.edges.sources, trace.edges.targets(), trace.edges.kinds, strict=True)
    }
    forward_host, backward_host = at["Linear Forward", host], at["Conv2D Backward Task", host]
    assert found == {
        (main, at["Mapping", host], EdgeKind.CONTROL),
        (main, copy, EdgeKind.CONTROL),
        (main, forward_host, EdgeKind.CONTROL),
        (main, backward_host, EdgeKind.CONTROL),
        (forward_host, forward, EdgeKind.LAUNCH),
        (backward_host, backward, EdgeKind.LAUNCH),
        (copy, forward_host, EdgeKind.DATA),
        (copy, backward_host, EdgeKind.DATA),
        (forward, backward_host, EdgeKind.DATA),
        (backward, send, EdgeKind.DATA),
        (send, at["waiting", host], EdgeKind.SYNC),
    }
    parent = trace.columns.parent
    assert parent[at["select_task_options", host]] == at["Mapping", host]
    assert parent[at["waiting", host]] == main
    assert parent[forward] == forward_host


def test_newer_preamble_and_unknown_names(tmp_path: Path):
    head = preamble("FileType: BinaryLegionProf v: 1012\nlegion-25.12.0-12-gabcdef")
    trace = read(tmp_path, [record("TaskInfo", op_id=1, task_id=77, proc_id=GPU, start=5, stop=9)], "prof_1", head)
    assert trace.name_of(0) == "task 77"
    assert trace.columns.domain[0] == Domain.HOST  # nothing says that its processor is a GPU


def test_processes_of_a_folder_are_ranks(tmp_path: Path):
    for node in range(2):
        records = [
            record("MachineDesc", node_id=node, num_nodes=2),
            record("TaskInfo", op_id=1, task_id=1, proc_id=identity(node, 1), start=5, stop=9, fevent=5),
        ]
        read(tmp_path, records, f"prof_{node}.gz")
    run = open_run([tmp_path])
    assert run.ranks == (0, 1)


def test_damage_is_found_and_what_came_before_is_kept(tmp_path: Path):
    whole = preamble() + b"".join(machine() + work())
    path = tmp_path / "cut"
    path.write_bytes(whole[:-10])
    (trace,) = READER.read(Source(path))
    assert [(finding.code, finding.count) for finding in trace.health] == [("truncated", 1)]
    assert "waiting" not in trace.names
    (trace,) = READER.read(_written(tmp_path, whole + struct.pack("<i", 9999) + b"rest"))
    assert trace.health[0].code == "damaged-record"
    assert f"byte {len(whole):,}" in trace.health[0].message
    packed = gzip.compress(whole)
    (trace,) = READER.read(_written(tmp_path, packed[: len(packed) * 3 // 4]))
    assert trace.health[0].code == "truncated"


def _written(folder: Path, data: bytes) -> Source:
    path = folder / "prof_9.gz"
    path.write_bytes(data)
    return Source(path)


@pytest.mark.parametrize(
    "data",
    [
        preamble()[:-1],
        b"FileType: BinaryLegionProf v: 1.0\n\n",
        b"FileType: BinaryLegionProf v: 1.0\nTaskInfo {id:4000000, a:unsigned:4}\n\nxxxx",
        b"FileType: BinaryLegionProf v: 1.0\nA {id:1, a:unsigned:4}\nnonsense\n\n",
        b"FileType: BinaryLegionProf v: 1.0\nA {id:1, a:unsigned:4}\nB {id:1, a:unsigned:4}\n\n",
        preamble(),
        preamble() + struct.pack("<ii", IDS["MaxDimDesc"], 2**30),
        preamble() + b"\xff" * 64,
    ],
)
def test_useless_logs_are_errors_that_name_the_file(tmp_path: Path, data: bytes):
    with pytest.raises(CorruptTrace, match=r"prof_9\.gz"):
        READER.read(_written(tmp_path, data))


def test_a_log_in_text_says_what_to_record_instead(tmp_path: Path):
    path = tmp_path / "prof.log"
    path.write_text("[0 - 7f21c4a8] {2}{legion_prof}: Prof Task Info 12 4 1 1d00000000000001 10 11 12 13\n")
    with pytest.raises(UnknownFormat, match="binary serialiser"):
        open_run([path])


def test_impossible_lengths_times_and_text(tmp_path: Path):
    head = [record("TaskKind", task_id=1, name="x").replace(b"x", b"\xff"), record("ProcDesc", proc_id=CPU, kind=-5)]
    times = [
        record("TaskInfo", op_id=at, task_id=1, proc_id=CPU, start=start, stop=stop)
        for at, (start, stop) in enumerate([(10, 20), (30, 20), (-1, -1), (40, -1)])
    ]
    trace = read(tmp_path, [*head, *times, struct.pack("<iqiI", IDS["ProcDesc"], 5, 1, 2**31)], "prof_2")
    assert trace.names == ("\ufffd",)
    order = np.argsort(trace.columns.start_ns, kind="stable")
    assert trace.columns.start_ns[order].tolist() == [NO_TIME, 10, 30, 40]
    assert trace.columns.dur_ns[order].tolist() == [0, 10, 0, 0]
    assert {finding.code: finding.count for finding in trace.health} == {
        "truncated": 1, "negative-duration": 2, "missing-start": 1,
    }  # fmt: skip


def test_events_in_circles_end(tmp_path: Path):
    mergers = [record("EventMergerInfo", result=1 + at, pre0=1 + (at + 1) % 3, pre1=9) for at in range(3)]
    task = record("TaskInfo", op_id=1, task_id=1, proc_id=CPU, start=5, stop=9, critical=1, fevent=50)
    trace = read(tmp_path, [*mergers, task], "prof_3")
    assert [(finding.code, finding.count) for finding in trace.health] == [("unresolved-dependency", 1)]


def test_walk_finds_the_same_records_as_plain_python(tmp_path: Path):
    rng = np.random.default_rng(3)
    made = [*machine(), *work()]
    chosen = machine()[:1] + [made[int(at)] for at in rng.integers(1, len(made), 500)]
    log = read_log(preamble() + b"".join(chosen), tmp_path)
    assert log.kinds.tolist() == [struct.unpack_from("<i", one)[0] for one in chosen]
    assert np.diff(log.offsets).tolist() == [len(one) for one in chosen[:-1]]
    assert log.stopped == -1


def test_trace_json_of_legion_prof_opens(tmp_path: Path):
    events = [
        {"name": name, "cat": "task", "ph": "X", "ts": ts, "dur": dur, "pid": 0, "tid": tid}
        for name, ts, dur, tid in [
            ("top_level", 0.0, 1.5, 1), ("top_level (waiting)", 1.5, 10.0, 1), ("top_level (ready)", 11.5, 0.25, 1),
            ("Linear Forward (Linear Forward Task)", 2.0, 8.0, 2),
        ]
    ]  # fmt: skip
    (tmp_path / "legion_prof.json").write_text(json.dumps(events))
    (trace,) = open_run([tmp_path / "legion_prof.json"]).traces
    assert trace.columns.dur_ns.tolist() == [1500, 10_000, 250, 8000]
    assert len(trace.lanes) == 2
