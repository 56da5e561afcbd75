"""XPlane and RunMetadata: hand-made profiles, the HLO graph, and the real profiles of the corpus."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from chakra_core.analysis.steps import find_steps
from chakra_core.errors import CorruptTrace
from chakra_core.opening import open_trace
from chakra_core.readers._hlo import collective_from_text
from chakra_core.readers.base import Source
from chakra_core.readers.proto import run_metadata_pb2, xplane_pb2
from chakra_core.readers.run_metadata import READER as RUN_METADATA
from chakra_core.readers.xplane import READER
from chakra_core.schema import Category, CommOp, Domain, EdgeKind


def gpu_profile() -> xplane_pb2.XSpace:
    """A launch on the host, its kernel and a second kernel that uses the first one's result."""
    space = xplane_pb2.XSpace()
    module = xplane_pb2.HloProto()
    module.hlo_module.entry_computation_id = 1
    body = module.hlo_module.computations.add(id=1)
    body.instructions.add(name=b"p", opcode=b"parameter", id=1)
    body.instructions.add(name=b"a", opcode=b"fusion", id=2, operand_ids=[1])
    body.instructions.add(name=b"t", opcode=b"bitcast", id=3, operand_ids=[2])
    body.instructions.add(name=b"b", opcode=b"fusion", id=4, operand_ids=[3])
    host_meta = space.planes.add(name=b"/host:metadata")
    host_meta.stat_metadata[1].name = b"Hlo Proto"
    host_meta.event_metadata[7].name = b"jit_f(7)"
    host_meta.event_metadata[7].stats.add(metadata_id=1, bytes_value=module.SerializeToString())
    device = space.planes.add(name=b"/device:GPU:0")
    device.stat_metadata[1].name = b"correlation_id"
    device.stat_metadata[2].name = b"hlo_op"
    device.stat_metadata[3].name = b"program_id"
    stream = device.lines.add(name=b"Stream #3(Kernel)", timestamp_ns=100)
    for number, (op, offset, correlation) in enumerate([(b"a", 1_999, 11), (b"b", 50_500, 12)], 1):
        device.event_metadata[number].name = b"fusion_" + op
        event = stream.events.add(metadata_id=number, offset_ps=offset, duration_ps=20_002)
        event.stats.add(metadata_id=1, int64_value=correlation)
        event.stats.add(metadata_id=2, str_value=op)
        event.stats.add(metadata_id=3, int64_value=7)
    host = space.planes.add(name=b"/host:CPU")
    host.stat_metadata[1].name = b"correlation_id"
    thread = host.lines.add(name=b"main", timestamp_ns=90)
    host.event_metadata[1].name = b"step"
    host.event_metadata[2].name = b"hipModuleLaunchKernel"
    thread.events.add(metadata_id=1, offset_ps=0, duration_ps=9_000)
    thread.events.add(metadata_id=2, offset_ps=1_000, duration_ps=2_000).stats.add(metadata_id=1, int64_value=11)
    return space


def write(folder: Path, space: xplane_pb2.XSpace) -> Source:
    path = folder / "vm.xplane.pb"
    path.write_bytes(space.SerializeToString())
    return Source(path)


def test_times_links_and_operands(tmp_path: Path):
    source = write(tmp_path, gpu_profile())
    assert READER.sniff(source.head, source.name) > 0.9
    (trace,) = READER.read(source)
    assert [trace.name_of(row) for row in range(4)] == ["fusion_a", "fusion_b", "step", "hipModuleLaunchKernel"]
    assert trace.columns.start_ns.tolist() == [101, 150, 90, 91]
    assert trace.columns.dur_ns.tolist() == [21, 20, 9, 2]
    assert trace.columns.domain.tolist() == [Domain.DEVICE, Domain.DEVICE, Domain.HOST, Domain.HOST]
    assert trace.columns.parent.tolist() == [3, -1, -1, 2]
    assert trace.columns.category[3] == Category.RUNTIME
    sources, kinds = trace.edges.of(1)
    assert sources.tolist() == [0, 0]
    assert set(kinds.tolist()) == {EdgeKind.DATA, EdgeKind.STREAM}
    assert trace.edges.of(0)[0].tolist() == [3]
    assert trace.attributes_of(0)["offset_ps"] == 1_999


def test_a_cut_profile_gives_the_planes_before_the_cut(tmp_path: Path):
    path = tmp_path / "cut.xplane.pb"
    path.write_bytes(gpu_profile().SerializeToString()[:-3])
    (trace,) = READER.read(Source(path))
    assert [trace.name_of(row) for row in range(len(trace))] == ["fusion_a", "fusion_b"]
    assert "truncated" in {finding.code for finding in trace.health}
    path.write_bytes(gpu_profile().SerializeToString()[:20])
    with pytest.raises(CorruptTrace, match=r"cut\.xplane\.pb"):
        READER.read(Source(path))


def test_damage_anywhere_is_an_error_or_a_trace(tmp_path: Path):
    whole = gpu_profile().SerializeToString()
    rng = np.random.default_rng(11)
    path = tmp_path / "bad.xplane.pb"
    opened = 0
    for _ in range(400):
        data = bytearray(whole)
        for at in rng.integers(0, len(whole), 3):
            data[at] = rng.integers(0, 256)
        path.write_bytes(bytes(data[: rng.integers(len(whole) // 2, len(whole) + 1)]))
        try:
            (trace,) = READER.read(Source(path))
        except CorruptTrace:
            continue
        opened += 1
        assert (trace.columns.dur_ns >= 0).all()
        for row in range(len(trace)):
            json.dumps(trace.attributes_of(row))
    assert opened > 50


def test_empty_stats_and_numbers_out_of_range(tmp_path: Path):
    space = gpu_profile()
    event = space.planes[2].lines[0].events.add(metadata_id=2, offset_ps=2**62, duration_ps=2**62)
    for _ in range(50):
        event.stats.add()
    event.stats.add(metadata_id=1, uint64_value=2**64 - 1)
    (trace,) = READER.read(write(tmp_path, space))
    assert (trace.columns.dur_ns >= 0).all()
    assert trace.columns.correlation.min() == -1


def test_collectives_in_instruction_text():
    text = "%ar = f32[5,4]{1,0:T(8,128)} all-reduce(f32[5,4]{1,0} %x), replica_groups=[4,2]<=[2,4]T(1,0), to_apply=%r"
    found = collective_from_text(text)
    assert found is not None
    assert (found.op, found.bytes) == (CommOp.ALL_REDUCE, 80)
    assert found.groups == ((0, 4), (1, 5), (2, 6), (3, 7))
    listed = collective_from_text("%rs = bf16[8] reduce-scatter(bf16[16] %x), replica_groups={{0,1},{2,3}}")
    assert listed is not None
    assert (listed.bytes, listed.groups) == (32, ((0, 1), (2, 3)))
    assert collective_from_text("%add = f32[2] add(f32[2] %a, f32[2] %b)") is None


@pytest.mark.parametrize(
    ("name", "kernels", "devices"),
    [("mi300x_jax_gemm", 54, 1), ("mi300x_jax_conv_8gpu", 235, 8), ("tpu_v6e_4core", 6613, 4)],
)
def test_device_work_of_real_profiles(corpus: Path, name: str, kernels: int, devices: int):
    (trace,) = READER.read(Source(corpus / "xplane" / f"{name}.xplane.pb"))
    assert len(trace.device_rows) == kernels
    assert len({trace.lanes[lane].device for lane in trace.columns.lane[trace.device_rows]}) == devices
    end = trace.columns.start_ns + trace.columns.dur_ns
    assert (end[trace.edges.sources] <= end[trace.edges.targets()]).all()


def test_jax_collectives_have_groups_and_bytes(corpus: Path):
    (trace,) = READER.read(Source(corpus / "collected/jax_0.10/train_step_4dev.xplane.pb"))
    c = trace.columns
    seen = {
        (CommOp(op).label, size, trace.meta.groups[group].ranks)
        for op, size, group in zip(c.comm_op.tolist(), c.comm_bytes.tolist(), c.comm_group.tolist(), strict=True)
        if op >= 0
    }
    assert ("all-reduce", 16384, (0, 1)) in seen
    assert ("all-reduce", 327680, (1, 3)) in seen
    assert ("all-gather", 131072, (0, 2)) in seen
    assert ("reduce-scatter", 2 * 65536, (1, 3)) in seen
    assert {entry[0] for entry in seen} == {"all-reduce", "all-gather", "reduce-scatter", "all-to-all", "permute"}
    assert (trace.edges.kinds == EdgeKind.DATA).sum() > 100


@pytest.mark.parametrize(
    ("name", "numbers"),
    [("jax_0.10/train_step_4dev.xplane.pb", [0, 1, 2]), ("jax_0.10/train_step_4dev.trace.json.gz", [0, 1, 2]),
     ("tensorflow_2.21/keras_cnn_xla.xplane.pb", [0, 1, 2]), ("tensorflow_2.21/keras_callback.xplane.pb", [0, 1, 2])],
)  # fmt: skip
def test_steps_are_found(corpus: Path, name: str, numbers: list[int]):
    (trace,) = open_trace(corpus / "collected" / name)
    assert [step.number for step in find_steps(trace)] == numbers


def test_fusions_are_classified_by_what_they_contain(corpus: Path):
    (trace,) = READER.read(Source(corpus / "collected/jax_0.10/train_step_4dev.xplane.pb"))
    kinds = {trace.name_of(row): Category(int(trace.columns.category[row])) for row in trace.device_rows.tolist()}
    assert kinds["ynn_fusion.2"] == Category.GEMM  # its computation is a dot
    assert kinds["ynn_fusion"] == Category.REDUCTION  # multiply, then reduce


def test_run_metadata_has_dependencies_and_bytes(corpus: Path):
    source = Source(corpus / "collected/tensorflow_2.21/run_metadata.pb")
    assert RUN_METADATA.sniff(source.head, source.name) > READER.sniff(source.head, source.name)
    (trace,) = RUN_METADATA.read(source)
    rows = {trace.name_of(row): row for row in range(len(trace))}
    fc1 = rows["fc1:_MklMatMul"]
    assert len(trace) == 21
    assert {trace.name_of(int(at)) for at in trace.edges.of(fc1)[0]} == {"_arg_x_0_0:_Arg", "w1/read:Identity"}
    assert trace.columns.bytes_accessed[fc1] == 64 * 256 * 4
    assert trace.columns.dur_ns[fc1] == 59259 - 161


def step_statistics() -> run_metadata_pb2.RunMetadata:
    """Two operators on a GPU: what was asked of it, what its stream did, the summary of streams; a partition graph."""
    message = run_metadata_pb2.RunMetadata()
    asked = message.step_stats.dev_stats.add(device=b"/job:localhost/replica:0/task:0/device:GPU:1")
    asked.node_stats.add(node_name=b"a", all_start_micros=10, op_end_rel_micros=5, timeline_label=b"a = MatMul(x, ^c)")
    asked.node_stats.add(node_name=b"b", all_start_micros=20, op_end_rel_micros=5, timeline_label=b"")
    for name in (b"/device:GPU:1/stream:all", b"/device:GPU:1/stream:14"):
        stream = message.step_stats.dev_stats.add(device=name)
        stream.node_stats.add(node_name=b"a:MatMul", all_start_micros=30, op_end_rel_micros=7)
    message.partition_graphs.add().node.add(name=b"b", op=b"Relu", input=[b"a:0"])
    return message


def test_step_statistics_of_a_gpu_and_partition_graphs(tmp_path: Path):
    path = tmp_path / "run_metadata.pb"
    path.write_bytes(step_statistics().SerializeToString())
    (trace,) = open_trace(path)
    c = trace.columns
    assert c.domain.tolist() == [Domain.HOST, Domain.HOST, Domain.DEVICE, Domain.DEVICE]
    assert trace.device_rows.tolist() == [3]
    assert c.category[2] == Category.ANNOTATION
    assert (trace.lanes[c.lane[3]].name, trace.lanes[c.lane[3]].device) == ("stream:14", 1)
    found = set(
        zip(trace.edges.sources.tolist(), trace.edges.targets().tolist(), trace.edges.kinds.tolist(), strict=True)
    )
    assert found == {(0, 2, EdgeKind.LAUNCH), (0, 3, EdgeKind.LAUNCH), (0, 1, EdgeKind.DATA)}
    assert {finding.code for finding in trace.health} == {"unresolved-dependency"}  # x and c did not run
    path.write_bytes(step_statistics().SerializeToString()[:-5])
    with pytest.raises(CorruptTrace, match=r"run_metadata\.pb"):
        RUN_METADATA.read(Source(path))
