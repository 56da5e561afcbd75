"""Arrays that are filled part by part without being copied at the end: each page of memory is touched once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = ["Growing"]


class Growing:
    """A one-dimensional array that parts are appended to.

    ``expected`` is how long it will be, as far as is known: room for more than is used costs no memory, for pages that
    nothing is written to are never there; where it was too little, what is there moves into half as much again.
    """

    def __init__(self, dtype: DTypeLike, expected: int) -> None:
        self._values: NDArray[Any] = np.empty(expected, dtype)
        self._used = 0

    def __len__(self) -> int:
        return self._used

    def append(self, part: NDArray[Any]) -> None:
        """Put a part at the end."""
        self._room(len(part))[:] = part

    def repeat(self, value: int, times: int) -> None:
        """Put one value at the end, ``times`` over."""
        self._room(times)[:] = value

    def _room(self, wanted: int) -> NDArray[Any]:
        start, self._used = self._used, self._used + wanted
        if self._used > len(self._values):
            grown = np.empty(max(self._used, len(self._values) * 3 // 2), self._values.dtype)
            grown[:start] = self._values[:start]
            self._values = grown
        return self._values[start : self._used]

    def done(self) -> NDArray[Any]:
        """What was appended."""
        return self._values[: self._used]
