"""Which work of one run corresponds to which work of another: by operator and shapes, not by kernel name.

Every kernel is known by a chain of keys, innermost first: its operator with input shapes, that operator's name, the
enclosing operators alike, and last its own name. Kernels of several runs meet under the innermost key that work of
all runs shares; what was met is set aside and the rest climbs further, until nothing is shared any more. So vendor
kernels of one operator meet under it, an operator that dispatches to other sub-operators elsewhere meets under the
one that encloses both, and what has no counterpart is left over, never dropped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from chakra_core.analysis.operators import operator_mask
from chakra_core.analysis.scope import WHOLE, Clipped, Scope, clip_rows, traces_in
from chakra_core.schema import Category
from chakra_core.trace import Run, Trace

__all__ = ["Alignment", "How", "Keys", "Work", "align", "collect", "normalise_kernel", "normalise_operator"]

I64 = NDArray[np.int64]
Mask = NDArray[np.bool_]

_ROUNDS = 64


class How(IntEnum):
    """What two pieces of work have in common, surest first."""

    SHAPES = 0
    OPERATOR = 1
    EQUIVALENT = 2
    ENCLOSING = 3
    KERNEL = 4
    INFERRED = 5
    UNMATCHED = 6

    @property
    def label(self) -> str:
        """In words, for tables."""
        return (
            "operator and shapes", "operator", "equivalent operator", "enclosing operator", "name",
            "operator of like kernels", "unmatched",
        )[self]  # fmt: skip


_VENDOR = re.compile(
    r"(?<![a-z])_?(?:cudnn|miopen|mkldnn|cublas(?:lt)?|hipblas(?:lt)?|rocblas|cuda|hip|rocm)(?![a-z])_?"
)
_NCCL = re.compile(r"^(?:nccl|rccl|hccl|gloo|mpi|ucc|xccl|oneccl):")
_TRAILING_NUMBER = re.compile(r"[#_ .]+\d+$")
_HASH = re.compile(r"\b(?:[0-9a-f]{16,}|(?=[a-z]*\d)[a-z2-7]{40,})\b")
_ARCH = re.compile(r"\b(?:sm_?\d+|gfx[0-9a-f]+|ampere|volta|turing|hopper|maxwell|pascal|blackwell|ada|cdna\d?)_")
_TILE = re.compile(r"\d+(?:x\d+)+|\d+")


_EQUIVALENT: dict[str, str] = {
    "aten::mm": "matrix product", "aten::addmm": "matrix product", "aten::_scaled_mm": "matrix product",
    "aten::bmm": "batched matrix product", "aten::baddbmm": "batched matrix product",
    "aten::_flash_attention_forward": "attention", "aten::_efficient_attention_forward": "attention",
    "aten::_scaled_dot_product_attention": "attention", "aten::_scaled_dot_product_attention_math": "attention",
    "aten::_flash_attention_backward": "attention backward",
    "aten::_efficient_attention_backward": "attention backward",
    "aten::native_batch_norm": "batch normalisation", "aten::batch_norm": "batch normalisation",
    "aten::_batch_norm_with_update": "batch normalisation",
    "aten::native_batch_norm_backward": "batch normalisation backward",
    "aten::batch_norm_backward": "batch normalisation backward",
}  # fmt: skip
"""Operators that compute the same (up to an addition), by normalised name."""

_BIASED = ("aten::addmm", "aten::baddbmm")


def _equivalent(name: str, shape: str) -> tuple[str, str]:
    """``(family, shapes without a bias)`` of an operator that others can stand in for; else of itself."""
    family = _EQUIVALENT.get(name)
    if family is None:
        return name, ""
    sizes = shape.partition(":")[0]
    return family, sizes.partition("x")[2] if name in _BIASED else sizes if family.endswith("product") else ""


def normalise_operator(name: str) -> str:
    """An operator's name without what vendors and versions add to it.

    >>> normalise_operator("aten::miopen_convolution"), normalise_operator("aten::cudnn_convolution")
    ('aten::convolution', 'aten::convolution')
    >>> normalise_operator("triton_poi_fused_add_3"), normalise_operator("rccl:all_reduce")
    ('triton_poi_fused_add', 'comm:all_reduce')
    """
    text = _HASH.sub("", _NCCL.sub("comm:", name))
    prefix, colons, rest = text.rpartition("::")
    if prefix in ("aten", "torch", "at::native"):
        bare = _VENDOR.sub("", rest)
        if bare != rest and not rest.endswith("_"):
            bare = bare.rstrip("_")
        text = f"{prefix}{colons}{bare or rest}"
    return _TRAILING_NUMBER.sub("", text) or name


def normalise_kernel(name: str) -> str:
    """A kernel's name without return type, template arguments, parameters, architecture and tile sizes.

    >>> normalise_kernel("void at::native::vectorized_elementwise_kernel<4, F>(int, F)")
    'at::native::vectorized_elementwise_kernel'
    >>> normalise_kernel("sm90_xmma_gemm_f32_tn_n_tilesize128x128x64") == normalise_kernel(
    ...     "sm80_xmma_gemm_f32_tn_n_tilesize64x64x32")
    True
    """
    text = name.removeprefix("void ")
    cut = min((at for at in (text.find("<"), text.find("(")) if at > 0), default=len(text))
    return _TILE.sub("#", _ARCH.sub("", text[:cut])).strip(" _") or name


@dataclass(slots=True)
class Keys:
    """Numbers for the keys of all runs of one comparison."""

    texts: list[str] = field(default_factory=list)
    kinds: list[How] = field(default_factory=list)
    _number: dict[tuple[How, str, str], int] = field(default_factory=dict)

    def number(self, kind: How, text: str, scope: str = "") -> int:
        """The number of a key; keys are equal where kind, text and scope (such as a category) are."""
        key = (kind, text, scope)
        if key not in self._number:
            self._number[key] = len(self.texts)
            self.texts.append(text)
            self.kinds.append(kind)
        return self._number[key]


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
        on_device: whether the pieces are device work; else they are host operators with their self time.
    """

    dur_ns: I64
    category: NDArray[np.int8]
    piece: I64
    key: I64
    row: I64
    trace: I64
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


def collect(run: Run, keys: Keys, scope: Scope = WHOLE) -> Work:
    """The device work of a run with its chains; for a run without any, its host operators and their self time."""
    traces = [trace for _, trace in traces_in(run, scope)]
    pieces = [clip_rows(trace, trace.device_rows, scope) for trace in traces]
    on_device = any(len(piece) for piece in pieces)
    parts = [
        (_device_part if on_device else _host_part)(trace, piece, at, keys, scope)
        for at, (trace, piece) in enumerate(zip(traces, pieces, strict=True))
    ]
    offset = np.cumsum([0, *(len(part) for part in parts)])
    return Work(
        dur_ns=_join([part.dur_ns for part in parts]),
        category=_join([part.category for part in parts]).astype(np.int8),
        piece=_join([part.piece + shift for part, shift in zip(parts, offset, strict=False)]),
        key=_join([part.key for part in parts]),
        row=_join([part.row for part in parts]),
        trace=_join([part.trace for part in parts]),
        on_device=on_device,
    )


def _join(arrays: Sequence[NDArray[np.int64] | NDArray[np.int8]]) -> I64:
    return np.concatenate([np.zeros(0, np.int64), *arrays])


def _device_part(trace: Trace, work: Clipped, at: int, keys: Keys, scope: Scope) -> Work:
    del scope
    from chakra_core.analysis._climb import chains

    c = trace.columns
    piece, row = chains(work.rows, c.parent, operator_mask(trace))
    inferred = _inferred(trace, work.rows, piece, row)
    own = _kernel_keys(trace, work.rows, keys, inferred)
    own[piece, 1] = own[piece, 0]  # an operator is inferred only for what has none
    links = np.r_[_operator_keys(trace, row, keys), own]
    everything = np.arange(len(work), dtype=np.int64)
    order = np.argsort(np.r_[piece, everything], kind="stable")  # the piece's own name comes after its operators
    rows, pieces = np.r_[row, work.rows][order], np.r_[piece, everything][order]
    return _work(work.dur_ns, c.category[work.rows], pieces, links[order], rows, at, on_device=True)


def _host_part(trace: Trace, work: Clipped, at: int, keys: Keys, scope: Scope) -> Work:
    from chakra_core.analysis._climb import chains
    from chakra_core.analysis.operators import children_ns

    c, mask = trace.columns, operator_mask(trace)
    work = clip_rows(trace, np.flatnonzero(mask), scope)
    own = np.maximum(work.dur_ns - children_ns(trace, scope)[work.rows], 0)
    piece, row = chains(work.rows, c.parent, mask)
    everything = np.arange(len(work), dtype=np.int64)
    order = np.argsort(np.r_[everything, piece], kind="stable")  # the operator itself comes before those around it
    rows, pieces = np.r_[work.rows, row][order], np.r_[everything, piece][order]
    return _work(own, c.category[work.rows], pieces, _operator_keys(trace, rows, keys), rows, at, on_device=False)


def _work(
    dur_ns: I64, category: NDArray[np.int8], piece: I64, links: I64, row: I64, at: int, *, on_device: bool
) -> Work:
    """Each place in a chain gives several keys (columns of ``links``), the surest first."""
    width = links.shape[1]
    return Work(
        dur_ns=dur_ns,
        category=category,
        piece=np.repeat(piece, width),
        key=links.ravel(),
        row=np.repeat(row, width),
        trace=np.full(links.size, at, np.int64),
        on_device=on_device,
    )


def _operator_keys(trace: Trace, rows: I64, keys: Keys) -> I64:
    """Numbers (rows, 3) of name and shapes, name, family of operators; made once per distinct operator."""
    c = trace.columns
    shapes = len(trace.shapes) + 1
    pair = c.name[rows].astype(np.int64) * shapes + c.shape[rows] + 1
    distinct, inverse = np.unique(pair, return_inverse=True)
    numbers = np.empty((len(distinct), 3), np.int64)
    for at, code in enumerate(distinct.tolist()):
        name = normalise_operator(trace.names[code // shapes])
        shape = trace.shapes[code % shapes - 1] if code % shapes else ""
        numbers[at, 0] = keys.number(How.SHAPES, f"{name} {shape}".strip())
        numbers[at, 1] = keys.number(How.OPERATOR, name)
        family, sizes = _equivalent(name, shape)
        numbers[at, 2] = numbers[at, 1] if family == name else keys.number(How.EQUIVALENT, f"{family} {sizes}".strip())
    return numbers[inverse]


def _inferred(trace: Trace, kernels: I64, piece: I64, operator: I64) -> dict[int, str]:
    """Operator (or its family) of kernel names, by code, all of whose instances with an operator have the same one.

    Kernels launched before the recording began have no operator, but their like, later, do.
    """
    names = trace.columns.name
    first = np.r_[True, piece[1:] != piece[:-1]][: len(piece)]
    pairs = np.unique(np.stack([names[kernels[piece[first]]], names[operator[first]]], axis=1), axis=0)
    found: dict[int, set[str]] = {}
    for kernel, code in pairs.tolist():
        found.setdefault(kernel, set()).add(_equivalent(normalise_operator(trace.names[code]), "")[0])
    return {kernel: families.pop() for kernel, families in found.items() if len(families) == 1}


def _kernel_keys(trace: Trace, rows: I64, keys: Keys, inferred: Mapping[int, str]) -> I64:
    """Numbers (rows, 3) of name, inferred operator (or the name again), normalised name and category of device work."""
    c = trace.columns
    pair = c.name[rows].astype(np.int64) * len(Category) + c.category[rows]
    distinct, inverse = np.unique(pair, return_inverse=True)
    numbers = np.empty((len(distinct), 3), np.int64)
    for at, code in enumerate(distinct.tolist()):
        name, category = trace.names[code // len(Category)], Category(code % len(Category)).label
        numbers[at] = keys.number(How.KERNEL, name, scope=f"={category}")
        if operator := inferred.get(code // len(Category)):
            numbers[at, 1] = keys.number(How.INFERRED, operator)
        numbers[at, 2] = keys.number(How.KERNEL, normalise_kernel(name), scope=category)
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
    left = [_first(work, np.flatnonzero(group[work.piece] < 0)) for work, group in zip(works, groups, strict=True)]
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
