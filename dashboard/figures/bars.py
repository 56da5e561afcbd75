"""Bar charts of a comparison: the parts of the time of ranks or runs, what changed, and categories side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from chakra_core.analysis.breakdown import PARTS, DeviceBreakdown
from dashboard.theme import RUN_COLOURS, TIME_COLOURS, TONES, template

__all__ = [
    "PART_LABELS",
    "Bar",
    "breakdown_bars",
    "empty_figure",
    "grouped_bars",
    "row_height",
    "show_ns",
    "time_unit",
    "waterfall",
]

PART_LABELS: dict[str, str] = {
    "compute": "compute",
    "exposed_comm": "exposed communication",
    "exposed_memory": "exposed memory",
    "idle": "idle",
}
"""Words for the parts of the breakdown."""

_STEP_LABELS = {
    "compute": "Δ compute",
    "exposed_comm": "Δ exposed<br>comm.",
    "exposed_memory": "Δ exposed<br>memory",
    "idle": "Δ idle",
}
_UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns"))
_LABEL_LIMIT = 28
_FEW_ROWS = 24


@dataclass(frozen=True, slots=True)
class Bar:
    """One row of a breakdown chart: its label and its parts in ns, by the names of ``breakdown.PARTS``."""

    label: str
    parts: Mapping[str, int]

    @classmethod
    def of(cls, label: str, part: DeviceBreakdown) -> Bar:
        """From a device's (or a sum's) breakdown."""
        return cls(label, {name: part.part(name) for name in PARTS})

    @property
    def total_ns(self) -> int:
        """Sum of the parts."""
        return sum(self.parts.values())


def time_unit(largest_ns: float) -> tuple[int, str]:
    """Divisor and name of the unit that shows a time readably.

    >>> time_unit(2_500_000)
    (1000000, 'ms')
    """
    return next(((size, name) for size, name in _UNITS if abs(largest_ns) >= size), (1, "ns"))


def show_ns(value: float, *, signed: bool = False) -> str:
    """A time with its unit, to four significant digits.

    >>> show_ns(31_903_115), show_ns(-1500, signed=True), show_ns(0)
    ('31.90 ms', '\u22121.500 µs', '0 ns')
    """
    size, unit = time_unit(value)
    scaled = abs(value) / size
    digits = 0 if size == 1 else max(0, 3 - (len(str(int(scaled))) - 1))
    sign = "\N{MINUS SIGN}" if value < 0 else "+" if signed and value > 0 else ""
    return f"{sign}{scaled:,.{digits}f} {unit}"


def row_height(rows: int) -> int:
    """Height in pixels of a chart with horizontal bars that keeps ``rows`` of them apart."""
    return 84 + (34 * rows if rows <= 8 else 34 * 8 + 13 * (rows - 8))


def breakdown_bars(bars: Sequence[Bar], theme: str = "light", *, share: bool = False) -> go.Figure:
    """Horizontal stacked bars, first row on top; with ``share`` every bar is stretched to 100 %."""
    size, unit = time_unit(max((bar.total_ns for bar in bars), default=0))
    labels = _unique([_short(bar.label) for bar in bars])
    figure = go.Figure()
    for part in PARTS:
        values = [bar.parts.get(part, 0) for bar in bars]
        shares = [100 * value / bar.total_ns if bar.total_ns else 0.0 for value, bar in zip(values, bars, strict=True)]
        figure.add_bar(
            orientation="h",
            y=list(range(len(bars))),
            x=shares if share else [value / size for value in values],
            name=PART_LABELS[part],
            marker={"color": TIME_COLOURS[part], "line": {"width": 0}},
            customdata=[
                (_plain(label), show_ns(value), f"{percent:.1f} %")
                for label, value, percent in zip(labels, values, shares, strict=True)
            ],
            hovertemplate=f"%{{customdata[0]}}<br>{PART_LABELS[part]}: %{{customdata[1]}} (%{{customdata[2]}})"
            "<extra></extra>",
            text=[f"{percent:.0f} %" if percent >= 6 and len(bars) <= _FEW_ROWS else "" for percent in shares],
            textposition="inside",
            insidetextanchor="middle",
            textangle=0,
            constraintext="inside",
            textfont={"color": "#1c232d" if part == "idle" else "#ffffff", "size": 11},
        )
    _style(figure, theme, row_height(len(bars)), barmode="stack", bargap=0.22)
    figure.update_xaxes(
        title_text="share of total (%)" if share else f"time ({unit})", range=[0, 100] if share else None
    )
    figure.update_yaxes(**_rows(labels))
    return figure


def waterfall(
    baseline_ns: int, deltas: Mapping[str, int], theme: str = "light", *, names: tuple[str, str]
) -> go.Figure:
    """How the total of one run becomes that of another, part by part; ``names`` are (baseline, run).

    Args:
        baseline_ns: total of the baseline.
        deltas: change of each of ``breakdown.PARTS`` in ns; they sum to the change of the total.
        theme: ``light`` or ``dark``.
        names: labels of the two runs.
    """
    tone = TONES[theme]
    end_ns = baseline_ns + sum(deltas.values())
    size, unit = time_unit(max(abs(baseline_ns), abs(end_ns)))
    first, last = (_short(name) for name in names)
    if first == last:
        first, last = f"{first} (A)", f"{last} (B)"
    figure = go.Figure(
        go.Waterfall(
            x=[
                _wrapped(first),
                *(_STEP_LABELS[part] for part in PARTS),
                _wrapped(last),
            ],
            y=[baseline_ns / size, *(deltas[part] / size for part in PARTS), end_ns / size],
            measure=["absolute", *("relative" for _ in PARTS), "total"],
            text=[show_ns(baseline_ns), *(show_ns(deltas[part], signed=True) for part in PARTS), show_ns(end_ns)],
            textposition="outside",
            cliponaxis=False,
            increasing={"marker": {"color": tone["bad"]}},
            decreasing={"marker": {"color": tone["good"]}},
            totals={"marker": {"color": tone["muted"]}},
            connector={"line": {"color": tone["line"], "width": 1}},
            customdata=[_plain(first), *(f"change of {PART_LABELS[part]}" for part in PARTS), _plain(last)],
            hovertemplate="%{customdata}<br>%{text}<extra></extra>",
        )
    )
    _style(figure, theme, 300, showlegend=False)
    levels = [0.0, float(baseline_ns)]
    for part in PARTS:
        levels.append(levels[-1] + deltas[part])
    figure.update_yaxes(
        title_text=f"time ({unit})", range=[min(0.0, *levels) * 1.12 / size, max(levels) * 1.14 / size or 1]
    )
    figure.update_xaxes(showgrid=False, tickangle=0)
    return figure


def grouped_bars(
    groups: Sequence[str], series: Mapping[str, Sequence[int]], theme: str = "light",
    *, colours: Sequence[str] = RUN_COLOURS,
) -> go.Figure:  # fmt: skip
    """Horizontal bars of several runs side by side for each group (categories, operators); times in ns."""
    size, unit = time_unit(max((value for values in series.values() for value in values), default=0))
    labels = _unique([_short(group) for group in groups])
    figure = go.Figure()
    for at, (name, values) in enumerate(series.items()):
        figure.add_bar(
            orientation="h",
            y=list(range(len(groups))),
            x=[value / size for value in values],
            name=_short(name),
            marker={"color": colours[at % len(colours)], "line": {"width": 0}},
            customdata=[(_plain(label), show_ns(value)) for label, value in zip(labels, values, strict=True)],
            hovertemplate=f"%{{customdata[0]}}<br>{_plain(_short(name))}: %{{customdata[1]}}<extra></extra>",
        )
    _style(figure, theme, 84 + len(groups) * (10 + 14 * max(1, len(series))), barmode="group", bargap=0.3)
    figure.update_xaxes(title_text=f"time ({unit})")
    figure.update_yaxes(**_rows(labels))
    return figure


def empty_figure(words: str, theme: str = "light") -> go.Figure:
    """In place of a chart without data: says why there is none."""
    figure = go.Figure()
    _style(figure, theme, 120)
    figure.add_annotation(text=_plain(words), showarrow=False, x=0.5, y=0.5, xref="paper", yref="paper")
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)
    return figure


def _rows(labels: Sequence[str]) -> dict[str, object]:
    """A y axis for rows 0, 1, … from the top: every label while they fit, then every second, fourth, …."""
    step = 1
    while len(labels) / step > 4 * _FEW_ROWS:
        step *= 2
    at = list(range(0, len(labels), step))
    return {
        "range": [len(labels) - 0.5, -0.5],
        "showgrid": False,
        "zeroline": False,
        "tickmode": "array",
        "tickvals": at,
        "ticktext": [_plain(labels[row]) for row in at],
        "tickfont": {"size": 11 if len(labels) <= _FEW_ROWS else 9},
        "ticklabelstandoff": 6,
    }


def _style(figure: go.Figure, theme: str, height: int, **layout: object) -> None:
    figure.update_layout(template=template(theme), height=height, margin={"l": 8, "r": 12, "t": 34, "b": 8}, **layout)
    figure.update_layout(legend={"traceorder": "normal", "yref": "container", "y": 1, "yanchor": "top"})


def _short(label: str) -> str:
    """Cut in the middle: the ends of run and operator names tell most."""
    if len(label) <= _LABEL_LIMIT:
        return label
    half = (_LABEL_LIMIT - 1) // 2
    return f"{label[:half]}…{label[-half:]}"


def _plain(text: str) -> str:
    """Names come from traces: nothing in them may be read as Plotly's markup or as a hover variable."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("%{", "%&#123;")


def _wrapped(name: str) -> str:
    """A run's name on two lines under its bar."""
    half = (len(name) + 1) // 2
    return _plain(name) if len(name) <= _LABEL_LIMIT // 2 else f"{_plain(name[:half])}<br>{_plain(name[half:])}"


def _unique(labels: list[str]) -> list[str]:
    """Number repeated labels, so that rows stay apart in hover texts."""
    seen: dict[str, int] = {}
    found = []
    for label in labels:
        seen[label] = seen.get(label, 0) + 1
        found.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
    return found
