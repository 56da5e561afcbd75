"""``serve``: the dashboard in a browser."""

from __future__ import annotations

import argparse
from pathlib import Path

from dashboard.commands.base import EXIT_OK, Command

__all__ = ["COMMAND"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="traces to open, or folders to browse")
    parser.add_argument("--host", default="127.0.0.1", help="address to bind (default: loopback only)")
    parser.add_argument("--port", type=int, default=8050, help="port (default: 8050; 0 takes a free one)")
    parser.add_argument("--token", help="secret that visitors need; required for any address but loopback")
    parser.add_argument("--upload-dir", type=Path, help="where uploads are kept (default: a temporary folder)")
    parser.add_argument("--max-upload", type=float, default=16.0, metavar="GB", help="largest upload (default: 16 GB)")
    parser.add_argument("--memory-limit", type=float, default=8.0, metavar="GB", help="loaded traces kept in memory")
    parser.add_argument(
        "--store-limit", type=float, default=20.0, metavar="GB", help="opened traces kept on disk for the next time"
    )
    parser.add_argument("--open", action="store_true", help="open a browser window")


def run(options: argparse.Namespace) -> int:
    """Serve until interrupted."""
    from chakra_core.store import default_folder
    from dashboard.serve import serve, settings_for

    settings = settings_for(
        options.paths,
        token=options.token,
        upload_dir=options.upload_dir,
        max_upload_bytes=round(options.max_upload * 1e9),
        memory_limit_bytes=round(options.memory_limit * 1e9),
        store=None if options.no_cache else default_folder(),
        store_limit_bytes=round(options.store_limit * 1e9),
    )
    serve(settings, host=options.host, port=options.port, open_browser=options.open)
    return EXIT_OK


COMMAND = Command("serve", "Serve the dashboard (the default).", configure, run)
