"""Durations that a device would need at best: for traces that carry work and sizes but no times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakra_core.errors import AnalysisError
from chakra_core.hardware.model import Device
from chakra_core.project.collectives import collective_ns
from chakra_core.schema import Category, CommOp, NodeKind
from chakra_core.trace import ProcessGroup, Trace

__all__ = ["ASSUMED_LATENCY_NS", "Rates", "Simulated", "group_sizes", "simulate_durations"]

I64 = NDArray[np.int64]

ASSUMED_LATENCY_NS = 1000.0
"""Step latency taken, and said, where the catalogue has none for a device."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Which peaks of a device count, and what share of them is reached.

    Attributes:
        precision: whose peak FLOP/s to use; the device's nearest where it states none for it.
        compute: share of peak FLOP/s reached, in (0, 1].
        memory: share of memory bandwidth reached, in (0, 1].
        link: share of link bandwidth reached, in (0, 1].
        link_bandwidth: B/s per direction instead of the catalogue's.
        link_latency_ns: of one step, instead of the catalogue's.
    """

    precision: str = "bf16"
    compute: float = 1.0
    memory: float = 1.0
    link: float = 1.0
    link_bandwidth: float | None = None
    link_latency_ns: float | None = None

    def __post_init__(self) -> None:
        for name in ("compute", "memory", "link"):
            if not 0.0 < getattr(self, name) <= 1.0:
                raise ValueError(f"the share of {name} reached must lie in (0, 1], not {getattr(self, name)}")

    def words(self, device: Device) -> str:
        """The assumption about compute and memory as a plain sentence."""
        peak, used = device.peak(self.precision)
        swap = "" if used == self.precision else f" (no {self.precision} figure for this device)"
        return (
            f"compute: roofline of {device.name}, {peak / 1e12:g} TFLOP/s {used}{swap} at {self.compute:.0%}, "
            f"{device.memory_bandwidth / 1e9:g} GB/s at {self.memory:.0%}; every node at that precision"
        )


@dataclass(frozen=True, slots=True)
class Simulated:
    """Durations per row (int64 ns), what was assumed, and the rows that kept their duration for want of sizes."""

    dur_ns: I64
    assumptions: tuple[str, ...]
    kept: I64


def simulate_durations(
    trace: Trace, device: Device, *, rates: Rates | None = None, world_size: int = -1, only_missing: bool = False
) -> Simulated:
    """Durations of a trace's nodes on a device, by roofline and alpha-beta.

    Compute takes max(FLOPs / peak, bytes / memory bandwidth) (S. Williams, A. Waterman, D. Patterson, *Roofline*,
    CACM 52(4), 2009); memory nodes take bytes / memory bandwidth; collectives, sends and receives take the times of
    :mod:`chakra_core.project.collectives`. A positive time is at least 1 ns. Nodes that state neither FLOPs nor bytes
    keep their duration.

    Args:
        trace: the trace; its columns ``flops``, ``bytes_accessed`` and ``comm_*`` are used.
        device: catalogue entry.
        rates: what share of the device's peaks is reached, and at which precision; all of it at bf16 by default.
        world_size: ranks of the run, for groups whose members are not listed; the trace's own by default.
        only_missing: re-time only nodes whose duration is 0.

    Raises:
        AnalysisError: the trace communicates and no link bandwidth is known.
    """
    rates = rates or Rates()
    columns = trace.columns
    wanted = columns.dur_ns <= 0 if only_missing else np.ones(len(trace), bool)
    communication = columns.comm_op != CommOp.NONE
    known = ((columns.flops >= 0) | (columns.bytes_accessed >= 0)) & ~communication
    dur = np.where(wanted & known, _roofline_ns(trace, device, rates), columns.dur_ns.astype(np.float64))
    said = [rates.words(device)]

    sized = (columns.comm_bytes >= 0) | (columns.comm_op == CommOp.BARRIER)
    rows = np.flatnonzero(wanted & communication & sized)
    if len(rows):
        link = _Link.of(device, rates)
        dur[rows] = _communication(trace, rows, group_sizes(trace, world_size)[rows], device, link)
        said += link.words(device)
    kept = np.flatnonzero(wanted & ~known & ~(communication & sized))
    if len(kept):
        said.append(f"{len(kept):,} nodes state neither work nor size and keep their duration")
    whole = np.where(dur > 0, np.maximum(np.rint(dur), 1.0), 0.0).astype(np.int64)
    return Simulated(whole, tuple(said), kept)


def _roofline_ns(trace: Trace, device: Device, rates: Rates) -> NDArray[np.float64]:
    columns = trace.columns
    memory = np.isin(columns.kind, [NodeKind.MEM_LOAD, NodeKind.MEM_STORE])
    memory |= np.isin(columns.category, [Category.COPY, Category.MEMSET])
    flops = np.where(memory, 0, np.maximum(columns.flops, 0)) / (device.peak(rates.precision)[0] * rates.compute)
    moved = np.maximum(columns.bytes_accessed, 0) / (device.memory_bandwidth * rates.memory)
    return np.maximum(flops, moved) * 1e9


@dataclass(frozen=True, slots=True)
class _Link:
    """Bandwidth (B/s, or None: the device's own by group size) and latency (ns) with where they are from."""

    bandwidth: float | None
    latency_ns: float
    efficiency: float
    latency_assumed: bool

    @classmethod
    def of(cls, device: Device, rates: Rates) -> _Link:
        if rates.link_bandwidth is None and device.link_bandwidth is None:
            raise AnalysisError(f"the catalogue has no link bandwidth for {device.name}: give one (link_bandwidth)")
        known = rates.link_latency_ns if rates.link_latency_ns is not None else device.link_latency_ns
        latency = ASSUMED_LATENCY_NS if known is None else known
        return cls(rates.link_bandwidth, latency, rates.link, known is None)

    def of_group(self, device: Device, members: int) -> float:
        usable = self.bandwidth or device.group_bandwidth(members) or 0.0
        outside = device.scale_out_bandwidth
        if self.bandwidth is None and members > device.domain_size and outside:
            usable = min(usable, outside)
        return usable * self.efficiency

    def words(self, device: Device) -> list[str]:
        bandwidth = self.bandwidth or device.link_bandwidth or 0.0
        rate = f"{bandwidth / 1e9:g} GB/s per direction at {self.efficiency:.0%}, {self.latency_ns:g} ns per step"
        where = f"a group of up to {device.domain_size} ranks shares one scale-up domain"
        said = [f"collectives: ring, alpha-beta; {rate}; {where}"]
        if self.bandwidth is None and device.link_topology == "fully_connected":
            said.append(
                f"{device.name} devices are linked pairwise: a group of n uses (n - 1)/{device.domain_size - 1} of that"
            )
        if self.latency_assumed:
            said.append(f"no published link latency for {device.name}: {self.latency_ns:g} ns per step assumed")
        return said


def group_sizes(trace: Trace, world_size: int = -1) -> I64:
    """Ranks in the process group of each row (int64): members listed, else stated size, else the world; 1 otherwise.

    Sends and receives count 2.
    """
    world = max(world_size if world_size > 0 else trace.meta.world_size, 1)
    sizes = np.array([_members(group, world) for group in trace.meta.groups] + [world], np.int64)
    group = trace.columns.comm_group
    picked = sizes[np.where((group >= 0) & (group < len(sizes) - 1), group, len(sizes) - 1)]
    pairs = np.isin(trace.columns.comm_op, [CommOp.SEND, CommOp.RECV])
    return np.where(pairs, 2, picked)


def _members(group: ProcessGroup, world: int) -> int:
    return len(group.ranks) or (group.size if group.size > 0 else world)


def _communication(trace: Trace, rows: I64, sizes: I64, device: Device, link: _Link) -> NDArray[np.float64]:
    distinct, where = np.unique(sizes, return_inverse=True)
    bandwidth = np.array([link.of_group(device, int(members)) for members in distinct])[where]
    columns = trace.columns
    return collective_ns(columns.comm_op[rows], columns.comm_bytes[rows], sizes, bandwidth, link.latency_ns)
