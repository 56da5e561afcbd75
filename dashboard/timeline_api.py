"""HTTP routes behind the timeline: small JSON answers, every parameter checked, errors as ``{"error": …}``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
from flask import Flask, Response, request
from numpy.typing import NDArray

from chakra_core.errors import ChakraError
from chakra_core.lod import CAP
from dashboard import timeline_data as data
from dashboard.library import Library, LoadedRun, StillLoading

__all__ = ["parse_rows", "register_routes"]

_MAX_TIME = 2**61
"""Larger than any span: one event without its clock may lie at zero and the others at nanoseconds since 1970."""
_MAX_WIDTH = 16_384
_MAX_ROWS = 2_000
_MAX_TEXT = 200
_PAGE = 200


def register_routes(server: Flask, library: Library) -> None:
    """Add ``/api/timeline/{layout,window,links,step,find,area,marked}`` to a server."""

    def loaded() -> LoadedRun:
        return library.get(_text("run", 2_000))

    def layout() -> dict[str, Any]:
        return data.describe(loaded())

    def window() -> dict[str, Any]:
        run = loaded()
        t0, t1 = _range()
        rows = parse_rows(request.args.get("rows", ""), data.rows_of(run).first[-1])
        cap = max(_integer("most", 100, CAP, CAP), len(rows))
        return data.window(run, t0, t1, _integer("width", 1, _MAX_WIDTH), rows, cap=cap)

    def links() -> dict[str, Any]:
        return data.links(loaded(), _integer("rank", 0, 2**31), _integer("row", 0, 2**31))

    def step() -> dict[str, Any]:
        rank, row = _integer("rank", 0, 2**31), _integer("row", 0, 2**31)
        return data.step(loaded(), rank, row, _way())

    def find() -> dict[str, Any]:
        offset = _integer("offset", 0, 2**31) if "offset" in request.args else None
        return data.hits(
            loaded(), _text("q", _MAX_TEXT), near=_integer("near", -_MAX_TIME, _MAX_TIME, 0), offset=offset, limit=_PAGE
        )

    def area() -> dict[str, Any]:
        run = loaded()
        t0, t1 = _range()
        return data.sums(run, t0, t1, parse_rows(request.args.get("rows", ""), data.rows_of(run).first[-1], 100_000))

    def marked() -> dict[str, Any]:
        run = loaded()
        t0, t1 = _range()
        rows = parse_rows(request.args.get("rows", ""), data.rows_of(run).first[-1])
        return data.marked(
            run, _text("nodes", 40_000), _integer("at", 0, 1000), t0, t1, _integer("width", 1, _MAX_WIDTH), rows
        )

    for answer in (layout, window, links, step, find, area, marked):
        path = f"/api/timeline/{answer.__name__}"
        server.add_url_rule(path, f"timeline-{answer.__name__}", _json(answer), methods=["GET"])


def _json(answer: Callable[[], dict[str, Any]]) -> Callable[[], Response]:
    def respond() -> Response:
        try:
            content, status = answer(), 200
        except StillLoading as error:
            content, status = {"error": str(error)}, 503
        except ChakraError as error:
            content, status = {"error": str(error)}, 400
        response = Response(msgspec.json.encode(content), status, mimetype="application/json")
        response.headers["Cache-Control"] = "no-store"
        return response

    return respond


def _text(name: str, limit: int) -> str:
    text = request.args.get(name, "")
    if not 0 < len(text) <= limit:
        raise ChakraError(f"{name}: must be given, with at most {limit} characters")
    return text


def _way() -> int:
    way = request.args.get("way")
    if way not in ("next", "previous"):
        raise ChakraError("way: must be next or previous")
    return 1 if way == "next" else -1


def _range() -> tuple[int, int]:
    t0, t1 = _integer("t0", -_MAX_TIME, _MAX_TIME), _integer("t1", -_MAX_TIME, _MAX_TIME)
    if t0 >= t1:
        raise ChakraError("t1: must be after t0")
    return t0, t1


def _integer(name: str, low: int, high: int, default: int | None = None) -> int:
    text = request.args.get(name)
    if text is None and default is not None:
        return default
    digits = (text or "").removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
        raise ChakraError(f"{name}: must be a whole number")
    value = int(text or "")
    if not low <= value <= high:
        raise ChakraError(f"{name}: must be between {low} and {high}")
    return value


def parse_rows(text: str, total: int, most: int = _MAX_ROWS) -> NDArray[np.int64]:
    """Row numbers from ranges such as ``0-3,7``, without doubles, in order.

    >>> parse_rows("0-2,5", 10).tolist()
    [0, 1, 2, 5]

    Raises:
        ChakraError: no such ranges, rows beyond ``total``, or more than ``most`` of them.
    """
    chosen: set[int] = set()
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        ends = first, last or first
        if not all(end.isascii() and end.isdigit() and len(end) < 10 for end in ends):
            raise ChakraError("rows: must be ranges such as 0-3,7")
        low, high = int(ends[0]), int(ends[1])
        if not low <= high < total or len(chosen) + high - low >= most:
            raise ChakraError(f"rows: must be below {total}, at most {most} at once")
        chosen.update(range(low, high + 1))
    return np.array(sorted(chosen), np.int64)
