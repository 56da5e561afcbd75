"""The server's traces: which may be opened, which are loaded, and what has been computed from each.

A *run reference* is what the URL holds: ``<root name>/<path below it>`` of a file, or of a folder whose files are
the ranks of one run. Only paths under the roots given at start can be named; uploads live under the root
``uploads``, in folders with unguessable names, and are never listed to anybody but their session. A reference may also
name a projection of another one onto other hardware (``dashboard.projections``).
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from chakra_core.errors import ChakraError
from chakra_core.schema import COLUMNS
from chakra_core.store import Store
from chakra_core.trace import Run
from dashboard.projections import Projection, is_projection

__all__ = ["UPLOADS", "Cancelled", "Entry", "Library", "LoadStatus", "LoadedRun", "StillLoading"]

T = TypeVar("T")
UPLOADS = "uploads"
_LOG = logging.getLogger(__name__)
_AT_ONCE = 2
"""Runs read at the same time; others wait, but not those that the store holds."""
_TURN_S = 0.2
"""How often a load that waits for its turn looks whether it was cancelled."""
_MAX_ENTRIES = 2000
_PER_NODE_EXTRA = 80
"""Bytes per node allowed for what is computed from a run (indexes, layouts), on top of its arrays."""


class Cancelled(ChakraError):
    """The user cancelled loading."""


class StillLoading(ChakraError):
    """The run is not ready yet, and the request has waited as long as it may."""


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

    @cached_property
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
    done: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the file browser."""

    name: str
    ref: str
    is_folder: bool
    size: int


class Library:
    """Opens runs by reference, in the background, keeps them, and forgets the least recently used.

    A run that was forgotten is opened again when it is next asked for: at once, mapped, where the store holds it.

    Args:
        roots: what may be opened, by name.
        memory_limit: bytes of loaded runs beyond which the least recently used are forgotten.
        store: keeps opened runs on disk; None: each is read from its files every time.
        upload_store: the same for uploads.
        patience: seconds that :meth:`get` waits for a run; None: until it is loaded. A server sets it, so that a few
            long loads cannot hold all of its threads.
        prepare: each called in the background with a run once it is loaded, to work out what its first pages need.
        in_use_s: seconds for which a run that was asked for is not forgotten, whatever the limit.
    """

    def __init__(
        self,
        roots: Mapping[str, Path],
        *,
        memory_limit: int = 8_000_000_000,
        store: Store | None = None,
        upload_store: Store | None = None,
        patience: float | None = None,
        prepare: Sequence[Callable[[LoadedRun], object]] = (),
        in_use_s: float = 30.0,
    ) -> None:
        self.roots = {name: path.resolve() for name, path in roots.items()}
        self._limit = memory_limit
        self._store = store
        self._upload_store = upload_store
        self._patience = patience
        self._prepare = tuple(prepare)
        self._in_use_s = in_use_s
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
                self._loaded[ref].used = time.monotonic()
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
            StillLoading: it takes longer than this library's patience.
            ChakraError: it cannot be opened.
        """
        return self._wait(ref, self._patience)

    def _wait(self, ref: str, patience: float | None) -> LoadedRun:
        self.request(ref)
        with self._lock:
            job = self._jobs.get(ref)
        if job is not None and not job.done.wait(patience):
            raise StillLoading(f"{ref}: is being opened ({job.share:.0%}, {job.message}); try again in a moment")
        with self._lock:
            loaded = self._loaded.get(ref)
            if loaded is not None:
                loaded.used = time.monotonic()
                return loaded
            error = job.error if job is not None else None
        raise error or ChakraError(f"{ref}: was dropped while it loaded; open it again")

    def _load(self, ref: str, job: _Job) -> None:
        try:
            loaded = self._try_load(ref, job)
        finally:
            job.done.set()
        if loaded is None:
            return
        for prepare in self._prepare:
            try:
                prepare(loaded)
            except Exception:  # noqa: BLE001 - what fails here fails again, and is said, where a page asks for it
                _LOG.exception("preparing %s failed", ref)

    def _try_load(self, ref: str, job: _Job) -> LoadedRun | None:
        """Load a run; None, with the job's error set, where that fails."""

        def progress(share: float, message: str) -> None:
            job.share, job.message = share, message
            if job.cancelled:
                raise Cancelled(f"{ref}: loading was cancelled")

        try:
            run = self._open(ref, progress)
        except Cancelled as error:
            job.error = error
            return None
        except ChakraError as error:
            job.error = ChakraError(self._public(str(error)))
            return None
        except MemoryError:
            job.error = ChakraError(f"{ref}: does not fit into memory; open fewer ranks of it")
            return None
        except Exception as error:  # noqa: BLE001 - a reader may fail in any way; the run fails, nobody waits for ever
            _LOG.exception("opening %s failed", ref)
            job.error = ChakraError(self._public(f"{ref}: cannot be opened: {type(error).__name__}: {error}"))
            return None
        loaded = LoadedRun(ref, run, used=time.monotonic(), store=self._store_of(ref))
        with self._lock:
            self._loaded[ref] = loaded
            self._jobs.pop(ref, None)
            self._evict(keep=ref)
        return loaded

    def _open(self, ref: str, progress: Callable[[float, str], None]) -> Run:
        from chakra_core.opening import open_run

        if is_projection(ref):
            base = self._wait(Projection.of(ref).base, None).run
            with self._turn(progress):
                progress(0.1, "projecting")
                return Projection.of(ref).apply(base)
        path = self.path_of(ref)
        self._check_links(ref, path)
        store = self._store_of(ref)
        kept = store.find([path], progress=progress) if store else None
        if kept is not None:
            return kept
        with self._turn(progress):
            progress(0.0, "reading")
            return (store.open_run if store else open_run)([path], progress=progress)

    def _store_of(self, ref: str) -> Store | None:
        return self._upload_store if ref.startswith(f"{UPLOADS}/") else self._store

    @contextlib.contextmanager
    def _turn(self, progress: Callable[[float, str], None]) -> Iterator[None]:
        """One of the places for runs that are read at the same time; can be cancelled while it waits."""
        while not self._slots.acquire(timeout=_TURN_S):
            progress(0.0, "waiting for other runs to open")
        try:
            yield
        finally:
            self._slots.release()

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
        """Forget the least recently used runs while all together are over the limit, but none that is being looked at.

        Views of several runs ask for all of them; without that exception two large ones would push each other out.
        """
        before = time.monotonic() - self._in_use_s
        idle = sorted((loaded for ref, loaded in self._loaded.items() if ref != keep), key=lambda loaded: loaded.used)
        total = sum(loaded.bytes for loaded in self._loaded.values())
        for loaded in idle:
            if total <= self._limit or loaded.used > before:
                return
            del self._loaded[loaded.ref]
            total -= loaded.bytes

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
