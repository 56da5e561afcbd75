"""Exports: files made of an open run in the background, kept for a while, and handed only to who asked for them."""

from __future__ import annotations

import logging
import re
import secrets
import shutil
import tempfile
import threading
import time
import weakref
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from flask import Flask, Response, abort, send_file
from numpy.typing import NDArray

from chakra_core.errors import ChakraError
from chakra_core.graph import neighbourhood
from chakra_core.trace import Run
from chakra_core.writers.convert import Conversion, convert, part_of, rows_in
from dashboard.security import session_key
from dashboard.state import Selection

__all__ = ["Exports", "Job", "part_for", "register_exports"]

_LOG = logging.getLogger(__name__)
_AT_ONCE = 2
_KEPT = 4
"""Finished exports kept for each visitor; the oldest goes first."""
_MOST_WAITING = 8
_MOST_VISITORS = 64
_NEIGHBOURS = 20_000
_JOB = re.compile(r"[A-Za-z0-9_-]{22}")


@dataclass(eq=False)
class Job:
    """One export: how far it is, and what came of it."""

    session: str
    share: float = 0.0
    message: str = "waiting"
    error: str = ""
    file: Path | None = None
    name: str = ""
    notes: tuple[str, ...] = ()
    started: float = field(default_factory=time.monotonic)

    @property
    def is_over(self) -> bool:
        """Whether it has ended, well or not."""
        return self.file is not None or bool(self.error)


class Exports:
    """The exports of a server."""

    def __init__(self) -> None:
        self._made: Path | None = None
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()
        self._slots = threading.Semaphore(_AT_ONCE)

    def _folder(self) -> Path:
        """The folder of the files, made when the first is, removed with this object or when the server ends."""
        with self._lock:
            if self._made is None:
                self._made = Path(tempfile.mkdtemp(prefix="chakra-export-"))
                weakref.finalize(self, shutil.rmtree, self._made, ignore_errors=True)
            return self._made

    def start(self, session: str, run: Callable[[], Run], to: str, purpose: str | None, *, compress: bool) -> str:
        """Begin an export; its key.

        Args:
            session: who may have it.
            run: gives what to write; called in the background.
            to: name of the format.
            purpose: ``simulator``, ``archive`` or None for the format's own.
            compress: whether to gzip.

        Raises:
            ChakraError: too many exports are waiting.
        """
        with self._lock:
            waiting = sum(not job.is_over for job in self._jobs.values())
            if waiting >= _MOST_WAITING:
                raise ChakraError("Too many exports are being made; wait for one of them.")
            self._forget(session)
            key = secrets.token_urlsafe(16)
            job = self._jobs[key] = Job(session)
        work = (key, job, run, to, purpose, compress)
        threading.Thread(target=self._make, args=work, name=f"export {key[:6]}", daemon=True).start()
        return key

    def of(self, session: str, key: str) -> Job | None:
        """The export of that key, if it is this visitor's."""
        job = self._jobs.get(key) if _JOB.fullmatch(key) else None
        return job if job is not None and secrets.compare_digest(job.session, session) else None

    def _forget(self, session: str) -> None:
        """Make room: the visitor's oldest finished exports go, and those of the longest absent visitors."""
        over = [(job.started, key) for key, job in self._jobs.items() if job.is_over]
        own = sorted(entry for entry in over if self._jobs[entry[1]].session == session)
        for _, key in [
            *own[: max(len(own) - _KEPT + 1, 0)],
            *sorted(over)[: max(len(over) - _KEPT * _MOST_VISITORS, 0)],
        ]:
            job = self._jobs.pop(key, None)
            if job is not None and job.file is not None:
                job.file.unlink(missing_ok=True)

    def _make(self, key: str, job: Job, run: Callable[[], Run], to: str, purpose: str | None, compress: bool) -> None:
        def progress(share: float, message: str) -> None:
            job.share, job.message = 0.9 * share, message

        folder = Path(key)
        try:
            folder = self._folder() / key
            with self._slots:
                whole = run()
                folder.mkdir()
                done = convert(
                    whole,
                    folder / _file_name(whole.label),
                    to=to,
                    purpose=purpose,
                    compress=compress,
                    progress=progress,
                )
                job.notes = tuple(f"{change.text} ({change.count:,})" for change in done.changes)
                made = _one_file(done, folder)
                job.name = made.name
                job.share, job.file = 1.0, made
        except ChakraError as error:
            job.error = str(error).replace(str(folder), "")
        except OSError as error:
            job.error = f"The server cannot write it: {error.strerror or 'no space or no permission'}"
        except Exception as error:  # noqa: BLE001 - whatever a writer does, the visitor is told and nobody waits for ever
            _LOG.exception("an export failed")
            job.error = f"It cannot be written: {type(error).__name__}"


def _file_name(label: str) -> str:
    """A file name that means nothing to any shell or system: letters, digits, ``-`` and ``_``."""
    return (
        "".join(ch if ch.isascii() and (ch.isalnum() or ch in "-_") else "_" for ch in label).strip("_")[:80] or "run"
    )


def _one_file(done: Conversion, folder: Path) -> Path:
    """The only file, or a zip of them all."""
    files = [*done.files, *([done.groups_file] if done.groups_file and (done.groups or len(done.files) > 1) else [])]
    if len(files) == 1:
        return files[0]
    target = folder / f"{done.files[0].name.split('.')[0]}.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as packed:
        for path in files:
            packed.write(path, path.name)
            path.unlink()
    return target


def part_for(run: Run, what: str, window: tuple[int, int] | None, chosen: tuple[Selection, int] | None) -> Run:
    """The part of a run that a visitor asked for.

    Args:
        run: the whole.
        what: ``all``, ``range`` or ``selection``.
        window: the visible range, ns from the run's origin.
        chosen: the selected node, and how many steps of its neighbourhood belong to it.

    Raises:
        ChakraError: there is no range, or no selection in this run.
    """
    if what == "range":
        if window is None:
            raise ChakraError("No range is set: zoom the timeline to one first.")
        t0, t1 = run.origin_ns + window[0], run.origin_ns + window[1]
        made, _ = part_of(run, [rows_in(trace, (t0, t1)) for trace in run.traces])
    elif what == "selection":
        if chosen is None:
            raise ChakraError("No node is selected.")
        made, _ = part_of(run, _around(run, *chosen))
    else:
        made = run
    if not made.traces:
        raise ChakraError("There is nothing in it.")
    return made


def _around(run: Run, selection: Selection, hops: int) -> list[NDArray[np.int64] | None]:
    rows: list[NDArray[np.int64] | None] = [np.zeros(0, np.int64) for _ in run.traces]
    if selection.rank not in run.ranks or selection.row >= len(run.by_rank(selection.rank)):
        raise ChakraError("The selected node is not in this run.")
    at = run.ranks.index(selection.rank)
    rows[at] = neighbourhood(run.traces[at].edges, selection.row, hops, _NEIGHBOURS)[0]
    return rows


def register_exports(server: Flask, exports: Exports) -> None:
    """Add ``GET /export/<key>``: the finished file, as a download."""

    @server.get("/export/<key>")
    def export(key: str) -> Response:
        job = exports.of(session_key(), key)
        if job is None or job.file is None or not job.file.is_file():
            abort(404, "There is no such export, or it has been dropped: make it again.")
        response = send_file(job.file, as_attachment=True, download_name=job.name, mimetype="application/octet-stream")
        response.headers["Cache-Control"] = "no-store"
        return response
