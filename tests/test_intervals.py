"""Interval algebra against brute force on small integers."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chakra_core import intervals as iv

SETS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=12)


def arrays(pairs):
    start = np.array([start for start, _ in pairs], np.int64)
    return start, start + np.array([dur for _, dur in pairs], np.int64)


def points(start, end):
    return {point for low, high in zip(start.tolist(), end.tolist(), strict=True) for point in range(low, high)}


def is_merged(start, end):
    return bool((end > start).all() and (start[1:] > end[:-1]).all())


@given(SETS)
def test_merge_covers_the_same_points(pairs):
    given_set = arrays(pairs)
    merged = iv.merge(*given_set)
    assert points(*merged) == points(*given_set)
    assert is_merged(*merged)
    assert iv.union_length(*given_set) == len(points(*given_set))


@given(SETS, SETS)
def test_intersection_and_difference(first, second):
    a, b = iv.merge(*arrays(first)), iv.merge(*arrays(second))
    assert points(*iv.intersect(*a, *b)) == points(*a) & points(*b)
    difference = iv.subtract(*a, *b)
    assert points(*difference) == points(*a) - points(*b)
    assert iv.length(*difference) + iv.length(*iv.intersect(*a, *b)) == iv.length(*a)


@given(SETS, st.lists(st.integers(0, 50), min_size=2, max_size=8, unique=True))
def test_coverage_per_bin(pairs, edges):
    edges = np.array(sorted(edges), np.int64)
    merged = iv.merge(*arrays(pairs))
    covered = points(*merged)
    expected = [len(covered & set(range(low, high))) for low, high in itertools.pairwise(edges)]
    assert iv.coverage(*merged, edges).tolist() == expected


def test_clip():
    start, end = iv.clip(np.array([0, 5, 20]), np.array([4, 15, 30]), 2, 10)
    assert start.tolist() == [2, 5, 10]
    assert end.tolist() == [4, 10, 10]
