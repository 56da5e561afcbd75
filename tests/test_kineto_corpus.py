"""Every trace-event file of the corpus opens, with the counts of the index."""

from __future__ import annotations

import gzip
import json
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from chakra_core.readers.base import Source
from chakra_core.readers.kineto import READER
from chakra_core.readers.xplane import READER as XPLANE
from chakra_core.schema import Category, CommOp, Domain, EdgeKind
from chakra_core.trace import Trace
from tests.conftest import corpus_root

_FOLDERS = ("kineto", "chrome", "link", "collected", "repro")
_ROW = re.compile(
    r"^\| (?P<path>\S+) \| \d+ \| (?P<format>kineto|chrome-trace)[^|]*\| (?P<n>\d+) \| (?P<kernels>\d+) \|",
    re.MULTILINE,
)
_KERNELS = ("kernel", "mtia_ccp_events")


def event_files() -> list[str]:
    root = corpus_root()
    if root is None:
        return []
    found = [path for folder in _FOLDERS for path in sorted((root / folder).rglob("*.json*"))]
    return [str(path.relative_to(root)) for path in found if READER.sniff(Source(path).head, path.name) > 0]


def load(path: Path):
    return READER.read(Source(path))[0]


def raw_events(path: Path, parse_float: type = float) -> list[dict] | None:
    """The events by Python's own JSON; None where the file is not valid JSON."""
    data = path.read_bytes()
    try:
        text = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
        document = json.loads(text, parse_float=parse_float)
    except ValueError:
        return None
    return document if isinstance(document, list) else document["traceEvents"]


@pytest.fixture(scope="module", params=event_files() or [None])
def opened(request):
    if request.param is None:
        pytest.skip("no corpus: set CHAKRA_CORPUS to a folder of real traces")
    path = corpus_root() / request.param
    return path, load(path)


def test_every_file_opens_with_all_its_events(opened):
    path, trace = opened
    events = raw_events(path)
    if events is None:
        assert (
            trace.meta.events
            == {"speedscope_simple-partial.json": 6, "truncated_kineto_166_kineto.json": 20}[path.name]
        )
        return
    assert trace.meta.events == len(events)
    slices = [event for event in events if event.get("ph") == "X"]
    begins = sum(event.get("ph") == "B" for event in events)
    assert len(trace) == len(slices) + begins
    kernels = [event for event in slices if str(event.get("cat", "")).lower() in _KERNELS]
    copies = [
        event
        for event in slices
        if str(event.get("cat", "")).lower() in ("gpu_memcpy", "gpu_memset", "memcpy", "memset")
    ]
    on_xla = [event for event in slices if {"hlo_op", "device_ordinal"} <= set(event.get("args") or {})]
    assert len(trace.device_rows) == len(kernels) + len(copies) + len(on_xla)
    c = trace.columns
    assert int(((c.category == Category.COPY) | (c.category == Category.MEMSET))[trace.device_rows].sum()) >= len(
        copies
    )


def test_times_are_exact_to_the_nanosecond(opened):
    path, trace = opened
    events = raw_events(path, str) or []
    base = trace.meta.details.get("baseTimeNanoseconds", 0)
    by_id = dict(zip(trace.columns.id.tolist(), range(len(trace)), strict=True))
    wanted = [(at, event) for at, event in enumerate(events) if event.get("ph") == "X"]
    for at, event in wanted[:: max(1, len(wanted) // 3000)]:
        row = by_id[at]
        assert trace.columns.start_ns[row] == base + nanoseconds(event["ts"])
        assert trace.columns.dur_ns[row] == nanoseconds(event.get("dur", 0))
        step = (event.get("args") or {}).get("step_num")  # JAX: markers bear the number of their step
        assert trace.name_of(row) == event.get("name", "") + (f" {step}" if step is not None else "")


def nanoseconds(value: object) -> int:
    """Microseconds as written to nanoseconds, halves up, without binary fractions."""
    return int(
        Fraction(str(value)) * 1000 + Fraction(1, 2) if Fraction(str(value)) >= 0 else Fraction(str(value)) * 1000
    )


def test_the_structure_is_sound(opened):
    _, trace = opened
    c, edges = trace.columns, trace.edges
    parent = c.parent
    rows = np.flatnonzero(parent >= 0)
    assert (parent[rows] != rows).all()
    host = rows[c.domain[rows] == Domain.HOST]
    assert (c.start_ns[parent[host]] <= c.start_ns[host]).all()
    assert (c.lane[parent[host]] == c.lane[host]).all()
    assert (c.lane >= 0).all()
    targets = edges.targets()
    launches = edges.kinds == EdgeKind.LAUNCH
    assert (c.domain[targets[launches]] == Domain.DEVICE).all()
    assert (c.domain[edges.sources[launches]] == Domain.HOST).all()
    others = ~launches
    assert (c.start_ns[edges.sources[others]] <= c.start_ns[targets[others]]).all()
    streams = edges.kinds == EdgeKind.STREAM
    ends = c.start_ns + c.dur_ns
    assert (ends[edges.sources[streams]] <= c.start_ns[targets[streams]]).all()
    assert len(set(trace.lanes)) == len(trace.lanes)


def test_unclassified_kernel_time_is_small(opened):
    path, trace = opened
    if (
        path.name == "a100_cuda_event_sync.json.gz"
        or path.parent.name == "repro"
        or path.name.startswith(("mtia", "train_step"))
    ):
        pytest.skip(
            "its kernels are a busy loop, invented names, or packets and fusions that do not say what they compute"
        )
    device = trace.device_rows
    total = int(trace.columns.dur_ns[device].sum())
    unknown = int(trace.columns.dur_ns[device][trace.columns.category[device] == Category.OTHER].sum())
    assert unknown <= 0.03 * total


def test_attributes_come_back_whole(opened):
    path, trace = opened
    events = raw_events(path)
    if not events:
        return
    for row in range(0, len(trace), max(1, len(trace) // 50)):
        event = events[int(trace.columns.id[row])]
        found = trace.attributes(int(trace.columns.id[row]))
        for key, value in (event.get("args") or {}).items():
            assert found.get(f"args.{key}", found.get(key)) == value
        assert found["ph"] == event["ph"]


def test_counts_of_the_index(corpus: Path):
    """Its n is the number of raw events; its GPU kernels are events of category kernel, without copies and memsets."""
    checked = 0
    for row in _ROW.finditer((corpus / "INDEX.md").read_text(encoding="utf-8")):
        path = corpus / row["path"]
        if not path.is_file():
            continue
        trace = load(path)
        assert trace.meta.events == int(row["n"]), path
        work = trace.columns
        kernels = int((~np.isin(work.category, (Category.COPY, Category.MEMSET)))[trace.device_rows].sum())
        assert kernels == int(row["kernels"]), path
        checked += 1
    assert checked == 30


@pytest.mark.parametrize("name", ["Falconsai_nsfw_image_detection__1016002", "Qwen_Qwen1.5-0.5B-Chat__1016005",
                                  "gaunernst_bert-small-uncased__1016001"])  # fmt: skip
@pytest.mark.parametrize("device", ["h100", "mi300x"])
def test_kernel_totals_against_exact_fractions(corpus: Path, name: str, device: str):
    path = corpus / "kineto" / "cross_hw" / f"{name}.{device}.json.gz"
    text = gzip.decompress(path.read_bytes()).decode()
    events = json.loads(text, parse_float=Fraction)["traceEvents"]
    exact = sum(Fraction(event["dur"]) for event in events if event.get("cat") == "kernel") * 1000
    trace = load(path)
    c = trace.columns
    kernels = trace.device_rows[~np.isin(c.category[trace.device_rows], (Category.COPY, Category.MEMSET))]
    assert int(c.dur_ns[kernels].sum()) == exact


def test_collectives_of_a_2024_trace(corpus: Path):
    trace = load(corpus / "kineto" / "a100_ddp_nccl_args_rank0of2.json.gz")
    c = trace.columns
    rows = np.flatnonzero(c.comm_op == CommOp.ALL_REDUCE)
    first = rows[np.argmin(c.start_ns[rows])]
    args = trace.attributes(int(c.id[first]))
    assert c.comm_bytes[first] == args["In msg nelems"] * 4
    group = trace.meta.groups[c.comm_group[first]]
    assert (group.name, group.ranks, group.description) == ("0", (0, 1), "default_pg")
    assert (trace.meta.rank, trace.meta.world_size) == (0, 2)


def test_collectives_of_a_2023_trace_come_from_the_annotation(corpus: Path):
    path = next((corpus / "link" / "dlrm_v100_8" / "device").glob("worker0_*"))
    trace = load(path)
    c = trace.columns
    rows = np.flatnonzero(c.comm_op == CommOp.ALL_REDUCE)
    assert sorted(c.comm_bytes[rows].tolist()) == [112 * 4, 226960 * 4, 394241 * 4]
    assert {finding.code: finding.count for finding in trace.health}["collective-group"] == 8


def test_what_the_index_calls_odd(corpus: Path):
    def count(path: str, code: str) -> int:
        trace = load(corpus / "kineto" / path)
        return {finding.code: finding.count for finding in trace.health}.get(code, 0)

    assert count("compare_a100_v100/control_a100_rank3of8.json.gz", "duplicate-events") == 643
    assert count("compare_a100_v100/control_a100_rank3of8.json.gz", "zero-duration") == 14685
    assert count("b200_vllm_eager_rank0of8.json.gz", "stream-overlap") == 74
    assert count("mi300x_vllm_decode_graph/graph_capture_rank_0.1773709742341309550.pt.trace.json.gz",
                 "partial-overlap") == 152  # fmt: skip
    folder = corpus / "kineto" / "multirank_v100_torchrec_4"
    early = sorted(count(str(path.relative_to(corpus / "kineto")), "kernel-before-launch") for path in folder.iterdir())
    assert early == [26, 64, 77, 113]


def test_synchronisation_leads_back_to_the_host(corpus: Path):
    """Stream sync after the memcpy, event sync of record 1533, device sync: three waits, by hand."""
    trace = load(corpus / "kineto" / "a100_cuda_event_sync.json.gz")
    edges = trace.edges
    sync = np.flatnonzero(edges.kinds == EdgeKind.SYNC)
    assert len(sync) == 2
    for at in sync.tolist():
        source, target = int(edges.sources[at]), int(edges.targets()[at])
        ends = int(trace.columns.start_ns[source] + trace.columns.dur_ns[source])
        assert trace.columns.domain[source] == Domain.DEVICE
        assert trace.columns.domain[target] == Domain.HOST
        assert ends <= trace.columns.start_ns[target]


def test_jax_json_and_xplane_of_one_run_agree_on_device_work(corpus: Path):
    folder = corpus / "collected/jax_0.10"
    (ours,) = READER.read(Source(folder / "train_step_4dev.trace.json.gz"))
    (plane,) = XPLANE.read(Source(folder / "train_step_4dev.xplane.pb"))

    def work(trace: Trace) -> list[tuple[str, int, int, int]]:
        c = trace.columns
        first = int(c.start_ns[trace.device_rows].min())
        return sorted(
            (trace.name_of(row), trace.lanes[c.lane[row]].device, int(c.comm_op[row]), round((int(c.start_ns[row]) - first) / 1e3))
            for row in trace.device_rows.tolist()
        )  # fmt: skip

    assert len(ours.device_rows) == 298
    assert [entry[:3] for entry in work(ours)] == [entry[:3] for entry in work(plane)]
    assert max(abs(one[3] - two[3]) for one, two in zip(work(ours), work(plane), strict=True)) <= 1
