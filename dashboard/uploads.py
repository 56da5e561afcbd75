"""Uploads: streamed to disk, into a folder of the visitor's own."""

from __future__ import annotations

import re
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flask import Flask, jsonify, request

from dashboard.library import UPLOADS
from dashboard.security import session_key

if TYPE_CHECKING:
    from dashboard.settings import Settings

__all__ = ["register_uploads", "safe_name"]

_CHUNK = 1024 * 1024
_BATCH = re.compile(r"^[A-Za-z0-9_-]{1,40}$")
_MAX_FILES = 4096


def safe_name(name: str) -> str:
    """A file name with nothing in it that could lead elsewhere or hide the file.

    >>> safe_name("../../etc/passwd"), safe_name(" .bashrc"), safe_name("trace 1.json")
    ('passwd', 'bashrc', 'trace 1.json')
    """
    last = re.split(r"[\\/]", name)[-1]
    kept = "".join(ch if ch.isalnum() or ch in " ._-+()@=" else "_" for ch in last).strip().lstrip(".")
    return kept[-180:] or "upload"


def register_uploads(server: Flask, settings: Settings) -> None:
    """Add the route that the drop zone posts to: ``POST /upload?name=…&batch=…``, the body being the file."""

    @server.post("/upload")
    def upload() -> tuple[Any, int]:
        key, batch = session_key(), request.args.get("batch", "")
        if settings.upload_dir is None or not key or not _BATCH.match(batch):
            return jsonify(error="Uploads are not accepted here; reload the page and try again."), 400
        if (request.content_length or 0) > settings.max_upload_bytes:
            return jsonify(error=_too_large(settings)), 413
        folder = settings.upload_dir / key / batch
        folder.mkdir(parents=True, exist_ok=True)
        if len(list(folder.iterdir())) >= _MAX_FILES:
            return jsonify(error=f"More than {_MAX_FILES:,} files in one upload."), 413
        name = safe_name(request.args.get("name", ""))
        written = _receive(folder / name, settings.max_upload_bytes)
        if written < 0:
            return jsonify(error=_too_large(settings)), 413
        return jsonify(ref=f"{UPLOADS}/{key}/{batch}/{name}", folder=f"{UPLOADS}/{key}/{batch}", bytes=written), 200


def _too_large(settings: Settings) -> str:
    return f"The file is larger than the {settings.max_upload_bytes / 1e9:g} GB this server accepts."


def _receive(target: Path, limit: int) -> int:
    """Write the request's body to a file under a temporary name, then rename it; bytes written, -1 over the limit."""
    part = target.with_name(f".{secrets.token_hex(8)}.part")
    written = 0
    try:
        with part.open("wb") as file:
            while chunk := request.stream.read(_CHUNK):
                written += len(chunk)
                if written > limit:
                    return -1
                file.write(chunk)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return written
