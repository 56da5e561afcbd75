"""What each device node of a measured trace would take on other hardware."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from chakra_core.hardware.model import Device
from chakra_core.project.collectives import collective_ns
from chakra_core.project.durations import ASSUMED_LATENCY_NS, group_sizes
from chakra_core.schema import Category, CommOp, Domain
from chakra_core.trace import Trace

__all__ = ["Knobs", "Retimed", "retime"]

F64 = NDArray[np.float64]

_COMPUTE_BOUND = (Category.GEMM, Category.ATTENTION, Category.CONVOLUTION)
_MEMORY_BOUND = (Category.NORMALISATION, Category.ELEMENTWISE, Category.REDUCTION, Category.EMBEDDING, Category.MEMSET)
_HOST_LINK = ("htod", "dtoh", "hosttodevice", "devicetohost")


@dataclass(frozen=True, slots=True)
class Knobs:
    """How much faster than the catalogue says the target is taken to be; ``latency`` multiplies the step latency.

    ``precision`` is that of the source run's matrix kernels: its peak is compared on both devices.
    """

    compute: float = 1.0
    memory: float = 1.0
    link: float = 1.0
    latency: float = 1.0
    precision: str = "bf16"

    def __post_init__(self) -> None:
        for name in ("compute", "memory", "link", "latency"):
            if not getattr(self, name) > 0.0:
                raise ValueError(f"the factor for {name} must be above 0, not {getattr(self, name)}")

    @property
    def changed(self) -> dict[str, float]:
        """The factors that are not 1."""
        values = {name: float(getattr(self, name)) for name in ("compute", "memory", "link", "latency")}
        return {name: value for name, value in values.items() if value != 1.0}


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
    size and group are known, with link bandwidth otherwise. Copies between host and device, unclassified kernels and
    everything on the host keep their duration; each rule counts its nodes.
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
    apply(_host_copies(trace), 1.0, 5)
    before, after = _rooflines(trace, source, target, knobs)
    known = before > 0
    apply(known, np.divide(after, before, out=np.ones(n), where=known), 1)
    apply(np.isin(columns.category, _COMPUTE_BOUND), compute, 2)
    apply(np.isin(columns.category, (*_MEMORY_BOUND, Category.COPY)), memory, 3)
    apply(device, 1.0, 4)
    counted = np.bincount(rule[rule >= 0], minlength=7)
    return Retimed(factor, {words: int(counted[at]) for at, words in enumerate(RULES) if counted[at]})


RULES: tuple[str, ...] = (
    "communication nodes scaled by their alpha-beta time",
    "kernels scaled by their roofline time, efficiency kept",
    "compute-bound kernels scaled by peak FLOP/s",
    "memory-bound kernels and copies scaled by memory bandwidth",
    "unclassified kernels left as measured",
    "copies between host and device left as measured",
    "annotations moved with their kernels",
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
    return source.link_bandwidth / (target.link_bandwidth * knobs.link)


def _communication(trace: Trace, source: Device, target: Device, knobs: Knobs, world_size: int) -> F64:
    columns = trace.columns
    factor = np.full(len(trace), _link_ratio(source, target, knobs))
    rows = np.flatnonzero((columns.comm_op != CommOp.NONE) & (columns.comm_bytes >= 0))
    if not len(rows) or source.link_bandwidth is None or target.link_bandwidth is None:
        return factor
    sizes = group_sizes(trace, world_size)[rows]
    before = _model(trace, rows, sizes, source)
    after = _model(trace, rows, sizes, target, knobs)
    factor[rows] = np.divide(after, before, out=factor[rows].copy(), where=before > 0)
    return factor


def _model(
    trace: Trace, rows: NDArray[np.int64], sizes: NDArray[np.int64], device: Device, knobs: Knobs | None = None
) -> F64:
    link, latency = (knobs.link, knobs.latency) if knobs else (1.0, 1.0)
    distinct, where = np.unique(sizes, return_inverse=True)
    usable = np.array([device.group_bandwidth(int(members)) or 1.0 for members in distinct])[where] * link
    step = (ASSUMED_LATENCY_NS if device.link_latency_ns is None else device.link_latency_ns) * latency
    return collective_ns(trace.columns.comm_op[rows], trace.columns.comm_bytes[rows], sizes, usable, step)


def _host_copies(trace: Trace) -> NDArray[np.bool_]:
    hosts = [at for at, name in enumerate(trace.names) if any(word in _flat(name) for word in _HOST_LINK)]
    copies: NDArray[np.bool_] = np.isin(trace.columns.name, hosts) & (trace.columns.category == Category.COPY)
    return copies


def _flat(name: str) -> str:
    return name.lower().replace(" ", "").replace("_", "")
