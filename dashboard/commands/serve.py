"""``serve``: the dashboard in a browser."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from dashboard.commands.base import EXIT_OK, Command, size

__all__ = ["COMMAND"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="traces to open, or folders to browse")
    parser.add_argument("--host", default="127.0.0.1", help="address to bind (default: loopback only)")
    parser.add_argument("--port", type=int, default=8050, help="port (default: 8050; 0 takes a free one)")
    parser.add_argument("--token", help="secret that visitors need; required for any address but loopback")
    parser.add_argument("--upload-dir", type=Path, help="where uploads are kept (default: a temporary folder)")
    parser.add_argument("--max-upload", type=size, default="16G", metavar="SIZE", help="largest upload (default: 16G)")
    parser.add_argument(
        "--memory-limit", type=size, metavar="SIZE", help="loaded traces kept in memory, e.g. 4G (default: half of it)"
    )
    parser.add_argument(
        "--store-limit",
        type=size,
        default="20G",
        metavar="SIZE",
        help="opened traces kept on disk for the next time (default: 20G)",
    )
    parser.add_argument(
        "--hardware-file", type=Path, action="append", default=[], metavar="TOML", help="add your own devices"
    )
    parser.add_argument("--open", action="store_true", help="open a browser window")


def run(options: argparse.Namespace) -> int:
    """Serve until interrupted."""
    from chakra_core.hardware.catalogue import HARDWARE_VARIABLE, load_catalogue
    from chakra_core.store import default_folder
    from dashboard.serve import half_of_memory, serve, settings_for

    if options.hardware_file:
        load_catalogue(options.hardware_file)  # a damaged file is told before the server starts
        given = [str(path.resolve()) for path in options.hardware_file]
        os.environ[HARDWARE_VARIABLE] = os.pathsep.join([*given, os.environ.get(HARDWARE_VARIABLE, "")]).strip(
            os.pathsep
        )
    settings = settings_for(
        options.paths,
        token=options.token,
        upload_dir=options.upload_dir,
        max_upload_bytes=options.max_upload,
        memory_limit_bytes=options.memory_limit or half_of_memory(),
        store=None if options.no_cache else default_folder(),
        store_limit_bytes=options.store_limit,
    )
    serve(settings, host=options.host, port=options.port, open_browser=options.open)
    return EXIT_OK


COMMAND = Command("serve", "Serve the dashboard (the default).", configure, run)
