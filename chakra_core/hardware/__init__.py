"""Hardware catalogue: what a device can do at best, each number with its public source.

One TOML file per vendor lies beside this module; users add their own with ``load_catalogue(extra=[path])``.
"""

from __future__ import annotations

from chakra_core.hardware.catalogue import get_device, list_devices, list_hosts, load_catalogue, lookup
from chakra_core.hardware.model import PRECISIONS, Device, Topology, TopologyDimension

__all__ = [
    "PRECISIONS",
    "Device",
    "Topology",
    "TopologyDimension",
    "get_device",
    "list_devices",
    "list_hosts",
    "load_catalogue",
    "lookup",
]
