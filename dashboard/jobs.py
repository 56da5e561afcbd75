"""Work that takes longer than a request may: it runs in the background, reports progress, and can be stopped."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from chakra_core.errors import ChakraError

__all__ = ["JobStatus", "Jobs", "Stopped"]

_LOG = logging.getLogger(__name__)
_AT_ONCE = 2
_KEPT = 64
_WAITING = 32

Report = Callable[[int, int], None]


class Stopped(ChakraError):
    """The user stopped the work."""


@dataclass(frozen=True, slots=True)
class JobStatus:
    """How far a job is: ``state`` is absent, running, done or failed; ``share`` 0..1; ``result`` once done."""

    state: str
    share: float = 0.0
    message: str = ""
    result: Any = None


class _Job:
    def __init__(self) -> None:
        self.status = JobStatus("running", 0.0, "waiting")
        self.stopped = False

    def report(self, done: int, of: int) -> None:
        if self.stopped:
            raise Stopped("stopped")
        self.status = JobStatus("running", done / max(of, 1), f"{done:,} of {of:,}")


class Jobs:
    """Jobs by key: asking again for the same one finds it; results are kept for a while, the oldest go first."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[Hashable, _Job] = OrderedDict()
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="job")

    def start(self, key: Hashable, work: Callable[[Report], Any]) -> JobStatus:
        """Start ``work(report)`` unless it runs or is done; a failed or stopped one starts again."""
        with self._lock:
            job = self._jobs.get(key)
            if job is None and sum(entry.status.state == "running" for entry in self._jobs.values()) >= _WAITING:
                return JobStatus("failed", message="too much is being computed already; wait for it to end")
            if job is None or job.status.state == "failed":
                job = self._jobs[key] = _Job()
                self._pool.submit(self._run, job, work)
            self._jobs.move_to_end(key)
            for old in [other for other, entry in self._jobs.items() if entry.status.state != "running"][:-_KEPT]:
                del self._jobs[old]
            return job.status

    def status(self, key: Hashable) -> JobStatus:
        """How far a job is."""
        with self._lock:
            job = self._jobs.get(key)
        return job.status if job else JobStatus("absent")

    def stop(self, key: Hashable) -> None:
        """Ask a job to stop; it does so at its next report."""
        with self._lock:
            if job := self._jobs.get(key):
                job.stopped = True

    def _run(self, job: _Job, work: Callable[[Report], Any]) -> None:
        try:
            job.report(0, 1)
            result = work(job.report)
        except ChakraError as error:
            job.status = JobStatus("failed", message=str(error))
        except Exception as error:  # noqa: BLE001 - the work may fail in any way; whoever waits for it must be told
            _LOG.exception("background work failed")
            job.status = JobStatus("failed", message=f"{type(error).__name__}: {error}")
        else:
            job.status = JobStatus("done", 1.0, result=result)
