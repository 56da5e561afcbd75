"""Level of detail: every wide event is there, the rest is counted exactly, rows never overlap, nothing is dropped."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chakra_core.errors import AnalysisError
from chakra_core.lod import build, busy, find, query
from chakra_core.schema import NO_TIME, Category
from tests.builder import make_trace, node


def events(layout, row):
    return range(int(layout.row_ptr[row]), int(layout.row_ptr[row + 1]))


def rows_by_name(trace):
    layout = build(trace)
    found = {}
    for row in range(layout.rows):
        for at in events(layout, row):
            found[trace.name_of(int(layout.node[at]))] = row
    return found


def test_nested_calls_become_flame_rows():
    trace = make_trace(
        [node("outer", 0, 100, "t"), node("a", 10, 30, "t"), node("deep", 15, 5, "t"), node("b", 50, 50, "t")]
    )
    assert rows_by_name(trace) == {"outer": 0, "a": 1, "deep": 2, "b": 1}


def test_partial_overlaps_get_rows_of_their_own_and_children_stay_below():
    trace = make_trace([node("a", 0, 10), node("b", 5, 15), node("inside b", 12, 3), node("after", 20, 1)])
    assert rows_by_name(trace) == {"a": 0, "b": 1, "inside b": 2, "after": 0}


def test_same_start_puts_the_longer_one_on_top_and_duplicates_below():
    trace = make_trace([node("short", 0, 5), node("long", 0, 9), node("twin", 0, 9), node("instant", 0, 0)])
    assert rows_by_name(trace) == {"long": 0, "twin": 1, "short": 2, "instant": 3}


def test_lanes_are_listed_host_first_and_untimed_nodes_left_out():
    trace = make_trace([node("k", 5, 1), node("op", 0, 9, "thread"), node("untimed", NO_TIME, 3, "thread")])
    layout = build(trace)
    assert [(lane.lane, lane.first, lane.rows, lane.events) for lane in layout.lanes] == [(1, 0, 1, 1), (0, 1, 1, 1)]
    assert layout.place(trace, 2) is None
    assert layout.place(trace, 0) == (1, 1)


def test_a_node_on_no_lane_is_shown():
    trace = make_trace([node("k", 5, 1), node("op", 0, 9)])
    adrift = trace.with_(columns=trace.columns.with_(lane=np.array([0, -1])))
    layout = build(adrift)
    assert [(lane.lane, lane.events) for lane in layout.lanes] == [(0, 1), (-1, 1)]
    assert layout.place(adrift, 1) == (1, 1)


def test_event_at_and_neighbours():
    layout = build(make_trace([node("a", 0, 10), node("b", 20, 10), node("c", 40, 0)]))
    assert [layout.event_at(0, time) for time in (0, 9, 10, 25, 40, 41)] == [0, 0, -1, 1, 2, -1]
    assert [layout.neighbour(0, at, 1) for at in (0, 1, 2)] == [1, 2, -1]
    assert [layout.neighbour(0, at, -1) for at in (0, 1, 2)] == [-1, 0, 1]


def test_find_ignores_case_and_counts_all():
    trace = make_trace([node("Gemm", 30, 1), node("add", 10, 1), node("my_gemm", 20, 1)])
    layout = build(trace)
    hits = find(layout, trace, "gEmm")
    assert (hits.nodes.tolist(), hits.total) == ([2, 0], 2)
    assert find(layout, trace, "gemm", limit=1).nodes.tolist() == [2]
    assert find(layout, trace, "absent").total == 0


def test_short_events_are_summed_per_pixel():
    """10 ns pixels: 3 events in the first, then a wide one, then one alone."""
    trace = make_trace(
        [
            node("x", 0, 2), node("y", 3, 5, category=Category.COPY), node("z", 8, 1), node("wide", 10, 20),
            node("alone", 35, 1),
        ]
    )  # fmt: skip
    rects = query([build(trace)], [np.array([0])], 0, 100, 10)
    assert rects.start.tolist() == [0, 10, 35]
    assert rects.end.tolist() == [9, 30, 36]
    assert rects.count.tolist() == [3, 1, 1]
    assert [trace.name_of(row) for row in rects.node.tolist()] == ["y", "wide", "alone"]
    assert rects.category.tolist() == [Category.COPY, Category.GEMM, Category.GEMM]
    assert rects.busy.tolist() == [8, 20, 1]
    assert (rects.exact_ns, rects.bin_ns, rects.events) == (10, 10, 5)


def test_overview_counts_covered_time():
    trace = make_trace([node("a", 5, 10), node("b", 20, 5, category=Category.COPY), node("t", 0, 30, "thread")])
    group = [-1] * 16
    group[Category.GEMM], group[Category.COPY] = 0, 1
    assert busy(build(trace), [0, 1], 0, 30, 3, group).tolist() == [[5, 0], [5, 0], [0, 5]]


def test_requests_that_make_no_sense_are_refused():
    layout = build(make_trace([node("a", 0, 1)]))
    with pytest.raises(AnalysisError, match="window"):
        query([layout], [np.array([0])], 5, 5, 100)
    with pytest.raises(AnalysisError, match="rows"):
        query([layout], [np.zeros(50, np.int64)], 0, 5, 100, cap=10)


def test_a_lane_of_thousands_of_overlapping_events_ends_in_one_crowded_row():
    trace = make_trace([node("o", at, 10_000) for at in range(1500)])
    layout = build(trace)
    assert layout.rows == 512
    assert len(layout.node) == 1500
    rects = query([layout], [np.arange(512)], 0, 20_000, 1000, cap=600)
    assert len(rects) <= 600
    assert int(rects.count.sum()) == 1500


def test_empty_trace_has_no_rows():
    layout = build(make_trace([node("u", NO_TIME, 1)]))
    assert layout.rows == 0
    assert len(query([layout], [np.zeros(0, np.int64)], 0, 10, 10)) == 0


spans = st.tuples(st.integers(0, 400), st.integers(0, 60), st.sampled_from(["gpu:0", "gpu:1", "t"]), st.integers(0, 14))


@st.composite
def scenes(draw):
    made = draw(st.lists(spans, min_size=1, max_size=150))
    t0 = draw(st.integers(-10, 400))
    return (
        make_trace([node(f"n{at}", s, d, lane, category=c) for at, (s, d, lane, c) in enumerate(made)]),
        t0, t0 + draw(st.integers(1, 500)), draw(st.integers(1, 60)), draw(st.integers(20, 400)),
    )  # fmt: skip


def touches(layout, at, t0, t1):
    start, end = int(layout.start[at]), int(layout.start[at] + layout.dur[at])
    return start < t1 and (end > t0 or start >= t0)


@settings(max_examples=300, deadline=None)
@given(scenes())
def test_query_against_brute_force(scene):
    trace, t0, t1, width, cap = scene
    layout = build(trace)
    rows = np.arange(layout.rows)
    cap = max(cap, layout.rows)
    rects = query([layout], [rows], t0, t1, width, cap=cap)
    assert len(rects) <= cap
    inside = [[at for at in events(layout, row) if touches(layout, at, t0, t1)] for row in rows]
    assert rects.events == sum(map(len, inside)) == int(rects.count.sum())
    node_of = dict(enumerate(layout.node.tolist()))
    drawn = {
        (r, n) for r, n, c in zip(rects.row.tolist(), rects.node.tolist(), rects.count.tolist(), strict=True) if c == 1
    }
    for row in rows.tolist():
        wide = {node_of[at] for at in inside[row] if layout.dur[at] >= rects.exact_ns}
        assert {(row, n) for n in wide} <= drawn
    pixel = max(-((t0 - t1) // width), 1)
    if coarsest(layout, inside, pixel) <= cap:
        assert rects.exact_ns == pixel  # so every event of a pixel or more is a rectangle of its own
    check_strips(layout, rects, inside)


def coarsest(layout, inside, pixel):
    """Fewest rectangles with every event of a pixel or more exact: those, and one for all short ones between two."""
    total = 0
    for mine in inside:
        wide = [bool(layout.dur[at] >= pixel) for at in mine]
        total += sum(wide) + sum(not this and (at == 0 or wide[at - 1]) for at, this in enumerate(wide))
    return total


def check_strips(layout, rects, inside):
    """Each rectangle sums up exactly the events that start in it: longest, time, category; together all of them."""
    seen = Counter()
    for at in range(len(rects)):
        row, first, end = int(rects.row[at]), int(rects.start[at]), int(rects.end[at])
        mine = [e for e in inside[row] if first <= layout.start[e] and layout.start[e] + layout.dur[e] <= end]
        if rects.count[at] > 1:
            mine = [e for e in mine if layout.dur[e] < rects.exact_ns]
            mine = [e for e in mine if int(layout.start[e]) // rects.bin_ns == first // rects.bin_ns]
        else:
            mine = [e for e in mine if int(layout.node[e]) == int(rects.node[at])]
        assert len(mine) == rects.count[at]
        assert int(layout.dur[mine].max()) == int(layout.dur[layout.node.tolist().index(int(rects.node[at]))])
        assert int(layout.dur[mine].sum()) == int(rects.busy[at])
        sums = Counter()
        for e in mine:
            sums[int(layout.category[e])] += int(layout.dur[e])
        if sums.total():
            assert sums[int(rects.category[at])] == max(sums.values())
        seen.update(mine)
    assert all(times == 1 for times in seen.values())
    assert len(seen) == rects.events


@settings(max_examples=200, deadline=None)
@given(scenes())
def test_rows_never_overlap_and_hold_every_event(scene):
    trace = scene[0]
    layout = build(trace)
    assert sorted(layout.node.tolist()) == list(range(len(trace)))
    for row in range(layout.rows):
        ends = 0
        for at in events(layout, row):
            assert layout.start[at] >= ends
            ends = int(layout.start[at] + layout.dur[at])
            assert layout.place(trace, int(layout.node[at])) == (row, at)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 40_000))
def test_the_pyramid_agrees_with_numpy(seed, n):
    """Big enough for three levels: the longest of a range, and the next one at least this long."""
    from chakra_core import lod_kernels as k
    from chakra_core.lod import _levels

    rng = np.random.default_rng(seed)
    dur = rng.integers(0, 1000, n) ** 2
    bounds = _levels(n)
    peaks = k.peak_pyramid(dur, bounds)
    low = int(rng.integers(0, n))
    high = int(rng.integers(low + 1, n + 1))
    assert k.longest(dur, peaks, bounds, low, high) == low + int(np.argmax(dur[low:high]))
    least = int(rng.integers(0, 1_000_000))
    wide = np.flatnonzero(dur[low:high] >= least)
    assert k.next_wide(dur, peaks, bounds, low, high, least) == (low + int(wide[0]) if len(wide) else high)
