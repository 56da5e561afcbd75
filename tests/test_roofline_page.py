"""The roofline plot: points, merged points, ceilings; and what the page says where something is not known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from plotly.io.json import to_json_plotly

from chakra_core.analysis.roofline import roofline
from chakra_core.writers import chakra_et
from dashboard.figures.roofline import ceilings, points_of, roofline_figure
from dashboard.later import parts
from dashboard.library import Library
from dashboard.page import Context
from dashboard.pages.roofline import PAGE
from dashboard.state import ViewState
from tests.builder import make_trace, node
from tests.runs import host_only
from tests.test_roofline import DEVICE, calls


def stated(kernels=4):
    """Device nodes that state their work: kernel ``i`` does ``1000 (i + 1)`` operations on 500 bytes in 10 ns."""
    return make_trace(
        [node(f"fusion.{at}", 20 * at, 10, flops=1000 * (at + 1), bytes_accessed=500) for at in range(kernels)]
    )


def test_points_by_hand():
    points = points_of(roofline(calls(), device=DEVICE))
    assert len(points) == 1  # the copy computes nothing
    assert (points.flat, points.flat_ns, points.merged) == (1, 20, 0)
    assert points.intensity.tolist() == pytest.approx([80_000 / 7600])
    assert points.rate.tolist() == pytest.approx([160_000 / 70e-9])


def test_groups_beyond_the_most_are_merged_by_kind():
    points = points_of(roofline(stated(), device=DEVICE), most=2)
    assert points.group.tolist() == [0, 1, -1]
    assert points.merged == 2
    assert points.time_ns.tolist() == [10, 10, 20]
    assert points.intensity[2] == pytest.approx((3000 + 4000) / 1000)
    assert points.rate[2] == pytest.approx(7000 / 20e-9)


def test_ceilings_are_those_that_the_groups_are_held_against():
    assert ceilings(roofline(calls(), device=DEVICE)) == {"bf16": 1e12, "fp32": 1e11}  # the copy's ceiling is fp32
    assert ceilings(roofline(calls())) == {}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_figure_has_a_slope_a_ceiling_each_and_points_that_name_their_call(theme):
    found = roofline(calls(), device=DEVICE)
    figure = roofline_figure(found, theme, codes={"aten::mm": 5})
    slope, *flat, points = figure.data
    assert slope.y[0] == pytest.approx(slope.x[0] * DEVICE.memory_bandwidth / 1e12)
    assert slope.y[1] == 1.0
    assert [(line.x[0], line.y[0]) for line in flat] == [(pytest.approx(1.0), 1.0), (pytest.approx(0.1), 0.1)]
    assert points.customdata[0][:2] == [3, 5]
    assert "\N{MULTIPLICATION SIGN}2" in points.customdata[0][2]
    assert figure.layout.xaxis.type == figure.layout.yaxis.type == "log"
    assert math.log10(points.x[0]) < figure.layout.xaxis.range[1]


def test_without_points_the_figure_says_so():
    figure = roofline_figure(roofline(make_trace([]), device=DEVICE))
    assert "no operator" in figure.layout.annotations[0].text


def page_of(tmp_path, trace, query=""):
    (tmp_path / "x").mkdir()
    chakra_et.write_et(trace, tmp_path / "x" / "t.et")
    library = Library({"x": tmp_path / "x"})
    state = ViewState.parse("/roofline", f"?run=x/t.et{query}")
    context = Context(library, (library.get("x/t.et"),), state)
    return str(to_json_plotly([PAGE.layout(context), *parts(PAGE, context)]))


def test_the_page_names_what_is_missing(tmp_path):
    text = page_of(tmp_path, stated())
    assert "No ceilings: the trace does not say which hardware" in text
    assert "merged" not in text
    assert "Time above the roofline" not in text


def test_a_chosen_device_gives_ceilings(tmp_path):
    text = page_of(tmp_path, stated(), "&device=H100 SXM")
    assert "Time above the roofline" in text
    assert "No ceilings" not in text


def test_the_page_says_why_there_is_nothing(tmp_path):
    assert "No FLOPs are known" in page_of(tmp_path, host_only())


def test_sizes_follow_time():
    trace = stated(2)
    dur = trace.columns.dur_ns.copy()
    dur[0] = 40
    figure = roofline_figure(roofline(trace.with_(columns=trace.columns.with_(dur_ns=dur)), device=DEVICE))
    sizes = np.asarray(figure.data[-1].marker.size)
    assert sizes.tolist() == [44.0, 22.0]  # four times the time is four times the area
