"""A small picture of growth as SVG text: time and memory over the number of events, both axes logarithmic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

__all__ = ["Line", "growth_svg"]

_WIDTH, _HEIGHT, _LEFT, _TOP, _GAP = 880, 340, 64, 34, 84
_COLOURS = ("#3d6fd6", "#d0782a")


@dataclass(frozen=True, slots=True)
class Line:
    """One measured line: its name, the sizes, and the value at each of them."""

    name: str
    sizes: Sequence[float]
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class _Axis:
    low: float
    high: float
    begin: float
    end: float

    def at(self, value: float) -> float:
        share = (math.log10(value) - math.log10(self.low)) / (math.log10(self.high) - math.log10(self.low))
        return self.begin + share * (self.end - self.begin)

    def decades(self) -> list[float]:
        return [10.0**k for k in range(round(math.log10(self.low)), round(math.log10(self.high)) + 1)]


def growth_svg(panels: Sequence[tuple[str, Sequence[Line]]]) -> str:
    """Panels side by side, each with its title and lines; a dotted line per panel shows exact proportion."""
    width = (_WIDTH - _LEFT - (len(panels) - 1) * _GAP - 16) / len(panels)
    body = "".join(_panel(title, lines, _LEFT + at * (width + _GAP), width) for at, (title, lines) in enumerate(panels))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'font-family="system-ui, sans-serif" font-size="12" fill="#333">\n'
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>\n{body}</svg>\n'
    )


def _panel(title: str, lines: Sequence[Line], left: float, width: float) -> str:
    bottom = _HEIGHT - 56
    sizes = [size for line in lines for size in line.sizes]
    values = [value for line in lines for value in line.values]
    x = _Axis(*_decades(sizes), left, left + width)
    y = _Axis(*_decades(values), bottom, _TOP)
    parts = [f'<text x="{left}" y="18" font-weight="600">{escape(title)}</text>\n']
    for value in y.decades():
        parts.append(f'<path d="M{left} {y.at(value):.1f}H{left + width:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 6}" y="{y.at(value) + 4:.1f}" text-anchor="end">{value:g}</text>\n')
    for value in x.decades():
        parts.append(f'<path d="M{x.at(value):.1f} {_TOP}V{bottom}" stroke="#eee"/>')
        power = round(math.log10(value))
        label = f'10<tspan dy="-4" font-size="9">{power}</tspan>'
        parts.append(f'<text x="{x.at(value):.1f}" y="{bottom + 18}" text-anchor="middle">{label}</text>\n')
    for at, line in enumerate(lines):
        colour = _COLOURS[at % len(_COLOURS)]
        points = " ".join(f"{x.at(s):.1f},{y.at(v):.1f}" for s, v in zip(line.sizes, line.values, strict=True))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>\n')
        for size, value in zip(line.sizes, line.values, strict=True):
            parts.append(f'<circle cx="{x.at(size):.1f}" cy="{y.at(value):.1f}" r="3.5" fill="{colour}"/>')
        low, high = line.sizes[-1] / (line.values[-1] / y.low) * 1.0, line.sizes[-1]
        begin = max(low, line.sizes[0])
        scale = line.values[-1] / high
        parts.append(
            f'<path d="M{x.at(begin):.1f} {y.at(begin * scale):.1f}L{x.at(high):.1f} {y.at(high * scale):.1f}" '
            f'stroke="{colour}" stroke-dasharray="2 4"/>\n'
        )
        place = _HEIGHT - 18 if at == 0 else _HEIGHT - 4
        parts.append(f'<rect x="{left}" y="{place - 9}" width="14" height="4" fill="{colour}"/>')
        parts.append(f'<text x="{left + 20}" y="{place - 3}">{escape(line.name)}</text>\n')
    return "".join(parts)


def _decades(values: Sequence[float]) -> tuple[float, float]:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return 10.0**low, 10.0 ** max(high, low + 1)
