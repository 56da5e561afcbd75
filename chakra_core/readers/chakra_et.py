"""Chakra execution traces (``.et``, ``.eg``): varint-framed protobuf messages of every schema, 0.0.1 to 1.0.0."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from typing import Any

from google.protobuf.message import DecodeError

from chakra_core.errors import CorruptTrace
from chakra_core.readers import _et_layouts as layouts
from chakra_core.readers._et_frames import Frames, split_frames
from chakra_core.readers._et_shapes import SEPARATOR
from chakra_core.readers._et_table import NodeTable, TableBuilder, make_trace
from chakra_core.readers.base import Source
from chakra_core.schema import Severity
from chakra_core.trace import HealthFinding, Trace

__all__ = ["READER", "ChakraEtReader", "content_of"]

_KNOWN_SCHEMAS = ("0.0.1", "0.0.2", "0.0.3", "0.0.4", "1.0.0", "1.0.1", "1.0.2", "1.0.3", "1.1.0", "1.1.1", "symbolic")


def content_of(source: Source) -> bytes | mmap.mmap:
    """The file's bytes: mapped where it is plain, inflated into memory where it is compressed."""
    if source.compression or source.size == 0:
        return source.read()
    with source.path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


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

    def read(self, source: Source) -> Sequence[Trace]:
        """Read one rank.

        Raises:
            CorruptTrace: not one node could be decoded.
        """
        content = content_of(source)
        frames = split_frames(content)
        health = _frame_findings(frames, len(content))
        facts, first = _facts(content, frames)
        spans = frames.spans[first:]
        sample = [bytes(content[at : at + size]) for at, size in spans[:96]]
        layout = layouts.choose_layout(sample)
        table, kept = _decode_all(content, spans, layout, health)
        if not len(table) and (spans or facts is None):
            raise CorruptTrace(f"{source.path}: no Chakra node in it can be decoded")
        schema = _schema(facts, layout, health)

        def attributes(row: int) -> dict[str, Any]:
            at, size = kept[row]
            return _attributes(layout.decode(bytes(content[at : at + size])))

        trace = make_trace(
            table, path=source.path, format_name=self.name, schema=schema, facts=facts or {}, health=health,
            attributes_of=attributes, events=len(spans),
        )  # fmt: skip
        return [trace]


def _facts(content: Any, frames: Frames) -> tuple[dict[str, Any] | None, int]:
    """Metadata of the file, and the index of the first frame that is a node."""
    if not frames.spans:
        return None, 0
    at, size = frames.spans[0]
    facts = layouts.metadata_facts(bytes(content[at : at + size]))
    return facts, 0 if facts is None else 1


def _decode_all(
    content: Any, spans: list[tuple[int, int]], layout: layouts.Layout, health: list[HealthFinding]
) -> tuple[NodeTable, list[tuple[int, int]]]:
    builder = TableBuilder()
    kept: list[tuple[int, int]] = []
    bad: list[int] = []
    for at, size in spans:
        try:
            record = layout.decode(bytes(content[at : at + size]))
        except (DecodeError, ValueError):
            bad.append(at)
            continue
        kept.append((at, size))
        inputs = f"{record.shapes}{SEPARATOR}{record.types}" if record.shapes and record.shapes != "[]" else ""
        if "process_group:init" in record.name:
            inputs = record.values
        builder.add(
            record.id, record.name, record.kind, ctrl=record.ctrl, data=record.data, start_us=record.start_us,
            dur_us=record.dur_us, inputs=inputs, attributes=record.attributes,
        )  # fmt: skip
    if bad:
        text = f"{len(bad):,} records cannot be decoded, the first at byte {bad[0]:,}."
        health.append(HealthFinding("damaged-record", Severity.WARNING, len(bad), text, "The others are shown."))
    return builder.build(), kept


def _schema(facts: dict[str, Any] | None, layout: layouts.Layout, health: list[HealthFinding]) -> str:
    """The schema as the file states it, else the layout; a schema nobody knows is reported."""
    stated = str((facts or {}).get("schema") or (facts or {}).get("version") or "")
    if layout.schema != "0.0.4":
        return layout.schema
    if stated and not stated.startswith(_KNOWN_SCHEMAS):
        text = f"The file says its schema is {stated[:60]!r}, which is not known."
        health.append(HealthFinding("unknown-schema", Severity.WARNING, 1, text, "It is read with the 1.0.0 layout."))
    return stated or layout.schema


def _frame_findings(frames: Frames, size: int) -> list[HealthFinding]:
    if not frames.ends_inside:
        return []
    text = f"The file ends inside a record at byte {frames.end:,} of {size:,}: it is cut short or damaged there."
    return [HealthFinding("truncated", Severity.ERROR, 1, text, "What comes before is shown; write the file again.")]


def _attributes(record: layouts.Record) -> dict[str, Any]:
    """Everything a record says, for the details of one node."""
    texts = {"inputs.values": record.values, "inputs.shapes": record.shapes, "inputs.types": record.types}
    depends = {"ctrl_deps": record.ctrl, "data_deps": record.data}
    return {**record.attributes, **{name: value for name, value in {**texts, **depends}.items() if value}}


READER = ChakraEtReader()
