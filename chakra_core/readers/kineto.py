"""Reader of PyTorch profiler (Kineto) traces, 2020 to now, and of plain Chrome trace-event JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakra_core.readers._kineto_text import EventText
from chakra_core.readers.base import Packed, Source
from chakra_core.trace import Trace

__all__ = ["READER", "KinetoReader", "restore_attributes"]

_EVENTS = re.compile(rb'"traceEvents"\s*:')
_KINETO_KEY = re.compile(rb'"(?:schemaVersion|deviceProperties|distributedInfo|baseTimeNanoseconds)"\s*:')
_PHASE = re.compile(rb'"ph"\s*:\s*"')


class KinetoReader:
    """Trace-event JSON: an object with ``traceEvents``, or a bare list; plain or compressed."""

    name = "kineto"
    description = "PyTorch profiler (Kineto) traces, and any Chrome trace-event JSON."
    suffixes = (".json", ".pt.trace.json", ".trace.json")

    def sniff(self, head: bytes, name: str) -> float:
        """Confidence (0..1) that the content is trace-event JSON."""
        del name
        text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
        if text[:1] == b"{":
            if _EVENTS.search(text):
                return 0.95
            return 0.3 if _KINETO_KEY.search(text) and len(head) >= 64 * 1024 else 0.0
        if text[:1] == b"[" and _PHASE.search(text):
            return 0.8
        return 0.0

    def read(self, source: Source) -> Sequence[Trace]:
        """Read the file into one Trace.

        Raises:
            CorruptTrace: it holds no list of trace events.
        """
        from chakra_core.readers._kineto_raw import read_events
        from chakra_core.readers._kineto_trace import assemble

        return (assemble(source, read_events(source)),)


class EventAttributes:
    """Decodes an event from its bytes when asked: its fields, then its arguments."""

    def __init__(
        self, text: EventText, spans: tuple[Any, Any], closing: Mapping[int, tuple[int, int]],
        numbers: Mapping[str, NDArray[np.int64]],
    ) -> None:  # fmt: skip
        self._text, self._closing, self._numbers = text, closing, numbers
        self._offsets, self._lengths = spans

    def __call__(self, row: int) -> dict[str, Any]:
        found = self._decode(int(self._offsets[row]), int(self._lengths[row]))
        if row in self._closing:
            for key, value in self._decode(*self._closing[row]).items():
                found.setdefault(key, value)
        return found

    def numbers(self, name: str) -> NDArray[np.int64] | None:
        """An integer argument of every row (``External id``, ``Record function id``), the lowest int64 where absent."""
        return self._numbers.get(name)

    def pack(self) -> Packed:
        """This source, to be kept."""
        closing = np.array([(row, *span) for row, span in self._closing.items()], np.int64).reshape(-1, 3)
        arrays = {"offsets": self._offsets, "lengths": self._lengths, "closing": closing, **self._text.packed()}
        arrays |= {f"number {name}": array for name, array in self._numbers.items()}
        return Packed(__name__, {}, arrays)

    def _decode(self, offset: int, length: int) -> dict[str, Any]:
        from chakra_core.readers._kineto_text import loads_tolerant

        data = self._text.read(offset, length)
        try:
            event = loads_tolerant(data)
        except ValueError:
            return {"raw": data[:4096].decode("utf-8", errors="replace")} if data else {}
        if not isinstance(event, dict):
            return {}
        args = event.pop("args", None)
        found = {key: _safe(event[key]) for key in event if key != "name"}
        for key, value in args.items() if isinstance(args, dict) else ():
            found[f"args.{key}" if key in found else key] = _safe(value)
        return found


def restore_attributes(path: Path, params: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> EventAttributes:
    """A kept source made again."""
    del params
    text = EventText.restored(path, arrays)
    closing = {row: (offset, length) for row, offset, length in arrays["closing"].tolist()}
    numbers = {name.removeprefix("number "): array for name, array in arrays.items() if name.startswith("number ")}
    return EventAttributes(text, (arrays["offsets"], arrays["lengths"]), closing, numbers)


def _safe(value: Any) -> Any:
    """The value with what JSON cannot hold (NaN, infinities) turned into text."""
    if isinstance(value, float) and not abs(value) < float("inf"):
        return str(value)
    if isinstance(value, list):
        return [_safe(entry) for entry in value]
    if isinstance(value, dict):
        return {str(key): _safe(entry) for key, entry in value.items()}
    return value


READER = KinetoReader()
