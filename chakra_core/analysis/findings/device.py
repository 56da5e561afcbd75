"""Rules about the devices: communication and copies in the open, streams, small kernels, recomputation."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from chakra_core.analysis.findings._make import finding, longest_of, name_of, path_evidence
from chakra_core.analysis.findings.facts import Facts
from chakra_core.analysis.findings.model import Evidence, Finding, Thresholds
from chakra_core.analysis.scope import Clipped, Scope, clip_rows
from chakra_core.analysis.steps import find_steps
from chakra_core.analysis.what_if import Factors
from chakra_core.intervals import subtract
from chakra_core.schema import Category, Domain
from chakra_core.words import count, duration, share

__all__ = ["exposed_communication", "exposed_copies", "missing_overlap", "recomputation", "small_kernels", "stragglers"]

I64 = NDArray[np.int64]

_FUSIBLE = (Category.ELEMENTWISE, Category.NORMALISATION, Category.REDUCTION)
_RECOMPUTE = re.compile(r"(?i)recompute|CheckpointFunctionBackward|rematerial")
_LANE_SHARE = 0.1
"""A stream counts as one that computes with at least this share of the busiest stream's time."""


def exposed_communication(facts: Facts, limits: Thresholds) -> Finding | None:
    """Communication that no compute hides, where some of it is hidden."""
    overlap = facts.part.overlap_ratio
    if overlap is None or overlap < limits.overlap:
        return None
    return _exposed(
        facts, limits, "exposed-communication", "Exposed communication", facts.part.exposed_comm_ns,
        "all of it: gone if every message were hidden or took no time",
        "Start communication earlier, split it into smaller buckets, or give it a faster network.",
    )  # fmt: skip


def missing_overlap(facts: Facts, limits: Thresholds) -> Finding | None:
    """Communication and compute take turns although they could run at once."""
    overlap = facts.part.overlap_ratio
    if overlap is None or overlap >= limits.overlap:
        return None
    return _exposed(
        facts, limits, "missing-overlap", "Communication hardly overlaps with compute",
        min(facts.part.exposed_comm_ns, facts.part.compute_ns - facts.part.overlap_ns),
        "no more than there is compute to hide it under",
        "Run communication on a stream of its own, in buckets that begin while the rest is still being computed.",
    )  # fmt: skip


def _exposed(
    facts: Facts, limits: Thresholds, rule: str, title: str, saving: int, bound: str, advice: str
) -> Finding | None:
    part = facts.part
    if not saving or part.exposed_comm_ns < limits.exposed_comm_share * part.total_ns:
        return None
    start, end = facts.exposed_comm
    at = np.flatnonzero(facts.category == Category.COMMUNICATION)
    lost = _inside(facts.work.at(at), start, end)
    order = longest_of(lost)
    worst = int(at[order[0]])
    row = int(facts.work.rows[worst])
    text = (
        f"{share(part.exposed_comm_ns, part.total_ns)} of device time ({duration(part.exposed_comm_ns)}) is "
        f"communication that no compute hides; {share(part.overlap_ns, part.comm_ns)} of all communication is hidden. "
        f"Most of it in one piece: {name_of(facts, row)}, {duration(int(lost[order[0]]))}."
    )
    return finding(
        facts, rule, title, text, advice=advice, saving=saving, bound=bound,
        evidence=(
            Evidence("exposed", part.exposed_comm_ns, "ns"), Evidence("communication", part.comm_ns, "ns"),
            Evidence("hidden", (part.overlap_ratio or 0.0), "share"), Evidence("messages", len(at), "count"),
            *path_evidence(facts, Factors(categories={Category.COMMUNICATION: 0.0})),
        ),
        row=row, rows=facts.work.rows[at[order]],
        window=facts.around(int(facts.work.start_ns[worst]), int(facts.work.end_ns[worst])),
    )  # fmt: skip


def _inside(work: Clipped, start: I64, end: I64) -> I64:
    """How much of each piece of work lies in disjoint sorted intervals, int64 ns."""
    whole = np.r_[0, np.cumsum(end - start)]
    if not len(start):
        return np.zeros(len(work), np.int64)

    def before(moment: I64) -> I64:
        at = np.searchsorted(start, moment, side="right")
        inside = np.minimum(moment, end[at - 1]) - start[at - 1]
        return np.where(at > 0, whole[np.maximum(at - 1, 0)] + inside, 0)

    return before(work.end_ns) - before(work.start_ns)


def exposed_copies(facts: Facts, limits: Thresholds) -> Finding | None:
    """Copies and memsets hidden under neither compute nor communication."""
    part = facts.part
    if not part.exposed_memory_ns or part.exposed_memory_ns < limits.exposed_memory_share * part.total_ns:
        return None
    moves = np.isin(facts.category, (Category.COPY, Category.MEMSET))
    others = facts.work.at(~moves)
    moved = facts.work.at(moves)
    bare = subtract(*facts.union(Category.COPY, Category.MEMSET), *_union(others))
    lost = _inside(moved, *bare)
    order = longest_of(lost)
    row = int(moved.rows[order[0]])
    pageable = sum("ageable" in facts.trace.name_of(int(at)) for at in moved.rows[:_NAMES].tolist())
    text = (
        f"{share(part.exposed_memory_ns, part.total_ns)} of device time ({duration(part.exposed_memory_ns)}) goes to "
        f"{count(len(moved), 'copy', 'copies')} and memsets while nothing else runs. The longest is {name_of(facts, row)}."
    )
    return finding(
        facts, "exposed-copies", "Copies in the open", text,
        advice="Pin host memory and copy on a stream of its own; keep data on the device; avoid copies to the host "
        "inside the step.",
        saving=part.exposed_memory_ns, bound="all of it: gone if every copy were hidden",
        evidence=(
            Evidence("exposed", part.exposed_memory_ns, "ns"), Evidence("copies and memsets", len(moved), "count"),
            Evidence("of pageable memory", pageable, "count"), Evidence("copying in all", part.memory_ns, "ns"),
            *path_evidence(facts, Factors(categories={Category.COPY: 0.0, Category.MEMSET: 0.0})),
        ),
        row=row, rows=moved.rows[order],
        window=facts.around(int(moved.start_ns[order[0]]), int(moved.end_ns[order[0]])),
    )  # fmt: skip


_NAMES = 20_000


def _union(work: Clipped) -> tuple[I64, I64]:
    from chakra_core.intervals import merge

    return merge(work.start_ns, work.end_ns)


def small_kernels(facts: Facts, limits: Thresholds) -> Finding | None:
    """Rows of small kernels on one stream that one fused kernel could do."""
    work, lane = facts.work, facts.trace.columns.lane[facts.work.rows]
    order = np.lexsort((work.start_ns, lane))
    work, lane, category = work.at(order), lane[order], facts.category[order]
    small = np.isin(category, _FUSIBLE) & (work.dur_ns < limits.small_kernel_ns)
    if not small.any():
        return None
    joins = small[1:] & small[:-1] & (lane[1:] == lane[:-1])
    joins &= work.start_ns[1:] - work.end_ns[:-1] < limits.chain_gap_ns
    chain = np.cumsum(np.r_[True, ~joins])[small] - 1
    first = np.flatnonzero(np.diff(chain, prepend=-1))
    sizes = np.diff(np.r_[first, len(chain)])
    kept = work.at(small)
    span = np.maximum.reduceat(kept.end_ns, first) - kept.start_ns[first]
    saved = np.where(sizes >= limits.chain_length, span - np.maximum.reduceat(kept.dur_ns, first), 0)
    total = int(saved.sum())
    if not total or total < limits.fusion_share * facts.total_ns:
        return None
    best = longest_of(saved)
    rows = np.concatenate([kept.rows[first[at] : first[at] + sizes[at]] for at in best[:200].tolist()])
    lead = int(best[0])
    begin = int(kept.start_ns[first[lead]])
    kernels_in = int(sizes[best].sum())
    text = (
        f"{count(kernels_in, 'small kernel')} (below {duration(limits.small_kernel_ns)}) stand in "
        f"{count(len(best), 'row')} of at least {limits.chain_length:,.0f} that one fused kernel each could do, "
        f"saving up to {duration(total)}. The costliest begins with {name_of(facts, int(rows[0]))}."
    )
    return finding(
        facts, "small-kernels", "Small kernels worth fusing", text,
        advice="A compiler (torch.compile, XLA, Triton) or fused implementations of normalisation, activation, optimiser.",
        saving=total, bound="each row from its first start to its last end, less its longest kernel",
        evidence=(
            Evidence("rows of small kernels", len(best), "count"), Evidence("kernels in them", kernels_in, "count"),
            Evidence("most saved in one row", int(saved[lead]), "ns"),
        ),
        row=int(rows[0]), rows=rows, window=facts.around(begin, begin + int(span[lead])),
    )  # fmt: skip


def stragglers(facts: Facts, limits: Thresholds) -> Finding | None:
    """One stream works on alone at the end of a step after the other computing streams have finished."""
    c = facts.trace.columns
    computing = ~np.isin(facts.category, (Category.COMMUNICATION, Category.COPY, Category.MEMSET))
    work = facts.work.at(computing)
    if not len(work):
        return None
    whole = (int(work.start_ns[0]), int(work.end_ns.max()))
    spans = [(step.start_ns, step.end_ns) for step in find_steps(facts.trace)] or [whole]
    tails = []
    for first, last in spans:
        inside = clip_rows(facts.trace, work.rows, Scope((first, last)))
        lane = c.lane[inside.rows].astype(np.int64)
        busy = np.bincount(lane[lane >= 0], inside.dur_ns[lane >= 0], len(facts.trace.lanes))
        lanes = np.flatnonzero((busy > 0) & (busy >= _LANE_SHARE * busy.max(initial=0)))
        if len(lanes) < 2:
            continue
        ends = sorted((int(inside.end_ns[lane == one].max()), int(one)) for one in lanes)
        tails.append((ends[-1][0] - ends[-2][0], ends[-2][0], ends[-1][0], ends[-1][1]))
    lost = sum(tail[0] for tail in tails)
    if not lost or lost < limits.tail_share * facts.total_ns:
        return None
    worst, begin, end, lane_ = max(tails)
    tail_rows = work.rows[(c.lane[work.rows] == lane_) & (work.end_ns > begin) & (work.start_ns < end)]
    text = (
        f"Stream {facts.trace.lanes[lane_].name} works on for {duration(worst)} after all others have finished; over "
        f"{count(len(tails), 'step')} one stream is alone at the end for {duration(lost)}."
    )
    return finding(
        facts, "straggling-streams", "One stream finishes late", text,
        advice="Spread the work more evenly over the streams, or start the long one first.",
        saving=lost, bound="the time that one stream is alone at the end of a step",
        evidence=(
            Evidence("alone at the end", lost, "ns"), Evidence("longest", worst, "ns"),
            Evidence("steps", len(tails), "count"),
        ),
        row=int(tail_rows[0]) if len(tail_rows) else -1, rows=tail_rows, window=facts.around(begin, end),
    )  # fmt: skip


def recomputation(facts: Facts, limits: Thresholds) -> Finding | None:
    """Device work done again in the backward pass to save memory."""
    c = facts.trace.columns
    codes = [code for code, name in enumerate(facts.trace.names) if _RECOMPUTE.search(name)]
    named = np.flatnonzero(np.isin(c.name, codes)) if codes else np.zeros(0, np.int64)
    if not len(named):
        return None
    again = clip_rows(facts.trace, facts.work.rows, _under(facts, named))
    spent = int(np.sum(np.subtract(*_union(again)[::-1])))
    if not spent or spent < limits.recompute_share * facts.total_ns:
        return None
    order = longest_of(again.dur_ns)
    row = int(again.rows[order[0]])
    text = (
        f"{duration(spent)} of device time ({share(spent, facts.total_ns)}) lies below "
        f"{count(len(named), 'node')} that recompute activations, such as {name_of(facts, int(named[0]))}."
    )
    return finding(
        facts, "recomputation", "Activations are recomputed", text,
        advice="If memory allows, checkpoint fewer layers, or only the cheap operators.",
        saving=spent, bound="all device work below the recomputing nodes; the gradient work among it would stay",
        evidence=(
            Evidence("device time below", spent, "ns"), Evidence("recomputing nodes", len(named), "count"),
            Evidence("kernels", len(again), "count"),
        ),
        row=row, rows=again.rows[order],
        window=facts.around(int(again.start_ns[order[0]]), int(again.end_ns[order[0]])),
    )  # fmt: skip


def _under(facts: Facts, rows: I64) -> Scope:
    """The scope's window, and only what some nodes called or launched (themselves included)."""
    rank = max(facts.trace.meta.rank, 0)
    on_device = facts.trace.columns.domain[rows] == Domain.DEVICE
    chosen = rows if on_device.any() else rows[~on_device]
    return Scope(facts.scope.window, selection=frozenset((rank, row) for row in chosen.tolist()))
