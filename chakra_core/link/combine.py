"""A host execution trace and the device profile of the same steps as one Trace.

The result has every node of the profile that belongs to the host trace's steps, and every node of the host trace.
Operators that are on both sides are one node: times, thread and nesting from the profile, id, inputs and outputs,
communication arguments and data dependencies from the host trace. Device work hangs under the call that launched it,
that under its operator; launch, stream, synchronisation and inter-thread dependencies are the profile's, data and
control dependencies the host trace's. A dependency that goes back in measured time is left out, and counted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakra_core.link.match import Match, match
from chakra_core.schema import COLUMNS, NO_TIME, CommOp, Domain, NodeKind, Severity
from chakra_core.trace import AttributeSource, Columns, Edges, HealthFinding, ProcessGroup, Trace

__all__ = ["LinkedAttributes", "link"]

I64 = NDArray[np.int64]
Bool = NDArray[np.bool_]

_WHOLE = 0.9
_COMM = ("comm_op", "comm_bytes", "comm_group", "comm_peer", "comm_tag", "comm_seq")
_OWN_CODES = frozenset({"unresolved-dependency", "kernel-without-launch", "orphan-device"})


class LinkedAttributes:
    """What both files say of a node; where they disagree, the host trace first."""

    def __init__(self, paths: Sequence[str], sources: Sequence[AttributeSource], rows: Sequence[I64]) -> None:
        self.paths, self.sources, self.rows = tuple(paths), tuple(sources), tuple(rows)

    def __call__(self, row: int) -> dict[str, Any]:
        """Both files' attributes of the node in a row."""
        found: dict[str, Any] = {}
        for source, rows in zip(self.sources, self.rows, strict=True):
            if rows[row] >= 0:
                for key, value in source(int(rows[row])).items():
                    found.setdefault(key, value)
        return found


def link(host: Trace, device: Trace) -> Trace:
    """Put the two traces of one rank together.

    Raises:
        LinkRefused: they are not of one run.
    """
    return _Linked(host, device, match(host, device)).trace()


class _Linked:
    """Rows of the result: the kept rows of the profile in their order, then what only the host trace has."""

    def __init__(self, host: Trace, device: Trace, found: Match) -> None:
        self.host, self.device, self.found = host, device, found
        kept = _steps(device, found)
        self.left_out = int((~kept).sum())
        matched = np.zeros(len(host), np.bool_)
        matched[found.host] = True
        self.kept, self.alone = np.flatnonzero(kept), np.flatnonzero(~matched)
        self.n = len(self.kept) + len(self.alone)
        self.from_device = np.full(len(device), -1, np.int64)
        self.from_device[self.kept] = np.arange(len(self.kept))
        self.from_host = np.full(len(host), -1, np.int64)
        self.from_host[self.alone] = len(self.kept) + np.arange(len(self.alone))
        self.from_host[found.host] = self.from_device[found.device]
        self.names, self.name_of = _merged_texts(device.names, host.names)
        self.shapes, self.shape_of = _merged_texts(device.shapes, host.shapes)
        self.inputs, self.input_of = _merged_texts(device.inputs, host.inputs)

    def trace(self) -> Trace:
        """The result."""
        groups, group_of = _merged_groups(self.device.meta.groups, self.host.meta.groups)
        columns = self._columns(group_of)
        edges, backwards = self._edges(columns.start_ns)
        rows = (_inverse(self.from_host, self.n), _inverse(self.from_device, self.n))
        meta = self.device.meta
        return Trace(
            columns=columns, names=self.names, lanes=self.device.lanes, edges=edges, shapes=self.shapes, inputs=self.inputs,
            meta=dataclasses.replace(
                meta, format="pytorch-et + kineto", schema=self.host.meta.schema, groups=groups,
                rank=meta.rank if meta.rank >= 0 else self.host.meta.rank,
                world_size=max(meta.world_size, self.host.meta.world_size),
                events=meta.events + self.host.meta.events, details={**meta.details, "link": self.report()},
            ),
            health=self._health(columns, backwards),
            markers=self.device.markers, memory=self.device.memory,
            attributes_of=LinkedAttributes(
                (self.host.meta.path, meta.path), (self.host.attributes_of, self.device.attributes_of), rows
            ),
        )  # fmt: skip

    def report(self) -> dict[str, Any]:
        """How the two were linked, as JSON."""
        found = self.found
        return {
            "method": found.method, "matched": len(found.host), "operators": found.operators, "events": found.events,
            "share": round(found.share, 6), "offset": found.offset, "left_out": self.left_out,
            "host": self.host.meta.path, "device": self.device.meta.path,
        }  # fmt: skip

    def _columns(self, group_of: I64) -> Columns:
        arrays: dict[str, NDArray[Any]] = {}
        for column in COLUMNS:
            ours = getattr(self.device.columns, column.name)[self.kept]
            arrays[column.name] = np.concatenate([ours, getattr(self.host.columns, column.name)[self.alone]])
        count = len(self.kept)
        arrays["name"][count:] = self.name_of[arrays["name"][count:]]
        arrays["shape"][count:] = self.shape_of[arrays["shape"][count:]]
        arrays["inputs"][count:] = self.input_of[arrays["inputs"][count:]]
        arrays["lane"][count:] = -1
        self._set_ids(arrays["id"])
        arrays["parent"] = self._parents()
        group = arrays["comm_group"][count:]
        group[group >= 0] = group_of[group[group >= 0]]
        self._take_from_host(arrays, group_of)
        return Columns.build(self.n, **arrays)

    def _set_ids(self, ids: NDArray[np.uint64]) -> None:
        """The host trace's ids where a node has one; further ones above them for the others."""
        known = _inverse(self.from_host, self.n)
        highest = int(self.host.columns.id.max()) if len(self.host) else 0
        fresh = np.flatnonzero(known < 0)
        ids[known >= 0] = self.host.columns.id[known[known >= 0]]
        ids[fresh] = np.uint64(highest + 1) + np.arange(len(fresh), dtype=np.uint64)

    def _parents(self) -> NDArray[np.int32]:
        parent = np.full(self.n, -1, np.int64)
        above = self.device.columns.parent[self.kept].astype(np.int64)
        parent[: len(self.kept)] = np.where(above >= 0, self.from_device[above], -1)
        host_parent = self.host.columns.parent.astype(np.int64)
        called = np.where(host_parent >= 0, self.from_host[host_parent], -1)
        lacking = np.flatnonzero(parent[self.from_host] < 0)
        row = self.from_host[lacking]
        wanted = called[lacking]
        good = (wanted >= 0) & (wanted != row)
        parent[row[good]] = wanted[good]
        return _without_loops(parent).astype(np.int32)

    def _take_from_host(self, arrays: Mapping[str, NDArray[Any]], group_of: I64) -> None:
        """Shapes and communication arguments that only the host trace knows."""
        here, there = self.from_host[self.found.host], self.found.host
        c = self.host.columns
        lacks = arrays["shape"][here] < 0
        arrays["shape"][here[lacks]] = self.shape_of[c.shape[there[lacks]]]
        lacks = arrays["inputs"][here] < 0
        arrays["inputs"][here[lacks]] = self.input_of[c.inputs[there[lacks]]]
        calls = (arrays["comm_op"][here] == CommOp.NONE) & (c.comm_op[there] != CommOp.NONE)
        group = np.where(c.comm_group >= 0, group_of[np.maximum(c.comm_group, 0)] if len(group_of) else -1, -1)
        source = {name: getattr(c, name) for name in _COMM} | {"comm_group": group}
        self._to_kernels(arrays, here, there, source)
        rows, own = here[calls], there[calls]
        if not self._has_device_collectives(arrays):
            for name in _COMM:
                arrays[name][rows] = source[name][own]
            arrays["kind"][rows] = c.kind[own]

    def _has_device_collectives(self, arrays: Mapping[str, NDArray[Any]]) -> bool:
        return bool(((arrays["domain"] == Domain.DEVICE) & (arrays["comm_op"] != CommOp.NONE)).any())

    def _to_kernels(self, arrays: Mapping[str, NDArray[Any]], here: I64, there: I64, source: Mapping[str, Any]) -> None:
        """What the host trace records of a collective goes to the kernel that it launched, where that lacks it."""
        records = {
            int(row): int(own) for row, own in zip(here, there, strict=True) if source["comm_op"][own] != CommOp.NONE
        }
        if not records:
            return
        device = (arrays["domain"] == Domain.DEVICE) & (arrays["comm_op"] != CommOp.NONE)
        for kernel in np.flatnonzero(device).tolist():
            above = int(arrays["parent"][kernel])
            for _ in range(256):
                if above < 0 or above in records:
                    break
                above = int(arrays["parent"][above])
            own = records.get(above, -1)
            if own < 0:
                continue
            if arrays["comm_op"][kernel] == CommOp.UNKNOWN:
                arrays["comm_op"][kernel] = source["comm_op"][own]
            for name in _COMM[1:]:
                if arrays[name][kernel] < 0:
                    arrays[name][kernel] = source[name][own]

    def _edges(self, start: I64) -> tuple[Edges, int]:
        parts = []
        backwards = 0
        for edges, place in ((self.device.edges, self.from_device), (self.host.edges, self.from_host)):
            sources, targets = place[edges.sources], place[edges.targets()]
            kept = (sources >= 0) & (targets >= 0) & (sources != targets)
            if edges is self.host.edges:
                timed = (start[sources] != NO_TIME) & (start[targets] != NO_TIME)
                late = kept & timed & (start[sources] > start[targets])
                backwards = int(late.sum())
                kept &= ~late
            parts.append((sources[kept], targets[kept], edges.kinds[kept]))
        sources, targets, kinds = (np.concatenate(column) for column in zip(*parts, strict=True))
        _, first = np.unique(sources * self.n + targets, return_index=True)
        first.sort()
        return Edges.from_pairs(self.n, sources[first], targets[first], kinds[first]), backwards

    def _health(self, columns: Columns, backwards: int) -> tuple[HealthFinding, ...]:
        found = self.found
        kept = [self._moved(finding, self.from_device) for finding in self.device.health]
        kept += [
            self._moved(finding, self.from_host) for finding in self.host.health if finding.code != "no-start-times"
        ]
        text = (
            f"{len(found.host):,} of {found.operators:,} host operators were found in the profile by {found.method}"
            f" ({found.share:.1%} of the smaller side)."
        )
        kept.append(
            HealthFinding("linked", Severity.INFO, len(found.host), text, "Host and device trace are shown as one.")
        )
        if self.left_out:
            text = f"{self.left_out:,} events of the profile lie outside the host trace's steps and are left out."
            kept.append(
                HealthFinding(
                    "link-outside", Severity.INFO, self.left_out, text, "Open the profile by itself to see them."
                )
            )
        if backwards:
            text = f"{backwards:,} dependencies of the host trace go back in measured time; they are left out."
            kept.append(HealthFinding("link-backwards", Severity.INFO, backwards, text, "Nothing needs to be done."))
        work = (columns.domain == Domain.DEVICE) & (columns.kind != NodeKind.METADATA)
        orphans = np.flatnonzero(work & (columns.parent < 0))
        if len(orphans):
            text = "Device work that no call in the profile launched; it hangs under no operator."
            kept.append(
                HealthFinding.of(
                    "orphan-device", Severity.WARNING, orphans.tolist(), text, "Profile one step more before."
                )
            )
        return tuple({finding.code: finding for finding in reversed(kept)}.values())[::-1]

    def _moved(self, finding: HealthFinding, place: I64) -> HealthFinding:
        rows = [int(place[row]) for row in finding.examples if row < len(place) and place[row] >= 0]
        return dataclasses.replace(finding, examples=tuple(rows))


def _steps(device: Trace, found: Match) -> Bool:
    """Rows of the profile that belong to the host trace's steps: all, where it covers most; else by time and launch."""
    if not len(found.device) or len(found.device) >= _WHOLE * found.events:
        return np.ones(len(device), np.bool_)
    c = device.columns
    start, end = c.start_ns, c.start_ns + c.dur_ns
    timed = start != NO_TIME
    first, last = int(start[found.device].min()), int(end[found.device].max())
    host = (c.domain == Domain.HOST) & timed & (start < last) & (end > first)
    kept = host.copy()
    kept[found.device] = True
    work = (c.domain == Domain.DEVICE) & timed
    parent = c.parent
    launched = work & (parent >= 0)
    kept[launched] = kept[parent[launched]]
    loose = work & (parent < 0) & (start >= first) & (start < last)
    kept |= loose
    return kept


def _merged_texts(ours: tuple[str, ...], theirs: tuple[str, ...]) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """All texts, each once, and the place of each of ``theirs``; the place of -1 is -1."""
    place = {text: at for at, text in enumerate(ours)}
    merged = [*ours, *(text for text in dict.fromkeys(theirs) if text not in place)]
    place |= {text: at for at, text in enumerate(merged) if text not in place}
    return tuple(merged), np.array([*(place[text] for text in theirs), -1], np.int32)


def _inverse(place: I64, n: int) -> I64:
    """Row of the source for each row of the result, -1 where it has none."""
    rows = np.full(n, -1, np.int64)
    known = np.flatnonzero(place >= 0)
    rows[place[known]] = known
    return rows


def _without_loops(parent: I64) -> I64:
    """Parents of which none leads back to its child: both sides nest, but not always alike."""
    depth = np.zeros(len(parent), np.int64)
    up = parent.copy()
    for _ in range(64):  # doubling: after k rounds every chain of up to 2^k links has ended
        going = up >= 0
        if not going.any():
            return parent
        depth[going] += 1
        up[going] = up[up[going]]
    looped = up >= 0
    parent[looped] = -1
    return parent


def _merged_groups(
    ours: tuple[ProcessGroup, ...], theirs: tuple[ProcessGroup, ...]
) -> tuple[tuple[ProcessGroup, ...], I64]:
    """Groups of both sides by name, the ranks from whichever lists them; and the place of each of ``theirs``."""
    merged = {group.name: group for group in ours}
    for group in theirs:
        known = merged.get(group.name)
        if known is None:
            merged[group.name] = group
        elif not known.ranks and group.ranks:
            merged[group.name] = dataclasses.replace(known, ranks=group.ranks, size=max(known.size, group.size))
    place = {name: at for at, name in enumerate(merged)}
    return tuple(merged.values()), np.array([place[group.name] for group in theirs], np.int64)
