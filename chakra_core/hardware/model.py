"""What the catalogue says of a device, and how devices are joined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

__all__ = ["LINK_TOPOLOGIES", "PRECISIONS", "Device", "Topology", "TopologyDimension"]

PRECISIONS: tuple[str, ...] = ("fp4", "fp8", "bf16", "fp16", "tf32", "fp32", "fp64", "int8")
"""Names of precisions used in ``peak_flops``."""

LINK_TOPOLOGIES: frozenset[str] = frozenset({"switch", "fully_connected", "mesh", "ring", "torus2d", "torus3d"})
"""How the devices of one scale-up domain are joined."""

_TORUS_AXES = {"torus2d": 2, "torus3d": 3}


@dataclass(frozen=True, slots=True)
class TopologyDimension:
    """One level of a network: ``size`` members joined as ``kind``; bandwidth in B/s per direction, latency in ns."""

    kind: str
    size: int
    bandwidth: float
    latency_ns: float


@dataclass(frozen=True, slots=True)
class Topology:
    """A network as dimensions, innermost first."""

    name: str
    dimensions: tuple[TopologyDimension, ...]


@dataclass(frozen=True, slots=True)
class Device:
    """One accelerator as a trace sees it.

    Attributes:
        peak_flops: dense peak by precision, FLOP/s (``int8``: operations/s).
        memory_bandwidth: B/s.
        memory_bytes: B.
        link_bandwidth: all scale-up links together, B/s per direction; None where no source states it.
        link_latency_ns: one step of a ring over those links, ns; None where no source states it.
        link_topology: one of ``LINK_TOPOLOGIES``.
        domain_size: devices in one scale-up domain.
        scale_out_bandwidth: network out of the domain, B/s per direction and device; None where unknown.
        scale_out_latency_ns: one step of a ring over that network, ns; None where no source states it.
        host_link_bandwidth: between the device and its host, B/s per direction; None where unknown.
        kind: ``accelerator`` or ``host``.
        sources: document and place for each number, keyed by field name.
        patterns: regular expressions that recognise the names traces use for it.
    """

    name: str
    vendor: str
    peak_flops: Mapping[str, float]
    memory_bandwidth: float
    memory_bytes: int
    domain_size: int = 1
    link_bandwidth: float | None = None
    link_latency_ns: float | None = None
    link_topology: str = "switch"
    scale_out_bandwidth: float | None = None
    scale_out_latency_ns: float | None = None
    host_link_bandwidth: float | None = None
    kind: str = "accelerator"
    sources: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    patterns: tuple[str, ...] = ()

    def peak(self, precision: str) -> tuple[float, str]:
        """Peak FLOP/s at a precision, and the precision it really is.

        A device without a figure for bf16 answers with fp16, then tf32, then fp32 (and likewise down the list).

        Raises:
            KeyError: the precision is unknown.
        """
        if precision not in PRECISIONS:
            raise KeyError(precision)
        order = {"bf16": ("bf16", "fp16", "tf32", "fp32"), "fp16": ("fp16", "bf16", "tf32", "fp32")}
        fallbacks = order.get(precision, (precision, "fp8", "bf16", "fp16", "tf32", "fp32", "fp64"))
        for candidate in fallbacks:
            if candidate in self.peak_flops:
                return self.peak_flops[candidate], candidate
        best = max(self.peak_flops, key=lambda name: self.peak_flops[name])
        return self.peak_flops[best], best

    def group_bandwidth(self, members: int) -> float | None:
        """Link bandwidth (B/s per direction) that a group of this many devices of one domain can use.

        Behind a switch: all of it. Fully connected: the links between members only, (n - 1)/(domain - 1) of it.
        On a torus: the links of as many axes as the group spans, at least one axis. A mesh is taken as a switch.
        """
        if self.link_bandwidth is None or members < 2:
            return self.link_bandwidth
        if self.link_topology == "fully_connected" and self.domain_size > 1:
            return self.link_bandwidth * min(1.0, (members - 1) / (self.domain_size - 1))
        axes = _TORUS_AXES.get(self.link_topology)
        if axes:
            side = round(self.domain_size ** (1 / axes))
            spanned = next((axis for axis in range(1, axes) if members <= side**axis), axes)
            return self.link_bandwidth * spanned / axes
        return self.link_bandwidth

    def topology(self) -> Topology | None:
        """The scale-up domain as a network of one dimension; None where bandwidth or latency have no source."""
        if self.link_bandwidth is None or self.link_latency_ns is None:
            return None
        one = TopologyDimension(self.link_topology, self.domain_size, self.link_bandwidth, self.link_latency_ns)
        return Topology(f"{self.name} domain of {self.domain_size}", (one,))
