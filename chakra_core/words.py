"""Numbers in words for people: times, sizes, counts. The only place where units are put on."""

from __future__ import annotations

from typing import Any

__all__ = ["count", "duration", "plain", "share", "size"]

_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"))
_SIZES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def duration(ns: float) -> str:
    """A time in the unit that reads best.

    >>> duration(1_234_567), duration(12), duration(-2_500)
    ('1.235 ms', '12 ns', '-2.500 µs')
    """
    for factor, unit in _TIMES:
        if abs(ns) >= factor:
            return f"{ns / factor:,.3f} {unit}"
    return f"{ns:,.0f} ns"


def size(count_of_bytes: float) -> str:
    """A size in decimal units.

    >>> size(1_500_000), size(12)
    ('1.50 MB', '12 B')
    """
    for factor, unit in _SIZES:
        if abs(count_of_bytes) >= factor:
            return f"{count_of_bytes / factor:,.2f} {unit}"
    return f"{count_of_bytes:,.0f} B"


def count(number: int, one: str, many: str = "") -> str:
    """A number with its noun.

    >>> count(1, "rank"), count(1200, "rank")
    ('1 rank', '1,200 ranks')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def share(part: float, whole: float) -> str:
    """A share in percent; a dash where there is no whole.

    >>> share(1, 8)
    '12.5 %'
    """
    return f"{100 * part / whole:.1f} %" if whole else "\N{EN DASH}"


def plain(value: Any, limit: int = 4000) -> str:
    """Any value of a trace as text, cut to a length; control characters are shown as escapes."""
    text = value if isinstance(value, str) else repr(value) if isinstance(value, bytes) else str(value)
    shown = "".join(ch if ch.isprintable() or ch in "\n\t" else ascii(ch)[1:-1] for ch in text[: limit + 1])
    return shown if len(text) <= limit else f"{shown[:limit]}… ({len(text):,} characters)"
