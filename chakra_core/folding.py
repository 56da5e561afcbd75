"""Folding what repeats in a tree of groups: thirty-two equal layers become one box, *layer times 32*, that can be opened.

Two sub-trees are equal when the names in them (numbers ignored), their kinds of work and categories are, and the
dependencies among their members join equal ones: told by a hash of the sub-graph (see ``_fold_kernels.hash_tree``).
What repeats is a run of equal neighbours, or a stretch of several neighbours (``norm, attention, mlp, norm, …``);
each repeat of a stretch becomes a group of its own first. Within a repeat, what repeats is folded again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakra_core.trace import Trace

__all__ = ["FOLD_SIGN", "fold", "levels", "structure"]

I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]

FOLD_SIGN = "\u00d7"
"""Marks a folded group: ``name (times sign)count``."""

_DIGITS = re.compile(r"\d+")
_FEWEST = 3
_BIG = 8
"""Rows from which on a sub-graph is folded where there are only two of it."""
_LONGEST = 256
_ROUNDS = 4
_LEAST_STEM = 4
_NAMED = 1000
_LONGEST_NAME = 60
_SEPARATORS = "/._-: "


def levels(depth: I64) -> list[I64]:
    """Tree nodes of each level, the top first."""
    order = np.argsort(depth.astype(np.int32), kind="stable")
    return np.split(order, np.cumsum(np.bincount(depth))[:-1]) if len(depth) else []


def structure(trace: Trace, up: I64, labels: list[str], depth: I64) -> U64:
    """A hash per tree node, equal for equal sub-graphs. O((nodes + edges) depth).

    Args:
        trace: the trace; its rows are the first tree nodes.
        up: parent of each tree node, -1 at the top.
        labels: label of each tree node that is no row.
        depth: number of ancestors of each tree node.
    """
    from chakra_core._fold_kernels import hash_tree, meet

    c, n = trace.columns, len(trace)
    texts = [_DIGITS.sub("#", name) for name in (*trace.names, *labels)]
    code: dict[str, int] = {}
    numbers = np.array([code.setdefault(text, len(code)) for text in texts], np.uint64)
    value = np.empty(len(up), np.uint64)
    value[n:] = numbers[len(trace.names) :] << np.uint64(16)
    value[:n] = numbers[c.name] << np.uint64(16)
    value[:n] += (c.kind.astype(np.uint64) << np.uint64(8)) + c.category.astype(np.uint64) + np.uint64(1)
    value = (value + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    left, right = np.empty(len(trace.edges), np.int32), np.empty(len(trace.edges), np.int32)
    meet(trace.edges.sources, trace.edges.targets(), up, depth, left, right)
    known = np.flatnonzero(left >= 0)
    most = int(depth.max(initial=0)) + 1
    nodes, first_node = _by_level(np.arange(len(up)), depth, most)
    edges, first_edge = _by_level(known, depth[left[known]], most)
    near = np.zeros(len(up), np.uint64)
    hash_tree(nodes, first_node, edges, first_edge, up, left, right, trace.edges.kinds, value, near)
    return value


def _by_level(what: I64, depth: I64, most: int) -> tuple[I64, I64]:
    """``what`` sorted by level, and where each of ``most`` levels begins (with the end)."""
    first = np.zeros(most + 1, np.int64)
    np.cumsum(np.bincount(depth, minlength=most), out=first[1:])
    return what[np.argsort(depth.astype(np.int16), kind="stable")], first


@dataclass
class _Tree:
    """The tree while groups are added to it; ``when`` is the order of siblings."""

    trace: Trace
    up: I64
    labels: list[str]
    when: I64
    added_up: list[int]
    added_when: list[int]

    def add(self, label: str, parent: int, when: int) -> int:
        """A new group; its tree node."""
        self.labels.append(label)
        self.added_up.append(parent)
        self.added_when.append(when)
        return len(self.up) + len(self.added_up) - 1

    def commit(self) -> None:
        """Append the new groups to the arrays."""
        self.up = np.concatenate([self.up, np.array(self.added_up, np.int64)])
        self.when = np.concatenate([self.when, np.array(self.added_when, np.int64)])
        self.added_up, self.added_when = [], []

    def name(self, node: int) -> str:
        """Label of a tree node."""
        n = len(self.trace)
        return self.trace.name_of(node) if node < n else self.labels[node - n]


def fold(trace: Trace, up: I64, labels: list[str], when: I64, depth: I64) -> tuple[I64, list[str], I64]:
    """Put what repeats among siblings under one group each. O(n log n + (nodes + edges) depth).

    Args:
        trace: the trace.
        up: parent of each tree node.
        labels: label of each group.
        when: order of siblings.
        depth: number of ancestors of each tree node.

    Returns:
        The same three with the new groups; new tree nodes come after the old ones.
    """
    if not len(up):
        return up, labels, when
    value = structure(trace, up, labels, depth)
    tree = _Tree(trace, up.copy(), list(labels), when, [], [])
    rows = _rows_below(len(trace), up, depth)
    order = np.lexsort((when, up))
    for _ in range(_ROUNDS):
        order = _fold_families(tree, order, value, rows)
        if not len(order):
            break
    return tree.up, tree.labels, tree.when


def _rows_below(n: int, up: I64, depth: I64) -> I64:
    """How many rows of the trace are in each sub-tree."""
    count = np.zeros(len(up), np.int64)
    count[:n] = 1
    for here in levels(depth)[:0:-1]:
        np.add.at(count, up[here], count[here])
    return count


def _fold_families(tree: _Tree, order: I64, value: U64, rows: I64) -> I64:
    """Fold the families in ``order`` (sorted by parent and order); the members of new repeats, to be folded in turn."""
    from chakra_core._fold_kernels import find_repeats

    family = tree.up[order]
    bounds = np.append(np.flatnonzero(np.r_[True, family[1:] != family[:-1]]), len(order))
    found = np.empty(3 * (len(order) // 2 + 1), np.int64)
    count = find_repeats(value[order], rows[order] >= _BIG, bounds, _LONGEST, _FEWEST, found)
    again: list[I64] = []
    for first, period, repeats in found[: 3 * count].reshape(count, 3).tolist():
        members = order[first : first + period * repeats]
        where = int(np.searchsorted(bounds, first, side="right"))
        whole = len(members) == bounds[where] - bounds[where - 1]
        if period == 1:
            _fold_run(tree, members, whole=whole)
        else:
            again.extend(_fold_stretch(tree, members.reshape(-1, period), rows, whole=whole))
    tree.commit()
    return np.concatenate(again) if again else np.zeros(0, np.int64)


def _box(tree: _Tree, members: I64, label: str, *, whole: bool) -> int:
    """The group that stands for a fold: a new one, or the parent where the fold is all that the parent holds."""
    parent = int(tree.up[members[0]])
    if not whole or parent < 0:
        return tree.add(label, parent, int(tree.when[members[0]]))
    if parent >= len(tree.trace):
        tree.labels[parent - len(tree.trace)] += f": {label}"
    return parent


def _fold_run(tree: _Tree, members: I64, *, whole: bool) -> None:
    """One group over equal neighbours."""
    label = f"{_pattern([tree.name(member) for member in members[:_NAMED].tolist()])} {FOLD_SIGN}{len(members)}"
    tree.up[members] = _box(tree, members, label, whole=whole)


def _fold_stretch(tree: _Tree, parts: I64, rows: I64, *, whole: bool) -> list[I64]:
    """One group over the repeats of a stretch, each of them a group; the members of each."""
    stems = [_stem([tree.name(node) for node in part.tolist()], rows[part]) for part in parts]
    top = _box(tree, parts.ravel(), f"{_pattern(stems)} {FOLD_SIGN}{len(parts)}", whole=whole)
    for number, (part, stem) in enumerate(zip(parts, stems, strict=True), start=1):
        label = f"{stem} ({number})" if len(set(stems)) < len(stems) else stem
        tree.up[part] = tree.add(label, top, int(tree.when[part[0]]))
    return list(parts)


def _pattern(names: list[str]) -> str:
    """What the names have in common: ``layer_128_#`` of ``layer_128_2`` and ``layer_128_3``."""
    numbers = [_DIGITS.findall(name) for name in names]
    if len(set(map(len, numbers))) > 1:
        return _short(_DIGITS.sub("#", names[0]))
    same = iter([column[0] if len(set(column)) == 1 else "#" for column in zip(*numbers, strict=True)])
    return _short(_DIGITS.sub(lambda _: next(same), names[0]))


def _short(name: str) -> str:
    """The name without the middle of a long one, so that what is added to it is not cut off where it is shown."""
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME // 2]}\u2026{name[-_LONGEST_NAME // 3 :]}"


def _stem(names: list[str], rows: I64) -> str:
    """What to call a stretch: as those of its groups that hold most of its rows are called, numbers aside.

    Where none do: what all names begin with, up to a separator, else the first and the last of them.
    """
    held: dict[str, int] = {}
    for name, count in zip(names, rows.tolist(), strict=True):
        kind = _DIGITS.sub("#", name)
        held[kind] = held.get(kind, 0) + (count if count > 1 else 0)
    most = max(held, key=lambda kind: held[kind])
    if 2 * held[most] > rows.sum() and len(held) > 1:
        return _pattern([name for name in names if _DIGITS.sub("#", name) == most])
    low, high = min(names), max(names)
    same = next((at for at, (one, two) in enumerate(zip(low, high, strict=False)) if one != two), len(low))
    common = low[:same]
    if same < len(high):
        common = common[: max(common.rfind(sign) for sign in _SEPARATORS) + 1]
    common = common.rstrip(_SEPARATORS)
    return common if len(common) >= _LEAST_STEM else f"{_short(names[0])} \u2026 {_short(names[-1])}"
