"""One XPlane event and its stats, taken out of the protobuf messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chakra_core.schema import Category, Domain

__all__ = ["Event", "Stats", "event_of", "plane_stats", "text_of"]

_RUNTIME_STARTS = ("hip", "cu", "hsa_")
_STEP_NAMES = ("train", "step", "TraceContext")


@dataclass(slots=True)
class Event:
    """One event with what linking needs; ``category`` None means: classify by name."""

    name: str
    start_ns: int
    dur_ns: int
    stats: dict[str, Any]
    correlation: int = -1
    hlo_op: str = ""
    program: int = -1
    lane: int = -1
    device: int = -1
    domain: Domain = Domain.HOST
    category: Category | None = Category.HOST_OP


@dataclass(frozen=True, slots=True)
class Stats:
    """Names of a plane's stats, to decode the stats of its events."""

    names: Mapping[int, str]
    cache: dict[int, dict[str, Any]] = field(default_factory=dict)

    def of(self, stats: Any) -> dict[str, Any]:
        """Decode a list of XStat; text is decoded, references are followed, bytes of ``bytes_value`` stay bytes."""
        values: dict[str, Any] = {}
        for stat in stats:
            which = stat.WhichOneof("value")
            if which is None:
                continue
            value = getattr(stat, which)
            if which == "ref_value":
                value = self.names.get(value, "")
            elif which == "str_value":
                value = text_of(value)
            values[self.names.get(stat.metadata_id, str(stat.metadata_id))] = value
        return values

    def of_metadata(self, number: int, metadata: Any) -> dict[str, Any]:
        """Stats of an event's metadata, decoded once."""
        if number not in self.cache:
            self.cache[number] = self.of(metadata.stats)
        return self.cache[number]


def text_of(raw: bytes) -> str:
    """Bytes of the profile as text; what is not UTF-8 is replaced."""
    return raw.decode("utf-8", "replace")


def plane_stats(plane: Any) -> Stats:
    """The stat names of a plane."""
    return Stats({number: text_of(entry.name) for number, entry in plane.stat_metadata.items()})


def event_of(raw: Any, metadata: Any, stats: Stats, line_ns: int) -> Event:
    """Decode one event; a display name wins over a name that is a whole HLO instruction."""
    described = metadata.get(raw.metadata_id)
    values = dict(stats.of_metadata(raw.metadata_id, described)) if described is not None else {}
    values.update(stats.of(raw.stats))
    full = text_of(described.name) if described is not None else f"event {raw.metadata_id}"
    shown = text_of(described.display_name) if described is not None else ""
    name = shown if shown and full.startswith("%") else full
    if full.startswith("%"):
        values["hlo_text"] = full
    begin, end = raw.offset_ps // 1000, (raw.offset_ps + max(raw.duration_ps, 0)) // 1000
    if "step_num" in values and name in _STEP_NAMES:
        name = f"{name} {values['step_num']}"
    event = Event(name, line_ns + begin, end - begin, values)
    event.correlation = int(values.get("correlation_id", -1))
    event.hlo_op = str(values.get("hlo_op", "")) or (shown if full.startswith("%") else "")
    event.program = int(values.get("program_id", -1))
    event.category = _host_category(name, values, event.correlation)
    return event


def _host_category(name: str, values: Mapping[str, Any], correlation: int) -> Category:
    if name.startswith("$"):
        return Category.PYTHON
    if correlation >= 0 and name.startswith(_RUNTIME_STARTS):
        return Category.RUNTIME
    return Category.ANNOTATION if "step_num" in values else Category.HOST_OP
