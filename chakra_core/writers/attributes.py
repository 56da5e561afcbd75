"""Values as typed attributes of a Chakra message: which member of the oneof each name and type takes.

Field numbers are those of ``AttributeProto`` in Chakra's ``schema/protobuf/et_def.proto``, schema 0.0.4 and 1.0.0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from chakra_core.writers.wire import Message

__all__ = ["KNOWN_TYPES", "attribute", "member_of"]

KNOWN_TYPES: Mapping[str, str] = {
    "is_cpu_op": "bool_val",
    "num_ops": "int64_val",
    "tensor_size": "uint64_val",
    "comm_type": "int64_val",
    "comm_size": "int64_val",
    "comm_priority": "int32_val",
    "comm_src": "int32_val",
    "comm_dst": "int32_val",
    "comm_tag": "int32_val",
    "pg_name": "string_val",
    "involved_dim": "bool_list",
}
"""Types that ASTRA-sim and Chakra's feeder read by name; every other attribute takes the type of its value."""

_NUMBERS: Mapping[str, int] = {
    "double_val": 3,
    "double_list": 4,
    "int32_val": 7,
    "int64_val": 9,
    "int64_list": 10,
    "uint64_val": 13,
    "bool_val": 27,
    "bool_list": 28,
    "string_val": 29,
    "string_list": 30,
    "json": 29,
}

_INT64 = range(-(2**63), 2**63)
_UINT64 = range(2**64)
_LIMITS: Mapping[str, range] = {"int32_val": range(-(2**31), 2**31), "int64_val": _INT64, "uint64_val": _UINT64}


def attribute(name: str, value: Any) -> Message:
    """An encoded ``AttributeProto``: by name where readers insist on a type, else by the value's own type.

    Integers are int64 (uint64 above its range); lists of one type become lists; anything else becomes JSON text. A
    value that does not fit the type its name asks for is written by its own type.
    """
    member, value = member_of(name, value)
    field = _NUMBERS[member]
    message = Message(_head(name))
    if member.endswith("_list"):
        message.content(field, _list(member, value))
    elif member == "string_val":
        message.text(field, value)
    elif member == "double_val":
        message.double(field, value)
    else:
        message.number(field, int(value))
    return message


def member_of(name: str, value: Any) -> tuple[str, Any]:
    """The member of the oneof that holds a value (``int64_val`` …), and the value as that member takes it."""
    asked = KNOWN_TYPES.get(name)
    member = asked if asked and _fits(asked, value) else _member(value)
    return ("string_val", json.dumps(value, ensure_ascii=False, default=str)) if member == "json" else (member, value)


@lru_cache(maxsize=1024)
def _head(name: str) -> bytes:
    message = Message()
    message.text(1, name)
    return bytes(message)


def _list(member: str, values: Sequence[Any]) -> Message:
    message = Message()
    if member == "double_list":
        message.doubles(1, values)
    elif member == "string_list":
        for value in values:
            message.text(1, value)
    else:
        message.numbers(1, map(int, values))
    return message


def _fits(member: str, value: Any) -> bool:
    if member == "string_val":
        return isinstance(value, str)
    if member == "bool_list":
        return isinstance(value, Sequence) and all(isinstance(entry, bool) for entry in value)
    if member == "bool_val":
        return isinstance(value, bool)
    return isinstance(value, int) and not isinstance(value, bool) and value in _LIMITS[member]


def _member(value: Any) -> str:
    if isinstance(value, bool):
        return "bool_val"
    if isinstance(value, int):
        return "int64_val" if value in _INT64 else "uint64_val" if value in _UINT64 else "json"
    if isinstance(value, float):
        return "double_val"
    if isinstance(value, str):
        return "string_val"
    if isinstance(value, list | tuple) and value:
        members = {_member(entry) for entry in value}
        member = members.pop() if len(members) == 1 else "json"
        listed = member.replace("_val", "_list") if member.endswith("_val") else "json"  # lists of lists are JSON
        return listed if listed in _NUMBERS else "json"
    return "json"
