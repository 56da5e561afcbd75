"""In what pieces of work are alike: names without what vendors and versions add, and numbers for them.

Shared by the alignment of totals (``align``) and that of call trees (``trees``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from chakra_core.trace import Trace

__all__ = ["How", "Keys", "counted_as", "equivalent", "normalise_kernel", "normalise_operator", "operator_keys"]

I64 = NDArray[np.int64]


class How(IntEnum):
    """What two pieces of work have in common, surest first."""

    PINNED = 0
    SHAPES = 1
    OPERATOR = 2
    EQUIVALENT = 3
    PLACE = 4
    ENCLOSING = 5
    REGION = 6
    KERNEL = 7
    INFERRED = 8
    GROUP = 9
    UNMATCHED = 10

    @property
    def label(self) -> str:
        """In words, for tables."""
        return (
            "pinned", "operator and shapes", "operator", "equivalent operator", "place in the call tree",
            "enclosing operator", "split or fused", "name", "operator of like kernels", "group", "unmatched",
        )[self]  # fmt: skip

    @property
    def confidence(self) -> float:
        """How sure it is that the work corresponds, 0..1: an order of the kinds of evidence, not a probability."""
        return (1.0, 0.95, 0.8, 0.7, 0.7, 0.6, 0.5, 0.6, 0.5, 1.0, 0.0)[self]


_VENDOR = re.compile(
    r"(?<![a-z])_?(?:cudnn|miopen|mkldnn|cublas(?:lt)?|hipblas(?:lt)?|rocblas|cuda|hip|rocm)(?![a-z])_?"
)
_NCCL = re.compile(r"^(?:nccl|rccl|hccl|gloo|mpi|ucc|xccl|oneccl):")
_TRAILING_NUMBER = re.compile(r"[#_ .]+\d+$")
_HASH = re.compile(r"\b(?:[0-9a-f]{16,}|(?=[a-z]*\d)[a-z2-7]{40,})\b")
_ARCH = re.compile(r"\b(?:sm_?\d+|gfx[0-9a-f]+|ampere|volta|turing|hopper|maxwell|pascal|blackwell|ada|cdna\d?)_")
_TILE = re.compile(r"\d+(?:x\d+)+|\d+")


_EQUIVALENT: dict[str, str] = {
    "aten::mm": "matrix product", "aten::addmm": "matrix product", "aten::_scaled_mm": "matrix product",
    "aten::bmm": "batched matrix product", "aten::baddbmm": "batched matrix product",
    "aten::_flash_attention_forward": "attention", "aten::_efficient_attention_forward": "attention",
    "aten::_scaled_dot_product_attention": "attention", "aten::_scaled_dot_product_attention_math": "attention",
    "aten::_flash_attention_backward": "attention backward",
    "aten::_efficient_attention_backward": "attention backward",
    "aten::native_batch_norm": "batch normalisation", "aten::batch_norm": "batch normalisation",
    "aten::_batch_norm_with_update": "batch normalisation",
    "aten::native_batch_norm_backward": "batch normalisation backward",
    "aten::batch_norm_backward": "batch normalisation backward",
}  # fmt: skip
"""Operators that compute the same (up to an addition), by normalised name."""

_BIASED = ("aten::addmm", "aten::baddbmm")


def equivalent(name: str, shape: str) -> tuple[str, str]:
    """``(family, shapes without a bias)`` of an operator that others can stand in for; else of itself."""
    family = _EQUIVALENT.get(name)
    if family is None:
        return name, ""
    sizes = shape.partition(":")[0]
    return family, sizes.partition("x")[2] if name in _BIASED else sizes if family.endswith("product") else ""


def normalise_operator(name: str) -> str:
    """An operator's name without what vendors and versions add to it.

    >>> normalise_operator("aten::miopen_convolution"), normalise_operator("aten::cudnn_convolution")
    ('aten::convolution', 'aten::convolution')
    >>> normalise_operator("triton_poi_fused_add_3"), normalise_operator("rccl:all_reduce")
    ('triton_poi_fused_add', 'comm:all_reduce')
    """
    text = _HASH.sub("", _NCCL.sub("comm:", name))
    prefix, colons, rest = text.rpartition("::")
    if prefix in ("aten", "torch", "at::native"):
        bare = _VENDOR.sub("", rest)
        if bare != rest and not rest.endswith("_"):
            bare = bare.rstrip("_")
        text = f"{prefix}{colons}{bare or rest}"
    return _TRAILING_NUMBER.sub("", text) or name


def normalise_kernel(name: str) -> str:
    """A kernel's name without return type, template arguments, parameters, architecture and tile sizes.

    >>> normalise_kernel("void at::native::vectorized_elementwise_kernel<4, F>(int, F)")
    'at::native::vectorized_elementwise_kernel'
    >>> normalise_kernel("sm90_xmma_gemm_f32_tn_n_tilesize128x128x64") == normalise_kernel(
    ...     "sm80_xmma_gemm_f32_tn_n_tilesize64x64x32")
    True
    """
    text = name.removeprefix("void ")
    cut = min((at for at in (text.find("<"), text.find("(")) if at > 0), default=len(text))
    return _TILE.sub("#", _ARCH.sub("", text[:cut])).strip(" _") or name


@dataclass(slots=True)
class Keys:
    """Numbers for the keys of all runs of one comparison."""

    texts: list[str] = field(default_factory=list)
    kinds: list[How] = field(default_factory=list)
    _number: dict[tuple[How, str, str], int] = field(default_factory=dict)

    def number(self, kind: How, text: str, scope: str = "") -> int:
        """The number of a key; keys are equal where kind, text and scope (such as a category) are."""
        key = (kind, text, scope)
        if key not in self._number:
            self._number[key] = len(self.texts)
            self.texts.append(text)
            self.kinds.append(kind)
        return self._number[key]


def counted_as(name: str, aliases: Mapping[str, str] | None) -> str:
    """Normalised name of an operator, or of what it is pinned to."""
    plain = normalise_operator(name)
    if not aliases:
        return plain
    pinned = aliases.get(name, aliases.get(plain))
    return plain if pinned is None else normalise_operator(pinned)


def operator_keys(trace: Trace, rows: I64, keys: Keys, aliases: Mapping[str, str] | None = None) -> I64:
    """Numbers (rows, 3) of name and shapes, name, family of operators; made once per distinct operator.

    ``aliases`` gives names (as in the trace, or normalised) those of other operators, which they then count as.
    """
    c = trace.columns
    shapes = len(trace.shapes) + 1
    pair = c.name[rows].astype(np.int64) * shapes + c.shape[rows] + 1
    distinct, inverse = np.unique(pair, return_inverse=True)
    numbers = np.empty((len(distinct), 3), np.int64)
    for at, code in enumerate(distinct.tolist()):
        name = counted_as(trace.names[code // shapes], aliases)
        shape = trace.shapes[code % shapes - 1] if code % shapes else ""
        numbers[at, 0] = keys.number(How.SHAPES, f"{name} {shape}".strip())
        numbers[at, 1] = keys.number(How.OPERATOR, name)
        family, sizes = equivalent(name, shape)
        numbers[at, 2] = numbers[at, 1] if family == name else keys.number(How.EQUIVALENT, f"{family} {sizes}".strip())
    return numbers[inverse]
