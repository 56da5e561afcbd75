"""``hardware``: the catalogue of devices, each number with its source."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from chakra_core.hardware import Device, load_catalogue
from dashboard.commands.base import EXIT_OK, Command, emit, print_table

__all__ = ["COMMAND"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--hardware-file", type=Path, action="append", default=[], metavar="TOML", help="add your own devices"
    )


def run(options: argparse.Namespace) -> int:
    """List every device; a damaged file of the user's is an error."""
    devices = load_catalogue(options.hardware_file)
    if options.json:
        emit({"devices": [_record(device) for device in devices]})
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
    return EXIT_OK


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
        "sources": dict(device.sources),
    }


COMMAND = Command("hardware", "List the hardware catalogue with the source of each number.", configure, run)
