"""Where entries lie, which one a run has, and what is thrown away when the store is full.

A run's key is made of the content (BLAKE2b) and names of its files and of this package's own code, so that neither a
changed file nor a changed reader ever meets an old entry. Content is hashed once: a small index remembers the digest of
a file by its place, size, inode and times (also the change time, which no program can set back), so that opening an unchanged file again reads none of it. Entries are
written whole or not at all; two processes may write the same one, the last wins. Whatever goes wrong here costs only
time: the run is then read from its files.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

import chakra_core
from chakra_core.readers._et_groups import side_files
from chakra_core.readers.base import Progress, no_progress
from chakra_core.store.blocks import Damaged, read_blocks, write_blocks
from chakra_core.store.pack import Unstorable, layouts_to_parts, parts_to_layouts, parts_to_run, run_to_parts
from chakra_core.trace import Run

if TYPE_CHECKING:
    from chakra_core.lod import Layout

__all__ = ["Store", "default_folder"]

T = TypeVar("T")

_LOG = logging.getLogger(__name__)
_SMALL = 1_000_000
"""Runs of fewer bytes are read as fast as an entry is opened; they are not kept."""
_PART = 8 * 1024 * 1024
_SETTLED_NS = 1_000_000_000
"""A file changed less than this ago is hashed again next time: one more change might leave the same times."""
DEFAULT_LIMIT = 20_000_000_000


def default_folder() -> Path:
    """``CHAKRA_STORE``, else ``chakra-dashboard`` in the user's cache folder."""
    given = os.environ.get("CHAKRA_STORE")
    if given:
        return Path(given).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "chakra-dashboard"


class Store:
    """A folder of entries, at most ``limit_bytes`` of them; the least recently opened go first."""

    def __init__(self, folder: Path | None = None, *, limit_bytes: int = DEFAULT_LIMIT, smallest: int = _SMALL) -> None:
        self.folder = folder or default_folder()
        self.limit_bytes = limit_bytes
        self.smallest = smallest
        self._warned = False
        self._keys: WeakKeyDictionary[Run, str] = WeakKeyDictionary()

    def find(self, paths: Sequence[str | Path], *, label: str = "", progress: Progress = no_progress) -> Run | None:
        """The run where the store holds it and its files have not been touched since; None otherwise, reading nothing.

        Raises:
            ChakraError: there is no run in these paths.
        """
        from chakra_core.opening import expand

        files, _, _ = expand(paths, progress)
        stamps = [_stamp(path) for path in files]
        if any(self._noted(path, stamp) is None for path, stamp in zip(files, stamps, strict=True)):
            return None
        key = self._key(files, _words(paths, label), progress)
        found = self._load(key, "run", lambda header, arrays: parts_to_run(header, arrays, files, _read_anew))
        if found is not None:
            self._keys[found] = key
        return found

    def open_run(self, paths: Sequence[str | Path], *, label: str = "", progress: Progress = no_progress) -> Run:
        """As ``opening.open_run``; from the store where it holds the run, else read and kept.

        What was just kept is given back mapped too: its pages are the system's to take back, unlike those of arrays.

        Raises:
            ChakraError: nothing could be opened.
        """
        from chakra_core.opening import expand, open_files

        files, named, aside = expand(paths, progress)
        if sum(path.stat().st_size for path in files) < self.smallest:
            return open_files(files, label or named, aside, progress=progress)
        stamps = [_stamp(path) for path in files]
        key = self._key(files, _words(paths, label), progress)
        found = self._load(key, "run", lambda header, arrays: parts_to_run(header, arrays, files, _read_anew))
        if found is None:
            found = run = open_files(files, label or named, aside, progress=progress)
            if stamps != [_stamp(path) for path in files]:  # written to meanwhile: what was read is not what was hashed
                return found
            progress(0.99, "keeping it for the next time")
            self._save(key, "run", lambda: run_to_parts(run, files))
            found = (
                self._load(key, "run", lambda header, arrays: parts_to_run(header, arrays, files, _read_anew)) or run
            )
        self._keys[found] = key
        return found

    def layouts(self, run: Run, build: Callable[[Run], tuple[Layout, ...]]) -> tuple[Layout, ...]:
        """Timeline layouts of a run; kept beside a run that this store holds, and built where there are none yet."""
        key = self._keys.get(run)
        if key is None:
            return build(run)
        found = self._load(key, "layouts", parts_to_layouts)
        if found is not None:
            return found
        layouts = build(run)
        self._save(key, "layouts", lambda: layouts_to_parts(layouts))
        return layouts

    def _key(self, files: Sequence[Path], words: Sequence[str], progress: Progress) -> str:
        digest = hashlib.blake2b(_code_version().encode(), digest_size=20)
        for word in words:
            digest.update(f"{len(word)}:{word};".encode("utf-8", "surrogatepass"))
        for path in files:
            digest.update(
                f"{len(path.name)}:{path.name}:{self._digest(path, progress)};".encode("utf-8", "surrogatepass")
            )
        for folder in dict.fromkeys(path.parent for path in files):
            for side in side_files(folder):  # a file of process groups beside the traces is part of the run
                stat = side.stat()
                digest.update(f"{side.name}:{stat.st_size}:{stat.st_mtime_ns};".encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    def _digest(self, path: Path, progress: Progress) -> str:
        """Digest of a file's content, from the index where the file has not been touched since."""
        stamp = _stamp(path)
        noted = self._noted(path, stamp)
        if noted is not None:
            return noted
        digest = hashlib.blake2b(digest_size=20)
        done = 0
        with path.open("rb") as file:
            while part := file.read(_PART):
                digest.update(part)
                done += len(part)
                progress(0.0, f"checking {path.name}: {done / 1e6:,.0f} MB")
        found = digest.hexdigest()
        if time.time_ns() - stamp[2] > _SETTLED_NS:
            self._try(lambda: _write_note(self._note(path), [stamp, found]))
        return found

    def _note(self, path: Path) -> Path:
        place = hashlib.blake2b(os.fsencode(path.resolve()), digest_size=16).hexdigest()
        return self.folder / "files" / f"{place}.json"

    def _noted(self, path: Path, stamp: list[int]) -> str | None:
        """Digest of a file as the index has it; None where it has none of the file as it is now."""
        with contextlib.suppress(OSError, ValueError):
            kept = json.loads(self._note(path).read_bytes())
            if isinstance(kept, list) and len(kept) == 2 and kept[0] == stamp and isinstance(kept[1], str):
                return str(kept[1])
        return None

    def _load(self, key: str, kind: str, make: Callable[[dict[str, Any], Any], T]) -> T | None:
        """An entry made into what it stands for; None where there is none, or it is damaged (it is deleted then)."""
        path = self._place(key, kind)
        try:
            header, arrays = read_blocks(path)
            found = make(header, arrays)
        except FileNotFoundError:
            return None
        except (Damaged, OSError, ValueError, KeyError, TypeError, IndexError) as error:
            _LOG.warning("store: %s is damaged and is made anew: %s", path.name, error)
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return found

    def _save(self, key: str, kind: str, parts: Callable[[], tuple[dict[str, Any], Any]]) -> None:
        def write() -> None:
            header, arrays = parts()
            path = self._place(key, kind)
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            size = sum(array.nbytes for array in arrays.values())
            if size <= self.limit_bytes:
                write_blocks(path, header, arrays)
                self._shrink(keep=path)

        self._try(write)

    def _place(self, key: str, kind: str) -> Path:
        return self.folder / "entries" / f"{key}.{kind}"

    def _try(self, write: Callable[[], None]) -> None:
        """Write something; where that fails, say so once and go on without."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            write()
        except Unstorable as error:
            _LOG.info("store: not kept: %s", error)
        except (OSError, ValueError) as error:
            if not self._warned:
                _LOG.warning("store: nothing is kept in %s: %s", self.folder, error)
            self._warned = True

    def _shrink(self, keep: Path) -> None:
        """Delete the least recently opened entries while all together are over the limit."""
        entries: list[tuple[float, int, Path]] = []
        for path in keep.parent.iterdir():
            with contextlib.suppress(OSError):
                stat = path.stat()
                entries.append((stat.st_mtime, stat.st_size, path))
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if total <= self.limit_bytes:
                return
            if path != keep:
                with contextlib.suppress(OSError):
                    path.unlink()
                total -= size


def _stamp(path: Path) -> list[int]:
    """What changes when a file is written to: size, modification and change time (ns), inode."""
    stat = path.stat()
    return [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]


def _words(paths: Sequence[str | Path], label: str) -> list[str]:
    """What beside the files decides how a run is made of them."""
    return [str(len(paths)), *(Path(path).name for path in paths), label]


def _write_note(path: Path, content: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = path.with_suffix(f".{os.getpid()}")
    fresh.write_text(json.dumps(content))
    os.replace(fresh, path)  # noqa: PTH105 - atomic on every platform


def _read_anew(path: Path) -> Sequence[Any]:
    from chakra_core.opening import open_trace

    return open_trace(path)


@lru_cache(maxsize=1)
def _code_version() -> str:
    """The package's version and the size and time of each of its modules: code that changed keeps nothing."""
    root = Path(chakra_core.__file__).parent
    words = [chakra_core.__version__]
    for path in sorted((*root.rglob("*.py"), *root.rglob("*.toml"))):
        stat = path.stat()
        words.append(f"{path.relative_to(root)}:{stat.st_size}:{stat.st_mtime_ns}")
    return "\n".join(words)
