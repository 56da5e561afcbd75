"""Chakra ``.et`` as an output format of ``convert``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from chakra_core.writers.base import Rank, Writer
from chakra_core.writers.chakra_et import write_et

__all__ = ["WRITER"]


def _write(ranks: Sequence[Rank], path: Path, compress: bool) -> None:
    (rank,) = ranks
    write_et(rank.trace, path, compress=compress, assumptions=rank.assumptions, stated=rank.stated)


WRITER = Writer("et", "Chakra execution trace, one .et file per rank", ".et", _write, for_simulator=True)
