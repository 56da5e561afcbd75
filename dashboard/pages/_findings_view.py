"""The parts of the Findings page that others show too: findings of a run, where a button leads, a card."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from dash import html
from dash.development.base_component import Component

from chakra_core.analysis.findings import Finding, Thresholds, find
from chakra_core.analysis.scope import WHOLE, Scope
from chakra_core.errors import AnalysisError
from chakra_core.trace import Run
from dashboard.library import LoadedRun
from dashboard.nodes import rows_text
from dashboard.words import count, duration, plain, share

__all__ = ["card", "findings_of", "limits_of", "limits_text", "place_data"]

_PAGES = (("timeline", "Show on the timeline"), ("graph", "Show in the graph"))


def findings_of(loaded: LoadedRun, scope: Scope = WHOLE, limits: Thresholds | None = None) -> tuple[Finding, ...]:
    """The findings of a run; those of the whole run under the usual thresholds are kept."""
    if scope == WHOLE and limits in (None, Thresholds()):
        return loaded.result("findings", find)
    return find(loaded.run, scope, limits)


def limits_of(text: object) -> Thresholds:
    """Thresholds as the URL states them, ``idle_share:0.1,overlap:0.2``; nonsense is left out."""
    limits = Thresholds()
    for part in str(text or "")[:2_000].split(","):
        name, _, value = part.partition(":")
        try:
            limits = limits.changed({name: float(value)})
        except (AnalysisError, ValueError):  # an address can say anything
            continue
    return limits


def limits_text(limits: Thresholds) -> str:
    """Those thresholds that are not as usual, as ``limits_of`` reads them."""
    usual = Thresholds()
    changed = [f.name for f in fields(limits) if getattr(limits, f.name) != getattr(usual, f.name)]
    return ",".join(f"{name}:{getattr(limits, name):g}" for name in changed)


def place_data(finding: Finding, run: Run, at: int, page: str) -> dict[str, str]:
    """Attributes of a button that leads to where a finding shows (see ``assets/select.js``)."""
    place = finding.place
    data = {"data-goto": page}
    if place.row >= 0:
        data |= {"data-run": str(at), "data-rank": str(place.rank), "data-row": str(place.row)}
    if place.rows:
        data["data-nodes"] = rows_text(at, place.rank, place.rows)
    if place.window is not None:
        first, last = (max(end - run.origin_ns, 0) for end in place.window)
        data |= {"data-t0": str(first), "data-t1": str(max(last, first + 1))}
    return data


def card(finding: Finding, number: int, run: Run, at: int, largest: int) -> Component:
    """One finding: what, how much, the numbers, and where to see it."""
    place = finding.place
    pages: Mapping[str, str] = dict(_PAGES) if place.row >= 0 else {"timeline": _PAGES[0][1]}
    buttons = [
        html.Button(words, className="ck-button ck-small", **place_data(finding, run, at, page))
        for page, words in pages.items()
    ]
    if place.page not in pages:
        buttons.append(html.Button("Show in the heatmap", className="ck-button ck-small", **{"data-goto": place.page}))
    pin: dict[str, Any] = {
        "data-pin": "finding", "data-pin-title": plain(finding.title, 200), "data-pin-text": plain(finding.text, 600),
        **{f"data-pin-{key.removeprefix('data-')}": value for key, value in place_data(finding, run, at, place.page).items()},
    }  # fmt: skip
    buttons.append(html.Button("Pin", className="ck-button ck-small", title="Keep it on the board below", **pin))
    evidence = [html.Div([html.Dt(plain(one.label, 60)), html.Dd(plain(one.text, 60))]) for one in finding.evidence]
    where = f"rank {place.rank}" if len(run.traces) > 1 else ""
    if finding.ranks > 1:
        where += f", the worst of {count(finding.ranks, 'rank')}"
    return html.Li(
        [
            html.Div(
                [html.Span(str(number), className="ck-number"), html.H2(plain(finding.title, 200)),
                 html.Span(where, className="ck-note")],
                className="ck-finding-head",
            ),
            _saving(finding, largest),
            html.P(plain(finding.text, 900)),
            html.P(plain(finding.advice, 500), className="ck-hint"),
            html.Dl(evidence, className="ck-evidence"),
            html.Div(buttons, className="ck-row"),
        ],
        className="ck-panel ck-finding",
        **{"data-rule": finding.rule},
    )  # fmt: skip


def _saving(finding: Finding, largest: int) -> Component:
    if finding.saving_ns < 0:
        return html.P(f"Saving {finding.bound}.", className="ck-hint")
    width = f"{100 * finding.saving_ns / max(largest, 1):.1f}%"
    words = f"saves at most {duration(finding.saving_ns)}, {share(finding.saving_ns, finding.total_ns)} of device time"
    return html.Div(
        [
            html.Div(html.Div(style={"width": width}), className="ck-saving-bar"),
            html.Span([html.Strong(words), f" \N{MIDDLE DOT} {finding.bound}"], className="ck-saving-words"),
        ],
        className="ck-saving",
    )
