"""The period of a sequence that repeats itself, such as the kernels of one iteration after another."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["period_of"]

I64 = NDArray[np.int64]

LEAST = 8
"""A shorter period is a loop within an iteration, not an iteration."""
ALIKE = 0.9
"""Share of entries that must return after a period."""
_CLOSE = 0.002
_NEAR = 0.05
_TRIED = 200


def period_of(codes: NDArray[np.integer]) -> tuple[int, int]:
    """Period of a sequence and where its repetition begins; ``(0, 0)`` where it has none. O(n log n).

    The smallest period under which (nearly) as many entries return as under any: layers repeat within an iteration,
    but fewer entries return after a layer than after an iteration. Candidates come from the autocorrelation of the
    sequence with a random unit vector for each code; how many entries return is then counted exactly.

    >>> period_of(np.array([9, 9, *(list(range(8)) * 3)]))
    (8, 2)
    """
    sequence = np.asarray(codes, np.int64)
    n = len(sequence)
    if n < 2 * LEAST:
        return 0, 0
    _, compact = np.unique(sequence, return_inverse=True)
    vectors = np.exp(2j * np.pi * np.random.default_rng(0).random(int(compact.max()) + 1))[compact]
    size = 1 << int(2 * n - 1).bit_length()
    power = np.abs(np.fft.fft(vectors, size)) ** 2
    lags = np.arange(LEAST, n // 2 + 1)
    likeness = np.fft.ifft(power).real[lags] / (n - lags)
    candidates = lags[likeness >= likeness.max() - _NEAR][:_TRIED]
    shares = np.array([np.mean(compact[lag:] == compact[:-lag]) for lag in candidates])
    if shares.max() < ALIKE:
        return 0, 0
    period = int(candidates[int(np.argmax(shares >= shares.max() - _CLOSE))])
    returns = np.r_[0, np.cumsum(compact[period:] == compact[:-period])]
    inside = (returns[period:] - returns[:-period]) / period if len(returns) > period else np.zeros(1)
    return period, int(np.argmax(inside >= inside.max() - _CLOSE))
