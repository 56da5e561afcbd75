"""Graph kernels against networkx."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chakra_core import graph
from chakra_core.trace import Edges

NODES = 12
PAIRS = st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1)), max_size=40)
DURATIONS = st.lists(st.integers(0, 9), min_size=NODES, max_size=NODES)


def edges_of(pairs) -> Edges:
    sources, targets = np.array(pairs, np.int64).reshape(-1, 2).T
    return Edges.from_pairs(NODES, sources, targets, np.zeros(len(pairs), np.int8))


def to_networkx(edges: Edges) -> nx.DiGraph:
    oracle = nx.DiGraph()
    oracle.add_nodes_from(range(NODES))
    oracle.add_edges_from(zip(edges.sources.tolist(), edges.targets().tolist(), strict=True))
    return oracle


@given(PAIRS)
def test_breaking_cycles_leaves_an_acyclic_graph_and_only_cuts_cycles(pairs):
    edges = edges_of(pairs)
    broken, closing = graph.break_cycles(edges)
    oracle = to_networkx(edges)
    assert nx.is_directed_acyclic_graph(to_networkx(broken))
    assert len(broken) == len(edges) - closing.sum()
    cyclic = set().union(*(part for part in nx.strongly_connected_components(oracle) if len(part) > 1), set())
    loops = set(nx.nodes_with_selfloops(oracle))
    targets = edges.targets()
    for at in np.flatnonzero(closing).tolist():
        assert int(edges.sources[at]) in cyclic | loops
        assert int(targets[at]) in cyclic | loops
    if nx.is_directed_acyclic_graph(oracle):
        assert broken is edges


@given(PAIRS, DURATIONS)
def test_longest_path_and_slack(pairs, durations):
    edges, _ = graph.break_cycles(edges_of(pairs))
    weights = np.array(durations, np.int64)
    result = graph.longest_path(edges, weights)
    oracle = to_networkx(edges)
    for source, target in oracle.edges:
        oracle.edges[source, target]["weight"] = durations[source]
    best = {row: durations[row] for row in range(NODES)}
    for row in nx.topological_sort(oracle):
        for target in oracle.successors(row):
            best[target] = max(best[target], best[row] + durations[target])
    assert result.length_ns == max(best.values())
    assert sum(durations[row] for row in result.rows) == result.length_ns
    assert all(oracle.has_edge(a, b) for a, b in zip(result.rows[:-1], result.rows[1:], strict=True))
    assert (result.slack_ns >= 0).all()
    assert (result.slack_ns[result.rows] == 0).all()


@given(PAIRS, DURATIONS, st.integers(0, NODES - 1))
def test_slack_is_exactly_how_much_a_node_may_grow(pairs, durations, row):
    edges, _ = graph.break_cycles(edges_of(pairs))
    weights = np.array(durations, np.int64)
    result = graph.longest_path(edges, weights)
    grown = weights.copy()
    grown[row] += result.slack_ns[row]
    assert graph.longest_path(edges, grown).length_ns == result.length_ns
    grown[row] += 1
    assert graph.longest_path(edges, grown).length_ns == result.length_ns + 1


def test_a_cycle_is_refused():
    with pytest.raises(ValueError, match="cycle"):
        graph.longest_path(edges_of([(0, 1), (1, 0)]), np.ones(NODES, np.int64))


@given(PAIRS, st.integers(0, NODES - 1), st.integers(0, 4))
def test_neighbourhood(pairs, row, hops):
    edges = edges_of(pairs)
    oracle = to_networkx(edges)
    rows, cut = graph.neighbourhood(edges, row, hops, 100)
    after = nx.single_source_shortest_path_length(oracle, row, cutoff=hops)
    before = nx.single_source_shortest_path_length(oracle.reverse(), row, cutoff=hops)
    assert set(rows.tolist()) == set(after) | set(before)
    assert rows[0] == row
    assert not cut
    few, cut = graph.neighbourhood(edges, row, hops, 2)
    assert len(few) <= 2
    assert cut == (len(rows) > 2) or len(rows) == 2


@given(PAIRS, st.integers(0, NODES - 1), st.integers(0, NODES - 1))
def test_shortest_path(pairs, first, last):
    edges = edges_of(pairs)
    oracle = to_networkx(edges)
    rows = graph.shortest_path(edges, first, last).tolist()
    if nx.has_path(oracle, first, last):
        assert len(rows) == nx.shortest_path_length(oracle, first, last) + 1
        assert (rows[0], rows[-1]) == (first, last)
        assert all(oracle.has_edge(a, b) for a, b in itertools.pairwise(rows))
    else:
        assert rows == []


@given(PAIRS)
def test_reverse_is_the_same_as_sorting(pairs):
    edges = edges_of(pairs)
    fast, slow = graph.reverse(edges), edges.reversed()
    assert (fast.indptr == slow.indptr).all()
    assert (fast.sources == slow.sources).all()
