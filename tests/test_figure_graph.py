"""The graph figure: elements and legend worked out by hand."""

from __future__ import annotations

import numpy as np

from chakra_core.graph_view import chain_view, group_view
from chakra_core.grouping import build_grouping
from chakra_core.schema import Category, EdgeKind
from chakra_core.trace import Run
from dashboard.figures.graph import elements, legend, stylesheet
from dashboard.pages._graph_view import count_line
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


def test_boxes_are_a_fifth_of_their_colour_on_the_background():
    box = elements(picture())[0]["data"]
    assert box["colour"] == "#3b6fd4"
    assert (box["fill_light"], box["fill_dark"]) == ("#d8e2f6", "#21304a")
    styles = [entry["style"]["background-color"] for entry in stylesheet("dark") if entry["selector"] == "node"]
    assert styles == ["data(fill_dark)"]


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


def test_words_fit_into_boxes_which_do_not_touch():
    trace = make_trace([node("n" * 80, 0, 5), node("m" * 80, 5, 5, category=Category.COPY)], [(0, 1)])
    made = elements(chain_view(trace, build_grouping(trace), np.array([0, 1])))
    boxes = [entry for entry in made if "position" in entry]
    width = next(entry["style"]["width"] for entry in stylesheet() if entry["selector"] == "node")
    longest = max(len(line) for box in boxes for line in box["data"]["label"].split("\n"))
    assert longest * 7.4 <= width - 8  # pixels of a bold letter of DejaVu Sans, the widest of the fonts
    assert boxes[1]["position"]["x"] - boxes[0]["position"]["x"] > width


def test_an_empty_graph_says_so():
    trace = make_trace([])
    (said,) = count_line(group_view(trace, build_grouping(trace)), Run((trace,), "none"), 0, "")
    assert said.children == "Rank 0 holds no nodes, so there is no graph to show."
