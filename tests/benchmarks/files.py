"""Synthetic trace files of any size, seeded: ``python -m tests.benchmarks.files et|kineto COUNT PATH``.

They have the fields that real files have: the ``.et`` what Chakra's PyTorch converter writes (about 570 bytes a node,
2.5 dependencies each), the Kineto JSON what PyTorch 2.4 and later write for a training rank with shapes (about 300 bytes
an event: operators nested in operators, launches, kernels on a compute and a communication stream, copies, flows,
allocations, steps), laid out as Kineto does. A name that ends in ``.gz`` is compressed.
"""

from __future__ import annotations

import gzip
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from chakra_core.writers.attributes import attribute
from chakra_core.writers.wire import Message, varint

__all__ = ["write_et", "write_kineto"]

_OPERATORS = ("aten::mm", "aten::add_", "aten::native_layer_norm", "aten::_softmax", "aten::copy_", "autograd::engine")
_SCHEMA = "aten::linear(Tensor input, Tensor weight, Tensor? bias=None, *, ScalarType? dtype=None) -> Tensor"
_TEMPLATES = 3000
_BATCH = 10_000


def write_et(path: Path, n: int, seed: int = 7) -> None:
    """Write ``n`` nodes; what does not depend on the node's number comes from a stock of templates."""
    rng = random.Random(seed)  # noqa: S311 - not for secrets
    tails = [_tail(rng) for _ in range(_TEMPLATES)]
    with path.open("wb") as file:
        meta = Message()
        meta.text(1, "0.0.4")
        meta.content(2, attribute("schema", "1.1.0-chakra.0.0.4"))
        file.write(varint(len(meta)) + meta)
        for begin in range(1, n + 1, _BATCH):
            file.writelines(_nodes(rng, tails, begin, min(begin + _BATCH, n + 1)))


def _nodes(rng: random.Random, tails: list[tuple[bytes, bytes]], begin: int, stop: int) -> Iterator[bytes]:
    """Nodes with their lengths before them; the bytes are put together by hand, which is three times as fast."""
    number, random_ = attribute("rf_id", 0)[:-1], rng.random
    for at in range(begin, stop):
        head, tail = tails[int(random_() * _TEMPLATES)]
        control = varint(max(1, at - 1 - int(random_() * 49)))
        data = varint(max(1, at - 1 - int(random_() * 3999)))
        if random_() < 0.5:
            data += varint(max(1, at - 1 - int(random_() * 3999)))
        me = varint(at)
        size = len(number) + len(me)
        parts = (
            b"\x08", me, head, b"\x22", bytes([len(control)]), control, b"\x2a", bytes([len(data)]), data, tail,
            b"\x52", bytes([size]), number, me,
        )  # fmt: skip
        node = b"".join(parts)
        yield varint(len(node))
        yield node


def _tail(rng: random.Random) -> tuple[bytes, bytes]:
    head, tail = Message(), Message()
    head.text(2, f"{rng.choice(_OPERATORS)}_{rng.randrange(60)}")
    head.number(3, 4)
    tail.number(7, rng.randrange(1, 5000))
    shape = [rng.choice((64, 128, 768, 3072)) for _ in range(3)]
    for field in (8, 9):
        side = Message()
        side.text(1, f"[[{rng.randrange(9999)}, {rng.randrange(9999)}, 0, 2359296, 2, 'cuda:0'], 1, {rng.random()}]")
        side.text(2, f"[{shape}, [], []]")
        side.text(3, "['Tensor(c10::BFloat16)', 'Int', 'Double']")
        tail.content(field, side)
    values = {"fw_parent": 0, "seq_id": rng.randrange(4000), "scope": rng.choice((0, 0, 1, 7)), "tid": rng.choice((1, 2)),
              "fw_tid": 0, "op_schema": _SCHEMA, "is_cpu_op": rng.random() < 0.75, "kernel_backend": ""}  # fmt: skip
    for name, value in values.items():
        tail.content(10, attribute(name, value))
    return bytes(head), bytes(tail)


_PID, _MAIN, _BACKWARD = 6583, 6583, 7120
_COMPUTE, _COMM, _COPY = 7, 20, 24
_COPY_EVERY, _COMM_EVERY, _STEP_EVERY, _MEMORY_EVERY = 53, 41, 1200, 5
_BASE = 1365627862757.0
_OUTER = (
    "aten::linear",
    "aten::matmul",
    "aten::layer_norm",
    "aten::softmax",
    "aten::add",
    "aten::conv2d",
    "aten::gelu",
)
_INNER = (
    "aten::addmm",
    "aten::mm",
    "aten::native_layer_norm",
    "aten::_softmax",
    "aten::add_",
    "aten::cudnn_convolution",
)
_KERNELS = (
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_{0}x128_32x4_tn_align8>(Params)",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize{0}x64x64_warpgroupsize1x1x1_execute_segment_k_off_kernel",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, array<char*, {0}ul> >(int)",
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(int, float, {0})",
    "void (anonymous namespace)::softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, {0}, false, false>(int)",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, {0}> > >(int)",
)

_OP = """  {{
    "ph": "X", "cat": "cpu_op", "name": "{name}", "pid": {pid}, "tid": {tid},
    "ts": {ts:.3f}, "dur": {dur:.3f},
    "args": {{
      "External id": {id},"Record function id": 0, "Sequence number": {seq}, "Fwd thread id": 0, {shape}, "Ev Idx": {at}
    }}
  }},
"""
_RUNTIME = """  {{
    "ph": "X", "cat": "cuda_runtime", "name": "{name}", "pid": {pid}, "tid": {tid},
    "ts": {ts:.3f}, "dur": {dur:.3f},
    "args": {{
      "External id": {id}, "cbid": 211, "correlation": {corr}
    }}
  }},
  {{
    "ph": "s", "id": {corr}, "pid": {pid}, "tid": {tid}, "ts": {ts:.3f},
    "cat": "ac2g", "name": "ac2g"
  }},
"""
_DEVICE = """  {{
    "ph": "X", "cat": "{cat}", "name": "{name}", "pid": 0, "tid": {stream},
    "ts": {ts:.3f}, "dur": {dur:.3f},
    "args": {{
      "External id": {id}, {more}"device": 0, "context": 1, "stream": {stream}, "correlation": {corr}{tail}
    }}
  }},
  {{
    "ph": "f", "id": {corr}, "pid": 0, "tid": {stream}, "ts": {ts:.3f},
    "cat": "ac2g", "name": "ac2g", "bp": "e"
  }},
"""
_MEMORY = """  {{
    "ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": {pid}, "tid": {tid},
    "ts": {ts:.3f},
    "args": {{
      "Total Reserved": 2629828608, "Total Allocated": {total}, "Bytes": {size}, "Addr": {addr}, "Device Id": 0, "Device Type": 1, "Ev Idx": {at}
    }}
  }},
"""
_STEP = """  {{
    "ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{step}", "pid": {pid}, "tid": {tid},
    "ts": {ts:.3f}, "dur": {dur:.3f},
    "args": {{
      "External id": {id},"Record function id": 0, "Ev Idx": {at}
    }}
  }},
"""


def _shapes(rng: random.Random) -> list[str]:
    def one() -> str:
        dims = [[rng.choice((8, 16, 64, 512)), rng.choice((768, 1024, 4096))], [rng.choice((768, 1024, 4096))], [], []]
        return (
            f'"Concrete Inputs": ["", "", "{rng.randrange(2)}", "False"], '
            '"Input type": ["c10::BFloat16", "c10::BFloat16", "Scalar", "Scalar"], '
            f'"Input Strides": [[{dims[0][1:]}, 1], [1], [], []], "Input Dims": {dims}'
        ).replace("[[[", "[[").replace("], 1]", ", 1]")  # fmt: skip

    return [one() for _ in range(600)]


_LAUNCH_TAIL = (
    ', "registers per thread": {}, "shared memory": 49152, "blocks per SM": {:.6f}, "warps per SM": 4.740741,'
    ' "grid": [{}, 1, 1], "block": [128, 1, 1], "est. achieved occupancy %": {}'
)
_COLLECTIVE = (
    '"Collective name": "allreduce", "dtype": "BFloat16", "In msg nelems": {0}, "Out msg nelems": {0}, "Group size": 8, '
    '"Process Group Name": "0", "Process Group Description": "default_pg", "Process Group Ranks": "[0, 1, 2, 3, 4, 5, 6, 7]", '
)


class _Rank:
    """What one training rank does, as text of events; counts those it has written."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)  # noqa: S311 - not for secrets
        self.shapes = _shapes(self.rng)
        self.kernels = [
            json.dumps(self.rng.choice(_KERNELS).format(2 ** self.rng.randrange(3, 9)))[1:-1] for _ in range(200)
        ]
        tails = [
            (self.rng.randrange(16, 255), self.rng.random() * 9, self.rng.randrange(1, 18000), self.rng.randrange(99))
            for _ in range(400)
        ]
        self.tails = [_LAUNCH_TAIL.format(*values) for values in tails]
        self.now = _BASE
        self.free = {_COMPUTE: _BASE, _COMM: _BASE, _COPY: _BASE}
        self.id = self.events = self.step = 0

    def operator(self) -> Iterator[str]:
        """One operator with all that it leads to."""
        rng, at = self.rng, self.id + 1
        tid = _MAIN if at % 1000 < 400 else _BACKWARD
        begin, host = self.now, 16 + rng.random() * 30
        shape = rng.choice(self.shapes)
        where = {"pid": _PID, "tid": tid, "at": at}
        name = rng.choice(_INNER)
        yield _OP.format(name=rng.choice(_OUTER), ts=begin, dur=host, id=at, seq=at, shape=shape, **where)
        yield _OP.format(name=name, ts=begin + 2, dur=host - 4, id=at, seq=at, shape=shape, **where)
        yield _RUNTIME.format(name="cudaLaunchKernel", ts=begin + 4, dur=5.5, id=at, corr=at, **where)
        yield self._device(at, begin + 12, _COMPUTE, rng.choice(self.kernels), '"queued": 0, ', rng.choice(self.tails))
        self.events += 6
        if at % _MEMORY_EVERY == 0:
            size = 512 * rng.randrange(1, 40000)
            yield _MEMORY.format(ts=begin + 3, total=1003059712 + size, size=size, addr=137877174353920 + size, **where)
            self.events += 1
        if at % _COMM_EVERY == 0:
            size = 2 ** rng.randrange(16, 24)
            yield self._device(at + 10**8, begin + 16.6, _COMM, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                               _COLLECTIVE.format(size) + '"queued": 0, ', rng.choice(self.tails), where)  # fmt: skip
            self.events += 4
        if at % _COPY_EVERY == 0:
            yield self._device(at + 2 * 10**8, begin + 17.1, _COPY, "Memcpy HtoD (Pinned -> Device)", "",
                               f', "bytes": {rng.randrange(2**20)}, "memory bandwidth (GB/s)": 1.28', where, "gpu_memcpy")  # fmt: skip
            self.events += 4
        self.now = begin + host + 1 + (rng.random() < 0.01) * 400
        self.id = at

    def _device(
        self, corr: int, begin: float, stream: int, name: str, more: str, tail: str,
        launch: dict[str, int] | None = None, cat: str = "kernel",
    ) -> str:  # fmt: skip
        """A kernel or copy when its stream is free, after its launch at ``begin`` where that is asked for."""
        called = begin - 7
        begin = max(begin, self.free[stream])
        dur = min(1.2 * self.rng.paretovariate(1.3), 900.0) if stream == _COMPUTE else 20 + self.rng.random() * 200
        self.free[stream] = begin + dur + 0.7
        text = _DEVICE.format(
            cat=cat, name=name, stream=stream, ts=begin, dur=dur, id=corr % 10**8, corr=corr, more=more, tail=tail
        )
        if launch is None:
            return text
        call = "cudaMemcpyAsync" if cat == "gpu_memcpy" else "cudaLaunchKernelExC"
        return _RUNTIME.format(name=call, ts=called, dur=0.4, id=corr % 10**8, corr=corr, **launch) + text

    def end_step(self, begin: float) -> str:
        """The annotation of a step."""
        self.step += 1
        self.events += 1
        return _STEP.format(step=self.step, pid=_PID, tid=_MAIN, ts=begin, dur=self.now - begin, id=self.id, at=self.id)


def write_kineto(path: Path, n: int, seed: int = 7) -> int:
    """Write at least ``n`` events of rank 0 of 8; how many they are."""
    device = {
        "name": "NVIDIA A100-SXM4-80GB",
        "totalGlobalMem": 85094825984,
        "computeMajor": 8,
        "computeMinor": 0,
        "numSms": 108,
    }
    head = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": at, **device} for at in range(8)],
        "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 8, "pg_count": 1, "nccl_version": "2.20.5"},
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": 1767189312000000000,
    }
    rank = _Rank(seed)
    with gzip.open(path, "wb", 3) if path.suffix == ".gz" else path.open("wb") as given:
        file = cast("IO[bytes]", given)
        file.write(json.dumps(head)[:-1].encode() + b', "traceEvents": [\n')
        begin = rank.now
        while rank.events < n:
            file.write("".join(rank.operator()).encode())
            if rank.id % _STEP_EVERY == 0:
                file.write(rank.end_step(begin).encode())
                begin = rank.now
        named = {"name": "process_name", "ph": "M", "ts": _BASE, "pid": _PID, "tid": 0, "args": {"name": "python3"}}
        file.write(json.dumps(named).encode() + b"\n]}\n")
    return rank.events + 1


def main() -> None:
    """Write one file."""
    kind, count, path = sys.argv[1], int(float(sys.argv[2])), Path(sys.argv[3])
    {"et": write_et, "kineto": write_kineto}[kind](path, count)


if __name__ == "__main__":
    main()
