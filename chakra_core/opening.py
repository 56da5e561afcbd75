"""From paths to a ready Run: pick the reader, read, put the ranks together, reconstruct times, check health."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from chakra_core.readers import guess_reader
from chakra_core.readers.base import Progress, Source, no_progress
from chakra_core.trace import Run, Trace

__all__ = ["open_run", "open_trace"]


def open_trace(path: str | Path, *, progress: Progress = no_progress) -> tuple[Trace, ...]:
    """Read one file into its traces (one per rank it holds).

    Raises:
        UnknownFormat: no reader recognises it.
        CorruptTrace: nothing usable could be read.
    """
    source = Source(Path(path), progress=progress)
    return tuple(guess_reader(source).read(source))


def open_run(paths: Sequence[str | Path], *, label: str = "", progress: Progress = no_progress) -> Run:
    """Open files, or folders of files, that are the ranks of one run.

    Raises:
        ChakraError: nothing in the paths could be opened.
    """
    traces = [trace for path in paths for trace in open_trace(path, progress=progress)]
    return Run(tuple(traces), label or Path(paths[0]).name)
