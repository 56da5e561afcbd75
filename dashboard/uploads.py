"""Uploads: the browser sends files in pieces, which are appended on disk, in a folder only its link names.

``POST /upload?batch=…&name=…&offset=…&total=…`` with a piece of the file as body. The files of one batch are one
run; its folder is named by a hash of the visitor's key and the batch, so that a run's link gives away nothing else,
and what others uploaded can be neither listed nor guessed.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from flask import Flask, jsonify, request

from chakra_core.errors import ChakraError, LimitExceeded
from dashboard.library import UPLOADS
from dashboard.security import session_key

if TYPE_CHECKING:
    from dashboard.settings import Settings

__all__ = ["Uploads", "batch_folder", "register_uploads", "safe_name"]

_CHUNK = 1024 * 1024
_BATCH = re.compile(r"[A-Za-z0-9_-]{8,64}")
_MAX_FILES = 20_000
_MAX_DEPTH = 12


def safe_name(name: str) -> str:
    r"""A relative path with nothing in it that could lead elsewhere or hide a file.

    >>> safe_name("../../etc/passwd"), safe_name(" .bashrc"), safe_name("run 1/rank0.json"), safe_name("C:\\a")
    ('etc/passwd', 'bashrc', 'run 1/rank0.json', 'C_/a')
    """
    parts = [_safe_part(part) for part in re.split(r"[\\/]", name)]
    kept = [part for part in parts if part][-_MAX_DEPTH:]
    return "/".join(kept) or "upload"


def _safe_part(part: str) -> str:
    shown = "".join(ch if ch.isalnum() or ch in " ._-+()@=" else "_" for ch in part).strip().lstrip(".").strip()
    while len(shown.encode()) > 200:
        shown = shown[1:]  # the end holds the suffix
    return shown


def batch_folder(key: str, batch: str) -> str:
    """Name of the folder of a visitor's batch."""
    return hashlib.sha256(f"{key}/{batch}".encode()).hexdigest()[:40]


@dataclass(eq=False)
class Uploads:
    """Receives pieces into ``folder``; ``max_bytes`` is the most that one batch may hold."""

    folder: Path
    max_bytes: int
    _bytes: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    _files: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def reserve(self, batch: str, wanted: int, *, is_new: bool) -> None:
        """Count bytes (and a file) of a batch folder before they are written.

        Raises:
            LimitExceeded: it would hold too much.
        """
        with self._lock:
            if self._bytes[batch] + wanted > self.max_bytes:
                raise LimitExceeded(f"One upload may hold {self.max_bytes / 1e9:g} GB on this server.")
            if self._files[batch] + is_new > _MAX_FILES:
                raise LimitExceeded(f"One upload may hold {_MAX_FILES:,} files.")
            self._bytes[batch] += wanted
            self._files[batch] += is_new

    def receive(self, batch: str, name: str, offset: int, total: int, length: int) -> tuple[str, int]:
        """Append the body of the current request to a file; the file gets its name once it is whole.

        Returns:
            Its path below the batch folder, and how many bytes of it are here.

        Raises:
            ChakraError: the piece does not follow the last one.
            LimitExceeded: the batch would hold too much.
        """
        if total > self.max_bytes:
            raise LimitExceeded(f"The file is larger than the {self.max_bytes / 1e9:g} GB this server accepts.")
        place = PurePosixPath(batch, safe_name(name))
        target = self.folder / place
        part = target.with_name(f".{target.name}.part")
        self.reserve(batch, length, is_new=offset == 0)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        if offset == 0:
            part.unlink(missing_ok=True)
        have = part.stat().st_size if part.exists() else 0
        if have != offset:
            raise ChakraError(f"A piece for byte {offset:,} came, but {have:,} bytes are here; send the file again.")
        left = length
        with part.open("ab") as file:
            while left > 0 and (chunk := request.stream.read(min(_CHUNK, left))):
                file.write(chunk)
                left -= len(chunk)
        have = part.stat().st_size
        if have >= total:
            part.replace(target)
        return str(place.relative_to(batch)), have


def register_uploads(server: Flask, settings: Settings) -> None:
    """Add the route that the drop zone posts to."""
    uploads = Uploads(settings.upload_dir, settings.max_upload_bytes) if settings.upload_dir else None

    @server.post("/upload")
    def upload() -> tuple[Any, int]:
        batch = request.args.get("batch", "")
        offset, total = request.args.get("offset", 0, int), request.args.get("total", -1, int)
        length = request.content_length
        if uploads is None:
            return jsonify(error="Uploads are not accepted here."), 400
        if not _BATCH.fullmatch(batch) or length is None or offset < 0:
            return jsonify(error="This is not a piece of an upload."), 400
        folder = batch_folder(session_key(), batch)
        total = length if total < 0 else total
        try:
            name, have = uploads.receive(folder, request.args.get("name", ""), offset, total, length)
        except LimitExceeded as error:
            return jsonify(error=str(error)), 413
        except ChakraError as error:
            return jsonify(error=str(error)), 409
        except OSError as error:
            return jsonify(error=f"The server cannot store it: {error.strerror or error}"), 507
        return jsonify(ref=f"{UPLOADS}/{folder}/{name}", folder=f"{UPLOADS}/{folder}", bytes=have), 200
