"""``hardware``: the catalogue of devices, each number with its source."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chakra_core.errors import AnalysisError
from chakra_core.hardware import Device, get_device, load_catalogue
from chakra_core.hardware.systems import System, get_system, list_systems
from dashboard.commands.base import EXIT_OK, Command, add_files, emit, print_table, write_file
from dashboard.reports import Table, csv_text, html_page

__all__ = ["COMMAND"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="only these: entries, or device names as traces write them; with sources",
    )
    parser.add_argument(
        "--hardware-file", type=Path, action="append", default=[], metavar="TOML", help="add your own devices"
    )
    parser.add_argument(
        "--check", action="store_true", help="check every entry against the schema, and count numbers and their sources"
    )
    parser.add_argument(
        "--network", metavar="SYSTEM", help="print ASTRA-sim's network file for a ready-made system instead"
    )
    parser.add_argument("--latency", type=float, metavar="NS", help="step latency where the catalogue has none")
    add_files(parser)


def run(options: argparse.Namespace) -> int:
    """List devices and systems; a damaged file of the user's, or a name that no entry stands for, is an error."""
    if options.network:
        from chakra_core.project.astrasim.config import network_of, network_yaml

        sys.stdout.write(network_yaml(network_of(get_system(options.network).topology(options.latency))))
        return EXIT_OK
    catalogue = load_catalogue(options.hardware_file)
    devices = tuple(get_device(name, catalogue) for name in options.names) or catalogue
    header, rows = _sources(devices)
    if options.csv:
        write_file(options.csv, csv_text(header, rows))
    if options.html:
        write_file(options.html, html_page("Hardware catalogue", [("Numbers and their sources", Table(header, rows))]))
    if options.json:
        emit(_document(devices, options))
    elif options.check:
        print_table(("device", "numbers", "with a source"), [(*row.values(),) for row in _check(devices)])
    elif options.names:
        print_table(tuple(header), [tuple(row) for row in rows], width=120)
    else:
        _print(devices)
    return EXIT_OK


def _document(devices: Sequence[Device], options: argparse.Namespace) -> dict[str, Any]:
    document: dict[str, Any] = {"devices": [_record(device) for device in devices]}
    if options.names:
        document["names"] = {name: device.name for name, device in zip(options.names, devices, strict=True)}
    else:
        document["systems"] = [_system(system) for system in list_systems()]
    if options.check:
        document["check"] = _check(devices)
    return document


def _check(devices: Sequence[Device]) -> list[dict[str, Any]]:
    """Numbers of each device and how many of them name a source; loading has refused whatever breaks the schema.

    Raises:
        AnalysisError: a number has no source.
    """
    rows = []
    for device in devices:
        numbers = _numbers(device)
        sourced = [name for name, _ in numbers if device.sources.get(name.partition(".")[0])]
        if len(sourced) < len(numbers):
            raise AnalysisError(f"{device.name}: {len(numbers) - len(sourced)} numbers have no source")
        rows.append({"device": device.name, "numbers": len(numbers), "sourced": len(sourced)})
    return rows


def _numbers(device: Device) -> list[tuple[str, float]]:
    """Every number of an entry by its field; peaks by precision."""
    fields = (
        "memory_bandwidth", "memory_bytes", "domain_size", "link_bandwidth", "link_latency_ns", "scale_out_bandwidth",
        "scale_out_latency_ns", "host_link_bandwidth",
    )  # fmt: skip
    stated = [(f"peak_flops.{precision}", value) for precision, value in device.peak_flops.items()]
    return stated + [(name, float(value)) for name in fields if (value := getattr(device, name)) is not None]


def _sources(devices: Sequence[Device]) -> tuple[list[str], list[list[object]]]:
    """A row for every number: device, field, value in SI units, source."""
    rows: list[list[object]] = [
        [device.name, name, value, device.sources.get(name.partition(".")[0], "")]
        for device in devices
        for name, value in _numbers(device)
    ]
    return ["device", "number", "value", "source"], rows


def _print(devices: Sequence[Device]) -> None:
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


COMMAND = Command("hardware", "List and check the hardware catalogue, each number with its source.", configure, run)
