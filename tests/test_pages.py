"""Every page, in process: it renders on all kinds of runs, its callbacks are on its app, and names stay text."""

from __future__ import annotations

import json
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from dash import Dash, html
from dash.development.base_component import Component
from plotly.io.json import to_json_plotly

from dashboard.app import create_app
from dashboard.later import parts, placeholder
from dashboard.library import Library
from dashboard.page import Context, Page
from dashboard.pages import PAGES
from dashboard.settings import Settings
from dashboard.shell import content_for, renumbered
from dashboard.state import Ids, Selection, ViewState
from tests.runs import FORMULA, HOSTILE, write_runs

REFS = ("built/host.et", "built/ranks", "built/empty.json", "built/damaged.json", "built/hostile.et")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    root = tmp_path_factory.mktemp("built")
    write_runs(root)
    library = Library({"built": root})
    for ref in REFS:
        library.get(ref)
    return library


def shown(component: Component | list[Component]) -> str:
    """All of a component as the browser gets it."""
    return str(to_json_plotly(component))


def whole(page: Page, context: Context) -> str:
    """All of a page, with what is drawn after its first picture."""
    return shown([page.layout(context), *parts(page, context)])


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("ref", REFS)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.slug)
def test_every_page_renders_on_every_kind_of_run(library: Library, page: Page, ref: str, theme: str):
    refs = (ref,) if page.runs < 2 else (ref, "built/ranks")
    state = ViewState(page.slug, refs, Selection(0, 0, 0), (0, 500), theme, MappingProxyType({"nonsense": "<b>"}))
    context = Context(library, tuple(library.get(one) for one in refs), state)
    assert len(shown(page.layout(context))) > 100
    assert all(len(shown(part)) > 100 for part in parts(page, context))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.slug)
def test_a_page_tells_what_it_needs(library: Library, page: Page):
    text = shown(content_for(library, ViewState(page.slug)))
    assert (f"{page.title} needs" in text) == (page.runs > 0)


def test_pages_are_distinct_and_start_their_ids_with_their_slug():
    assert len({page.slug for page in PAGES}) == len(PAGES)
    assert [page.slug for page in PAGES][:2] == ["open", "overview"]
    assert {page.id("x") for page in PAGES} == {f"{page.slug}-x" for page in PAGES}


def test_a_page_that_fails_says_so_in_its_place(library: Library, monkeypatch: pytest.MonkeyPatch):
    def broken(_context: Context) -> Component:
        raise ValueError("<i>made to fail</i>")

    monkeypatch.setattr(
        "dashboard.shell.PAGES", (Page("bad", "Bad", "dot", broken, lambda _app, _library: None, runs=0),)
    )
    text = shown(content_for(library, ViewState("bad")))
    assert "Bad cannot be shown" in text
    assert "ValueError: " in text


def _answer(app: Dash, placed: dict[str, Any]) -> str:
    """What the server says when the browser asks for a part that is drawn later."""
    stores = {"page": placed["page"], "runs": ["built/ranks"], "theme": "light"}
    body = {
        "output": '{"at":["MATCH"],"kind":"later","page":["MATCH"],"part":["MATCH"]}.children',
        "outputs": {"id": placed, "property": "children"},
        "inputs": [{"id": placed, "property": "id", "value": placed}],
        "state": [{"id": name, "property": "data", "value": stores.get(name)} for name in Ids.VIEW],
        "changedPropIds": [],
    }
    return str(app.server.test_client().post("/_dash-update-component", json=body).get_data(as_text=True))


def test_parts_that_are_drawn_later_are_asked_for_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write_runs(tmp_path)

    def broken(_context: Context, at: int) -> Component:
        raise ValueError(f"part {at} is made to fail")

    def layout(_context: Context) -> Component:
        return placeholder("slow", "good")

    page = Page(
        "slow", "Slow", "dot", layout, lambda _app, _library: None,
        later={"good": lambda context, at: html.P(f"{context.runs[at].run.label} {at}"), "bad": broken},
    )  # fmt: skip
    monkeypatch.setattr("dashboard.shell.PAGES", (page,))
    app = create_app(Settings(roots={"built": tmp_path}))
    assert "ranks 0" in _answer(app, {"kind": "later", "page": "slow", "part": "good", "at": 0})
    assert "ValueError: part 3 is made to fail" in _answer(
        app, {"kind": "later", "page": "slow", "part": "bad", "at": 3}
    )


def test_applications_in_one_process_do_not_meddle(tmp_path: Path):
    write_runs(tmp_path)
    first = create_app(Settings(roots={"one": tmp_path}))
    dependencies = first.server.test_client().get("/_dash-dependencies").get_json()
    second = create_app(Settings(roots={"two": tmp_path}))
    again = second.server.test_client().get("/_dash-dependencies").get_json()
    assert len(dependencies) == len(again) > 30
    assert first.server.test_client().get("/_dash-dependencies").get_json() == dependencies
    assert {one["output"] for one in dependencies} == {one["output"] for one in again}


def test_every_callback_can_be_called_over_http(tmp_path: Path):
    """The chips of the header, as the browser asks for them: a failing run does not break the answer."""
    write_runs(tmp_path)
    app = create_app(Settings(roots={"built": tmp_path}))
    body = {
        "output": "run-chips.children",
        "outputs": {"id": "run-chips", "property": "children"},
        "inputs": [
            {"id": "runs", "property": "data", "value": ["built/host.et", "nowhere/x"]},
            {"id": "loaded-tick", "property": "data", "value": 0},
        ],
        "changedPropIds": ["runs.data"],
    }
    answer = app.server.test_client().post("/_dash-update-component", json=body)
    assert answer.status_code == 200
    chips = answer.get_json()["response"]["run-chips"]["children"]
    assert len(chips) == 2
    assert "host.et" in json.dumps(chips[0])


def test_names_of_a_trace_are_text_and_never_markdown_or_code(library: Library):
    for page in PAGES:
        if page.runs != 1:
            continue
        state = ViewState(page.slug, ("built/hostile.et",), Selection(0, 0, 0))
        text = whole(page, Context(library, (library.get("built/hostile.et"),), state))
        assert '"dangerously_allow_html":true' not in text
        assert '"dangerously_allow_code":true' not in text
        assert '"type":"Markdown"' not in text
    assert HOSTILE.startswith("<")
    assert FORMULA.startswith("=")


@pytest.mark.parametrize(
    ("selection", "kept", "expected"),
    [
        ({"run": 1, "rank": 0, "row": 5}, ["b"], {"run": 0, "rank": 0, "row": 5}),
        ({"run": 0, "rank": 0, "row": 5}, ["b"], None),
        (None, ["b"], None),
        ({"run": 9, "rank": 0, "row": 5}, ["a", "b"], None),
    ],
)
def test_a_selection_follows_its_run(selection, kept, expected):
    assert renumbered(selection, ["a", "b"], kept) == expected


def test_unknown_pages_lead_to_the_first(library: Library):
    assert "Open a trace" in shown(content_for(library, ViewState("no-such-page")))


def test_an_address_with_very_many_runs_loads_none_of_them(library: Library):
    refs = tuple(f"built/host.et/{number}" for number in range(1000))
    assert "too many" in shown(content_for(library, ViewState("overview", refs)))
    assert library.status(refs[0]).state == "absent"
