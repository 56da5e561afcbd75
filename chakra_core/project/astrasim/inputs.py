"""A folder that ASTRA-sim runs as it is: workload, system, network, memory, process groups, and how to start it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from chakra_core.errors import AnalysisError
from chakra_core.hardware.model import Device, Topology, TopologyDimension
from chakra_core.project.astrasim.config import NetworkDimension, SystemConfig, network_of, network_yaml, system_json
from chakra_core.project.durations import ASSUMED_LATENCY_NS
from chakra_core.trace import Run
from chakra_core.writers.convert import Conversion, Purpose, convert
from chakra_core.writers.files import replacing

__all__ = ["SimulatorInputs", "cluster_of", "write_inputs"]

_AXES = {"torus2d": 2, "torus3d": 3}
_ALGORITHMS = {"direct": "direct", "halving-doubling": "halvingDoubling"}
_COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
_BINARY = "AstraSim_Analytical_Congestion_Unaware"
_MEMORY = '{\n  "memory-type": "NO_MEMORY_EXPANSION"\n}\n'


@dataclass(frozen=True, slots=True)
class SimulatorInputs:
    """What was written: the folder, its files, the command that runs them there, and what was changed for it."""

    folder: Path
    files: tuple[Path, ...]
    command: str
    conversion: Conversion


def cluster_of(
    device: Device, ranks: int, *, domain: int = 0, algorithm: str = "ring"
) -> tuple[tuple[NetworkDimension, ...], SystemConfig]:
    """Network and system of ``ranks`` devices of one kind, as the catalogue describes them.

    Ranks within one scale-up domain are one dimension (each axis of a torus one); whole domains are joined by a
    switch at the scale-out figures. The system cuts collectives in 4, as ASTRA-sim's examples do.

    Args:
        device: whose links; ``link_bandwidth`` must be known.
        ranks: how many.
        domain: devices in one scale-up domain; the catalogue's by default.
        algorithm: of collectives; those that ASTRA-sim has by another name or not at all run as rings.

    Raises:
        AnalysisError: a bandwidth is unknown, there are fewer than two ranks, or they do not fill whole domains.
    """
    if ranks < 2:
        raise AnalysisError("ASTRA-sim needs a network of at least two NPUs")
    size = min(domain or device.domain_size, ranks)
    if device.link_bandwidth is None or (size < ranks and device.scale_out_bandwidth is None):
        level = "link" if device.link_bandwidth is None else "scale-out"
        raise AnalysisError(f"the catalogue has no {level} bandwidth for {device.name}: give a network file")
    if ranks % size:
        raise AnalysisError(f"{ranks} ranks do not fill scale-up domains of {size}: give --domain or a network file")
    near = ASSUMED_LATENCY_NS if device.link_latency_ns is None else device.link_latency_ns
    far = near if device.scale_out_latency_ns is None else device.scale_out_latency_ns
    dimensions = _inner(device, size, near)
    if size < ranks and device.scale_out_bandwidth is not None:
        dimensions.append(TopologyDimension("switch", ranks // size, device.scale_out_bandwidth, far))
    chosen = (_ALGORITHMS.get(algorithm, "ring"),) * len(dimensions)
    system = SystemConfig(
        dict.fromkeys(_COLLECTIVES, chosen), splits=4, active_chunks=1, endpoint_delay_ns=10,
        local_mem_bw=device.memory_bandwidth / 1e9, peak_perf=device.peak("bf16")[0] / 1e12,
    )  # fmt: skip
    return network_of(Topology(device.name, tuple(dimensions))), system


def _inner(device: Device, size: int, latency: float) -> list[TopologyDimension]:
    """The scale-up level; a torus as its axes where the ranks fill one, else as a ring."""
    axes = _AXES.get(device.link_topology, 1)
    side = round(size ** (1 / axes))
    total = device.link_bandwidth or 0.0
    if size < 2:
        return []
    if axes > 1 and side**axes == size and side > 1:
        return [TopologyDimension("ring", side, total / axes, latency)] * axes
    kind = "ring" if axes > 1 else device.link_topology
    return [TopologyDimension(kind, size, device.group_bandwidth(size) or total, latency)]


def write_inputs(run: Run, folder: Path, network: Sequence[NetworkDimension], system: SystemConfig) -> SimulatorInputs:
    """Write a run, and the machine it is to run on, as ASTRA-sim takes them.

    Compute keeps its durations (whole microseconds, as Chakra's ``duration_micros`` states them); communication is
    the simulator's to time. A run of one rank stands for every NPU of the network.

    Args:
        run: with durations.
        folder: made where it is not there.
        network: its dimensions.
        system: its system layer.

    Raises:
        AnalysisError: the run has more ranks than the network NPUs, or the other way round.
        ChakraError: there is nothing to write.
        OSError: a file cannot be written.
    """
    npus = 1
    for dimension in network:
        npus *= dimension.npus
    whole = _spread(run, npus)
    folder.mkdir(parents=True, exist_ok=True)
    workload = folder / "workload"
    done = convert(whole, workload / "run", to="et", purpose=Purpose.SIMULATOR)
    texts = {
        "network.yml": network_yaml(network),
        "system.json": system_json(system, trace=True),
        "remote_memory.json": _MEMORY,
    }
    command = _command(done)
    texts["README.md"] = _readme(run, whole, done, command, network)
    for name, text in texts.items():
        with replacing(folder / name) as file:
            file.write(text.encode())
    side = () if done.groups_file is None else (done.groups_file,)
    files = (*done.files, *side, *(folder / name for name in texts))
    return SimulatorInputs(folder, files, command, done)


def _spread(run: Run, npus: int) -> Run:
    if len(run.traces) == 1 and npus > 1:
        (one,) = run.traces
        return replace(
            run,
            traces=tuple(one.with_(meta=replace(one.meta, rank=rank, world_size=npus)) for rank in range(npus)),
        )
    if len(run.traces) != npus:
        raise AnalysisError(f"{run.label} has {len(run.traces)} ranks, the network {npus} NPUs: they must be as many")
    return run


def _command(done: Conversion) -> str:
    words = [
        _BINARY,
        "--workload-configuration=workload/run",
        "--system-configuration=system.json",
        "--remote-memory-configuration=remote_memory.json",
        "--network-configuration=network.yml",
    ]
    if done.groups and done.groups_file is not None:
        words.append(f"--comm-group-configuration=workload/{done.groups_file.name}")
    return " \\\n  ".join([*words, "--logging-folder=log"])


def _readme(run: Run, whole: Run, done: Conversion, command: str, network: Sequence[NetworkDimension]) -> str:
    shape = " x ".join(
        f"{entry.topology} of {entry.npus} ({entry.bandwidth:.4g} GB/s of 2^30 bytes, {entry.latency_ns:g} ns)"
        for entry in network
    )
    label = "".join(letter if letter.isprintable() else "?" for letter in run.label)
    lines = [
        f"# {label} for ASTRA-sim", "",
        "Run it in this folder with ASTRA-sim's analytical backend:", "", "```sh", command, "```", "",
        f"- `workload/run.<rank>.et`: {len(done.files)} ranks in Chakra's format.",
        "- Compute runs for its recorded or projected time, in whole microseconds; the simulator times communication.",
        f"- `network.yml`: {shape}.",
        "- `system.json`: collective algorithms and chunks; `trace-enabled` writes every node's begin and end to the log.",
        "- `remote_memory.json`: none.",
    ]  # fmt: skip
    if done.groups_file is not None:
        lines.append(
            f"- `workload/{done.groups_file.name}`: process groups ({len(done.groups)} beside that of all ranks)."
        )
    if len(whole.traces) != len(run.traces):
        lines.append(f"- The run has one rank; it stands for all {len(whole.traces)} NPUs.")
    lines += [f"- {change.text} ({change.count:,})" for change in done.changes]
    lines += [
        "", "Then lay the simulator's log beside the workload, node by node:", "",
        "```sh", "chakra-dashboard compare workload log/log.log --by id", "```", "",
    ]  # fmt: skip
    return "\n".join(lines)
