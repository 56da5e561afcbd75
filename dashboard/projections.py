"""References of projected runs: ``projection?hardware=…&compute=2&of=<reference>``, so that an address reproduces them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode

from chakra_core.errors import AnalysisError, ChakraError
from chakra_core.hardware import get_device
from chakra_core.project.mapping import mapping_text, parse_mapping
from chakra_core.project.retime import FACTORS, Knobs
from chakra_core.trace import Run

__all__ = ["Projection", "is_projection", "knobs_from", "knobs_query"]

_PREFIX = "projection?"
_DEEPEST = 4
_LONGEST_MAP = 2000


def is_projection(ref: str) -> bool:
    """Whether a reference names a projection."""
    return ref.startswith(_PREFIX)


def knobs_query(knobs: Knobs) -> dict[str, str]:
    """The knobs that differ from their defaults, as texts for an address."""
    query = {name: f"{value:g}" for name, value in knobs.changed.items()}
    if not knobs.overlap:
        query["overlap"] = "off"
    if knobs.algorithm != Knobs().algorithm:
        query["algorithm"] = knobs.algorithm
    if knobs.domain:
        query["domain"] = str(knobs.domain)
    if knobs.precision != Knobs().precision:
        query["precision"] = knobs.precision
    if knobs.mapping:
        query["map"] = mapping_text(knobs.mapping)
    return query


def knobs_from(query: Mapping[str, str]) -> Knobs:
    """Knobs of an address; what it does not state is as usual.

    Raises:
        AnalysisError: a value is no number or out of range.
    """
    chosen: dict[str, Any] = {key: query[key] for key in ("algorithm", "precision") if query.get(key)}
    try:
        chosen |= {name: float(query[name][:24]) for name in FACTORS if query.get(name)}
        if query.get("domain"):
            chosen["domain"] = int(query["domain"][:12])
        chosen["mapping"] = parse_mapping(query.get("map", "")[:_LONGEST_MAP])
        return Knobs(**chosen, overlap=query.get("overlap") != "off")
    except ValueError as error:
        raise AnalysisError(f"projection: {error}") from error


@dataclass(frozen=True, slots=True)
class Projection:
    """A run of another reference, moved onto other hardware.

    Attributes:
        base: reference of the run.
        hardware: name of the target in the catalogue.
        knobs: what else is changed.
        source: name of the device it ran on, where the run does not say; empty otherwise.
    """

    base: str
    hardware: str
    knobs: Knobs
    source: str = ""

    @property
    def ref(self) -> str:
        """The reference."""
        query = {
            "hardware": self.hardware,
            **({"source": self.source} if self.source else {}),
            **knobs_query(self.knobs),
        }
        return f"{_PREFIX}{urlencode(query)}&of={self.base}"

    @classmethod
    def of(cls, ref: str) -> Projection:
        """Read a reference.

        Raises:
            ChakraError: it is not one, or nests too deep.
        """
        head, found, base = ref.partition("&of=")
        if not is_projection(ref) or not found or base.count(_PREFIX) >= _DEEPEST:
            raise ChakraError(f"{ref[:200]}: not a projection; open a run and project it on the Co-design page")
        query = dict(parse_qsl(head.removeprefix(_PREFIX), max_num_fields=32))
        return cls(base, query.get("hardware", ""), knobs_from(query), query.get("source", ""))

    def apply(self, base: Run) -> Run:
        """The projected run.

        Raises:
            ChakraError: the hardware is unknown, or the run cannot be projected.
        """
        from chakra_core.project.projection import project_run

        source = get_device(self.source) if self.source else None
        return project_run(base, get_device(self.hardware), source=source, knobs=self.knobs)
