"""The pages Collectives and Memory, in process: what they show, what they say where nothing applies, and their figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from plotly.io.json import to_json_plotly

from chakra_core.analysis.collectives import collectives, message_sizes
from chakra_core.analysis.copies import copies
from chakra_core.analysis.memory import memory
from chakra_core.schema import Category, CommOp
from chakra_core.trace import ProcessGroup, Trace
from dashboard.figures.collectives import bandwidth_scatter, exposed_bars, size_histogram
from dashboard.figures.memory import MOST_POINTS, copy_bars, memory_curve
from dashboard.later import parts
from dashboard.library import Library
from dashboard.page import Context
from dashboard.pages.collectives import PAGE as COLLECTIVES
from dashboard.pages.memory import PAGE as MEMORY
from dashboard.state import ViewState
from tests.builder import make_trace, node
from tests.runs import write_runs
from tests.test_memory import events_of, kineto

REFS = ("built/host.et", "built/ranks", "built/memory.json")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    root = tmp_path_factory.mktemp("built")
    write_runs(root)
    kineto(root)
    library = Library({"built": root})
    for ref in REFS:
        library.get(ref)
    return library


def whole(library: Library, page, ref: str, scope: str = "") -> str:
    state = ViewState(page.slug, (ref,), scope=scope)
    context = Context(library, (library.get(ref),), state)
    if page.prepare is not None:
        page.prepare(context.runs[0])
    return str(to_json_plotly([page.layout(context), *parts(page, context)]))


def test_collectives_of_ranks(library: Library):
    text = whole(library, COLLECTIVES, "built/ranks")
    assert '"op":"all-reduce"' in text
    assert '"members":2' in text
    assert "rank 0 of 2" in text
    assert "Exposed and hidden time" in text
    assert "rank 1 of 2" in whole(library, COLLECTIVES, "built/ranks", "r1")
    assert "no communication lies in the chosen range" in whole(library, COLLECTIVES, "built/ranks", "t0-10")


def test_where_nothing_applies_there_are_words(library: Library):
    assert "the trace records no communication" in whole(library, COLLECTIVES, "built/host.et")
    text = whole(library, MEMORY, "built/host.et")
    assert "the trace records no allocations" in text
    assert "records no device work, so no copies" in text


def test_memory_of_a_profile(library: Library):
    text = whole(library, MEMORY, "built/memory.json")
    assert "Allocated over time: cuda:0" in text
    assert '"name":"aten::mm"' in text
    assert '"nodes":"0.0.r0"' in text
    assert "nothing is allocated or freed in the chosen range" in whole(
        library, MEMORY, "built/memory.json", "t40000-40001"
    )


def sized(hardware: str = "NVIDIA H100 80GB HBM3") -> Trace:
    nodes = [
        node("c", 100 * at, 40 + at, "gpu:9", comm_op=op, comm_bytes=10 ** (at + 2), comm_group=0)
        for at, op in enumerate([CommOp.ALL_REDUCE, CommOp.ALL_REDUCE, CommOp.ALL_GATHER, CommOp.BROADCAST])
    ]
    trace = make_trace(nodes, groups=[ProcessGroup("0", (0, 1, 2, 3))])
    return trace.with_(meta=replace(trace.meta, hardware=hardware))


def test_bandwidth_under_the_links():
    result = collectives(sized())
    figure = bandwidth_scatter(result, "dark")
    assert figure.layout.xaxis.type == figure.layout.yaxis.type == "log"
    *marks, line = figure.data
    assert len(marks) == 2 * 3
    assert sorted(y for one in marks[::2] for y in one.y) == pytest.approx(sorted(result.busbw / 1e9))
    assert result.device is not None
    assert list(line.y) == pytest.approx([result.device.link_bandwidth / 1e9] * 2)
    low, high = figure.layout.yaxis.range
    assert all(10**low <= y <= 10**high for one in figure.data for y in one.y)
    assert len(bandwidth_scatter(collectives(sized("")), "light").data) == 2 * 3
    assert "no collective" in bandwidth_scatter(collectives(make_trace([node("k", 0, 1)]))).layout.annotations[0].text


@pytest.mark.parametrize("classes", [1, 500])
def test_figures_hold_one_and_many_classes(classes):
    nodes = [
        node("c", 10 * at, 5, "gpu:9", comm_op=CommOp.ALL_REDUCE, comm_bytes=at + 1, comm_group=0)
        for at in range(classes)
    ]
    result = collectives(make_trace(nodes, groups=[ProcessGroup("0", (0, 1))]))
    assert len(result) == classes
    histogram = size_histogram(message_sizes(result))
    assert sum(histogram.data[0].y) == classes
    assert len(histogram.layout.xaxis.ticktext) <= 8
    assert 1 <= len(bandwidth_scatter(result).layout.xaxis.ticktext) <= 8
    bars = exposed_bars(["a", "a"], [1, 0], [3, 4], "light")
    assert [list(one.x) for one in bars.data] == [[1, 0], [2, 4]]


def test_a_long_curve_keeps_its_peak():
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 1000, 50_000)
    entries = [(at, int(value) if at % 2 == 0 else -int(sizes[at - 1]), at) for at, value in enumerate(sizes.tolist())]
    (curve,) = memory(make_trace([node("op", 0, 9, "main")]).with_(memory=events_of(entries))).curves
    figure = memory_curve(curve)
    assert len(figure.data[0].x) <= MOST_POINTS
    assert max(figure.data[0].customdata, key=lambda text: float(text.split()[0])) == f"{curve.peak_bytes:,} B"
    assert figure.data[-1].name == f"peak: {curve.peak_bytes:,} B"


def test_copies_beside_their_limit():
    nodes = [node("Memcpy HtoD (Pinned -> Device)", 0, 100, bytes_accessed=1000, category=Category.COPY)]
    trace = make_trace(nodes)
    found = copies(trace.with_(meta=replace(trace.meta, hardware="NVIDIA A100-SXM4-80GB")))
    figure = copy_bars(found)
    assert (list(figure.data[0].x), list(figure.data[0].text)) == ([31.25], ["10 of 32 GB/s"])
    bare = copy_bars(copies(trace))
    assert (list(bare.data[0].x), list(bare.data[0].text)) == ([10.0], ["10 GB/s, limit not known"])


def test_memory_is_drawn_of_the_corpus(corpus: Path):
    library = Library({"corpus": corpus})
    ref = "corpus/kineto/cross_hw/Falconsai_nsfw_image_detection__1016002.h100.json.gz"
    text = whole(library, MEMORY, ref)
    assert "Allocated over time: cuda:0" in text
    assert "from before the trace" in text
