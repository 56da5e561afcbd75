"""Cards of the Operators page: groups of calls, kernels with their launch, sequences that recur, what is recomputed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from dash import html
from dash.development.base_component import Component

from chakra_core.analysis.kernel_shapes import LaunchShape, launch_shape, unclassified
from chakra_core.analysis.operator_groups import GROUPINGS, OperatorGroups
from chakra_core.analysis.operators import Kernels
from chakra_core.analysis.recomputation import Recomputation
from chakra_core.analysis.scope import Scope
from chakra_core.analysis.sequences import Sequences
from chakra_core.trace import Trace
from dashboard.nodes import MOST_ROWS, names_text, rows_text
from dashboard.pages._critical_view import card
from dashboard.tables import count_column, linked, name_codes, stand_for_names, text_column, time_column
from dashboard.words import count, duration, plain, share

__all__ = ["groups_card", "kernels_card", "recomputation_card", "sequences_card", "unclassified_card"]

_ROWS = 500
_KERNELS = 300
_LISTED = 60_000
"""Calls that the rows of one table name one by one."""
_TITLES = {"name": "Operator", "shapes": "Operator", "module": "Module", "annotation": "Annotation"}
_ARGUMENTS = re.compile(r"[<(].*", re.DOTALL)


def groups_card(found: OperatorGroups, trace: Trace, at: int, rank: int, theme: str) -> Component:
    """Groups of calls; a row selects its calls."""
    title = f"Operators by {GROUPINGS[found.by]}"
    if found.reason:
        return card(title, html.P(f"{found.reason[:1].upper()}{found.reason[1:]}.", className="ck-hint"))
    rows, cut = _group_rows(found, trace, at, rank)
    largest = max(max(row["total_ns"], row["device_self_ns"]) for row in rows)
    columns = [text_column("name", _TITLES[found.by], flex=3, minWidth=190)]
    if found.by == "shapes":
        columns.append(text_column("shapes", "Inputs", flex=2.2, minWidth=150))
    columns += [
        count_column("count", "Calls"),
        time_column("total_ns", "Host", largest, headerTooltip="duration of the calls, with all below them"),
        time_column("self_ns", "Host self", largest, headerTooltip="without what is directly below"),
    ]
    if found.work_ns:
        columns += [
            time_column("device_ns", "Device", largest, headerTooltip="union of the device work launched from below"),
            time_column(
                "device_self_ns", "Device self", largest, headerTooltip="device work of which it is the innermost"
            ),
            _share_column("share", "Share"),
            count_column("kernels", "Kernels"),
        ]
    grid, tools = linked("operators-groups", columns, rows, theme, at=at)
    shown = f", the first {len(rows):,}" if len(rows) < len(found) else ""
    left = "; of some rows only the first calls are selected" if cut else ""
    return card(title, grid, f"{count(len(found), 'group')}{shown}; a row selects its calls{left}", tools)


def _group_rows(found: OperatorGroups, trace: Trace, at: int, rank: int) -> tuple[list[dict[str, Any]], bool]:
    """Records of the table, and whether some name fewer calls than they have."""
    codes, left, cut = name_codes(trace), _LISTED, False
    rows = []
    for place, record in enumerate(found.records(_ROWS)):
        row = {**record, "run": at, "rank": rank, "row": record.pop("longest")}
        row.pop("longest")
        row["share"] = record["device_self_ns"] / found.work_ns if found.work_ns else 0.0
        if found.by in ("name", "annotation"):
            row["nodes"] = names_text(at, rank, [codes[record["name"]]])
        else:
            calls = found.calls_of(place)
            most = min(MOST_ROWS, left)
            cut = cut or len(calls) > most
            left -= min(len(calls), most)
            row["nodes"] = rows_text(at, rank, calls[:most].tolist()) or None
        row["name"], row["shapes"] = plain(record["name"], 600), plain(record["shapes"], 400)
        rows.append(row)
    return rows, cut


def _share_column(field: str, title: str, **more: Any) -> dict[str, Any]:
    return {
        "field": field, "headerName": title, "type": "numericColumn", "flex": 0.9, "minWidth": 72,
        "valueFormatter": {"function": "params.value == null ? '' : d3.format('.1%')(params.value)"}, **more,
    }  # fmt: skip


def kernels_card(found: Kernels, trace: Trace, at: int, rank: int, theme: str) -> Component:
    """Device work by name, with how the longest instance was launched and how durations spread."""
    shapes = [launch_shape(trace, int(row)) for row in found.longest[:_KERNELS].tolist()]
    whole = int(found.total_ns.sum())
    rows = stand_for_names(found.records(_KERNELS), name_codes(trace), at=at, rank=rank)
    for row, shape in zip(rows, shapes, strict=True):
        row.update(
            share=row["total_ns"] / whole if whole else 0.0, grid=_times(shape.grid), block=_times(shape.block),
            occupancy=shape.occupancy, registers=shape.registers, name=plain(row["name"], 600),
        )  # fmt: skip
    if not rows:
        return card("Kernels", html.P("The trace records no device work here.", className="ck-hint"))
    largest, longest = max(row["total_ns"] for row in rows), max(row["max_ns"] for row in rows) // 100
    columns = [
        text_column("name", "Kernel", flex=3, minWidth=180),
        text_column("category", "Kind", flex=1.3, minWidth=116),
        count_column("count", "Count"),
        time_column("total_ns", "Total", largest),
        _share_column("share", "Share"),
        time_column("min_ns", "Least", longest, adds=False),
        time_column("median_ns", "Median", longest, adds=False),
        time_column("p95_ns", "95 %", longest, adds=False, headerTooltip="95 % of them take no longer"),
        time_column("max_ns", "Most", longest, adds=False),
        *_launch_columns(shapes),
    ]
    grid, tools = linked("operators-kernels", columns, rows, theme, at=at, groups={"category": "kind"})
    cut = f", the first {len(rows):,}" if len(rows) < len(found) else ""
    said = "" if any(shape != LaunchShape() for shape in shapes) else "; the trace records no grid or occupancy"
    said = said or "; grid, block and occupancy are those of the longest instance"
    return card("Kernels", grid, f"{count(len(found), 'name')}{cut}{said}", tools)


def _launch_columns(shapes: Sequence[LaunchShape]) -> list[dict[str, Any]]:
    """Columns of what the trace tells of launches."""
    columns = []
    if any(shape.grid for shape in shapes):
        columns.append(text_column("grid", "Grid", flex=1.1, minWidth=88))
    if any(shape.block for shape in shapes):
        columns.append(text_column("block", "Block", flex=1, minWidth=80))
    if any(shape.occupancy is not None for shape in shapes):
        columns.append(
            _share_column("occupancy", "Occup.", headerTooltip="share of resident warps, as the profiler estimates it")
        )
    if any(shape.registers is not None for shape in shapes):
        columns.append(count_column("registers", "Regs", adds=False, headerTooltip="registers per thread"))
    return columns


def _times(sizes: tuple[int, ...] | None) -> str:
    return "" if sizes is None else "\N{MULTIPLICATION SIGN}".join(str(one) for one in sizes)


def sequences_card(found: Sequences, at: int, rank: int, theme: str) -> Component:
    """Sequences of kernels that recur; a row selects all of its kernels."""
    title = "Recurring sequences"
    if found.reason:
        return card(title, html.P(f"{found.reason[:1].upper()}{found.reason[1:]}.", className="ck-hint"))
    rows: list[dict[str, Any]] = [
        {
            "name": " \N{RIGHTWARDS ARROW} ".join(_short(name) for name in one.names),
            "whole": " \N{RIGHTWARDS ARROW} ".join(plain(name, 120) for name in one.names),
            "kernels": len(one.names), "count": one.count, "span_ns": one.span_ns, "gaps_ns": one.gaps_ns,
            "most_ns": one.most_ns, "run": at, "rank": rank, "row": int(one.rows[one.longest, 0]),
            "nodes": rows_text(at, rank, one.rows.ravel().tolist()),
        }
        for one in found.found
    ]  # fmt: skip
    largest = max(row["span_ns"] for row in rows)
    columns = [
        text_column("name", "Kernels in order", flex=3, minWidth=160, tooltipField="whole"),
        count_column("kernels", "Kernels", adds=False),
        count_column("count", "Times"),
        time_column("span_ns", "Takes", largest, headerTooltip="from the first start to the last end, summed"),
        time_column(
            "gaps_ns", "Saves", largest, headerTooltip="the gaps: saved if the fused kernel takes what its parts do"
        ),
        time_column("most_ns", "At most", largest, headerTooltip="all but the longest kernel of each occurrence"),
    ]
    grid, tools = linked("operators-sequences", columns, rows, theme, at=at)
    least, most = sum(one.gaps_ns for one in found.found), sum(one.most_ns for one in found.found)
    words = html.P(
        f"Fusing each into one kernel would save {duration(least)} of gaps, at most {duration(most)}. Both are bounds: "
        "whether a sequence can be fused is not known from a trace.",
        className="ck-hint",
    )
    return card(title, html.Div([words, grid]), f"{count(len(rows), 'sequence')}; each kernel is in one only", tools)


def _short(name: str) -> str:
    """A kernel's name without arguments and namespaces."""
    bare = _ARGUMENTS.sub("", name.removeprefix("void ")).rstrip()
    return plain(bare.rsplit("::", 1)[-1] or name, 32)


def recomputation_card(found: Recomputation, at: int, rank: int, theme: str) -> Component:
    """What the backward pass computes again; a row selects its calls."""
    title = "Recomputation"
    if found.reason:
        return card(title, html.P(f"Cannot be told: {found.reason}.", className="ck-hint"))
    if not found.found:
        how = "" if found.by_shapes else " Shapes are not recorded, so only long rows of equal names would count."
        words = f"No operator of the forward pass runs again in the backward pass.{how}"
        return card(title, html.P(words, className="ck-hint ck-good"))
    rows: list[dict[str, Any]] = [
        {
            "name": plain(one.name, 300), "shapes": plain(one.shapes, 300), "count": one.count, "host_ns": one.host_ns,
            "device_ns": one.device_ns, "told": _told(one.named, one.count), "run": at, "rank": rank,
            "row": int(one.rows[0]), "nodes": rows_text(at, rank, one.rows.tolist()),
        }
        for one in found.found[:_KERNELS]
    ]  # fmt: skip
    largest = max(max(row["host_ns"], row["device_ns"]) for row in rows)
    columns = [
        text_column("name", "Operator", flex=2, minWidth=130),
        *([text_column("shapes", "Inputs", flex=1.6, minWidth=110)] if found.by_shapes else []),
        count_column("count", "Again"),
        time_column("host_ns", "Host", largest),
        time_column("device_ns", "Device", largest),
        text_column("told", "Told by", flex=1, minWidth=84),
    ]
    grid, tools = linked("operators-recomputed", columns, rows, theme, at=at)
    words = html.P(
        f"Computing again takes {duration(found.device_ns)} of device time, {100 * found.share:.1f} % of it: the price of "
        "the memory that is not kept.",
        className="ck-hint",
    )
    return card(
        title, html.Div([words, grid]), count(len(found.found), "operator and inputs", "operators and inputs"), tools
    )


def _told(named: int, calls: int) -> str:
    return "name" if named == calls else "repetition" if not named else "both"


def unclassified_card(trace: Trace, scope: Scope, at: int, rank: int, theme: str) -> Component:
    """Names of device work that no category rule knows."""
    title = "Not classified"
    if not len(trace.device_rows):
        return card(title, html.P("The trace records no device work.", className="ck-hint"))
    said = unclassified(trace, scope)
    if not said["names"]:
        return card(title, html.P("A rule knows the kind of every piece of device work.", className="ck-hint ck-good"))
    rows = stand_for_names(said["rows"][:_KERNELS], name_codes(trace), at=at, rank=rank)
    largest = max(row["total_ns"] for row in rows)
    columns = [
        text_column("name", "Kernel", flex=3, minWidth=160),
        count_column("count", "Count"),
        time_column("total_ns", "Total", largest),
    ]
    grid, tools = linked("operators-unclassified", columns, rows, theme, at=at)
    words = (
        f"{count(said['names'], 'name')} ({count(said['count'], 'kernel')}, {share(said['share'], 1)} of device time) match no "
        "rule and count as other."
    )
    return card(title, html.Div([html.P(words, className="ck-hint"), grid]), "", tools)
