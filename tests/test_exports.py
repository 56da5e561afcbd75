"""Exports on the server: made in the background, handed only to who asked, forgotten in time."""

import time
import zipfile

import pytest
from flask import Flask

from chakra_core.errors import ChakraError
from chakra_core.opening import open_trace
from chakra_core.schema import EdgeKind
from chakra_core.trace import Run
from dashboard.exports import Exports, part_for, register_exports
from dashboard.security import SESSION_COOKIE
from dashboard.state import Selection
from tests.builder import make_trace, node

ME, OTHER = "m" * 43, "o" * 43


def run(label="r", ranks=1):
    nodes = [node(name, at * 10, 5) for at, name in enumerate("abcd")]
    edges = [(0, 1), (1, 2), (2, 3, EdgeKind.STREAM)]
    return Run(tuple(make_trace(nodes, edges, rank=rank) for rank in range(ranks)), label)


def finished(exports, key, session=ME):
    for _ in range(400):
        job = exports.of(session, key)
        if job.is_over:
            return job
        time.sleep(0.025)
    raise AssertionError(job)


@pytest.fixture
def server():
    exports = Exports()
    app = Flask(__name__)
    register_exports(app, exports)
    return exports, app


def fetch(app, key, session):
    client = app.test_client()
    client.set_cookie(SESSION_COOKIE, session)
    return client.get(f"/export/{key}", buffered=True)


def test_only_who_asked_gets_the_file(server, tmp_path):
    exports, app = server
    key = exports.start(ME, lambda: run("../../etc/a b"), "et", None, compress=False)
    assert finished(exports, key).name == "etc_a_b.0.et"
    answer = fetch(app, key, ME)
    assert answer.status_code == 200
    assert "attachment; filename=etc_a_b.0.et" in answer.headers["Content-Disposition"]
    (tmp_path / "x.et").write_bytes(answer.data)
    assert len(open_trace(tmp_path / "x.et")[0]) == 4
    assert fetch(app, key, OTHER).status_code == 404
    assert fetch(app, "x" * 22, ME).status_code == 404
    assert exports.of(OTHER, key) is None


def test_several_files_come_as_one_archive(server):
    exports, _ = server
    job = finished(exports, exports.start(ME, lambda: run(ranks=2), "json", "archive", compress=False))
    with zipfile.ZipFile(job.file) as packed:
        assert packed.namelist() == ["r.0.json", "r.1.json"]


def test_failures_are_told_without_paths(server):
    exports, _ = server

    def broken():
        raise ZeroDivisionError

    def refused():
        raise ChakraError("No node is selected.")

    assert finished(exports, exports.start(ME, broken, "et", None, compress=False)).error.endswith("ZeroDivisionError")
    assert finished(exports, exports.start(ME, refused, "et", None, compress=False)).error == "No node is selected."


def test_old_exports_are_dropped(server):
    exports, app = server
    keys = []
    for _ in range(6):
        keys.append(exports.start(ME, run, "csv", None, compress=False))
        finished(exports, keys[-1])
    assert [exports.of(ME, key) is not None for key in keys] == [False, False, True, True, True, True]
    assert fetch(app, keys[0], ME).status_code == 404


def test_parts():
    whole = run()
    assert part_for(whole, "all", None, None) is whole
    assert len(part_for(whole, "range", (10, 26), None).traces[0]) == 2
    around = part_for(whole, "selection", None, (Selection(0, 0, 1), 1)).traces[0]
    assert sorted(around.columns.id.tolist()) == [100, 101, 102]
    for what, said in (("range", "No range"), ("selection", "No node")):
        with pytest.raises(ChakraError, match=said):
            part_for(whole, what, None, None)
    with pytest.raises(ChakraError, match="not in this run"):
        part_for(whole, "selection", None, (Selection(0, 7, 1), 1))
