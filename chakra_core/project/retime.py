"""What each device node of a measured trace would take on other hardware."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from chakra_core.hardware.model import PRECISIONS, Device
from chakra_core.project.durations import group_sizes
from chakra_core.project.fabric import COLLECTIVE_ALGORITHMS, Fabric, group_spread
from chakra_core.project.mapping import PLACES, Mapping, map_spread
from chakra_core.schema import Category, CommOp, Domain
from chakra_core.trace import Trace

__all__ = ["FACTORS", "Knobs", "Retimed", "data_parallel_groups", "retime"]

F64 = NDArray[np.float64]

_COMPUTE_BOUND = (Category.GEMM, Category.ATTENTION, Category.CONVOLUTION)
_MEMORY_BOUND = (Category.NORMALISATION, Category.ELEMENTWISE, Category.REDUCTION, Category.EMBEDDING, Category.MEMSET)
_DATA_PARALLEL = re.compile(r"(?i)(?<![a-z])(?:f?s?ddp|dp|fsdp|data.?parallel)(?![a-z])")
_HOST_LINK = ("htod", "dtoh", "hosttodevice", "devicetohost")


@dataclass(frozen=True, slots=True)
class Knobs:
    """What is changed about the target, beside its catalogue figures.

    Attributes:
        compute, memory, link: how much faster than the catalogue says.
        latency: factor on the latency of a step of a collective.
        launch: factor on launch overhead: the time of launching calls, and what a kernel that waits for nothing else
            starts after its call.
        compression: how many times smaller the messages of collectives are.
        data_parallel: factor on the size of data-parallel groups.
        overlap: whether communication may run beside compute.
        algorithm: of collectives on the target, one of ``COLLECTIVE_ALGORITHMS``; the source is taken as a ring.
        domain: devices in one scale-up domain of the target; the catalogue's by default (0).
        precision: of the source run's matrix kernels: its peak is compared on both devices.
        mapping: where process groups lie on the target (:mod:`chakra_core.project.mapping`); as ranks fill the domains
            by default.
    """

    compute: float = 1.0
    memory: float = 1.0
    link: float = 1.0
    latency: float = 1.0
    launch: float = 1.0
    compression: float = 1.0
    data_parallel: float = 1.0
    overlap: bool = True
    algorithm: str = "ring"
    domain: int = 0
    precision: str = "bf16"
    mapping: Mapping = ()

    def __post_init__(self) -> None:
        for name in FACTORS:
            value = getattr(self, name)
            lowest = 0.0 if name in ("latency", "launch") else 1e-9
            if not lowest <= value <= _MOST:
                raise ValueError(f"the factor for {name} must be above 0 and at most {_MOST:g}, not {value}")
        if self.algorithm not in COLLECTIVE_ALGORITHMS:
            raise ValueError(f"the algorithm must be one of {', '.join(COLLECTIVE_ALGORITHMS)}, not {self.algorithm!r}")
        if self.precision not in PRECISIONS:
            raise ValueError(f"the precision must be one of {', '.join(PRECISIONS)}, not {self.precision!r}")
        if any(place not in PLACES for _, place in self.mapping):
            raise ValueError(f"a group lies {' or '.join(PLACES)}, not {self.mapping!r:.80}")
        if not 0 <= self.domain <= _MOST:
            raise ValueError(f"the scale-up domain must have 1 to {_MOST:g} devices, not {self.domain}")

    @property
    def changed(self) -> dict[str, float]:
        """The factors that are not 1."""
        values = {name: float(getattr(self, name)) for name in FACTORS}
        return {name: value for name, value in values.items() if value != 1.0}


FACTORS: tuple[str, ...] = ("compute", "memory", "link", "latency", "launch", "compression", "data_parallel")
"""Knobs that are factors, in the order in which they are shown."""

_MOST = 1e6


@dataclass(frozen=True, slots=True)
class Retimed:
    """Factor on each row's duration (float64), and how many device nodes were timed by which rule."""

    factor: F64
    counts: dict[str, int] = field(default_factory=dict)


def retime(trace: Trace, source: Device, target: Device, knobs: Knobs, world_size: int = -1) -> Retimed:
    """Factors on the durations of a trace's device nodes, from one device to another.

    Where FLOPs or bytes of a node are known, its roofline time on both devices is compared, so that the efficiency it
    reached on the source is carried over. Otherwise its category tells the binding resource: matrix products,
    attention and convolutions scale with peak FLOP/s; normalisation, elementwise, reduction, embedding, memset and
    copies within the device with memory bandwidth. Collectives scale with the ratio of their alpha-beta times where
    size and group are known, with link bandwidth otherwise. Copies between host and device scale with the host link where both are known.
    Unclassified kernels and everything on the host keep their duration; each rule counts its nodes.
    """
    columns = trace.columns
    n = len(trace)
    factor = np.ones(n)
    rule = np.full(n, -1, np.int8)
    device = columns.domain == Domain.DEVICE
    compute = source.peak(knobs.precision)[0] / (target.peak(knobs.precision)[0] * knobs.compute)
    memory = source.memory_bandwidth / (target.memory_bandwidth * knobs.memory)

    def apply(mask: NDArray[np.bool_], value: float | F64, number: int) -> None:
        chosen = mask & device & (rule < 0)
        factor[chosen] = value[chosen] if isinstance(value, np.ndarray) else value
        rule[chosen] = number

    apply(columns.category == Category.ANNOTATION, 1.0, 6)
    apply(columns.comm_op != CommOp.NONE, _communication(trace, source, target, knobs, world_size), 0)
    apply(columns.category == Category.COMMUNICATION, _link_ratio(source, target, knobs), 0)
    ours, theirs = source.host_link_bandwidth, target.host_link_bandwidth
    if ours and theirs:
        apply(_host_copies(trace), ours / theirs, 7)
    apply(_host_copies(trace), 1.0, 5)
    before, after = _rooflines(trace, source, target, knobs)
    known = before > 0
    apply(known, np.divide(after, before, out=np.ones(n), where=known), 1)
    apply(np.isin(columns.category, _COMPUTE_BOUND), compute, 2)
    apply(np.isin(columns.category, (*_MEMORY_BOUND, Category.COPY)), memory, 3)
    apply(device, 1.0, 4)
    counted = np.bincount(rule[rule >= 0], minlength=len(RULES))
    return Retimed(factor, {words: int(counted[at]) for at, words in enumerate(RULES) if counted[at]})


RULES: tuple[str, ...] = (
    "communication nodes scaled by their alpha-beta time",
    "kernels scaled by their roofline time, efficiency kept",
    "compute-bound kernels scaled by peak FLOP/s",
    "memory-bound kernels and copies scaled by memory bandwidth",
    "unclassified kernels left as measured",
    "copies between host and device left as measured",
    "annotations moved with their kernels",
    "copies between host and device scaled by the host link",
)
"""Words for the rules by which a node is re-timed, in the order of their numbers."""


def _rooflines(trace: Trace, source: Device, target: Device, knobs: Knobs) -> tuple[F64, F64]:
    columns = trace.columns
    flops, moved = np.maximum(columns.flops, 0).astype(float), np.maximum(columns.bytes_accessed, 0).astype(float)
    before = np.maximum(flops / source.peak(knobs.precision)[0], moved / source.memory_bandwidth)
    peak = target.peak(knobs.precision)[0] * knobs.compute
    return before, np.maximum(flops / peak, moved / (target.memory_bandwidth * knobs.memory))


def _link_ratio(source: Device, target: Device, knobs: Knobs) -> float:
    if source.link_bandwidth is None or target.link_bandwidth is None:
        return 1.0
    return source.link_bandwidth / (target.link_bandwidth * knobs.link * knobs.compression)


def _communication(trace: Trace, source: Device, target: Device, knobs: Knobs, world_size: int) -> F64:
    columns = trace.columns
    factor = np.full(len(trace), _link_ratio(source, target, knobs))
    rows = np.flatnonzero((columns.comm_op != CommOp.NONE) & (columns.comm_bytes >= 0))
    if not len(rows) or source.link_bandwidth is None or target.link_bandwidth is None:
        return factor
    sizes = group_sizes(trace, world_size)
    ops, bytes_ = columns.comm_op[rows], columns.comm_bytes[rows]
    here = Fabric(source)
    spread = group_spread(trace, here.domain_size, world_size)
    before = here.collective_ns(ops, bytes_, sizes[rows], spread[rows])
    there = Fabric(target, knobs.domain, knobs.link, knobs.latency, knobs.algorithm)
    spread = group_spread(trace, there.domain_size, world_size)
    sizes, spread = _scaled(trace, sizes, spread, knobs.data_parallel, there.domain_size, world_size)
    spread = map_spread(trace, sizes, spread, there.domain_size, knobs.mapping)
    after = there.collective_ns(ops, bytes_ / knobs.compression, sizes[rows], spread[rows])
    factor[rows] = np.divide(after, before, out=factor[rows].copy(), where=before > 0)
    return factor


def data_parallel_groups(trace: Trace, world_size: int = -1) -> NDArray[np.bool_]:
    """Which of a trace's process groups are data-parallel: by description or name, else those that hold every rank."""
    world = world_size if world_size > 0 else trace.meta.world_size
    named = np.array(
        [bool(_DATA_PARALLEL.search(f"{group.description} {group.name}")) for group in trace.meta.groups], bool
    )
    whole = np.array([(len(group.ranks) or group.size) in (world, -1) for group in trace.meta.groups], bool)
    return named if named.any() else whole


def _scaled(
    trace: Trace, sizes: NDArray[np.int64], spread: NDArray[np.int64], by: float, domain: int, world_size: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sizes and domains of groups when data-parallel ones grow: the new ranks come in domains of their own."""
    if by == 1.0:
        return sizes, spread
    chosen = np.append(data_parallel_groups(trace, world_size), not trace.meta.groups)
    group = trace.columns.comm_group
    last = len(chosen) - 1
    grows = chosen[np.where((group >= 0) & (group < last), group, last)]
    grown = np.maximum(np.rint(sizes * by), 1).astype(np.int64)
    world = max(world_size if world_size > 0 else trace.meta.world_size, 1)
    domains = max(int(np.ceil(world * by / domain)), 1)
    wide = np.minimum(grown, np.maximum(spread, domains) if by > 1 else np.minimum(spread, domains))
    return np.where(grows, grown, sizes), np.where(grows, wide, spread)


def _host_copies(trace: Trace) -> NDArray[np.bool_]:
    copies: NDArray[np.bool_] = trace.columns.category == Category.COPY
    names = np.unique(trace.columns.name[copies]).tolist()
    hosts = [at for at in names if any(word in _flat(trace.names[at]) for word in _HOST_LINK)]
    return copies & np.isin(trace.columns.name, hosts)


def _flat(name: str) -> str:
    return name.lower().replace(" ", "").replace("_", "")
