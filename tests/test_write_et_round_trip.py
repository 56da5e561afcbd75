"""What the .et writer writes, the .et reader reads back: columns, edges, groups, lanes, attributes."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chakra_core.opening import open_run, open_trace
from chakra_core.schema import COLUMNS, NO_TIME, Category, CommOp, Domain, EdgeKind, NodeKind, TimeKind
from chakra_core.synth import TransformerConfig, transformer_run
from chakra_core.trace import ProcessGroup
from chakra_core.writers.chakra_et import write_et
from tests.builder import make_trace, node

GROUPS = [ProcessGroup("1", (0, 1, 2, 3), "tensor parallel", 4), ProcessGroup("2", (0, 4), "", 2)]
COMPUTE = [Category.GEMM, Category.ELEMENTWISE, Category.OTHER, Category.COPY]


@st.composite
def nodes(draw, count):
    """Nodes of every kind, host and device, with and without times and sizes."""
    made = []
    for _ in range(count):
        kind = draw(st.sampled_from([NodeKind.COMP, NodeKind.MEM_LOAD, NodeKind.COMM_COLL, NodeKind.COMM_SEND]))
        host = kind == NodeKind.COMP and draw(st.booleans())
        entry = node(
            draw(st.text(st.characters(exclude_categories=("Cs",)), max_size=8)),
            draw(st.integers(0, 2**60)),
            draw(st.integers(0, 2**40)),
            lane=draw(st.sampled_from(["thread 1", "thread 2"] if host else ["gpu:7", "gpu:20"])),
            kind=kind,
            category=Category.RUNTIME if host else draw(st.sampled_from(COMPUTE)),
            correlation=draw(st.integers(-1, 10)),
        )
        if kind == NodeKind.COMM_COLL:
            op = draw(st.sampled_from([CommOp.ALL_REDUCE, CommOp.ALL_GATHER, CommOp.BARRIER, CommOp.UNKNOWN]))
            sizes = {"comm_bytes": draw(st.integers(-1, 2**50)), "comm_group": draw(st.integers(0, 1))}
            entry |= {"comm_op": op, "comm_seq": draw(st.integers(-1, 99)), **sizes}
        elif kind == NodeKind.COMM_SEND:
            entry |= {"comm_op": CommOp.SEND, "comm_peer": draw(st.integers(0, 9)), "comm_tag": draw(st.integers(0, 9))}
            entry |= {"comm_bytes": draw(st.integers(0, 2**50))}
        else:
            entry |= {"flops": draw(st.integers(-1, 2**62)), "bytes_accessed": draw(st.integers(-1, 2**62))}
        made.append(entry)
    return made


@st.composite
def traces(draw):
    count = draw(st.integers(1, 8))
    made = draw(nodes(count))
    kinds = st.sampled_from(list(EdgeKind))
    pairs = draw(st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1), kinds), max_size=12))
    edges = list({(a, b): (a, b, kind) for a, b, kind in pairs if a < b}.values())
    parents = {b: a for a, b, kind in edges if kind == EdgeKind.LAUNCH}
    for row, entry in enumerate(made):
        entry["parent"] = parents.get(row, -1)
    return make_trace(made, edges, rank=3, groups=GROUPS)


def there_and_back(trace):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.et")
        write_et(trace, path)
        (back,) = open_trace(path)
        details = [back.attributes(int(number)) for number in back.columns.id]
        return back, details


def edges_of(trace):
    return sorted(zip(trace.edges.sources, trace.edges.targets(), trace.edges.kinds, strict=True))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(traces())
def test_any_trace_comes_back(trace):
    back, _ = there_and_back(trace)
    for column in COLUMNS:
        if column.name not in ("name", "lane", "comm_group", "shape"):
            found, given = getattr(back.columns, column.name), getattr(trace.columns, column.name)
            assert np.array_equal(found, given), column.name
    for row in range(len(trace)):
        assert back.name_of(row) == trace.name_of(row)
        assert back.lanes[back.columns.lane[row]] == trace.lanes[trace.columns.lane[row]]
        group = trace.columns.comm_group[row]
        assert group < 0 or back.meta.groups[back.columns.comm_group[row]] == trace.meta.groups[group]
    assert edges_of(back) == edges_of(trace)
    assert (back.meta.rank, back.meta.time_kind) == (3, TimeKind.MEASURED)
    assert not [finding for finding in back.health if finding.code in {"unknown-schema", "truncated"}]


def test_a_node_without_times_stays_without():
    trace = make_trace([node("a", NO_TIME, 5), node("b", 2_000, 700)])
    back, _ = there_and_back(trace)
    assert back.columns.start_ns.tolist() == [NO_TIME, 2_000]
    assert back.columns.dur_ns.tolist() == [5, 700]


def test_other_attributes_come_back_with_their_types():
    said = {"rf_id": 7, "ratio": 0.5, "note": "<b>", "flag": True, "list": [1, 2], "texts": ["a", "b"]}
    trace = make_trace([node("a", 0, 1)]).with_(attributes_of=lambda _row: said)
    _, details = there_and_back(trace)
    assert {name: details[0][name] for name in said} == said


def test_a_simulated_run_opens_as_what_it_is(tmp_path):
    run = transformer_run(TransformerConfig(layers=1, batches=(2, 1), tp=2))
    for trace in run.traces:
        write_et(trace, tmp_path / f"t.{trace.meta.rank}.et", compress=True, assumptions=("at peak",))
    back = open_run([tmp_path])
    assert back.ranks == (0, 1, 2, 3)
    assert {group.ranks for group in back.groups} == {group.ranks for group in run.groups}
    assert "at peak" in back.assumptions
    assert all((trace.columns.domain == Domain.DEVICE).all() for trace in back.traces)


@pytest.mark.parametrize("name", ["pytorch_1.1.0_11347nodes.et", "derived_stg_dp2_tp2_pp2/workload.3.et"])
def test_corpus_files_survive_reading_writing_reading(corpus, tmp_path, name):
    (first,) = open_trace(corpus / "chakra_et" / name)
    write_et(first, tmp_path / Path(name).name)
    (second,) = open_trace(tmp_path / Path(name).name)
    for column in COLUMNS:
        if column.name not in ("name", "comm_group", "shape"):
            assert np.array_equal(getattr(first.columns, column.name), getattr(second.columns, column.name)), (
                column.name
            )
    assert edges_of(first) == edges_of(second)
    for row in range(0, len(first), 97):
        before, after = first.attributes_of(row), second.attributes_of(row)
        assert {key: after.get(key) for key in before} == before
