"""Chakra traces as JSON: the jsonizer's concatenated documents, and the feeder's ``workload_graph``.

The jsonizer prints one document per message in protobuf's JSON form: camelCase names, 64-bit integers as strings,
default values left out (node 0 has no ``id``). A valid JSON list of the same objects reads too. The feeder's dialect
has plain keys (``Id``, ``Name``, ``NodeType``, ``data_deps``, ``ctrlDeps``, ``runtime`` in µs, ``is_cpu_op`` …).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from chakra_core.errors import CorruptTrace
from chakra_core.readers._et_shapes import SEPARATOR
from chakra_core.readers._et_table import TableBuilder, make_trace
from chakra_core.readers.base import Source
from chakra_core.schema import NodeKind, Severity
from chakra_core.trace import HealthFinding, Trace

__all__ = ["READER", "ChakraJsonReader"]

_KINDS = {f"{kind.name}_NODE": int(kind) for kind in NodeKind}
_FEEDER = (
    "is_cpu_op", "tensor_size", "comm_type", "comm_priority", "comm_size", "comm_src", "comm_dst", "comm_tag",
    "num_ops", "pg_name",
)  # fmt: skip
_COLLECTIVES = (
    "ALL_REDUCE", "REDUCE", "ALL_GATHER", "GATHER", "SCATTER", "BROADCAST", "ALL_TO_ALL", "REDUCE_SCATTER",
    "REDUCE_SCATTER_BLOCK", "BARRIER",
)  # fmt: skip
_NODE_SIGNS = re.compile(r'"(?:dataDeps|ctrlDeps|durationMicros|startTimeMicros)"|"type"\s*:\s*"\w+_NODE"')


class ChakraJsonReader:
    """Reads Chakra JSON in both dialects."""

    name = "chakra-json"
    description = "Chakra execution trace as JSON (jsonizer documents or feeder workload_graph)"
    suffixes = (".json",)

    def sniff(self, head: bytes, name: str) -> float:
        """Sure where the head shows the feeder's key, or a node as protobuf prints it."""
        del name
        text = head.decode("utf-8", "replace").lstrip("\ufeff \t\r\n[")
        if not text.startswith("{"):
            return 0.0
        if re.match(r'\{\s*"workload_graph"\s*:', text):
            return 0.95
        return 0.85 if _NODE_SIGNS.search(text) and '"traceEvents"' not in text else 0.0

    def read(self, source: Source) -> Sequence[Trace]:
        """Read one rank.

        Raises:
            CorruptTrace: there is no node in it.
        """
        text = source.read().decode("utf-8", "replace").lstrip("\ufeff")
        health: list[HealthFinding] = []
        documents = list(_documents(text, health))
        feeder = len(documents) == 1 and "workload_graph" in documents[0]
        if feeder:
            listed = documents[0]["workload_graph"]
            nodes = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
            facts: dict[str, Any] = {}
        else:
            facts = _facts(documents[0]) if documents and _is_metadata(documents[0]) else {}
            nodes = documents[1:] if documents and _is_metadata(documents[0]) else documents
        builder = TableBuilder()
        kept = [node for node in nodes if (_add_feeder if feeder else _add_jsonized)(builder, node)]
        if len(kept) < len(nodes):
            text = f"{len(nodes) - len(kept):,} objects are no nodes that make sense."
            health.append(
                HealthFinding("damaged-record", Severity.WARNING, len(nodes) - len(kept), text, "The others are shown.")
            )
        if not kept:
            raise CorruptTrace(f"{source.path}: holds no Chakra node")
        schema = "feeder" if feeder else str(facts.get("schema") or facts.get("version") or "jsonizer")
        trace = make_trace(
            builder.build(), path=source.path, format_name=self.name, schema=schema, facts=facts, health=health,
            attributes_of=lambda row: _attributes(kept[row]), events=len(documents) if not feeder else len(nodes),
        )  # fmt: skip
        return [trace]


def _documents(text: str, health: list[HealthFinding]) -> Iterator[dict[str, Any]]:
    """The objects in a text that holds one, a list of them, or one after the other; damage ends it with a finding."""
    decoder = json.JSONDecoder()
    at = 0
    while (start := re.compile(r"[\s,]*").match(text, at)) is not None and start.end() < len(text):
        try:
            value, at = decoder.raw_decode(text, start.end())
        except (ValueError, RecursionError) as error:
            where = getattr(error, "pos", start.end())
            line = text.count("\n", 0, where) + 1
            said = f"The text cannot be read from line {line:,} (character {where:,}) on."
            health.append(HealthFinding("truncated", Severity.ERROR, 1, said, "What comes before is shown."))
            return
        for entry in value if isinstance(value, list) else [value]:
            if isinstance(entry, dict):
                yield entry


def _is_metadata(document: Mapping[str, Any]) -> bool:
    return not {"id", "name", "type", "dataDeps", "ctrlDeps", "durationMicros"} & set(document)


def _facts(document: Mapping[str, Any]) -> dict[str, Any]:
    facts = _named(document)
    if "version" in document:
        facts.setdefault("version", document["version"])
    return facts


def _named(document: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes of a document by name; 64-bit integers are text there, so their kind decides."""
    found: dict[str, Any] = {}
    attributes = document.get("attr", [])
    for entry in attributes if isinstance(attributes, list) else []:
        if isinstance(entry, dict) and "name" in entry:
            values = [(key, value) for key, value in entry.items() if key not in ("name", "docString")]
            found[str(entry["name"])] = _plain(*values[0]) if values else None
    return found


def _plain(kind: str, value: Any) -> Any:
    if isinstance(value, dict):
        values = value.get("values", [])
        return [_plain(kind.replace("List", "Val"), entry) for entry in values] if isinstance(values, list) else None
    if isinstance(value, str) and re.fullmatch(r"(?:u?int|s?fixed|sint|sfixed)(?:32|64)Val", kind):
        return _whole(value)
    return value


def _whole(value: Any, default: int = 0) -> int:
    """An integer that may be written as text; ``default`` where it is none."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return int(value) if isinstance(value, str) and re.fullmatch(r"-?\d{1,20}", value) else default


def _deps(node: Mapping[str, Any], *keys: str) -> list[int]:
    for key in keys:
        if isinstance(listed := node.get(key), list):
            return [number for entry in listed if 0 <= (number := _whole(entry, -1)) < 2**64]
    return []


def _add_jsonized(builder: TableBuilder, node: Mapping[str, Any]) -> bool:
    kind = node.get("type", 0)
    node_id = _whole(node.get("id", 0), -1)
    if not 0 <= node_id < 2**64 or not isinstance(node.get("name", ""), str):
        return False
    inputs = node.get("inputs")
    shapes = str(inputs.get("shapes", "")) if isinstance(inputs, dict) else ""
    types = str(inputs.get("types", "")) if isinstance(inputs, dict) else ""
    builder.add(
        node_id, node.get("name", ""), _KINDS.get(kind, 0) if isinstance(kind, str) else _whole(kind),
        ctrl=_deps(node, "ctrlDeps"), data=_deps(node, "dataDeps"),
        start_us=_microseconds(node.get("startTimeMicros")), dur_us=_microseconds(node.get("durationMicros")),
        inputs=f"{shapes}{SEPARATOR}{types}" if shapes and shapes != "[]" else "", attributes=_named(node),
    )  # fmt: skip
    return True


def _microseconds(value: Any) -> int:
    return min(max(_whole(value), 0), 2**64 - 1)


def _add_feeder(builder: TableBuilder, node: Mapping[str, Any]) -> bool:
    node_id, name = _whole(node.get("Id"), -1), node.get("Name", "")
    if not 0 <= node_id < 2**64 or not isinstance(name, str):
        return False
    attributes = {key: _whole(node[key]) if key != "pg_name" else node[key] for key in _FEEDER if key in node}
    stated = node.get("comm_type")
    if isinstance(stated, str) and stated.upper() in _COLLECTIVES:
        attributes["comm_type"] = _COLLECTIVES.index(stated.upper())
    builder.add(
        node_id, name, _whole(node.get("NodeType")), ctrl=_deps(node, "ctrlDeps", "ctrl_deps"),
        data=_deps(node, "data_deps", "dataDeps"), dur_us=_microseconds(node.get("runtime")), attributes=attributes,
    )  # fmt: skip
    return True


def _attributes(node: Mapping[str, Any]) -> dict[str, Any]:
    shown = {key: value for key, value in node.items() if key not in ("attr", "name", "Name")}
    return {**shown, **_named(node)}


READER = ChakraJsonReader()
