"""Colours and the Plotly templates of the light and the dark theme: the only place a colour is named in Python."""

from __future__ import annotations

from typing import Any

from chakra_core.schema import Category

__all__ = ["CATEGORY_COLOURS", "RUN_COLOURS", "TIME_COLOURS", "TONES", "category_colour", "template"]

CATEGORY_COLOURS: dict[Category, str] = {
    Category.GEMM: "#3b6fd4",
    Category.ATTENTION: "#7b57d1",
    Category.CONVOLUTION: "#1f9bb8",
    Category.NORMALISATION: "#2ba37a",
    Category.ELEMENTWISE: "#7fae3a",
    Category.REDUCTION: "#b3a125",
    Category.EMBEDDING: "#c77dbb",
    Category.COPY: "#d9822b",
    Category.MEMSET: "#a8763e",
    Category.COMMUNICATION: "#d1495b",
    Category.HOST_OP: "#6b8cae",
    Category.RUNTIME: "#9a86b8",
    Category.ANNOTATION: "#b9bec6",
    Category.PYTHON: "#8fb8a8",
    Category.OTHER: "#8a9099",
}
"""One colour per category, readable on both backgrounds (as fill, beside a label)."""

TIME_COLOURS: dict[str, str] = {
    "compute": "#3b6fd4",
    "exposed_comm": "#d1495b",
    "exposed_memory": "#d9822b",
    "idle": "#b9bec6",
    "overlap": "#7b57d1",
}
"""Colours of the parts of the time breakdown."""

RUN_COLOURS: tuple[str, ...] = ("#3b6fd4", "#d9822b", "#2ba37a", "#d1495b", "#7b57d1", "#1f9bb8")
"""Colour of the n-th run in a comparison."""

TONES: dict[str, dict[str, str]] = {
    "light": {
        "paper": "#ffffff", "plot": "#ffffff", "ink": "#1c232d", "muted": "#5d6775", "grid": "#e6e9ee",
        "line": "#c9ced6", "accent": "#2f62c8", "warn": "#b35c00", "bad": "#b3263a", "good": "#1d7d56",
    },
    "dark": {
        "paper": "#1b2028", "plot": "#1b2028", "ink": "#e7eaf0", "muted": "#9aa5b4", "grid": "#2c343f",
        "line": "#3d4754", "accent": "#7ba4ff", "warn": "#f0a04b", "bad": "#ff7a88", "good": "#5cc79a",
    },
}  # fmt: skip
"""Surface and text colours by theme; ``assets/theme.css`` has the same values as CSS variables."""


def category_colour(code: int) -> str:
    """Colour of a category code."""
    return CATEGORY_COLOURS[Category(code)]


def template(theme: str) -> dict[str, Any]:
    """Plotly layout defaults for ``light`` or ``dark``: pass as ``layout.template``."""
    tone = TONES[theme]
    axis = {
        "gridcolor": tone["grid"], "linecolor": tone["line"], "zerolinecolor": tone["line"],
        "tickfont": {"color": tone["muted"], "size": 11}, "title": {"font": {"color": tone["muted"], "size": 12}},
        "automargin": True,
    }  # fmt: skip
    return {
        "layout": {
            "paper_bgcolor": tone["paper"],
            "plot_bgcolor": tone["plot"],
            "font": {"family": "Inter, system-ui, sans-serif", "size": 12, "color": tone["ink"]},
            "xaxis": axis,
            "yaxis": axis,
            "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "font": {"size": 11}},
            "margin": {"l": 8, "r": 8, "t": 32, "b": 8},
            "hoverlabel": {"bgcolor": tone["paper"], "bordercolor": tone["line"], "font": {"color": tone["ink"]}},
            "colorway": list(RUN_COLOURS),
        }
    }
