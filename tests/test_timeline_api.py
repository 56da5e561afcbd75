"""The timeline's routes: every answer against the trace it came from, every bad parameter refused with a reason."""

from __future__ import annotations

import pytest
from flask import Flask

from chakra_core.schema import Category, EdgeKind
from chakra_core.trace import Run
from dashboard.library import Library, LoadedRun
from dashboard.timeline_api import register_routes
from dashboard.timeline_data import describe
from tests.builder import make_trace, node


class OneRun(Library):
    """A library that holds one built run under every reference."""

    def __init__(self, run):
        super().__init__({})
        self.run = LoadedRun("built", run)

    def get(self, ref):
        """The built run, or the error of an empty library."""
        return self.run if ref == "built" else super().get(ref)


@pytest.fixture
def client():
    first = make_trace(
        [
            node("aten::mm", 1000, 100, "thread"), node("cudaLaunchKernel", 1020, 10, "thread", category=Category.RUNTIME),
            node("gemm", 1050, 40, parent=1), node("<b>gemm</b>", 1090, 20, category=Category.COPY),
        ],
        edges=[(1, 2, EdgeKind.LAUNCH), (2, 3, EdgeKind.STREAM)],
    )  # fmt: skip
    second = make_trace([node("gemm", 1010, 30)], rank=1)
    server = Flask("test")
    register_routes(server, OneRun(Run((first, second), "run")))
    return server.test_client()


def get(client, path, **query):
    return client.get(f"/api/timeline/{path}", query_string={"run": "built", **query})


def test_layout_numbers_rows_through_all_ranks(client):
    answer = get(client, "layout").json
    assert (answer["rows"], answer["span"], answer["time_kind"]) == (4, 110, "measured")
    lanes = [
        (rank["rank"], lane["name"], lane["row"], lane["rows"]) for rank in answer["ranks"] for lane in rank["lanes"]
    ]
    assert lanes == [(0, "thread", 0, 2), (0, "gpu:7", 2, 1), (1, "gpu:7", 3, 1)]
    assert answer["overview"]["of"] == "devices"
    assert max(map(max, answer["overview"]["series"].values())) == 1000


def test_window_gives_times_from_the_origin(client):
    answer = get(client, "window", t0=0, t1=110, width=110, rows="0-3").json
    names = [answer["names"][k] for k in answer["k"]]
    assert sorted(zip(answer["row"], answer["x"], answer["d"], names, strict=True)) == [
        (0, 0, 100, "aten::mm"), (1, 20, 10, "cudaLaunchKernel"), (2, 50, 40, "gemm"), (2, 90, 20, "<b>gemm</b>"),
        (3, 10, 30, "gemm"),
    ]  # fmt: skip
    assert (answer["events"], answer["exact"], set(answer["m"])) == (5, 1, {1})


def test_links_are_the_launch_and_both_ways(client):
    answer = get(client, "links", rank=0, row=2).json
    assert answer["node"] == {"rank": 0, "node": 2, "row": 2, "x": 50, "d": 40, "c": 1, "name": "gemm"}
    arrows = [(arrow["way"], arrow["kind"], arrow["node"], arrow["row"]) for arrow in answer["arrows"]]
    assert arrows == [("in", "launch", 1, 1), ("out", "stream", 3, 2)]


def test_step_walks_the_row(client):
    assert get(client, "step", rank=0, row=2, way="next").json["node"]["node"] == 3
    assert get(client, "step", rank=0, row=3, way="next").json["node"] is None
    assert get(client, "step", rank=0, row=3, way="previous").json["node"]["node"] == 2


def test_find_counts_all_ranks_and_starts_near_the_view(client):
    answer = get(client, "find", q="GEMM", near=60).json
    assert (answer["total"], answer["index"], answer["offset"]) == (3, 2, 0)
    assert [(hit["rank"], hit["node"]) for hit in answer["hits"]] == [(1, 0), (0, 2), (0, 3)]
    assert get(client, "find", q="gemm", offset=2).json["hits"][0]["node"] == 3
    assert get(client, "find", q="no such").json == {"total": 0, "index": 0, "offset": 0, "hits": []}


def test_area_clips_and_names_the_rank(client):
    answer = get(client, "area", t0=25, t1=60, rows="0-3").json
    rows = [(row["name"], row["count"], row["total"], row["rank"], row["node"]) for row in answer["rows"]]
    assert rows == [
        ("aten::mm", 1, 35, 0, 0),
        ("gemm", 1, 15, 1, 0),
        ("gemm", 1, 10, 0, 2),
        ("cudaLaunchKernel", 1, 5, 0, 1),
    ]
    assert answer["events"] == 4


@pytest.mark.parametrize(
    ("path", "query", "reason"),
    [
        ("window", {"t0": 5, "t1": 5, "width": 10, "rows": "0"}, "t1"),
        ("window", {"t0": "x", "t1": 5, "width": 10, "rows": "0"}, "t0"),
        ("window", {"t0": 0, "t1": 2**62, "width": 10, "rows": "0"}, "t1"),
        ("window", {"t0": 0, "t1": 5, "width": 0, "rows": "0"}, "width"),
        ("window", {"t0": 0, "t1": 5, "width": 10, "rows": "4"}, "rows"),
        ("window", {"t0": 0, "t1": 5, "width": 10, "rows": "3-1"}, "rows"),
        ("window", {"t0": 0, "t1": 5, "width": 10, "rows": "0;1"}, "rows"),
        ("window", {"t0": "\u0665", "t1": 5, "width": 10, "rows": "0"}, "t0"),
        ("links", {"rank": 7, "row": 0}, "rank 7"),
        ("links", {"rank": 0, "row": 99}, "99"),
        ("step", {"rank": 0, "row": 0, "way": "up"}, "way"),
        ("find", {"q": ""}, "q"),
        ("find", {"q": "x" * 300}, "q"),
        ("layout", {"run": "../etc"}, "etc"),
        ("layout", {"run": ""}, "run"),
    ],
)
def test_bad_parameters_are_refused_in_words(client, path, query, reason):
    answer = get(client, path, **query)
    assert answer.status_code == 400
    assert reason in answer.json["error"]


def test_a_window_without_rows_is_empty(client):
    assert get(client, "window", t0=0, t1=5, width=10, rows="").json["row"] == []


def test_spans_from_zero_to_the_clock_of_today_are_drawn():
    now = 1_750_000_000_000_000_000  # ns since 1970; the first event lost its clock
    server = Flask("test")
    register_routes(server, OneRun(Run((make_trace([node("lost", 0, 5), node("gemm", now, 10**9)]),), "run")))
    answer = get(server.test_client(), "window", t0=-(10**17), t1=2 * 10**18, width=1000, rows="0").json
    assert answer["x"] == [0, now]


def test_the_strip_shows_operators_under_annotations():
    nodes = [
        node("step", 0, 600, "cpu", category=Category.ANNOTATION),
        node("op", 0, 300, "cpu", category=Category.HOST_OP, parent=0),
        node("inner", 0, 100, "cpu", category=Category.HOST_OP, parent=1),
    ]
    loaded = LoadedRun("x", Run((make_trace(nodes),), "x"))
    host = describe(loaded)["overview"]["series"]["host"]
    assert host[:300] == [1000] * 300
    assert host[300:] == [0] * 300
