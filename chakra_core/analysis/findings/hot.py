"""Rules about single kernels and operators: the hottest, and those far below what the hardware allows."""

from __future__ import annotations

import numpy as np

from chakra_core.analysis.findings._make import finding, longest_of, name_of, short
from chakra_core.analysis.findings.facts import Facts
from chakra_core.analysis.findings.model import UNKNOWN, Evidence, Finding, Place, Thresholds
from chakra_core.analysis.operators import kernels, top_operators
from chakra_core.hardware import lookup
from chakra_core.schema import NO_TIME, Category, Domain
from chakra_core.words import count, duration, share

__all__ = ["hot_kernel", "hot_operator", "low_roofline", "memory_bound_gemms"]


def hot_kernel(facts: Facts, limits: Thresholds) -> Finding | None:
    """The kernel with the most time: where any work on kernels pays most."""
    table = kernels(facts.trace, facts.scope)
    total = int(table.total_ns.sum())
    if not total or table.total_ns[0] < limits.hot_share * total:
        return None
    spent, row, calls = int(table.total_ns[0]), int(table.longest[0]), int(table.count[0])
    mine = facts.work.at(facts.trace.columns.name[facts.work.rows] == facts.trace.columns.name[row])
    text = (
        f"{short(table.names[0], 90)} takes {share(spent, total)} of kernel time: {count(calls, 'call')}, "
        f"{duration(spent)} ({Category(int(table.category[0])).label})."
    )
    return finding(
        facts, "hot-kernel", "One kernel dominates" if 2 * spent > total else "Costliest kernel", text,
        advice="What makes this kernel faster matters most: its shapes, its precision, its implementation.",
        saving=UNKNOWN, bound="not known: it says where time goes, not what could be saved",
        evidence=(Evidence("time", spent, "ns"), Evidence("calls", calls, "count"), Evidence("share", spent / total, "share")),
        row=row, rows=mine.rows[longest_of(mine.dur_ns)], window=_around(facts, row),
    )  # fmt: skip


def hot_operator(facts: Facts, limits: Thresholds) -> Finding | None:
    """Where there is no device work: the operator that itself takes the most host time."""
    if len(facts.trace.device_rows):
        return None
    table = top_operators(facts.trace, facts.scope)
    total = int(table.self_ns.sum())
    if not total or table.self_ns.max() < limits.hot_share * total:
        return None
    at = int(np.argmax(table.self_ns))
    spent, row, calls = int(table.self_ns[at]), int(table.longest[at]), int(table.count[at])
    text = (
        f"{short(table.names[at], 90)} itself takes {share(spent, total)} of operator time on the host: "
        f"{count(calls, 'call')}, {duration(spent)}."
    )
    evidence = (Evidence("self time", spent, "ns"), Evidence("calls", calls, "count"))
    place = Place("timeline", facts.rank, row, _around(facts, row), (row,))
    return Finding(
        "hot-operator", "Costliest operator", text, "What makes this operator faster matters most.", UNKNOWN,
        "not known: it says where time goes, not what could be saved", 0, evidence, place,
    )  # fmt: skip


def _around(facts: Facts, row: int) -> tuple[int, int] | None:
    start = int(facts.trace.columns.start_ns[row])
    return None if start == NO_TIME else facts.around(start, start + int(facts.trace.columns.dur_ns[row]))


def low_roofline(facts: Facts, limits: Thresholds) -> Finding | None:
    """Kernels whose work is known take much longer than the hardware would need for it."""
    return _above_roofline(
        facts, limits, "low-roofline", "Kernels far below the roofline", memory_bound=False,
        advice="Check shapes (multiples of the tile size), precision and the implementation that was chosen.",
    )  # fmt: skip


def memory_bound_gemms(facts: Facts, limits: Thresholds) -> Finding | None:
    """Matrix multiplications so small or thin that memory, not arithmetic, limits them."""
    return _above_roofline(
        facts, limits, "memory-bound-gemms", "Memory-bound matrix multiplications", memory_bound=True,
        advice="Larger batches or batching of several multiplications raise the work per byte; fewer bits move fewer.",
    )  # fmt: skip


def _above_roofline(
    facts: Facts, limits: Thresholds, rule: str, title: str, *, memory_bound: bool, advice: str
) -> Finding | None:
    device = lookup(facts.trace.meta.hardware)
    c = facts.trace.columns
    flops, moved = c.flops[facts.work.rows], c.bytes_accessed[facts.work.rows]
    known = (flops > 0) & (moved > 0) & (facts.work.dur_ns > 0)
    if device is None or not known.any() or c.domain[facts.work.rows[known]].max() != Domain.DEVICE:
        return None
    peak, precision = device.peak("bf16")
    compute_ns, memory_ns = flops / peak * 1e9, moved / device.memory_bandwidth * 1e9
    floor = np.maximum(compute_ns, memory_ns)
    if memory_bound:
        chosen = known & (facts.category == Category.GEMM) & (memory_ns > compute_ns)
        lost = np.where(chosen, np.maximum(facts.work.dur_ns - compute_ns, 0), 0)
    else:
        chosen = known & (floor < limits.roofline * facts.work.dur_ns)
        lost = np.where(chosen, facts.work.dur_ns - floor, 0)
    lost = np.rint(lost).astype(np.int64)
    spent = int(facts.work.dur_ns[chosen].sum())
    if not spent or spent < limits.hot_share * int(facts.work.dur_ns.sum()):
        return None
    order = longest_of(lost)
    if not len(order):
        return None
    worst = int(order[0])
    row, ceiling = int(facts.work.rows[worst]), f"{precision} peak and memory bandwidth of {device.name}"
    reached = float(floor[chosen].sum() / spent)
    text = (
        f"{count(int(chosen.sum()), 'kernel')} take {duration(spent)}; at the {ceiling} their work would need "
        f"{duration(float(floor[chosen].sum()))}, {share(reached, 1)} of it. The worst is {name_of(facts, row)}."
    )
    return finding(
        facts, rule, title, text, advice=advice, saving=int(lost.sum()),
        bound="an estimate: the time above "
        + ("what the arithmetic alone would need" if memory_bound else f"the roofline, from the {ceiling}"),
        evidence=(
            Evidence("time", spent, "ns"), Evidence("share of the roofline", reached, "share"),
            Evidence("kernels", int(chosen.sum()), "count"), Evidence("bytes moved", int(moved[chosen].sum()), "bytes"),
        ),
        row=row, rows=facts.work.rows[order],
        window=facts.around(int(facts.work.start_ns[worst]), int(facts.work.end_ns[worst])),
    )  # fmt: skip
