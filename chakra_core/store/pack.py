"""Runs as a header and blocks, and back: every column, edge, name, finding and fact; attributes stay in their file."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from chakra_core.link.combine import LinkedAttributes
from chakra_core.memory_events import MEMORY_COLUMNS, MemoryEvents
from chakra_core.readers.base import Packed
from chakra_core.schema import COLUMNS, Domain, LaneKind, Severity, TimeKind
from chakra_core.trace import (
    AttributeSource,
    Columns,
    Edges,
    HealthFinding,
    Lane,
    Markers,
    ProcessGroup,
    Run,
    Trace,
    TraceMeta,
    no_attributes,
)

if TYPE_CHECKING:
    from chakra_core.lod import Layout

__all__ = ["Unstorable", "layouts_to_parts", "parts_to_layouts", "parts_to_run", "run_to_parts"]

Parts = tuple[dict[str, Any], dict[str, NDArray[Any]]]
Open = Callable[[Path], Sequence[Trace]]

_RESTORERS = frozenset(f"chakra_core.readers.{name}" for name in ("chakra_et", "kineto", "pytorch_et"))
_LAYOUT_ARRAYS = ("row_ptr", "crowded", "node", "start", "dur", "category", "peaks", "levels", "mass")


class Unstorable(Exception):
    """A run holds something that the store has no form for."""


def run_to_parts(run: Run, files: Sequence[Path]) -> Parts:
    """A run that was opened from ``files``, as header and arrays.

    Raises:
        Unstorable: a fact of it is no JSON, or a trace is of none of the files.
    """
    arrays: dict[str, NDArray[Any]] = {}
    places = {str(path): at for at, path in enumerate(files)}
    seen: dict[int, int] = {}
    traces = [_trace_parts(trace, f"{at}/", arrays, places, seen) for at, trace in enumerate(run.traces)]
    header = {
        "label": run.label, "hardware": run.hardware, "assumptions": list(run.assumptions), "traces": traces,
        "groups": [_plain(group) for group in run.groups], "health": [_plain(finding) for finding in run.health],
    }  # fmt: skip
    try:
        same = json.loads(json.dumps(header)) == header
    except (TypeError, ValueError, RecursionError) as error:
        raise Unstorable(str(error)) from error
    if not same:
        raise Unstorable("a fact changes when it is written as JSON")
    return header, arrays


def _trace_parts(
    trace: Trace, prefix: str, arrays: dict[str, NDArray[Any]], places: Mapping[str, int], seen: dict[int, int]
) -> dict[str, Any]:
    for column in COLUMNS:
        arrays[f"{prefix}{column.name}"] = getattr(trace.columns, column.name)
    for name in ("indptr", "sources", "kinds"):
        arrays[f"{prefix}edges.{name}"] = getattr(trace.edges, name)
    _put_texts(arrays, f"{prefix}names", trace.names)
    _put_texts(arrays, f"{prefix}shapes", trace.shapes)
    _put_texts(arrays, f"{prefix}inputs", trace.inputs)
    if trace.markers is not None:
        for field in dataclasses.fields(Markers):
            arrays[f"{prefix}markers.{field.name}"] = getattr(trace.markers, field.name)
    if trace.memory is not None:
        arrays |= {f"{prefix}memory.{name}": array for name, array in trace.memory.arrays().items()}
    place, inside = _place(trace.meta.path, places)
    attributes = _put_attributes(arrays, prefix, trace.attributes_of, places)
    if inside and attributes == {"module": ""}:
        raise Unstorable(f"{trace.meta.path} can only be read together with its archive")
    order = seen[place] = seen.get(place, -1) + 1
    meta = {key: value for key, value in _plain(trace.meta).items() if key not in ("path", "groups")}
    return {
        "file": place,
        "inside": inside,
        "order": order,
        "meta": {**meta, "details": dict(trace.meta.details)},
        "groups": [_plain(group) for group in trace.meta.groups],
        "lanes": [_plain(lane) for lane in trace.lanes],
        "health": [_plain(finding) for finding in trace.health],
        "markers": trace.markers is not None,
        "memory": None if trace.memory is None else list(trace.memory.places),
        "attributes": attributes,
    }


def _place(path: str, places: Mapping[str, int]) -> tuple[int, str]:
    """Which file a trace is of, and what follows in its path where that file is an archive.

    Raises:
        Unstorable: none of them.
    """
    if path in places:
        return places[path], ""
    for known, at in places.items():
        if path.startswith(f"{known}{os.sep}"):
            return at, path[len(known) :]
    raise Unstorable(f"{path} is none of the files")


def _plain(value: Any) -> dict[str, Any]:
    """Fields of a frozen dataclass; enumerations as their values, tuples as lists."""
    return {
        field.name: list(entry) if isinstance(entry := getattr(value, field.name), tuple) else entry
        for field in dataclasses.fields(value)
    }


def _put_attributes(
    arrays: dict[str, NDArray[Any]], prefix: str, source: AttributeSource, places: Mapping[str, int]
) -> dict[str, Any] | None:
    """How attributes are found again: None where there are none, without a module where the file is read anew."""
    if source is no_attributes:
        return None
    if isinstance(source, LinkedAttributes):
        parts = []
        for at, (path, part, rows) in enumerate(zip(source.paths, source.sources, source.rows, strict=True)):
            if path not in places:
                raise Unstorable(f"{path} is none of the files")
            arrays[f"{prefix}{at}/attributes.rows"] = rows
            parts.append(
                {
                    "file": places[path],
                    "order": 0,
                    "attributes": _put_attributes(arrays, f"{prefix}{at}/", part, places),
                }
            )
        return {"linked": parts}
    pack = getattr(source, "pack", None)
    if pack is None:
        return {"module": ""}
    packed: Packed = pack()
    for name, array in packed.arrays.items():
        arrays[f"{prefix}attributes.{name}"] = array
    return {"module": packed.module, "params": dict(packed.params), "arrays": list(packed.arrays)}


def _put_texts(arrays: dict[str, NDArray[Any]], name: str, texts: Sequence[str]) -> None:
    """Texts end to end as UTF-8 (lone surrogates let through), and their lengths in characters."""
    arrays[f"{name}.text"] = np.frombuffer("".join(texts).encode("utf-8", "surrogatepass"), np.uint8)
    arrays[f"{name}.length"] = np.fromiter(map(len, texts), np.int64, len(texts))


def _texts(arrays: Mapping[str, NDArray[Any]], name: str) -> tuple[str, ...]:
    text = bytes(arrays[f"{name}.text"]).decode("utf-8", "surrogatepass")
    ends = np.cumsum(arrays[f"{name}.length"]).tolist()
    return tuple(text[begin:end] for begin, end in zip([0, *ends], ends, strict=False))


def parts_to_run(
    header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], files: Sequence[Path], read: Open
) -> Run:
    """A run of these files from what :func:`run_to_parts` gave; ``read`` reads a file anew where attributes need it."""
    traces = tuple(_trace(part, f"{at}/", arrays, files, read) for at, part in enumerate(header["traces"]))
    return Run(
        traces, header["label"], header["hardware"], tuple(map(_group, header["groups"])),
        tuple(map(_finding, header["health"])), tuple(header["assumptions"]),
    )  # fmt: skip


def _trace(
    part: Mapping[str, Any], prefix: str, arrays: Mapping[str, NDArray[Any]], files: Sequence[Path], read: Open
) -> Trace:
    path = files[part["file"]]
    meta = {
        **part["meta"],
        "path": f"{path}{part['inside']}",
        "time_kind": TimeKind(part["meta"]["time_kind"]),
        "groups": tuple(map(_group, part["groups"])),
        "details": MappingProxyType(part["meta"]["details"]),
    }
    columns = Columns(**{column.name: arrays[f"{prefix}{column.name}"] for column in COLUMNS})
    edges = Edges(*(arrays[f"{prefix}edges.{name}"] for name in ("indptr", "sources", "kinds")))
    markers = None
    if part["markers"]:
        markers = Markers(*(arrays[f"{prefix}markers.{field.name}"] for field in dataclasses.fields(Markers)))
    memory = None
    if part["memory"] is not None:
        kept = {name: arrays[f"{prefix}memory.{name}"] for name in MEMORY_COLUMNS}
        memory = MemoryEvents.of(kept, tuple(part["memory"]))
    lanes = tuple(
        Lane(**{**lane, "domain": Domain(lane["domain"]), "kind": LaneKind(lane["kind"])}) for lane in part["lanes"]
    )
    return Trace(
        columns, _texts(arrays, f"{prefix}names"), lanes, edges, TraceMeta(**meta),
        shapes=_texts(arrays, f"{prefix}shapes"), inputs=_texts(arrays, f"{prefix}inputs"),
        health=tuple(map(_finding, part["health"])), markers=markers, memory=memory,
        attributes_of=_attributes(part, prefix, arrays, files, read),
    )  # fmt: skip


def _group(part: Mapping[str, Any]) -> ProcessGroup:
    return ProcessGroup(**{**part, "ranks": tuple(part["ranks"])})


def _finding(part: Mapping[str, Any]) -> HealthFinding:
    return HealthFinding(**{**part, "severity": Severity(part["severity"]), "examples": tuple(part["examples"])})


def _attributes(
    part: Mapping[str, Any], prefix: str, arrays: Mapping[str, NDArray[Any]], files: Sequence[Path], read: Open
) -> AttributeSource:
    kept = part["attributes"]
    if kept is None:
        return no_attributes
    if "linked" in kept:
        inner = [(f"{prefix}{at}/", entry) for at, entry in enumerate(kept["linked"])]
        return LinkedAttributes(
            [str(files[entry["file"]]) for _, entry in inner],
            [_attributes(entry, place, arrays, files, read) for place, entry in inner],
            [arrays[f"{place}attributes.rows"] for place, _ in inner],
        )
    path = files[part["file"]]
    if kept["module"] not in _RESTORERS:
        return _ReadAnew(path, part["order"], part.get("meta", {}).get("rank", -1), read)
    own = {name: arrays[f"{prefix}attributes.{name}"] for name in kept["arrays"]}
    source: AttributeSource = importlib.import_module(kept["module"]).restore_attributes(path, kept["params"], own)
    return source


class _ReadAnew:
    """Attributes of a format whose source cannot be kept: the file is read once more when the first is asked for."""

    def __init__(self, path: Path, order: int, rank: int, read: Open) -> None:
        self._path, self._order, self._rank, self._read = path, order, rank, read
        self._source: AttributeSource | None = None
        self._lock = Lock()

    def __call__(self, row: int) -> dict[str, Any]:
        with self._lock:
            if self._source is None:
                traces = self._read(self._path)
                same = [trace for trace in traces if trace.meta.rank == self._rank >= 0]  # a run is sorted by rank
                self._source = (same[0] if len(same) == 1 else traces[self._order]).attributes_of
        return self._source(row)


def layouts_to_parts(layouts: Sequence[Layout]) -> Parts:
    """Timeline layouts of a run's traces, as header and arrays."""
    arrays = {f"{at}/{name}": getattr(layout, name) for at, layout in enumerate(layouts) for name in _LAYOUT_ARRAYS}
    return {"layouts": [[_plain(lane) for lane in layout.lanes] for layout in layouts]}, arrays


def parts_to_layouts(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> tuple[Layout, ...]:
    """The layouts again."""
    from chakra_core.lod import LaneRows, Layout

    return tuple(
        Layout(tuple(LaneRows(**lane) for lane in lanes), *(arrays[f"{at}/{name}"] for name in _LAYOUT_ARRAYS))
        for at, lanes in enumerate(header["layouts"])
    )
