"""Writes Legion profiler logs as the runtime lays them out: a preamble that describes the records, then the records."""

from __future__ import annotations

import struct
from typing import Any

E, T, U = "unsigned long long:8", "timestamp_t:8", "UniqueID:8"
_TIMES = f"create:{T}, ready:{T}, start:{T}, stop:{T}"
_EVENTS = f"creator:{E}, critical:{E}, fevent:{E}"
_TASK = f"op_id:{U}, task_id:TaskID:4, variant_id:VariantID:4, proc_id:ProcID:8, {_TIMES}"

RECORDS = {
    "ProcDesc": "proc_id:ProcID:8, kind:ProcKind:4, uuid_size:uuid_size:4, cuda_device_uuid:uuid:1",
    "MaxDimDesc": "max_dim:maxdim:4",
    "MachineDesc": "node_id:unsigned:4, num_nodes:unsigned:4, version:unsigned:4, hostname:string:-1, "
    "host_id:unsigned long long:8, process_id:unsigned:4",
    "ZeroTime": "zero_time:long long:8",
    "MemDesc": f"mem_id:MemID:8, kind:MemKind:4, capacity:{E}",
    "ProcMDesc": "proc_id:ProcID:8, mem_id:MemID:8, bandwidth:unsigned:4, latency:unsigned:4",
    "IndexSpaceRectDesc": "unique_id:IDType:8, dim:unsigned:4, rem:array:8",
    "IndexSpacePointDesc": "unique_id:IDType:8, dim:unsigned:4, rem:point:8",
    "Provenance": f"provenance:{E}, prov:string:-1",
    "MetaDesc": "kind:unsigned:4, message:bool:1, ordered_vc:bool:1, name:string:-1",
    "MapperCallDesc": "kind:unsigned:4, name:string:-1",
    "RuntimeCallDesc": "kind:unsigned:4, name:string:-1",
    "TaskKind": "task_id:TaskID:4, name:string:-1, overwrite:bool:1",
    "TaskVariant": "task_id:TaskID:4, variant_id:VariantID:4, name:string:-1",
    "TaskInfo": f"{_TASK}, {_EVENTS}",
    "GPUTaskInfo": f"{_TASK}, gpu_start:{T}, gpu_stop:{T}, {_EVENTS}",
    "MetaInfo": f"op_id:{U}, lg_id:unsigned:4, proc_id:ProcID:8, {_TIMES}, {_EVENTS}",
    "CopyInfo": f"op_id:{U}, size:{E}, {_TIMES}, {_EVENTS}, collective:unsigned:4",
    "CopyInstInfo": f"src:MemID:8, dst:MemID:8, src_fid:unsigned:4, dst_fid:unsigned:4, src_inst:{E}, dst_inst:{E}, "
    f"fevent:{E}, num_hops:unsigned:4, indirect:bool:1",
    "FillInfo": f"op_id:{U}, size:{E}, {_TIMES}, {_EVENTS}",
    "FillInstInfo": f"dst:MemID:8, fid:unsigned:4, dst_inst:{E}, fevent:{E}",
    "MapperCallInfo": f"mapper_id:MapperID:4, mapper_proc:ProcID:8, kind:MappingCallKind:4, op_id:{U}, start:{T}, "
    f"stop:{T}, proc_id:ProcID:8, fevent:{E}",
    "ApplicationCallInfo": f"provenance:{E}, start:{T}, stop:{T}, proc_id:ProcID:8, fevent:{E}",
    "TaskWaitInfo": f"op_id:{U}, task_id:TaskID:4, variant_id:VariantID:4, wait_start:{T}, wait_ready:{T}, "
    f"wait_end:{T}, wait_event:{E}",
    "EventMergerInfo": f"result:{E}, fevent:{E}, performed:{T}, pre0:{E}, pre1:{E}, pre2:{E}, pre3:{E}",
    "EventTriggerInfo": f"result:{E}, fevent:{E}, precondition:{E}, performed:{T}",
}
IDS = {name: 3 + 2 * at for at, name in enumerate(RECORDS)}


def preamble(first: str = "FileType: BinaryLegionProf v: 1.0") -> bytes:
    lines = [first, *(f"{name} {{id:{IDS[name]}, {fields}}}" for name, fields in RECORDS.items()), "", ""]
    return "\n".join(lines).encode()


def record(record_type: str, /, **values: Any) -> bytes:
    """One record; fields that are not given are 0, lists of numbers are written as 8-byte numbers."""
    parts = [struct.pack("<i", IDS[record_type])]
    for entry in RECORDS[record_type].split(", "):
        name, _, size = entry.split(":")
        value = values.pop(name, "" if size == "-1" else 0)
        if isinstance(value, str):
            parts.append(value.encode() + b"\0")
        elif isinstance(value, bytes):
            parts.append(value)
        elif isinstance(value, list):
            parts += [struct.pack("<q", number) for number in value]
        elif "uuid" not in entry.split(":")[1] or "size" in name:
            parts.append((value % 2 ** (8 * int(size))).to_bytes(int(size), "little"))
    assert not values, values
    return b"".join(parts)


def identity(node: int, index: int, tag: int = 0x1D) -> int:
    """A processor's (0x1D) or a memory's id on a node, in Realm's layout."""
    return tag << 56 | node << 40 | index
