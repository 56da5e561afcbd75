"""From a PyTorch execution trace file to its nodes: finds the list, cuts it at node boundaries, decodes each node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numba import njit

from chakra_core.errors import CorruptTrace
from chakra_core.readers import _kineto_json as js
from chakra_core.readers._kineto_text import EventText, loads_tolerant
from chakra_core.readers.base import Source

__all__ = ["EtFile", "EtNode", "read_nodes"]

_COMMA, _CLOSE_LIST = 44, 93


class EtAttribute(msgspec.Struct, gc=False):
    """One entry of a node's ``attrs``."""

    name: str = ""
    value: Any = None


class EtSide(msgspec.Struct, gc=False):
    """Inputs or outputs of a node in the nested layout."""

    values: list[Any] = []
    shapes: list[Any] = []
    types: list[Any] = []


class EtNode(msgspec.Struct, gc=False):
    """One node as it stands in the file; both layouts (flat 1.0.1, nested from 1.0.2) and linked device events."""

    id: int = -1
    name: str = ""
    parent: int | None = None
    ctrl_deps: int | None = None
    inputs: EtSide | list[Any] | None = None
    input_shapes: list[Any] | None = None
    input_types: list[Any] | None = None
    outputs: EtSide | list[Any] | None = None
    attrs: list[EtAttribute] | None = None
    rf_id: int = 0
    scope: int = 0
    tid: Any = 0
    seq_id: int = -1
    ts: Any = None
    dur: Any = None
    cat: str = ""
    args: Any = None

    def up(self) -> int | None:
        """Id of the parent (its own for the root)."""
        return self.parent if self.parent is not None else self.ctrl_deps

    def ins(self) -> list[Any]:
        """Input values."""
        return (self.inputs.values if isinstance(self.inputs, EtSide) else self.inputs) or []

    def outs(self) -> list[Any]:
        """Output values."""
        return (self.outputs.values if isinstance(self.outputs, EtSide) else self.outputs) or []

    def shapes(self) -> list[Any]:
        """Shapes of the inputs."""
        return (self.inputs.shapes if isinstance(self.inputs, EtSide) else self.input_shapes) or []

    def types(self) -> list[Any]:
        """Types of the inputs."""
        return (self.inputs.types if isinstance(self.inputs, EtSide) else self.input_types) or []

    def attribute(self, name: str, otherwise: Any = None) -> Any:
        """An attribute by name; in the flat layout a field that later became one."""
        if self.attrs is None:
            return {"rf_id": self.rf_id, "scope": self.scope, "tid": self.tid, "seq_id": self.seq_id}.get(
                name, otherwise
            )
        for entry in self.attrs:
            if entry.name == name:
                return entry.value
        return otherwise


@dataclass
class EtFile:
    """The nodes of a file with the byte range of each, what surrounds them, and what was damaged."""

    nodes: list[EtNode]
    spans: list[tuple[int, int]]
    meta: dict[str, Any]
    text: EventText
    truncated_at: int = -1
    damaged: int = 0


def read_nodes(source: Source) -> EtFile:
    """Read and decode every node.

    Raises:
        CorruptTrace: there is no list of nodes in it.
    """
    data = source.read()
    text = EventText(source.path, compressed=bool(source.compression))
    text.add(data)
    buffer = np.zeros(len(data) + js.PADDING, np.uint8)
    buffer[: len(data)] = np.frombuffer(data, np.uint8)
    words = js.words_of(buffer)
    start = _find_list(buffer, words, len(data))
    if start < 0:
        raise CorruptTrace(f"{source.path}: holds no list of nodes; is it complete?")
    spans, end, closed = _cut(buffer, words, start, len(data))
    file = EtFile([], [], _surroundings(data, start, end if closed else -1), text, -1 if closed else end)
    decoder = msgspec.json.Decoder(EtNode)
    for at, stop in spans.tolist():
        node = _decode(decoder, data[at:stop])
        if node is None:
            file.damaged += 1
        else:
            file.nodes.append(node)
            file.spans.append((at, stop - at))
    return file


def _decode(decoder: msgspec.json.Decoder[EtNode], data: bytes) -> EtNode | None:
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        entry = loads_tolerant(data)
        return msgspec.convert(entry, EtNode, strict=False) if isinstance(entry, dict) else None
    except (ValueError, msgspec.ValidationError):
        return None


def _find_list(buffer: Any, words: Any, end: int) -> int:
    """Position of the first element of the top-level list ``nodes``; -1 where there is none."""
    pos = int(js.skip_space(buffer, 0, end))
    if pos >= end or buffer[pos] != ord("{"):
        return -1
    complete = True
    pos += 1
    while True:
        pos = int(js.skip_space(buffer, pos, end))
        if pos < end and buffer[pos] == _COMMA:
            pos = int(js.skip_space(buffer, pos + 1, end))
        if pos >= end or buffer[pos] != ord('"'):
            return -1
        after = int(js.skip_string(buffer, words, pos, end))
        value = int(js.skip_space(buffer, js.skip_space(buffer, after, end) + 1, end)) if after > 0 else end
        if value >= end:
            return -1
        if buffer[pos:after].tobytes() == b'"nodes"' and buffer[value] == ord("["):
            return value + 1
        pos = int(js.skip_value(buffer, words, value, end, complete))
        if pos < 0:
            return -1


@njit(cache=True, nogil=True)
def _count(buf: Any, words: Any, pos: int, end: int, spans: Any) -> tuple[int, int, bool]:
    """Write the byte ranges of list elements to ``spans``; ``(count, position, whether the list ends there)``."""
    count, final = 0, False
    while True:
        pos = js.skip_space(buf, pos, end)
        if pos < end and buf[pos] == _COMMA:
            pos += 1
            continue
        if pos >= end:
            return count, pos, False
        if buf[pos] == _CLOSE_LIST:
            return count, pos + 1, True
        after = js.skip_value(buf, words, pos, end, final)
        if after < 0 or count >= len(spans):
            return count, pos, False
        spans[count, 0] = pos
        spans[count, 1] = after
        count += 1
        pos = after


def _cut(buffer: Any, words: Any, start: int, end: int) -> tuple[Any, int, bool]:
    spans = np.empty((max(16, (end - start) // 2), 2), np.int64)
    count, pos, closed = _count(buffer, words, start, end, spans)
    return spans[:count].copy(), pos, closed


def _surroundings(data: bytes, start: int, end: int) -> dict[str, Any]:
    """The keys beside the list (``end`` -1: the file ends inside it)."""
    before = data[:start].rstrip().removesuffix(b"[").rstrip().removesuffix(b":").rstrip().removesuffix(b'"nodes"')
    head = before.rstrip().removesuffix(b",")
    tail = data[end:].strip().removeprefix(b",") if end >= 0 else b""
    found: dict[str, Any] = {}
    for text in (head + b"}", b"{" + tail if tail else b"{}"):
        try:
            value = loads_tolerant(text)
        except ValueError:
            continue
        if isinstance(value, dict):
            found.update({str(key): entry for key, entry in value.items()})
    return found
