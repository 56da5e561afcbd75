"""Ready-made systems: devices of the catalogue joined into networks of several dimensions."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from chakra_core.errors import AnalysisError, ChakraError
from chakra_core.hardware.catalogue import get_device, load_catalogue
from chakra_core.hardware.model import Device, Topology, TopologyDimension

__all__ = ["System", "get_system", "list_systems", "read_systems"]


@dataclass(frozen=True, slots=True)
class System:
    """Devices joined in dimensions.

    Attributes:
        name: of the system.
        device: the accelerator.
        scale_up: sizes of the axes of the scale-up level: one for a switch or full connection, several for a torus.
        scale_out: such domains joined by the outer network; 1 for a single one.
        source: document for its shape.
    """

    name: str
    device: Device
    scale_up: tuple[int, ...]
    scale_out: int
    source: str

    @property
    def devices(self) -> int:
        """How many there are."""
        count = self.scale_out
        for size in self.scale_up:
            count *= size
        return count

    def topology(self, assumed_latency_ns: float | None = None) -> Topology:
        """The network, innermost dimension first; the links of a torus are divided evenly over its axes.

        Raises:
            AnalysisError: a bandwidth is unknown, or a latency is and none is given.
        """
        device = self.device
        kind = "ring" if len(self.scale_up) > 1 else device.link_topology
        up = self._level("scale-up", device.link_bandwidth, device.link_latency_ns, assumed_latency_ns)
        dimensions = [TopologyDimension(kind, size, up[0] / len(self.scale_up), up[1]) for size in self.scale_up]
        if self.scale_out > 1:
            out = self._level("scale-out", device.scale_out_bandwidth, device.scale_out_latency_ns, assumed_latency_ns)
            dimensions.append(TopologyDimension("switch", self.scale_out, *out))
        return Topology(self.name, tuple(dimensions))

    def _level(
        self, name: str, bandwidth: float | None, latency_ns: float | None, assumed: float | None
    ) -> tuple[float, float]:
        latency = assumed if latency_ns is None else latency_ns
        if bandwidth is None or latency is None:
            lacking = "bandwidth" if bandwidth is None else "latency"
            raise AnalysisError(f"{self.name}: the catalogue has no {name} {lacking} for {self.device.name}; give one")
        return bandwidth, latency


def list_systems() -> tuple[System, ...]:
    """The shipped systems."""
    return _shipped()


def get_system(name: str, systems: Sequence[System] | None = None) -> System:
    """The system with this name.

    Raises:
        ChakraError: there is none; the message lists those there are.
    """
    known = list_systems() if systems is None else systems
    for system in known:
        if system.name.casefold() == name.strip().casefold():
            return system
    raise ChakraError(f"no system {name!r}; known: {', '.join(system.name for system in known)}")


@lru_cache(maxsize=1)
def _shipped() -> tuple[System, ...]:
    return read_systems(Path(__file__).parent / "systems.toml", load_catalogue())


def read_systems(path: Path, catalogue: Sequence[Device]) -> tuple[System, ...]:
    """Systems of a TOML file.

    Raises:
        ChakraError: it is not TOML, or an entry breaks the schema; the message names file and entry.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ChakraError(f"{path}: cannot be read as a file of systems: {error}") from error
    entries = document.get("system")
    if not isinstance(entries, list):
        raise ChakraError(f"{path}: a file of systems holds [[system]] tables")
    return tuple(_system(path, at, entry, catalogue) for at, entry in enumerate(entries))


def _system(path: Path, at: int, entry: Any, catalogue: Sequence[Device]) -> System:
    where = f"{path.name}: system {entry.get('name', f'#{at}')!r}" if isinstance(entry, dict) else f"{path.name}: #{at}"
    if not isinstance(entry, dict) or set(entry) - {"name", "device", "scale_up", "scale_out", "source"}:
        raise ChakraError(f"{where}: keys are name, device, scale_up, scale_out and source")
    sizes: Any = entry.get("scale_up", [])
    good = (
        isinstance(sizes, list) and 1 <= len(sizes) <= 3 and all(isinstance(size, int) and size > 0 for size in sizes)
    )
    out = entry.get("scale_out", 1)
    texts = all(isinstance(entry.get(key), str) and entry[key] for key in ("name", "device", "source"))
    if not good or not texts or not isinstance(out, int) or out < 1:
        raise ChakraError(f"{where}: needs name, device and source as texts, and scale_up as one to three sizes")
    return System(entry["name"], get_device(entry["device"], catalogue), tuple(sizes), out, entry["source"])
