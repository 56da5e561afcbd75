"""Times of collectives over two levels of network, by algorithm: what ``nccl-like`` projection uses.

With n members in d scale-up domains (m = n/d of them in each), inner bandwidth B and step latency a, outer bandwidth
B' and step latency a', and the volumes and steps of a ring from :mod:`chakra_core.project.collectives`:

==================  =========================================================  =====================================
algorithm           steps                                                      bytes
==================  =========================================================  =====================================
ring                as there; d - 1 of them (all-reduce: 2 (d - 1)) cross      volume / slowest level crossed
                    the outer network (NCCL ``tuning.cc``, nInterSteps)
direct              1 (all-reduce, barrier: 2), all messages at once           as ring
halving-doubling    ceil(log2 n) (all-reduce: twice)                           as ring
tree                all-reduce: 2 (m - 1) inner + 2 ceil(log2 d) outer (NCCL   2 S / (0.92 of the bandwidth): NCCL's
                    ``tuning.cc``, tree); broadcast, reduce: half of that      figure for trees; S for broadcast
hierarchical        the phases below, each a ring                              inner and outer separately
auto                the least of all                                           -
==================  =========================================================  =====================================

Hierarchical: all-reduce = reduce-scatter inside, all-reduce of S/m outside, all-gather inside; reduce-scatter and
all-gather likewise without the others' phases; all-to-all = one inside and one outside. Cut into ``chunks``, the
phases of different chunks overlap: the slowest phase counts fully, the others once per chunk. What an algorithm has
no form for goes as a ring. Halving-doubling: R. Thakur, R. Rabenseifner, W. Gropp, *Optimization of collective
communication operations in MPICH* (2005), sections 4.1, 4.4 and 4.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakra_core.hardware.model import Device
from chakra_core.project.collectives import ring_steps, ring_volume
from chakra_core.project.durations import ASSUMED_LATENCY_NS
from chakra_core.schema import CommOp
from chakra_core.trace import ProcessGroup, Trace

__all__ = ["COLLECTIVE_ALGORITHMS", "Fabric", "group_spread"]

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

COLLECTIVE_ALGORITHMS: tuple[str, ...] = ("ring", "direct", "halving-doubling", "tree", "hierarchical", "auto")
"""Names of the algorithms."""

_TREE_SHARE = 0.92
_TWICE = (CommOp.ALL_REDUCE, CommOp.BARRIER, CommOp.UNKNOWN)
_SCATTERS = (CommOp.REDUCE_SCATTER, CommOp.REDUCE_SCATTER_BLOCK)


@dataclass(frozen=True, slots=True)
class Fabric:
    """The network of a cluster of one kind of device.

    Attributes:
        device: whose links; ``link_bandwidth`` must be known.
        domain: devices in one scale-up domain; the catalogue's by default (0).
        link: factor on all bandwidths.
        latency: factor on all step latencies.
        algorithm: one of ``COLLECTIVE_ALGORITHMS``.
        chunks: pieces of a hierarchical collective.
    """

    device: Device
    domain: int = 0
    link: float = 1.0
    latency: float = 1.0
    algorithm: str = "ring"
    chunks: int = 4

    @property
    def domain_size(self) -> int:
        """Devices in one scale-up domain."""
        return self.domain or self.device.domain_size

    @property
    def latencies_ns(self) -> tuple[float, float]:
        """Step latency inside and outside a domain, ns; ``ASSUMED_LATENCY_NS`` where no source states one."""
        inner, outer = self.device.link_latency_ns, self.device.scale_out_latency_ns
        inner = ASSUMED_LATENCY_NS if inner is None else inner
        return inner * self.latency, (inner if outer is None else outer) * self.latency

    def collective_ns(self, op: Any, size: Any, members: Any, spread: Any = 1) -> F64:
        """Time of each operation, ns (float64).

        Args:
            op: CommOp of each.
            size: S in bytes (Chakra's ``comm_size``: a rank's input).
            members: ranks in the group.
            spread: scale-up domains the group lies in.
        """
        ops, size, n, d = np.broadcast_arrays(
            op, np.maximum(np.asarray(size, np.float64), 0.0), np.maximum(members, 1), np.maximum(spread, 1)
        )
        n, d = n.astype(np.float64), np.minimum(d, n).astype(np.float64)
        if self.algorithm == "auto":
            each = [self._by(name, ops, size, n, d) for name in COLLECTIVE_ALGORITHMS[:-1]]
            fastest: F64 = np.minimum.reduce(each)
            return fastest
        return self._by(self.algorithm, ops, size, n, d)

    def _by(self, name: str, ops: Any, size: F64, n: F64, d: F64) -> F64:
        if name == "hierarchical":
            return self._hierarchical(ops, size, n, d)
        steps = self._ring_latency(ops, n, d)
        bandwidth = self._bandwidth(n, d)
        volume = ring_volume(ops, n)
        _, far = self.latencies_ns
        lat = np.where(d > 1, far, self.latencies_ns[0])
        twice = np.where(np.isin(ops, _TWICE), 2.0, 1.0)
        rounds = np.ceil(np.log2(np.maximum(n, 1.0)))
        single = np.isin(ops, (CommOp.SEND, CommOp.RECV)) | (n <= 1)
        if name == "direct":
            steps = np.where(single, steps, twice * lat)
        elif name == "halving-doubling":
            steps = np.where(single, steps, twice * rounds * lat)
        elif name == "tree":
            tree = np.isin(ops, (*_TWICE, CommOp.BROADCAST, CommOp.REDUCE)) & ~single
            near, far = self.latencies_ns
            up = (np.ceil(n / d) - 1) * near + np.ceil(np.log2(d)) * far
            steps = np.where(tree, twice * up, steps)
            heavy = np.isin(ops, (CommOp.ALL_REDUCE, CommOp.UNKNOWN)) & tree
            volume = np.where(heavy, 2.0 / _TREE_SHARE, volume)
        time: F64 = steps + volume * size / bandwidth * 1e9
        return np.where(n > 1, time, np.where(np.isin(ops, (CommOp.SEND, CommOp.RECV)), time, 0.0))

    def _bandwidth(self, n: F64, d: F64) -> F64:
        """B/s of the slowest level a group crosses."""
        inside = np.maximum(np.ceil(n / d), np.where(d > 1, 1, n))
        distinct, where = np.unique(inside, return_inverse=True)
        inner = np.array([self.device.group_bandwidth(max(int(count), 2)) or 1.0 for count in distinct])[where]
        outer = self.device.scale_out_bandwidth
        usable = inner if outer is None else np.where(d > 1, np.minimum(inner, outer), inner)
        scaled: F64 = usable.reshape(np.shape(n)) * self.link
        return scaled

    def _ring_latency(self, ops: Any, n: F64, d: F64) -> F64:
        near, far = self.latencies_ns
        steps = ring_steps(ops, n)
        crossing = np.where(d > 1, np.minimum(ring_steps(ops, d), steps), 0.0)
        time: F64 = (steps - crossing) * near + crossing * far
        return time

    def _hierarchical(self, ops: Any, size: F64, n: F64, d: F64) -> F64:
        flat = self._by("ring", ops, size, n, d)
        m = np.ceil(n / d)
        one = np.ones_like(d)
        reduces = np.isin(ops, (CommOp.ALL_REDUCE, CommOp.UNKNOWN))
        scatters, gathers = np.isin(ops, _SCATTERS), ops == CommOp.ALL_GATHER
        all_to_all = ops == CommOp.ALL_TO_ALL
        inside = np.where(reduces | scatters, CommOp.REDUCE_SCATTER, ops)
        first = self._by("ring", inside, np.where(gathers, size * d, size), m, one)
        left = np.where(gathers | all_to_all, size, size / m)
        outer = self._outer(ops, left, d)
        last = np.where(reduces, self._by("ring", np.full_like(ops, CommOp.ALL_GATHER), size / m, m, one), 0.0)
        total, slowest = first + outer + last, np.maximum(np.maximum(first, outer), last)
        piped = total / self.chunks + slowest * (self.chunks - 1) / self.chunks
        known = (reduces | scatters | gathers | all_to_all) & (d > 1) & (m > 1)
        return np.where(known, piped, flat)

    def _outer(self, ops: Any, size: F64, d: F64) -> F64:
        """A ring of one member per domain over the outer network alone."""
        bandwidth = (self.device.scale_out_bandwidth or self.device.group_bandwidth(2) or 1.0) * self.link
        time: F64 = ring_steps(ops, d) * self.latencies_ns[1] + ring_volume(ops, d) * size / bandwidth * 1e9
        return time


def group_spread(trace: Trace, domain: int, world_size: int = -1) -> I64:
    """Scale-up domains that each row's process group lies in (int64), ranks filling one domain after the other.

    Groups whose members are not listed are taken to be packed. A send or receive crosses where its peer is outside.
    """
    world = max(world_size if world_size > 0 else trace.meta.world_size, 1)
    everyone = ProcessGroup("", size=world)
    spreads = np.array([_spread(group, domain, world) for group in (*trace.meta.groups, everyone)], np.int64)
    group = trace.columns.comm_group
    last = len(spreads) - 1
    found = spreads[np.where((group >= 0) & (group < last), group, last)]
    pairs = np.isin(trace.columns.comm_op, (CommOp.SEND, CommOp.RECV))
    apart = trace.columns.comm_peer // domain != max(trace.meta.rank, 0) // domain
    return np.where(pairs, np.where(apart & (trace.columns.comm_peer >= 0), 2, 1), found)


def _spread(group: ProcessGroup, domain: int, world: int) -> int:
    if group.ranks:
        return len({rank // domain for rank in group.ranks})
    return -(-(group.size if group.size > 0 else world) // domain)
