"""Chakra JSON: a list of the messages of a ``.et`` file in protobuf's JSON form, so valid JSON.

Field names, 64-bit integers as text and defaults left out are as Chakra's ``chakra_jsonizer`` prints them; it prints
the messages one after the other, which no JSON parser reads.
"""

from __future__ import annotations

import gzip
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from chakra_core.schema import NodeKind
from chakra_core.writers.attributes import member_of
from chakra_core.writers.base import Rank, Writer
from chakra_core.writers.chakra_et import SCHEMA, NodeFacts, node_facts, run_facts
from chakra_core.writers.files import replacing

__all__ = ["WRITER"]

_LONG = frozenset({"int64_val", "uint64_val", "int64_list", "uint64_list"})


def _write(ranks: Sequence[Rank], path: Path, compress: bool) -> None:
    (rank,) = ranks
    with replacing(path) as file:
        if compress:
            with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as out:
                for line in _lines(rank):
                    out.write(line)
        else:
            for line in _lines(rank):
                file.write(line)


def _lines(rank: Rank) -> Iterator[bytes]:
    facts = run_facts(rank.trace, rank.assumptions)
    metadata = {"version": SCHEMA, "attr": [_attribute(name, value) for name, value in facts.items()]}
    yield b"[\n" + msgspec.json.encode(metadata)
    for node in node_facts(rank.trace, rank.stated):
        yield b",\n" + msgspec.json.encode(_node(node))
    yield b"\n]\n"


def _node(node: NodeFacts) -> dict[str, Any]:
    inputs = {key: text for key, text in zip(("values", "shapes", "types"), node.inputs, strict=True) if text}
    fields: dict[str, Any] = {
        "id": str(node.id) if node.id else None,
        "name": _text(node.name),
        "type": f"{NodeKind(node.kind).name}_NODE" if node.kind in set(NodeKind) else node.kind,
        "ctrlDeps": [str(entry) for entry in node.ctrl_deps],
        "dataDeps": [str(entry) for entry in node.data_deps],
        "startTimeMicros": str(node.start_us) if node.start_us else None,
        "durationMicros": str(node.dur_us) if node.dur_us else None,
        "inputs": {key: _text(text) for key, text in inputs.items()},
        "attr": [_attribute(name, value) for name, value in node.attributes.items()],
    }
    return {key: value for key, value in fields.items() if value not in (None, "", [], {})}


def _attribute(name: str, value: Any) -> dict[str, Any]:
    member, plain = member_of(name, value)
    words = member.split("_")
    key = words[0] + words[1].capitalize()
    if member.endswith("_list"):
        return {"name": _text(name), key: {"values": [_scalar(member, entry) for entry in plain]}}
    return {"name": _text(name), key: _scalar(member, plain)}


def _scalar(member: str, value: Any) -> Any:
    if member in _LONG:
        return str(int(value))
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    return value


def _text(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


WRITER = Writer("json", "Chakra JSON, one file per rank (field names of chakra_jsonizer)", ".json", _write)
