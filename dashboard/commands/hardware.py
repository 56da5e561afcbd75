"""``hardware``: the catalogue of devices, each number with its source."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from chakra_core.hardware import Device, load_catalogue
from chakra_core.hardware.systems import System, get_system, list_systems
from dashboard.commands.base import EXIT_OK, Command, emit, print_table

__all__ = ["COMMAND"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--hardware-file", type=Path, action="append", default=[], metavar="TOML", help="add your own devices"
    )

    parser.add_argument(
        "--network", metavar="SYSTEM", help="print ASTRA-sim's network file for a ready-made system instead"
    )
    parser.add_argument("--latency", type=float, metavar="NS", help="step latency where the catalogue has none")


def run(options: argparse.Namespace) -> int:
    """List every device and system; a damaged file of the user's is an error."""
    if options.network:
        from chakra_core.project.astrasim.config import network_of, network_yaml

        sys.stdout.write(network_yaml(network_of(get_system(options.network).topology(options.latency))))
        return EXIT_OK
    devices = load_catalogue(options.hardware_file)
    if options.json:
        emit(
            {
                "devices": [_record(device) for device in devices],
                "systems": [_system(system) for system in list_systems()],
            }
        )
        return EXIT_OK
    rows = [
        (
            device.name, device.vendor, f"{device.peak('bf16')[0] / 1e12:,.0f} {device.peak('bf16')[1]}",
            f"{device.memory_bandwidth / 1e9:,.0f}", f"{device.memory_bytes / 1e9:,.0f}",
            "-" if device.link_bandwidth is None else f"{device.link_bandwidth / 1e9:,.0f}", device.domain_size,
        )
        for device in devices
    ]  # fmt: skip
    print_table(("device", "vendor", "peak TFLOP/s", "memory GB/s", "memory GB", "link GB/s", "domain"), rows)
    print_table(
        ("system", "device", "devices", "shape"),
        [
            (one.name, one.device.name, one.devices, " x ".join(map(str, (*one.scale_up, *([one.scale_out] * (one.scale_out > 1))))))
            for one in list_systems()
        ],
    )  # fmt: skip
    return EXIT_OK


def _system(system: System) -> dict[str, Any]:
    return {
        "name": system.name,
        "device": system.device.name,
        "devices": system.devices,
        "scale_up": list(system.scale_up),
        "scale_out": system.scale_out,
        "source": system.source,
    }


def _record(device: Device) -> dict[str, Any]:
    return {
        "name": device.name,
        "vendor": device.vendor,
        "peak_flops": dict(device.peak_flops),
        "memory_bandwidth_bytes_per_s": device.memory_bandwidth,
        "memory_bytes": device.memory_bytes,
        "link_bandwidth_bytes_per_s": device.link_bandwidth,
        "link_latency_ns": device.link_latency_ns,
        "domain_size": device.domain_size,
        "scale_out_bandwidth_bytes_per_s": device.scale_out_bandwidth,
        "scale_out_latency_ns": device.scale_out_latency_ns,
        "host_link_bandwidth_bytes_per_s": device.host_link_bandwidth,
        "kind": device.kind,
        "sources": dict(device.sources),
    }


COMMAND = Command("hardware", "List the hardware catalogue with the source of each number.", configure, run)
