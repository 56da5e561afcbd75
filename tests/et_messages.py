"""Chakra messages as the official schema lays them out, built without this package: an oracle for reader and writer."""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_SCALARS = {"double": 1, "int32": 5, "int64": 3, "uint64": 4, "bool": 8, "string": 9}
_LISTS = {"double": 4, "int32": 8, "int64": 10, "uint64": 14, "bool": 28, "string": 30}


@cache
def messages() -> dict[str, Any]:
    """Message classes ``Node``, ``GlobalMetadata``, ``AttributeProto`` and ``IOInfo`` by name."""
    file = descriptor_pb2.FileDescriptorProto(name="et_oracle.proto", package="et_oracle", syntax="proto3")
    for kind in _LISTS:
        _message(file, f"{kind}List", [("values", 1, kind, True)])
    attribute = _message(file, "AttributeProto", [("name", 1, "string", False), ("doc_string", 2, "string", False)])
    attribute.oneof_decl.add(name="value")
    for kind, number in _LISTS.items():
        _field(attribute, f"{kind}_val", number - 1, kind, repeated=False).oneof_index = 0
        _field(attribute, f"{kind}_list", number, f"{kind}List", repeated=False).oneof_index = 0
    _message(file, "GlobalMetadata", [("version", 1, "string", False), ("attr", 2, "AttributeProto", True)])
    _message(file, "IOInfo", [(name, at, "string", False) for at, name in enumerate(("values", "shapes", "types"), 1)])
    _message(
        file,
        "Node",
        [
            ("id", 1, "uint64", False),
            ("name", 2, "string", False),
            ("type", 3, "int32", False),
            ("ctrl_deps", 4, "uint64", True),
            ("data_deps", 5, "uint64", True),
            ("start_time_micros", 6, "uint64", False),
            ("duration_micros", 7, "uint64", False),
            ("inputs", 8, "IOInfo", False),
            ("outputs", 9, "IOInfo", False),
            ("attr", 10, "AttributeProto", True),
        ],
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    names = ("Node", "GlobalMetadata", "AttributeProto", "IOInfo")
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"et_oracle.{name}")) for name in names}


def _message(file: Any, name: str, fields: list[tuple[str, int, str, bool]]) -> Any:
    message = file.message_type.add(name=name)
    for field in fields:
        _field(message, *field[:3], repeated=field[3])
    return message


def _field(message: Any, name: str, number: int, kind: str, *, repeated: bool) -> Any:
    field = message.field.add(name=name, number=number, label=3 if repeated else 1)
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type, field.type_name = 11, f".et_oracle.{kind}"
    return field


def split(content: bytes) -> list[bytes]:
    """The length-prefixed records of a file."""
    records, at = [], 0
    while at < len(content):
        size = shift = 0
        while True:
            byte = content[at]
            at += 1
            size |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        records.append(content[at : at + size])
        assert len(records[-1]) == size
        at += size
    return records


def parse(content: bytes) -> tuple[Any, list[Any]]:
    """The metadata and the nodes of a file."""
    first, *rest = split(content)
    return messages()["GlobalMetadata"].FromString(first), [messages()["Node"].FromString(record) for record in rest]


def attributes(message: Any) -> dict[str, tuple[str, Any]]:
    """Type and value of each attribute of a node or the metadata."""
    found = {}
    for entry in message.attr:
        member = entry.WhichOneof("value")
        value = getattr(entry, member)
        found[entry.name] = (member, list(value.values) if member.endswith("_list") else value)
    return found
