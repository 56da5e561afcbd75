"""Pins: pairs of operators that correspond because the user says so, by name or node by node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from chakra_core.analysis.alike import normalise_operator
from chakra_core.errors import AnalysisError
from chakra_core.trace import Run

__all__ = ["NO_PINS", "NodePin", "Pins", "parse_pins"]

_MOST = 200


@dataclass(frozen=True, slots=True)
class NodePin:
    """Two nodes that meet, by rank and row: ``a`` of the baseline, ``b`` of the other run."""

    rank_a: int
    row_a: int
    rank_b: int
    row_b: int


@dataclass(frozen=True, slots=True)
class Pins:
    """What the user has pinned between the baseline and one other run.

    Attributes:
        nodes: single nodes.
        aliases: names of operators of the other run (as the file has them, or normalised), each with the name of the
            baseline's operator that it meets.
    """

    nodes: tuple[NodePin, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def __bool__(self) -> bool:
        return bool(self.nodes or self.aliases)


NO_PINS = Pins()
"""Nothing pinned."""


def parse_pins(texts: Iterable[str], base: Run, other: Run) -> Pins:
    """Pins from texts ``A=B``: names of operators, or node ids ``#12=#34`` (``#RANK/ID`` on another rank than the first).

    Raises:
        AnalysisError: a text is not of that form, there are too many, or it names what a run does not have.
    """
    nodes: list[NodePin] = []
    aliases: dict[str, str] = {}
    given = list(texts)
    if len(given) > _MOST:
        raise AnalysisError(f"{len(given)} pins; at most {_MOST} can be given")
    for text in given:
        left, _, right = (part.strip() for part in text.partition("="))
        if not left or not right:
            raise AnalysisError(f"pin {text[:200]!r} is not of the form A=B: two operators, or two nodes as #ID=#ID")
        if left.startswith("#") != right.startswith("#"):
            raise AnalysisError(f"pin {text[:200]!r} joins a node and a name; give two of a kind")
        if left.startswith("#"):
            nodes.append(NodePin(*_node(left, base), *_node(right, other)))
        else:
            _need_name(left, base)
            _need_name(right, other)
            aliases[right] = left
    return Pins(tuple(nodes), MappingProxyType(aliases))


def _node(text: str, run: Run) -> tuple[int, int]:
    rank_text, slash, number = text[1:].rpartition("/")
    if not (number.isascii() and number.isdigit()) or (slash and not (rank_text.isascii() and rank_text.isdigit())):
        raise AnalysisError(f"{text[:60]!r} is not a node: write #ID or #RANK/ID")
    rank = int(rank_text[:9]) if slash else run.ranks[0]
    if rank not in run.ranks:
        raise AnalysisError(f"{text[:60]!r}: {run.label} has no rank {rank}")
    try:
        return rank, run.by_rank(rank).row_of(int(number[:20]))
    except KeyError:
        raise AnalysisError(f"{text[:60]!r}: rank {rank} of {run.label} has no node with this id") from None


def _need_name(name: str, run: Run) -> None:
    known = {text for trace in run.traces for text in trace.names}
    if name not in known and not any(name == normalise_operator(text) for text in known):
        raise AnalysisError(f"pin: {run.label} has no operator called {name[:200]!r}")
