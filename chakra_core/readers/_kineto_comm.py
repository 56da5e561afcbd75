"""What the events say of communication and of operator inputs: collective, size, group, peers; shape signatures."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakra_core.classify import comm_op_of
from chakra_core.readers._kineto_link import node_of_event
from chakra_core.readers._kineto_nodes import Nodes
from chakra_core.readers._kineto_raw import RawEvents
from chakra_core.readers._kineto_scan import Key
from chakra_core.schema import Category, CommOp, Domain
from chakra_core.trace import INPUT_SEPARATOR, ProcessGroup

__all__ = [
    "Communication",
    "Groups",
    "dtype_bytes",
    "find_communication",
    "inputs_of",
    "message_bytes",
    "peer_in",
    "shape_signature",
    "shapes_of",
]

_DTYPES: Mapping[str, tuple[str, int]] = MappingProxyType(
    {
        "float": ("f32", 4), "float32": ("f32", 4), "double": ("f64", 8), "float64": ("f64", 8),
        "half": ("f16", 2), "float16": ("f16", 2), "bfloat16": ("bf16", 2),
        "long": ("i64", 8), "long int": ("i64", 8), "int64": ("i64", 8), "long long": ("i64", 8),
        "int": ("i32", 4), "int32": ("i32", 4), "unsigned int": ("u32", 4), "uint32": ("u32", 4),
        "short": ("i16", 2), "short int": ("i16", 2), "int16": ("i16", 2), "unsigned short": ("u16", 2),
        "signed char": ("i8", 1), "char": ("i8", 1), "int8": ("i8", 1), "unsigned char": ("u8", 1),
        "byte": ("u8", 1), "uint8": ("u8", 1), "bool": ("bool", 1),
        "float8_e4m3fn": ("f8e4m3", 1), "float8_e5m2": ("f8e5m2", 1), "float8_e4m3fnuz": ("f8e4m3fnuz", 1),
        "float8_e5m2fnuz": ("f8e5m2fnuz", 1), "float8_e8m0fnu": ("f8e8m0", 1),
        "complexfloat": ("c64", 8), "c10::complex<float>": ("c64", 8), "complexdouble": ("c128", 16),
        "c10::complex<double>": ("c128", 16), "complexhalf": ("c32", 4),
    }
)  # fmt: skip
_NOT_TENSORS = frozenset({"", "scalar", "scalarlist", "tensorlist", "genericlist", "optional", "none"})
_PEER = re.compile(r"(?:send|recv)\s+\d+\s*(?:->|<-)\s*(\d{1,9})")
_WALK = 64


def peer_in(name: str) -> int:
    """The other end that a name like ``nccl:send 0->1`` or ``recv 0<-1`` states; -1 where it states none."""
    found = _PEER.search(name)
    return int(found[1]) if found else -1


def dtype_bytes(name: str) -> int:
    """Bytes of one element of a type as PyTorch's profiler names it; 0 where it is not known."""
    return _DTYPES.get(name.lower().removeprefix("c10::"), ("", 0))[1]


def _short_type(name: str) -> str:
    low = name.lower().removeprefix("c10::")
    return _DTYPES[low][0] if low in _DTYPES else low


def shape_signature(dims: Any, types: Any) -> str:
    """Input shapes and types in one stable text, ``""`` where no input is a tensor with dimensions.

    >>> shape_signature([[512, 256], [], [256, 128]], ["c10::BFloat16", "Scalar", "c10::BFloat16"])
    '[512,256]x[256,128]:bf16'
    """
    if not isinstance(dims, list):
        return ""
    parts: list[str] = []
    kinds: list[str] = []
    for at, entry in enumerate(dims):
        text = _dims_text(entry)
        if not text:
            continue
        parts.append(text)
        kind = str(types[at]) if isinstance(types, list) and at < len(types) else ""
        if kind.lower() not in _NOT_TENSORS and _short_type(kind) not in kinds:
            kinds.append(_short_type(kind))
    return "x".join(parts) + (":" + ",".join(kinds) if parts and kinds else "")


def _dims_text(entry: Any) -> str:
    if not isinstance(entry, list) or not entry:
        return ""
    if all(isinstance(size, int) for size in entry):
        return "[" + ",".join(map(str, entry)) + "]"
    inner = [text for text in map(_dims_text, entry[:64]) if text]
    return "(" + ",".join(inner) + ("…" if len(entry) > 64 else "") + ")" if inner else ""


def inputs_of(raw: RawEvents, nodes: Nodes) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Code of what each node says of its inputs (-1: nothing) and the texts: shapes, types and values, separated."""
    fields = [raw.fields[name][nodes.event] for name in ("dims", "types", "values")]
    column = np.full(len(nodes), -1, np.int32)
    rows = np.flatnonzero(fields[0] >= 0)
    if not len(rows):
        return column, ()
    where = [np.unique(field[rows], return_inverse=True) for field in fields]
    mixed = (where[0][1] * len(where[1][0]) + where[1][1]) * len(where[2][0]) + where[2][1]
    _, first, inverse = np.unique(mixed, return_index=True, return_inverse=True)
    strings = [*raw.strings, ""]
    column[rows] = inverse
    codes = [field[rows[first]].tolist() for field in fields]
    return column, tuple(INPUT_SEPARATOR.join(strings[code] for code in triple) for triple in zip(*codes, strict=True))


def shapes_of(raw: RawEvents, nodes: Nodes, said: Mapping[int, str]) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Code of each node's shape signature (-1: none) and the signatures; ``said`` are those of nodes without inputs."""
    dims, types = raw.fields["dims"][nodes.event], raw.fields["types"][nodes.event]
    rows = np.flatnonzero(dims >= 0)
    pairs = dims[rows].astype(np.int64) * (len(raw.strings) + 1) + types[rows] + 1
    unique, inverse = np.unique(pairs, return_inverse=True)
    texts = []
    for pair in unique.tolist():
        one, two = divmod(pair, len(raw.strings) + 1)
        texts.append(shape_signature(_json_list(raw.strings[one]), _json_list(raw.strings[two - 1]) if two else None))
    shapes = tuple(dict.fromkeys(text for text in [*texts, *said.values()] if text))
    place = {text: at for at, text in enumerate(shapes)}
    codes = np.array([place.get(text, -1) for text in texts] or [-1], np.int32)
    column = np.full(len(nodes), -1, np.int32)
    if len(rows):
        column[rows] = codes[inverse]
    for row, text in said.items():
        column[row] = place[text] if column[row] < 0 else column[row]
    return column, shapes


def _json_list(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


@dataclass
class Communication:
    """Columns about communication, one entry per node, and the process groups they index.

    ``signature`` says, by row, how many elements of which type a rank puts in, as a shape: ``[1024]:bf16``.
    """

    op: NDArray[np.int8]
    bytes: NDArray[np.int64]
    group: NDArray[np.int32]
    peer: NDArray[np.int32]
    seq: NDArray[np.int64]
    signature: dict[int, str]
    groups: tuple[ProcessGroup, ...]


@dataclass(frozen=True)
class _Said:
    """What one event says of the communication it records."""

    op: CommOp = CommOp.NONE
    bytes: int = -1
    group: int = -1
    peer: int = -1
    seq: int = -1
    signature: str = ""


def message_bytes(op: CommOp, received: int, sent: int, element: int) -> int:
    """Message size S in bytes by nccl-tests' convention; ``received``/``sent`` are In/Out msg nelems (-1: unknown).

    The whole buffer for all-gather (its output) and gather, the input for reduce-scatter, all-to-all and scatter,
    the buffer of one rank for all others; -1 where unknown.
    """
    by_output = op in (CommOp.ALL_GATHER, CommOp.GATHER)
    count = max(received, sent) if by_output or op in (CommOp.SCATTER, CommOp.REDUCE_SCATTER) else received
    if count <= 0:
        count = max(received, sent)
    return count * element if count >= 0 and element > 0 else -1


class Groups:
    """Process groups by name, in order of first mention."""

    def __init__(self, meta: Mapping[str, Any]) -> None:
        self.by_name: dict[str, int] = {}
        self.list: list[ProcessGroup] = []
        info = meta.get("distributedInfo")
        configs = info.get("pg_config") if isinstance(info, dict) else None
        for config in configs if isinstance(configs, list) else []:
            if isinstance(config, dict):
                self.add(str(config.get("pg_name", "")), config.get("ranks"), str(config.get("pg_desc", "")),
                         config.get("pg_size", -1))  # fmt: skip

    def add(self, name: str, ranks: Any, description: str, size: Any) -> int:
        members = tuple(rank for rank in ranks if isinstance(rank, int)) if isinstance(ranks, list) else ()
        known = self.by_name.get(name)
        if known is not None:
            if members and not self.list[known].ranks:
                self.list[known] = ProcessGroup(
                    name, members, description or self.list[known].description, len(members)
                )
            return known
        self.by_name[name] = len(self.list)
        count = size if isinstance(size, int) and size > 0 else len(members) or -1
        self.list.append(ProcessGroup(name, members, description, count))
        return len(self.list) - 1


def find_communication(raw: RawEvents, nodes: Nodes) -> Communication:
    """Describe every communication once: on its kernels, or on the host where nothing ran on a device."""
    groups = Groups(raw.meta)
    said = _recorded(raw, nodes, groups)
    kernels = np.flatnonzero(nodes.is_work & (nodes.category == Category.COMMUNICATION))
    n = len(nodes)
    found = Communication(
        np.full(n, CommOp.NONE, np.int8), np.full(n, -1, np.int64), np.full(n, -1, np.int32),
        np.full(n, -1, np.int32), np.full(n, -1, np.int64), {}, (),
    )  # fmt: skip
    by_host = _annotations(raw, nodes)
    if len(kernels):
        for row in kernels.tolist():
            _describe(found, row, _of_kernel(raw, nodes, row, said=said, by_host=by_host))
    else:
        for row in _host_rows(raw, nodes, said, by_host).tolist():
            _describe(found, row, said.get(row) or by_host[row])
    found.groups = tuple(groups.list)
    return found


def _describe(found: Communication, row: int, what: _Said) -> None:
    found.op[row], found.bytes[row], found.group[row] = what.op, what.bytes, what.group
    found.peer[row], found.seq[row] = what.peer, what.seq
    if what.signature:
        found.signature[row] = what.signature


def _recorded(raw: RawEvents, nodes: Nodes, groups: Groups) -> dict[int, _Said]:
    """What events with collective arguments say, by node row."""
    rows = node_of_event(raw, nodes)
    wanted = np.isin(raw.sparse[:, 1], (Key.COLLECTIVE, Key.IN_ELEMENTS))
    events = set(raw.sparse[wanted, 0].tolist())
    table: dict[int, dict[int, int]] = {}
    for event, key, value in raw.sparse[raw.sparse[:, 1] <= Key.TARGET_RANK].tolist():
        if event in events:
            table.setdefault(event, {})[key] = value
    said = {}
    for event, entry in table.items():
        row = int(rows[event])
        if row >= 0:
            said[row] = _of_record(raw, entry, groups)
    return said


def _of_record(raw: RawEvents, entry: Mapping[int, int], groups: Groups) -> _Said:
    def text(key: int) -> str:
        return raw.strings[entry[key]] if entry.get(key, -1) >= 0 else ""

    op = comm_op_of(text(Key.COLLECTIVE))
    size = message_bytes(
        op, entry.get(Key.IN_ELEMENTS, -1), entry.get(Key.OUT_ELEMENTS, -1), dtype_bytes(text(Key.DTYPE))
    )
    group = -1
    if Key.GROUP_NAME in entry and (text(Key.GROUP_NAME) or Key.GROUP_RANKS in entry):
        ranks = _json_list(text(Key.GROUP_RANKS))
        group = groups.add(text(Key.GROUP_NAME), ranks, text(Key.GROUP_DESCRIPTION), entry.get(Key.GROUP_SIZE, -1))
    peer = peer_in(text(Key.COLLECTIVE))
    if peer < 0 and op in (CommOp.SEND, CommOp.RECV):
        peer = entry.get(Key.TARGET_RANK if op is CommOp.SEND else Key.SOURCE_RANK, -1)
    elements, kind = entry.get(Key.IN_ELEMENTS, -1), text(Key.DTYPE)
    signature = f"[{elements}]:{_short_type(kind)}" if elements >= 0 and kind else ""
    return _Said(op, size, group, peer if abs(peer) < 2**31 else -1, entry.get(Key.SEQUENCE, -1), signature)


def _annotations(raw: RawEvents, nodes: Nodes) -> dict[int, _Said]:
    """What ``nccl:*`` and ``gloo:*`` annotations and c10d operators say by name and input, by node row."""
    host = (nodes.domain == Domain.HOST) & np.isin(nodes.category, (Category.HOST_OP, Category.ANNOTATION))
    codes = np.unique(nodes.name[host])
    named = {code: comm_op_of(raw.strings[code]) for code in codes.tolist() if code >= 0 and ":" in raw.strings[code]}
    named = {code: op for code, op in named.items() if op is not CommOp.NONE}
    dims, types = raw.fields["dims"], raw.fields["types"]
    found = {}
    for row in np.flatnonzero(host & np.isin(nodes.name, np.array(list(named), np.int64))).tolist():
        code, event = int(nodes.name[row]), int(nodes.event[row])
        op, name = named[code], raw.strings[code]
        size = -1
        if dims[event] >= 0 and types[event] >= 0:
            size = _first_tensor_bytes(raw.strings[dims[event]], raw.strings[types[event]])
        if op in (CommOp.ALL_GATHER, CommOp.GATHER):
            size = -1  # the input is one rank's part, S is the whole
        found[row] = _Said(op, size, -1, peer_in(name), -1)
    return found


def _first_tensor_bytes(dims: str, types: str) -> int:
    """Bytes of the first input where it is one tensor; -1 where it is not."""
    shapes, kinds = _json_list(dims), _json_list(types)
    if not isinstance(shapes, list) or not isinstance(kinds, list) or not shapes or not kinds:
        return -1
    first: Sequence[Any] = shapes[0] if isinstance(shapes[0], list) else ()
    element = dtype_bytes(str(kinds[0]))
    if not first or not element or not all(isinstance(size, int) and 0 <= size < 2**40 for size in first):
        return -1
    count = 1
    for size in first:
        count *= size
    return count * element if count * element < 2**62 else -1


def _of_kernel(
    raw: RawEvents, nodes: Nodes, row: int, *, said: Mapping[int, _Said], by_host: Mapping[int, _Said]
) -> _Said:
    """Put together what the kernel, the record around its launch and the annotation say; the first that knows wins."""
    own = comm_op_of(raw.strings[nodes.name[row]])
    parts = [said[row]] if row in said else []
    above = int(nodes.parent[row])
    for _ in range(_WALK):
        if above < 0:
            break
        parts.extend(part for part in (said.get(above), by_host.get(above)) if part is not None)
        above = int(nodes.parent[above])
    known = [part.op for part in parts if part.op not in (CommOp.NONE, CommOp.UNKNOWN)]
    op = known[0] if known and own in (CommOp.NONE, CommOp.UNKNOWN) else own
    if said.get(row, _Said()).op not in (CommOp.NONE, CommOp.UNKNOWN):
        op = said[row].op
    fitting = [part for part in parts if part.op is op]
    return _Said(
        CommOp.UNKNOWN if op is CommOp.NONE else op,
        next((part.bytes for part in fitting if part.bytes >= 0), -1),
        next((part.group for part in parts if part.group >= 0), -1),
        next((part.peer for part in fitting if part.peer >= 0), -1),
        next((part.seq for part in parts if part.seq >= 0), -1),
        next((part.signature for part in fitting if part.signature), ""),
    )


def _host_rows(
    raw: RawEvents, nodes: Nodes, said: Mapping[int, _Said], by_host: Mapping[int, _Said]
) -> NDArray[np.int64]:
    """On a trace without communication kernels: the rows that stand for one communication each.

    Backend annotations (``gloo:*``, where the transfer happens), else the records, else the outermost c10d operators.
    """
    backend = [row for row in by_host if not raw.strings[nodes.name[row]].startswith(("c10d", "_c10d"))]
    if backend:
        return np.array(sorted(backend), np.int64)
    records = [row for row, what in said.items() if what.op is not CommOp.NONE]
    if records:
        return np.array(sorted(records), np.int64)
    outer = [row for row in by_host if int(nodes.parent[row]) not in by_host]
    return np.array(sorted(outer), np.int64)
