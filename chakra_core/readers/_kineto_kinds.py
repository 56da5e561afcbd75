"""What the categories, processes and threads of trace events stand for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from chakra_core.schema import Category, Domain

__all__ = [
    "DERIVED_THREAD",
    "DEVICE_PROCESS",
    "FLOW_LAUNCH",
    "HOST_DEFAULT",
    "KINDS",
    "KINETO_META",
    "STEP_NAMES",
    "Kind",
    "rank_in_name",
]


class Kind(NamedTuple):
    """How events of one category become nodes; ``named``: the category is told from the kernel's name."""

    domain: Domain
    category: Category
    named: bool = False
    sync: bool = False


_HOST_OP = Kind(Domain.HOST, Category.HOST_OP)
_RUNTIME = Kind(Domain.HOST, Category.RUNTIME)
_ANNOTATION = Kind(Domain.HOST, Category.ANNOTATION)
_KERNEL = Kind(Domain.DEVICE, Category.OTHER, named=True)
_COPY = Kind(Domain.DEVICE, Category.COPY)
_MEMSET = Kind(Domain.DEVICE, Category.MEMSET)

HOST_DEFAULT = _HOST_OP
"""Events of any other category."""

KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "cpu_op": _HOST_OP, "operator": _HOST_OP, "hpu_op": _HOST_OP,
        "user_annotation": _ANNOTATION, "trace": _ANNOTATION, "overhead": _ANNOTATION, "cpu_instant_event": _ANNOTATION,
        "cuda_profiler_range": _ANNOTATION, "mtia_insight": _ANNOTATION, "mtia_counters": _ANNOTATION,
        "python_function": Kind(Domain.HOST, Category.PYTHON),
        "runtime": _RUNTIME, "cuda_runtime": _RUNTIME, "cuda_driver": _RUNTIME, "hip_runtime": _RUNTIME,
        "hip_driver": _RUNTIME, "xpu_runtime": _RUNTIME, "xpu_driver": _RUNTIME, "mtia_runtime": _RUNTIME,
        "glow_runtime": _RUNTIME, "privateuse1_runtime": _RUNTIME, "privateuse1_driver": _RUNTIME,
        "cuda_sync": Kind(Domain.HOST, Category.RUNTIME, sync=True),
        "kernel": _KERNEL, "concurrent_kernel": _KERNEL, "mtia_ccp_events": _KERNEL, "mtia_kernel": _KERNEL,
        "gpu_memcpy": _COPY, "memcpy": _COPY, "gpu_memset": _MEMSET, "memset": _MEMSET,
        "gpu_user_annotation": Kind(Domain.DEVICE, Category.ANNOTATION),
    }
)  # fmt: skip
"""By lower-case category; the names of the files of 2020-21 (Operator, Kernel, Runtime) are among them."""

STEP_NAMES = ("train", "step", "TraceContext", "Profiled batch")
"""Names of JAX's and TensorFlow's step markers, which say the number of the step in ``step_num``."""

FLOW_LAUNCH = frozenset({"ac2g", "async_cpu_to_gpu", "async_gpu", "async", "hosttodevice"})
"""Categories of flows from a launch to what it launched."""

KINETO_META = frozenset({"schemaVersion", "deviceProperties", "distributedInfo", "traceName", "baseTimeNanoseconds"})
"""Top-level keys that only Kineto writes."""

DEVICE_PROCESS = re.compile(r"^/device:(?:GPU|TPU|CUSTOM)|^Ascend Hardware|^(?:NPU|XPU|HPU) \d+$")
"""Names of processes that are devices, in traces whose events have no category of their own."""

DERIVED_THREAD = re.compile(
    r"^(?:Steps|XLA Modules|Framework (?:Ops|Name Scope)|TensorFlow (?:Ops|Name Scope)|Source [Cc]ode|Launch Stats|"
    r"XLA TraceMe|XLA Ops? Context)"
)
"""Device threads that repeat or group the work of others."""

_RANK_PATTERNS = (
    re.compile(r"(?i)rank[-_ ]?(\d{1,6})(?:[-_ ]?of[-_ ]?(\d{1,6}))?(?!\d)"),
    re.compile(r"(?i)(?:^|[._-])worker[-_]?(\d{1,6})(?=[._-]|$)"),
    re.compile(r"(?i)(?:^|[._-])(?:kineto|et|host|eg)[-_]?(\d{1,6})(?=(?:_plus)?(?:\.|$))"),
)


def rank_in_name(name: str) -> tuple[int, int]:
    """Rank and world size that a file name states, -1 for what it does not.

    >>> rank_in_name("b200_rank0of8.json"), rank_in_name("worker3_step_12.pt.trace.json"), rank_in_name("trace.json")
    ((0, 8), (3, -1), (-1, -1))
    """
    for pattern in _RANK_PATTERNS:
        found = pattern.search(name)
        if found:
            groups: tuple[Any, ...] = found.groups()
            return int(groups[0]), int(groups[1]) if len(groups) > 1 and groups[1] else -1
    return -1, -1
