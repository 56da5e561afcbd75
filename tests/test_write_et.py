"""The .et writer, checked against the official message layout and by property."""

import gzip
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chakra_core.schema import NO_TIME, Category, CommOp, EdgeKind, NodeKind, TimeKind
from chakra_core.synth import TransformerConfig, transformer_trace
from chakra_core.trace import ProcessGroup
from chakra_core.writers.attributes import attribute
from chakra_core.writers.chakra_et import write_et
from tests.builder import make_trace, node
from tests.et_messages import attributes, messages, parse


def written(trace, path, **options):
    write_et(trace, path, **options)
    return parse(path.read_bytes())


def sample():
    nodes = [
        node("launch", 1_234_567, 1499, lane="thread 1", category=Category.RUNTIME, correlation=7),
        node("gemm", 1_240_000, 2500, flops=10, bytes_accessed=20, parent=0, correlation=7),
        node("reduce", 1_250_000, 0, comm_op=CommOp.ALL_REDUCE, comm_bytes=64, comm_group=0, comm_seq=3),
        node("send", NO_TIME, 5, comm_op=CommOp.SEND, kind=NodeKind.COMM_SEND, comm_bytes=8, comm_peer=2, comm_tag=9),
        node("recv", NO_TIME, 5, comm_op=CommOp.RECV, kind=NodeKind.COMM_RECV, comm_bytes=8, comm_peer=2),
    ]
    edges = [(0, 1, EdgeKind.LAUNCH), (1, 2), (1, 3, EdgeKind.CONTROL), (2, 3)]
    trace = make_trace(nodes, edges, rank=1, groups=[ProcessGroup("5", (0, 1), "tp", 2)])
    return trace.with_(attributes_of=lambda row: {"rf_id": row, "note": "n", "num_ops": 999} if row == 1 else {})


def test_fields_and_attribute_types(tmp_path):
    metadata, nodes = written(sample(), tmp_path / "a.et")
    assert metadata.version == "1.0.0"
    known = attributes(metadata)
    assert known["time_kind"] == ("string_val", "measured")
    assert known["rank"] == ("int64_val", 1)
    assert json.loads(known["process_groups"][1]) == [{"pg_name": "5", "pg_desc": "tp", "pg_size": 2, "ranks": [0, 1]}]
    assert json.loads(known["lanes"][1])[1] == ["gpu:7", 1, 1, "", 0, ""]
    launch, gemm, reduce, send, recv = nodes
    assert [entry.id for entry in nodes] == [100, 101, 102, 103, 104]
    assert (launch.start_time_micros, launch.duration_micros) == (1234, 1)
    assert (gemm.start_time_micros, gemm.duration_micros) == (1240, 3)
    assert send.start_time_micros == 0
    assert "start_ns" not in attributes(send)
    assert attributes(launch) == {
        "is_cpu_op": ("bool_val", True),
        "start_ns": ("int64_val", 1_234_567),
        "dur_ns": ("int64_val", 1499),
        "category": ("string_val", "runtime"),
        "lane": ("int64_val", 0),
        "correlation": ("int64_val", 7),
    }
    assert attributes(gemm) == {
        "is_cpu_op": ("bool_val", False),
        "start_ns": ("int64_val", 1_240_000),
        "dur_ns": ("int64_val", 2500),
        "category": ("string_val", "GEMM"),
        "lane": ("int64_val", 1),
        "num_ops": ("int64_val", 10),
        "tensor_size": ("uint64_val", 20),
        "correlation": ("int64_val", 7),
        "parent": ("int64_val", 100),
        "dep_kinds": ("int64_list", [int(EdgeKind.LAUNCH)]),
        "rf_id": ("int64_val", 1),
        "note": ("string_val", "n"),
    }
    communication = {name: value for name, value in attributes(reduce).items() if name.startswith(("comm", "pg"))}
    assert communication == {
        "comm_type": ("int64_val", 0),
        "comm_size": ("int64_val", 64),
        "comm_seq": ("int64_val", 3),
        "pg_name": ("string_val", "5"),
    }
    ends = [{name: attributes(entry)[f"comm_{name}"] for name in ("src", "dst", "tag")} for entry in (send, recv)]
    assert ends == [
        {"src": ("int32_val", 1), "dst": ("int32_val", 2), "tag": ("int32_val", 9)},
        {"src": ("int32_val", 2), "dst": ("int32_val", 1), "tag": ("int32_val", 0)},
    ]
    assert (list(send.data_deps), list(send.ctrl_deps)) == ([102], [101])
    assert (list(gemm.data_deps), list(gemm.ctrl_deps)) == ([100], [])


def test_compressed_file_holds_the_same(tmp_path):
    write_et(sample(), tmp_path / "plain.et")
    write_et(sample(), tmp_path / "small.et", compress=True)
    packed = (tmp_path / "small.et").read_bytes()
    assert gzip.decompress(packed) == (tmp_path / "plain.et").read_bytes()
    write_et(sample(), tmp_path / "again.et", compress=True)
    assert (tmp_path / "again.et").read_bytes() == packed


def test_nothing_is_left_behind_when_writing_fails(tmp_path):
    def fails(row):
        raise RuntimeError(row)

    with pytest.raises(RuntimeError):
        write_et(sample().with_(attributes_of=fails), tmp_path / "a.et")
    assert list(tmp_path.iterdir()) == []


def test_a_generated_rank_survives(tmp_path):
    trace = transformer_trace(TransformerConfig(layers=2), 5)
    metadata, nodes = written(trace, tmp_path / "t.et")
    assert attributes(metadata)["time_kind"] == ("string_val", str(TimeKind.SIMULATED))
    assert len(nodes) == len(trace)
    assert (
        sum(attributes(entry).get("num_ops", ("", 0))[1] for entry in nodes)
        == trace.columns.flops[trace.columns.flops > 0].sum()
    )
    assert sum(len(entry.data_deps) for entry in nodes) == len(trace.edges)


VALUES = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=("Cs",))),
    st.lists(st.booleans(), min_size=1),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1),
    st.lists(st.floats(allow_nan=False), min_size=1),
    st.lists(st.text(st.characters(exclude_categories=("Cs",))), min_size=1),
)


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=("Cs",))), VALUES)
def test_any_value_survives_as_an_attribute(name, value):
    message = messages()["AttributeProto"].FromString(bytes(attribute(name, value)))
    member = message.WhichOneof("value")
    found = getattr(message, member)
    assert message.name == name
    assert (list(found.values) if member.endswith("_list") else found) == value


@pytest.mark.parametrize(
    "value", [None, {}, {"a": [1, "b"]}, [1, "b"], [], [[1, 2], [3]], 2**70, [2**64 - 1, 2**64 - 2]]
)
def test_other_values_become_json(value):
    message = messages()["AttributeProto"].FromString(bytes(attribute("x", value)))
    assert json.loads(message.string_val) == value


def test_known_names_keep_their_type_only_for_values_that_fit():
    assert messages()["AttributeProto"].FromString(bytes(attribute("comm_tag", -5))).int32_val == -5
    wide = messages()["AttributeProto"].FromString(bytes(attribute("comm_tag", 2**40)))
    assert wide.int64_val == 2**40
    assert messages()["AttributeProto"].FromString(bytes(attribute("is_cpu_op", "yes"))).string_val == "yes"
