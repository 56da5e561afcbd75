"""Layered layout of small graphs: dependencies run left to right, rows wrap like lines of text when they get long.

Layers by longest path, order within a layer by barycentres (Sugiyama, Tagawa, Toda, 1981). Deterministic.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from chakra_core.graph import break_cycles, topological_order
from chakra_core.trace import Edges

__all__ = ["layered"]

_SWEEPS = 4
_ASPECT = 1.7
_TALLEST = 24
"""Most boxes in a column; pictures of fewer boxes have lower ones, so that they fill a screen."""


def layered(
    nodes: Sequence[int], edges: Sequence[tuple[int, int]], *, dx: float = 190.0, dy: float = 62.0
) -> dict[int, tuple[float, float]]:
    """Centre of each node.

    Args:
        nodes: keys, in reading order.
        edges: ``(from, to)`` pairs of keys; cycles are broken where they close.
        dx: distance of layers.
        dy: distance of nodes within a layer.

    No two nodes are closer than ``dx`` or ``dy``.
    """
    if not nodes:
        return {}
    place = {key: at for at, key in enumerate(nodes)}
    pairs = np.array([(place[a], place[b]) for a, b in edges if a != b], np.int64).reshape(-1, 2)
    graph, _ = break_cycles(Edges.from_pairs(len(nodes), pairs[:, 0], pairs[:, 1], np.zeros(len(pairs), np.int8)))
    linked = np.zeros(len(nodes), np.bool_)
    linked[graph.sources] = linked[graph.targets()] = True
    layers = _layers(graph, linked)
    _reduce_crossings(layers, graph)
    spots = _wrap(layers, dx, dy)
    below = max((y for _, y in spots.values()), default=-dy) + 1.5 * dy if spots else 0.0
    loose = np.flatnonzero(~linked).tolist()
    across = max(1, round((len(loose) * _ASPECT * dy / dx) ** 0.5)) if not spots else max(1, _columns(spots, dx))
    for at, node in enumerate(loose):
        spots[node] = (dx * (at % across), below + dy * (at // across))
    return {nodes[at]: spot for at, spot in spots.items()}


def _columns(spots: dict[int, tuple[float, float]], dx: float) -> int:
    return round((max(x for x, _ in spots.values()) - min(x for x, _ in spots.values())) / dx) + 1


def _layers(graph: Edges, linked: np.ndarray) -> list[list[int]]:
    depth = np.zeros(len(linked), np.int64)
    for row in topological_order(graph).tolist():
        before, _ = graph.of(row)
        if len(before):
            depth[row] = int(depth[before].max()) + 1
    layers: dict[int, list[int]] = defaultdict(list)
    for row in np.flatnonzero(linked).tolist():
        layers[int(depth[row])].append(row)
    return [layers[level] for level in sorted(layers)]


def _reduce_crossings(layers: list[list[int]], graph: Edges) -> None:
    """Order each layer by the mean position of its neighbours in the layer before, then after, a few times."""
    after = graph.reversed()
    position = {row: float(at) for layer in layers for at, row in enumerate(layer)}
    for sweep in range(_SWEEPS):
        side = graph if sweep % 2 == 0 else after
        for layer in layers if sweep % 2 == 0 else layers[::-1]:
            keys = {}
            for row in layer:
                others = [position[int(other)] for other in side.of(row)[0] if int(other) in position]
                keys[row] = sum(others) / len(others) if others else position[row]
            layer.sort(key=lambda row: (keys[row], row))
            for at, row in enumerate(layer):
                position[row] = at - (len(layer) - 1) / 2


def _wrap(layers: list[list[int]], dx: float, dy: float) -> dict[int, tuple[float, float]]:
    """Place layers as columns, a tall one as several; a long run of columns is wrapped into bands of about the wanted aspect."""
    if not layers:
        return {}
    square = round((sum(map(len, layers)) * dx / dy / _ASPECT) ** 0.5)
    most = min(max(square, 8), _TALLEST)
    pieces = [layer[at : at + most] for layer in layers for at in range(0, len(layer), most)]
    tallest = max(map(len, pieces))
    per_band = max(6, round((len(pieces) * dy * (tallest + 1.5) * _ASPECT / dx) ** 0.5))
    spots: dict[int, tuple[float, float]] = {}
    top = 0.0
    for begin in range(0, len(pieces), per_band):
        band = pieces[begin : begin + per_band]
        height = max(map(len, band))
        for column, piece in enumerate(band):
            first = top + dy * (height - len(piece)) / 2
            for at, row in enumerate(piece):
                spots[row] = (dx * column, first + dy * at)
        top += dy * (height + 1.0)
    return spots
