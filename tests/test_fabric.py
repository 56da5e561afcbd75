"""Collectives over two levels of network, each algorithm by hand: two domains of four H100 (450 and 50 GB/s, 3.4 and 14 us)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chakra_core.hardware import get_device
from chakra_core.project.fabric import COLLECTIVE_ALGORITHMS, Fabric
from chakra_core.schema import CommOp

H100 = get_device("H100 SXM")
S = 72_000_000
"""Bytes: 160 us at 450 GB/s, 1,440 us at 50 GB/s."""
IN, OUT = 160_000, 1_440_000
REDUCE, SCATTER, GATHER, ALL, CAST = (
    CommOp.ALL_REDUCE, CommOp.REDUCE_SCATTER, CommOp.ALL_GATHER, CommOp.ALL_TO_ALL, CommOp.BROADCAST,
)  # fmt: skip


def time(algorithm: str, op: CommOp, members: int = 8, spread: int = 2, **more: float) -> float:
    return float(Fabric(H100, algorithm=algorithm, **more).collective_ns(op, S, members, spread))


@pytest.mark.parametrize(
    ("algorithm", "op", "near", "far", "transfer"),
    [
        ("ring", REDUCE, 12, 2, 2 * 7 / 8 * OUT),
        ("ring", SCATTER, 6, 1, 7 / 8 * OUT),
        ("ring", GATHER, 6, 1, 7 * OUT),
        ("ring", ALL, 6, 1, 7 / 8 * OUT),
        ("ring", CAST, 6, 1, OUT),
        ("direct", REDUCE, 0, 2, 2 * 7 / 8 * OUT),
        ("direct", ALL, 0, 1, 7 / 8 * OUT),
        ("halving-doubling", REDUCE, 0, 6, 2 * 7 / 8 * OUT),
        ("halving-doubling", SCATTER, 0, 3, 7 / 8 * OUT),
        ("tree", REDUCE, 6, 2, 2 / 0.92 * OUT),
        ("tree", CAST, 3, 1, OUT),
        ("tree", SCATTER, 6, 1, 7 / 8 * OUT),  # has no form as a tree: goes as a ring
    ],
)
def test_eight_in_two_domains(algorithm, op, near, far, transfer):
    assert time(algorithm, op) == pytest.approx(near * 3_400 + far * 14_000 + transfer)


@pytest.mark.parametrize(
    ("op", "phases"),
    [
        # inside: scatter among four; outside: a quarter among two; inside: gather the quarter among four
        (REDUCE, (3 * 3_400 + 3 / 4 * IN, 2 * 14_000 + OUT / 4, 3 * 3_400 + 3 / 4 * IN)),
        (SCATTER, (3 * 3_400 + 3 / 4 * IN, 14_000 + OUT / 8, 0)),
        (GATHER, (3 * 3_400 + 3 * 2 * IN, 14_000 + OUT, 0)),
        (ALL, (3 * 3_400 + 3 / 4 * IN, 14_000 + OUT / 2, 0)),
    ],
)
def test_hierarchical_phases_overlap_by_chunks(op, phases):
    for chunks in (1, 4):
        piped = sum(phases) / chunks + max(phases) * (chunks - 1) / chunks
        assert time("hierarchical", op, chunks=chunks) == pytest.approx(piped)
    assert time("hierarchical", op, spread=1) == time("ring", op, spread=1)


def test_within_one_domain_links_factors_and_messages():
    assert time("ring", REDUCE, 8, 1) == pytest.approx(14 * 3_400 + 2 * 7 / 8 * IN)
    assert time("ring", REDUCE, 8, 1, link=2.0, latency=0.5) == pytest.approx(14 * 1_700 + 2 * 7 / 8 * IN / 2)
    assert time("ring", CommOp.SEND, 2, 1) == pytest.approx(3_400 + IN)
    assert time("tree", CommOp.BARRIER, 8, 1) == pytest.approx(2 * 7 * 3_400)
    assert time("ring", REDUCE, 1, 1) == 0
    pair = Fabric(get_device("MI300X")).collective_ns(REDUCE, S, 2, 1)  # one of seven links
    assert float(pair) == pytest.approx(S / 64 + 2 * 2_700)


@given(
    st.sampled_from([REDUCE, SCATTER, GATHER, ALL, CAST, CommOp.REDUCE, CommOp.BARRIER]), st.integers(0, 1 << 32),
    st.integers(1, 64), st.integers(1, 8),
)  # fmt: skip
def test_the_best_of_all_is_none_slower(op, size, members, spread):
    each = [Fabric(H100, algorithm=name).collective_ns(op, size, members, spread) for name in COLLECTIVE_ALGORITHMS]
    assert each[-1] == min(each[:-1])
    assert all(np.isfinite(each))
    assert min(each) >= 0
