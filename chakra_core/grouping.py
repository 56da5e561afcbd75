"""A trace as a tree of groups, and bounded pictures of its graph: the whole graph is never drawn at once.

The tree comes from what the trace knows: the path in its nodes' names (``layer_3/attention/qkv``,
``transformer.0.norm``), else the call structure (``parent``), else lane and name. What repeats is folded (``layer_#``
32 times, see ``folding``), and what still has too many children is split into ranges. A *tree node* is a row of the trace
(0..n-1) or a group (n..). A picture shows the tree nodes whose ancestors are all expanded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakra_core.folding import FOLD_SIGN, fold, levels
from chakra_core.schema import NO_TIME, Category
from chakra_core.trace import Trace

__all__ = ["MAX_CHILDREN", "Grouping", "build_grouping", "scopes_in_name"]

I64 = NDArray[np.int64]

MAX_CHILDREN = 48
"""Most children that expanding a group shows."""

_NUMBERED = re.compile(r"(?:^|_)((?:layer|block|stack|stage)(?:_\d+)+)_")
"""The part of a generator's node names that says which layer they belong to: ``COMP_NODE_layer_64_1_conv2_FWD``."""
_FIRST_LEVELS = 32
_FEWEST = 5
_WORTH = 100
"""Groups with less than one part in this of all the weight are left closed at first."""
_MAX_DEPTH = 256
"""Levels of calls that are kept; deeper ones hang on their ancestor at this level."""


@dataclass(frozen=True)
class Grouping:
    """The tree over a trace.

    Attributes:
        up: int64 per tree node, its parent; -1 at the top.
        order: int64 per tree node, position among its siblings (by time, then row).
        labels: label of each group; group g is tree node ``rows + g``.
        rows: number of rows of the trace.
        depth: int64 per tree node, 0 at the top.
        basis: what the tree was built from: ``names``, ``calls`` or ``lanes``.
    """

    up: I64
    order: I64
    labels: tuple[str, ...]
    rows: int
    depth: I64
    basis: str

    def label(self, trace: Trace, node: int) -> str:
        """Label of a tree node."""
        return trace.name_of(node) if node < self.rows else self.labels[node - self.rows]

    def path(self, node: int) -> list[int]:
        """Ancestors of a tree node, topmost first."""
        found: list[int] = []
        while (node := int(self.up[node])) >= 0:
            found.append(node)
        return found[::-1]

    def representatives(self, expanded: Iterable[int]) -> I64:
        """For every tree node the visible one that stands for it: itself, or its topmost ancestor not expanded. O(n)."""
        is_open = np.zeros(len(self.up) + 1, np.bool_)
        is_open[-1] = True
        is_open[[node for node in expanded if 0 <= node < len(self.up)]] = True
        stands = np.arange(len(self.up), dtype=np.int64)
        shown = np.ones(len(self.up), np.bool_)
        for here in levels(self.depth)[1:]:
            above = self.up[here]
            shown[here] = shown[above] & is_open[above]
            stands[here] = np.where(shown[here], here, stands[above])
        return stands

    def has_children(self) -> NDArray[np.bool_]:
        """Whether each tree node has children."""
        marked = np.zeros(len(self.up), np.bool_)
        marked[self.up[self.up >= 0]] = True
        return marked

    def default_expanded(self, weight: I64, target: int = 26) -> list[int]:
        """Groups to open for a first picture of about ``target`` boxes: those with the most weight, a level at a time.

        Args:
            weight: int64 per row, what makes a group interesting (its duration).
            target: most boxes to show, more only where there would be fewer than five; then folded groups open too.
        """
        size = np.bincount(self.up + 1, minlength=len(self.up) + 1)
        by_parent = np.argsort(self.up, kind="stable")
        first = np.concatenate([[0], np.cumsum(size)])

        def children(node: int) -> list[int]:
            if node >= 0 and self.depth[node] >= _FIRST_LEVELS:
                return []
            found: list[int] = by_parent[first[node + 1] : first[node + 2]].tolist()
            return found

        total = np.zeros(len(self.up), np.int64)
        total[: self.rows] = weight
        for here in levels(self.depth)[:0:-1]:
            np.add.at(total, self.up[here], total[here])
        count = size[1:]
        shown = [node for node in children(-1) if node < self.rows or count[node]]
        opened: list[int] = []
        whole = sum(int(total[node]) for node in shown)
        folded = {self.rows + at for at, label in enumerate(self.labels) if FOLD_SIGN in label}
        wide = max(target, MAX_CHILDREN + _FEWEST)

        def fits(node: int) -> bool:
            limit = wide if few else target
            return bool(
                count[node]
                and self.depth[node] < _FIRST_LEVELS
                and (few or (node not in folded and total[node] * _WORTH >= whole))
                and len(shown) + callers + count[node] - (node >= self.rows) <= limit
            )

        while True:
            few = len(shown) < _FEWEST
            callers = sum(node < self.rows for node in opened)  # an opened operator stays, with its callees beside it
            able = [node for node in shown if fits(node)]
            if not able:
                return opened
            best = max(able, key=lambda node: (node not in folded, int(total[node]), -node))
            opened.append(best)
            shown.remove(best)
            shown += children(best)


def build_grouping(trace: Trace) -> Grouping:
    """The tree of a trace. O(n log n)."""
    n = len(trace)
    up, labels, basis = _by_names(trace)
    if basis == "names":
        pass
    elif (trace.columns.parent >= 0).mean() > 0.2 if n else False:
        up, labels, basis = _by_calls(trace)
    else:
        up, labels, basis = _by_lanes(trace)
    up = _at_most_deep(_without_cycles(up), _MAX_DEPTH)
    when = _when(trace, up, n)
    up, labels, when = fold(trace, up, labels, when, _depth(up))
    up, labels, when = _split(trace, up, labels, when)
    depth = _depth(up)
    return Grouping(up, when, tuple(labels), n, depth, basis)


def scopes_in_name(name: str) -> tuple[str, ...]:
    """Scopes in a name, outermost first, without its last part; empty for names that are no paths."""
    numbered = _NUMBERED.search(name)
    if numbered and "/" not in name and "." not in name:
        return (numbered[1],)
    if "(" in name or "<" in name or " " in name.strip():
        return ()
    if "/" in name:
        return tuple(part for part in name.split("/")[:-1] if part)
    parts = name.split(".")
    return tuple(parts[:-1]) if len(parts) > 2 and "::" not in name else ()


def _by_names(trace: Trace) -> tuple[I64, list[str], str]:
    """Groups from paths in names; basis is empty where most nodes have none."""
    n = len(trace)
    scopes = [scopes_in_name(name) for name in trace.names]
    used = trace.columns.name
    deep = np.array([len(scope) > 0 for scope in scopes] + [False])
    if not n or deep[used].mean() < 0.5:
        return np.full(n, -1, np.int64), [], ""
    numbers: dict[tuple[str, ...], int] = {}
    tree_up: list[int] = []
    labels: list[str] = []

    def group(scope: tuple[str, ...]) -> int:
        if not scope:
            return -1
        if scope not in numbers:
            above = group(scope[:-1])
            numbers[scope] = n + len(labels)
            labels.append(scope[-1])
            tree_up.append(above)
        return numbers[scope]

    of_name = np.array([group(scope[:12]) for scope in scopes] + [-1], np.int64)
    return np.concatenate([of_name[used], np.array(tree_up, np.int64)]), labels, "names"


def _by_calls(trace: Trace) -> tuple[I64, list[str], str]:
    """The call structure; what nothing called is under its lane."""
    by_lane, labels, _ = _by_lanes(trace)
    parent = trace.columns.parent.astype(np.int64)
    by_lane[: len(parent)] = np.where(parent >= 0, parent, by_lane[: len(parent)])
    return by_lane, labels, "calls"


def _by_lanes(trace: Trace) -> tuple[I64, list[str], str]:
    """One group per lane (or per kind of work, where nodes have no lane), names in it by first use."""
    n = len(trace)
    c = trace.columns
    labels = [lane.name for lane in trace.lanes] + [f"{category.label} (no lane)" for category in Category]
    lane = np.where(c.lane >= 0, c.lane, len(trace.lanes) + c.category.astype(np.int64))
    up = np.concatenate([n + lane, np.full(len(labels), -1, np.int64)])
    return up, labels, "lanes"


def _without_cycles(up: I64) -> I64:
    """Cut parent chains that run in a circle (damaged input): whatever never reaches the top is put there. O(n log n)."""
    at = up.copy()
    for _ in range(len(up).bit_length()):
        live = at >= 0
        if not live.any():
            return up
        at[live] = at[at[live]]
    return np.where(at >= 0, -1, up)


def _at_most_deep(up: I64, most: int) -> I64:
    """Hang what is more than ``most`` levels down on its ancestor at that level, so that no chain is endless."""
    excess = np.maximum(_depth(up) - most, 0)
    at, jump = up.copy(), up.copy()
    while excess.any():
        odd = (excess & 1).astype(np.bool_)
        at[odd] = jump[at[odd]]
        excess >>= 1
        jump = np.where(jump >= 0, jump[jump], -1)
    return at


def _depth(up: I64) -> I64:
    """Number of ancestors of each tree node, by doubling the length of the jumps. O(n log depth)."""
    depth = (up >= 0).astype(np.int64)
    at = up.copy()
    while (live := np.flatnonzero(at >= 0)).size:
        above = at[live]
        gained, further = depth[above], at[above]
        depth[live] += gained
        at[live] = further
    return depth


def _when(trace: Trace, up: I64, n: int) -> I64:
    """Order of siblings: by start (or file order), a group when its first member is."""
    start = trace.columns.start_ns
    place = np.empty(n, np.int64)
    if len(start) and (start != NO_TIME).any():
        place[np.lexsort((np.arange(n), start))] = np.arange(n)
    else:
        place[:] = np.arange(n)
    when = np.concatenate([place, np.full(len(up) - n, np.iinfo(np.int64).max)])
    return _earliest(up, when, n)


def _earliest(up: I64, when: I64, n: int) -> I64:
    """Give every group the order of its earliest descendant."""
    for here in levels(_depth(up))[:0:-1]:
        groups = here[up[here] >= n]
        np.minimum.at(when, up[groups], when[groups])
    return when


def _siblings(up: I64, when: I64) -> tuple[I64, I64]:
    """Tree nodes sorted by parent and order, and where each family starts."""
    order = np.lexsort((when, up))
    starts = np.flatnonzero(np.r_[True, up[order][1:] != up[order][:-1]])
    return order, starts


def _split(trace: Trace, up: I64, labels: list[str], when: I64) -> tuple[I64, list[str], I64]:
    """Split families of more than ``MAX_CHILDREN`` into ranges, again and again until none is left."""
    n = len(trace)
    while True:
        order, starts = _siblings(up, when)
        sizes = np.diff(np.r_[starts, len(order)])
        crowded = np.flatnonzero(sizes > MAX_CHILDREN)
        if not len(crowded):
            return up, labels, when
        changed, made = up.copy(), list(labels)
        added_up: list[int] = []
        added_when: list[int] = []
        for family in crowded.tolist():
            members = order[starts[family] : starts[family] + sizes[family]]
            parent = int(up[members[0]])
            step = max(MAX_CHILDREN, -(-len(members) // MAX_CHILDREN))
            for begin in range(0, len(members), step):
                part = members[begin : begin + step]
                first = trace.name_of(int(part[0])) if part[0] < n else made[int(part[0]) - n]
                made.append(f"{begin + 1:,} to {begin + len(part):,} of {len(members):,} · {first}")
                changed[part] = len(up) + len(added_up)
                added_up.append(parent)
                added_when.append(int(when[part[0]]))
        up = np.concatenate([changed, np.array(added_up, np.int64)])
        when = np.concatenate([when, np.array(added_when, np.int64)])
        labels = made
