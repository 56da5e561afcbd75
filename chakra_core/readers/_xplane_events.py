"""Events of XPlane planes as columns: what linking needs, for all planes together."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray

from chakra_core.readers._kineto_kinds import STEP_NAMES
from chakra_core.readers._xplane_scan import EVENT
from chakra_core.readers._xplane_table import MISSING, PlaneTable, text_of
from chakra_core.schema import Category, Domain

__all__ = ["BY_NAME", "Events", "Texts", "events_of"]

I64 = NDArray[np.int64]

BY_NAME = -1
"""Category of events that are classified by their name."""

_RUNTIME_STARTS = ("hip", "cu", "hsa_")
_COUNTS = ("flops", "bytes_accessed", "bytes_allocated")


class Texts:
    """Texts by number, each kept once."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._place: dict[str, int] = {}

    def number(self, text: str) -> int:
        """Number of a text, given on first use."""
        at = self._place.setdefault(text, len(self.all))
        if at == len(self.all):
            self.all.append(text)
        return at

    def numbers(self, texts: list[str]) -> I64:
        """Numbers of texts; -1 for those that are empty, and one -1 more, for positions of -1."""
        return np.array([*(self.number(text) if text else -1 for text in texts), -1], np.int64)


@dataclass
class Events:
    """Events as parallel arrays; numbers are -1 (``producer``, ``consumer``, ``run``: MISSING) where not known.

    ``op`` and ``text`` are numbers of the HLO instruction's name and of its full text; ``at`` and ``size`` say where the
    event's bytes lie, ``plane`` in which plane; ``allocated`` is the memory in use that an instant reports.
    """

    name: I64
    start: I64
    dur: I64
    category: I64
    domain: I64
    lane: I64
    device: I64
    correlation: I64
    op: I64
    text: I64
    program: I64
    run: I64
    flops: I64
    accessed: I64
    allocated: I64
    producer_kind: I64
    producer: I64
    consumer_kind: I64
    consumer: I64
    plane: I64
    at: I64
    size: I64
    line: I64
    ordinal: I64

    def __len__(self) -> int:
        return len(self.name)

    def of(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Events:
        """Some of the events."""
        return Events(**{entry.name: getattr(self, entry.name)[rows] for entry in fields(self)})

    @classmethod
    def joined(cls, parts: list[Events]) -> Events:
        """The events of all parts, in order."""
        empty = np.zeros(0, np.int64)
        return cls(
            **{
                entry.name: np.concatenate([empty, *(getattr(part, entry.name) for part in parts)])
                for entry in fields(cls)
            }
        )


@dataclass
class _Kinds:
    """What the events of each metadata entry of a plane have in common."""

    names: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    ops: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, plane: PlaneTable) -> _Kinds:
        """A display name wins over a name that is a whole HLO instruction."""
        found = cls()
        metadata = plane.proto.event_metadata
        for number in plane.kinds[0]:
            known = number in metadata
            full = text_of(metadata[number].name) if known else f"event {number}"
            shown = text_of(metadata[number].display_name) if known else ""
            whole = full.startswith("%")
            found.names.append(shown if shown and whole else full)
            found.texts.append(full if whole else "")
            found.ops.append(shown if whole else "")
        return found


def events_of(plane: PlaneTable, number: int, names: Texts, ops: Texts, texts: Texts) -> Events:
    """All events of a plane, on no lane yet and as host work.

    Args:
        plane: the plane.
        number: which plane of the space it is.
        names: where names of events are kept.
        ops: where names of HLO instructions are kept.
        texts: where the text of HLO instructions is kept.
    """
    kinds = _Kinds.of(plane)
    kind, table = plane.kinds[1], plane.events
    stamps = np.array([*(line.timestamp_ns for line in plane.lines), 0], np.int64)
    begin = table[:, EVENT.OFFSET] // 1000
    end = (table[:, EVENT.OFFSET] + np.maximum(table[:, EVENT.DURATION], 0)) // 1000
    step = plane.integers("step_num")
    name = np.array([*map(names.number, kinds.names), -1], np.int64)[kind]
    correlation = _known(plane.integers("correlation_id"))
    stated, of_event = plane.texts("hlo_op")
    op = ops.numbers(list(stated))[of_event]
    op = np.where(op >= 0, op, ops.numbers(kinds.ops)[kind])
    flops, accessed, allocated = (_known(plane.integers(stat)) for stat in _COUNTS)
    return Events(
        name=_with_steps(name, step, names), start=stamps[table[:, EVENT.LINE]] + begin, dur=np.maximum(end - begin, 0),
        category=_categories(kinds, kind, correlation, step), domain=np.full(len(kind), Domain.HOST, np.int64),
        lane=np.full(len(kind), -1, np.int64), device=np.full(len(kind), -1, np.int64), correlation=correlation,
        op=op, text=texts.numbers(kinds.texts)[kind], program=_known(plane.integers("program_id")),
        run=plane.integers("run_id"), flops=flops, accessed=accessed, allocated=allocated,
        producer_kind=plane.integers("_pt"), producer=plane.integers("_p"),
        consumer_kind=plane.integers("_ct"), consumer=plane.integers("_c"),
        plane=np.full(len(kind), number, np.int64), at=table[:, EVENT.START],
        size=table[:, EVENT.STOP] - table[:, EVENT.START], line=table[:, EVENT.LINE],
        ordinal=np.maximum(_known(plane.integers("device_ordinal")), 0),
    )  # fmt: skip


def _known(values: I64) -> I64:
    """Counts and ids: -1 where missing or negative."""
    return np.maximum(values, -1)


def _with_steps(name: I64, step: I64, names: Texts) -> I64:
    """Names of step markers with the number of the step."""
    steps = np.array([text in STEP_NAMES for text in names.all] + [False])
    rows = np.flatnonzero((step != MISSING) & steps[name])
    if not len(rows):
        return name
    pairs, which = np.unique(np.stack((name[rows], step[rows])), axis=1, return_inverse=True)
    renamed = np.array([names.number(f"{names.all[one]} {two}") for one, two in pairs.T.tolist()], np.int64)
    name = name.copy()
    name[rows] = renamed[which.reshape(-1)]
    return name


def _categories(kinds: _Kinds, kind: I64, correlation: I64, step: I64) -> I64:
    python, runtime = (
        np.array([*(text.startswith(starts) for text in kinds.names), False])[kind] for starts in ("$", _RUNTIME_STARTS)
    )
    found = np.where(step != MISSING, Category.ANNOTATION, Category.HOST_OP)
    found = np.where(runtime & (correlation >= 0), Category.RUNTIME, found)
    return np.where(python, Category.PYTHON, found).astype(np.int64)
