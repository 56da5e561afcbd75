"""From a Run to files: the part wanted, made fit for its purpose, in one of the formats of ``writers.WRITERS``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from chakra_core.errors import ChakraError
from chakra_core.readers.base import Progress, no_progress
from chakra_core.schema import NO_TIME
from chakra_core.trace import Run, Trace
from chakra_core.writers import get_writer, list_writers
from chakra_core.writers.base import Rank, Writer
from chakra_core.writers.chakra_et import Stated
from chakra_core.writers.files import replacing
from chakra_core.writers.rows import linear_order, take
from chakra_core.writers.simulator import Change, for_simulator

__all__ = ["Conversion", "Purpose", "convert", "part_of", "rows_in"]

I64 = NDArray[np.int64]
_SUFFIXES = (".gz", ".et", ".json", ".graphml", ".dot", ".parquet", ".csv", ".trace")


class Purpose(StrEnum):
    """What files are for: ``simulator`` obeys the rules of simulators, ``archive`` keeps everything."""

    SIMULATOR = "simulator"
    ARCHIVE = "archive"


@dataclass(frozen=True, slots=True)
class Conversion:
    """What was written.

    Attributes:
        files: one per rank, or one for all.
        groups_file: the process groups as ASTRA-sim takes them; None where none was written.
        groups: those groups.
        purpose: what the files are fit for.
        changes: what was left out or changed.
        ranks: the ranks written.
    """

    files: tuple[Path, ...]
    groups_file: Path | None
    groups: Mapping[str, Sequence[int]]
    purpose: Purpose
    changes: tuple[Change, ...]
    ranks: tuple[int, ...]


def convert(
    run: Run, out: str | Path, *, to: str = "et", purpose: Purpose | str | None = None, compress: bool = False,
    progress: Progress = no_progress,
) -> Conversion:  # fmt: skip
    """Write a run.

    Args:
        run: what to write (``part_of`` gives a part of a run).
        out: the prefix of the files: ``PREFIX.<rank>.et`` for formats with one file per rank, ``PREFIX.<suffix>`` for
            the others. A suffix of a format on it is taken off; a folder gives files named for the run in it.
        to: name of the format, see ``writers.list_writers``.
        purpose: the default is ``simulator`` for the formats that simulators read, else ``archive``.
        compress: gzip the files; their names then end in ``.gz``, except ``.et``, which readers recognise by content.
        progress: told the share done.

    Raises:
        ChakraError: there is no such format, nothing to write, or a package that the format needs is missing.
        OSError: a file cannot be written.
    """
    writer = _writer(to)
    meant = Purpose(purpose) if purpose else Purpose.SIMULATOR if writer.for_simulator else Purpose.ARCHIVE
    if not any(len(trace) for trace in run.traces):
        raise ChakraError(f"{run.label}: there is no node to write")
    progress(0.0, "preparing")
    changes: list[Change] = []
    groups: dict[str, list[int]] = {}
    if meant is Purpose.SIMULATOR:
        traces = _filled(run)
        prepared = for_simulator(traces, run.ranks)
        ranks, numbers, groups, changes = prepared.ranks, prepared.numbers, prepared.groups, list(prepared.changes)
        ranks = tuple(replace(rank, assumptions=run.assumptions) for rank in ranks)
        if compress:
            changes.append(Change("compressed", len(ranks), "ASTRA-sim reads no compressed files; Chakra's tools do."))
    else:
        ordered = [_ordered(trace) for trace in run.traces]
        ranks = tuple(Rank(trace, Stated.of(trace), run.assumptions) for trace in ordered)
        numbers = run.ranks
    prefix = _prefix(Path(out), run)
    files = _write(writer, ranks, numbers, prefix, compress, progress)
    side = _groups_file(prefix, groups) if meant is Purpose.SIMULATOR and writer.for_simulator else None
    progress(1.0, "done")
    return Conversion(tuple(files), side, groups, meant, tuple(changes), tuple(numbers))


def _writer(name: str) -> Writer:
    try:
        return get_writer(name)
    except KeyError:
        known = ", ".join(writer.name for writer in list_writers())
        raise ChakraError(f"{name}: no such format; known are {known}") from None


def _filled(run: Run) -> list[Trace]:
    empty = [rank for rank, trace in zip(run.ranks, run.traces, strict=True) if not len(trace)]
    if empty:
        raise ChakraError(
            f"{run.label}: rank {empty[0]} has no node, and a simulator refuses a file without one; leave the rank out"
        )
    return list(run.traces)


def _ordered(trace: Trace) -> Trace:
    """The trace with dependencies first; as it is where they are so already."""
    order, _, _ = linear_order(trace.edges, np.arange(len(trace), dtype=np.int64))
    if (order == np.arange(len(trace))).all():
        return trace
    return take(trace, order, whole=True)[0]


def _prefix(out: Path, run: Run) -> Path:
    if out.is_dir():
        return out / "".join(ch if ch.isalnum() or ch in "-_" else "_" for ch in run.label)[:80].strip("_")
    name = out.name
    while name.endswith(_SUFFIXES) and name not in _SUFFIXES:
        name = name.removesuffix(next(suffix for suffix in _SUFFIXES if name.endswith(suffix)))
    out.parent.mkdir(parents=True, exist_ok=True)
    return out.with_name(name)


def _write(
    writer: Writer, ranks: Sequence[Rank], numbers: Sequence[int], prefix: Path, compress: bool, progress: Progress
) -> list[Path]:
    end = writer.suffix + (".gz" if compress and writer.suffix != ".et" else "")
    if not writer.per_rank:
        path = prefix.with_name(prefix.name + end)
        writer.write(ranks, path, compress)
        return [path]
    files = []
    for at, (rank, number) in enumerate(zip(ranks, numbers, strict=True)):
        progress(0.1 + 0.9 * at / len(ranks), f"writing rank {number}")
        path = prefix.with_name(f"{prefix.name}.{number}{end}")
        writer.write([rank], path, compress)
        files.append(path)
    return files


def _groups_file(prefix: Path, groups: Mapping[str, Sequence[int]]) -> Path:
    path = prefix.with_name(prefix.name + ".json")
    with replacing(path) as file:
        file.write(json.dumps(groups).encode() + b"\n")
    return path


def part_of(run: Run, rows: Sequence[I64 | None]) -> tuple[Run, tuple[Change, ...]]:
    """A part of a run: for each trace the rows to keep (None: all). Ranks without a row are left out.

    Dependencies on what is left out count as fulfilled; how many there were is among the changes.
    """
    traces, lost, left = [], 0, 0
    for trace, wanted in zip(run.traces, rows, strict=True):
        if wanted is None:
            traces.append(trace)
            continue
        left += len(trace) - len(wanted)
        if len(wanted):
            kept, cut = take(trace, np.sort(wanted))
            lost += cut
            traces.append(kept)
    changes = (
        Change("outside", left, "Nodes outside of the part that was asked for are left out."),
        Change("cut", lost, "Dependencies on nodes left out count as fulfilled."),
    )
    return replace(run, traces=tuple(traces)), tuple(change for change in changes if change.count)


def rows_in(trace: Trace, window: tuple[int, int]) -> I64:
    """Rows that run, at least in part, in a half-open window of absolute ns, with those that called them."""
    c = trace.columns
    start, end = c.start_ns, c.start_ns + c.dur_ns
    inside = (start != NO_TIME) & (start < window[1]) & ((end > window[0]) | (start >= window[0]))
    parent = c.parent.astype(np.int64)
    above = parent[inside]
    while len(above := np.unique(above[above >= 0])) and not inside[above].all():
        above = above[~inside[above]]
        inside[above] = True
        above = parent[above]
    return np.flatnonzero(inside)
