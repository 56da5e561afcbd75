"""Settings from the command line, and the web server."""

from __future__ import annotations

import contextlib
import ipaddress
import itertools
import logging
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlencode

from chakra_core.errors import ChakraError
from chakra_core.samples import samples_root
from dashboard.settings import Settings

__all__ = ["half_of_memory", "serve", "settings_for"]

_LOG = logging.getLogger(__name__)
_THREADS = 24
"""Requests answered at once; one that waits for a run to open holds its thread, but not for long."""
_FALLBACK_MEMORY = 16_000_000_000
_FEW_FILES = 1024


def settings_for(
    paths: Sequence[Path],
    *,
    token: str | None = None,
    upload_dir: Path | None = None,
    max_upload_bytes: int = 16_000_000_000,
    memory_limit_bytes: int = 8_000_000_000,
    store: Path | None = None,
    store_limit_bytes: int = 20_000_000_000,
) -> Settings:
    """Settings that let the given paths, and the bundled samples, be opened.

    A file becomes a root of its own, so that nothing beside it can be reached, and is opened at the first visit. A
    folder becomes a root that can be browsed, and is opened at the first visit where it holds exactly one run.

    Raises:
        ChakraError: a path does not exist.
    """
    roots: dict[str, Path] = {"samples": samples_root()}
    opened: list[str] = []
    for path in paths:
        place = path.expanduser().resolve()
        if not place.exists():
            raise ChakraError(f"{path}: there is no such file or folder")
        name = next((name for name, root in roots.items() if root == place), "") or _free_name(roots, place)
        roots[name] = place
        if place.is_file() or _is_one_run(place):
            opened.append(name)
    temporary = Path(tempfile.gettempdir()) / f"chakra-uploads-{secrets.token_hex(16)}"  # made by the first upload
    return Settings(
        roots=roots,
        upload_dir=(upload_dir.expanduser() if upload_dir else temporary).resolve(),
        keep_uploads=upload_dir is not None,
        opened=tuple(dict.fromkeys(opened)),
        token=token,
        max_upload_bytes=max_upload_bytes,
        memory_limit_bytes=memory_limit_bytes,
        store=store,
        store_limit_bytes=store_limit_bytes,
    )


def _is_one_run(folder: Path) -> bool:
    """Whether a folder of few files holds exactly one run; larger trees are for browsing."""
    from chakra_core.opening import discover

    if len(list(itertools.islice(folder.rglob("*"), _FEW_FILES + 1))) > _FEW_FILES:
        return False
    try:
        return len(discover(folder)) == 1
    except ChakraError:
        return False


def _free_name(roots: dict[str, Path], place: Path) -> str:
    """A name for a root that no other has; ``uploads`` is kept for uploads."""
    base = place.name or "root"
    name, at = base, 2
    while name in roots or name == "uploads" or "/" in name:
        name, at = f"{base}-{at}", at + 1
    return name


def half_of_memory() -> int:
    """Half of the memory that this process may use, in bytes: of the machine's, or of the limit of its container."""
    found = [_FALLBACK_MEMORY]
    if hasattr(os, "sysconf"):
        found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    with contextlib.suppress(OSError, ValueError):  # no such file, or "max"
        found.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return min(found) // 2


def serve(settings: Settings, *, host: str = "127.0.0.1", port: int = 8050, open_browser: bool = False) -> None:
    """Serve until interrupted.

    Raises:
        ChakraError: the address is not loopback and there is no token, or the port is taken.
    """
    import dataclasses

    import waitress

    from dashboard.app import create_app

    if not _is_loopback(host) and not settings.token:
        raise ChakraError(f"--host {host}: others could reach this server; give --token SECRET too")
    if not _is_loopback(host):
        everywhere = host in ("0.0.0.0", "::", "")  # noqa: S104 - compared, not bound
        named = {
            host.lower().strip("[]"),
            socket.gethostname().lower(),
            socket.getfqdn().lower(),
            "localhost",
            "127.0.0.1",
        }
        settings = dataclasses.replace(settings, hosts=frozenset({"*"} if everywhere else named))
    app = create_app(settings)
    try:
        server = waitress.create_server(
            app.server,
            host=host,
            port=port,
            threads=_THREADS,
            max_request_body_size=settings.max_upload_bytes + 4096,
            ident=None,
        )
    except OSError as error:
        raise ChakraError(f"port {port} on {host}: {error.strerror or error}; choose another with --port") from error
    address = f"http://{host}:{server.effective_port}/"
    sys.stderr.write(f"chakra-dashboard: serving on {address}  (Ctrl+C stops)\n")
    threading.Thread(target=_warm, name="warm up", daemon=True).start()
    if open_browser:
        threading.Timer(
            0.5, webbrowser.open, (f"{address}?{urlencode({'token': settings.token})}" if settings.token else address,)
        ).start()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _stop)
    try:
        server.run()
    finally:
        server.close()
        if settings.upload_dir is not None and not settings.keep_uploads:
            shutil.rmtree(settings.upload_dir, ignore_errors=True)


def _stop(_signal: int, _frame: object) -> None:
    """Leave through ``finally`` when the process is asked to end, so that temporary uploads are deleted."""
    raise SystemExit(0)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _warm() -> None:
    """Load the kernels, and compile those not yet cached, in the background, so that nobody waits for it later."""
    from dashboard.warm import warm

    try:
        warm()
    except Exception:  # noqa: BLE001 - the pages say what is wrong when they are asked for
        _LOG.exception("warming up failed")
