"""Traces inside tar and zip archives, and archives made to do harm."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from pathlib import Path

import pytest

from chakra_core.errors import CorruptTrace, LimitExceeded, UnknownFormat
from chakra_core.opening import discover, open_run, open_trace
from chakra_core.readers._archive import read_archive
from chakra_core.readers.base import Source
from chakra_core.writers.chakra_et import write_et
from tests.builder import make_trace, node

KINETO = json.dumps(
    {
        "traceEvents": [
            {"ph": "X", "name": "op", "cat": "cpu_op", "pid": 1, "tid": 1, "ts": 5, "dur": 2, "args": {"k": 7}}
        ]
    }
).encode()


def tar(path: Path, members: dict[str, bytes], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def zipped(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def ranks(folder: Path) -> dict[str, bytes]:
    found = {}
    for rank in range(2):
        target = folder / f"w.{rank}.et"
        write_et(make_trace([node("gemm", 0, 10 + rank)]), target)
        found[f"run/{target.name}"] = target.read_bytes()
        target.unlink()
    return found


@pytest.mark.parametrize("suffix", ["tar", "tar.gz", "tar.xz", "zip"])
def test_members_that_are_traces_open_as_ranks(tmp_path: Path, suffix: str):
    members = {"run/notes.txt": b"no trace", "run/": b"", **ranks(tmp_path)}
    members.pop("run/")
    path = tmp_path / f"all.{suffix}"
    if suffix == "zip":
        zipped(path, members)
    else:
        tar(path, members, "w:" + suffix.partition(".")[2])
    run = open_run([path])
    assert run.ranks == (0, 1)
    assert [trace.columns.dur_ns.tolist() for trace in run.traces] == [[10], [11]]
    assert run.traces[1].meta.path == str(path / "run/w.1.et")
    assert [found.label for found in discover(tmp_path)] == [path.name]


@pytest.mark.parametrize("make", [tar, zipped])
def test_attributes_outlive_the_unpacking(tmp_path: Path, make):
    (trace,) = open_trace(make(tmp_path / "a.archive", {"kineto.json": KINETO}))
    assert trace.attributes_of(0)["k"] == 7


def test_names_and_links_lead_nowhere(tmp_path: Path):
    (tmp_path / "secret.json").write_bytes(KINETO)
    path = tmp_path / "evil.tar"
    with tarfile.open(path, "w") as archive:
        link = tarfile.TarInfo("link.json")
        link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path / "secret.json")
        archive.addfile(link)
        for name in ("../../../escape.json", "/etc/escape.json", ".."):
            info = tarfile.TarInfo(name)
            info.size = len(KINETO)
            archive.addfile(info, io.BytesIO(KINETO))
    assert len(open_trace(path)) == 2
    assert not list(tmp_path.parent.rglob("escape.json"))


def test_bombs_and_damage(tmp_path: Path):
    bomb = zipped(tmp_path / "bomb.zip", {"a.json": b" " * 50_000_000})
    with pytest.raises(LimitExceeded, match=r"bomb\.zip: expands"):
        read_archive(Source(bomb, max_expanded=1_000_000))
    many = zipped(tmp_path / "many.zip", {f"{at}.txt": b"" for at in range(10_001)})
    with pytest.raises(LimitExceeded, match="more than 10,000 members"):
        open_trace(many)
    with pytest.raises(UnknownFormat, match=r"none\.zip: no file in the archive"):
        open_trace(zipped(tmp_path / "none.zip", {"a.txt": b"text"}))
    (tmp_path / "cut.zip").write_bytes(bomb.read_bytes()[:1000])
    with pytest.raises(CorruptTrace, match=r"cut\.zip: the archive is damaged"):
        open_trace(tmp_path / "cut.zip")
    whole = tar(tmp_path / "x.tar", {"a.json": KINETO, "b.json": KINETO * 100}, "w").read_bytes()
    (tmp_path / "half.tar").write_bytes(whole[:4000])
    (trace,) = open_trace(tmp_path / "half.tar")
    assert "truncated" in {finding.code for finding in trace.health}
    with pytest.raises(CorruptTrace, match=r"b\.zip/inner\.xplane\.pb"):
        open_trace(zipped(tmp_path / "b.zip", {"inner.xplane.pb": b"\n\x05\x12\x20/host:CPU\xff\xff"}))
