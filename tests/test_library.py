"""The library: what may be reached, loading in the background, failures, cancelling, forgetting."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from flask import Flask

import chakra_core.opening
from chakra_core.errors import ChakraError
from chakra_core.store import Store
from chakra_core.trace import Run
from dashboard.library import UPLOADS, Library, LoadedRun, StillLoading
from dashboard.timeline_api import register_routes
from dashboard.timeline_data import describe, rows_of
from tests.builder import make_trace, node
from tests.runs import write_runs


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    write_runs(folder)
    return folder


@pytest.fixture
def library(root: Path) -> Library:
    return Library({"built": root})


def test_a_run_is_loaded_once_and_remembers_results(library: Library):
    assert library.status("built/host.et").state == "absent"
    first = library.get("built/host.et")
    assert library.status("built/host.et").state == "ready"
    assert library.get("built/host.et") is first
    calls: list[int] = []
    for _ in range(2):
        assert first.result("nodes", lambda run: calls.append(1) or len(run.traces[0])) == 3
    assert len(calls) == 1


def test_two_requests_share_one_load(library: Library, monkeypatch: pytest.MonkeyPatch):
    go, calls = threading.Event(), []

    def slow(paths, *, progress):
        calls.append(paths)
        progress(0.5, "half")
        go.wait(10)
        return Run((make_trace([node("a", 0, 1)]),), "slow")

    monkeypatch.setattr(chakra_core.opening, "open_run", slow)
    assert library.request("built/host.et").state == "loading"
    assert library.request("built/host.et").state == "loading"
    go.set()
    assert library.get("built/host.et").run.label == "slow"
    assert len(calls) == 1


def test_cancelling_ends_a_load(library: Library, monkeypatch: pytest.MonkeyPatch):
    started, go = threading.Event(), threading.Event()

    def slow(_paths, *, progress):
        started.set()
        go.wait(10)
        progress(0.5, "half")
        raise AssertionError("went on after it was cancelled")

    monkeypatch.setattr(chakra_core.opening, "open_run", slow)
    library.request("built/host.et")
    started.wait(10)
    library.cancel("built/host.et")
    go.set()
    with pytest.raises(ChakraError, match="cancelled"):
        library.get("built/host.et")
    assert library.status("built/host.et").state == "failed"


def test_any_failure_of_a_reader_is_said_and_can_be_tried_again(library: Library, monkeypatch: pytest.MonkeyPatch):
    def broken(_paths, **_more):
        raise TypeError("a reader's mistake")

    with monkeypatch.context() as patch:
        patch.setattr(chakra_core.opening, "open_run", broken)
        with pytest.raises(ChakraError, match="TypeError: a reader's mistake"):
            library.get("built/host.et")
    assert library.request("built/host.et").state == "failed"
    library.forget("built/host.et")
    assert len(library.get("built/host.et").run.traces) == 1


def test_messages_do_not_show_where_the_server_keeps_things(library: Library, root: Path):
    with pytest.raises(ChakraError) as caught:
        library.get("built/notes.txt")
    assert str(root) not in str(caught.value)
    assert "built/notes.txt" in str(caught.value)


def test_the_least_recently_used_is_forgotten(root: Path):
    library = Library({"built": root}, memory_limit=1, in_use_s=0)
    first = library.get("built/host.et")
    library.get("built/ranks")
    assert library.status("built/host.et").state == "absent"
    assert library.status("built/ranks").state == "ready"
    assert library.get("built/host.et") is not first


@pytest.mark.parametrize(
    "rest",
    ["../secret", "ranks/../../secret", "/etc/passwd", "//etc/passwd", "ranks\\..\\..\\secret", "a\x00b", "C:/x", "link",
     "link/inside", "loop", "a" * 5000, "~root", "./../secret"],
)  # fmt: skip
def test_nothing_outside_a_root_can_be_named(library: Library, root: Path, rest: str):
    outside = root.parent / "secret"
    outside.mkdir()
    (outside / "inside").write_text("{}")
    (root / "link").symlink_to(outside)
    (root / "loop").symlink_to(root / "loop")
    with pytest.raises(ChakraError):
        library.path_of(f"built/{rest}")


def test_browsing_leaves_out_what_leads_elsewhere(library: Library, root: Path):
    (root / "link").symlink_to(root.parent)
    (root / ".hidden").write_text("x")
    entries = library.browse("built")
    assert [entry.name for entry in entries] == [
        "ranks", "damaged.json", "empty.json", "host.et", "hostile.et", "notes.txt",
    ]  # fmt: skip
    assert [entry.is_folder for entry in entries] == [True] + [False] * 5
    assert entries[1].size == (root / "damaged.json").stat().st_size
    with pytest.raises(ChakraError, match="not a folder"):
        library.browse("built/host.et")


def test_a_file_can_be_a_root_and_gives_nothing_beside_it(root: Path):
    library = Library({"host.et": root / "host.et"})
    assert len(library.get("host.et").run.traces[0]) == 3
    with pytest.raises(ChakraError):
        library.path_of("host.et/../hostile.et")


def test_uploads_cannot_be_listed(root: Path):
    library = Library({UPLOADS: root})
    for ref in (UPLOADS, f"{UPLOADS}/", f"{UPLOADS}/.", f"{UPLOADS}/ranks/.."):
        with pytest.raises(ChakraError):
            library.browse(ref)


def test_an_evicted_run_comes_back_from_the_store(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    store = Store(tmp_path / "store", smallest=0)
    library = Library({"built": root}, memory_limit=1, store=store, in_use_s=0)
    first = library.get("built/host.et")
    expected = [rows_of(first).event(0, row) for row in range(len(first.run.traces[0]))]
    library.get("built/ranks")
    assert library.status("built/host.et").state == "absent"
    reads: list[object] = []
    monkeypatch.setattr(chakra_core.opening, "open_run", lambda *args, **_: reads.append(args))
    again = library.get("built/host.et")
    assert reads == []
    assert again is not first
    assert [rows_of(again).event(0, row) for row in range(len(again.run.traces[0]))] == expected


def test_two_loads_do_not_hold_up_a_third_user(library: Library, monkeypatch: pytest.MonkeyPatch):
    ready = library.get("built/host.et")
    go, begun = threading.Event(), threading.Semaphore(0)

    def slow(paths, *, progress):
        progress(0.5, "half")
        begun.release()
        go.wait(20)
        return Run((make_trace([node("a", 0, 1)]),), str(paths[0]))

    monkeypatch.setattr(chakra_core.opening, "open_run", slow)
    others = ("built/ranks", "built/hostile.et")
    for ref in others:
        assert library.request(ref).state == "loading"
    assert begun.acquire(timeout=10)
    assert begun.acquire(timeout=10)
    assert library.get("built/host.et") is ready  # at once, while both slots are taken
    assert describe(ready)["rows"] > 0
    go.set()
    assert all(library.get(ref).run.label.endswith(ref.rpartition("/")[2]) for ref in others)


def test_a_kept_run_opens_while_all_places_are_taken(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "store", smallest=0)
    time.sleep(1.1)  # files younger than a second are not trusted to be unchanged
    assert store.open_run([root / "host.et"]) is not None
    library = Library({"built": root}, store=store)
    go = threading.Event()

    def slow(_files, label, _findings=(), **_more):
        go.wait(20)
        return Run((make_trace([node("a", 0, 1)]),), label)

    monkeypatch.setattr(chakra_core.opening, "open_files", slow)
    others = ("built/ranks", "built/hostile.et", "built/damaged.json")
    for ref in others:
        library.request(ref)
    assert len(library.get("built/host.et").run.traces[0]) == 3
    waiting = [library.status(ref) for ref in others]
    assert all(status.state == "loading" for status in waiting)
    assert sum(status.message == "waiting for other runs to open" for status in waiting) <= 1
    go.set()
    for ref in others:
        assert len(library.get(ref).run.traces[0]) == 1


def test_a_load_that_waits_for_its_turn_can_be_cancelled(library: Library, monkeypatch: pytest.MonkeyPatch):
    go = threading.Event()

    def slow(_paths, **_more):
        go.wait(20)
        return Run((make_trace([node("a", 0, 1)]),), "slow")

    monkeypatch.setattr(chakra_core.opening, "open_run", slow)
    for ref in ("built/ranks", "built/hostile.et"):
        library.request(ref)
    while "waiting" in {library.status(ref).message for ref in ("built/ranks", "built/hostile.et")}:
        time.sleep(0.01)
    library.request("built/host.et")
    library.cancel("built/host.et")
    with pytest.raises(ChakraError, match="cancelled"):
        library.get("built/host.et")
    go.set()


def test_a_request_does_not_wait_for_ever(root: Path, monkeypatch: pytest.MonkeyPatch):
    go = threading.Event()

    def slow(_paths, *, progress):
        progress(0.25, "reading host.et")
        go.wait(20)
        return Run((make_trace([node("a", 0, 1)]),), "slow")

    library = Library({"built": root}, patience=0.05)
    server = Flask("test")
    register_routes(server, library)
    monkeypatch.setattr(chakra_core.opening, "open_run", slow)
    with pytest.raises(StillLoading, match="is being opened"):
        library.get("built/host.et")
    answer = server.test_client().get("/api/timeline/layout?run=built/host.et")
    assert answer.status_code == 503
    assert "25%, reading host.et" in answer.json["error"]
    go.set()
    while library.status("built/host.et").state == "loading":
        time.sleep(0.01)
    assert server.test_client().get("/api/timeline/layout?run=built/host.et").status_code == 200


def test_runs_that_are_looked_at_are_not_forgotten(root: Path):
    library = Library({"built": root}, memory_limit=1)
    for ref in ("built/host.et", "built/ranks"):
        library.get(ref)
    assert {library.status(ref).state for ref in ("built/host.et", "built/ranks")} == {"ready"}


def test_what_the_first_pages_need_is_worked_out_after_loading(root: Path):
    prepared = threading.Event()

    def prepare(loaded: LoadedRun) -> None:
        rows_of(loaded)
        prepared.set()

    library = Library({"built": root}, prepare=[prepare])
    loaded = library.get("built/host.et")
    assert prepared.wait(20)
    assert loaded.result("lod", lambda _: None) is rows_of(loaded)


def test_uploads_have_a_store_of_their_own(root: Path, tmp_path: Path):
    ours, theirs = Store(tmp_path / "a", smallest=0), Store(tmp_path / "b", smallest=0)
    library = Library({UPLOADS: root, "built": root}, store=ours, upload_store=theirs)
    library.get(f"{UPLOADS}/host.et")
    assert not ours.folder.exists()
    assert len(list((theirs.folder / "entries").iterdir())) == 1
    library.get("built/host.et")
    assert len(list((ours.folder / "entries").iterdir())) == 1
