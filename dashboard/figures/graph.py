"""A picture of the graph as cytoscape elements and styles; positions come with it, the browser lays nothing out."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from chakra_core.graph_view import GraphView, ViewNode
from chakra_core.layered import layered
from chakra_core.schema import EdgeKind
from dashboard.theme import TONES, category_colour
from dashboard.words import duration, plain

__all__ = ["COLOURINGS", "EDGE_WORDS", "elements", "legend", "stylesheet"]

COLOURINGS: dict[str, str] = {"category": "kind of work", "duration": "duration", "slack": "slack"}
"""What colour can mean."""

EDGE_WORDS: dict[EdgeKind, str] = {
    EdgeKind.DATA: "data",
    EdgeKind.CONTROL: "control or call",
    EdgeKind.LAUNCH: "launch",
    EdgeKind.STREAM: "stream order",
    EdgeKind.SYNC: "synchronisation",
    EdgeKind.INTER_THREAD: "between threads",
}

_EDGE_STYLE: dict[EdgeKind, tuple[str, str]] = {
    EdgeKind.DATA: ("#5b7fb8", "solid"),
    EdgeKind.CONTROL: ("#9097a3", "dashed"),
    EdgeKind.LAUNCH: ("#c77d2e", "dotted"),
    EdgeKind.STREAM: ("#8aa39a", "solid"),
    EdgeKind.SYNC: ("#b3475d", "dashed"),
    EdgeKind.INTER_THREAD: ("#7b57d1", "dotted"),
}
_HEAT = ("#3f7fb5", "#5aa7a0", "#a9b356", "#e0a23c", "#d8673a", "#b3263a")
_LABEL = 24
"""Characters of a name; with bold ones of the widest usual font they fill a box of `_WIDTH`."""
_WIDTH = 190
_RANGE = re.compile(r"^([\d,]+ to [\d,]+ of [\d,]+) · (.*)$")


def elements(
    view: GraphView, *, colour: str = "category", selected: int = -1, marked: Mapping[int, int] | None = None
) -> list[dict[str, Any]]:
    """Nodes with their positions, then edges.

    Args:
        view: the picture.
        colour: one of ``COLOURINGS``.
        selected: row to highlight; -1 for none.
        marked: chosen nodes by key of the box that stands for them: how many; None for no choice.
    """
    spots = layered(
        [node.key for node in view.nodes], [(edge.source, edge.target) for edge in view.edges], dx=_WIDTH + 34.0
    )
    top = max((_value(node, colour) for node in view.nodes), default=0)
    made = [_box(node, spots[node.key], _colour(node, colour, top), selected, marked or {}) for node in view.nodes]
    made += [
        {
            "data": {
                "id": f"e{edge.source}-{edge.target}-{int(edge.kind)}",
                "source": f"n{edge.source}",
                "target": f"n{edge.target}",
                "label": f"{edge.count:,}" if edge.count > 1 else "",
                "width": 1.0 + min(math.log10(edge.count), 4.0),
            },
            "classes": f"edge-{edge.kind.name.lower()}",
        }
        for edge in view.edges
    ]
    return made


def _box(
    node: ViewNode, spot: tuple[float, float], colour: str, selected: int, marked: Mapping[int, int]
) -> dict[str, Any]:
    lines = _lines(node)
    if node.is_group and node.key in marked:
        lines.append(f"{marked[node.key]:,} of them chosen")
    classes = " ".join(
        part
        for part in (
            "group" if node.is_group else "leaf",
            "chosen" if not node.is_group and node.row == selected else "",
            "marked" if node.key in marked else "",
        )
        if part
    )
    return {
        "data": {
            "id": f"n{node.key}",
            "key": node.key,
            "row": node.row,
            "group": node.is_group,
            "label": "\n".join(lines),
            "height": 14 + 14 * len(lines),
            "colour": colour,
            **{f"fill_{theme}": _tint(colour, tone["plot"]) for theme, tone in TONES.items()},
        },
        "position": {"x": round(spot[0], 1), "y": round(spot[1], 1)},
        "classes": classes,
    }


def _tint(colour: str, ground: str) -> str:
    """A fifth of a colour on a background, opaque, so that no arrow shines through the words of a box."""
    parts = ((int(colour[at : at + 2], 16), int(ground[at : at + 2], 16)) for at in (1, 3, 5))
    return "#" + "".join(f"{round(0.2 * over + 0.8 * under):02x}" for over, under in parts)


def _lines(node: ViewNode) -> list[str]:
    """What a box says: its name (for a range of siblings, that of the first, and the range), then count and time."""
    name = plain(node.label, 200).replace("\n", " ")
    found = _RANGE.match(name)
    lines = [found[2], found[1]] if found else [name]
    limit = _LABEL - 3 if node.is_group else _LABEL
    if len(lines[0]) > limit:
        lines[0] = f"{lines[0][: limit - 9]}…{lines[0][-8:]}"
    if node.is_group:
        lines[0] = f"+ {lines[0]}"
    return [*lines, f"{node.rows:,} nodes · {duration(node.dur_ns)}" if node.rows > 1 else duration(node.dur_ns)]


def _value(node: ViewNode, colour: str) -> float:
    return float(max(node.slack_ns, 0)) if colour == "slack" else float(node.dur_ns)


def _colour(node: ViewNode, colour: str, top: float) -> str:
    if colour == "category":
        return category_colour(node.category)
    if colour == "slack" and node.slack_ns < 0:
        return "#8a9099"
    share = math.log1p(_value(node, colour)) / math.log1p(top) if top > 0 else 0.0
    share = 1.0 - share if colour == "slack" else share
    return _HEAT[min(int(share * len(_HEAT)), len(_HEAT) - 1)]


def stylesheet(theme: str = "light") -> list[dict[str, Any]]:
    """Styles of boxes and arrows."""
    tone = TONES[theme]
    styles: list[dict[str, Any]] = [
        {
            "selector": "node",
            "style": {
                "shape": "round-rectangle", "width": _WIDTH, "height": "data(height)", "background-color": f"data(fill_{theme})",
                "border-width": 1.5, "border-color": "data(colour)", "label": "data(label)", "color": tone["ink"],
                "font-size": 10.5, "font-family": "system-ui, sans-serif", "text-valign": "center", "text-halign": "center",
                "text-wrap": "wrap", "text-max-width": f"{_WIDTH - 8}px", "text-overflow-wrap": "anywhere", "line-height": 1.25, "min-zoomed-font-size": 5,
            },
        },
        {"selector": "node.group", "style": {"border-width": 2, "border-style": "double", "font-weight": 600}},
        {
            "selector": "node.marked",
            "style": {"border-width": 4, "border-style": "solid", "border-color": tone["warn"]},
        },
        {"selector": "node.chosen, node:selected", "style": {"border-width": 3, "border-style": "solid", "border-color": tone["accent"]}},
        {
            "selector": "edge",
            "style": {
                "curve-style": "bezier", "target-arrow-shape": "triangle", "arrow-scale": 0.8, "width": "data(width)",
                "label": "data(label)", "font-size": 9, "color": tone["muted"], "text-background-color": tone["plot"],
                "text-background-opacity": 0.8, "min-zoomed-font-size": 7, "opacity": 0.85,
            },
        },
    ]  # fmt: skip
    for kind, (colour, line) in _EDGE_STYLE.items():
        styles.append(
            {
                "selector": f".edge-{kind.name.lower()}",
                "style": {"line-color": colour, "target-arrow-color": colour, "line-style": line},
            }
        )
    return styles


def legend(view: GraphView, colour: str = "category") -> tuple[list[tuple[str, str]], list[tuple[str, str, str]]]:
    """What the colours of boxes mean, and (words, colour, line style) of the arrows in the picture."""
    if colour == "category":
        seen = sorted({node.category for node in view.nodes})
        boxes = [(category.label, category_colour(category)) for category in seen]
    elif colour == "slack":
        boxes = [("no slack: on the critical path", _HEAT[-1]), ("most slack", _HEAT[0])]
    else:
        boxes = [("longest", _HEAT[-1]), ("shortest", _HEAT[0])]
    kinds = sorted({edge.kind for edge in view.edges})
    return boxes, [(EDGE_WORDS[kind], *_EDGE_STYLE[kind]) for kind in kinds]
