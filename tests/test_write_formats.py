"""Every format: what is written can be read by others, and says what the trace says."""

import csv
import gzip
import json

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from chakra_core.errors import ChakraError
from chakra_core.opening import open_run, open_trace
from chakra_core.schema import COLUMNS, NO_TIME, Category, CommOp, EdgeKind
from chakra_core.trace import ProcessGroup, Run
from chakra_core.writers import list_writers
from chakra_core.writers.convert import convert, part_of, rows_in
from tests.builder import make_trace, node

NAMES = ['=HYPERLINK("x")', 'a<b>&"\\', "zero\x00line\n", "µ"]


def sample(rank=0):
    nodes = [
        node(NAMES[0], 1_000_000_001, 10_007, lane="thread 1", category=Category.RUNTIME, correlation=5),
        node(NAMES[1], 1_000_002_003, 3_001, parent=0, correlation=5, flops=7),
        node(NAMES[2], 1_000_006_000, 999, comm_op=CommOp.ALL_REDUCE, comm_bytes=64, comm_group=0),
        node(NAMES[3], NO_TIME, 5),
    ]
    edges = [(0, 1, EdgeKind.LAUNCH), (1, 2, EdgeKind.STREAM), (2, 3), (0, 3, EdgeKind.CONTROL)]
    return make_trace(nodes, edges, rank=rank, groups=[ProcessGroup("0", (0, 1), "all", 2)])


def write(tmp_path, to, *, ranks=1, **options):
    run = Run(tuple(sample(rank) for rank in range(ranks)), "run")
    return convert(run, tmp_path / "out", to=to, **options).files


def edges_of(trace):
    ids = trace.columns.id
    return sorted(
        zip(
            ids[trace.edges.sources].tolist(),
            ids[trace.edges.targets()].tolist(),
            trace.edges.kinds.tolist(),
            strict=True,
        )
    )


@pytest.mark.parametrize("writer", list_writers(), ids=lambda writer: writer.name)
@pytest.mark.parametrize("compress", [False, True], ids=["plain", "gzip"])
def test_every_format_writes_every_rank_atomically(tmp_path, writer, compress):
    if writer.name == "parquet":
        pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    files = write(tmp_path, writer.name, ranks=2, compress=compress)
    assert len(files) == (2 if writer.per_rank else 1)
    assert all(path.stat().st_size > 50 for path in files)
    assert not list(tmp_path.glob(".*"))
    if compress and writer.name != "parquet":
        assert gzip.decompress(files[0].read_bytes())


@pytest.mark.parametrize("to", ["et", "json"])
def test_chakra_formats_come_back_whole(tmp_path, to):
    (path,) = write(tmp_path, to, purpose="archive")
    (back,) = open_trace(path)
    given = sample()
    for column in COLUMNS:
        if column.name not in ("name", "lane", "shape"):
            assert np.array_equal(getattr(back.columns, column.name), getattr(given.columns, column.name)), column.name
    assert [back.name_of(row) for row in range(4)] == NAMES
    assert edges_of(back) == edges_of(given)
    assert back.lanes == given.lanes
    assert back.meta.groups == given.meta.groups


def test_json_is_one_valid_document_with_the_jsonizer_s_names(tmp_path):
    metadata, first, second, *_ = json.loads(write(tmp_path, "json", purpose="archive")[0].read_text())
    assert metadata["version"] == "1.0.0"
    assert first["type"] == "COMP_NODE"
    assert (second["id"], second["durationMicros"], second["dataDeps"]) == ("101", "3", ["100"])
    assert {"name": "dur_ns", "int64Val": "3001"} in second["attr"]
    assert {"name": "is_cpu_op", "boolVal": False} in second["attr"]


def test_chrome_trace_comes_back_with_its_times_launches_and_lanes(tmp_path):
    (path,) = write(tmp_path, "chrome")
    document = json.loads(path.read_bytes())
    flows = [event for event in document["traceEvents"] if event["ph"] in "sf"]
    assert [event["ph"] for event in flows] == ["s", "f"]
    (back,) = open_trace(path)
    times = {
        back.name_of(row): (int(back.columns.start_ns[row]), int(back.columns.dur_ns[row])) for row in range(len(back))
    }
    given = sample().columns
    assert {NAMES[row]: (int(given.start_ns[row]), int(given.dur_ns[row])) for row in range(3)}.items() <= times.items()
    assert (back.edges.kinds == EdgeKind.LAUNCH).sum() == 1
    assert back.columns.comm_op[back.columns.comm_op >= 0].tolist() == [CommOp.ALL_REDUCE]


def test_kineto_survives_as_a_chrome_trace(corpus, tmp_path):
    run = open_run([corpus / "kineto/compare_tiny/hta_base.json.gz"])
    (back,) = open_trace(convert(run, tmp_path / "x", to="chrome").files[0])
    before, after = (
        sorted(zip(t.columns.start_ns.tolist(), t.columns.dur_ns.tolist(), strict=True)) for t in (run.traces[0], back)
    )
    assert before == after


def test_graphml_is_a_graph_that_networkx_reads(tmp_path):
    graph = nx.read_graphml(write(tmp_path, "graphml", ranks=2)[0])
    assert (len(graph), graph.number_of_edges()) == (8, 8)
    assert graph.nodes["0.101"]["label"] == NAMES[1]
    assert graph.nodes["0.101"]["dur_ns"] == 3001
    assert "start_ns" not in graph.nodes["0.103"]
    assert graph.edges["0.100", "0.101"]["dependency"] == "launch"


def test_dot_quotes_what_could_end_a_label(tmp_path):
    text = write(tmp_path, "dot")[0].read_text()
    assert '"101" [label="a<b>&\\"\\\\\\n3.001 µs"];' in text
    assert '"100" -> "101" [style=bold,class="launch"];' in text
    assert "\x00" not in text


def test_csv_cannot_be_a_formula(tmp_path):
    with write(tmp_path, "csv")[0].open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["name"] == "'" + NAMES[0]
    assert [row["name"] for row in rows[1:]] == NAMES[1:]
    assert (rows[1]["start_ns"], rows[3]["start_ns"], rows[1]["parent"], rows[1]["flops"]) == (
        "1000002003",
        "",
        "100",
        "7",
    )
    assert (rows[3]["data_deps"], rows[3]["ctrl_deps"]) == ("102", "100")


def test_parquet_has_the_types_of_the_columns(tmp_path):
    pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    frame = pd.read_parquet(write(tmp_path, "parquet", ranks=2)[0])
    assert len(frame) == 8
    assert frame["start_ns"].tolist()[:3] == [1_000_000_001, 1_000_002_003, 1_000_006_000]
    assert pd.isna(frame["start_ns"][3])
    assert frame["name"][0] == NAMES[0]
    assert frame["rank"].tolist() == [0] * 4 + [1] * 4


def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(ChakraError, match=r"chakra-dashboard\[parquet\]"):
        write(tmp_path, "parquet")


def test_an_unknown_format_names_those_there_are(tmp_path):
    with pytest.raises(ChakraError, match="known are et, json, chrome"):
        write(tmp_path, "pdf")


def test_part_of_a_run_keeps_callers_and_counts_what_it_cuts():
    nodes = [
        node("step", 0, 100, lane="thread 1"),
        node("early", 0, 10, lane="thread 1", parent=0),
        node("late", 50, 10, lane="thread 1", parent=0),
        node("kernel", 55, 10, parent=2),
    ]
    trace = make_trace(nodes, [(1, 2), (2, 3, EdgeKind.LAUNCH)])
    rows = rows_in(trace, (50, 70))
    assert rows.tolist() == [0, 2, 3]
    part, changes = part_of(Run((trace,), "r"), [rows])
    (kept,) = part.traces
    assert kept.columns.parent.tolist() == [-1, 0, 1]
    assert edges_of(kept) == [(102, 103, EdgeKind.LAUNCH)]
    assert {change.code: change.count for change in changes} == {"outside": 1, "cut": 1}
