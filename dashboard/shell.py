"""What is around every page: header with the open runs, navigation, content, details, and the state they share."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import dash_mantine_components as dmc
from dash import ALL, ClientsideFunction, Dash, Input, Output, State, ctx, dcc, html, no_update
from dash.development.base_component import Component
from flask import has_request_context, request

from chakra_core.errors import ChakraError
from dashboard import export_dialog, later, scope_bar, tables
from dashboard.details import details
from dashboard.icons import icon
from dashboard.library import Library
from dashboard.page import Context, Page
from dashboard.pages import PAGES
from dashboard.settings import Settings
from dashboard.state import Ids, Selection, ViewState
from dashboard.words import plain

__all__ = ["content_for", "layout", "register", "renumbered"]

_LOG = logging.getLogger(__name__)
_TICK = "loaded-tick"
_MOST_RUNS = 24
_THEME = {
    "fontFamily": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif",
    "primaryColor": "indigo",
    "defaultRadius": "sm",
    "fontSizes": {"xs": "11px", "sm": "13px", "md": "14px", "lg": "16px", "xl": "19px"},
}


def layout(settings: Settings) -> Component:
    """The frame of the application, in the theme that ``boot.js`` told the server before this was asked for."""
    theme = "dark" if has_request_context() and request.cookies.get("ck_theme") == "dark" else "light"
    stores = [
        dcc.Store(id=Ids.URL),
        dcc.Store(id=Ids.RUNS, data=[]),
        dcc.Store(id=Ids.SELECTION),
        dcc.Store(id=Ids.WINDOW),
        dcc.Store(id=Ids.NODES),
        dcc.Store(id=Ids.SCOPE),
        dcc.Store(id=Ids.PARAMS, data={}),
        dcc.Store(id=Ids.THEME, data=theme),
        dcc.Store(id=Ids.NAVIGATE),
        dcc.Store(id=Ids.PAGE),
        dcc.Store(id=_TICK, data=0),
        dcc.Store(id=Ids.FAILED, data=[]),
        dcc.Store(id="defaults", data=list(settings.opened)),
    ]
    frame = html.Div(
        [
            html.Header([_brand(), html.Div(id="run-chips", className="ck-chips"), _tools()], className="ck-header"),
            html.Nav(_nav(), className="ck-nav", **{"aria-label": "Pages"}),
            html.Main(
                [html.Div(id="problems"), scope_bar.layout(), html.Div(id=Ids.CONTENT, className="ck-content")],
                className="ck-main",
            ),
            html.Aside(html.Div(id="details", className="ck-details-body"), id="details-panel", className="ck-details"),
            html.Div(id="toast", className="ck-toast", role="alert"),
        ],
        id="frame",
        className="ck-frame",
    )
    return dmc.MantineProvider(
        [*stores, frame, export_dialog.layout()], id="mantine", theme=_THEME, forceColorScheme=theme
    )


def _brand() -> Component:
    return html.A([html.Span(className="ck-mark"), "Chakra dashboard"], href="/open", className="ck-brand ck-link")


def _tools() -> Component:
    return html.Div(
        [
            html.Button(icon("export"), id="open-export", className="ck-tool", title="Export as a file", n_clicks=0),
            html.Button(
                icon("panel"),
                id="toggle-details",
                className="ck-tool",
                title="Show or hide details of the selected node",
                n_clicks=0,
            ),
            html.Button(icon("sun"), id="toggle-theme", className="ck-tool", title="Light or dark", n_clicks=0),
        ],
        className="ck-tools",
    )


def _nav() -> list[Component]:
    parts: list[Component] = []
    for section, pages in groupby(PAGES, key=lambda page: page.section):
        parts += [html.H2(section)] if section else []
        parts += [_nav_link(page) for page in pages]
    return parts


def _nav_link(page: Page) -> Component:
    return html.A(
        [icon(page.icon, 17), html.Span(page.title)], href=f"/{page.slug}", className="ck-link", title=page.title,
        **{"data-page": page.slug},
    )  # fmt: skip


def register(app: Dash, library: Library) -> None:
    """Connect the frame's callbacks."""
    shared = [Ids.PAGE, Ids.RUNS, Ids.SELECTION, Ids.WINDOW, Ids.PARAMS, Ids.THEME, Ids.NODES, Ids.SCOPE]
    app.clientside_callback(
        ClientsideFunction("ckState", "read"),
        *(Output(name, "data") for name in shared),
        Input(Ids.URL, "data"),
        *(State(name, "data") for name in shared),
        State("defaults", "data"),
    )
    app.clientside_callback(
        ClientsideFunction("ckState", "write"),
        Output("frame", "data-state"),
        *(Input(name, "data") for name in shared),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("ckState", "navigate"),
        Output(Ids.PAGE, "data", allow_duplicate=True),
        Output(Ids.NAVIGATE, "data"),
        Input(Ids.NAVIGATE, "data"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("ckState", "toggleTheme"),
        Output(Ids.THEME, "data", allow_duplicate=True),
        Input("toggle-theme", "n_clicks"),
        State(Ids.THEME, "data"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("ckState", "paint"), Output("mantine", "forceColorScheme"), Input(Ids.THEME, "data")
    )
    app.clientside_callback(
        ClientsideFunction("ckState", "panel"),
        Output("frame", "className"),
        Input("toggle-details", "n_clicks"),
        Input(Ids.SELECTION, "data"),
        Input(Ids.PAGE, "data"),
        State("frame", "className"),
    )
    kept = [Ids.RUNS, Ids.SELECTION, Ids.WINDOW, Ids.PARAMS, Ids.NODES, Ids.SCOPE]
    app.clientside_callback(
        ClientsideFunction("ckState", "removeRun"),
        *(Output(name, "data", allow_duplicate=True) for name in kept),
        Input({"type": "remove-run", "at": ALL}, "n_clicks"),
        *(State(name, "data") for name in kept[:3]),
        prevent_initial_call=True,
    )
    tables.register(app)
    scope_bar.register(app, library, _is_scoped)
    _register_server(app, library)


def _register_server(app: Dash, library: Library) -> None:
    """The callbacks that need the server: content, chips, details, loading."""

    def show(_tick: int, *stores: Any) -> Component | Any:
        state = ViewState.from_stores(*stores)
        if not state.page or (ctx.triggered_id == Ids.SCOPE and not _is_scoped(state.page)):
            return no_update
        return content_for(library, state)

    def chips(runs: list[str] | None, _tick: int) -> list[Component]:
        return [_chip(library, at, ref) for at, ref in enumerate(runs or [])]

    def show_details(selection: Any, runs: list[str] | None, _tick: int) -> Any:
        return details(library, runs or [], Selection.from_data(selection))

    runs, tick = Input(Ids.RUNS, "data"), Input(_TICK, "data")
    anew = (Ids.PAGE, Ids.RUNS, Ids.THEME, Ids.SCOPE)
    view = [(Input if name in anew else State)(name, "data") for name in Ids.VIEW]
    app.callback(
        Output(Ids.CONTENT, "children"), tick, *view,
        running=[(Output("load-poll", "disabled"), True, False)],  # else each tick would start the page anew
    )(show)  # fmt: skip
    app.callback(Output("run-chips", "children"), runs, tick)(chips)
    app.callback(Output("details", "children"), Input(Ids.SELECTION, "data"), runs, tick)(show_details)
    later.register(app, library, PAGES)
    _register_loading(app, library)


def _register_loading(app: Dash, library: Library) -> None:
    """The callbacks of the loading panel: progress, cancel, and what becomes of runs that could not be opened."""

    def poll(_ticks: int, refs: list[str] | None, tick: int, failed: list[list[str]] | None, selection: Any) -> Any:
        """Show progress; when all is over, close the runs that failed and say why, so that the others are shown."""
        states = {ref: library.status(ref) for ref in refs or []}
        if any(one.state == "loading" for one in states.values()):
            return _progress(library, refs or []), *[no_update] * 5
        bad = [[ref, one.message] for ref, one in states.items() if one.state == "failed"]
        for ref, _ in bad:
            library.forget(ref)
        if not bad:
            return no_update, tick + 1, *[no_update] * 4
        kept = [ref for ref in refs or [] if states[ref].state != "failed"]
        told = [entry for entry in failed or [] if entry[0] not in states]
        return no_update, tick + 1, kept, [*told, *bad], renumbered(selection, refs or [], kept), None

    def cancel(clicks: int | None, refs: list[str] | None) -> Any:
        for ref in refs or [] if clicks else []:
            library.cancel(ref)
        return bool(clicks)

    def answer(clicks: list[int | None], refs: list[str] | None, failed: list[list[str]] | None) -> Any:
        """A button of the failures: dismiss one, or open it again."""
        chosen = ctx.triggered_id
        if not any(clicks) or not isinstance(chosen, dict) or chosen["at"] >= len(failed or []):
            return no_update, no_update
        ref = (failed or [])[chosen["at"]][0]
        rest = [entry for entry in failed or [] if entry[0] != ref]
        return rest, [*(refs or []), ref] if chosen["do"] == "retry" else no_update

    runs, tick, failed = State(Ids.RUNS, "data"), State(_TICK, "data"), State(Ids.FAILED, "data")
    app.callback(
        Output("load-progress", "children"), Output(_TICK, "data"), Output(Ids.RUNS, "data", allow_duplicate=True),
        Output(Ids.FAILED, "data"), Output(Ids.SELECTION, "data", allow_duplicate=True),
        Output(Ids.NODES, "data", allow_duplicate=True),
        Input("load-poll", "n_intervals"), runs, tick, failed, State(Ids.SELECTION, "data"),
        prevent_initial_call=True,
    )(poll)  # fmt: skip
    app.callback(Output("load-cancel", "disabled"), Input("load-cancel", "n_clicks"), runs)(cancel)
    app.callback(
        Output(Ids.FAILED, "data", allow_duplicate=True), Output(Ids.RUNS, "data", allow_duplicate=True),
        Input({"type": "failed-run", "do": ALL, "at": ALL}, "n_clicks"), runs, failed,
        prevent_initial_call=True,
    )(answer)  # fmt: skip
    app.callback(Output("problems", "children"), Input(Ids.FAILED, "data"))(_failures)


def renumbered(selection: Any, refs: Sequence[str], kept: Sequence[str]) -> dict[str, int] | None:
    """The selection in the numbering of the runs that are left; None where its run is not among them."""
    chosen = Selection.from_data(selection)
    if chosen is None or chosen.run >= len(refs) or refs[chosen.run] not in kept:
        return None
    return Selection(list(kept).index(refs[chosen.run]), chosen.rank, chosen.row).to_data()


def _is_scoped(slug: str) -> bool:
    return any(page.slug == slug and page.scoped for page in PAGES)


def content_for(library: Library, state: ViewState) -> Component:
    """The page of a state, or what must happen first: loading, an error, or opening more runs."""
    page = next((page for page in PAGES if page.slug == state.page), PAGES[0])
    if len(state.runs) > _MOST_RUNS:
        return _broken(page, f"{len(state.runs):,} runs are too many at once; close some or open at most {_MOST_RUNS}.")
    if page.runs and len(state.runs) < page.runs:
        return _too_few(page, len(state.runs))
    if page.runs and any(library.request(ref).state != "ready" for ref in state.runs):
        return _loading(library, list(state.runs))
    try:
        runs = tuple(library.get(ref) for ref in state.runs) if page.runs else ()
        return html.Div(page.layout(Context(library, runs, state)), className=f"ck-page ck-page-{page.slug}")
    except ChakraError as error:
        return _broken(page, str(error))
    except Exception as error:  # noqa: BLE001 - a page may fail in any way; it must not take the frame with it
        _LOG.exception("page %s failed", page.slug)
        return _broken(page, f"{type(error).__name__}: {error}")


def _broken(page: Page, text: str) -> Component:
    return html.Div(
        [html.H2(f"{page.title} cannot be shown"), html.P(text, className="ck-error")], className="ck-empty"
    )


def _too_few(page: Page, have: int) -> Component:
    need = "a trace" if page.runs == 1 else f"{page.runs} runs"
    more = "" if not have else f" ({have} open)"
    return html.Div(
        [
            html.H2(f"{page.title} needs {need}{more}"),
            html.P("Open one of the bundled samples, a file on the server, or drop your own."),
            html.A("Open traces", href="/open", className="ck-button ck-link", **{"data-page": "open"}),
        ],
        className="ck-empty",
    )


def _failures(failed: list[list[str]] | None) -> list[Component]:
    """One notice per run that could not be opened."""

    def button(do: str, at: int, text: str) -> Component:
        return html.Button(text, id={"type": "failed-run", "do": do, "at": at}, className="ck-button ck-small")

    return [
        html.Div(
            [
                html.Div([html.Strong(f"{ref} was not opened"), html.Span(plain(message, 1500))]),
                button("retry", at, "Try again"),
                button("dismiss", at, "Dismiss"),
            ],
            className="ck-problem",
            role="alert",
        )
        for at, (ref, message) in enumerate(failed or [])
    ]


def _loading(library: Library, refs: list[str]) -> Component:
    return html.Div(
        [
            html.H2("Opening"),
            html.Div(_progress(library, refs), id="load-progress"),
            html.Button("Cancel", id="load-cancel", className="ck-button"),
            dcc.Interval(id="load-poll", interval=250),
        ],
        className="ck-empty",
    )


def _progress(library: Library, refs: list[str]) -> list[Component]:
    rows: list[Component] = []
    for ref in refs:
        status = library.status(ref)
        rows.append(
            html.Div(
                [html.Div([html.Code(ref), html.Span(status.message)]), dmc.Progress(value=round(100 * status.share))],
                className="ck-progress",
            )
        )
    return rows


def _chip(library: Library, at: int, ref: str) -> Component:
    status = library.status(ref)
    label, badge = ref.rsplit("/", 1)[-1], ""
    if status.state == "ready":
        run = library.get(ref).run
        label, badge = run.label, str(run.time_kind)
    return html.Span(
        [
            html.Span("ABCDEFGHIJ"[at] if at < 10 else str(at), className=f"ck-letter ck-run-{at % 6}"),
            html.Span(label, className="ck-chip-label", title=ref),
            html.Span(badge, className=f"ck-badge ck-{badge}") if badge else None,
            html.Button(
                icon("close", 12),
                id={"type": "remove-run", "at": at},
                className="ck-chip-close",
                title=f"Close {label}",
            ),
        ],
        className=f"ck-chip ck-chip-{status.state}",
    )
