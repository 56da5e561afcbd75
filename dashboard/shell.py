"""What is around every page: header with the open runs, navigation, content, details, and the state they share."""

from __future__ import annotations

from typing import Any

import dash_mantine_components as dmc
from dash import ALL, ClientsideFunction, Dash, Input, Output, State, ctx, dcc, html, no_update
from dash.development.base_component import Component

from chakra_core.errors import ChakraError
from dashboard.details import details
from dashboard.icons import icon
from dashboard.library import Library, LoadedRun
from dashboard.page import Context, Page
from dashboard.pages import PAGES
from dashboard.settings import Settings
from dashboard.state import Ids, Selection, ViewState

__all__ = ["content_for", "layout", "register"]

_TICK = "loaded-tick"
_THEME = {
    "fontFamily": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif",
    "primaryColor": "indigo",
    "defaultRadius": "sm",
    "fontSizes": {"xs": "11px", "sm": "13px", "md": "14px", "lg": "16px", "xl": "19px"},
}


def layout(settings: Settings) -> Component:
    """The frame of the application."""
    stores = [
        dcc.Location(id=Ids.URL, refresh=False),
        dcc.Store(id=Ids.RUNS, data=list(settings.opened)),
        dcc.Store(id=Ids.SELECTION),
        dcc.Store(id=Ids.WINDOW),
        dcc.Store(id=Ids.PARAMS, data={}),
        dcc.Store(id=Ids.THEME),
        dcc.Store(id=Ids.NAVIGATE),
        dcc.Store(id=Ids.PAGE),
        dcc.Store(id=_TICK, data=0),
        dcc.Store(id="defaults", data=list(settings.opened)),
    ]
    frame = html.Div(
        [
            html.Header([_brand(), html.Div(id="run-chips", className="ck-chips"), _tools()], className="ck-header"),
            html.Nav([_nav_link(page) for page in PAGES], className="ck-nav", **{"aria-label": "Pages"}),
            html.Main(id=Ids.CONTENT, className="ck-main"),
            html.Aside(html.Div(id="details", className="ck-details-body"), id="details-panel", className="ck-details"),
            html.Div(id="toast", className="ck-toast", role="alert"),
        ],
        id="frame",
        className="ck-frame",
    )
    return dmc.MantineProvider([*stores, frame], id="mantine", theme=_THEME, forceColorScheme="light")


def _brand() -> Component:
    return html.A([html.Span(className="ck-mark"), "Chakra dashboard"], href="/open", className="ck-brand ck-link")


def _tools() -> Component:
    return html.Div(
        [
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


def _nav_link(page: Page) -> Component:
    return html.A(
        [icon(page.icon, 20), html.Span(page.title)], href=f"/{page.slug}", className="ck-link", title=page.title,
        **{"data-page": page.slug},
    )  # fmt: skip


def register(app: Dash, library: Library) -> None:
    """Connect the frame's callbacks."""
    shared = [Ids.PAGE, Ids.RUNS, Ids.SELECTION, Ids.WINDOW, Ids.PARAMS, Ids.THEME]
    app.clientside_callback(
        ClientsideFunction("ckState", "read"),
        *(Output(name, "data") for name in shared),
        Input(Ids.URL, "href"),
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
    _register_server(app, library)


def _register_server(app: Dash, library: Library) -> None:
    """The callbacks that need the server: content, chips, details, loading."""

    def show(
        page: str | None, runs: list[str] | None, theme: str | None, _tick: int,
        selection: Any, window: Any, params: dict[str, str] | None,
    ) -> Component | Any:  # fmt: skip
        if page is None:
            return no_update
        between = (int(window[0]), int(window[1])) if window else None
        state = ViewState(
            page, tuple(runs or ()), Selection.from_data(selection), between, theme or "light", params or {}
        )
        return content_for(library, state)

    def chips(runs: list[str] | None, _tick: int) -> list[Component]:
        return [_chip(library, at, ref) for at, ref in enumerate(runs or [])]

    def show_details(selection: Any, runs: list[str] | None, _tick: int) -> Any:
        return details(library, runs or [], Selection.from_data(selection))

    page, runs, tick = Input(Ids.PAGE, "data"), Input(Ids.RUNS, "data"), Input(_TICK, "data")
    others = [State(name, "data") for name in (Ids.SELECTION, Ids.WINDOW, Ids.PARAMS)]
    app.callback(Output(Ids.CONTENT, "children"), page, runs, Input(Ids.THEME, "data"), tick, *others)(show)
    app.callback(Output("run-chips", "children"), runs, tick)(chips)
    app.callback(Output("details", "children"), Input(Ids.SELECTION, "data"), runs, tick)(show_details)
    app.callback(
        Output(Ids.RUNS, "data", allow_duplicate=True),
        Output(Ids.SELECTION, "data", allow_duplicate=True),
        Input({"type": "remove-run", "at": ALL}, "n_clicks"),
        State(Ids.RUNS, "data"),
        prevent_initial_call=True,
    )(_remove)
    _register_loading(app, library)


def _remove(clicks: list[int | None], runs: list[str]) -> Any:
    """Close a run: the selection goes with it, since it may have been in that run."""
    if not any(clicks) or not isinstance(ctx.triggered_id, dict):
        return no_update, no_update
    gone = ctx.triggered_id["at"]
    return [ref for at, ref in enumerate(runs) if at != gone], None


def _register_loading(app: Dash, library: Library) -> None:
    """The callbacks of the loading panel: progress, cancel, try again."""

    def poll(_ticks: int, runs: list[str] | None, tick: int) -> Any:
        if any(library.status(ref).state == "loading" for ref in runs or []):
            return _progress(library, runs or []), no_update
        return no_update, tick + 1

    def cancel(clicks: int | None, runs: list[str] | None) -> Any:
        for ref in runs or [] if clicks else []:
            library.cancel(ref)
        return bool(clicks)

    def retry(clicks: int | None, runs: list[str] | None, tick: int) -> Any:
        for ref in runs or [] if clicks else []:
            library.forget(ref)
        return tick + 1 if clicks else no_update

    runs, tick = State(Ids.RUNS, "data"), State(_TICK, "data")
    app.callback(
        Output("load-progress", "children"), Output(_TICK, "data"), Input("load-poll", "n_intervals"), runs, tick,
        prevent_initial_call=True,
    )(poll)  # fmt: skip
    app.callback(Output("load-cancel", "disabled"), Input("load-cancel", "n_clicks"), runs)(cancel)
    app.callback(
        Output(_TICK, "data", allow_duplicate=True), Input("load-retry", "n_clicks"), runs, tick,
        prevent_initial_call=True,
    )(retry)  # fmt: skip


def content_for(library: Library, state: ViewState) -> Component:
    """The page of a state, or what must happen first: loading, an error, or opening more runs."""
    page = next((page for page in PAGES if page.slug == state.page), PAGES[0])
    if page.runs and len(state.runs) < page.runs:
        return _too_few(page, len(state.runs))
    states = [library.request(ref) for ref in state.runs] if page.runs else []
    failed = [(ref, one.message) for ref, one in zip(state.runs, states, strict=False) if one.state == "failed"]
    if failed and len(failed) > len(state.runs) - page.runs:
        return _failed(failed)
    if any(one.state == "loading" for one in states):
        return _loading(library, list(state.runs))
    runs = _loaded(library, state.runs) if page.runs else ()
    return html.Div(page.layout(Context(library, runs, state)), className=f"ck-page ck-page-{page.slug}")


def _loaded(library: Library, refs: tuple[str, ...]) -> tuple[LoadedRun, ...]:
    runs = []
    for ref in refs:
        try:
            runs.append(library.get(ref))
        except ChakraError:
            if library.status(ref).state != "failed":
                raise
    return tuple(runs)


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


def _failed(failed: list[tuple[str, str]]) -> Component:
    return html.Div(
        [
            html.H2("This could not be opened"),
            *[html.Div([html.Code(ref), html.P(message)], className="ck-error") for ref, message in failed],
            html.Div(
                [
                    html.Button("Try again", id="load-retry", className="ck-button"),
                    html.A("Open something else", href="/open", className="ck-button ck-link", **{"data-page": "open"}),
                ],
                className="ck-row",
            ),
        ],
        className="ck-empty",
    )


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
