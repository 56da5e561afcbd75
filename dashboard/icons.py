"""The few icons of the shell: SVG paths on a grid of 24 by 24, shown through a CSS mask in the colour of the text."""

from __future__ import annotations

from urllib.parse import quote

from dash import html

__all__ = ["ICONS", "icon"]

ICONS: dict[str, str] = {
    "open": "M3 6h6l2 2h10v11H3z",
    "overview": "M4 4h7v9H4zM13 4h7v5h-7zM13 11h7v9h-7zM4 15h7v5H4z",
    "timeline": "M3 5h9v3H3zM8 10.5h12v3H8zM5 16h10v3H5z",
    "graph": "M5 5a2.5 2.5 0 1 1 0 .1M19 9a2.5 2.5 0 1 1 0 .1M8 19a2.5 2.5 0 1 1 0 .1M6.5 6.2l10 3M6 7l2.5 9.5M10 17.5l7.5-7",
    "findings": "M10.5 4a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13zM15.5 15.5L21 21M10.5 7.5v4M10.5 13.5v.5",
    "bottlenecks": "M4 4h4v4H4zM10 4h4v4h-4zM16 4h4v4h-4zM4 10h4v4H4zM10 10h4v4h-4zM16 10h4v4h-4zM4 16h4v4H4zM10 16h4v4h-4zM16 16h4v4h-4z",
    "critical-path": "M3 18h5v-5h4v-4h4V5h5M3 7h4M16 18h5",
    "launch": "M4 6h8M12 6v6M12 12l-3-3M12 12l3-3M8 16h13M8 20h9",
    "operators": "M4 6h16M4 12h11M4 18h6",
    "collectives": "M12 3v5M12 16v5M3 12h5M16 12h5M12 8a4 4 0 1 1 0 8 4 4 0 0 1 0-8zM6 6l3 3M15 15l3 3M18 6l-3 3M9 15l-3 3",
    "overlap": "M9 5a7 7 0 1 1 0 14A7 7 0 0 1 9 5zM15 5a7 7 0 1 1 0 14a7 7 0 0 1 0-14z",
    "memory": "M6 4h12v16H6zM9 4v4M12 4v4M15 4v4M6 14h12",
    "roofline": "M4 20L12 8h9M13 13h.5M8 17h.5M17 12h.5",
    "compare": "M4 5h7v14H4zM13 5h7v14h-7zM6.5 9h2M6.5 12h2M15.5 9h2M15.5 12h2M15.5 15h2",
    "codesign": "M4 7h6M14 7h6M12 5v4M4 12h2M10 12h10M8 10v4M4 17h10M18 17h2M16 15v4",
    "sun": "M12 8a4 4 0 1 1 0 8 4 4 0 0 1 0-8zM12 2v3M12 19v3M2 12h3M19 12h3M5 5l2 2M17 17l2 2M19 5l-2 2M7 17l-2 2",
    "close": "M6 6l12 12M18 6L6 18",
    "plus": "M12 5v14M5 12h14",
    "file": "M6 3h8l4 4v14H6zM14 3v4h4",
    "dot": "M12 10a2 2 0 1 1 0 4 2 2 0 0 1 0-4z",
    "export": "M12 3v11M7.5 9.5L12 14l4.5-4.5M4 16v4h16v-4",
    "panel": "M3 5h18v14H3zM15 5v14",
}
_FILLED = frozenset({"overview", "timeline", "bottlenecks"})


def icon(name: str, size: int = 18) -> html.Span:
    """An icon in the colour of the text around it; a dot where there is none of that name."""
    name = name if name in ICONS else "dot"
    paint = "fill='black'" if name in _FILLED else "fill='none' stroke='black' stroke-width='1.8'"
    svg = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24'><path d='{ICONS[name]}' {paint}/></svg>"
    mask = f'url("data:image/svg+xml,{quote(svg)}")'
    style = {"width": f"{size}px", "height": f"{size}px", "maskImage": mask, "WebkitMaskImage": mask}
    return html.Span(className="ck-icon", style=style, **{"aria-hidden": "true"})
