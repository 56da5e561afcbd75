"""Dependencies of `.et` files by rows: the compiled merge against a plain loop, and the arrays that grow."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chakra_core.readers._et_edges import callers_of, edges_of
from chakra_core.readers._et_table import NodeTable, _ranked
from chakra_core.readers._growing import Growing
from chakra_core.schema import EdgeKind
from chakra_core.trace import HealthFinding

_IDS = st.integers(0, 12) | st.sampled_from([5000, 2**40, 2**64 - 1])
_NODES = st.lists(
    st.tuples(_IDS, st.lists(_IDS, max_size=4), st.lists(_IDS, max_size=4), st.lists(st.integers(-1, 9), max_size=6)),
    max_size=10,
)
_Nodes = list[tuple[int, list[int], list[int], list[int]]]


def _csr(lists: list[list[int]], dtype: Any) -> tuple[Any, Any]:
    ptr = np.cumsum([0, *map(len, lists)])
    return ptr, np.array([value for one in lists for value in one], dtype)


def _table(nodes: _Nodes) -> NodeTable:
    data_ptr, data = _csr([node[1] for node in nodes], np.uint64)
    ctrl_ptr, ctrl = _csr([node[2] for node in nodes], np.uint64)
    kinds_ptr, kinds = _csr([node[3] for node in nodes], np.int64)
    ids = np.array([node[0] for node in nodes], np.uint64)

    class Table(SimpleNamespace):
        def __len__(self) -> int:
            return len(ids)

    return cast("NodeTable", Table(
        id=ids, data_ptr=data_ptr, data=data, ctrl_ptr=ctrl_ptr, ctrl=ctrl, kinds_ptr=kinds_ptr, kinds=kinds
    ))  # fmt: skip


def _by_hand(nodes: _Nodes) -> tuple[list[list[tuple[int, int]]], dict[str, int]]:
    """Sources and kinds of each node, and how many findings of each kind, by a plain loop."""
    first: dict[int, int] = {}
    found = {"unresolved-dependency": 0, "self-dependency": 0, "duplicate-id": 0}
    for row, node in enumerate(nodes):
        found["duplicate-id"] += node[0] in first
        first.setdefault(node[0], row)
    edges: list[list[tuple[int, int]]] = []
    for row, (_, data, ctrl, stated) in enumerate(nodes):
        usual = [int(EdgeKind.DATA)] * len(data) + [int(EdgeKind.CONTROL)] * len(ctrl)
        believed = len(stated) == len(usual) and all(0 <= kind <= max(EdgeKind) for kind in stated)
        edges.append([])
        for wanted, kind in zip(data + ctrl, stated if believed else usual, strict=True):
            source = first.get(wanted, -1)
            found["unresolved-dependency"] += source < 0
            found["self-dependency"] += source == row
            if source not in (-1, row):
                edges[-1].append((source, kind))
    return edges, found


@given(_NODES)
def test_edges_against_a_plain_loop(nodes: _Nodes):
    health: list[HealthFinding] = []
    edges = edges_of(_table(nodes), health)
    expected, found = _by_hand(nodes)
    parts = [slice(edges.indptr[row], edges.indptr[row + 1]) for row in range(len(nodes))]
    assert [list(zip(edges.sources[at].tolist(), edges.kinds[at].tolist(), strict=True)) for at in parts] == expected
    assert {one.code: one.count for one in health} == {code: count for code, count in found.items() if count}


@given(_NODES, st.integers(0, 2**10 - 1))
def test_the_first_control_dependency_on_the_host_is_the_caller(nodes: _Nodes, mask: int):
    host = np.array([bool(mask >> row & 1) for row in range(len(nodes))], np.bool_)
    edges, _ = _by_hand(nodes)
    callers = [
        next((source for source, kind in sources if kind == EdgeKind.CONTROL and host[source]), -1) for sources in edges
    ]
    assert callers_of(edges_of(_table(nodes), []), host).tolist() == callers


@given(st.lists(st.integers(-20, 20) | st.sampled_from([-(2**40), 2**50])))
def test_ranks_of_values(values: list[int]):
    distinct, rank = _ranked(np.array(values, np.int64))
    assert distinct.tolist() == sorted(set(values))
    assert distinct[rank].tolist() == values


@given(st.lists(st.lists(st.integers(-9, 9)), max_size=8), st.integers(0, 5))
def test_an_array_grows_as_a_list_does(parts: list[list[int]], expected: int):
    growing, plain = Growing(np.int32, expected), list[int]()
    for at, part in enumerate(parts):
        growing.append(np.array(part, np.int32))
        growing.repeat(at, at % 3)
        plain += part + [at] * (at % 3)
    assert growing.done().tolist() == plain
    assert len(growing) == len(plain)
