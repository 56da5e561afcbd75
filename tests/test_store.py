"""The store: what is opened again is what was opened first, whatever happens to the folder meanwhile."""

from __future__ import annotations

import dataclasses
import functools
import json
import logging
import os
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

import chakra_core.opening
import chakra_core.readers
from chakra_core.lod import build
from chakra_core.opening import open_run
from chakra_core.readers.base import Source
from chakra_core.samples import samples_root
from chakra_core.schema import COLUMNS
from chakra_core.store import Store, default_folder
from chakra_core.store.blocks import Damaged, read_blocks, write_blocks
from chakra_core.trace import Run, Trace
from tests.builder import make_trace, node
from tests.conftest import ROOT, corpus_root

KINETO = "pytorch_ddp_gloo_4_ranks"


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "store", smallest=0)


def entries(store: Store) -> list[Path]:
    folder = store.folder / "entries"
    return sorted(folder.iterdir()) if folder.is_dir() else []


def put(entry: Path, content: bytes) -> None:
    """Other content in the place of an entry; the old one stays as it was where it is mapped."""
    entry.with_suffix(".other").write_bytes(content)
    entry.with_suffix(".other").replace(entry)


def assert_same(one: Run, two: Run, *, attributes: int = 3) -> None:
    assert (one.label, one.hardware, one.groups, one.health, one.assumptions) == (
        two.label, two.hardware, two.groups, two.health, two.assumptions
    )  # fmt: skip
    assert len(one.traces) == len(two.traces)
    for a, b in zip(one.traces, two.traces, strict=True):
        for column in COLUMNS:
            first, second = getattr(a.columns, column.name), getattr(b.columns, column.name)
            assert first.dtype == second.dtype
            assert np.array_equal(first, second)
        for name in ("indptr", "sources", "kinds"):
            assert np.array_equal(getattr(a.edges, name), getattr(b.edges, name))
            assert getattr(a.edges, name).dtype == getattr(b.edges, name).dtype
        assert (a.names, a.shapes, a.lanes, a.health) == (b.names, b.shapes, b.lanes, b.health)
        assert {**vars_of(a.meta)} == {**vars_of(b.meta)}
        assert (a.markers is None) == (b.markers is None)
        if a.markers is not None:
            for name in ("ts_ns", "name", "lane", "value"):
                assert np.array_equal(getattr(a.markers, name), getattr(b.markers, name), equal_nan=name == "value")
        for row in np.linspace(0, len(a) - 1, min(attributes, len(a))).astype(int).tolist():
            assert a.attributes_of(row) == b.attributes_of(row)


def vars_of(meta) -> dict:
    return {name: getattr(meta, name) for name in meta.__dataclass_fields__} | {"details": dict(meta.details)}


def sample_paths() -> list[Path]:
    return sorted(path for path in samples_root().iterdir() if path.is_dir())


@pytest.mark.parametrize("path", sample_paths(), ids=lambda path: path.name)
def test_a_sample_opens_again_as_it_was(store, path):
    first = store.open_run([path])
    again = store.open_run([path])
    assert len(entries(store)) == 1
    assert again is not first
    assert_same(open_run([path]), again, attributes=20)
    assert not again.traces[0].columns.start_ns.flags.writeable


CORPUS = (
    "kineto/compare_a100_v100/control_a100_rank3of8.json.gz", "kineto/multirank_v100_resnet18_2",
    "chakra_et/pytorch_1.1.0_11347nodes.et", "chakra_et/derived_stg_dp2_tp2_pp2", "chakra_et/legacy_0.0.3_unit",
    "chakra_json/feeder_small_chakra.0.json", "link/dlrm_v100_8/host", "flexflow/simulator_taskgraph_4dev_8layer.dot",
    "astrasim/workloads/Resnet50_DataParallel.txt", "chrome",
)  # fmt: skip


@pytest.mark.parametrize("name", CORPUS)
def test_the_corpus_opens_again_as_it_was(store, corpus, name):
    path = corpus / name
    paths = [min(path.iterdir())] if name == "chrome" else [path]
    store.open_run(paths)
    assert_same(open_run(paths), store.open_run(paths))


def xplanes() -> list[Path]:
    root = corpus_root()
    return sorted(root.rglob("*.xplane.pb"))[:3] if root else []


@pytest.mark.parametrize("path", xplanes(), ids=lambda path: path.name)
def test_profiles_of_tensorflow_and_jax(store, path):
    store.open_run([path])
    assert_same(open_run([path]), store.open_run([path]))


@pytest.mark.parametrize("name", ["ranks.tar", "ranks.tar.gz", "ranks.zip"])
def test_an_archive_opens_again_as_it_was(store, tmp_path, name):
    files = sorted((samples_root() / "transformer_dp2_tp4_simulated_h100").glob("*.et"))[:2]
    path = tmp_path / name
    if name.endswith(".zip"):
        with zipfile.ZipFile(path, "w") as archive:
            for file in files:
                archive.write(file, f"inner/{file.name}")
    else:
        with tarfile.open(path, "w:gz" if name.endswith("gz") else "w") as archive:
            for file in files:
                archive.add(file, f"inner/{file.name}")
    store.open_run([path])
    assert len(entries(store)) == 1
    again = store.open_run([path])
    assert again.traces[1].meta.path == f"{path}/inner/{files[1].name}"
    assert again.traces[1].attributes_of(7)
    assert_same(open_run([path]), again, attributes=9)


class _Backwards:
    """A format whose files hold two ranks, the last one first, and whose attributes cannot be kept."""

    name, description, suffixes = "backwards", "", ()

    def sniff(self, head: bytes, name: str) -> float:
        return float(head.startswith(b"backwards") and bool(name))

    def read(self, source: Source) -> list[Trace]:
        both = [make_trace([node("a", rank, 1)], rank=rank) for rank in (1, 0)]
        return [
            trace.with_(
                meta=dataclasses.replace(trace.meta, path=str(source.path)),
                attributes_of=functools.partial(lambda said, _row: {"rank": said}, trace.meta.rank),
            )
            for trace in both
        ]


def test_attributes_that_are_read_anew_are_those_of_the_rank(store, tmp_path, monkeypatch):
    monkeypatch.setattr(chakra_core.readers, "_plugins", lambda: (_Backwards(),))
    path = tmp_path / "two.ranks"
    path.write_text("backwards")
    store.open_run([path])
    assert [trace.attributes_of(0) for trace in store.open_run([path]).traces] == [{"rank": 0}, {"rank": 1}]


def test_changed_content_is_read_anew_and_a_copy_is_not(store, tmp_path):
    source = samples_root() / KINETO
    folder = tmp_path / KINETO
    shutil.copytree(source, folder)
    store.open_run([folder])
    moved = tmp_path / "elsewhere" / KINETO
    shutil.copytree(folder, moved)
    again = store.open_run([moved])
    assert len(entries(store)) == 1  # the same content under another path is the same entry
    assert Path(again.traces[0].meta.path).is_relative_to(moved)
    assert again.traces[0].attributes_of(5)
    victim = next(path for path in sorted(folder.rglob("*.gz")) if "kineto" in str(path))
    victim.unlink()
    fewer = store.open_run([folder])
    assert_same(open_run([folder]), fewer)
    assert len(entries(store)) == 2


def test_a_touched_file_with_the_same_times_but_other_bytes_is_noticed(store, tmp_path):
    path = tmp_path / "one.json"
    text = '{"traceEvents":[{"ph":"X","name":"%s","ts":1,"dur":2,"pid":1,"tid":1}]}'
    path.write_text(text % "aaaa")
    stat = path.stat()
    assert store.open_run([path]).traces[0].names == ("aaaa",)
    path.write_text(text % "bbbb")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert store.open_run([path]).traces[0].names == ("bbbb",)  # the inode's change time tells


def test_a_group_file_beside_the_traces_belongs_to_them(store, tmp_path, corpus):
    shutil.copytree(corpus / "chakra_et" / "derived_stg_dp2_tp2_pp2", tmp_path / "w")
    before = store.open_run([tmp_path / "w"])
    side = tmp_path / "w" / "workload.json"
    groups = json.loads(side.read_text())
    groups["1"] = [0, 1, 2]
    side.write_text(json.dumps(groups))
    after = store.open_run([tmp_path / "w"])
    assert {g.name: g.ranks for g in before.groups}["1"] == (0, 1)
    assert {g.name: g.ranks for g in after.groups}["1"] == (0, 1, 2)


@pytest.mark.parametrize("where", [0, 20, 40, 300, 5000, -1])
def test_a_damaged_entry_is_made_anew(store, where, caplog):
    path = samples_root() / KINETO
    good = store.open_run([path])
    (entry,) = entries(store)
    content = bytearray(entry.read_bytes())
    content[where] ^= 0xFF
    put(entry, bytes(content))
    with caplog.at_level(logging.WARNING):
        again = store.open_run([path])
    assert_same(good, again)
    assert "made anew" in caplog.text or where == -1  # the last byte may be padding
    assert_same(good, store.open_run([path]))


@pytest.mark.parametrize("size", [0, 1, 16, 31, 32, 1000])
def test_a_cut_entry_is_made_anew(store, size):
    path = samples_root() / KINETO
    good = store.open_run([path])
    (entry,) = entries(store)
    put(entry, entry.read_bytes()[:size])
    assert_same(good, store.open_run([path]))
    assert entries(store)[0].stat().st_size > 1000


def test_a_folder_that_cannot_be_written_only_costs_time(tmp_path, caplog):
    blocked = tmp_path / "a file"
    blocked.write_text("")
    store = Store(blocked / "store", smallest=0)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert len(store.open_run([samples_root() / KINETO]).traces) == 4
    assert caplog.text.count("nothing is kept") == 1


def test_the_least_recently_opened_go_first(tmp_path):
    sizes = Store(tmp_path / "sizes", smallest=0)
    paths = [path for path in sample_paths() if "simulated" in path.name or path.name == KINETO]
    for path in paths:
        sizes.open_run([path])
    total = sum(path.stat().st_size for path in entries(sizes))
    store = Store(tmp_path / "small", limit_bytes=total - 1, smallest=0)
    store.open_run([paths[0]])
    (first,) = entries(store)
    os.utime(first, (1, 1))
    for path in paths[1:]:
        store.open_run([path])
    assert first not in entries(store)
    assert 0 < sum(path.stat().st_size for path in entries(store)) <= total - 1


def test_layouts_are_kept_beside_their_run_only(store):
    path = samples_root() / KINETO
    built = []

    def make(run: Run):
        built.append(run)
        return tuple(build(trace) for trace in run.traces)

    first = store.layouts(store.open_run([path]), make)
    again = store.layouts(store.open_run([path]), make)
    assert len(built) == 1
    for one, two in zip(first, again, strict=True):
        assert one.lanes == two.lanes
        for name in ("row_ptr", "crowded", "node", "start", "dur", "category", "peaks", "levels", "mass"):
            assert np.array_equal(getattr(one, name), getattr(two, name))
    store.layouts(open_run([path]), make)  # a run from elsewhere (a projection, say) never meets these
    assert len(built) == 2


def test_small_files_are_not_kept(tmp_path):
    store = Store(tmp_path / "store")
    store.open_run([samples_root() / "pytorch_cpu_step" / "kineto.json.gz"])
    assert entries(store) == []


def test_a_first_opening_is_mapped_too(store):
    first = store.open_run([samples_root() / KINETO])
    base = first.traces[0].columns.start_ns
    while not isinstance(base, np.memmap) and base is not None:
        base = base.base
    assert isinstance(base, np.memmap)


def test_finding_reads_no_trace(store, tmp_path, monkeypatch):
    folder = tmp_path / "copy" / KINETO
    shutil.copytree(samples_root() / KINETO, folder)
    age(folder)
    assert store.find([folder]) is None
    first = store.open_run([folder])
    monkeypatch.setattr(chakra_core.opening, "open_trace", None)
    assert_same(first, store.find([folder]))
    next(folder.rglob("*.gz")).touch()  # hashing it again would be reading it
    assert store.find([folder]) is None


def age(folder: Path) -> None:
    """Wait until no file of a folder was changed in the last second."""
    time.sleep(max(0, 1.05 - (time.time() - max(path.stat().st_ctime for path in folder.rglob("*")))))


def test_a_file_that_was_just_written_is_hashed_again(store, tmp_path):
    path = tmp_path / "one.json"
    path.write_text('{"traceEvents":[{"ph":"X","name":"aaaa","ts":1,"dur":2,"pid":1,"tid":1}]}')
    store.open_run([path])
    assert not (store.folder / "files").is_dir()
    age(tmp_path)
    store.open_run([path])
    assert len(list((store.folder / "files").iterdir())) == 1


def test_a_file_written_to_while_it_is_read_is_not_kept(store, tmp_path, monkeypatch):
    path = tmp_path / "one.json"
    text = '{"traceEvents":[{"ph":"X","name":"%s","ts":1,"dur":2,"pid":1,"tid":1}]}'
    path.write_text(text % "aaaa")
    real = chakra_core.opening.open_files

    def slow(files, *args, **more):
        path.write_text(text % "longer than before")
        return real(files, *args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(chakra_core.opening, "open_files", slow)
        assert store.open_run([path]).traces[0].names == ("longer than before",)
    assert entries(store) == []
    path.write_text(text % "aaaa")
    assert store.open_run([path]).traces[0].names == ("aaaa",)


def test_two_processes_at_once(tmp_path):
    code = (
        "import sys; from pathlib import Path; from chakra_core.store import Store\n"
        "store = Store(Path(sys.argv[1]), smallest=0)\n"
        "for _ in range(4): print(sum(map(len, store.open_run([sys.argv[2]]).traces)))\n"
    )
    path = samples_root() / KINETO
    both = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "store"), str(path)], stdout=subprocess.PIPE, cwd=ROOT)
        for _ in range(2)
    ]  # fmt: skip
    expected = str(sum(map(len, open_run([path]).traces)))
    for process in both:
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        assert out.decode().split() == [expected] * 4
    leftovers = [entry for entry in (tmp_path / "store" / "entries").iterdir() if entry.name.startswith(".new-")]
    assert leftovers == []


def test_blocks_round_trip_and_refuse_objects(tmp_path):
    arrays = {"a": np.arange(6, dtype=np.int32).reshape(2, 3), "empty": np.zeros(0, np.float64), "b": np.array([True])}
    write_blocks(tmp_path / "x", {"k": ["v", 1, None]}, arrays)
    header, back = read_blocks(tmp_path / "x")
    assert header == {"k": ["v", 1, None]}
    for name, array in arrays.items():
        assert back[name].dtype == array.dtype
        assert np.array_equal(back[name], array)
        assert not back[name].flags.writeable
    with pytest.raises(ValueError, match="type object"):
        write_blocks(tmp_path / "y", {}, {"o": np.array([{}], object)})
    assert not (tmp_path / "y").exists()
    (tmp_path / "z").write_bytes(b"not an entry of the store, and long enough for a header")
    with pytest.raises(Damaged, match="not an entry"):
        read_blocks(tmp_path / "z")


def test_the_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("CHAKRA_STORE", str(tmp_path / "s"))
    assert default_folder() == tmp_path / "s"
    monkeypatch.delenv("CHAKRA_STORE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "c"))
    assert default_folder() == tmp_path / "c" / "chakra-dashboard"
