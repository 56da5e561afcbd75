"""Open: bundled samples, a browser of the server's folders, uploads, and what was open before."""

from __future__ import annotations

from typing import Any

from dash import ALL, ClientsideFunction, Dash, Input, Output, State, ctx, dcc, html, no_update
from dash.development.base_component import Component

from chakra_core.errors import ChakraError
from chakra_core.samples import Sample, list_samples, samples_root
from dashboard.icons import icon
from dashboard.library import UPLOADS, Entry, Library
from dashboard.page import Context, Page
from dashboard.state import Ids
from dashboard.words import size

__all__ = ["PAGE"]

_SAMPLES = "samples"


def layout(context: Context) -> Component:
    """The page."""
    library = context.library
    roots = [name for name, path in library.roots.items() if name not in (UPLOADS, _SAMPLES) and path.is_dir()]
    files = [name for name, path in library.roots.items() if path.is_file()]
    return html.Div(
        [
            dcc.Store(id="open-chosen"),
            dcc.Store(id="open-folder", data=roots[0] if roots else _SAMPLES),
            html.Div(
                [
                    html.Div([html.H1("Open a trace"), html.P(_INTRO, className="ck-lead")]),
                    html.Label(
                        [
                            dcc.Checklist(
                                [{"label": "add to the open runs, to compare", "value": "add"}],
                                value=["add"] if context.state.runs else [],
                                id="open-add",
                            )
                        ],
                        className="ck-add",
                    ),
                ],
                className="ck-title-row",
            ),
            html.Div(
                [_samples(), _drop_zone(library), _browser(library, roots, files), _recent()], className="ck-open-grid"
            ),
        ]
    )


_INTRO = (
    "Chakra .et and JSON, PyTorch profiler (Kineto) and Chrome JSON, TensorFlow and JAX XPlane, FlexFlow task graphs, "
    "ASTRA-sim workloads and logs; plain, gz, zst, bz2 or xz. The files of one folder that differ only in a rank are one "
    "run; PyTorch execution traces and profiles of the same ranks are linked."
)


def _samples() -> Component:
    return html.Section(
        [html.H2("Bundled samples"), html.Div([_sample(sample) for sample in list_samples()], className="ck-cards")]
    )


def _sample(sample: Sample) -> Component:
    ref = f"{_SAMPLES}/{sample.path.relative_to(samples_root())}"
    return html.Button(
        [
            html.Span(
                [html.Strong(sample.title), html.Span(sample.time, className=f"ck-badge ck-{sample.time}")],
                className="ck-card-head",
            ),
            html.Span(sample.description, className="ck-card-text"),
            html.Span(f"{sample.hardware} · {sample.origin}", className="ck-card-foot"),
        ],
        id={"type": "open-ref", "ref": _key(ref), "at": "sample"},
        className="ck-card",
    )


def _drop_zone(library: Library) -> Component | None:
    if UPLOADS not in library.roots:
        return None
    return html.Section(
        [
            html.H2("Your own files"),
            html.Div(
                [
                    icon("plus", 26),
                    html.Strong("Drop files or a folder here"),
                    html.Span("or click to choose files; several files are the ranks of one run"),
                    html.Span("Choose a folder", className="ck-button ck-small", **{"data-folder": "yes"}),
                ],
                className="ck-drop",
                role="button",
                tabIndex="0",
            ),
            html.Progress(id="upload-bar", value="0", max="1", className="ck-upload-bar"),
            html.P(id="upload-status", className="ck-hint"),
        ]
    )


def _browser(library: Library, roots: list[str], files: list[str]) -> Component:
    first = roots[0] if roots else _SAMPLES
    return html.Section(
        [
            html.H2("On the server"),
            html.Div(
                [
                    html.Button(
                        name, id={"type": "open-go", "ref": _key(name), "at": "root"}, className="ck-button ck-small"
                    )
                    for name in [*roots, _SAMPLES]
                ],
                className="ck-row",
            ),
            *[
                _entry(Entry(name, name, is_folder=False, size=library.path_of(name).stat().st_size), 10_000 + at)
                for at, name in enumerate(files)
            ],
            html.Div(_listing(library, first), id="open-listing"),
        ]
    )


def _recent() -> Component:
    return html.Section([html.H2("Recent"), html.Div(id="open-recent", className="ck-list")])


def _key(ref: str) -> str:
    """A reference as part of a component id: Dash does not allow dots there."""
    return ref.replace("%", "%25").replace(".", "%2E")


def _ref(key: str) -> str:
    return key.replace("%2E", ".").replace("%25", "%")


def _listing(library: Library, ref: str) -> list[Component]:
    try:
        entries = library.browse(ref)
    except (ChakraError, OSError) as error:
        return [html.P(str(error), className="ck-error")]
    parts = ref.split("/")
    crumbs: list[Component] = []
    for at, part in enumerate(parts):
        target = "/".join(parts[: at + 1])
        crumbs += [
            html.Button(part, id={"type": "open-go", "ref": _key(target), "at": f"crumb{at}"}, className="ck-crumb"),
            html.Span("/"),
        ]
    head = html.Div(
        [
            html.Div(crumbs[:-1], className="ck-crumbs"),
            html.Button(
                "Open this folder as one run",
                id={"type": "open-ref", "ref": _key(ref), "at": "folder"},
                className="ck-button ck-small",
            ),
        ],
        className="ck-row ck-between",
    )
    rows = [_entry(entry, at) for at, entry in enumerate(entries)]
    return [head, html.Div(rows or [html.P("Nothing is here.", className="ck-hint")], className="ck-list")]


def _entry(entry: Entry, at: int) -> Component:
    kind = "open-go" if entry.is_folder else "open-ref"
    return html.Button(
        [
            icon("open" if entry.is_folder else "file", 15),
            html.Span(entry.name, className="ck-entry-name"),
            html.Span(_kind(entry), className="ck-entry-size"),
            html.Span("" if entry.is_folder else size(entry.size), className="ck-entry-size ck-entry-bytes"),
        ],
        id={"type": kind, "ref": _key(entry.ref), "at": f"entry{at}"},
        className="ck-entry",
    )


_KINDS = (
    (".pt.trace.json", "PyTorch profiler"), (".xplane.pb", "XPlane"), (".et", "Chakra"), (".eg", "Chakra"),
    (".json", "JSON"), (".dot", "task graph"), (".pb", "protobuf"), (".txt", "text"),
)  # fmt: skip


def _kind(entry: Entry) -> str:
    """What a file probably is, by its name alone; what it is shows when it is opened."""
    if entry.is_folder:
        return ""
    name = entry.name.lower()
    for suffix in (".gz", ".zst", ".bz2", ".xz"):
        name = name.removesuffix(suffix)
    return next((kind for suffix, kind in _KINDS if name.endswith(suffix)), "")


def register(app: Dash, library: Library) -> None:
    """Connect the page."""

    def browse(clicks: list[int | None]) -> Any:
        if not any(clicks) or not isinstance(ctx.triggered_id, dict):
            return no_update, no_update
        ref = _ref(ctx.triggered_id["ref"])
        return _listing(library, ref), ref

    app.callback(
        Output("open-listing", "children"),
        Output("open-folder", "data"),
        Input({"type": "open-go", "ref": ALL, "at": ALL}, "n_clicks"),
        prevent_initial_call=True,
    )(browse)

    def choose(clicks: list[int | None], chosen: dict[str, Any] | None, runs: list[str] | None, add: list[str]) -> Any:
        if ctx.triggered_id == "open-chosen" and chosen:
            ref = str(chosen["ref"])
        elif any(clicks) and isinstance(ctx.triggered_id, dict):
            ref = _ref(ctx.triggered_id["ref"])
        else:
            return no_update, no_update, no_update, no_update
        kept = [known for known in runs or [] if known != ref] if add else []
        library.forget(ref)
        opened = [*kept, ref]
        return opened, None, None, "compare" if len(opened) > 1 else "overview"

    app.callback(
        Output(Ids.RUNS, "data", allow_duplicate=True),
        Output(Ids.SELECTION, "data", allow_duplicate=True),
        Output(Ids.WINDOW, "data", allow_duplicate=True),
        Output(Ids.NAVIGATE, "data", allow_duplicate=True),
        Input({"type": "open-ref", "ref": ALL, "at": ALL}, "n_clicks"),
        Input("open-chosen", "data"),
        State(Ids.RUNS, "data"),
        State("open-add", "value"),
        prevent_initial_call=True,
    )(choose)
    app.clientside_callback(
        ClientsideFunction("ckRecent", "list"), Output("open-recent", "data-shown"), Input("open-folder", "data")
    )
    app.clientside_callback(
        ClientsideFunction("ckRecent", "keep"),
        Output("frame", "data-recent"),
        Input(Ids.RUNS, "data"),
        Input(Ids.FAILED, "data"),
        prevent_initial_call=True,
    )


PAGE = Page("open", "Open", "open", layout, register, runs=0)
