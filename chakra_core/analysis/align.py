"""Which work of one run corresponds to which work of another: by operator and shapes, not by kernel name.

Every kernel is known by a chain of keys, innermost first: its operator with input shapes, that operator's name, the
enclosing operators alike, and last its own name. Kernels of several runs meet under the innermost key that work of
all runs shares; what was met is set aside and the rest climbs further, until nothing is shared any more. So vendor
kernels of one operator meet under it, an operator that dispatches to other sub-operators elsewhere meets under the
one that encloses both, and what has no counterpart is left over, never dropped. What the call trees (``trees``) tell
beyond that comes as *hints*: a key that goes before the operator's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakra_core.analysis.alike import How, Keys, equivalent, normalise_kernel, normalise_operator, operator_keys
from chakra_core.analysis.operators import operator_mask
from chakra_core.analysis.scope import WHOLE, Clipped, Scope, clip_rows, traces_in
from chakra_core.schema import Category
from chakra_core.trace import Run, Trace

__all__ = ["Alignment", "Hints", "How", "Keys", "Work", "align", "collect", "normalise_kernel", "normalise_operator"]

I64 = NDArray[np.int64]
Mask = NDArray[np.bool_]
Hints = Mapping[int, I64]
"""By rank, int64 per row: the key that goes before the node's own; -1 where there is none."""

_HINTED = (How.PINNED, How.PLACE, How.REGION)
_ROUNDS = 64


@dataclass(frozen=True, slots=True)
class Work:
    """The pieces of work of one run, and the chain of keys of each.

    Attributes:
        dur_ns: int64 per piece.
        category: int8 Category per piece.
        piece: int64 per link of a chain: which piece it belongs to; ascending.
        key: int64 per link, the key's number; innermost first within a piece. Every piece has at least one.
        row: int64 per link, row of the node that the key is of.
        trace: int64 per link, position of its trace among the run's traces in scope.
        kernel: int64 per piece, key of its own name, whatever it is grouped by.
        on_device: whether the pieces are device work; else they are host operators with their self time.
    """

    dur_ns: I64
    category: NDArray[np.int8]
    piece: I64
    key: I64
    row: I64
    trace: I64
    kernel: I64
    on_device: bool

    def __len__(self) -> int:
        return len(self.dur_ns)


@dataclass(frozen=True, slots=True)
class Alignment:
    """Which group each piece of work belongs to.

    Attributes:
        keys: int64 per group: the key under which it meets.
        how: int8 How per group; UNMATCHED for what is left over.
        groups: per run, int64 group of each piece.
        links: per run, int64 link (into ``Work.key``) by which each piece joined its group.
    """

    keys: I64
    how: NDArray[np.int8]
    groups: tuple[I64, ...]
    links: tuple[I64, ...]


def collect(run: Run, keys: Keys, scope: Scope = WHOLE, hints: Hints | None = None, by: str = "operator") -> Work:
    """The device work of a run with its chains; for a run without any, its host operators and their self time.

    Args:
        run: the run.
        keys: numbers of keys, shared with the runs it is compared with.
        scope: the part of it to look at.
        hints: keys that go before those of operators.
        by: one of ``groupings.GROUPINGS``: what work is known by.
    """
    from chakra_core.analysis.groupings import regroup

    traces = traces_in(run, scope)
    pieces = [clip_rows(trace, trace.device_rows, scope) for _, trace in traces]
    on_device = any(len(piece) for piece in pieces)
    parts = []
    for at, ((rank, trace), piece) in enumerate(zip(traces, pieces, strict=True)):
        hint = (hints or {}).get(rank, np.full(len(trace), -1, np.int64))
        part = (_device_part if on_device else _host_part)(trace, piece, at, keys, hint, scope)
        parts.append(part if by == "operator" else regroup(trace, part, by, keys))
    offset = np.cumsum([0, *(len(part) for part in parts)])
    return Work(
        dur_ns=_join([part.dur_ns for part in parts]),
        category=_join([part.category for part in parts]).astype(np.int8),
        piece=_join([part.piece + shift for part, shift in zip(parts, offset, strict=False)]),
        key=_join([part.key for part in parts]),
        row=_join([part.row for part in parts]),
        trace=_join([part.trace for part in parts]),
        kernel=_join([part.kernel for part in parts]),
        on_device=on_device,
    )


def _join(arrays: Sequence[NDArray[np.int64] | NDArray[np.int8]]) -> I64:
    return np.concatenate([np.zeros(0, np.int64), *arrays])


def _device_part(trace: Trace, work: Clipped, at: int, keys: Keys, hint: I64, scope: Scope) -> Work:
    del scope
    from chakra_core.analysis._climb import chains

    c = trace.columns
    piece, row = chains(work.rows, c.parent, operator_mask(trace))
    inferred = _inferred(trace, work.rows, piece, row)
    own = _kernel_keys(trace, work.rows, keys, inferred)
    own[piece, 2] = own[piece, 0]  # an operator is inferred only for what has none
    links = np.r_[_hinted(trace, row, keys, hint), own]
    everything = np.arange(len(work), dtype=np.int64)
    order = np.argsort(np.r_[piece, everything], kind="stable")  # the piece's own name comes after its operators
    rows, pieces = np.r_[row, work.rows][order], np.r_[piece, everything][order]
    return _work(work.dur_ns, c.category[work.rows], pieces, links[order], rows, at, on_device=True)


def _host_part(trace: Trace, work: Clipped, at: int, keys: Keys, hint: I64, scope: Scope) -> Work:
    from chakra_core.analysis._climb import chains
    from chakra_core.analysis.operators import children_ns

    c, mask = trace.columns, operator_mask(trace)
    work = clip_rows(trace, np.flatnonzero(mask), scope)
    own = np.maximum(work.dur_ns - children_ns(trace, scope)[work.rows], 0)
    piece, row = chains(work.rows, c.parent, mask)
    everything = np.arange(len(work), dtype=np.int64)
    order = np.argsort(np.r_[everything, piece], kind="stable")  # the operator itself comes before those around it
    rows, pieces = np.r_[work.rows, row][order], np.r_[everything, piece][order]
    return _work(own, c.category[work.rows], pieces, _hinted(trace, rows, keys, hint), rows, at, on_device=False)


def _hinted(trace: Trace, rows: I64, keys: Keys, hint: I64) -> I64:
    """Numbers (rows, 4): the hint, or name and shapes again; name and shapes; name; family."""
    own = operator_keys(trace, rows, keys)
    first = np.where(hint[rows] >= 0, hint[rows], own[:, 0])
    return np.concatenate([first[:, None], own], axis=1)


def _work(
    dur_ns: I64, category: NDArray[np.int8], piece: I64, links: I64, row: I64, at: int, *, on_device: bool
) -> Work:
    """Each place in a chain gives several keys (columns of ``links``), the surest first."""
    width = links.shape[1]
    last = np.searchsorted(piece, np.arange(len(dur_ns)), side="right") - 1
    return Work(
        dur_ns=dur_ns,
        category=category,
        piece=np.repeat(piece, width),
        key=links.ravel(),
        row=np.repeat(row, width),
        trace=np.full(links.size, at, np.int64),
        kernel=links[last, -1],
        on_device=on_device,
    )


def _inferred(trace: Trace, kernels: I64, piece: I64, operator: I64) -> dict[int, str]:
    """Operator (or its family) of kernel names, by code, all of whose instances with an operator have the same one.

    Kernels launched before the recording began have no operator, but their like, later, do.
    """
    names = trace.columns.name
    first = np.r_[True, piece[1:] != piece[:-1]][: len(piece)]
    pairs = np.unique(np.stack([names[kernels[piece[first]]], names[operator[first]]], axis=1), axis=0)
    found: dict[int, set[str]] = {}
    for kernel, code in pairs.tolist():
        found.setdefault(kernel, set()).add(equivalent(normalise_operator(trace.names[code]), "")[0])
    return {kernel: families.pop() for kernel, families in found.items() if len(families) == 1}


def _kernel_keys(trace: Trace, rows: I64, keys: Keys, inferred: Mapping[int, str]) -> I64:
    """Numbers (rows, 4) of name, twice, inferred operator (or the name again), normalised name and category."""
    c = trace.columns
    pair = c.name[rows].astype(np.int64) * len(Category) + c.category[rows]
    distinct, inverse = np.unique(pair, return_inverse=True)
    numbers = np.empty((len(distinct), 4), np.int64)
    for at, code in enumerate(distinct.tolist()):
        name, category = trace.names[code // len(Category)], Category(code % len(Category)).label
        numbers[at] = keys.number(How.KERNEL, name, scope=f"={category}")
        if operator := inferred.get(code // len(Category)):
            numbers[at, 2] = keys.number(How.INFERRED, operator)
        numbers[at, 3] = keys.number(How.KERNEL, normalise_kernel(name), scope=category)
    return numbers[inverse]


def align(works: Sequence[Work], keys: Keys) -> Alignment:
    """Group the work of all runs: see the module's text for the rule. O(links x rounds), usually a few rounds."""
    groups = [np.full(len(work), -1, np.int64) for work in works]
    joined = [np.full(len(work), -1, np.int64) for work in works]
    open_links = [np.arange(len(work.key)) for work in works]
    found: list[int] = []
    size = len(keys.texts)
    for _ in range(_ROUNDS):
        chosen = _choose(works, open_links, size)
        meeting = _shared([work.key[links] for work, links in zip(works, chosen, strict=True)], size)
        if not meeting.any():
            heaviest = _heaviest(works, chosen, size)
            if heaviest is None:
                break
            meeting[heaviest] = True
            chosen = [
                _first(work, links[work.key[links] == heaviest]) for work, links in zip(works, open_links, strict=True)
            ]
        number = np.full(size, -1, np.int64)
        number[meeting] = np.arange(len(found), len(found) + int(meeting.sum()))
        found.extend(np.flatnonzero(meeting).tolist())
        for at, (work, links) in enumerate(zip(works, chosen, strict=True)):
            kept = links[meeting[work.key[links]]]
            groups[at][work.piece[kept]] = number[work.key[kept]]
            joined[at][work.piece[kept]] = kept
            open_links[at] = open_links[at][groups[at][work.piece[open_links[at]]] < 0]
    return _with_leftovers(works, keys, found, groups, joined)


def _first(work: Work, links: I64) -> I64:
    """The first (innermost) of the links of each piece."""
    piece = work.piece[links]
    return links[np.r_[True, piece[1:] != piece[:-1]][: len(piece)]]


def _shared(key_sets: Sequence[I64], size: int) -> Mask:
    """Keys that occur in every run."""
    shared = np.ones(size, np.bool_)
    for used in key_sets:
        present = np.zeros(size, np.bool_)
        present[used] = True
        shared &= present
    return shared


def _choose(works: Sequence[Work], open_links: Sequence[I64], size: int) -> list[I64]:
    """For each open piece, the innermost link whose key open work of every run has."""
    shared = _shared([work.key[links] for work, links in zip(works, open_links, strict=True)], size)
    return [_first(work, links[shared[work.key[links]]]) for work, links in zip(works, open_links, strict=True)]


def _heaviest(works: Sequence[Work], chosen: Sequence[I64], size: int) -> int | None:
    """The chosen key with the most time, where no two runs chose the same one; None where none was chosen."""
    weight, used = np.zeros(size, np.int64), np.zeros(size, np.bool_)
    for work, links in zip(works, chosen, strict=True):
        np.add.at(weight, work.key[links], work.dur_ns[work.piece[links]])
        used[work.key[links]] = True
    return int(np.flatnonzero(used)[np.argmax(weight[used])]) if used.any() else None


def _with_leftovers(
    works: Sequence[Work], keys: Keys, found: list[int], groups: list[I64], joined: list[I64]
) -> Alignment:
    how = _certainty(works, keys, len(found), groups, joined)
    own = np.array([kind not in _HINTED for kind in keys.kinds], np.bool_)  # what has no counterpart has its own name
    left = [_first(work, np.flatnonzero((group[work.piece] < 0) & own[work.key]))
            for work, group in zip(works, groups, strict=True)]  # fmt: skip
    distinct = np.unique(_join([work.key[links] for work, links in zip(works, left, strict=True)]))
    for at, (work, links) in enumerate(zip(works, left, strict=True)):
        groups[at][work.piece[links]] = len(found) + np.searchsorted(distinct, work.key[links])
        joined[at][work.piece[links]] = links
    return Alignment(
        keys=np.r_[np.array(found, np.int64), distinct],
        how=np.r_[how, np.full(len(distinct), How.UNMATCHED, np.int8)].astype(np.int8),
        groups=tuple(groups),
        links=tuple(joined),
    )


def _certainty(works: Sequence[Work], keys: Keys, count: int, groups: list[I64], joined: list[I64]) -> I64:
    """The least sure way in which a piece joined each group: by its own operator, or by one around it."""
    kinds = np.array(keys.kinds, np.int64)
    how = np.zeros(count, np.int64)
    for work, group, links in zip(works, groups, joined, strict=True):
        pieces = np.flatnonzero(group >= 0)
        link = links[pieces]
        innermost = np.searchsorted(work.piece, pieces, side="left")
        kind = kinds[work.key[link]]
        around = (work.row[link] != work.row[innermost]) & (kind < How.KERNEL)
        np.maximum.at(how, group[pieces], np.where(around, int(How.ENCLOSING), kind))
    return how
