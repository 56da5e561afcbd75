"""Where the nodes of a Legion profiler log lie: processors and channels between memories, as lanes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakra_core.readers._legion_format import LegionLog
from chakra_core.readers._legion_nodes import Part
from chakra_core.schema import CommOp, Domain, LaneKind, NodeKind
from chakra_core.trace import Lane

__all__ = ["Places"]

I64 = NDArray[np.int64]

_GPU = 1
_PROCESSORS = ("processor", "GPU", "CPU", "utility", "I/O", "group", "set", "OpenMP", "Python")
_MEMORIES = (
    "memory", "global", "system", "registered", "socket", "zero-copy", "framebuffer", "disk", "HDF5", "file",
    "L3 cache", "L2 cache", "L1 cache", "GPU managed", "GPU dynamic",
)  # fmt: skip
_ON_GPU = (6, 13, 14)


def _node_of(identity: int) -> int:
    """Process number in a processor's or memory's id (bits 40 to 55; Realm's id layout)."""
    return identity >> 40 & 0xFFFF


class Places:
    """Lanes of a log, made as they are used. ``node`` is the process that wrote it, -1 where it does not say."""

    def __init__(self, log: LegionLog, channels: list[tuple[int, int]]) -> None:
        number = log.numbers("MachineDesc", "node_id")
        self.node = int(number[0]) if len(number) and 0 <= number[0] < 2**31 else -1
        self.lanes: list[Lane] = []
        self._index: dict[tuple[int, bool] | tuple[int, int], int] = {}
        self._kinds = dict(
            zip(log.numbers("ProcDesc", "proc_id").tolist(), log.numbers("ProcDesc", "kind").tolist(), strict=True)
        )
        self._memories = dict(
            zip(log.numbers("MemDesc", "mem_id").tolist(), log.numbers("MemDesc", "kind").tolist(), strict=True)
        )
        gpus = sorted(proc for proc, kind in self._kinds.items() if kind == _GPU)
        self._gpu = {
            proc: sum(_node_of(other) == _node_of(proc) for other in gpus[:at]) for at, proc in enumerate(gpus)
        }
        self._gpu_of_memory = self._nearest(log)
        self._channels = channels

    def _nearest(self, log: LegionLog) -> dict[int, int]:
        """GPU of each memory that is a GPU's: the one with the widest path to it."""
        best: dict[int, tuple[int, int]] = {}
        for proc, memory, width in zip(
            *(log.numbers("ProcMDesc", key).tolist() for key in ("proc_id", "mem_id", "bandwidth")), strict=True
        ):
            if proc in self._gpu and self._memories.get(memory) in _ON_GPU and width > best.get(memory, (-1, 0))[0]:
                best[memory] = (width, self._gpu[proc])
        return {memory: gpu for memory, (_, gpu) in best.items()}

    def lanes_of(self, part: Part) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Domain, lane, CommOp, peer and NodeKind of each node of a part."""
        distinct, code = np.unique(part.place, return_inverse=True)
        transfer = part.record in ("CopyInfo", "FillInfo")
        made = [
            self._channel(int(place)) if transfer else self._processor(int(place), part) for place in distinct.tolist()
        ]
        table = np.array(made or [(0, 0, -1, -1, 0)], np.int64)[code]
        return table[:, 0], table[:, 1], table[:, 2], table[:, 3], table[:, 4]

    def _processor(self, proc: int, part: Part) -> tuple[int, int, int, int, int]:
        kind = self._kinds.get(proc, 0)
        device = part.device or (kind == _GPU and part.record in ("TaskInfo", "ImplicitTaskInfo"))
        key = (proc, device)
        if key not in self._index:
            word = _PROCESSORS[kind] if 0 <= kind < len(_PROCESSORS) else "processor"
            gpu = self._gpu.get(proc, -1)
            name = f"{word} {gpu if gpu >= 0 else proc & 0xFFF}" if proc >= 0 else "processor not recorded"
            lane = (
                Lane(name, Domain.DEVICE, LaneKind.STREAM, f"process {_node_of(proc)}", max(gpu, 0), f"{proc:x}")
                if device
                else Lane(
                    f"{name} host" if kind == _GPU else name, Domain.HOST, LaneKind.THREAD,
                    f"process {_node_of(proc)}", -1, f"{proc & 0xFFFFFFFFFFFFFFFF:x}",
                )
            )  # fmt: skip
            self._index[key] = len(self.lanes)
            self.lanes.append(lane)
        domain = Domain.DEVICE if device else Domain.HOST
        return domain, self._index[key], CommOp.NONE, -1, NodeKind.COMP

    def _channel(self, channel: int) -> tuple[int, int, int, int, int]:
        src, dst = self._channels[channel]
        gpus = [self._gpu_of_memory.get(end, 0) for end in (src, dst) if self._memories.get(end) in _ON_GPU]
        ends = {_node_of(end) for end in (src, dst) if end > 0}
        remote = len(ends) > 1
        device = bool(gpus) or remote
        key = (src, dst)
        if key not in self._index:
            self._index[key] = len(self.lanes)
            lane = Lane(
                self._path(channel), Domain.DEVICE if device else Domain.HOST,
                LaneKind.STREAM if device else LaneKind.RESOURCE, "channels", gpus[0] if gpus else 0 if remote else -1,
                f"{src}:{dst}",
            )  # fmt: skip
            self.lanes.append(lane)
        comm, peer, kind = CommOp.NONE, -1, NodeKind.COMP
        if remote:
            sends = _node_of(src) == self.node
            comm, peer = (CommOp.SEND, _node_of(dst)) if sends else (CommOp.RECV, _node_of(src))
            kind = NodeKind.COMM_SEND if sends else NodeKind.COMM_RECV
        return Domain.DEVICE if device else Domain.HOST, self._index[key], comm, peer, kind

    def _path(self, channel: int) -> str:
        src, dst = self._channels[channel]
        if src < 0:
            return f"to {self._memory(dst)}"
        return f"{self._memory(src)} → {self._memory(dst)}"

    def _memory(self, identity: int) -> str:
        if identity <= 0:
            return "memory not recorded"
        kind = self._memories.get(identity, 0)
        word = _MEMORIES[kind] if 0 <= kind < len(_MEMORIES) else "memory"
        where = "" if self.node in (-1, _node_of(identity)) else f" of process {_node_of(identity)}"
        number = self._gpu_of_memory.get(identity, -1)
        return f"{word}{f' {number}' if number >= 0 else ''}{where}"

    def channel_labels(self, part: Part) -> tuple[str, ...]:
        """A name for every channel, with what is done on it."""
        verb = part.labels[0]
        return tuple(f"{verb} {self._path(channel)}" for channel in range(len(self._channels)))

    def details(self, log: LegionLog) -> dict[str, Any]:
        """Facts about the process, for the reader of the trace."""
        counts: dict[str, int] = {}
        for proc, kind in self._kinds.items():
            if self.node in (-1, _node_of(proc)) and 0 <= kind < len(_PROCESSORS):
                counts[_PROCESSORS[kind]] = counts.get(_PROCESSORS[kind], 0) + 1
        hosts = log.texts("MachineDesc")
        zero = log.numbers("ZeroTime", "zero_time")
        return {
            "processors": counts,
            "host": hosts[0] if hosts else "",
            "zero_time_ns": int(zero[0]) if len(zero) else None,
        }
