"""The Compare page in process: what it shows for all kinds of pairs, and what its callbacks decide."""

from __future__ import annotations

import json
from types import MappingProxyType

import numpy as np
import pytest
from plotly.utils import PlotlyJSONEncoder

from chakra_core.schema import Category, TimeKind
from chakra_core.trace import Run
from dashboard.library import Library, LoadedRun
from dashboard.page import Context
from dashboard.pages._compare_maps import clicked_cell, difference, heatmaps
from dashboard.pages._compare_view import letter, operator_rows
from dashboard.pages.bottlenecks import heatmap_of
from dashboard.pages.compare import PAGE, _choice, _comparison, _longest
from dashboard.state import ViewState
from tests.builder import make_trace, node


def device(dur, label, **more):
    nodes = [
        node("aten::mm", 0, 10, "cpu"),
        node("launch", 2, 1, "cpu", parent=0, category=Category.RUNTIME),
        node("gemm", 20, dur, parent=1),
        node("gemm", 20 + dur, dur + 5, parent=1),
        node(f"only in {label}", 200, 5),
    ]
    return LoadedRun(label, Run((make_trace(nodes, **more),), label))


def host(label):
    return LoadedRun(label, Run((make_trace([node("aten::mm", 0, 10, "cpu")]),), label))


def ranks(label, count):
    return LoadedRun(label, Run(tuple(make_trace([node("k", 0, 10)], rank=rank) for rank in range(count)), label))


def shown(runs, **params):
    state = ViewState("compare", tuple(run.ref for run in runs), params=MappingProxyType(params))
    layout = PAGE.layout(Context(Library({}), tuple(runs), state))
    return json.dumps(layout.to_plotly_json(), cls=PlotlyJSONEncoder, ensure_ascii=False)


@pytest.mark.parametrize(
    "runs",
    [
        (device(50, "a"), device(60, "b")),
        (host("a"), host("b")),
        (host("a"), device(60, "b")),
        (ranks("a", 40), ranks("b", 2)),
        (device(5, "a"), device(6, "b"), device(7, "c")),
        (LoadedRun("a", Run((make_trace([]),), "a")), device(60, "b")),
    ],
    ids=["devices", "hosts", "mixed", "ranks", "three", "empty"],
)
@pytest.mark.parametrize("params", [{}, {"base": "1", "with": "0", "bars": "share"}, {"base": "x", "with": "99"}])
def test_every_pair_is_shown(runs, params):
    text = shown(runs, **params)
    for loaded in runs:
        assert loaded.run.label in text
    assert "baseline" in text


def test_simulated_beside_measured_is_said():
    text = shown([device(50, "real"), device(50, "model", time_kind=TimeKind.SIMULATED)])
    assert "ck-badge ck-simulated" in text
    assert "model is simulated" in text


def test_the_rows_of_the_table():
    first, second, third = operator_rows(_comparison([device(50, "a"), device(60, "b")], 0))
    assert (first["name"], first["calls0"], first["ns0"], first["ns1"]) == ("aten::mm", 1, 105, 125)
    assert (first["delta1"], first["ratio1"]) == (20, 125 / 105)
    assert {second["how"], third["how"]} == {"only in A", "only in B"}
    assert "delta1" not in second
    assert second["ns0"] is None or second["ns1"] is None


def test_the_clicked_column_decides_the_run():
    result = _comparison([device(50, "a"), device(60, "b")], 0)
    assert _longest(result, {"rowId": "0", "colId": "ns0"}, 1) == {"run": 0, "rank": 0, "row": 0}
    assert _longest(result, {"rowId": "0", "colId": "name"}, 1) == {"run": 1, "rank": 0, "row": 0}
    only_in_a = next(row for row in operator_rows(result) if row["how"] == "only in A")
    assert _longest(result, {"rowId": only_in_a["id"], "colId": "ns1"}, 1) == {"run": 0, "rank": 0, "row": 4}
    for nonsense in ({}, {"rowId": "77", "colId": "ns0"}, {"rowId": "x"}, {"rowId": "0", "colId": "ns99999"}):
        found = _longest(result, nonsense, 1)
        assert found is None or found["run"] in (0, 1)


@pytest.mark.parametrize(
    ("params", "count", "expected"),
    [
        (None, 2, (0, 1)),
        ({"base": "1"}, 2, (1, 0)),
        ({"base": "1", "with": "1"}, 3, (1, 0)),
        ({"base": "2", "with": "1"}, 3, (2, 1)),
        ({"base": "9", "with": "-1"}, 3, (0, 1)),
        ({"base": "\N{SUPERSCRIPT TWO}", "with": "1" * 5000}, 3, (0, 1)),
    ],
)
def test_the_choice_of_runs(params, count, expected):
    assert _choice(params, count) == expected


def test_both_heatmaps_have_one_scale_and_one_length():
    runs = [device(50, "a"), device(500, "b")]
    above, below = heatmaps(runs, (0, 1), "score", "light")
    assert above.data[0].zmax == below.data[0].zmax == max(above.data[0].z.max(), below.data[0].z.max())
    assert above.layout.xaxis.range[1] == below.layout.xaxis.range[1] * 1000  # ns above, µs below: the same length


@pytest.mark.parametrize(("column", "row"), [(0, None), (20, 2), (70, 3), (119, 4)])
def test_a_clicked_cell_gives_its_window_and_what_ran_most(column, row):
    """0 to 205 ns: kernels from 20 to 80 and from 80 to 145, and one from 200 to the end."""
    loaded = device(60, "a")
    middle = heatmaps([loaded, loaded], (0, 1), "score", "light")[0].data[0].x[column]
    window, selection = clicked_cell(loaded, 1, {"points": [{"x": middle, "y": 0}]})
    assert window[0] <= middle <= window[1]
    assert window[1] - window[0] <= 2
    assert selection == (None if row is None else {"run": 1, "rank": 0, "row": row})


def test_letters():
    assert [letter(at) for at in (0, 25, 26)] == ["A", "Z", "#27"]


def test_the_difference_of_two_heatmaps():
    runs = [device(50, "a"), device(500, "b")]
    figure = difference(runs, (0, 1), "idle", "light")
    first, second = (heatmap_of(loaded, "ranks", 120).metric("idle") for loaded in runs)
    assert np.allclose(figure.data[0].z, second - first)
    assert figure.data[0].zmin == -figure.data[0].zmax
    same = difference([runs[0], runs[0]], (0, 1), "idle", "dark")
    assert not np.asarray(same.data[0].z).any()
    alone = LoadedRun("c", Run((make_trace([node("k", 0, 5)], rank=7),), "c"))
    assert "no rank in common" in difference([runs[0], alone], (0, 1), "idle", "light").layout.annotations[0].text
