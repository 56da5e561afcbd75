"""Chakra readers: every schema by hand-made bytes, every file of the corpus against an independent decoder, damage."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chakra_core.errors import ChakraError, CorruptTrace
from chakra_core.readers._et_shapes import signature
from chakra_core.readers.base import Source
from chakra_core.readers.chakra_et import READER
from chakra_core.readers.chakra_json import READER as JSON_READER
from chakra_core.readers.proto import chakra_v1_pb2 as v1
from chakra_core.schema import NO_TIME, Category, CommOp, Domain, EdgeKind, NodeKind, TimeKind
from chakra_core.trace import Trace


def varint(value: int) -> bytes:
    out = bytearray()
    while True:
        out.append(value & 0x7F | (0x80 if value > 0x7F else 0))
        value >>= 7
        if not value:
            return bytes(out)


def frame(*messages: bytes) -> bytes:
    return b"".join(varint(len(raw)) + raw for raw in messages)


def attribute(target, name: str, **value):
    target.attr.add(name=name.encode(), **value)


def read(folder: Path, content: bytes, name: str = "t.3.et") -> Trace:
    path = folder / name
    path.write_bytes(content)
    source = Source(path)
    assert READER.sniff(source.head, source.name) > 0
    return READER.read(source)[0]


def attempt(path: Path) -> str:
    """Read a damaged file: its name where it opens, else the error's text."""
    try:
        source = Source(path)
        READER.sniff(source.head, source.name)
        READER.read(source)
    except ChakraError as error:
        return str(error)
    return path.name


def sample() -> list[bytes]:
    meta = v1.GlobalMetadata(version=b"0.0.4")
    attribute(meta, "schema", string_val=b"1.0.0")
    attribute(meta, "hardware", string_val=b"H100 SXM")
    host = v1.Node(id=5, name=b"aten::mm", type=4, duration_micros=20)
    host.inputs.shapes = b"[[8, 4], [4, 2]]"
    host.inputs.types = b"['Tensor(c10::BFloat16)', 'Tensor(c10::BFloat16)']"
    attribute(host, "is_cpu_op", bool_val=True)
    attribute(host, "tid", int64_val=2)
    kernel = v1.Node(id=6, name=b"ampere_bf16_gemm", type=4, ctrl_deps=[5], data_deps=[5, 99], duration_micros=7)
    attribute(kernel, "is_cpu_op", bool_val=False)
    attribute(kernel, "stream", int64_val=7)
    attribute(kernel, "dur_ns", int64_val=7_123)
    attribute(kernel, "num_ops", int64_val=128)
    comm = v1.Node(id=2**64 - 1, name=b"ncclAllReduce", type=7, data_deps=[6, 2**64 - 1], duration_micros=9)
    attribute(comm, "comm_type", int64_val=0)
    attribute(comm, "comm_size", int64_val=4096)
    attribute(comm, "pg_name", string_val=b"0")
    attribute(comm, "values", double_list=v1.DoubleList(values=[1.5]))
    return [meta.SerializeToString(), *(node.SerializeToString() for node in (host, kernel, comm))]


def test_columns_of_a_current_file(tmp_path: Path):
    trace = read(tmp_path, frame(*sample()))
    c = trace.columns
    assert c.id.tolist() == [5, 6, 2**64 - 1]
    assert [trace.name_of(row) for row in range(3)] == ["aten::mm", "ampere_bf16_gemm", "ncclAllReduce"]
    assert c.kind.tolist() == [NodeKind.COMP, NodeKind.COMP, NodeKind.COMM_COLL]
    assert c.domain.tolist() == [Domain.HOST, Domain.DEVICE, Domain.DEVICE]
    assert c.category.tolist() == [Category.HOST_OP, Category.GEMM, Category.COMMUNICATION]
    assert c.dur_ns.tolist() == [20_000, 7_123, 9_000]
    assert c.start_ns.tolist() == [NO_TIME] * 3
    assert [trace.lanes[at].name if at >= 0 else "" for at in c.lane] == ["thread 2", "stream 7", ""]
    assert trace.shapes[c.shape[0]] == "[8,4]x[4,2]:bf16"
    assert c.parent.tolist() == [-1, 0, -1]
    assert (c.comm_op[2], c.comm_bytes[2], c.flops[1]) == (CommOp.ALL_REDUCE, 4096, 128)
    assert trace.meta.groups[c.comm_group[2]].name == "0"
    assert (trace.meta.rank, trace.meta.hardware, trace.meta.schema) == (3, "H100 SXM", "1.0.0")
    assert {finding.code: finding.count for finding in trace.health} == {
        "unresolved-dependency": 1,
        "self-dependency": 1,
    }
    sources, kinds = trace.edges.of(1)
    assert sources.tolist() == [0, 0]
    assert kinds.tolist() == [EdgeKind.DATA, EdgeKind.CONTROL]
    assert trace.attributes(2**64 - 1)["values"] == [1.5]
    assert trace.attributes(5)["inputs.shapes"] == "[[8, 4], [4, 2]]"


def test_start_times_are_read_where_the_file_has_them(tmp_path: Path):
    meta = v1.GlobalMetadata(version=b"1.0.0")
    attribute(meta, "time_kind", string_val=b"simulated")
    first = v1.Node(id=1, name=b"a", type=4, start_time_micros=3, duration_micros=1)
    second = v1.Node(id=2, name=b"b", type=4, start_time_micros=4, duration_micros=1)
    attribute(second, "start_ns", int64_val=4_001)
    trace = read(tmp_path, frame(meta.SerializeToString(), first.SerializeToString(), second.SerializeToString()))
    assert trace.columns.start_ns.tolist() == [3_000, 4_001]
    assert trace.meta.time_kind == TimeKind.SIMULATED


@pytest.mark.parametrize(
    ("content", "schema", "kind", "dur"),
    [
        # 0.0.1: id 0, name, type 3 (compute then), run time 5
        (frame(bytes.fromhex("08001209434f4d505f4e4f444518033805")), "0.0.1", NodeKind.COMP, 5_000),
        # 0.0.3 after unsigned integers: attribute runtime in field 7
        (bytes.fromhex("1e082c1209434f4d505f4e4f444518045a0d0a0772756e74696d6510033805"), "0.0.3+uint64", NodeKind.COMP, 5_000),
        # 0.0.3 before: runtime in field 6, a text in field 7
        (frame(bytes.fromhex("082c1209434f4d505f4e4f444518045a0d0a0772756e74696d65100230055a080a017310033a0178")), "0.0.3", NodeKind.COMP, 5_000),
        # 0.0.2: no METADATA type yet, so compute is 3
        (frame(bytes.fromhex("082c1209434f4d505f4e4f444518035a0d0a0772756e74696d65100230055a080a017310033a0178")), "0.0.2", NodeKind.COMP, 5_000),
        # 0.0.4 without metadata
        (frame(v1.Node(id=1, name=b"COMP_NODE", type=4, duration_micros=5).SerializeToString()), "0.0.4", NodeKind.COMP, 5_000),
    ],
)  # fmt: skip
def test_the_schema_is_told_by_content(tmp_path: Path, content: bytes, schema: str, kind: int, dur: int):
    trace = read(tmp_path, content)
    assert trace.meta.schema == schema
    assert trace.columns.kind.tolist() == [kind]
    assert trace.columns.dur_ns.tolist() == [dur]


def test_old_collectives_are_renumbered(corpus: Path):
    folder = corpus / "chakra_et" / "legacy_0.0.3_unit"
    expected = {
        "allreduce": CommOp.ALL_REDUCE,
        "alltoall": CommOp.ALL_TO_ALL,
        "allgather": CommOp.ALL_GATHER,
        "reducescatter": CommOp.REDUCE_SCATTER,
    }
    for word, op in expected.items():
        (trace,) = READER.read(Source(folder / f"one_comm_coll_node_{word}.0.et"))
        assert trace.columns.comm_op.tolist() == [op]


def test_counts_of_every_corpus_file(corpus: Path):
    counts = {
        "pytorch_1.1.0_11347nodes.et": 11347,
        "derived_dlrm_v100_8rank/dlrm.0.et": 1131,
        "derived_stg_dp2_tp2_pp2/workload.0.et": 178,
        "derived_text_resnet50_dp4/Resnet50_DataParallel.3.et": 430,
        "derived_mlp_model_parallel_32npu/MLP_ModelParallel.31.et": 29,
        "custom_ring_allreduce_8npu/custom_allreduce.0.et": 35,
        "legacy_0.0.1_transformer_2stack/transformer_2stack.2.eg": 142,
        "legacy_0.0.1_two_nodes.eg": 2,
        "microbench/all_reduce/8npus_1MB/all_reduce.7.et": 1,
    }
    for name, count in counts.items():
        (trace,) = READER.read(Source(corpus / "chakra_et" / name))
        assert len(trace) == count, name
        assert trace.meta.events == count, name
    files = list((corpus / "chakra_et").rglob("*.e[tg]"))
    assert len(files) > 100
    for path in files:
        assert READER.sniff(path.read_bytes()[:65536], path.name) > 0.5, path


def test_known_oddities_are_found(corpus: Path):
    (trace,) = READER.read(Source(corpus / "chakra_et" / "derived_dlrm_v100_8rank" / "dlrm.0.et"))
    counts = {finding.code: finding.count for finding in trace.health}
    assert counts["unresolved-dependency"] == 788
    assert counts["self-dependency"] == 34
    (trace,) = READER.read(Source(corpus / "chakra_et" / "pytorch_1.1.0_11347nodes.et"))
    assert {finding.code: finding.count for finding in trace.health} == {"unresolved-dependency": 3}


def test_process_groups_from_the_file_beside(corpus: Path):
    (trace,) = READER.read(Source(corpus / "chakra_et" / "derived_stg_dp2_tp2_pp2" / "workload.0.et"))
    groups = {group.name: group.ranks for group in trace.meta.groups}
    assert groups["1"] == (0, 1)
    assert groups["5"] == (0, 2)


@pytest.mark.parametrize(
    ("printed", "binary"),
    [
        ("jsonizer_stg_rank0.json", "derived_stg_dp2_tp2_pp2/workload.0.et"),
        ("jsonizer_text_resnet50_dp.0.json", "derived_text_resnet50_dp4/Resnet50_DataParallel.0.et"),
    ],
)
def test_json_equals_the_binary_it_was_printed_from(corpus: Path, printed: str, binary: str):
    (first,) = JSON_READER.read(Source(corpus / "chakra_json" / printed))
    (second,) = READER.read(Source(corpus / "chakra_et" / binary))
    for name in (
        "id",
        "kind",
        "domain",
        "category",
        "dur_ns",
        "comm_op",
        "comm_bytes",
        "flops",
        "bytes_accessed",
        "comm_peer",
    ):
        assert np.array_equal(getattr(first.columns, name), getattr(second.columns, name)), name
    assert np.array_equal(first.edges.indptr, second.edges.indptr)
    assert np.array_equal(first.edges.sources, second.edges.sources)
    assert [first.name_of(row) for row in range(len(first))] == [second.name_of(row) for row in range(len(second))]


def test_feeder_json(corpus: Path):
    source = Source(corpus / "chakra_json" / "feeder_small_chakra.0.json")
    (trace,) = JSON_READER.read(source)
    assert len(trace) == 7
    assert trace.columns.dur_ns[trace.row_of(216)] == 318_000
    assert trace.columns.domain[trace.row_of(430)] == Domain.DEVICE
    assert trace.edges.of(trace.row_of(217))[0].tolist() == [trace.row_of(216)]


def test_json_list_and_damage(tmp_path: Path):
    nodes = [
        {"id": "1", "name": "a", "type": "COMP_NODE", "durationMicros": "2"},
        {"id": "2", "name": "b", "type": "COMP_NODE", "dataDeps": ["1"]},
    ]
    path = tmp_path / "n.json"
    path.write_text(json.dumps(nodes))
    (trace,) = JSON_READER.read(Source(path))
    assert trace.columns.dur_ns.tolist() == [2_000, 0]
    path.write_text("".join(json.dumps(node) for node in nodes)[:-20])
    (trace,) = JSON_READER.read(Source(path))
    assert len(trace) == 1
    (finding,) = [finding for finding in trace.health if finding.code == "truncated"]
    assert "character" in finding.message
    path.write_text('{"workload_graph": []}')
    with pytest.raises(CorruptTrace, match=r"n\.json"):
        JSON_READER.read(Source(path))


def test_every_cut_opens_or_is_a_clear_error(tmp_path: Path):
    whole = frame(*sample())
    for size in range(len(whole)):
        path = tmp_path / "cut.et"
        path.write_bytes(whole[:size])
        assert "cut.et" in attempt(path)
        if size > len(frame(*sample()[:2])):
            (trace,) = READER.read(Source(path))
            inside = size not in {len(frame(*sample()[:count])) for count in range(5)}
            assert ("truncated" in {finding.code for finding in trace.health}) == inside


@given(st.binary(max_size=200))
def test_random_bytes_never_hang_or_crash(tmp_path_factory: pytest.TempPathFactory, content: bytes):
    path = tmp_path_factory.getbasetemp() / "random.et"
    path.write_bytes(content)
    assert "random.et" in attempt(path)


def test_flipped_bytes_never_crash(tmp_path: Path):
    whole = bytearray(frame(*sample()))
    generator = random.Random(7)  # noqa: S311 - not for secrets
    for _ in range(400):
        damaged = bytearray(whole)
        damaged[generator.randrange(len(damaged))] = generator.randrange(256)
        path = tmp_path / "flip.et"
        path.write_bytes(damaged)
        assert "flip.et" in attempt(path)


def test_a_huge_claimed_length_allocates_nothing(tmp_path: Path):
    path = tmp_path / "claim.et"
    path.write_bytes(frame(*sample()) + varint(2**62))
    (trace,) = READER.read(Source(path))
    assert len(trace) == 3
    assert "truncated" in {finding.code for finding in trace.health}


def test_negative_and_absurd_values_are_kept_out_of_the_columns(tmp_path: Path):
    node = v1.Node(id=1, name=b"\xff\xfe", type=7, duration_micros=2**63)
    attribute(node, "comm_size", int64_val=-5)
    attribute(node, "comm_src", int32_val=-1)
    attribute(node, "num_ops", double_val=1e300)
    trace = read(tmp_path, frame(v1.GlobalMetadata(version=b"0.0.4").SerializeToString(), node.SerializeToString()))
    assert trace.columns.dur_ns[0] > 0
    assert trace.columns.flops[0] == -1
    assert trace.name_of(0) == "\ufffd\ufffd"


@pytest.mark.parametrize(
    ("shapes", "types", "expected"),
    [
        ("[[8, 4], [4]]", "['Tensor(float)', 'Tensor(float)']", "[8,4]x[4]:f32"),
        ("[[], []]", "['Int', 'Int']", ""),
        ("[[2048, 1, 768], [[], []]]", "['Tensor(c10::BFloat16)', 'GenericList[Int,Int]']", "[2048,1,768]:bf16"),
    ],
)
def test_signature(shapes: str, types: str, expected: str):
    assert signature(shapes, types) == expected
