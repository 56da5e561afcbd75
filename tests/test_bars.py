"""The bar charts: what they draw, in which unit, and that names from traces stay plain text."""

from __future__ import annotations

import pytest

from dashboard.figures.bars import Bar, breakdown_bars, empty_figure, grouped_bars, row_height, show_ns, waterfall

PARTS = {"compute": 6_000_000, "exposed_comm": 2_000_000, "exposed_memory": 0, "idle": 2_000_000}


def test_breakdown_bars_in_milliseconds_and_shares():
    bars = [Bar("rank 0", PARTS), Bar("rank 1", {**PARTS, "idle": 12_000_000})]
    figure = breakdown_bars(bars)
    assert [list(trace.x) for trace in figure.data] == [[6, 6], [2, 2], [0, 0], [2, 12]]
    assert figure.layout.xaxis.title.text == "time (ms)"
    shares = breakdown_bars(bars, "dark", share=True)
    assert [trace.x[0] for trace in shares.data] == [60, 20, 0, 20]
    assert list(shares.layout.yaxis.range) == [1.5, -0.5]


@pytest.mark.parametrize("rows", [0, 1, 64, 1000])
def test_any_number_of_rows_is_readable(rows):
    figure = breakdown_bars([Bar(f"rank {at}", PARTS) for at in range(rows)])
    ticks = figure.layout.yaxis.ticktext or ()
    assert len(ticks) <= 96
    assert figure.layout.height == row_height(rows)
    if 0 < rows <= 96:
        assert len(ticks) == rows


def test_the_waterfall_ends_at_the_other_total():
    figure = waterfall(10_000_000, {**PARTS, "compute": -4_000_000}, names=("a", "b"))
    (steps,) = figure.data
    assert list(steps.y) == [10, -4, 2, 0, 2, 10]
    assert steps.text[1] == "\N{MINUS SIGN}4.000 ms"
    assert list(steps.measure) == ["absolute", *["relative"] * 4, "total"]


def test_names_are_text_and_repeated_names_stay_apart():
    evil = "<a href='x'>%{x}</a>"
    figure = breakdown_bars([Bar(evil, PARTS), Bar(evil, PARTS)])
    assert all("<" not in tick for tick in figure.layout.yaxis.ticktext)
    assert "(2)" in figure.layout.yaxis.ticktext[1]
    grouped = grouped_bars(["GEMM"], {evil: [5]}, "dark")
    assert "<a" not in grouped.data[0].hovertemplate
    assert "%{x}" not in grouped.data[0].hovertemplate
    assert grouped.layout.xaxis.title.text == "time (ns)"


@pytest.mark.parametrize(
    ("ns", "text"), [(999, "999 ns"), (1_000, "1.000 µs"), (123_456_789, "123.5 ms"), (1_234_000_000_000, "1,234 s")]
)
def test_times_with_units(ns, text):
    assert show_ns(ns) == text


def test_an_empty_chart_says_why():
    figure = empty_figure("nothing <b>here</b>")
    assert figure.layout.annotations[0].text == "nothing &lt;b&gt;here&lt;/b&gt;"
