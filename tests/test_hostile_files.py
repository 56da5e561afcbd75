"""Files that are no files, and links that lead elsewhere: nothing hangs, nothing outside the roots is read."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from chakra_core.errors import ChakraError, LimitExceeded, UnknownFormat
from chakra_core.opening import open_run
from chakra_core.readers import base
from dashboard.library import Library

GRAPH = 'digraph taskgraph {  node0 [label="{device_id=0|Dense_1|Forward|COMP_NODE|simulated_run_time=0.25}",shape=record];\n}'


def test_a_pipe_is_refused_instead_of_waited_for(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(UnknownFormat, match=r"pipe\.json: is not a regular file"):
        open_run([tmp_path / "pipe.json"])
    with pytest.raises(ChakraError, match="is not a regular file"):
        Library({"here": tmp_path}).get("here/pipe.json")


def test_a_pipe_beside_traces_is_passed_over(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "a.graph").write_text(GRAPH)
    assert len(open_run([tmp_path]).traces) == 1


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """A root whose folder ``run`` holds a trace and a link to a trace outside the root."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.1.graph").write_text(GRAPH)
    folder = tmp_path / "root" / "run"
    folder.mkdir(parents=True)
    (folder / "a.0.graph").write_text(GRAPH)
    (folder / "a.1.graph").symlink_to(tmp_path / "outside" / "a.1.graph")
    return tmp_path


def test_a_folder_does_not_open_what_its_links_lead_out_to(linked: Path):
    with pytest.raises(ChakraError, match=r"root/run: its link a\.1\.graph leads out"):
        Library({"root": linked / "root"}).get("root/run")


def test_links_between_the_roots_open(linked: Path):
    library = Library({"root": linked / "root", "outside": linked / "outside"})
    assert len(library.get("root/run").run.traces) == 2


def test_a_loop_of_links_is_left_out_of_a_listing(tmp_path: Path):
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "broken").symlink_to("nothing")
    (tmp_path / "a.graph").write_text(GRAPH)
    library = Library({"here": tmp_path})
    assert "a.graph" in [entry.name for entry in library.browse("here")]
    assert "loop" not in [entry.name for entry in library.browse("here")]
    assert len(library.get("here").run.traces) == 1


def test_a_small_file_that_expands_hugely_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(base, "BELIEVED_BYTES", 1024 * 1024)
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b'{"traceEvents":[' + b" " * 16_000_000 + b"]}", 9))
    with pytest.raises(LimitExceeded, match=r"bomb.json.gz: expands to more than [\d,]+ bytes; decompress it yourself"):
        open_run([path])
    event = b'{"ph":"X","name":"a","ts":%d,"dur":1,"pid":1,"tid":1},'
    path.write_bytes(gzip.compress(b"[" + b"".join(event % (7 * at) for at in range(20_000)) + b"]", 9))
    assert len(open_run([path]).traces[0]) == 20_000  # 1.2 MB, expanded fifteen times or so
