"""The message layouts that Chakra files have had, and how to tell by content which one a file has.

A file that parses without unknown fields proves nothing: some 0.0.4 files also parse as 0.0.3. So a sample of the
messages is scored under each layout: impossible fields count against it, names that agree with the node type for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError

from chakra_core.readers._et_shapes import SEPARATOR
from chakra_core.readers.proto import chakra_legacy_pb2 as legacy
from chakra_core.readers.proto import chakra_v1_pb2 as v1
from chakra_core.schema import NodeKind

__all__ = ["LAYOUTS", "Layout", "Record", "choose_layout", "inputs_text", "metadata_facts", "text_of"]

_SAMPLE = 96
_FEW = (4, 24)
_CLEAR = 24.0
"""Lead of the best layout over the second that settles it after the first few messages."""
_WORDS = (
    (re.compile(r"METADATA"), (NodeKind.METADATA,)),
    (re.compile(r"MEM_?LOAD"), (NodeKind.MEM_LOAD,)),
    (re.compile(r"MEM_?STORE"), (NodeKind.MEM_STORE,)),
    (re.compile(r"COMM_SEND"), (NodeKind.COMM_SEND,)),
    (re.compile(r"COMM_RECV"), (NodeKind.COMM_RECV,)),
    (re.compile(r"COMM_COLL|_X\dCOMM|ALL_?REDUCE|ALL_?GATHER|ALL_TO_ALL|REDUCE_?SCATTER"), (NodeKind.COMM_COLL,)),
    (re.compile(r"COMP"), (NodeKind.COMP,)),
)
_OLD_COLLECTIVES = {0: 0, 1: 6, 2: 2, 3: 7}
"""0.0.2 and 0.0.3 (all-reduce, all-to-all, all-gather, reduce-scatter) in today's numbering."""


@dataclass(slots=True)
class Record:
    """One decoded node, in today's numbering; times are whole µs."""

    id: int
    name: str
    kind: int
    ctrl: list[int]
    data: list[int]
    start_us: int
    dur_us: int
    shapes: str
    types: str
    values: str
    attributes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Layout:
    """One message layout: its schema's name, and its decoder (raises DecodeError or ValueError)."""

    schema: str
    decode: Callable[[bytes], Record]


def text_of(raw: bytes) -> str:
    """Text of the file; what is not UTF-8 is replaced."""
    return raw.decode("utf-8", "replace")


def inputs_text(record: Record) -> str:
    """What is interned of a node's inputs: shapes and types, or the values of the node that lists process groups."""
    if "process_group:init" in record.name:
        return record.values
    return f"{record.shapes}{SEPARATOR}{record.types}" if record.shapes and record.shapes != "[]" else ""


def value_of(attribute: Any) -> Any:
    """Value of a 1.0.0 attribute as plain Python: text decoded, lists as lists, None where it has none."""
    which = attribute.WhichOneof("value")
    if which is None:
        return None
    value = getattr(attribute, which)
    if which.endswith("_list"):
        return [text_of(entry) if isinstance(entry, bytes) else entry for entry in value.values]
    return text_of(value) if isinstance(value, bytes) else value


def metadata_facts(raw: bytes) -> dict[str, Any] | None:
    """Attributes of a GlobalMetadata message (and its ``version``); None where the bytes are a node.

    Raises:
        DecodeError: the bytes are neither.
    """
    if not _is_metadata(raw):
        return None
    message = v1.GlobalMetadata()
    try:
        message.ParseFromString(raw)
    except DecodeError:
        message = v1.GlobalMetadata()
    facts = {text_of(entry.name): value_of(entry) for entry in message.attr}
    if message.version:
        facts.setdefault("version", text_of(message.version))
    return facts


def _is_metadata(raw: bytes) -> bool:
    """Whether a message holds only length-delimited fields 1 and 2, the latter being attributes (not a name)."""
    if not raw:
        return True
    try:
        found = list(_fields(raw))
    except ValueError:
        return False
    if not all(number in (1, 2) and wire == 2 for number, wire, _ in found):
        return False
    return all(content[:1] == b"\n" for number, _, content in found if number == 2)


def _fields(raw: bytes) -> Iterable[tuple[int, int, bytes]]:
    """Top-level fields of a message as (number, wire type, content of length-delimited ones)."""
    at = 0
    while at < len(raw):
        tag, at = _varint(raw, at)
        wire, content = tag & 7, b""
        if wire == 0:
            _, at = _varint(raw, at)
        elif wire == 2:
            size, at = _varint(raw, at)
            content = raw[at : at + size]
            at += size
        elif wire in (1, 5):
            at += 8 if wire == 1 else 4
        else:
            raise ValueError(f"wire type {wire}")
        if at > len(raw) or tag >> 3 == 0:
            raise ValueError("field runs past the end of the message")
        yield tag >> 3, wire, content


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(raw) and shift < 70:
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError("unfinished number")


def _decode_v1(raw: bytes) -> Record:
    node = v1.Node()
    node.ParseFromString(raw)
    attributes = {text_of(entry.name): value_of(entry) for entry in node.attr}
    return Record(
        node.id, text_of(node.name), node.type, list(node.ctrl_deps), list(node.data_deps), node.start_time_micros,
        node.duration_micros, text_of(node.inputs.shapes), text_of(node.inputs.types), text_of(node.inputs.values),
        attributes,
    )  # fmt: skip


def _decode_flat(raw: bytes) -> Record:
    """0.0.1: METADATA did not exist, so every node type is one lower; collectives were numbered from 1."""
    node = legacy.FlatNode()
    node.ParseFromString(raw)
    attributes: dict[str, Any] = {
        name: getattr(node, name)
        for name in ("num_ops", "tensor_size", "comm_size", "comm_src", "comm_dst", "comm_tag", "comm_priority")
        if node.HasField(name)
    }
    if node.HasField("comm_type"):
        attributes["comm_type"] = {1: 0, 2: 6, 3: 2, 4: 7}.get(node.comm_type)
    if node.HasField("communicator_id"):
        attributes["pg_name"] = str(node.communicator_id)
    if node.involved_dim:
        attributes["involved_dim"] = list(node.involved_dim)
    kind = node.type + 1 if node.type > 0 else 0
    return Record(
        node.id, text_of(node.name), kind, [], list(node.parent), 0, node.simulated_run_time, "", "", "", attributes
    )


def _old_attributes(entries: Sequence[bytes], message: type[Any]) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    for raw in entries:
        entry = message()
        entry.ParseFromString(raw)
        name = text_of(entry.name)
        for single in ("b", "f", "u", "i", "s"):
            if single in entry.DESCRIPTOR.fields_by_name and entry.HasField(single):
                value = getattr(entry, single)
                attributes[name] = text_of(value) if isinstance(value, bytes) else value
        for several in ("bools", "floats", "uints", "ints", "strings"):
            if several in entry.DESCRIPTOR.fields_by_name and getattr(entry, several):
                values = list(getattr(entry, several))
                attributes[name] = [text_of(value) if isinstance(value, bytes) else value for value in values]
        attributes.setdefault(name, None)
    return attributes


def _text_decoder(message: type[Any], *, shift: int) -> Callable[[bytes], Record]:
    """Decoder of 0.0.2 (``shift`` 1: no METADATA type yet) and 0.0.3 (``shift`` 0)."""

    def decode(raw: bytes) -> Record:
        node = legacy.TextNode()
        node.ParseFromString(raw)
        attributes = _old_attributes(node.attribute, message)
        runtime = attributes.get("runtime", 0)
        stated = attributes.get("comm_type")
        if isinstance(stated, int):
            attributes["comm_type"] = _OLD_COLLECTIVES.get(stated)
        for old, new in (("src", "comm_src"), ("dst", "comm_dst"), ("size", "comm_size")):
            if old in attributes:
                attributes.setdefault(new, attributes[old])
        kind = node.type + shift if node.type > 0 else 0
        return Record(
            node.id, text_of(node.name), kind, [], list(node.parent), 0,
            max(runtime, 0) if isinstance(runtime, int) else 0,
            text_of(node.input_shapes), text_of(node.input_types), text_of(node.inputs), attributes,
        )  # fmt: skip

    return decode


LAYOUTS: tuple[Layout, ...] = (
    Layout("0.0.4", _decode_v1),
    Layout("0.0.3+uint64", _text_decoder(legacy.UnsignedAttribute, shift=0)),
    Layout("0.0.3", _text_decoder(legacy.Attribute, shift=0)),
    Layout("0.0.2", _text_decoder(legacy.Attribute, shift=1)),
    Layout("0.0.1", _decode_flat),
)
"""Newest first: of layouts that fit a file equally well, the newest is taken."""

_WIRE: dict[str, dict[int, int]] = {
    "0.0.4": {1: 0, 2: 2, 3: 0, 6: 0, 7: 0, 8: 2, 9: 2, 10: 2, 11: 2},
    "0.0.3+uint64": {1: 0, 2: 2, 3: 0, 5: 2, 6: 2, 7: 2, 8: 2, 9: 2, 10: 2, 11: 2},
    "0.0.1": {1: 0, 2: 2, 3: 0, **dict.fromkeys(range(5, 21), 0)},
}
_WIRE["0.0.3"] = _WIRE["0.0.2"] = _WIRE["0.0.3+uint64"]
_ATTRIBUTE_WIRE = {
    "0.0.3+uint64": {1: 2, 2: 0, 3: 2, 4: 0, 5: 5, 6: 0, 7: 0, 8: 2, 13: 2},
    "0.0.3": {1: 2, 2: 0, 3: 2, 4: 0, 5: 5, 6: 0, 7: 2, 11: 2},
}
_ATTRIBUTE_WIRE["0.0.2"] = _ATTRIBUTE_WIRE["0.0.3"]


def choose_layout(messages: Sequence[bytes]) -> Layout:
    """The layout under which a sample of node messages makes most sense."""
    sample = [raw for raw in messages if raw][:_SAMPLE]
    for few in _FEW:
        best, second, *_ = _ranked(sample[:few])
        if len(sample) <= few or best[0] - second[0] > _CLEAR:
            return best[1]
    return _ranked(sample)[0][1]


def _ranked(sample: Sequence[bytes]) -> list[tuple[float, Layout]]:
    """Every layout with its score, the best first."""
    scored = [(sum(_score(raw, layout) for raw in sample), layout) for layout in LAYOUTS]
    return sorted(scored, key=lambda entry: -entry[0])


def _score(raw: bytes, layout: Layout) -> float:
    try:
        fields = list(_fields(raw))
        record = layout.decode(raw)
    except (ValueError, DecodeError):
        return -4.0
    wires = _WIRE[layout.schema]
    score = 0.0
    for number, wire, content in fields:
        if number in (4, 5) and layout.schema == "0.0.4":
            continue
        if number in (4, 14) and number not in wires:
            continue
        if wires.get(number, 2 if number in (4, 14) else -1) != wire:
            score -= 3.0
        elif number == (10 if layout.schema == "0.0.4" else 11):
            score += _attribute_score(content, layout.schema)
    return score + _name_score(record)


def _attribute_score(content: bytes, schema: str) -> float:
    """How well one attribute's wire types fit: an attribute begins with its name."""
    try:
        fields = list(_fields(content))
    except ValueError:
        return -2.0
    if not fields or fields[0][:2] != (1, 2):
        return -2.0
    allowed = _ATTRIBUTE_WIRE.get(schema)
    if allowed is None:
        return 0.5 if all(number in (1, 2) or 3 <= number <= 32 for number, _, _ in fields) else -1.0
    return 0.5 if all(allowed.get(number, wire) == wire for number, wire, _ in fields) else -2.0


def _name_score(record: Record) -> float:
    if not 0 < record.kind <= NodeKind.COMM_COLL + 3:
        return -1.0
    for pattern, kinds in _WORDS:
        if pattern.search(record.name):
            return 2.0 if record.kind in kinds else -2.0
    return 0.25
