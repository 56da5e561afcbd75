"""Read, write ``.et``, read: the same graph, times and attributes, on every Chakra file and linked pair of the corpus."""

import numpy as np
import pytest

from chakra_core.opening import open_run, open_trace
from chakra_core.schema import COLUMNS, EdgeKind
from chakra_core.trace import Run
from chakra_core.writers.convert import convert
from tests.et_messages import parse

_CODES = ("name", "lane", "shape", "inputs", "comm_group", "parent")
_PAIRS = (
    "link/dlrm_v100_8",
    "link/linear_2080ti",
    "link/simple_add_a100",
    "collected/pytorch_2.13/single",
    "collected/pytorch_2.13/ddp4",
)


def same(before, after):
    """Compare node by node, by id where ids are unique."""
    ids = before.columns.id
    unique = len(np.unique(ids)) == len(ids)
    rows = np.argsort(ids, kind="stable") if unique else np.arange(len(ids))
    others = np.argsort(after.columns.id, kind="stable") if unique else np.arange(len(ids))
    for column in COLUMNS:
        if column.name not in _CODES:
            values = getattr(before.columns, column.name)[rows], getattr(after.columns, column.name)[others]
            if column.name == "comm_tag":  # readers of Chakra want one of every send and receive: 0 for none
                values = np.maximum(values[0], 0), np.maximum(values[1], 0)
            assert np.array_equal(*values), column.name
    for name, listed in (("name", "names"), ("lane", "lanes"), ("shape", "shapes")):
        texts = [
            [getattr(trace, listed)[at] if at >= 0 else None for at in getattr(trace.columns, name)[order].tolist()]
            for trace, order in ((before, rows), (after, others))
        ]
        assert texts[0] == texts[1], name
    assert relations(before) == relations(after)
    for row, other in list(zip(rows.tolist(), others.tolist(), strict=True))[::53]:
        found, said = after.attributes_of(other), before.attributes_of(row)
        lost = {key for key, value in said.items() if key not in found and value is not None}
        assert not lost - {"inputs", "ctrl_deps", "data_deps", "parent"}, lost


def relations(trace):
    """Edges with their kind, parents and process groups, by id."""
    ids = trace.columns.id
    sources, targets = ids[trace.edges.sources].tolist(), ids[trace.edges.targets()].tolist()
    edges = sorted(zip(sources, targets, trace.edges.kinds.tolist(), strict=True))
    called = np.flatnonzero(trace.columns.parent >= 0)
    parents = sorted(zip(ids[called].tolist(), ids[trace.columns.parent[called]].tolist(), strict=True))
    grouped = np.flatnonzero(trace.columns.comm_group >= 0)
    groups = sorted((int(ids[row]), trace.meta.groups[trace.columns.comm_group[row]].name) for row in grouped.tolist())
    return edges, parents, groups


def back(trace, folder, name):
    (path,) = convert(Run((trace,), name), folder / name, purpose="archive").files
    _, nodes = parse(path.read_bytes())
    place = {node.id: at for at, node in enumerate(nodes)}
    if len(place) == len(nodes) and all(kind != EdgeKind.INTER_THREAD for kind in trace.edges.kinds.tolist()):
        order = [
            place[dep] < at
            for at, node in enumerate(nodes)
            for dep in [*node.data_deps, *node.ctrl_deps]
            if dep in place
        ]
        assert sum(order) >= 0.98 * len(order)  # but for cycles
    micros = {node.id: node.duration_micros for node in nodes}
    exact = dict(zip(trace.columns.id.tolist(), trace.columns.dur_ns.tolist(), strict=True))
    assert all(abs(micros[key] * 1000 - ns) <= 500 for key, ns in exact.items()) or len(place) < len(nodes)
    (found,) = open_trace(path)
    return found


def test_every_chakra_file(corpus, tmp_path):
    files = sorted((corpus / "chakra_et").rglob("*.et"))
    files = [
        path
        for at, path in enumerate(files)
        if path.stat().st_size < 1_000_000 and (at % 3 == 0 or "unit" in str(path) or "all_types" in str(path))
    ]
    assert files
    for at, path in enumerate(files):
        (trace,) = open_trace(path)
        if trace.columns.kind.any():
            same(trace, back(trace, tmp_path, f"f{at}"))


@pytest.mark.parametrize("pair", _PAIRS)
def test_every_linked_pair(corpus, tmp_path, pair):
    run = open_run([corpus / pair])
    for trace in run.traces[:2]:
        same(trace, back(trace, tmp_path, "t"))
