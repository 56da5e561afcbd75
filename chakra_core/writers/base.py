"""What a writer is. Add one by writing a module that ends in ``WRITER = Writer(...)`` and naming it in ``WRITERS``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from chakra_core.trace import Trace
from chakra_core.writers.chakra_et import Stated

__all__ = ["Rank", "Writer"]


@dataclass(frozen=True, slots=True)
class Rank:
    """What is written of one rank: its trace, what Chakra's own fields say where they differ, how its times arose."""

    trace: Trace
    stated: Stated
    assumptions: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Writer:
    """One output format.

    Attributes:
        name: what ``--to`` calls it.
        description: one line for help texts and menus.
        suffix: of its files, with the dot.
        write: writes one rank (``per_rank``) or all of them to a file, atomically; the flag says whether to gzip.
        per_rank: whether every rank becomes a file of its own.
        for_simulator: whether the format is one that simulators read, so that their rules apply unless told otherwise.
    """

    name: str
    description: str
    suffix: str
    write: Callable[[Sequence[Rank], Path, bool], None]
    per_rank: bool = True
    for_simulator: bool = False
