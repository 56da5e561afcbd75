"""The graph figure: elements and legend worked out by hand."""

from __future__ import annotations

from chakra_core.graph_view import group_view
from chakra_core.grouping import build_grouping
from chakra_core.schema import Category, EdgeKind
from dashboard.figures.graph import elements, legend, stylesheet
from tests.builder import make_trace, node


def picture():
    trace = make_trace(
        [
            node("a/x", 0, 2_000_000),
            node("b/y", 2_000_000, 1_000, category=Category.COMMUNICATION),
            node("b/z", 2_001_000, 0),
        ],
        [(0, 1), (0, 2, EdgeKind.SYNC)],
    )
    return group_view(trace, build_grouping(trace), slack_ns=trace.columns.dur_ns)


def test_boxes_and_arrows():
    made = elements(picture(), selected=0)
    boxes = {entry["data"]["id"]: entry for entry in made if "position" in entry}
    arrows = [entry for entry in made if "source" in entry["data"]]
    labels = sorted(entry["data"]["label"] for entry in boxes.values())
    assert labels == ["+ b\n2 nodes · 1.000 µs", "a/x\n2.000 ms"]
    assert [entry["data"]["label"] for entry in arrows] == ["2"]
    chosen = [entry["data"]["row"] for entry in boxes.values() if "chosen" in entry["classes"]]
    assert chosen == [0]
    assert all(entry["data"]["source"] in boxes and entry["data"]["target"] in boxes for entry in arrows)


def test_colours_say_what_the_legend_says():
    view = picture()
    by_kind = {entry["data"]["colour"] for entry in elements(view) if "position" in entry}
    assert by_kind == {colour for _, colour in legend(view)[0]}
    by_time = [entry["data"]["colour"] for entry in elements(view, colour="duration") if "position" in entry]
    assert legend(view, "duration")[0][0][1] in by_time
    assert len({entry["data"]["colour"] for entry in elements(view, colour="slack") if "position" in entry}) == 2


def test_long_names_and_ranges_fit_their_boxes():
    trace = make_trace([node(f"{'very_' * 20}{at % 9}q{at % 7}", at, 1, "gpu:0") for at in range(300)])
    grouping = build_grouping(trace)
    view = group_view(trace, grouping, grouping.default_expanded(trace.columns.dur_ns))
    for entry in elements(view):
        if "position" in entry:
            lines = entry["data"]["label"].split("\n")
            assert entry["data"]["height"] == 14 + 14 * len(lines) < 62
            assert all(len(line) <= 30 for line in lines)


def test_every_edge_kind_has_a_style_in_both_themes():
    for theme in ("light", "dark"):
        selectors = {entry["selector"] for entry in stylesheet(theme)}
        assert {f".edge-{kind.name.lower()}" for kind in EdgeKind} <= selectors
