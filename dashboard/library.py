"""The server's traces: which may be opened, which are loaded, and what has been computed from each.

A *run reference* is what the URL holds: ``<root name>/<path below it>`` of a file, or of a folder whose files are
the ranks of one run. Only paths under the roots given at start can be named; uploads live under the root
``uploads``, in folders with unguessable names, and are never listed to anybody but their session. A reference may also
name a projection of another one onto other hardware (``dashboard.projections``).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from chakra_core.errors import ChakraError
from chakra_core.schema import COLUMNS
from chakra_core.store import Store
from chakra_core.trace import Run
from dashboard.projections import Projection, is_projection

__all__ = ["UPLOADS", "Cancelled", "Entry", "Library", "LoadStatus", "LoadedRun"]

T = TypeVar("T")
UPLOADS = "uploads"
_LOG = logging.getLogger(__name__)
_AT_ONCE = 2
"""Runs read at the same time; others wait."""
_MAX_ENTRIES = 2000
_PER_NODE_EXTRA = 80
"""Bytes per node allowed for what is computed from a run (indexes, layouts), on top of its arrays."""


class Cancelled(ChakraError):
    """The user cancelled loading."""


@dataclass(eq=False)
class LoadedRun:
    """A run in memory, with the results computed from it so far."""

    ref: str
    run: Run
    used: float = 0.0
    store: Store | None = None
    _results: dict[Hashable, Any] = field(default_factory=dict, repr=False)
    _locks: dict[Hashable, threading.Lock] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def result(self, key: Hashable, compute: Callable[[Run], T]) -> T:
        """``compute(run)``, remembered under ``key``: use it for every analysis a callback needs.

        Two requests for one key compute it once; different keys do not wait for each other.
        """
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            if key not in self._results:
                self._results[key] = compute(self.run)
            value: T = self._results[key]
            return value

    @property
    def bytes(self) -> int:
        """Estimated memory of the run: its arrays, and an allowance per node for what is computed from it."""
        total = 0
        for trace in self.run.traces:
            total += sum(getattr(trace.columns, column.name).nbytes for column in COLUMNS)
            total += trace.edges.indptr.nbytes + trace.edges.sources.nbytes + trace.edges.kinds.nbytes
            total += sum(map(len, trace.names)) + _PER_NODE_EXTRA * len(trace)
        return total


@dataclass(frozen=True, slots=True)
class LoadStatus:
    """How far a run is: ``state`` is absent, loading, ready or failed; ``share`` 0..1 while loading."""

    state: str
    share: float = 0.0
    message: str = ""


@dataclass(eq=False)
class _Job:
    """A load in progress or failed."""

    thread: threading.Thread | None = None
    share: float = 0.0
    message: str = "waiting"
    error: ChakraError | None = None
    cancelled: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the file browser."""

    name: str
    ref: str
    is_folder: bool
    size: int


class Library:
    """Opens runs by reference, in the background, keeps them, and forgets the least recently used."""

    def __init__(
        self, roots: Mapping[str, Path], *, memory_limit: int = 8_000_000_000, store: Store | None = None
    ) -> None:
        self.roots = {name: path.resolve() for name, path in roots.items()}
        self._limit = memory_limit
        self._store = store
        self._loaded: dict[str, LoadedRun] = {}
        self._jobs: dict[str, _Job] = {}
        self._lock = threading.RLock()
        self._slots = threading.Semaphore(_AT_ONCE)

    def path_of(self, ref: str) -> Path:
        """Resolve a reference.

        Raises:
            ChakraError: it names no root, leaves its root, or does not exist.
        """
        name, _, rest = ref.partition("/")
        root = self.roots.get(name)
        if root is None:
            raise ChakraError(f"{ref}: no such place; known are {', '.join(sorted(self.roots))}")
        if "\\" in rest or ":" in rest.partition("/")[0][1:2] or any(ord(ch) < 32 for ch in rest):
            raise ChakraError(f"{name}: the path holds characters that are not allowed")
        try:
            path = (root / rest).resolve() if rest else root
            found = path.is_relative_to(root) and path.exists() and not (name == UPLOADS and path == root)
        except (OSError, ValueError, RuntimeError):  # a name too long, a loop of links
            found = False
        if not found:
            raise ChakraError(f"{ref[:300]}: not found under {name}")
        return path

    def status(self, ref: str) -> LoadStatus:
        """How far a run is."""
        with self._lock:
            if ref in self._loaded:
                return LoadStatus("ready", 1.0)
            job = self._jobs.get(ref)
            if job is None:
                return LoadStatus("absent")
            if job.error is not None:
                return LoadStatus("failed", message=str(job.error))
            return LoadStatus("loading", job.share, job.message)

    def request(self, ref: str) -> LoadStatus:
        """Start loading a run in the background unless it is loaded, loading or failed."""
        with self._lock:
            if ref not in self._loaded and ref not in self._jobs:
                job = _Job()
                self._jobs[ref] = job
                job.thread = threading.Thread(target=self._load, args=(ref, job), name=f"load {ref}", daemon=True)
                job.thread.start()
        return self.status(ref)

    def cancel(self, ref: str) -> None:
        """Ask a load to stop; it does so at its next report of progress."""
        with self._lock:
            if job := self._jobs.get(ref):
                job.cancelled = True

    def forget(self, ref: str) -> None:
        """Drop a failed or cancelled load, so that it can be tried again."""
        with self._lock:
            job = self._jobs.get(ref)
            if job is not None and job.error is not None:
                del self._jobs[ref]

    def get(self, ref: str) -> LoadedRun:
        """The run; waits until it is loaded.

        Raises:
            ChakraError: it cannot be opened.
        """
        self.request(ref)
        with self._lock:
            job = self._jobs.get(ref)
        if job is not None and job.thread is not None:
            job.thread.join()
        with self._lock:
            loaded = self._loaded.get(ref)
            if loaded is not None:
                loaded.used = time.monotonic()
                return loaded
            error = job.error if job is not None else None
        raise error or ChakraError(f"{ref}: was dropped while it loaded; open it again")

    def _load(self, ref: str, job: _Job) -> None:
        def progress(share: float, message: str) -> None:
            job.share, job.message = share, message
            if job.cancelled:
                raise Cancelled(f"{ref}: loading was cancelled")

        try:
            run = self._open(ref, progress)
        except Cancelled as error:
            job.error = error
            return
        except ChakraError as error:
            job.error = ChakraError(self._public(str(error)))
            return
        except MemoryError:
            job.error = ChakraError(f"{ref}: does not fit into memory; open fewer ranks of it")
            return
        except Exception as error:  # noqa: BLE001 - a reader may fail in any way; the run fails, nobody waits for ever
            _LOG.exception("opening %s failed", ref)
            job.error = ChakraError(self._public(f"{ref}: cannot be opened: {type(error).__name__}: {error}"))
            return
        with self._lock:
            self._loaded[ref] = LoadedRun(ref, run, used=time.monotonic(), store=self._store)
            self._jobs.pop(ref, None)
            self._evict(keep=ref)

    def _open(self, ref: str, progress: Callable[[float, str], None]) -> Run:
        from chakra_core.opening import open_run

        if is_projection(ref):
            base = self.get(Projection.of(ref).base).run
            with self._slots:
                progress(0.1, "projecting")
                return Projection.of(ref).apply(base)
        with self._slots:
            progress(0.0, "reading")
            path = self.path_of(ref)
            self._check_links(ref, path)
            return (self._store.open_run if self._store else open_run)([path], progress=progress)

    def _check_links(self, ref: str, folder: Path) -> None:
        """Refuse a folder with links to files outside of all roots: opening it as a run would read them.

        Raises:
            ChakraError: it holds such a link.
        """
        for path in folder.rglob("*") if folder.is_dir() else ():
            if not path.is_symlink() or not path.exists():
                continue
            target = path.resolve()
            if not any(target.is_relative_to(root) for name, root in self.roots.items() if name != UPLOADS):
                raise ChakraError(
                    f"{ref}: its link {path.name} leads out of the folders given at start; give that one too"
                )

    def _public(self, text: str) -> str:
        """A message with the server's own paths replaced by the names that references use."""
        for name, path in self.roots.items():
            text = text.replace(str(path), name)
        return text

    def _evict(self, keep: str) -> None:
        """Forget the least recently used runs while all together are over the limit."""
        while len(self._loaded) > 1 and sum(loaded.bytes for loaded in self._loaded.values()) > self._limit:
            oldest = min((ref for ref in self._loaded if ref != keep), key=lambda ref: self._loaded[ref].used)
            del self._loaded[oldest]

    def browse(self, ref: str) -> list[Entry]:
        """What a folder holds, folders first; hidden files and what leads out of the root are left out.

        Raises:
            ChakraError: it is no folder that may be listed.
        """
        folder = self.path_of(ref)
        if not folder.is_dir():
            raise ChakraError(f"{ref}: is not a folder")
        root = self.roots[ref.partition("/")[0]]
        entries = []
        for path in sorted(folder.iterdir(), key=lambda entry: entry.name.lower())[:_MAX_ENTRIES]:
            if path.name.startswith("."):
                continue
            try:
                if not path.resolve().is_relative_to(root):
                    continue
                is_folder = path.is_dir()
                size = 0 if is_folder or not path.is_file() else path.stat().st_size
            except (OSError, RuntimeError):  # deleted since it was listed, or a loop of links
                continue
            entries.append(Entry(path.name, f"{ref.rstrip('/')}/{path.name}", is_folder, size))
        return sorted(entries, key=lambda entry: not entry.is_folder)
