"""A run as ASTRA-sim's workload layer goes through it: the run's own compute times, modelled communication."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from chakra_core.errors import AnalysisError
from chakra_core.project.astrasim.collectives import Cluster
from chakra_core.schedule import replay, with_lanes
from chakra_core.schema import CommOp, Domain, LaneKind, NodeKind, TimeKind
from chakra_core.trace import Lane, Run, Trace

__all__ = ["astrasim_durations", "simulate_astrasim"]

I64 = NDArray[np.int64]


def simulate_astrasim(run: Run, cluster: Cluster, *, spread: bool = True) -> Run:
    """Replay a run on a cluster under ASTRA-sim's rules.

    A compute node takes its recorded time (at least 1 ns), or its roofline time where the system file says so; a
    collective starts when all its members have come; a rank has one compute node and one collective or send under way
    at a time, receives wait beside them.

    Args:
        run: ranks with dependencies; their start times are not used.
        cluster: network and system.
        spread: a run of a single trace stands for every NPU of the network.

    Raises:
        AnalysisError: more ranks than NPUs, or a communication that the simulator does not model.
    """
    traces = run.traces
    if spread and len(traces) == 1 and cluster.npus > 1:
        one = traces[0]
        traces = tuple(
            one.with_(meta=replace(one.meta, rank=rank, world_size=cluster.npus)) for rank in range(cluster.npus)
        )
    if len(traces) > cluster.npus:
        raise AnalysisError(f"{run.label}: {len(traces)} ranks do not fit a network of {cluster.npus} NPUs")
    laned = [_receives_apart(with_lanes(_without_streams(trace))) for trace in traces]
    done = replay(
        laned, [astrasim_durations(trace, cluster, len(traces)) for trace in laned], time_kind=TimeKind.SIMULATED
    )
    said = [
        "ASTRA-sim compatible: collectives by its chunks, steps and delays; network "
        + " x ".join(f"{entry.topology} of {entry.npus}, {entry.bandwidth:g} GB/s, {entry.latency_ns:g} ns" for entry in cluster.network)
    ]  # fmt: skip
    if done.given_up:
        said.append(f"{done.given_up:,} waits for partners that never come were given up")
    label = f"{run.label} (ASTRA-sim model, simulated)"
    return Run(done.traces, label, run.hardware, run.groups, run.health, (*run.assumptions, *said))


def astrasim_durations(trace: Trace, cluster: Cluster, world: int) -> I64:
    """Durations (int64 ns per row) of a rank's nodes on a cluster of which ``world`` NPUs take part."""
    c = trace.columns
    dur = np.maximum(c.dur_ns, 1)
    if cluster.system.roofline:
        dur = np.where(c.kind == NodeKind.COMP, _roofline(trace, cluster), dur)
    everyone = tuple(range(world))
    known: dict[tuple[int, int, int], int] = {}
    for row in np.flatnonzero(c.kind == NodeKind.COMM_COLL).tolist():
        key = (int(c.comm_op[row]), int(c.comm_bytes[row]), int(c.comm_group[row]))
        if key not in known:
            ranks = trace.meta.groups[key[2]].ranks if key[2] >= 0 else ()
            known[key] = max(cluster.collective_ns(CommOp(key[0]), key[1], ranks or everyone), 1)
        dur[row] = known[key]
    here = max(trace.meta.rank, 0)
    for row in np.flatnonzero((c.kind == NodeKind.COMM_SEND) | (c.kind == NodeKind.COMM_RECV)).tolist():
        peer = int(c.comm_peer[row])
        dur[row] = max(cluster.transfer_ns(int(c.comm_bytes[row]), here, peer), 1) if peer >= 0 else 1
    return dur


def _roofline(trace: Trace, cluster: Cluster) -> I64:
    """num_ops / min(peak, bandwidth x intensity), as the simulator's roofline."""
    flops = np.maximum(trace.columns.flops, 0).astype(np.float64)
    moved = np.maximum(trace.columns.bytes_accessed, 0).astype(np.float64)
    peak, bandwidth = cluster.system.peak_perf * 1e12, cluster.system.local_mem_bw * 1e9
    if peak <= 0 or bandwidth <= 0:
        raise AnalysisError("the system file enables the roofline but gives no peak-perf or local-mem-bw")
    return np.maximum(np.maximum(flops / peak, moved / bandwidth) * 1e9, 1).astype(np.int64)


def _without_streams(trace: Trace) -> Trace:
    """All lanes forgotten: the simulator has one compute and one communication resource per rank."""
    return trace.with_(columns=trace.columns.with_(lane=np.full_like(trace.columns.lane, -1)), lanes=())


def _receives_apart(trace: Trace) -> Trace:
    """Every receive on a lane of its own: it holds no resource while it waits."""
    rows = np.flatnonzero(trace.columns.kind == NodeKind.COMM_RECV)
    if not len(rows):
        return trace
    lane = trace.columns.lane.copy()
    first = len(trace.lanes)
    lane[rows] = first + np.arange(len(rows))
    apart = Lane("receive", Domain.DEVICE, LaneKind.RESOURCE, device=0)
    return trace.with_(columns=trace.columns.with_(lane=lane), lanes=trace.lanes + (apart,) * len(rows))
