"""What an XLA module says about its instructions: operands, collectives, sizes.

Field numbers and the numbering of element types are those of OpenXLA's ``hlo.proto`` and ``xla_data.proto``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from google.protobuf.message import DecodeError

from chakra_core.readers.proto import xplane_pb2
from chakra_core.schema import Category, CommOp

__all__ = ["Collective", "HloModule", "collective_from_text", "parse_module"]

_COLLECTIVES = {
    "all-reduce": CommOp.ALL_REDUCE,
    "all-gather": CommOp.ALL_GATHER,
    "reduce-scatter": CommOp.REDUCE_SCATTER,
    "all-to-all": CommOp.ALL_TO_ALL,
    "ragged-all-to-all": CommOp.ALL_TO_ALL,
    "collective-permute": CommOp.PERMUTE,
    "collective-broadcast": CommOp.BROADCAST,
    "send": CommOp.SEND,
    "recv": CommOp.RECV,
}
_WORK = {
    "convolution": Category.CONVOLUTION, "dot": Category.GEMM, "ragged-dot": Category.GEMM,
    "reduce": Category.REDUCTION, "reduce-window": Category.REDUCTION, "sort": Category.REDUCTION,
    "scatter": Category.EMBEDDING, "gather": Category.EMBEDDING,
}  # fmt: skip
_ELEMENT_BITS = {
    1: 8, 2: 8, 3: 16, 4: 32, 5: 64, 6: 8, 7: 16, 8: 32, 9: 64, 10: 16, 11: 32, 12: 64, 15: 64, 16: 16, 18: 128,
    19: 8, 20: 8, 21: 4, 22: 4, 23: 8, 24: 8, 25: 8, 26: 2, 27: 2, 28: 8, 29: 8,
}  # fmt: skip
_NAMED_BITS = {
    "pred": 8, "s4": 4, "u4": 4, "s8": 8, "u8": 8, "s16": 16, "u16": 16, "f16": 16, "bf16": 16, "s32": 32, "u32": 32,
    "f32": 32, "s64": 64, "u64": 64, "f64": 64, "c64": 64, "c128": 128,
}  # fmt: skip
_SHAPE_TEXT = re.compile(r"\b(pred|bf16|f8\w*|[suf]\d+|c64|c128)\[([\d,]*)\]")
_GROUPS_TEXT = re.compile(r"replica_groups=\{((?:\{[\d,]*\},?)*)\}")
_IOTA_TEXT = re.compile(r"replica_groups=\[(\d+),(\d+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_MAX_MEMBERS = 1_000_000


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective instruction: operation, bytes as nccl-tests counts them, and the groups that run it."""

    op: CommOp
    bytes: int
    groups: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class HloModule:
    """The entry computation of a module, by instruction name; ``works`` says what its instructions compute, if they do."""

    name: str
    works: Mapping[str, Category]
    operands: Mapping[str, tuple[str, ...]]
    controls: Mapping[str, tuple[str, ...]]
    collectives: Mapping[str, Collective]


def parse_module(data: bytes) -> HloModule | None:
    """Decode a serialised HloProto; None where the bytes are not one."""
    proto = xplane_pb2.HloProto()
    try:
        proto.ParseFromString(data)
    except DecodeError:
        return None
    module = proto.hlo_module
    entry = [part for part in module.computations if part.id == module.entry_computation_id] or list(
        module.computations
    )
    if not entry:
        return None
    instructions = [step for part in module.computations for step in part.instructions]
    name_of = {step.id: _text(step.name) for step in instructions}
    body = entry[0].instructions
    return HloModule(
        name=_text(module.name),
        works=_works(module.computations, instructions),
        operands={_text(step.name): _names(step.operand_ids, name_of) for step in body},
        controls={_text(step.name): _names(step.control_predecessor_ids, name_of) for step in body},
        collectives={_text(step.name): found for step in instructions if (found := _collective(step)) is not None},
    )


def _works(computations: Any, instructions: list[Any]) -> dict[str, Category]:
    """What instructions compute, by name; a fusion computes the heaviest of what it contains."""
    inside = {part.id: {_text(step.opcode) for step in part.instructions} for part in computations}
    found: dict[str, Category] = {}
    for step in instructions:
        opcode = _text(step.opcode)
        opcodes = {opcode}
        if opcode == "fusion":
            opcodes = opcodes.union(*(inside.get(number, ()) for number in step.called_computation_ids))
        kind = next((category for name, category in _WORK.items() if name in opcodes), None)
        if kind is not None:
            found[_text(step.name)] = kind
    return found


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _names(ids: Any, name_of: Mapping[int, str]) -> tuple[str, ...]:
    return tuple(name_of[number] for number in ids if number in name_of)


def _collective(step: Any) -> Collective | None:
    opcode = _text(step.opcode)
    op = _COLLECTIVES.get(opcode.removesuffix("-start"))
    if op is None:
        return None
    groups = tuple(tuple(group.replica_ids) for group in step.replica_groups)
    listed = step.collective_device_list
    groups = groups or tuple(tuple(group.replica_ids) for group in listed.replica_groups)
    iota = listed.iota_replica_group_list
    if not groups and iota.num_replica_groups:
        groups = _iota(
            iota.num_replica_groups, iota.num_devices_per_group,
            tuple(iota.iota_reshape_dims), tuple(iota.iota_transpose_perm),
        )  # fmt: skip
    if not groups and step.source_target_pairs:
        groups = (tuple(sorted({end for pair in step.source_target_pairs for end in (pair.source, pair.target)})),)
    size = _shape_bytes(step.shape)
    if opcode == "all-gather-start" and step.shape.tuple_shapes:
        size = _shape_bytes(step.shape.tuple_shapes[-1])
    return Collective(op, _total(op, size, groups), groups)


def _total(op: CommOp, result_bytes: int, groups: tuple[tuple[int, ...], ...]) -> int:
    """Bytes by nccl-tests' convention from those of the result: a reduce-scatter's input is n times its output."""
    return result_bytes * max(len(groups[0]), 1) if op == CommOp.REDUCE_SCATTER and groups else result_bytes


def _shape_bytes(shape: Any) -> int:
    if shape.tuple_shapes:
        return sum(_shape_bytes(part) for part in shape.tuple_shapes)
    count = 1
    for size in shape.dimensions:
        count *= max(int(size), 0)
    return count * _ELEMENT_BITS.get(shape.element_type, 0) // 8


def _iota(count: int, per_group: int, dims: tuple[int, ...], perm: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Replica groups in iota form: reshape 0..n-1 to ``dims``, transpose by ``perm``, split into ``count`` groups."""
    total = 1
    for size in dims:
        total *= size
    if (
        total != count * per_group
        or not 0 < total <= _MAX_MEMBERS
        or sorted(perm or range(len(dims))) != list(range(len(dims)))
    ):
        return ()
    order = perm or tuple(range(len(dims)))
    strides = [1] * len(dims)
    for at in range(len(dims) - 2, -1, -1):
        strides[at] = strides[at + 1] * dims[at + 1]
    flat = [
        sum(index * strides[axis] for index, axis in zip(position, order, strict=True))
        for position in product(*(range(dims[axis]) for axis in order))
    ]
    return tuple(tuple(flat[at : at + per_group]) for at in range(0, total, per_group))


def collective_from_text(text: str) -> Collective | None:
    """The collective that an HLO instruction in text form is, or None: TPU profiles name events by that text."""
    result, _, rest = text.partition(" = ")
    del result
    match = re.search(r"(?:^|\s|\))([a-z][a-z0-9-]*)\(", rest)
    op = _COLLECTIVES.get(match[1].removesuffix("-start")) if match else None
    if op is None or match is None:
        return None
    size = 0
    for kind, dims in _SHAPE_TEXT.findall(rest[: match.start(1)]):
        count = 1
        for part in dims.split(","):
            count *= int(part) if part else 1
        size += count * _NAMED_BITS.get(kind, 8) // 8
    groups: tuple[tuple[int, ...], ...] = ()
    if listed := _GROUPS_TEXT.search(rest):
        groups = tuple(
            tuple(int(part) for part in group.split(",") if part) for group in re.findall(r"\{([\d,]*)\}", listed[1])
        )
    elif iota := _IOTA_TEXT.search(rest):
        perm = tuple(int(part) for part in (iota[4] or "").split(",") if part)
        groups = _iota(int(iota[1]), int(iota[2]), tuple(int(part) for part in iota[3].split(",")), perm)
    return Collective(op, _total(op, size, groups), groups)
