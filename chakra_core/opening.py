"""From paths to a ready Run: find the files, read them, put ranks together, reconstruct times, check health."""

from __future__ import annotations

import dataclasses
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from chakra_core.errors import ChakraError, CorruptTrace, UnknownFormat
from chakra_core.health import check_run, check_trace
from chakra_core.link.pairs import link_traces
from chakra_core.readers import guess_reader, list_readers
from chakra_core.readers._archive import is_archive, read_archive
from chakra_core.readers.astrasim_log import is_rotated_log
from chakra_core.readers.base import Progress, Reader, Source, no_progress
from chakra_core.schedule import replay
from chakra_core.schema import NO_TIME, SIMULATED_ON, Severity, TimeKind
from chakra_core.trace import HealthFinding, Run, Trace

__all__ = ["RunFiles", "assemble", "discover", "expand", "open_files", "open_run", "open_trace"]

I64 = NDArray[np.int64]
_RANK = re.compile(r"(?:^|[._-])(?:rank[_-]?)?(\d+)(?=[._]|$)", re.IGNORECASE)
_NOT_TRACES = (".md", ".txt.license", ".py", ".toml", ".png", ".xml", ".csv.license")
_MAX_FILES = 100_000
_LOOK = 64  # files between reports of progress
_ARCHIVE = "archive"

_HOST_FOLDER = re.compile(r"(?i)host|(?<![a-z])(?:et|eg)(?![a-z])")
_DEVICE_FOLDER = re.compile(r"(?i)device|kineto|profil|gpu")

DEFAULT_DEVICE = "H100 SXM"
"""Catalogue entry that traces without durations are simulated on when they are opened; the run says so."""


@dataclass(frozen=True, slots=True)
class RunFiles:
    """Files that are the ranks of one run (or one file that is a run by itself), and what to call it."""

    label: str
    paths: tuple[Path, ...]


def open_trace(path: str | Path, *, progress: Progress = no_progress, siblings: int = 1) -> tuple[Trace, ...]:
    """Read one file into its traces (one per rank it holds), without start times where it has none.

    ``siblings`` is how many files are read along with it, itself counted.

    Raises:
        UnknownFormat: no reader recognises it.
        CorruptTrace: nothing usable could be read.
    """
    source = Source(Path(path), progress=progress, siblings=siblings)
    if source.path.is_dir():
        raise UnknownFormat(f"{source.path}: is a folder; open it as a run")
    if is_archive(source):
        return tuple(read_archive(source))
    return tuple(_reader_for(source).read(source))


def _reader_for(source: Source) -> Reader:
    """As ``guess_reader``, asked once for a file that does not change: opening a folder looks at each file twice."""
    stat = source.path.stat()
    return _reader_of(source.path, (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino))


@lru_cache(maxsize=8192)
def _reader_of(path: Path, stamp: tuple[int, ...]) -> Reader:
    del stamp
    return guess_reader(Source(path))


def discover(path: str | Path, *, progress: Progress = no_progress) -> list[RunFiles]:
    """The runs at a path: a file is one run; a folder is grouped into runs, recursively.

    In a folder, files that differ only in a rank number (``name.<rank>.et``, ``…rank-3…``), and the per-process
    files of one PyTorch profiler session (``host_pid.time.pt.trace.json``), are one run each. So are the host traces
    and the profiles of the same ranks, beside each other or in folders named for what they hold (``host``, ``device``).

    Raises:
        UnknownFormat: a folder that holds no file a reader recognises, or too many files.
        FileNotFoundError: there is nothing at the path.
    """
    root = Path(path)
    if not root.is_dir():
        root.stat()
        return [RunFiles(root.name, (root,))]
    groups: dict[tuple[Path, str], list[Path]] = defaultdict(list)
    for count, found in enumerate(sorted(root.rglob("*"))):
        if count > _MAX_FILES:
            raise UnknownFormat(f"{root}: holds more than {_MAX_FILES:,} files; name the folder of one run")
        if count % _LOOK == 0:
            progress(0.0, f"looking at {found.name}")
        if _may_be_trace(found):
            kind = _kind(found)
            if kind:
                groups[found.parent, f"{kind}:{_stem(found)}"].append(found)
    if not groups:
        raise UnknownFormat(f"{root}: no file in it is a trace in a known format")
    return _paired(root, [_run_files(root, parent, files) for (parent, _), files in groups.items()])


def _paired(root: Path, found: list[RunFiles]) -> list[RunFiles]:
    """Host traces and profiles that are as many, one group of each in one place, made one run."""
    kinds = {id(run): _kind(run.paths[0]) for run in found}
    places: dict[tuple[Path, int], dict[str, list[RunFiles]]] = defaultdict(lambda: {"pytorch-et": [], "kineto": []})
    for run in found:
        kind = kinds[id(run)]
        if kind in ("pytorch-et", "kineto"):
            parent = run.paths[0].parent
            places[parent, len(run.paths)][kind].append(run)
            if (_HOST_FOLDER if kind == "pytorch-et" else _DEVICE_FOLDER).search(parent.name):
                places[parent.parent, len(run.paths)][kind].append(run)
    merged: dict[int, RunFiles] = {}
    for (place, _), sides in places.items():
        hosts, devices = sides["pytorch-et"], sides["kineto"]
        if len(hosts) == len(devices) == 1 and id(hosts[0]) not in merged and id(devices[0]) not in merged:
            label = root.name if place in (root, root.parent) else place.name
            both = RunFiles(label, (*hosts[0].paths, *devices[0].paths))
            merged[id(hosts[0])] = merged[id(devices[0])] = both
    return list(dict.fromkeys(merged.get(id(run), run) for run in found))


def _may_be_trace(path: Path) -> bool:
    """Whether a file of a folder is looked at; an older part of a rotated log is read with the log itself."""
    return (
        path.is_file()
        and not path.name.startswith(".")
        and not path.name.endswith(_NOT_TRACES)
        and not is_rotated_log(path)
    )


def _kind(path: Path) -> str:
    """Name of the reader that recognises a file; empty where none does."""
    try:
        source = Source(path)
        return _ARCHIVE if is_archive(source) else _reader_for(source).name
    except (ChakraError, OSError):
        return ""


def _stem(path: Path) -> str:
    """What files of one run share: the name with its rank (or process and time) taken out."""
    name = path.name
    if ".pt.trace.json" in name:
        return re.sub(r"[_.-]?\d+", "", name)
    return _RANK.sub("#", name, count=1) if _RANK.search(name) else name


def _run_files(root: Path, parent: Path, files: list[Path]) -> RunFiles:
    ordered = tuple(sorted(files, key=lambda file: (_rank_in_name(file.name), file.name)))
    if len(ordered) == 1:
        return RunFiles(ordered[0].name, ordered)
    label = parent.name if parent != root.parent else root.name
    return RunFiles(label, ordered)


def _rank_in_name(name: str) -> int:
    match = None if ".pt.trace.json" in name else _RANK.search(name)
    return int(match[1]) if match and len(match[1]) < 10 else -1


def open_run(paths: Sequence[str | Path], *, label: str = "", progress: Progress = no_progress) -> Run:
    """Open files that are the ranks of one run; a folder in their place stands for the files of its one run.

    A file that cannot be read becomes a finding while the others open.

    Raises:
        ChakraError: nothing could be opened.
    """
    files, named, aside = expand(paths, progress)
    return open_files(files, label or named, aside, progress=progress)


def open_files(
    files: Sequence[Path], label: str, findings: Iterable[HealthFinding] = (), *, progress: Progress = no_progress
) -> Run:
    """As :func:`open_run`, of files as :func:`expand` gives them, with what it found.

    Raises:
        ChakraError: nothing could be opened.
    """
    traces: list[Trace] = []
    errors: list[ChakraError] = []
    for at, path in enumerate(files):
        progress(at / len(files), f"reading {path.name}")
        try:
            traces.extend(open_trace(path, progress=_part(progress, at, len(files)), siblings=len(files)))
        except ChakraError as error:
            errors.append(error)
    if not traces:
        raise errors[0] if errors else CorruptTrace(f"{', '.join(map(str, files))}: holds no trace")
    progress(0.9, "placing ranks and times")
    traces, linked = link_traces(traces)
    return assemble(traces, label, [*findings, *linked, *([_unreadable(errors)] if errors else [])])


def expand(
    paths: Sequence[str | Path], progress: Progress = no_progress
) -> tuple[list[Path], str, list[HealthFinding]]:
    """The files to open as ranks, a label, and what of a folder was left aside.

    A folder that holds several runs of one format is taken for ranks with unusual names. Of several formats (a
    profile beside the execution trace of the same step, say) one is opened: the one with most files, then the one
    whose reader comes first; the others are reported.
    """
    files: list[Path] = []
    label = ""
    aside: list[HealthFinding] = []
    for path in paths:
        found = discover(path, progress=progress)
        chosen = _one_format(found) if len(found) > 1 else found
        left = [file.name for run in found if run not in chosen for file in run.paths]
        if left:
            text = f"{len(left)} files of other formats in {Path(path).name} are not part of this run ({left[0]})."
            aside.append(HealthFinding("other-files", Severity.INFO, len(left), text, "Open them by themselves."))
        files.extend(file for run in chosen for file in run.paths)
        label = label or (Path(path).name if len(found) > 1 else found[0].label)
    return files, label, aside


def _one_format(found: list[RunFiles]) -> list[RunFiles]:
    kinds = ["+".join(dict.fromkeys((_kind(run.paths[0]), _kind(run.paths[-1])))) for run in found]
    pairs = dict.fromkeys(kind for kind in kinds if "+" in kind)
    order = [*pairs, *(reader.name for reader in list_readers()), _ARCHIVE]
    counts = {
        kind: sum(len(run.paths) for run, other in zip(found, kinds, strict=True) if other == kind) for kind in kinds
    }
    best = max(counts, key=lambda kind: (counts[kind], -order.index(kind)))
    return [run for run, kind in zip(found, kinds, strict=True) if kind == best]


def _part(progress: Progress, at: int, count: int) -> Progress:
    return lambda share, message: progress(0.9 * (at + share) / count, message)


def _unreadable(errors: list[ChakraError]) -> HealthFinding:
    text = f"{len(errors)} files could not be read: {errors[0]}"
    return HealthFinding("file-unreadable", Severity.ERROR, len(errors), text, "The others are shown.")


def assemble(traces: Sequence[Trace], label: str, findings: Iterable[HealthFinding] = ()) -> Run:
    """Make a run of traces: distinct ranks in order, start times where missing, health checked."""
    health = list(findings)
    ranked = _with_ranks(traces, health)
    timed, assumptions = _with_times(ranked, health)
    checked = tuple(trace.with_(health=check_trace(trace)) for trace in timed)
    groups = {(group.name, group.ranks): group for trace in checked for group in trace.meta.groups}
    hardware = ", ".join(dict.fromkeys(trace.meta.hardware for trace in checked if trace.meta.hardware))
    said = (text for trace in checked for text in _stated_assumptions(trace))
    run = Run(
        checked, label, hardware, tuple(groups.values()), tuple(health), tuple(dict.fromkeys((*said, *assumptions)))
    )
    return dataclasses.replace(run, health=check_run(run))


def _stated_assumptions(trace: Trace) -> list[str]:
    """What the file itself says of how its times were made."""
    stated = trace.meta.details.get("assumptions")
    return [str(text) for text in stated] if isinstance(stated, list) else []


def _with_ranks(traces: Sequence[Trace], health: list[HealthFinding]) -> list[Trace]:
    """Traces by rank. A rank that no file states is taken from the file's name, else from the order; all distinct."""
    if len(traces) == 1:
        return list(traces)
    stated = [
        trace.meta.rank if trace.meta.rank >= 0 else _rank_in_name(Path(trace.meta.path).name) for trace in traces
    ]
    unknown = sum(rank < 0 for rank in stated)
    doubled = len([rank for rank in stated if rank >= 0]) - len({rank for rank in stated if rank >= 0})
    if unknown or doubled:
        what = f"{unknown} files do not say" if unknown else f"{doubled} files repeat"
        text = f"{what} their rank; ranks are numbered in the order of the file names."
        health.append(
            HealthFinding("rank-unknown", Severity.WARNING, unknown + doubled, text, "Name files NAME.<rank>.")
        )
        stated = list(range(len(traces)))
    done = [
        trace.with_(meta=dataclasses.replace(trace.meta, rank=rank)) for trace, rank in zip(traces, stated, strict=True)
    ]
    return sorted(done, key=lambda trace: trace.meta.rank)


def _with_times(traces: list[Trace], health: list[HealthFinding]) -> tuple[list[Trace], tuple[str, ...]]:
    """Reconstruct the schedule of traces without start times, on simulated durations where they have none either."""
    if not traces or any((trace.columns.start_ns != NO_TIME).any() for trace in traces):
        return traces, ()
    durations: list[I64] | None = None
    assumptions: tuple[str, ...] = ()
    kind = TimeKind.RECONSTRUCTED
    if not any(trace.columns.dur_ns.any() for trace in traces) and _has_sizes(traces):
        durations, assumptions = _simulated(traces)
        traces = [_on_default_device(trace) for trace in traces]
        kind = TimeKind.SIMULATED
    result = replay(traces, durations, time_kind=kind)
    if result.given_up:
        text = f"{result.given_up:,} collectives or receives waited for partners that never came; they start without."
        health.append(
            HealthFinding("unmatched-wait", Severity.WARNING, result.given_up, text, "Check that all ranks are here.")
        )
    return list(result.traces), assumptions


def _has_sizes(traces: list[Trace]) -> bool:
    return any(
        ((c.flops > 0) | (c.bytes_accessed > 0) | (c.comm_bytes > 0)).any() for c in (trace.columns for trace in traces)
    )


def _on_default_device(trace: Trace) -> Trace:
    details = MappingProxyType({**trace.meta.details, SIMULATED_ON: DEFAULT_DEVICE})
    return trace.with_(meta=dataclasses.replace(trace.meta, details=details))


def _simulated(traces: list[Trace]) -> tuple[list[I64], tuple[str, ...]]:
    """Durations on the catalogue's default device, and the sentences that say so."""
    from chakra_core.hardware import get_device
    from chakra_core.project.durations import simulate_durations

    device = get_device(DEFAULT_DEVICE)
    results = [simulate_durations(trace, device, world_size=len(traces)) for trace in traces]
    return [result.dur_ns for result in results], tuple(
        dict.fromkeys(text for one in results for text in one.assumptions)
    )
