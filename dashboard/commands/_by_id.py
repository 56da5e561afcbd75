"""``compare --by id`` as tables: when each rank ends in both runs, and the error of each operator and collective."""

from __future__ import annotations

from typing import Any

from dashboard.commands.base import print_table

__all__ = ["group_table", "print_by_id", "rank_table"]

_SHOWN = 15


def rank_table(found: dict[str, Any]) -> tuple[list[str], list[list[object]]]:
    """A row per rank, in ns; of one comparison of the document."""
    header = [
        "rank",
        f"{found['baseline']} ends at ns",
        f"{found['run']} ends at ns",
        "error",
        "nodes met",
        "only in one",
    ]
    return header, [
        [
            rank["rank"], rank["baseline_finish_ns"], rank["finish_ns"], rank["error"], rank["matched"],
            rank["only_baseline"] + rank["only_run"],
        ]
        for rank in found["ranks"]
    ]  # fmt: skip


def group_table(found: dict[str, Any]) -> tuple[list[str], list[list[object]]]:
    """A row per operator and collective, the largest change first, in ns."""
    header = [
        "name", "kind", "nodes", f"{found['baseline']} ns", f"{found['run']} ns", "error", "mean error ns",
        "worst error ns", "worst rank",
    ]  # fmt: skip
    return header, [
        [
            one["name"], "collective" if one["collective"] else "operator", one["count"], one["baseline_ns"], one["ns"],
            one["ns"] / one["baseline_ns"] - 1 if one["baseline_ns"] else None, one["mean_abs_error_ns"],
            one["worst_error_ns"], one["worst_rank"],
        ]
        for one in found["groups"]
    ]  # fmt: skip


def print_by_id(found: dict[str, Any]) -> None:
    """Both tables on stdout, times in ms."""
    ranks = [
        (rank["rank"], _ms(rank["baseline_finish_ns"]), _ms(rank["finish_ns"]), _percent(rank["error"]))
        for rank in found["ranks"]
    ]
    print_table(("rank", f"{found['baseline']} ends at ms", f"{found['run']} ends at ms", "off by"), ranks)
    groups = [
        (row[0], row[1], row[2], _ms(row[3]), _ms(row[4]), _percent(row[5]), _ms(row[7]))
        for row in group_table(found)[1][:_SHOWN]
    ]
    head = ("node", "kind", "count", f"{found['baseline']} ms", f"{found['run']} ms", "off by", "worst ms")
    print_table(head, groups)


def _percent(value: Any) -> str:
    return "n/a" if value is None else f"{value:+.2%}"


def _ms(value: Any) -> str:
    return f"{value / 1e6:,.3f}"
