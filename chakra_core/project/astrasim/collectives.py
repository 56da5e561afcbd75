"""Times of collectives as ASTRA-sim's analytical backend finds them, in whole ns.

A collective of S bytes is cut into ``splits`` chunks; ``active_chunks`` of them are under way in a dimension at once.
A chunk takes, for n members, steps of one message each:

==============  ==============================  ====================  =============================
collective      ring: steps                     message               reduced locally after a step
==============  ==============================  ====================  =============================
reduce-scatter  n - 1                           chunk / n             yes
all-gather      n - 1                           chunk (of one rank)   no
all-reduce      2 (n - 1)                       chunk / n             the first n - 1
all-to-all      n (n - 1)/2 (passed on)         chunk / n             no
==============  ==============================  ====================  =============================

A message takes hops x latency + bytes/bandwidth, cut to whole ns, and the endpoint's delay; a switch counts two hops.
Congestion-aware, each hop sends the whole message on (cut to whole ns per hop), and chunks that start together wait
for one another once. A local reduction reads two operands and writes one at the local memory's bandwidth, where
"GB/s" are 1.024e9 B/s. Rings are checked to the ns against the simulator's results (tests); *direct* (all messages
at once) and *halvingDoubling* (log2 n steps of halves) follow their definition and are not.

In several dimensions a chunk passes one phase per dimension, as the simulator lays them: ``localBWAware`` reduces
scattered up to the last but one, all-reduces in the last, and gathers back; otherwise every dimension does the whole.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from chakra_core.errors import AnalysisError
from chakra_core.project.astrasim.config import NetworkDimension, SystemConfig
from chakra_core.schema import CommOp

__all__ = ["Cluster", "hops"]

_MEM_UNIT = 1.024
_NAMES = {
    CommOp.ALL_REDUCE: "all-reduce",
    CommOp.ALL_GATHER: "all-gather",
    CommOp.REDUCE_SCATTER: "reduce-scatter",
    CommOp.REDUCE_SCATTER_BLOCK: "reduce-scatter",
    CommOp.ALL_TO_ALL: "all-to-all",
}


def hops(dimension: NetworkDimension, distance: int) -> int:
    """Links a message crosses between members that are ``distance`` apart."""
    if distance == 0:
        return 0
    if dimension.topology == "Switch":
        return 2
    if dimension.topology == "FullyConnected":
        return 1
    return min(distance % dimension.npus, dimension.npus - distance % dimension.npus)


@dataclass(frozen=True, slots=True)
class _Phase:
    dimension: int
    collective: str
    members: int
    chunk: int
    hops: int


@dataclass(frozen=True, slots=True)
class Cluster:
    """NPUs joined by a network, with the system layer's settings.

    Attributes:
        network: dimensions, innermost first; NPU i has coordinate i mod n in the first, and so on.
        system: the system layer.
        aware: whether messages hold the links they cross (the congestion-aware backend).
    """

    network: tuple[NetworkDimension, ...]
    system: SystemConfig
    aware: bool = False

    @property
    def npus(self) -> int:
        """All NPUs."""
        count = 1
        for dimension in self.network:
            count *= dimension.npus
        return count

    def collective_ns(self, op: CommOp, size: int, ranks: Sequence[int]) -> int:
        """Time of a collective of ``size`` bytes (Chakra's ``comm_size``) among ``ranks``, once all have come.

        Raises:
            AnalysisError: the operation is not modelled by the simulator, or a rank is not in the network.
        """
        name = _NAMES.get(op)
        if name is None:
            raise AnalysisError(f"ASTRA-sim has no model of {op.name.lower().replace('_', '-')}")
        if len(ranks) < 2 or size <= 0:
            return 0
        phases = self._phases(name, size // self.system.splits, ranks)
        return self._pipeline([(phase.dimension, self._phase_ns(phase), self._offset(phase)) for phase in phases])

    def transfer_ns(self, size: int, source: int, target: int) -> int:
        """Time of a message of ``size`` bytes from one NPU to another."""
        time = 0.0
        slowest = 0.0
        for dimension, a, b in zip(self.network, self._place(source), self._place(target), strict=True):
            crossed = hops(dimension, abs(a - b))
            time += crossed * dimension.latency_ns
            slowest = max(slowest, size / dimension.bytes_per_ns if crossed else 0.0)
        return int(time + slowest) + self.system.endpoint_delay_ns

    def _place(self, rank: int) -> tuple[int, ...]:
        if not 0 <= rank < self.npus:
            raise AnalysisError(f"rank {rank} is not in a network of {self.npus} NPUs")
        place = []
        for dimension in self.network:
            place.append(rank % dimension.npus)
            rank //= dimension.npus
        return tuple(place)

    def _phases(self, name: str, chunk: int, ranks: Sequence[int]) -> list[_Phase]:
        """Phases of one chunk: one dimension after the other where the ranks are a full grid, else one ring."""
        places = [self._place(rank) for rank in ranks]
        spread = [sorted({place[at] for place in places}) for at in range(len(self.network))]
        used = [at for at, coordinates in enumerate(spread) if len(coordinates) > 1]
        grid = 1
        for at in used:
            grid *= len(spread[at])
        if grid != len(set(ranks)):
            at = used[-1]
            far = max(hops(self.network[at], spread[at][-1] - spread[at][0]), 1)
            return [_Phase(at, name, len(ranks), chunk, far)]
        steps = [(at, len(spread[at]), self._widest(at, spread[at])) for at in used]
        if name != "all-reduce" or self.system.optimization != "localBWAware":
            return _descend(name, chunk, steps)
        inner = _descend("reduce-scatter", chunk, steps[:-1])
        left = inner[-1].chunk // inner[-1].members if inner else chunk
        at, members, far = steps[-1]
        back = [
            _Phase(entry.dimension, "all-gather", entry.members, entry.chunk // entry.members, entry.hops)
            for entry in reversed(inner)
        ]
        return [*inner, _Phase(at, name, members, left, far), *back]

    def _widest(self, at: int, coordinates: list[int]) -> int:
        """Hops of a ring's longest step among these coordinates."""
        following = [*coordinates[1:], coordinates[0]]
        return max(hops(self.network[at], abs(b - a)) for a, b in zip(coordinates, following, strict=True))

    def _phase_ns(self, phase: _Phase) -> int:
        """Time of one chunk in one phase."""
        n = phase.members
        algorithm = self.system.algorithm(phase.collective, phase.dimension)
        part = phase.chunk // n
        reduces = phase.collective in ("all-reduce", "reduce-scatter")
        if algorithm == "halvingDoubling" and phase.collective != "all-to-all":
            halves = [phase.chunk >> (level + 1) for level in range((n - 1).bit_length())]
            moved = [phase.chunk << level for level in range((n - 1).bit_length())]
            time = sum(self._message_ns(phase, size) for size in (halves if reduces else moved))
            time += sum(self._reduce_ns(size) for size in halves) if reduces else 0
            back = sum(self._message_ns(phase, size) for size in halves)
            return time + (back if phase.collective == "all-reduce" else 0) + self.system.endpoint_delay_ns
        size = phase.chunk if phase.collective == "all-gather" else part
        steps = n * (n - 1) // 2 if phase.collective == "all-to-all" else n - 1
        if algorithm == "direct":
            message, steps = self._message_ns(phase, size * (n - 1) if self.aware else size), 1
        else:
            message = self._message_ns(phase, size)
        time = steps * message * (2 if phase.collective == "all-reduce" else 1)
        return time + (n - 1) * self._reduce_ns(size) * reduces + self.system.endpoint_delay_ns

    def _message_ns(self, phase: _Phase, size: int) -> int:
        dimension = self.network[phase.dimension]
        send = size / dimension.bytes_per_ns
        if self.aware:
            return phase.hops * int(dimension.latency_ns + send) + self.system.endpoint_delay_ns
        return int(phase.hops * dimension.latency_ns + send) + self.system.endpoint_delay_ns

    def _reduce_ns(self, size: int) -> int:
        return 3 * int(size / (self.system.local_mem_bw * _MEM_UNIT)) if self.system.local_mem_bw else 0

    def _offset(self, phase: _Phase) -> int:
        """What each further chunk that starts with others waits for the link, once."""
        size = phase.chunk if phase.collective == "all-gather" else phase.chunk // phase.members
        return int(size / self.network[phase.dimension].bytes_per_ns) if self.aware else 0

    def _pipeline(self, phases: list[tuple[int, int, int]]) -> int:
        """When the last chunk has passed all phases; a dimension takes ``active_chunks`` at once, first come first."""
        slots = {
            dimension: [at * offset for at in range(min(self.system.active_chunks, self.system.splits))]
            for dimension, _, offset in reversed(phases)
        }
        coming = [(0, chunk, 0) for chunk in range(self.system.splits)]
        end = 0
        while coming:
            ready, chunk, at = heapq.heappop(coming)
            if at == len(phases):
                end = max(end, ready)
                continue
            dimension, time, _ = phases[at]
            done = max(ready, heapq.heappop(slots[dimension])) + time
            heapq.heappush(slots[dimension], done)
            heapq.heappush(coming, (done, chunk, at + 1))
        return end


def _descend(name: str, chunk: int, steps: Sequence[tuple[int, int, int]]) -> list[_Phase]:
    """The same collective in every dimension, on what the one before leaves: less after scattering, more after gathering."""
    phases = []
    for at, members, far in steps:
        phases.append(_Phase(at, name, members, chunk, far))
        if name == "reduce-scatter":
            chunk //= members
        elif name == "all-gather":
            chunk *= members
    return phases
