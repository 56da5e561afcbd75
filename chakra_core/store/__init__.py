"""A cache on disk of opened runs: columns, edges, names and timeline layouts, mapped into memory when opened again."""

from __future__ import annotations

from chakra_core.store.cache import Store, default_folder

__all__ = ["Store", "default_folder"]
