"""What a server is started with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    """Everything that decides what a server may do.

    Attributes:
        roots: what may be opened, by the name the URL knows it by: folders, which can be browsed, and single files.
        upload_dir: where uploads are kept; None: none are accepted.
        keep_uploads: whether uploads outlive the server.
        opened: run references to show first.
        token: secret that visitors need; None lets everybody in (only sensible on loopback).
        hosts: host names that requests may be addressed to; empty allows loopback names only, ``*`` every name.
        max_upload_bytes: largest upload.
        memory_limit_bytes: loaded runs beyond it are dropped, least recently used first.
        store: folder where opened runs are kept for the next time; None: nowhere.
        store_limit_bytes: most of them, least recently opened dropped first.
    """

    roots: Mapping[str, Path] = field(default_factory=lambda: MappingProxyType({}))
    upload_dir: Path | None = None
    keep_uploads: bool = True
    opened: tuple[str, ...] = ()
    token: str | None = field(default=None, repr=False)
    hosts: frozenset[str] = frozenset()
    max_upload_bytes: int = 16_000_000_000
    memory_limit_bytes: int = 8_000_000_000
    store: Path | None = None
    store_limit_bytes: int = 20_000_000_000
