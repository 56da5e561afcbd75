"""Chakra execution traces (``.et``, ``.eg``): varint-framed protobuf messages of every schema, 0.0.1 to 1.0.0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from chakra_core.errors import CorruptTrace
from chakra_core.readers import _et_layouts as layouts
from chakra_core.readers._et_frames import Frames, split_frames
from chakra_core.readers._et_table import NodeTable, Scanned, TableBuilder, make_trace
from chakra_core.readers._kineto_text import EventText, read_blocks
from chakra_core.readers.base import Packed, Source
from chakra_core.schema import Severity
from chakra_core.trace import HealthFinding, Trace

__all__ = ["READER", "ChakraEtReader", "restore_attributes"]

_KNOWN_SCHEMAS = ("0.0.1", "0.0.2", "0.0.3", "0.0.4", "1.0.0", "1.0.1", "1.0.2", "1.0.3", "1.1.0", "1.1.1", "symbolic")


_SAMPLE = 96
_HEAD = 4 * 1024 * 1024
_SCAN_FROM = 256 * 1024


class ChakraEtReader:
    """Reads Chakra execution traces."""

    name = "chakra-et"
    description = "Chakra execution trace (.et, .eg), schema 0.0.1 to 1.0.0"
    suffixes = (".et", ".eg")

    def sniff(self, head: bytes, name: str) -> float:
        """Sure where the first frames are messages that some layout explains."""
        named = name.endswith(self.suffixes)
        frames = split_frames(head)
        sample = [head[at : at + size] for at, size in frames.spans[:32]]
        if not sample:
            return 0.4 if named and frames.ends_inside else 0.0
        try:
            facts = layouts.metadata_facts(sample[0])
            nodes = sample if facts is None else sample[1:]
            layout = layouts.choose_layout(nodes)
            for raw in nodes:
                layout.decode(raw)
        except (DecodeError, ValueError):
            return 0.0
        if not nodes:
            return 0.6 if named or (facts and ("schema" in facts or "version" in facts)) else 0.0
        return 0.9 if named else 0.7 if facts and ("schema" in facts or "version" in facts) else 0.0

    def __init__(self, scan_from: int = _SCAN_FROM) -> None:
        """Files of at least ``scan_from`` bytes, those beside them counted, go through the compiled scanner.

        Smaller ones go through protobuf, as loading the compiled code would take longer than reading them.
        """
        self.scan_from = scan_from

    def read(self, source: Source) -> Sequence[Trace]:
        """Read one rank.

        Raises:
            CorruptTrace: not one node could be decoded.
        """
        text = EventText(source.path, compressed=bool(source.compression))
        found = self._scan(source, text) if self._scans(source) else None
        found = found or _decode(source, text)
        table, facts = found.scanned.table, found.facts
        if not len(table) and (found.scanned.records or facts is None):
            raise CorruptTrace(f"{source.path}: no Chakra node in it can be decoded")
        health = _findings(found.scanned)
        schema = _schema(facts, found.layout, health)
        trace = make_trace(
            table, path=source.path, format_name=self.name, schema=schema, facts=facts or {}, health=health,
            attributes_of=_Attributes(text, found.scanned.offsets, found.scanned.sizes, found.layout), events=found.scanned.records,
        )  # fmt: skip
        return [trace]

    def _scans(self, source: Source) -> bool:
        return source.size * source.siblings >= self.scan_from

    def _scan(self, source: Source, text: EventText) -> _Found | None:
        """Read by the compiled scanner; None where the layout is an old one or cannot be told from the head."""
        with source.open() as stream:
            head = bytearray()
            for block in read_blocks(stream, []):
                head += block
                if len(head) >= _HEAD:
                    break
        frames = split_frames(head, _SAMPLE + 1)
        if len(frames.spans) <= _SAMPLE and len(head) >= _HEAD:
            return None
        facts, first = _facts(head, frames)
        layout = _layout(head, frames.spans[first:])
        if layout.schema != "0.0.4" or not frames.spans:
            return None
        from chakra_core.readers._et_columns import scan_file

        scanned = scan_file(source, text, first_is_node=first == 0, decode=layout.decode)
        return _Found(scanned, facts, layout)


@dataclass(frozen=True, slots=True)
class _Found:
    """A file's nodes, its metadata and its layout."""

    scanned: Scanned
    facts: dict[str, Any] | None
    layout: layouts.Layout


@dataclass(frozen=True, slots=True)
class _Attributes:
    """Decodes the attributes of single nodes from where they stand in the file."""

    text: EventText
    offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]
    layout: layouts.Layout

    def __call__(self, row: int) -> dict[str, Any]:
        """Everything the file says about the node in a row; nothing where the file has been changed since."""
        at, size = int(self.offsets[row]), int(self.sizes[row])
        raw = self.text.read(at, size)
        return _attributes(self.layout.decode(raw)) if len(raw) == size else {}

    def pack(self) -> Packed:
        """This source, to be kept."""
        arrays = {"offsets": self.offsets, "sizes": self.sizes, **self.text.packed()}
        return Packed(__name__, {"schema": self.layout.schema}, arrays)


def restore_attributes(path: Path, params: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> _Attributes:
    """A kept source made again."""
    text = EventText.restored(path, arrays)
    layout = next(layout for layout in layouts.LAYOUTS if layout.schema == params["schema"])
    return _Attributes(text, arrays["offsets"], arrays["sizes"], layout)


def _layout(content: bytes | bytearray, spans: list[tuple[int, int]]) -> layouts.Layout:
    return layouts.choose_layout([bytes(content[at : at + size]) for at, size in spans[:_SAMPLE]])


def _decode(source: Source, text: EventText) -> _Found:
    """Read everything through protobuf, whatever the layout."""
    failures: list[Exception] = []
    parts = []
    with source.open() as stream:
        for block in read_blocks(stream, failures):
            text.add(block)
            parts.append(block)
    content = b"".join(parts)
    frames = split_frames(content)
    facts, first = _facts(content, frames)
    spans = frames.spans[first:]
    layout = _layout(content, spans)
    table, kept, bad = _decode_all(content, spans, layout)
    places = np.array(kept, np.int64).reshape(-1, 2)
    scanned = Scanned(
        table, places[:, 0], places[:, 1], bad, len(spans), frames.end, len(content), frames.ends_inside, failures
    )
    return _Found(scanned, facts, layout)


def _facts(content: Any, frames: Frames) -> tuple[dict[str, Any] | None, int]:
    """Metadata of the file, and the index of the first frame that is a node."""
    if not frames.spans:
        return None, 0
    at, size = frames.spans[0]
    facts = layouts.metadata_facts(bytes(content[at : at + size]))
    return facts, 0 if facts is None else 1


def _decode_all(
    content: bytes, spans: list[tuple[int, int]], layout: layouts.Layout
) -> tuple[NodeTable, list[tuple[int, int]], list[int]]:
    builder = TableBuilder()
    kept: list[tuple[int, int]] = []
    bad: list[int] = []
    for at, size in spans:
        try:
            record = layout.decode(content[at : at + size])
        except (DecodeError, ValueError):
            bad.append(at)
            continue
        kept.append((at, size))
        builder.add(
            record.id, record.name, record.kind, ctrl=record.ctrl, data=record.data, start_us=record.start_us,
            dur_us=record.dur_us, inputs=layouts.inputs_text(record), attributes=record.attributes,
        )  # fmt: skip
    return builder.build(), kept, bad


def _schema(facts: dict[str, Any] | None, layout: layouts.Layout, health: list[HealthFinding]) -> str:
    """The schema as the file states it, else the layout; a schema nobody knows is reported."""
    stated = str((facts or {}).get("schema") or (facts or {}).get("version") or "")
    if layout.schema != "0.0.4":
        return layout.schema
    if stated and not stated.startswith(_KNOWN_SCHEMAS):
        text = f"The file says its schema is {stated[:60]!r}, which is not known."
        health.append(HealthFinding("unknown-schema", Severity.WARNING, 1, text, "It is read with the 1.0.0 layout."))
    return stated or layout.schema


def _findings(scanned: Scanned) -> list[HealthFinding]:
    found = []
    if scanned.ends_inside or scanned.failures:
        text = f"The file ends inside a record at byte {scanned.end:,} of {scanned.size:,}: it is cut short or damaged there."
        if scanned.failures:
            text = f"Its compressed content ends early, after {scanned.size:,} bytes: {scanned.failures[0]}."
        found.append(
            HealthFinding("truncated", Severity.ERROR, 1, text, "What comes before is shown; write the file again.")
        )
    if scanned.bad:
        text = f"{len(scanned.bad):,} records cannot be decoded, the first at byte {scanned.bad[0]:,}."
        found.append(HealthFinding("damaged-record", Severity.WARNING, len(scanned.bad), text, "The others are shown."))
    return found


def _attributes(record: layouts.Record) -> dict[str, Any]:
    """Everything a record says, for the details of one node."""
    texts = {"inputs.values": record.values, "inputs.shapes": record.shapes, "inputs.types": record.types}
    depends = {"ctrl_deps": record.ctrl, "data_deps": record.data}
    return {**record.attributes, **{name: value for name, value in {**texts, **depends}.items() if value}}


READER = ChakraEtReader()
