"""Loading and checking the catalogue's TOML files, and finding the entry for a name seen in a trace."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from chakra_core.errors import ChakraError
from chakra_core.hardware.model import LINK_TOPOLOGIES, PRECISIONS, Device

__all__ = ["HARDWARE_VARIABLE", "get_device", "list_devices", "list_hosts", "load_catalogue", "lookup"]

HARDWARE_VARIABLE = "CHAKRA_HARDWARE"
"""Environment variable with the user's own hardware files."""

_NUMBERS = {
    "memory_bandwidth": True,
    "memory_bytes": True,
    "domain_size": True,
    "link_bandwidth": False,
    "link_latency_ns": False,
    "scale_out_bandwidth": False,
    "scale_out_latency_ns": False,
    "host_link_bandwidth": False,
}
"""Numeric fields, and whether an entry must have them."""

_KEYS = {"name", "kind", "vendor", "patterns", "peak_flops", "link_topology", "sources", *_NUMBERS}


def load_catalogue(extra: Iterable[str | Path] = ()) -> tuple[Device, ...]:
    """Every device of the shipped files and of the user's own, sorted by vendor and name.

    The user's own are those of the files in ``extra``, and of those that the environment variable ``CHAKRA_HARDWARE``
    names (separated as in ``PATH``). An entry with the name of a shipped one replaces it.

    Raises:
        ChakraError: a file is not TOML, or an entry breaks the schema; the message names file and entry.
    """
    by_name = {device.name: device for device in _shipped()}
    stated = [path for path in os.environ.get(HARDWARE_VARIABLE, "").split(os.pathsep) if path]
    for path in (*stated, *extra):
        by_name.update({device.name: device for device in _users(Path(path))})
    return tuple(sorted(by_name.values(), key=lambda device: (device.vendor, device.name)))


def _users(path: Path) -> tuple[Device, ...]:
    try:
        changed = path.stat().st_mtime_ns
    except OSError as error:
        raise ChakraError(f"{path}: cannot be read as a hardware file: {error.strerror}") from error
    return _cached(path, changed)


@lru_cache(maxsize=16)
def _cached(path: Path, changed_ns: int) -> tuple[Device, ...]:
    """Devices of a file as it was at a time."""
    del changed_ns
    return tuple(_read(path))


def list_devices() -> tuple[Device, ...]:
    """The shipped accelerators."""
    return tuple(device for device in load_catalogue() if device.kind == "accelerator")


def list_hosts() -> tuple[Device, ...]:
    """The shipped host processors."""
    return tuple(device for device in load_catalogue() if device.kind == "host")


def get_device(name: str, catalogue: Iterable[Device] | None = None) -> Device:
    """The device with this name, or that a name in a trace stands for.

    Raises:
        ChakraError: no entry fits; the message lists the names there are.
    """
    devices = tuple(catalogue) if catalogue is not None else load_catalogue()
    found = lookup(name, devices)
    if found is None:
        names = ", ".join(device.name for device in devices)
        raise ChakraError(f"hardware {name!r} is not in the catalogue; known: {names}")
    return found


def lookup(name: str, catalogue: Iterable[Device] | None = None) -> Device | None:
    """The entry for a device name as traces write it (``NVIDIA H100 80GB HBM3``); None where no entry fits."""
    devices = tuple(catalogue) if catalogue is not None else load_catalogue()
    wanted = name.strip()
    if not wanted:
        return None
    for device in devices:
        if device.name.casefold() == wanted.casefold():
            return device
    for device in devices:
        if any(re.search(pattern, wanted, re.IGNORECASE) for pattern in device.patterns):
            return device
    return None


@lru_cache(maxsize=1)
def _shipped() -> tuple[Device, ...]:
    here = Path(__file__).parent
    return tuple(
        device for path in sorted(here.glob("*.toml")) if path.name != "systems.toml" for device in _read(path)
    )


def _read(path: Path) -> list[Device]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ChakraError(f"{path}: cannot be read as a hardware file: {error}") from error
    documents = document.get("documents", {})
    entries = document.get("device")
    if not isinstance(entries, list) or not isinstance(documents, dict):
        raise ChakraError(f"{path}: a hardware file holds [[device]] tables and a table [documents]")
    return [_device(path, at, entry, documents) for at, entry in enumerate(entries)]


def _device(path: Path, at: int, entry: Mapping[str, Any], documents: Mapping[str, str]) -> Device:
    where = f"{path.name}: device {entry.get('name', f'#{at}')!r}"
    unknown = sorted(set(entry) - _KEYS)
    if unknown:
        raise ChakraError(f"{where}: unknown keys {unknown}")
    for key in ("name", "vendor"):
        if not isinstance(entry.get(key), str) or not entry[key]:
            raise ChakraError(f"{where}: {key} must be a text")
    if entry.get("link_topology", "switch") not in LINK_TOPOLOGIES:
        raise ChakraError(f"{where}: link_topology must be one of {sorted(LINK_TOPOLOGIES)}")
    if entry.get("kind", "accelerator") not in ("accelerator", "host"):
        raise ChakraError(f"{where}: kind must be accelerator or host")
    return Device(
        name=entry["name"],
        kind=entry.get("kind", "accelerator"),
        vendor=entry["vendor"],
        peak_flops=MappingProxyType(_peaks(where, entry)),
        link_topology=entry.get("link_topology", "switch"),
        sources=MappingProxyType(_sources(where, entry, documents)),
        patterns=_patterns(where, entry),
        **_numbers(where, entry),
    )


def _peaks(where: str, entry: Mapping[str, Any]) -> dict[str, float]:
    peaks = entry.get("peak_flops")
    if not isinstance(peaks, dict) or not peaks:
        raise ChakraError(f"{where}: peak_flops must be a table of FLOP/s by precision")
    for precision, value in peaks.items():
        if precision not in PRECISIONS or not _positive(value):
            raise ChakraError(f"{where}: peak_flops.{precision} must be a positive number of a known precision")
    return {precision: float(value) for precision, value in peaks.items()}


def _numbers(where: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    numbers: dict[str, Any] = {}
    for key, required in _NUMBERS.items():
        if key not in entry:
            if required:
                raise ChakraError(f"{where}: {key} is missing")
            continue
        if not _positive(entry[key]):
            raise ChakraError(f"{where}: {key} must be a positive number")
        numbers[key] = int(entry[key]) if key in ("memory_bytes", "domain_size") else float(entry[key])
    return numbers


def _sources(where: str, entry: Mapping[str, Any], documents: Mapping[str, str]) -> dict[str, str]:
    given = entry.get("sources", {})
    needed = {"peak_flops", *(key for key in _NUMBERS if key in entry)}
    missing = sorted(needed - set(given))
    if missing:
        raise ChakraError(f"{where}: no source for {missing}; every number names the document it is from")
    sources: dict[str, str] = {}
    for key, text in given.items():
        document, separator, place = str(text).partition(" § ")
        if not separator or not place.strip():
            raise ChakraError(f"{where}: source of {key} must read 'document § place'")
        sources[key] = f"{documents.get(document, document)}: {place}"
    return sources


def _patterns(where: str, entry: Mapping[str, Any]) -> tuple[str, ...]:
    patterns = tuple(entry.get("patterns", ()))
    for pattern in patterns:
        try:
            re.compile(pattern)
        except (re.error, TypeError) as error:
            raise ChakraError(f"{where}: pattern {pattern!r} is not a regular expression: {error}") from error
    return patterns


def _positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
