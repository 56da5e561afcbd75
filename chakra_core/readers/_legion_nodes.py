"""The nodes of a Legion profiler log: tasks, runtime work, calls, copies, fills and waits, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from chakra_core.readers._legion_format import LegionLog

__all__ = ["CALLS", "TASKS", "Nodes", "Part", "collect"]

I64 = NDArray[np.int64]

TASKS = ("TaskInfo", "ImplicitTaskInfo", "GPUTaskInfo")
"""Application tasks."""

_RUNTIME = ("MetaInfo", "MessageInfo")
_TRANSFERS = ("CopyInfo", "FillInfo")
CALLS = ("MapperCallInfo", "RuntimeCallInfo", "ApplicationCallInfo")
"""Records inside a task; their ``fevent`` is that of the task."""

_WAITS = (("TaskWaitInfo", TASKS, "task_id"), ("MetaWaitInfo", _RUNTIME, "lg_id"))
_PARTITION_OPS = (
    "union", "unions", "union reduction", "intersection", "intersections", "intersection reduction", "difference",
    "differences", "equal partition", "partition by field", "partition by image", "partition by image range",
    "partition by preimage", "partition by preimage range", "create association", "partition by weights",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Part:
    """The nodes of one record type. ``record`` is its name; arrays are parallel.

    ``place`` is a processor id, or for transfers a channel number; ``device`` marks nodes that are device work.
    ``finish``, ``creator`` and ``critical`` are events (0: none); ``inside`` is the event of the enclosing task.
    """

    record: str
    offsets: I64
    start: I64
    stop: I64
    place: I64
    labels: tuple[str, ...]
    label: I64
    finish: I64
    creator: I64
    critical: I64
    inside: I64
    op: I64
    size: I64
    device: bool = False


@dataclass(slots=True)
class Nodes:
    """All parts, and the channels (source memory, target memory) that transfers use; -1 where unknown."""

    parts: list[Part] = field(default_factory=list)
    channels: list[tuple[int, int]] = field(default_factory=list)


def collect(log: LegionLog) -> Nodes:
    """Every node of the log."""
    nodes = Nodes()
    tasks, metas = _task_names(log), _named(log, "MetaDesc", "runtime work")
    for record in (*TASKS, *_RUNTIME, "ProfTaskInfo", *CALLS, "PartitionInfo", *_TRANSFERS):
        n = len(log.where(record))
        if not n:
            continue
        if record in TASKS:
            labels, label = tasks.of(log.numbers(record, "task_id"), log.numbers(record, "variant_id"))
        elif record in _RUNTIME:
            labels, label = metas.of(log.numbers(record, "lg_id"))
        else:
            labels, label = _other_labels(log, record, n)
        place = _channels(log, record, nodes) if record in _TRANSFERS else log.numbers(record, "proc_id")
        part = _part(log, record, (labels, label), place)
        nodes.parts.append(part)
        if record == "GPUTaskInfo":
            nodes.parts.append(_on_device(log, part))
    for wait, of, key in _WAITS:
        if len(log.where(wait)):
            nodes.parts.append(_waits(log, wait, nodes.parts, of, key))
    return nodes


def _part(log: LegionLog, record: str, label: tuple[tuple[str, ...], I64], place: I64) -> Part:
    n = len(place)
    inside = record in CALLS
    nothing = np.zeros(n, np.int64)
    fevent = log.numbers(record, "fevent")
    return Part(
        record, log.where(record), log.numbers(record, "start"), log.numbers(record, "stop"), place, label[0], label[1],
        finish=nothing if inside else fevent, creator=log.numbers(record, "creator"),
        critical=log.numbers(record, "critical"), inside=fevent if inside else nothing,
        op=log.numbers(record, "op_id", -1), size=log.numbers(record, "size", -1),
    )  # fmt: skip


def _on_device(log: LegionLog, host: Part) -> Part:
    """The time a GPU task's kernels ran, as nodes of their own: they end the task, and the host part launched them."""
    nothing = np.zeros(len(host.start), np.int64)
    return Part(
        "GPUTaskInfo", host.offsets, log.numbers("GPUTaskInfo", "gpu_start"), log.numbers("GPUTaskInfo", "gpu_stop"),
        host.place, host.labels, host.label, host.finish, nothing, nothing, nothing, host.op, host.size, device=True,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Names:
    """Names by one or two numbers."""

    known: dict[tuple[int, ...], str]
    what: str

    def of(self, *keys: I64) -> tuple[tuple[str, ...], I64]:
        """Distinct labels and the number of each row's; an unknown one is called after its number."""
        distinct, code = _distinct(*keys)
        return tuple(self._name(key) for key in distinct), code

    def _name(self, key: tuple[int, ...]) -> str:
        return self.known.get(key) or self.known.get(key[:1]) or f"{self.what} {key[0]}"


def _distinct(*keys: I64) -> tuple[list[tuple[int, ...]], I64]:
    """The distinct combinations of parallel arrays, and which one each position has."""
    code = np.zeros(len(keys[0]), np.int64)
    for key in keys:
        values, inverse = np.unique(key, return_inverse=True)
        code = code * len(values) + inverse
    _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    return [tuple(int(key[at]) for key in keys) for at in first.tolist()], inverse.astype(np.int64)


def _named(log: LegionLog, record: str, what: str) -> _Names:
    """What description records call things, by their number."""
    numbers = log.first_number(record).tolist()
    known: dict[tuple[int, ...], str] = {
        (number,): name for number, name in zip(numbers, log.texts(record), strict=True)
    }
    return _Names(known, what)


def _task_names(log: LegionLog) -> _Names:
    """The task's own name; that of its variant where it has none."""
    kinds = _named(log, "TaskKind", "task").known
    tasks, variants = log.numbers("TaskVariant", "task_id"), log.numbers("TaskVariant", "variant_id")
    named = {key: name for key, name in kinds.items() if name}
    for task, variant, name in zip(tasks.tolist(), variants.tolist(), log.texts("TaskVariant"), strict=True):
        if (task,) not in named:
            named[task, variant] = name
    return _Names(named, "task")


def _other_labels(log: LegionLog, record: str, n: int) -> tuple[tuple[str, ...], I64]:
    if record == "MapperCallInfo":
        return _named(log, "MapperCallDesc", "mapper call").of(log.numbers(record, "kind"))
    if record == "RuntimeCallInfo":
        return _named(log, "RuntimeCallDesc", "runtime call").of(log.numbers(record, "kind"))
    if record == "ApplicationCallInfo":
        names = _named(log, "Provenance", "application call")
        return names.of(log.numbers(record, "provenance"))
    if record == "PartitionInfo":
        known: dict[tuple[int, ...], str] = {(at,): name for at, name in enumerate(_PARTITION_OPS)}
        return _Names(known, "partition operation").of(log.numbers(record, "part_op"))
    return ({"CopyInfo": "copy", "FillInfo": "fill"}.get(record, "profiling response"),), np.zeros(n, np.int64)


def _channels(log: LegionLog, record: str, nodes: Nodes) -> I64:
    """Channel of each transfer: the memories that its first instance record names."""
    instance = {"CopyInfo": "CopyInstInfo", "FillInfo": "FillInstInfo"}[record]
    event, first = np.unique(log.numbers(instance, "fevent"), return_index=True)
    pairs = np.stack((log.numbers(instance, "src", -1)[first], log.numbers(instance, "dst", -1)[first]))
    wanted = log.numbers(record, "fevent")
    at = np.minimum(np.searchsorted(event, wanted), max(len(event) - 1, 0))
    known = event[at] == wanted if len(event) else np.zeros(len(wanted), np.bool_)
    chosen = np.where(known, pairs[:, at], -1) if len(event) else np.full((2, len(wanted)), -1, np.int64)
    distinct, code = _distinct(*chosen)
    base = len(nodes.channels)
    nodes.channels += [(src, dst) for src, dst in distinct]
    return code + base


def _waits(log: LegionLog, record: str, parts: Sequence[Part], of: Sequence[str], key: str) -> Part:
    """Times at which a task had given up its processor to wait, as nodes inside the task."""
    owners = [part for part in parts if part.record in of and not part.device]
    op, start = log.numbers(record, "op_id"), log.numbers(record, "wait_start")
    keys = np.concatenate([*(log.numbers(part.record, key) for part in owners), log.numbers(record, key)])
    ops = np.concatenate([*(part.op for part in owners), op])
    times = np.concatenate([*(part.start for part in owners), start])
    is_wait = np.arange(len(ops)) >= len(ops) - len(op)
    order = np.lexsort((is_wait, times, keys, ops))
    last = np.maximum.accumulate(np.where(is_wait[order], -1, np.arange(len(order))))
    owner_at = np.where(last >= 0, order[np.maximum(last, 0)], -1)
    same = (owner_at >= 0) & (ops[owner_at] == ops[order]) & (keys[owner_at] == keys[order])
    owner = np.full(len(ops), -1, np.int64)
    owner[order] = np.where(same, owner_at, -1)
    mine = owner[is_wait]
    place = np.concatenate([*(part.place for part in owners), [-1]])[mine]
    finish = np.concatenate([*(part.finish for part in owners), [0]])[mine]
    nothing = np.zeros(len(op), np.int64)
    return Part(
        record, log.where(record), start, log.numbers(record, "wait_end"), place, ("waiting",), nothing,
        finish=nothing, creator=nothing, critical=log.numbers(record, "wait_event"), inside=finish, op=op,
        size=np.full(len(op), -1, np.int64),
    )  # fmt: skip
