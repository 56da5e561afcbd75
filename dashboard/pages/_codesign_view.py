"""What the Co-design page shows: controls, the projected time beside the source's, assumptions, devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dash_mantine_components as dmc
from dash import dcc, html
from dash.development.base_component import Component

from chakra_core.hardware import PRECISIONS, Device
from chakra_core.project.accuracy import stated_error
from chakra_core.project.fabric import COLLECTIVE_ALGORITHMS
from chakra_core.project.mapping import group_labels
from chakra_core.project.retime import FACTORS, Knobs
from chakra_core.project.sweep import Outcome
from chakra_core.trace import Run
from dashboard.figures.bars import PART_LABELS, Bar, breakdown_bars, show_ns
from dashboard.figures.codesign import KNOB_LABELS
from dashboard.pages._compare_view import change_card
from dashboard.words import plain

__all__ = ["LOG_RANGE", "controls", "error_note", "factor_of", "result_cards", "result_figure", "slider_of"]

LOG_RANGE = 3
"""Sliders go from 2**-3 to 2**3."""

_TIMES = "\N{MULTIPLICATION SIGN}"
_MOST_GROUPS = 200
_HINTS = {
    "compute": "peak FLOP/s of the target",
    "memory": "memory bandwidth of the target",
    "link": "bandwidth of its links",
    "latency": "time of one step of a collective",
    "launch": "time of launching calls and the lag after them",
    "compression": "how many times smaller messages are",
    "data_parallel": "size of data-parallel groups",
}


def factor_of(position: float | None) -> float:
    """Factor of a slider's position."""
    return round(2.0 ** min(max(float(position or 0.0), -LOG_RANGE), LOG_RANGE), 6)


def slider_of(factor: float) -> float:
    """Slider position of a factor (to a quarter of a doubling)."""
    position = 0.0
    while position < LOG_RANGE and 2.0 ** (position + 0.125) < factor:
        position += 0.25
    while position > -LOG_RANGE and 2.0 ** (position - 0.125) > factor:
        position -= 0.25
    return position


def controls(prefix: str, devices: Sequence[Device], runs: Sequence[Run], chosen: Mapping[str, Any]) -> Component:
    """The panel of choices; component ids start with ``prefix``."""
    knobs: Knobs = chosen["knobs"]
    listed = [{"value": device.name, "label": f"{device.name} ({device.vendor})"} for device in devices]
    automatic = [{"value": "", "label": "as the trace says"}, *listed]
    select = {"allowDeselect": False, "searchable": True, "size": "xs"}
    marks = {
        position: f"{_TIMES}{2**position:g}" if position >= 0 else f"÷{2**-position:g}"
        for position in range(-LOG_RANGE, LOG_RANGE + 1)
    }
    run_choice = [{"value": str(at), "label": plain(run.label, 60)} for at, run in enumerate(runs)]
    sliders = [
        html.Div(
            [
                html.Label([KNOB_LABELS[name]], title=_HINTS[name]),
                dcc.Slider(
                    -LOG_RANGE, LOG_RANGE, 0.25, value=slider_of(getattr(knobs, name)), id=f"{prefix}-{name}",
                    marks=marks, included=False, updatemode="mouseup", allow_direct_input=False,
                ),
            ],
            className="ck-knob",
        )
        for name in FACTORS
    ]  # fmt: skip
    return html.Div(
        [
            dmc.Select(id=f"{prefix}-run", label="run", data=run_choice, value=str(chosen["at"]), **select),
            dmc.Select(id=f"{prefix}-hardware", label="onto", data=listed, value=chosen["hardware"], **select),
            dmc.Select(id=f"{prefix}-source", label="recorded on", data=automatic, value=chosen["source"], **select),
            *sliders,
            *_collective_controls(prefix, runs, knobs),
            dmc.Select(
                id=f"{prefix}-precision", label="precision of matrix kernels", value=knobs.precision,
                data=list(PRECISIONS), **{**select, "searchable": False},
            ),
            dmc.Switch(
                id=f"{prefix}-overlap", label="communication beside compute", checked=knobs.overlap, size="xs", mt=6
            ),
            html.Button("Back to the catalogue's figures", id=f"{prefix}-reset", className="ck-button ck-small", n_clicks=0),
        ],
        className="ck-panel ck-knobs",
    )  # fmt: skip


def _collective_controls(prefix: str, runs: Sequence[Run], knobs: Knobs) -> list[Component]:
    """Algorithm, size of a domain, and where process groups lie."""
    labels = sorted({label for run in runs for label in group_labels(run)} | {name for name, _ in knobs.mapping})
    groups = [
        dmc.MultiSelect(
            id=f"{prefix}-{place}", label=words, size="xs", data=labels[:_MOST_GROUPS], searchable=True, clearable=True,
            value=[name for name, where in knobs.mapping if where == place], disabled=not labels,
            placeholder="as ranks fill domains" if labels else "no process groups",
        )
        for place, words in (("inside", "groups inside a domain"), ("across", "groups across domains"))
    ]  # fmt: skip
    return [
        dmc.Select(
            id=f"{prefix}-algorithm", label="collectives", value=knobs.algorithm, allowDeselect=False, size="xs",
            data=[{"value": name, "label": name} for name in COLLECTIVE_ALGORITHMS],
        ),
        dmc.NumberInput(
            id=f"{prefix}-domain", label="devices in a scale-up domain", value=knobs.domain or "", min=1, max=1_000_000,
            placeholder="as in the catalogue", size="xs", allowDecimal=False, debounce=600,
        ),
        *groups,
    ]  # fmt: skip


def result_cards(before: Outcome, after: Outcome) -> Component:
    """Device time before and after, and what each part gains or loses."""
    cells = [change_card("device time", before.total_ns, after.total_ns, "source")]
    cells += [
        change_card(words, before.parts_ns[part], after.parts_ns[part], "source") for part, words in PART_LABELS.items()
    ]
    cells.append(change_card("whole run, host included", before.span_ns, after.span_ns, "source"))
    return html.Div(cells, className="ck-compare-cards")


def result_figure(before: Outcome, after: Outcome, labels: tuple[str, str], theme: str) -> Any:
    """Both breakdowns as bars on one scale."""
    figure = breakdown_bars([Bar(labels[0], before.parts_ns), Bar(labels[1], after.parts_ns)], theme)
    return figure.update_layout(height=260)


def error_note(after: Outcome, source: str, measured: Mapping[str, Outcome]) -> Component:
    """How far the projection is from runs that were really measured on the target, where such are open."""
    known = stated_error(source, after.device)
    if not measured:
        return html.P(
            f"No run measured on {after.device} is open: open the same workload recorded there, and its distance from this "
            "projection is stated here. Peaks do not tell how much of them the software reaches on the other device"
            + (f": {known}." if known else "."),
            className="ck-hint",
        )
    rows = [
        html.Tr(
            [
                html.Td(plain(label, 80)),
                html.Td(show_ns(real.total_ns), className="ck-number"),
                html.Td(f"{after.total_ns / real.total_ns - 1:+.1%}" if real.total_ns else "n/a", className="ck-number"),
                html.Td(_busy_error(after, real), className="ck-number"),
            ]
        )
        for label, real in measured.items()
    ]  # fmt: skip
    head = html.Tr(
        [html.Th(text) for text in ("measured run", "device time", "projected is off by", "busy time off by")]
    )
    return html.Table([html.Thead(head), html.Tbody(rows)], className="ck-table")


def _busy_error(after: Outcome, real: Outcome) -> str:
    busy = [outcome.total_ns - outcome.parts_ns["idle"] for outcome in (after, real)]
    return f"{busy[0] / busy[1] - 1:+.1%}" if busy[1] else "n/a"
