"""Communication in PyTorch execution traces: ``record_param_comms`` inputs and attributes, process groups, backends."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from chakra_core.classify import comm_op_of
from chakra_core.readers._et_parse import EtNode
from chakra_core.readers._kineto_comm import dtype_bytes, message_bytes, peer_in
from chakra_core.schema import CommOp
from chakra_core.trace import ProcessGroup

__all__ = ["GROUP_INIT", "Collective", "ProcessGroups", "collective_of", "tensors_in"]

GROUP_INIT = "## process_group:init ##"
"""Name of the node that lists the process groups."""

_MAX_DEPTH = 8
_ADDRESS = 1 << 20


@dataclass
class ProcessGroups:
    """Process groups by name, and the backend numbers that traces before 1.0.3 call them by."""

    groups: list[ProcessGroup] = field(default_factory=list)
    place: dict[str, int] = field(default_factory=dict)
    addresses: list[int] = field(default_factory=list)

    def read(self, node: EtNode) -> None:
        """Take the groups from a ``process_group:init`` node (JSON text in its first input)."""
        values = node.ins()
        try:
            entries = json.loads(values[0]) if values and isinstance(values[0], str) else []
        except (ValueError, RecursionError):
            return
        for entry in entries if isinstance(entries, list) else []:
            if isinstance(entry, dict):
                ranks = entry.get("ranks")
                members = tuple(rank for rank in ranks if isinstance(rank, int)) if isinstance(ranks, list) else ()
                size = entry.get("group_size", -1)
                name = str(entry.get("pg_name", ""))
                at = self.add(name, members, str(entry.get("pg_desc", "")), size if isinstance(size, int) else -1)
                if "backend_id" in entry:
                    self.place.setdefault(str(entry["backend_id"]), at)

    def name_of_number(self, number: int) -> str:
        """What to call a group that is known by a number only.

        Before 1.0.3 that is the address of the backend object, which differs on every rank: addresses that no
        ``process_group:init`` node explains are called ``backend 0``, ``backend 1`` … in order of appearance.
        """
        if str(number) in self.place or number < _ADDRESS:
            at = self.place.get(str(number), -1)
            return self.groups[at].name if at >= 0 else str(number)
        if number not in self.addresses:
            self.addresses.append(number)
        return f"backend {self.addresses.index(number)}"

    def add(self, name: str, ranks: tuple[int, ...] = (), description: str = "", size: int = -1) -> int:
        """Index of the group with this name, made where it is new."""
        if name not in self.place:
            self.place[name] = len(self.groups)
            self.groups.append(ProcessGroup(name, ranks, description, size if size > 0 else len(ranks) or -1))
        return self.place[name]


@dataclass(frozen=True)
class Collective:
    """What a node says of the communication it records; -1 where it does not say."""

    op: CommOp
    bytes: int = -1
    group: int = -1
    peer: int = -1
    seq: int = -1


def collective_of(node: EtNode, groups: ProcessGroups) -> Collective | None:
    """The communication of a ``record_param_comms`` or backend node; None where it is none (``wait`` among them)."""
    if node.name != "record_param_comms":
        op = comm_op_of(node.name)
        if op is CommOp.NONE:
            return None
        sizes = _tensor_bytes(node.ins()[:1])
        whole = -1 if op in (CommOp.ALL_GATHER, CommOp.GATHER) else sizes
        return Collective(op, whole, -1, peer_in(node.name))
    values = node.ins()
    at = next((at for at, value in enumerate(values) if isinstance(value, str)), -1)
    name = str(node.attribute("collective_name") or (values[at] if at >= 0 else ""))
    if name in ("", "wait"):
        return None
    op = comm_op_of(name)
    return Collective(
        CommOp.UNKNOWN if op is CommOp.NONE else op,
        _size(op, node, values[0] if at >= 4 else None),
        _group(node, values[at - 2] if at >= 2 else None, groups),
        peer_in(name),
        _sequence(values[at - 3] if at >= 3 else None),
    )


def _size(op: CommOp, node: EtNode, tensors: Any) -> int:
    element = dtype_bytes(str(node.attribute("dtype", "")))
    counts = [node.attribute(key) for key in ("in_msg_nelems", "out_msg_nelems")]
    if element and isinstance(counts[0], int) and isinstance(counts[1], int):
        return message_bytes(op, counts[0], counts[1], element)
    if tensors is None:
        return -1
    return message_bytes(op, _tensor_bytes([tensors]), _tensor_bytes(node.outs()), 1)


def _group(node: EtNode, value: Any, groups: ProcessGroups) -> int:
    name = node.attribute("pg_name")
    description = str(node.attribute("pg_desc", ""))
    if not name and isinstance(value, list) and value:
        name, description = value[0], str(value[1]) if len(value) > 1 else ""
    elif not name and isinstance(value, int):
        name = groups.name_of_number(value)
    if name is None or name == "":
        return -1
    size = node.attribute("pg_size", -1)
    return groups.add(str(name), (), description, size if isinstance(size, int) else -1)


def _sequence(value: Any) -> int:
    if isinstance(value, list) and value:
        value = value[0]
    return value if isinstance(value, int) and 0 <= value < 2**62 else -1


def tensors_in(values: Sequence[Any], depth: int = 0) -> list[list[Any]]:
    """All tensors ``[id, storage, offset, elements, element bytes, device]`` in values, lists of them opened."""
    found: list[list[Any]] = []
    for value in values:
        if not isinstance(value, list) or depth > _MAX_DEPTH:
            continue
        if len(value) == 6 and isinstance(value[5], str) and isinstance(value[0], int):
            found.append(value)
        else:
            found.extend(tensors_in(value, depth + 1))
    return found


def _tensor_bytes(values: Sequence[Any]) -> int:
    tensors = tensors_in(values)
    if not tensors or not all(isinstance(tensor[3], int) and isinstance(tensor[4], int) for tensor in tensors):
        return -1
    total = sum(max(tensor[3], 0) * max(tensor[4], 0) for tensor in tensors)
    return total if total < 2**62 else -1
