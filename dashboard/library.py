"""The server's traces: which may be opened, which are loaded, and what has been computed from each.

A *run reference* is what the URL holds: ``<root name>/<path below it>`` of a file or a folder whose files are ranks
of one run. Only paths under the roots given at start can be named.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from chakra_core.errors import ChakraError
from chakra_core.trace import Run

__all__ = ["Library", "LoadedRun"]

T = TypeVar("T")


@dataclass(eq=False)
class LoadedRun:
    """A run in memory, with the results computed from it so far."""

    ref: str
    run: Run
    _results: dict[Hashable, Any] = field(default_factory=dict, repr=False)
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    def result(self, key: Hashable, compute: Callable[[Run], T]) -> T:
        """``compute(run)``, remembered under ``key``: use it for every analysis a callback needs."""
        with self._lock:
            if key not in self._results:
                self._results[key] = compute(self.run)
            value: T = self._results[key]
            return value


class Library:
    """Opens runs by reference, in the background, and keeps them."""

    def __init__(self, roots: Mapping[str, Path]) -> None:
        self.roots = {name: path.resolve() for name, path in roots.items()}
        self._loaded: dict[str, LoadedRun] = {}

    def path_of(self, ref: str) -> Path:
        """Resolve a reference.

        Raises:
            ChakraError: it names no root, leaves its root, or does not exist.
        """
        name, _, rest = ref.partition("/")
        root = self.roots.get(name)
        if root is None:
            raise ChakraError(f"{ref}: no such root; known: {', '.join(sorted(self.roots))}")
        path = (root / rest).resolve()
        if not path.is_relative_to(root) or not path.exists():
            raise ChakraError(f"{ref}: not found under {name}")
        return path

    def get(self, ref: str) -> LoadedRun:
        """The run, loaded now if it is not yet.

        Raises:
            ChakraError: it cannot be opened.
        """
        from chakra_core.opening import open_run

        if ref not in self._loaded:
            self._loaded[ref] = LoadedRun(ref, open_run([self.path_of(ref)]))
        return self._loaded[ref]
