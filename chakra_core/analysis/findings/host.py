"""Rules about the host: devices that wait for it."""

from __future__ import annotations

import re

import numpy as np

from chakra_core.analysis.findings._make import finding, longest_of, name_of, path_evidence
from chakra_core.analysis.findings.facts import Facts
from chakra_core.analysis.findings.model import Evidence, Finding, Thresholds
from chakra_core.analysis.what_if import Factors
from chakra_core.schema import Category, TimeKind
from chakra_core.words import count, duration, share

__all__ = ["data_loading", "host_bound", "idle", "launch_bound", "recompiles", "synchronisation"]

_DATA = re.compile(r"DataLoader|data_?loading|_next_data|next_batch|load_batch|IteratorGetNext|prefetch_to_device")
_SYNC = re.compile(r"Synchronize$|_local_scalar_dense|^aten::item$|^aten::is_nonzero$")
_COMPILE = re.compile(
    r"ModuleLoad|LibraryLoadData|rtcCompile|compile_fx|_compile_inner|dynamo.*compil|backend_compile|Xla\w*Compil"
)


def host_bound(facts: Facts, limits: Thresholds) -> Finding | None:
    """The devices idle because the host has not begun to launch the next work."""
    gaps = facts.gaps
    lost = int(gaps.host_ns.sum())
    if not lost or lost < limits.idle_share * facts.total_ns:
        return None
    order = longest_of(gaps.host_ns)
    worst = int(order[0])
    row = int(gaps.next_row[worst])
    text = (
        f"Devices stand still for {share(lost, facts.total_ns)} of their time ({duration(lost)}) before the host begins "
        f"to launch what comes next. The longest such gap lasts {duration(int(gaps.dur_ns[worst]))}, before "
        f"{name_of(facts, row)}."
    )
    return finding(
        facts, "host-bound", "Devices wait for the host", text,
        advice="Look at what the host does in the gap: data loading, synchronisation, Python. CUDA or HIP graphs and "
        "larger batches let the host run ahead.",
        saving=lost, bound="the idle time before launches: gone if every launch came in time",
        evidence=(
            Evidence("idle before launches", lost, "ns"), Evidence("gaps", len(order), "count"),
            Evidence("longest gap", int(gaps.dur_ns[worst]), "ns"), Evidence("idle in all", facts.part.idle_ns, "ns"),
        ),
        row=row, rows=gaps.next_row[order],
        window=facts.around(int(gaps.start_ns[worst]), int(gaps.end_ns[worst])),
    )  # fmt: skip


def launch_bound(facts: Facts, limits: Thresholds) -> Finding | None:
    """The devices idle while work is being launched: the launches take longer than what they launch."""
    gaps = facts.gaps
    lost = int(gaps.launch_ns.sum())
    if not lost or lost < limits.idle_share * facts.total_ns:
        return None
    order = longest_of(gaps.launch_ns)
    small = int((facts.work.dur_ns < limits.small_kernel_ns).sum())
    text = (
        f"Devices wait {duration(lost)} ({share(lost, facts.total_ns)} of their time) for launches under way, in "
        f"{count(len(order), 'gap')}. {share(small, len(facts.work))} of the device work is shorter than "
        f"{duration(limits.small_kernel_ns)}."
    )
    return finding(
        facts, "launch-bound", "Launching takes longer than the kernels", text,
        advice="Fewer and larger kernels: fusion, a compiler, CUDA or HIP graphs, larger batches.",
        saving=lost, bound="the idle time during launches: gone if launching were free",
        evidence=(
            Evidence("idle during launches", lost, "ns"), Evidence("gaps", len(order), "count"),
            Evidence("small kernels", small, "count"), Evidence("kernels", len(facts.work), "count"),
            *path_evidence(facts, Factors(causes={"launch": 0.0}, categories={Category.RUNTIME: 0.0})),
        ),
        row=int(gaps.next_row[order[0]]), rows=gaps.next_row[order],
        window=facts.around(int(gaps.start_ns[order[0]]), int(gaps.end_ns[order[0]])),
    )  # fmt: skip


def idle(facts: Facts, limits: Thresholds) -> Finding | None:
    """The devices idle and no launch tells why: launches are not in the trace, or the work waited for other work."""
    gaps = facts.gaps
    unknown = gaps.dur_ns - gaps.host_ns - gaps.launch_ns
    lost = int(unknown.sum())
    if not lost or lost < limits.idle_share * facts.total_ns:
        return None
    order = longest_of(unknown)
    worst = int(order[0])
    row = int(gaps.next_row[worst])
    why = "the launches of what follows are not recorded, so the trace does not say why"
    if facts.trace.meta.time_kind != TimeKind.MEASURED:
        why = f"times are {facts.trace.meta.time_kind}: what follows waits for what it depends on"
    text = (
        f"Devices have nothing to do for {duration(lost)} ({share(lost, facts.total_ns)} of their time); {why}. The longest "
        f"gap lasts "
        f"{duration(int(gaps.dur_ns[worst]))}, before {name_of(facts, row)}."
    )
    return finding(
        facts, "idle", "Idle devices", text,
        advice="Look at what ends before the gap and what begins after it; record the host side as well.",
        saving=lost, bound="the idle time itself",
        evidence=(
            Evidence("idle, unexplained", lost, "ns"), Evidence("gaps", len(order), "count"),
            Evidence("longest gap", int(gaps.dur_ns[worst]), "ns"), Evidence("idle in all", facts.part.idle_ns, "ns"),
        ),
        row=row, rows=gaps.next_row[order],
        window=facts.around(int(gaps.start_ns[worst]), int(gaps.end_ns[worst])),
    )  # fmt: skip


def data_loading(facts: Facts, limits: Thresholds) -> Finding | None:
    """The devices idle while the host fetches data."""
    return _while_idle(
        facts, limits, _DATA, "data-loading", "Devices wait for data", "data loading",
        "More loader workers, prefetching, pinned memory, cheaper decoding; or move preprocessing off the step.",
    )  # fmt: skip


def synchronisation(facts: Facts, limits: Thresholds) -> Finding | None:
    """The devices idle while, or right where, the host waits for them: it cannot run ahead."""
    return _while_idle(
        facts, limits, _SYNC, "synchronisation", "The host synchronises with the device",
        "calls that wait for the device",
        "Avoid .item(), printing of tensors and blocking copies inside the step; read results once, later.",
    )  # fmt: skip


def recompiles(facts: Facts, limits: Thresholds) -> Finding | None:
    """The devices idle while something is compiled or loaded."""
    return _while_idle(
        facts, limits, _COMPILE, "recompiles", "Kernels are compiled or loaded during the run",
        "compiling and loading of kernels",
        "Warm up before measuring; fix shapes that change from step to step, or mark them dynamic.",
    )  # fmt: skip


def _while_idle(
    facts: Facts, limits: Thresholds, pattern: re.Pattern[str], rule: str, title: str, what: str, advice: str
) -> Finding | None:
    found = facts.host_named(pattern)
    if not len(found) or not len(facts.gaps.start_ns):
        return None
    lost, each = facts.while_idle(found)
    if not lost or lost < limits.idle_share * facts.total_ns:
        return None
    order = longest_of(each)
    worst = int(order[0])
    row = int(found.rows[worst])
    text = (
        f"During {what} ({count(len(found), 'call')}, such as {name_of(facts, row)}) the devices stand still for "
        f"{duration(lost)}, {share(lost, facts.total_ns)} of their time."
    )
    return finding(
        facts, rule, title, text, advice=advice, saving=lost,
        bound="the idle time during these calls; what the host does instead may still keep the devices waiting",
        evidence=(
            Evidence("idle meanwhile", lost, "ns"), Evidence("calls", len(found), "count"),
            Evidence("time in calls", int(np.sum(found.dur_ns)), "ns"),
            Evidence("most idle in one call", int(each[worst]), "ns"),
        ),
        row=row, rows=found.rows[order],
        window=facts.around(int(found.start_ns[worst]), int(found.end_ns[worst])),
    )  # fmt: skip
