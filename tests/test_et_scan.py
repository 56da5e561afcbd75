"""The compiled scanner of Chakra files gives what protobuf gives: on real files, on every wire form, on damage."""

from __future__ import annotations

import gzip
import os
import random
from pathlib import Path

import numpy as np
import pytest
import zstandard

from chakra_core.errors import ChakraError, LimitExceeded
from chakra_core.readers import _et_columns
from chakra_core.readers._et_edges import rows_of
from chakra_core.readers.base import Source
from chakra_core.readers.chakra_et import ChakraEtReader
from chakra_core.readers.proto import chakra_v1_pb2 as v1
from chakra_core.samples import samples_root
from chakra_core.schema import COLUMNS, NO_TIME, EdgeKind
from chakra_core.trace import Trace
from tests import et_messages
from tests.test_readers_chakra import attribute, frame, sample, varint

FAST = ChakraEtReader(scan_from=0)
SLOW = ChakraEtReader(scan_from=2**62)
META = v1.GlobalMetadata(version=b"0.0.4").SerializeToString()


def outcome(reader: ChakraEtReader, path: Path) -> Trace | str:
    try:
        return reader.read(Source(path))[0]
    except ChakraError as error:
        return str(error)


def same(path: Path) -> Trace | str:
    """Read by both ways, insist that nothing differs, and give what the scanner made."""
    fast, slow = outcome(FAST, path), outcome(SLOW, path)
    if isinstance(fast, str) or isinstance(slow, str):
        assert fast == slow
        return fast
    for column in COLUMNS:
        assert np.array_equal(getattr(fast.columns, column.name), getattr(slow.columns, column.name)), column.name
    for name in ("indptr", "sources", "kinds"):
        assert np.array_equal(getattr(fast.edges, name), getattr(slow.edges, name)), name
    for name in ("names", "shapes", "lanes", "meta", "health"):
        assert getattr(fast, name) == getattr(slow, name), name
    for row in range(0, len(fast), max(1, len(fast) // 8)):
        assert repr(fast.attributes_of(row)) == repr(slow.attributes_of(row))
    return fast


def both(folder: Path, content: bytes, name: str = "t.0.et") -> Trace:
    path = folder / name
    path.write_bytes(content)
    trace = same(path)
    assert isinstance(trace, Trace), trace
    return trace


def test_both_ways_are_equal_on_every_corpus_file(corpus: Path):
    files = sorted((corpus / "chakra_et").rglob("*.e[tg]"))
    assert len(files) > 100
    for path in files:
        assert isinstance(same(path), Trace), path


def test_edges_of_a_real_file_against_an_independent_walk(corpus: Path):
    path = corpus / "chakra_et" / "pytorch_1.1.0_11347nodes.et"
    (trace,) = FAST.read(Source(path))
    _, nodes = et_messages.parse(path.read_bytes())
    ids = {node.id for node in nodes}
    for name, kind in (("data_deps", EdgeKind.DATA), ("ctrl_deps", EdgeKind.CONTROL)):
        expected = [
            (dep, node.id) for node in nodes for dep in getattr(node, name) if dep in ids and dep != node.id
        ]  # fmt: skip
        here = trace.edges.kinds == kind
        found = zip(
            trace.columns.id[trace.edges.sources[here]].tolist(),
            trace.columns.id[trace.edges.targets()[here]].tolist(),
            strict=True,
        )
        assert sorted(found) == sorted(expected), name


def test_small_buffers_and_batches_change_nothing(corpus: Path, monkeypatch: pytest.MonkeyPatch):
    path = corpus / "chakra_et" / "pytorch_1.1.0_11347nodes.et"
    monkeypatch.setattr(_et_columns, "_BUFFER", 70_000)
    monkeypatch.setattr(_et_columns, "_ROWS", 97)
    monkeypatch.setattr(_et_columns, "_DEPS", 64)
    assert len(same(path)) == 11_347


def test_a_record_larger_than_the_buffer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_et_columns, "_BUFFER", 70_000)
    monkeypatch.setattr(_et_columns, "_DEPS", 64)
    meta = v1.GlobalMetadata(version=b"0.0.4")
    attribute(meta, "long", string_val=b"y" * 300_000)
    large = v1.Node(id=1, name=b"x" * 300_000, type=4, data_deps=[2] * 50_000)
    large.inputs.shapes = b"[[1, 2]]" + b" " * 200_000
    small = v1.Node(id=2, name=b"small", type=4)
    records = [meta.SerializeToString(), *(node.SerializeToString() for node in (large, small, large))]
    trace = both(tmp_path, frame(*records))
    assert (len(trace), len(trace.edges)) == (3, 100_000)
    packed = tmp_path / "large.et.gz"
    packed.write_bytes(gzip.compress(frame(*records)))
    assert len(same(packed)) == 3


@pytest.mark.parametrize(("suffix", "pack"), [("gz", gzip.compress), ("zst", zstandard.compress)])
def test_compressed_files(corpus: Path, tmp_path: Path, suffix: str, pack):
    content = (corpus / "chakra_et" / "derived_dlrm_v100_8rank" / "dlrm.0.et").read_bytes()
    path = tmp_path / f"dlrm.0.et.{suffix}"
    path.write_bytes(pack(content))
    trace = same(path)
    assert len(trace) == 1131
    assert trace.meta.rank == 0
    path.write_bytes(pack(content)[:-20_000])
    trace = same(path)
    assert 0 < len(trace) < 1131
    (finding,) = [finding for finding in trace.health if finding.code == "truncated"]
    assert ("compressed" if suffix == "gz" else "inside a record") in finding.message  # zstd just stops


MEMBERS = {
    "double_val": (2.0, 2), "float_val": (2.5, -1), "int32_val": (-7, -7), "int64_val": (-7, -7), "uint32_val": (2**32 - 1, 2**32 - 1),
    "uint64_val": (2**64 - 1, -1), "sint32_val": (-2**31, -2**31), "sint64_val": (-5, -5), "fixed32_val": (2**32 - 1, 2**32 - 1),
    "fixed64_val": (2**63, -1), "sfixed32_val": (-3, -3), "sfixed64_val": (-2**62, -2**62), "bool_val": (True, 1),
    "string_val": (b"9", -1), "bytes_val": (b"9", -1),
}  # fmt: skip


@pytest.mark.parametrize("member", MEMBERS)
def test_every_type_of_value_where_a_column_is_read(tmp_path: Path, member: str):
    value, column = MEMBERS[member]
    node = v1.Node(id=1, name=b"a", type=4)
    attribute(node, "num_ops", **{member: value})
    attribute(node, "pg_name", **{member: value})
    other = v1.Node(id=2, name=b"b", type=4)
    trace = both(tmp_path, frame(META, node.SerializeToString(), other.SerializeToString()))
    assert trace.columns.flops.tolist() == [column, -1]
    stated = value.decode() if isinstance(value, bytes) else str(value)
    assert [group.name for group in trace.meta.groups] == [stated]


@pytest.mark.parametrize("member", [name.replace("_val", "_list") for name in MEMBERS])
def test_every_type_of_list_where_a_column_is_read(tmp_path: Path, member: str):
    entries = [MEMBERS[member.replace("_list", "_val")][0]] * 2
    node = v1.Node(id=1, name=b"a", type=4, ctrl_deps=[2, 2])
    for name in ("num_ops", "category", "dep_kinds"):
        getattr(node.attr.add(name=name.encode()), member).values.extend(entries)
    other = v1.Node(id=2, name=b"b", type=4)
    trace = both(tmp_path, frame(META, node.SerializeToString(), other.SerializeToString()))
    assert trace.columns.flops.tolist() == [-1, -1]


def field(number: int, wire: int, content: bytes) -> bytes:
    return varint(number << 3 | wire) + (varint(len(content)) if wire == 2 else b"") + content


NEGATIVE = varint(2**64 - 4)
BASE = v1.Node(id=1, name=b"a", type=4).SerializeToString()
INT = field(1, 2, b"num_ops") + field(9, 0, varint(64))
STRANGE = {
    "negative type in ten bytes": field(3, 0, NEGATIVE),
    "type beyond 32 bits": field(3, 0, varint(2**35 + 4)),
    "dependencies one by one": field(4, 0, b"\x01") + field(5, 0, b"\x02") + field(5, 0, b"\x03"),
    "dependencies both ways": field(5, 2, b"\x01\x02") + field(5, 0, b"\x03") + field(5, 2, b""),
    "dependency of 2**64 - 1": field(5, 2, varint(2**64 - 1)),
    "number too long by a bit": field(6, 0, b"\xff" * 9 + b"\x02"),
    "number of eleven bytes": field(6, 0, b"\xff" * 10 + b"\x01"),
    "number with needless zeros": field(7, 0, b"\x85\x80\x80\x00"),
    "packed numbers that end early": field(5, 2, b"\x01\x82"),
    "name twice": field(2, 2, b"second"),
    "name that is not UTF-8": field(2, 2, b"\xff\xfe"),
    "name as a number": field(2, 0, b"\x05"),
    "id as text": field(1, 2, b"5"),
    "inputs in two parts": field(8, 2, field(2, 2, b"[[3]]")) + field(8, 2, field(3, 2, b"['Tensor(float)']")),
    "inputs without types": field(8, 2, field(2, 2, b"[[3, 4]]")),
    "inputs that say nothing": field(8, 2, field(2, 2, b"[]") + field(3, 2, b"[]")),
    "damaged inputs": field(8, 2, b"\x12\x7f"),
    "damaged outputs": field(9, 2, b"\x0a\x7f"),
    "field 0": b"\x00\x01",
    "field 0 in a long tag": b"\x80\x00\x01",
    "largest field number": field(2**29 - 1, 0, b"\x01"),
    "tag beyond 32 bits": varint(2**35) + b"\x01",
    "unknown fields": field(99, 0, b"\x01") + field(98, 1, bytes(8)) + field(97, 5, bytes(4)) + field(96, 2, b"xyz"),
    "empty group": field(50, 3, b"") + field(50, 4, b""),
    "deep groups": field(50, 3, b"") * 90 + field(50, 4, b"") * 90,
    "too deep groups": field(50, 3, b"") * 5000 + field(50, 4, b"") * 5000,
    "group that does not end": field(50, 3, b""),
    "wire type 6": field(50, 6, b""),
    "length beyond the record": field(10, 2, b"x")[:-1],
    "huge length": varint(10 << 3 | 2) + varint(2**63),
    "attribute without name": field(10, 2, field(9, 0, b"\x05")),
    "attribute without value": field(10, 2, field(1, 2, b"num_ops")),
    "attribute twice": field(10, 2, INT) + field(10, 2, field(1, 2, b"num_ops") + field(9, 0, b"\x05")),
    "attribute taken back": field(10, 2, INT) + field(10, 2, field(1, 2, b"num_ops")),
    "value before name": field(10, 2, field(9, 0, b"\x07") + field(1, 2, b"num_ops")),
    "two values": field(10, 2, INT + field(29, 2, b"text")),
    "value of another wire type": field(10, 2, INT + field(9, 2, b"ab") + field(29, 0, b"\x01")),
    "smallest number": field(10, 2, field(1, 2, b"num_ops") + field(9, 0, varint(2**63))),
    "bool of many bits": field(10, 2, field(1, 2, b"is_cpu_op") + field(27, 0, varint(2**40))),
    "zigzag beyond 32 bits": field(10, 2, field(1, 2, b"num_ops") + field(15, 0, varint(2**34 + 3))),
    "damaged list": field(10, 2, field(1, 2, b"x") + field(4, 2, field(1, 2, b"1234567"))),
    "damaged packed list": field(10, 2, field(1, 2, b"x") + field(10, 2, field(1, 2, b"\x80"))),
    "list in two parts": field(4, 2, b"\x01\x02") + field(10, 2, field(1, 2, b"dep_kinds")
        + field(10, 2, field(1, 2, b"\x03")) + field(10, 2, field(1, 0, b"\x04"))),
    "kinds that do not exist": field(4, 2, b"\x01\x02") + field(10, 2, field(1, 2, b"dep_kinds") + field(10, 2, field(1, 2, b"\x03\x63"))),
    "process groups": field(2, 2, b"## process_group:init ##")
        + field(8, 2, field(1, 2, b"""['[{"pg_name": "7", "ranks": [0, 1]}]']""")),
}  # fmt: skip


@pytest.mark.parametrize("what", STRANGE)
def test_strange_records(tmp_path: Path, what: str):
    other = v1.Node(id=3, name=b"b", type=4).SerializeToString()
    trace = both(tmp_path, frame(META, BASE, BASE + STRANGE[what], other))
    assert trace.meta.events == 3
    assert len(trace) >= 2
    assert trace.columns.id[-1] == 3


def test_stated_kinds_of_dependencies(tmp_path: Path):
    node = v1.Node(id=2, name=b"b", type=4, ctrl_deps=[1, 3], data_deps=[1])
    attribute(node, "dep_kinds", int64_list=v1.Int64List(values=[EdgeKind.DATA, EdgeKind.LAUNCH, EdgeKind.STREAM]))
    other = v1.Node(id=3, name=b"c", type=4, ctrl_deps=[1])
    trace = both(tmp_path, frame(META, BASE, node.SerializeToString(), other.SerializeToString()))
    assert [kind.tolist() for _, kind in map(trace.edges.of, range(3))] == [
        [],
        [EdgeKind.DATA, EdgeKind.LAUNCH, EdgeKind.STREAM],
        [EdgeKind.CONTROL],
    ]


@pytest.mark.parametrize("tail", [b"\0" * 5, varint(2**31), varint(2**40), varint(2**62), b"\xff" * 20, b"\xff" * 3])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_strange_frames_between_and_after_records(tmp_path: Path, tail: bytes, pack):
    content = pack(b"".join([frame(META, BASE), b"\0\0", frame(BASE), tail]))
    assert len(both(tmp_path, content)) == 2


@pytest.mark.parametrize(
    "content", [b"", b"\0", b"\0\0", frame(META), frame(META)[:-1], frame(b"", BASE), b"\x80", b"\x7f"]
)
def test_files_of_almost_nothing(tmp_path: Path, content: bytes):
    path = tmp_path / "little.et"
    path.write_bytes(content)
    same(path)


def test_every_cut_is_equal(tmp_path: Path):
    whole = frame(*sample())
    path = tmp_path / "cut.et"
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        same(path)


def test_damage_at_random_is_equal(tmp_path: Path, corpus: Path):
    rng = random.Random(11)  # noqa: S311 - not for secrets
    stock = [frame(*sample())]
    stock += [path.read_bytes() for path in sorted((corpus / "chakra_et" / "derived_generator_all_types").glob("*.et"))]
    path = tmp_path / "damaged.0.et"
    for _ in range(500):
        content = bytearray(rng.choice(stock))
        at = rng.randrange(len(content))
        form = rng.randrange(4)
        if form == 0:
            content[at] ^= 1 << rng.randrange(8)
        elif form == 1:
            content[at] = rng.randrange(256)
        elif form == 2:
            del content[at : at + rng.randrange(1, 5)]
        else:
            content[at:at] = rng.randbytes(rng.randrange(1, 12))
        path.write_bytes(content)
        same(path)


def test_attributes_of_a_file_that_has_changed(tmp_path: Path):
    path = tmp_path / "t.0.et"
    path.write_bytes(frame(*sample()))
    (trace,) = FAST.read(Source(path))
    assert trace.attributes(6)["stream"] == 7
    path.write_bytes(b"\0")
    assert trace.attributes(6) == {}


@pytest.mark.parametrize("ids", [[3, 1, 3, 0], [2**64 - 1, 5, 2**40, 5], [0], []])
def test_rows_by_id(ids: list[int]):
    wanted = [0, 1, 2, 3, 4, 5, 6, 2**40, 2**63, 2**64 - 1]
    found = rows_of(np.array(ids, np.uint64), np.array(wanted, np.uint64))
    assert found.tolist() == [ids.index(number) if number in ids else -1 for number in wanted]


def test_times_beyond_reason(tmp_path: Path):
    first = v1.Node(id=1, name=b"a", type=4, start_time_micros=5, duration_micros=2**63)
    second = v1.Node(id=2, name=b"b", type=4, start_time_micros=2**63, duration_micros=1)
    third = v1.Node(id=3, name=b"c", type=4)
    attribute(third, "start_ns", int64_val=-(2**63) + 1)
    attribute(third, "dur_ns", int64_val=-4)
    trace = both(tmp_path, frame(META, *(node.SerializeToString() for node in (first, second, third))))
    assert trace.columns.start_ns.tolist() == [5_000, NO_TIME, NO_TIME]
    assert trace.columns.dur_ns.tolist() == [2**53, 1_000, 0]
    assert [(finding.code, finding.examples) for finding in trace.health] == [("implausible-time", (0, 1, 2))]


@pytest.mark.parametrize(
    "text", [b"[" * 200_000, b'[["a", 0, 0, "", Infinity, ""]]', b'[["a", 9, 0, "", 0, ""]]', b"{}", b"[1"]
)
def test_nonsense_in_the_metadata(tmp_path: Path, text: bytes):
    meta = v1.GlobalMetadata(version=b"1.0.0")
    for name in ("lanes", "process_groups", "rank", "world_size", "time_kind"):
        attribute(meta, name, string_val=text)
    trace = both(tmp_path, frame(meta.SerializeToString(), BASE))
    assert (len(trace), trace.lanes, trace.meta.groups, trace.meta.rank) == (1, (), (), 0)


def test_nonsense_beside_the_file(tmp_path: Path):
    node = v1.Node(id=1, name=b"a", type=7)
    attribute(node, "pg_name", string_val=b"1")
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "gone.json").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "deep.json").write_bytes(b"[" * 200_000)
    (tmp_path / "groups.json").write_text('{"1": [0, 4]}')
    trace = both(tmp_path, frame(META, node.SerializeToString()))
    assert [group.ranks for group in trace.meta.groups] == [(0, 4)]


@pytest.mark.parametrize("reader", [FAST, SLOW])
def test_the_cap_on_expansion_holds(tmp_path: Path, reader: ChakraEtReader):
    path = tmp_path / "bomb.et.gz"
    path.write_bytes(gzip.compress(frame(META, BASE) + bytes(1_000_000)))
    with pytest.raises(LimitExceeded, match=r"bomb\.et\.gz"):
        reader.read(Source(path, max_expanded=100_000))


def test_progress_is_told_and_may_cancel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_et_columns, "_BUFFER", 70_000)
    path = tmp_path / "t.0.et"
    path.write_bytes(frame(META) + frame(BASE) * 100_000)
    shares: list[float] = []
    FAST.read(Source(path, progress=lambda share, _: shares.append(share)))
    assert len(shares) > 3
    assert shares == sorted(shares)
    assert max(shares) <= 1

    def cancel(share: float, message: str) -> None:
        raise InterruptedError(share, message)

    with pytest.raises(InterruptedError):
        FAST.read(Source(path, progress=cancel))


def test_many_small_files_go_through_the_scanner_together():
    path = min((samples_root() / "transformer_dp2_tp4_simulated_h100").glob("*.et"))
    alone, together = (ChakraEtReader()._scans(Source(path, siblings=count)) for count in (1, 1000))
    assert (alone, together) == (False, True)
    assert isinstance(same(path), Trace)
