"""ASTRA-sim's inputs: network (YAML), system (JSON) and process groups (JSON), read and written.

Keys and units are those of ASTRA-sim's analytical backend: bandwidth per dimension in GB/s of 2**30 bytes, latency
in ns, delays in ticks of 1 ns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from chakra_core.errors import CorruptTrace
from chakra_core.hardware.model import Topology

__all__ = ["ALGORITHMS", "NetworkDimension", "SystemConfig", "network_of", "network_yaml", "read_network", "read_system",
           "system_json"]  # fmt: skip

ALGORITHMS: tuple[str, ...] = ("ring", "direct", "halvingDoubling")
"""Collective implementations that are modelled."""

_KINDS = ("Ring", "FullyConnected", "Switch")
_COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
_MOST = 1 << 20
_GIB = 1 << 30
_GROUP_KINDS = {"switch": "Switch", "fully_connected": "FullyConnected", "mesh": "Switch", "ring": "Ring"}


@dataclass(frozen=True, slots=True)
class NetworkDimension:
    """One dimension: ``Ring``, ``FullyConnected`` or ``Switch`` of ``npus``; GB/s of 2**30 bytes, ns."""

    topology: str
    npus: int
    bandwidth: float
    latency_ns: float

    @property
    def bytes_per_ns(self) -> float:
        """Bandwidth of a link, B/ns."""
        return self.bandwidth * _GIB / 1e9


@dataclass(frozen=True, slots=True)
class SystemConfig:
    """The part of a system file that decides times.

    Attributes:
        algorithms: implementation per dimension, by collective (``all-reduce``, …); the last one given serves
            further dimensions.
        splits: chunks a collective is cut into (``preferred-dataset-splits``).
        active_chunks: chunks under way at once in a dimension.
        endpoint_delay_ns: before each message.
        local_mem_bw: GB/s; the local reduction of a received message reads two operands and writes one at it.
        peak_perf: TFLOP/s, of the roofline.
        roofline: whether compute nodes are timed by the roofline instead of their recorded run time.
        optimization: ``baseline`` or ``localBWAware``: how an all-reduce is laid over several dimensions.
        scheduling: order of collectives that wait; kept for writing, all wait in order of arrival here.
    """

    algorithms: Mapping[str, tuple[str, ...]]
    splits: int = 4
    active_chunks: int = 1
    endpoint_delay_ns: int = 10
    local_mem_bw: float = 0.0
    peak_perf: float = 0.0
    roofline: bool = False
    optimization: str = "localBWAware"
    scheduling: str = "LIFO"

    def algorithm(self, collective: str, dimension: int) -> str:
        """Implementation of a collective in a dimension; ring where the file names none."""
        listed = self.algorithms.get(collective) or ("ring",)
        return listed[min(dimension, len(listed) - 1)]


def read_network(path: Path) -> tuple[NetworkDimension, ...]:
    """The dimensions of a network YAML, innermost first.

    Raises:
        CorruptTrace: not such a file, an unknown topology, lists of different length, or numbers that make no sense.
    """
    try:
        stated = yaml.safe_load(_text(path))
    except (yaml.YAMLError, RecursionError) as error:
        raise CorruptTrace(f"{path.name}: not YAML: {str(error).splitlines()[0]}") from error
    keys = ("topology", "npus_count", "bandwidth", "latency")
    if not isinstance(stated, dict) or not all(isinstance(stated.get(key), list) for key in keys):
        raise CorruptTrace(f"{path.name}: a network file lists {', '.join(keys)}, one entry per dimension")
    columns = [stated[key] for key in keys]
    if len({len(column) for column in columns}) != 1 or not columns[0] or len(columns[0]) > 16:
        raise CorruptTrace(f"{path.name}: {', '.join(keys)} must have one entry per dimension, 1 to 16 of them")
    return tuple(_dimension(path, at, *entry) for at, entry in enumerate(zip(*columns, strict=True)))


def _dimension(path: Path, at: int, kind: Any, npus: Any, bandwidth: Any, latency: Any) -> NetworkDimension:
    numbers = all(
        isinstance(value, (int, float)) and not isinstance(value, bool) for value in (npus, bandwidth, latency)
    )
    if kind not in _KINDS or not numbers or not (1 <= npus <= _MOST and 0 < bandwidth < 1e9 and 0 <= latency < 1e12):
        raise CorruptTrace(
            f"{path.name}: dimension {at} must be one of {', '.join(_KINDS)} with npus_count >= 1, bandwidth > 0 GB/s "
            f"and latency >= 0 ns"
        )
    return NetworkDimension(kind, int(npus), float(bandwidth), float(latency))


def read_system(path: Path) -> SystemConfig:
    """A system JSON.

    Raises:
        CorruptTrace: not such a file, a number out of range, or a collective implementation that is not modelled.
    """
    try:
        stated = json.loads(_text(path))
    except (json.JSONDecodeError, RecursionError) as error:
        raise CorruptTrace(f"{path.name}: not JSON: {error}") from error
    if not isinstance(stated, dict):
        raise CorruptTrace(f"{path.name}: a system file is a JSON object")
    return SystemConfig(
        algorithms={name: _implementations(path, name, stated.get(f"{name}-implementation")) for name in _COLLECTIVES},
        splits=int(_number(path, stated, "preferred-dataset-splits", 1, 1, 1024)),
        active_chunks=int(_number(path, stated, "active-chunks-per-dimension", 1, 1, 1024)),
        endpoint_delay_ns=int(_number(path, stated, "endpoint-delay", 10, 0, 1e9)),
        local_mem_bw=_number(path, stated, "local-mem-bw", 0, 0, 1e9),
        peak_perf=_number(path, stated, "peak-perf", 0, 0, 1e9),
        roofline=bool(_number(path, stated, "roofline-enabled", 0, 0, 1)),
        optimization=str(stated.get("collective-optimization", "baseline")),
        scheduling=str(stated.get("scheduling-policy", "LIFO")),
    )


def _implementations(path: Path, name: str, listed: Any) -> tuple[str, ...]:
    if listed is None:
        return ("ring",)
    if not isinstance(listed, list) or not listed or any(entry not in ALGORITHMS for entry in listed):
        raise CorruptTrace(
            f"{path.name}: {name}-implementation must list one of {', '.join(ALGORITHMS)} per dimension; others are "
            "not modelled"
        )
    return tuple(listed)


def _number(path: Path, stated: Mapping[str, Any], key: str, default: float, low: float, high: float) -> float:
    value = stated.get(key, default)
    if isinstance(value, bool):
        value = int(value)
    if not isinstance(value, (int, float)) or not low <= value <= high:
        raise CorruptTrace(f"{path.name}: {key} must be a number from {low:g} to {high:g}, not {value!r:.40}")
    return float(value)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_MOST + 1)
    except OSError as error:
        raise CorruptTrace(f"{path.name}: cannot be read: {error.strerror}") from error
    if len(content) > _MOST:
        raise CorruptTrace(f"{path.name}: a configuration file has no more than 1 MiB")
    return content.decode("utf-8", "replace")


def network_of(topology: Topology) -> tuple[NetworkDimension, ...]:
    """A catalogue topology in ASTRA-sim's terms: bandwidth in GB/s of 2**30 bytes; each axis of a torus is a ring."""
    dimensions: list[NetworkDimension] = []
    for entry in topology.dimensions:
        axes = {"torus2d": 2, "torus3d": 3}.get(entry.kind, 1)
        side = round(entry.size ** (1 / axes)) if axes > 1 else entry.size
        kind = "Ring" if axes > 1 else _GROUP_KINDS[entry.kind]
        one = NetworkDimension(kind, side, entry.bandwidth / axes / _GIB, entry.latency_ns)
        dimensions += [one] * axes
    return tuple(dimensions)


def network_yaml(dimensions: Sequence[NetworkDimension]) -> str:
    """The network file for these dimensions."""
    document = {
        "topology": [entry.topology for entry in dimensions],
        "npus_count": [entry.npus for entry in dimensions],
        "bandwidth": [entry.bandwidth for entry in dimensions],
        "latency": [entry.latency_ns for entry in dimensions],
    }
    return str(yaml.safe_dump(document, sort_keys=False, default_flow_style=None))


def system_json(system: SystemConfig, *, trace: bool = False) -> str:
    """The system file for this configuration; ``trace``: the simulator logs when every node begins and ends."""
    document: dict[str, Any] = {
        "scheduling-policy": system.scheduling,
        "endpoint-delay": system.endpoint_delay_ns,
        "active-chunks-per-dimension": system.active_chunks,
        "preferred-dataset-splits": system.splits,
        **{f"{name}-implementation": list(system.algorithms.get(name, ("ring",))) for name in _COLLECTIVES},
        "collective-optimization": system.optimization,
        "local-mem-bw": system.local_mem_bw,
        "boost-mode": 0,
        "roofline-enabled": int(system.roofline),
        "peak-perf": system.peak_perf,
        **({"trace-enabled": 1} if trace else {}),
    }
    return json.dumps(document, indent=2) + "\n"
