"""Compiled: from the ids of Chakra dependencies to rows, and to edges by row."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["callers", "look_up", "merge", "table_of"]

I8 = NDArray[np.int8]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]


@njit(cache=True)
def table_of(ids: U64, top: int) -> I32:
    """Row by id, 0 to ``top`` (the largest id): the first that bears it, -1 where none does."""
    table = np.full(top + 1, -1, np.int32)
    for row in range(len(ids) - 1, -1, -1):
        table[ids[row]] = row
    return table


@njit(cache=True)
def look_up(table: I32, wanted: U64) -> I32:
    """Entries of the table, -1 beyond its end."""
    rows = np.empty(len(wanted), np.int32)
    for at in range(len(wanted)):
        rows[at] = table[wanted[at]] if wanted[at] < np.uint64(len(table)) else -1
    return rows


@njit(cache=True)
def _are_kinds(stated: I64, start: int, stop: int, most: int) -> bool:
    at = start
    while at < stop and 0 <= stated[at] <= most:
        at += 1
    return at == stop


@njit(cache=True)
def merge(
    data_ptr: I64, data: I32, ctrl_ptr: I64, ctrl: I32, stated_ptr: I64, stated: I64, usual: tuple[int, int], most: int
) -> tuple[I64, I32, I8, I64, I64]:
    """Edges by row, data before control; dependencies on no row (-1) and on the own row are left out.

    Args:
        data_ptr: where each row's data dependencies begin.
        data: the rows they lead to.
        ctrl_ptr: the same for control dependencies.
        ctrl: the rows they lead to.
        stated_ptr: where the kinds begin that each row states for its data and then control dependencies.
        stated: the kinds; a row's are believed where there is one for each dependency and all are kinds.
        usual: kind of a data and of a control dependency otherwise.
        most: largest kind.

    Returns:
        (indptr, sources, kinds, rows of the dependencies on no row, rows of those on the own row)
    """
    n = len(data_ptr) - 1
    indptr = np.zeros(n + 1, np.int64)
    sources = np.empty(len(data) + len(ctrl), np.int32)
    kinds = np.empty(len(sources), np.int8)
    lost, own = np.empty(len(sources), np.int64), np.empty(len(sources), np.int64)
    used = n_lost = n_own = 0
    for row in range(n):
        first = stated_ptr[row]
        count = data_ptr[row + 1] - data_ptr[row] + ctrl_ptr[row + 1] - ctrl_ptr[row]
        believed = stated_ptr[row + 1] - first == count and _are_kinds(stated, first, first + count, most)
        for ptr, rows, kind in ((data_ptr, data, usual[0]), (ctrl_ptr, ctrl, usual[1])):
            for at in range(ptr[row], ptr[row + 1]):
                source = rows[at]
                if source < 0:
                    lost[n_lost] = row
                    n_lost += 1
                elif source == row:
                    own[n_own] = row
                    n_own += 1
                else:
                    sources[used] = source
                    kinds[used] = stated[first] if believed else kind
                    used += 1
                first += 1
        indptr[row + 1] = used
    return indptr, sources[:used], kinds[:used], lost[:n_lost].copy(), own[:n_own].copy()


@njit(cache=True)
def callers(indptr: I64, sources: I32, kinds: I8, host: NDArray[np.bool_], control: int) -> I32:
    """The first source of each row by an edge of kind ``control`` from a row on the host; -1 where there is none."""
    found = np.full(len(indptr) - 1, -1, np.int32)
    for row in range(len(found)):
        for at in range(indptr[row], indptr[row + 1]):
            if kinds[at] == control and host[sources[at]]:
                found[row] = sources[at]
                break
    return found
