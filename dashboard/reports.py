"""Results as files to pass on: one HTML page that needs nothing else, and CSV that no spreadsheet reads as formulas."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Figure", "Table", "Text", "csv_text", "html_page"]

_STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; color: #1c232d; max-width: 1080px; margin: 24px auto; padding: 0 16px; }
h1 { font-size: 22px; } h2 { font-size: 16px; margin-top: 28px; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: 3px 10px; border-bottom: 1px solid #e6e9ee; text-align: right; }
th:first-child, td:first-child { text-align: left; overflow-wrap: anywhere; max-width: 560px; }
li, .note { color: #5d6775; }
"""


@dataclass(frozen=True, slots=True)
class Text:
    """Sentences, each a line of its own."""

    lines: Sequence[str]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text and numbers under a header."""

    header: Sequence[str]
    rows: Sequence[Sequence[object]]


@dataclass(frozen=True, slots=True)
class Figure:
    """A Plotly figure."""

    figure: Any


def html_page(title: str, sections: Sequence[tuple[str, Text | Table | Figure]]) -> str:
    """A page with everything in it, Plotly's script included where there is a figure. All text is escaped."""
    parts: list[str] = []
    script_done = False
    for heading, content in sections:
        parts.append(f"<h2>{html.escape(heading)}</h2>")
        if isinstance(content, Figure):
            figure = content.figure
            parts.append(
                figure.to_html(full_html=False, include_plotlyjs=not script_done, config={"displaylogo": False})
            )
            script_done = True
        elif isinstance(content, Table):
            parts.append(_table(content))
        else:
            parts.append("<ul>" + "".join(f"<li>{html.escape(line)}</li>" for line in content.lines) + "</ul>")
    safe = html.escape(title)
    head = f'<meta charset="utf-8"><title>{safe}</title><style>{_STYLE}</style>'
    return f'<!DOCTYPE html><html lang="en"><head>{head}</head><body><h1>{safe}</h1>{"".join(parts)}</body></html>\n'


def _table(table: Table) -> str:
    head = "".join(f"<th>{html.escape(str(cell))}</th>" for cell in table.header)
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(_shown(cell))}</td>" for cell in row) + "</tr>" for row in table.rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _shown(cell: object) -> str:
    return "" if cell is None else f"{cell:,}" if isinstance(cell, int) else str(cell)


def csv_text(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    r"""Comma-separated values; texts that a spreadsheet would take for a formula get an apostrophe in front.

    >>> csv_text(["name", "ns"], [["=1+1", 5], ["gemm", None]])
    "name,ns\r\n'=1+1,5\r\ngemm,\r\n"
    """
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(header)
    for row in rows:
        writer.writerow([_cell(value) for value in row])
    return out.getvalue()


def _cell(value: object) -> object:
    if not isinstance(value, str):
        return "" if value is None else value
    text = value.replace("\x00", "")
    return f"'{text}" if text.lstrip()[:1] in ("=", "+", "-", "@") or text[:1] in ("\t", "\r", "\n") else text
